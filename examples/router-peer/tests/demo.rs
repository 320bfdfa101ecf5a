//! The demonstration through the program itself: it passes, and each sabotage is noticed.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use router_peer::demo::CHECKS;

fn demonstrate(arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_router-peer")).args(arguments).output().unwrap();
    let last = String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned();
    (output, last)
}

#[test]
fn all_checks_pass() {
    let (output, last) = demonstrate(&[]);
    assert_eq!(last, "router-peer: all checks passed", "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn each_sabotage_is_noticed() {
    for check in CHECKS {
        let (output, last) = demonstrate(&["--only", check.name, "--break", check.name]);
        assert_eq!(last, format!("router-peer: failed: {}", check.name));
        assert_eq!(output.status.code(), Some(1));
    }
}
