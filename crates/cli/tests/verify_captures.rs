//! Real sessions, with the right keys and with wrong ones, through the program.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod verify_support;

use std::process::{Command, Output};

use verify_support::{IPV4_KEY, IPV6_KEY, capture_path};

const IPV4: &str = "bird-ipv4-cmac.pcap";
const IPV6: &str = "bird-ipv6-sha1.pcap";

fn verify(capture: &str, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wireseal"));
    let Output { stdout, status, .. } =
        command.arg("verify").arg(capture_path(capture)).args(arguments).output().unwrap();
    (String::from_utf8(stdout).unwrap(), status.code())
}

#[track_caller]
fn assert_answer(capture: &str, key: &str, code: i32, words: &[&str]) {
    let (output, status) = verify(capture, &["--key", key]);
    assert_eq!(status, Some(code), "{output}");
    for word in words {
        assert!(output.contains(word), "{word:?} is not in:\n{output}");
    }
    assert!(!output.contains("first-secret") && !output.contains("passphrase"), "a secret is printed");
}

#[test]
fn every_segment_of_both_sessions_is_good() {
    assert_answer(IPV4, IPV4_KEY, 0, &["all 34 segments are good"]);
    assert_answer(IPV6, IPV6_KEY, 0, &["all 33 segments are good"]);
}

#[test]
fn an_inverted_coverage_of_options_is_diagnosed() {
    for (capture, key) in [(IPV4, IPV4_KEY), (IPV6, IPV6_KEY)] {
        let key = format!("{key},options=excluded");
        let words = [
            "covers the other TCP options with the MAC",
            "correct the coverage of TCP options in the key given here",
        ];
        assert_answer(capture, &key, 1, &words);
    }
}

#[test]
fn a_wrong_secret_is_diagnosed() {
    let key = "send=100,recv=100,alg=aes-128-cmac-96,secret=second-secret";
    let words = [
        "34 of 34 segments failed: another secret is the most likely",
        "the segments of either end",
        "correct the secret",
    ];
    assert_answer(IPV4, key, 1, &words);
    let key = "send=7,recv=7,alg=hmac-sha-1-96,secret=another";
    let words = [
        "33 of 33 segments failed: another secret is the most likely",
        "the segments of either end",
        "correct the secret",
    ];
    assert_answer(IPV6, key, 1, &words);
}

#[test]
fn ids_that_do_not_mirror_each_other_are_diagnosed() {
    let words = ["both ends send KeyID", "whose ids differ", "correct the ids of the key given here"];
    assert_answer(IPV4, &IPV4_KEY.replace("recv=100", "recv=101"), 1, &words);
    assert_answer(IPV6, &IPV6_KEY.replace("send=7", "send=8"), 1, &words);
}

#[test]
fn a_file_of_keys_serves_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys.toml");
    let text = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 100\nalgorithm = \"AES-128-CMAC-96\"\n\
                secret = \"first-secret\"\n";
    std::fs::write(&path, text).unwrap();
    let (output, status) = verify(IPV4, &["--keys", path.to_str().unwrap()]);
    assert_eq!(status, Some(0), "{output}");
    assert!(output.contains("core/100"));
}

#[test]
fn what_is_no_use_on_the_command_line_is_said_in_one_line() {
    for arguments in [
        &["--key", IPV4_KEY, "--isn", "nonsense"][..],
        &["--key", IPV4_KEY, "--nat", "10.0.0.1"],
        &["--key", IPV4_KEY, "--peer", "nobody"],
        &[],
    ] {
        let (output, status) = verify(IPV4, arguments);
        assert_eq!((output.as_str(), status), ("", Some(2)), "{arguments:?}");
    }
}

#[test]
fn a_damaged_capture_is_reported_with_what_came_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("damaged.pcap");
    let whole = std::fs::read(capture_path(IPV4)).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let (output, status) = verify(path.to_str().unwrap(), &["--key", IPV4_KEY]);
    assert_eq!(status, Some(3), "{output}");
    assert!(output.contains("52"), "the packet where it broke off: {output}");
    let (json, _) = verify(path.to_str().unwrap(), &["--key", IPV4_KEY, "--json"]);
    assert!(json.contains("damage"), "{json}");
}
