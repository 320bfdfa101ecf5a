//! Files of keys from a disk or a stream: how they are read, how their format is found, and what is said if it is not.

use std::fs::{Permissions, set_permissions, write};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use wireseal_keys::{
    End, Format, Implementation, load_key_chains, load_with_octets, read, read_key_chains, read_wiped,
};

const TOML: &str = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nrecv-id = 2\nalgorithm = \
                    \"AES-128-CMAC-96\"\nsecret = \"a secret of one file\"\n";

/// Gives its octets one by one, interrupted before each, and then ends with this error or without one.
struct Slow<'a>(&'a [u8], bool, Option<io::ErrorKind>);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        match (self.1, self.0, self.2) {
            (true, ..) => Err(io::ErrorKind::Interrupted.into()),
            (false, [first, rest @ ..], _) => {
                (into[0], self.0) = (*first, rest);
                Ok(1)
            }
            (false, [], Some(kind)) => Err(kind.into()),
            (false, [], None) => Ok(0),
        }
    }
}

#[test]
fn a_stream_is_read_to_its_end_and_to_its_limit() {
    // Longer than the first buffers.
    let octets: Vec<u8> = (0..40_000_u32).map(|number| number as u8).collect();
    for expected in [0, 1, 39_999, 40_000, 40_001, u64::MAX] {
        let read = read_wiped(&mut Slow(&octets, false, None), expected, octets.len());
        assert!(read.is_ok_and(|read| *read == octets), "{expected}");
    }
    for (length, limit, is_read) in
        [(0, 0, true), (1, 0, false), (10, 10, true), (11, 10, false), (9000, 8999, false)]
    {
        let read = read_wiped(&mut &octets[..length], 0, limit).map(|read| read.len());
        assert_eq!(read.ok(), is_read.then_some(length), "{length} of {limit}");
    }
    let refused = |result: io::Result<zeroize::Zeroizing<Vec<u8>>>| result.map(|_| ()).unwrap_err();
    let long = refused(read_wiped(&mut &octets[..], 0, 100));
    assert_eq!(
        (long.kind(), long.to_string().as_str()),
        (io::ErrorKind::FileTooLarge, "too large for a file of keys")
    );
    let broken = refused(read_wiped(&mut Slow(b"abc", false, Some(io::ErrorKind::BrokenPipe)), 0, 100));
    assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_file_is_read_for_either_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    write(&path, TOML).unwrap();
    set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
    for (end, ids) in [(End::ThisEnd, (1, 2)), (End::Peer, (2, 1))] {
        let (chains, file) = load_key_chains(&path, end).unwrap();
        let mkt = chains.get("core").unwrap().keys()[0].mkt();
        assert_eq!((mkt.send_id().0, mkt.recv_id().0), ids);
        assert_eq!((file.format, file.chains.len()), (Some(Format::Toml), 1));
        assert!(
            matches!(&file.warnings[..], [warning] if warning.contains("can read it")),
            "{:?}",
            file.warnings
        );
    }
    let (file, octets) = load_with_octets(&path, None).unwrap();
    assert_eq!((octets.as_slice(), file.warnings.len()), (TOML.as_bytes(), 1));
    // Nothing in it shows its format.
    write(&path, "").unwrap();
    assert_eq!(
        load_key_chains(&path.with_extension("none"), End::ThisEnd).map(|_| ()).unwrap_err().to_string(),
        { format!("{}: No such file or directory (os error 2)", path.with_extension("none").display()) }
    );
    assert!(load_key_chains(&path, End::ThisEnd).unwrap().0.chains().is_empty(), "a file without chains");
    write(&path, b"[[key-chain]]\nname = \"\xff\"\n").unwrap();
    let error = load_key_chains(&path, End::ThisEnd).map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, format!("{}: line 2, column 9: not UTF-8 text", path.display()));
    write(&path, "[[key-chain]]\n").unwrap();
    let error = load_key_chains(&path, End::ThisEnd).map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, format!("{}: line 1, column 1: missing field `name`", path.display()));
    let folder = load_key_chains(folder.path(), End::ThisEnd).map(|_| ()).unwrap_err().to_string();
    assert!(folder.ends_with("Is a directory (os error 21)"), "{folder}");
}

#[test]
fn the_format_of_a_text_is_given_or_found_or_toml() {
    let of = |name: &str, text: &str, format| {
        let read = read_key_chains(Path::new(name), text, format, End::ThisEnd);
        read.map(|(chains, file)| (file.format, chains.chains().len())).map_err(|error| error.to_string())
    };
    assert_eq!(of("keys", TOML, None), Ok((Some(Format::Toml), 1)));
    assert_eq!(of("keys.json", TOML, Some(Format::Toml)), Ok((Some(Format::Toml), 1)));
    assert_eq!(of("keys", "# nothing yet\n", None), Ok((Some(Format::Toml), 0)));
    let json = "{\"ietf-key-chain:key-chains\": {}}";
    assert_eq!(of("keys", json, None), Ok((Some(Format::Json), 0)));
    assert!(of("keys", json, Some(Format::Toml)).unwrap_err().starts_with("keys: line 1, column 1"));
    let xr = include_str!("../data/routers/ios-xr.cfg")
        .replace("password 011A08105E19091F", "password6 5450615A415E")
        .replace("clear keys1keys1keys1", "password6 5450615A415E");
    let error = of("xr", &xr, None).unwrap_err();
    assert!(error.starts_with("xr: line ") && error.contains("is encrypted (type 6)"), "{error}");
    // Keys that collide are an error, which names the file.
    let twice = TOML.to_owned()
        + &TOML[TOML.find("[[key-chain.key]]").unwrap()..].replace("recv-id = 2", "recv-id = 3");
    let error = of("keys", &twice, None).unwrap_err();
    assert!(
        error.starts_with("keys: line 9, column 11, ") && error.contains("key chain \"core\", key 1, "),
        "{error}"
    );
}

