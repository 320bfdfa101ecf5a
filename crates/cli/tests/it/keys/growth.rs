//! The time to read a file grows with the file, not with its square.

use std::fmt::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use wireseal::keys::{Format, read};

/// A file of so many things.
type File = fn(usize) -> String;

const FILES: [(&str, Format, File); 7] = [
    ("BIRD", Format::Bird, |count| {
        written(count, |text, number| {
            write!(
                text,
                "protocol bgp p{number} {{ neighbor 10.{}.{}.1 as 1; authentication ao;\n\
                 keys {{ key {{ id 1; secret \"hunter2\"; algorithm hmac sha256; }} }} }}\n",
                number / 256,
                number % 256
            )
        })
    }),
    ("Junos", Format::Junos, |count| {
        written(count, |text, number| {
            junos_key(text, "core", number, number)?;
            junos_peer(text, "core", number)
        })
    }),
    ("Junos, chains", Format::Junos, |count| {
        written(count, |text, number| {
            let chain = format!("c{number}");
            junos_key(text, &chain, 1, 1)?;
            junos_peer(text, &chain, number)
        })
    }),
    ("Junos, deactivated", Format::Junos, |count| {
        written(1, |text, _| junos_key(text, "core", 1, 1))
            + &written(count, |text, number| {
                junos_peer(text, "core", number)?;
                writeln!(text, "deactivate protocols bgp group g{number} neighbor 10.0.0.1")
            })
    }),
    ("IOS XR", Format::IosXr, |count| {
        written(count, |text, number| ios_xr_key(text, "core", number))
            + "tcp ao\n keychain core\n"
            + &written(count, |text, number| {
                writeln!(text, "  key {number} SendID {0} ReceiveID {0}", number % 256)
            })
    }),
    ("IOS XR, chains", Format::IosXr, |count| {
        written(count, |text, number| ios_xr_key(text, &format!("c{number}"), 1))
            + "tcp ao\n"
            + &written(count, |text, number| {
                writeln!(text, " keychain c{number}\n  key 1 SendID 1 ReceiveID 1")
            })
            + "router bgp 1\n"
            + &written(count, |text, number| {
                let (high, low) = (number / 256, number % 256);
                writeln!(text, " neighbor 10.{high}.{low}.1\n  ao c{number} include-tcp-options enable")
            })
    }),
    // Its keys collide, so that each is read by itself.
    ("JSON", Format::Json, |count| {
        let mut keys = written(count, |text, number| {
            write!(
                text,
                r#"{{"key-id": "{number}", "crypto-algorithm": "hmac-sha-1", "key-string": {{"keystring": "hunter2"}},
                "ietf-tcp:authentication": {{"ao": {{"send-id": 1, "recv-id": 1}}}}}},"#
            )
        });
        keys.pop();
        format!(r#"{{"ietf-key-chain:key-chains": {{"key-chain": [{{"name": "core", "key": [{keys}]}}]}}}}"#)
    }),
];

/// So many parts.
fn written(count: usize, write: impl Fn(&mut String, usize) -> fmt::Result) -> String {
    let mut text = String::new();
    for number in 0..count {
        write(&mut text, number).expect("a String takes every write");
    }
    text
}

fn junos_key(text: &mut String, chain: &str, number: usize, minute: usize) -> fmt::Result {
    let key = format!("set security authentication-key-chains key-chain {chain} key {number}");
    let (day, hour, minute) = (minute / 1440, minute / 60 % 24, minute % 60);
    writeln!(
        text,
        "{key} secret hunter2\n{key} algorithm ao\n{key} start-time \"{}-01-01.{hour:02}:{minute:02}:00 +0000\"\n\
         {key} ao-attribute send-id 1\n{key} ao-attribute recv-id 1\n\
         {key} ao-attribute cryptographic-algorithm hmac-sha-1-96",
        2000 + day
    )
}

fn junos_peer(text: &mut String, chain: &str, number: usize) -> fmt::Result {
    let group = format!("set protocols bgp group g{number}");
    let (high, low) = (number / 256, number % 256);
    writeln!(text, "{group} neighbor 10.{high}.{low}.1\n{group} authentication-key-chain {chain}")
}

fn ios_xr_key(text: &mut String, chain: &str, number: usize) -> fmt::Result {
    writeln!(
        text,
        "key chain {chain}\n key {number}\n  key-string clear hunter2\n  cryptographic-algorithm HMAC-SHA1-96"
    )
}

fn time(text: &str, format: Format) -> Duration {
    let start = Instant::now();
    let file = read(Path::new("keys"), text, Some(format)).unwrap_or_else(|error| panic!("{error}"));
    assert!(!file.chains.is_empty());
    start.elapsed()
}

#[test]
fn ao_37_the_time_to_read_a_file_grows_with_its_length() {
    for (name, format, file) in FILES {
        let texts = [file(250), file(2_000)];
        let times = || texts.each_ref().map(|text| time(text, format));
        // Eight times as many would take 64 times as long if each were compared with all others. A busy machine disturbs some attempts.
        let is_linear = |_| times().windows(2).all(|times| times[1] < 24 * times[0]);
        assert!((0..8).any(is_linear), "{name}: {:?}", times());
    }
}
