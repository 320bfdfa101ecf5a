//! `--key`: every part, where its secret may come from, and errors.

use linux_keyutils::{KeyRing, KeyRingIdentifier};
use wireseal::keys::from_argument;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{ChainKey, KeyFile};
use wireseal_tcp_ao::{KeyId, OptionCoverage};

use crate::support::files::{Files, set_mode};
use crate::support::program::wireseal;

fn key(text: &str) -> (ChainKey, KeyFile) {
    let file = from_argument(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    (file.chains[0].keys[0].clone(), file)
}

fn error(text: &str) -> String {
    from_argument(text).expect_err(text).to_string()
}

#[test]
fn every_part_is_read() {
    let (key, file) =
        key("send=100,recv=101,alg=AES-128-CMAC-96,secret=a b=c,mac=16,options=excluded,peer=192.0.2.0/24");
    assert_eq!((key.send_id, key.recv_id), (KeyId(100), KeyId(101)));
    assert_eq!((key.algorithm, key.mac_length), (TcpAoAlgorithm::Aes128Cmac, 16));
    assert_eq!(key.options, OptionCoverage::Excluded);
    assert_eq!(key.secret.expose(), b"a b=c");

    let keys = file.keys().expect("a usable key").keys;
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0].name, "100");
    assert_eq!(keys[0].peer, Some("192.0.2.0/24".parse().expect("a prefix")));
    assert_eq!(keys[0].key.mkt().parameters().mac_length(), 16);
}

#[test]
fn parts_left_out_have_defaults() {
    let (key, file) = key("alg=hmac(sha256),secret-hex=00:fF,send=7");
    assert_eq!((key.send_id, key.recv_id), (KeyId(7), KeyId(7)));
    assert_eq!((key.mac_length, key.options), (12, OptionCoverage::Covered));
    assert_eq!(key.secret.expose(), [0, 255]);
    assert_eq!(file.keys().expect("a usable key").keys[0].peer, None);
    let (key, _) = self::key("alg=HMAC-SHA256-128,secret=short,send=7");
    assert_eq!(key.mac_length, 16);
}

#[test]
fn a_secret_on_the_command_line_causes_a_warning() {
    for part in ["secret=visible", "secret-hex=00ff"] {
        let (_, file) = key(&format!("send=1,alg=hmac(sha1),{part}"));
        let [warning] = &file.warnings[..] else { panic!("one warning for {part}") };
        for word in ["list of processes", "secret-file=", "secret-env=", "secret-keyring="] {
            assert!(warning.contains(word), "{warning}");
        }
        assert!(!warning.contains("visible") && !warning.contains("00ff"), "{warning}");
    }
}

#[test]
fn a_secret_is_read_from_a_file_without_its_last_line_end() {
    let files = Files::new();
    let path = files.path("secret");
    let argument = format!("send=1,alg=hmac(sha1),secret-file={}", path.display());
    let missing = error(&argument);
    assert!(missing.starts_with("--key: secret-file=: ") && missing.contains("No such file"), "{missing}");
    for (content, secret) in [
        (&b"from a file\n"[..], &b"from a file"[..]),
        (b"from a file\r\n", b"from a file"),
        (b"from a file\n\n", b"from a file\n"),
        (b" from, a file ", b" from, a file "),
        (b"\x00\xff\n", b"\x00\xff"),
    ] {
        set_mode(&files.file("secret", content), 0o640);
        let (key, file) = key(&argument);
        assert_eq!(key.secret.expose(), secret);
        assert_eq!(file.warnings, [""; 0]);
    }
    set_mode(&path, 0o604);
    let (_, file) = key(&argument);
    let expected = "every user of this machine can read it (mode 0604)";
    assert!(file.warnings[0].contains(expected), "{:?}", file.warnings);
}

#[test]
fn a_secret_is_read_from_the_environment() {
    let path = std::env::var_os("PATH").expect("PATH is set wherever tests run");
    let (key, file) = key("send=1,alg=hmac(sha1),secret-env=PATH");
    assert_eq!(key.secret.expose(), path.as_encoded_bytes());
    assert_eq!(file.warnings, [""; 0]);
    for (name, words) in [
        ("", "\"\""),
        ("=", "variable of that name"),
        ("hunter2", "variable of that name"),
        ("WIRESEAL_NO_SUCH_VARIABLE", "\"WIRESEAL_NO_SUCH_VARIABLE\""),
    ] {
        let error = error(&format!("send=1,alg=hmac(sha1),secret-env={name}"));
        assert_eq!(error, format!("--key: secret-env=: the environment has no {words}"));
    }
}

#[test]
fn a_secret_is_read_from_the_kernels_keyring() {
    let name = format!("wireseal-test-{}", std::process::id());
    let argument = format!("send=1,alg=hmac(sha1),secret-keyring={name}");
    let ring = KeyRing::from_special_id(KeyRingIdentifier::Session, true);
    // If the kernel or a filter of system calls refuses it, only the error can be tested.
    if let Ok(stored) = ring.and_then(|ring| ring.add_key(&name, &b"in the\nkernel\n"[..])) {
        let (key, file) = key(&argument);
        stored.invalidate().expect("the key is this test's own");
        assert_eq!(key.secret.expose(), b"in the\nkernel\n");
        assert_eq!(file.warnings, [""; 0]);
    }
    let error = error(&argument);
    let reasons = [
        format!("the kernel's keyring has no key \"{name}\" of type user"),
        format!("the kernel does not let this process read \"{name}\" from its keyring"),
        "the kernel's keyring cannot be used: Function not implemented (os error 38)".to_owned(),
    ];
    let is_clear = |reason: &String| error == format!("--key: secret-keyring=: {reason}");
    assert!(reasons.iter().any(is_clear), "{error}");
    let run = wireseal(["verify", "session.pcap", "--key", &argument]);
    assert_eq!((run.code, run.err), (2, format!("wireseal: {error}\n")));
}

