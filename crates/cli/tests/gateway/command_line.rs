//! Command lines that cannot be used are answered in one line and with exit code 2.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::first;

fn wireseal(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_wireseal")).args(arguments).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn no_number_panics_or_aborts() {
    let most = u64::MAX.to_string();
    for (option, numbers) in [
        ("--connections", &["0", "-1", "1048577", "4000000000", &most, "many"][..]),
        ("--queue", &["-1", "65001", "65535", &most]),
        ("--threads", &["0", "65", "65535", &most]),
        ("--port", &["0", "65536"]),
    ] {
        for number in numbers {
            let argument = format!("{option}={number}");
            let (code, said) = wireseal(&["gateway", "--keys", "/no/such", "--peer", "192.0.2.1", &argument]);
            assert_eq!(code, 2, "{said}");
            assert!(said.starts_with("error: invalid value"), "{argument}: {said}");
            assert!(
                option != "--connections" || said.contains("from 1 to 1048576, which takes 1.2 GiB"),
                "{said}"
            );
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.toml");
    fs::write(&keys, first()).unwrap();
    fs::set_permissions(&keys, Permissions::from_mode(0o600)).unwrap();
    // 76 GiB, which no machine that this is tested on has.
    let room = ["--connections", "1048576", "--threads", "64", "--queue", "65000"];
    let (code, said) = wireseal(
        &[&["gateway", "--keys", keys.to_str().unwrap(), "--peer", "192.0.2.1"], &room[..]].concat(),
    );
    let expected = "wireseal: 1048576 connections in each of 64 threads take 77824 MiB: name fewer\n";
    assert_eq!((code, said.as_str()), (2, expected));
}

#[test]
fn keys_that_everybody_can_write_are_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.toml");
    fs::write(&keys, first()).unwrap();
    for (mode, can) in
        [(0o604, Some("read")), (0o602, Some("write")), (0o606, Some("read and write")), (0o660, None)]
    {
        fs::set_permissions(&keys, Permissions::from_mode(mode)).unwrap();
        let (code, said) =
            wireseal(&["gateway", "--keys", keys.to_str().unwrap(), "--peer", "192.0.2.1", "--dry-run"]);
        assert_eq!((code, said.contains("every user of this machine can")), (0, can.is_some()), "{said}");
        assert!(can.is_none_or(|can| said.contains(&format!("can {can} it;"))), "{said}");
    }
}

#[test]
fn completions_offer_nothing_that_is_hidden() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, script) = wireseal(&["completions", shell]);
        assert_eq!(code, 0);
        for hidden in ["is-in-background", "is-guarded"] {
            assert!(!script.contains(hidden), "{shell}");
        }
        for shown in ["remove-rules", "accept-icmp", "connections", "explain", "version"] {
            assert!(script.contains(shown), "{shell}: {shown}");
        }
    }
}