/// A text may be of a format that nothing in it shows.
#[test]
fn a_text_of_unknown_format_is_tried_in_every_format() {
    let said = |text: &str| read(Path::new("keys"), text, None).map(|_| ()).unwrap_err().to_string();
    let yaml = "# ours\n\"keychains\":\n- config: {name: core}\n  keys:\n  - config: {key-id: 1, receive-id: 1, crypto-algorithm: \
                hmac_sha_1_96, secret-key: Vmg4enFrVDFwMHdZaFUzbQ==}\n";
    let error = said(yaml);
    assert!(error.contains("gobgp: has keys") && error.contains("name it with --format"), "{error}");
    let error = said("nothing that any router has\n");
    assert!(error.contains("no key for TCP-AO") && !error.contains("has keys"), "{error}");
}

#[test]
fn a_line_shows_the_format_of_its_text() {
    for (text, format) in [
        ("Key-chain core:\n", Format::IosXe),
        ("Key-chain: core tcp\n", Format::IosXe),
        ("TCP key chain\n", Format::IosXe),
        ("tcp ao core\n", Format::Vrp),
        ("tcp-kind 29\n", Format::Vrp),
        ("tcp-algorithm-id 1\n", Format::Vrp),
        ("peer 192.0.2.1 tcp-ao policy\n", Format::Vrp),
        ("session shared-secret profile core\n", Format::Eos),
        ("management security\n", Format::Eos),
        ("frr version 10\n", Format::Frr),
        ("frr defaults traditional\n", Format::Frr),
    ] {
        assert_eq!(Format::of(Path::new("router.cfg"), &format!("hello\n{text}")), Some(format), "{text}");
    }
}

/// A part of the next test, in a process of its own whose standard input is a file.
#[test]
fn standard_input_in_a_process_of_its_own() {
    if std::env::var_os("WIRESEAL_KEYS_STDIN").is_some() {
        let read = load_with_octets(Path::new("-"), Some(Format::Toml));
        println!(
            "outcome: {}",
            read.map_or_else(
                |error| error.to_string(),
                |(file, octets)| format!("{} {}", file.chains[0].name, octets.len())
            )
        );
    }
}

#[test]
fn standard_input_is_read() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path().join("keys"), TOML).unwrap();
    write(folder.path().join("wrong"), b"\xff").unwrap();
    let outcome = |path: &Path| {
        let mut own = std::process::Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", "--nocapture", "loading::standard_input_in_a_process_of_its_own"])
            .env("WIRESEAL_KEYS_STDIN", "");
        let output = own.stdin(std::fs::File::open(path).unwrap()).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        output.lines().find_map(|line| line.split_once("outcome: ")).unwrap().1.to_owned()
    };
    assert_eq!(outcome(&folder.path().join("keys")), format!("core {}", TOML.len()));
    assert_eq!(outcome(&folder.path().join("wrong")), "-: line 1, column 1: not UTF-8 text");
    assert_eq!(outcome(folder.path()), "-: Is a directory (os error 21)");
}

#[test]
fn formats_and_implementations_are_known_by_their_names() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
        assert_eq!(format!("{format:>12}"), format!("{:>12}", format.name()));
        assert!(!format.about().is_empty());
    }
    let names: Vec<_> = Implementation::all().map(Implementation::name).collect();
    assert_eq!(names, ["linux", "bird", "junos", "ios-xr", "ios-xe", "eos", "vrp", "sr-os", "gobgp"]);
    for implementation in Implementation::all() {
        assert_eq!(implementation.name().parse(), Ok(implementation));
        assert_eq!(
            format!("{implementation:?} {implementation:>9}"),
            format!("{implementation} {:>9}", implementation.to_string())
        );
        assert!(!implementation.about().is_empty());
    }
    assert_eq!("Toml".parse::<Format>().unwrap_err().to_string(), "unknown format of keys");
    assert_eq!("ios".parse::<Implementation>().unwrap_err().to_string(), "unknown implementation of TCP-AO");
    let longest = |format| Implementation::reading(format).max_secret();
    assert_eq!((longest(None), longest(Some(Format::Bird))), (Some(80), Some(80)));
}

#[test]
fn every_format_that_can_be_changed_has_commands_to_apply_and_show_a_change() {
    for format in Format::ALL {
        let [apply, show] = [format.apply_commands(), format.show_commands()];
        let can = format.cannot_change().is_none();
        assert_eq!((apply.contains("{file}"), !show.is_empty()), (can, can), "{format}");
    }
    let by_commands: Vec<_> =
        Format::ALL.into_iter().filter(|format| format.is_changed_by_commands()).collect();
    assert_eq!(by_commands, [Format::Junos, Format::IosXr, Format::Eos, Format::Vrp, Format::SrOs]);
}