#[test]
fn errors_name_the_part_and_never_the_secret() {
    const SECRET: &str = "hunter2hunter2";
    for (text, words) in [
        ("", "part 1 is none of"),
        ("send=1,recv", "part 2 is none of"),
        ("send=1,alg=hmac(sha1),secret=hunter2hunter2,hunter2hunter2", "part 4 is none of"),
        ("secrets=hunter2hunter2", "part 1 is none of"),
        ("send=1,send=2,alg=hmac(sha1),secret=hunter2hunter2", "send= is given twice"),
        ("recv=1,alg=hmac(sha1),secret=hunter2hunter2", "send= is missing"),
        ("send=1,secret=hunter2hunter2", "alg= is missing"),
        ("send=1,alg=hmac(sha1)", "secret= is missing"),
        ("send=1,alg=hmac(sha1),secret=hunter2hunter2,secret-hex=00", "secret= is given twice"),
        (
            "send=256,alg=hmac(sha1),secret=hunter2hunter2",
            "send=: must be a whole number from 0 to 255; \"256\" was given",
        ),
        ("send=hunter2hunter2,alg=hmac(sha1),secret=a", "send=: must be a whole number from 0 to 255"),
        (
            "send=1,recv=-1,alg=hmac(sha1),secret=hunter2hunter2",
            "recv=: must be a whole number from 0 to 255",
        ),
        ("send=+1,alg=hmac(sha1),secret=hunter2hunter2", "send=: must be a whole number from 0 to 255"),
        ("send=1,alg=hmac-md5,secret=hunter2hunter2", "alg=: MD5 is broken"),
        ("send=1,alg=hmac-sha-384,secret=hunter2hunter2", "\"hmac-sha-384\" was given"),
        ("send=1,alg=:,secret=hunter2hunter2", "alg=: unknown TCP-AO algorithm"),
        ("send=1,recv=1000,alg=hmac(sha1),secret=hunter2hunter2", "; \"1000\" was given"),
        ("send=1,alg=HMAC(SHA_512),secret=hunter2hunter2", "; \"HMAC(SHA_512)\" was given"),
        ("send=1,alg=aes256-cmac,secret=hunter2hunter2", "; \"aes256-cmac\" was given"),
        ("send=1,alg=hunter2hunter2,secret=a", "alg=: unknown TCP-AO algorithm"),
        (
            "send=1,alg=hmac(sha1),secret-hex=hunter2hunter2",
            "secret-hex=: expected pairs of hexadecimal digits",
        ),
        ("send=1,alg=hmac(sha1),secret=hunter2hunter2,mac=3", "mac=: expected 4 to 16 octets"),
        ("send=1,alg=hmac(sha1),secret=hunter2hunter2,mac=17", "mac=: expected 4 to 16 octets"),
        ("send=1,alg=hmac(sha1),secret=hunter2hunter2,options=yes", "options=: expected covered or excluded"),
        (
            "send=1,alg=hmac(sha1),secret=hunter2hunter2,peer=192.0.2.1/24",
            "peer=: expected an address, or a prefix with its other bits 0; \"192.0.2.1/24\" was given",
        ),
    ] {
        let error = error(text);
        assert!(error.starts_with("--key: ") && error.contains(words), "{text}: {error}");
        assert!(!error.contains(SECRET) && !error.contains('\n'), "{text}: {error}");
    }
}

/// For any secret, in any part.
#[test]
fn errors_do_not_quote_a_secret_in_the_wrong_part() {
    for secret in [
        "hunter2",
        "x",
        "my-machine-secret-2024",
        "shazam-sesame-99",
        "aes-4711",
        "00:ff:1e:c0",
        "a.b",
        "hmacs",
        "shä1",
    ] {
        for part in ["send", "recv", "alg", "mac", "options", "peer", "secret-env"] {
            let others = ["send=1", "alg=hmac(sha1)", "secret-hex=00"];
            let others = others.into_iter().filter(|other| !other.starts_with(&part[..3]));
            let mut text = others.collect::<Vec<_>>().join(",");
            text += &format!(",{part}={secret}");
            let error = error(&text);
            let quoted = error.strip_prefix(&format!("--key: {part}=: ")).expect("the part is named");
            assert!(!quoted.contains(&format!("\"{secret}\"")), "{text}: {error}");
        }
    }
}

#[test]
fn secrets_of_unusable_length_are_errors() {
    for (secret, words) in
        [(String::new(), "master key is empty"), ("x".repeat(81), "master key has 81 octets")]
    {
        let (_, file) = key(&format!("send=1,alg=hmac(sha1),secret={secret}"));
        let error = file.keys().expect_err("no MKT").to_string();
        assert!(error.starts_with("key 1, secret: ") && error.contains(words), "{error}");
    }
}

#[test]
fn no_secret_is_in_debug() {
    let (_, file) = key("send=1,alg=hmac(sha1),secret=hunter2hunter2");
    let shown = format!("{file:?} {:?}", file.keys().expect("a usable key"));
    assert!(shown.contains("Secret(14 octets, Text)"), "{shown}");
    let octets = format!("{:?}", b"hunter2hunter2");
    assert!(!shown.contains("hunter2") && !shown.contains(octets.trim_matches(['[', ']'])), "{shown}");
}
