//! The demonstration through the program itself: it passes, and each sabotage is noticed.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};
use std::sync::Mutex;

use router_peer::demo::CHECKS;

/// Demonstrations that run at once.
const WORKERS: usize = 4;

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
    let waiting = Mutex::new(CHECKS.iter());
    let work = || {
        loop {
            let Some(check) = waiting.lock().unwrap().next() else { return };
            let (output, last) = demonstrate(&["--only", check.name, "--break", check.name]);
            assert_eq!(last, format!("router-peer: failed: {}", check.name));
            assert_eq!(output.status.code(), Some(1), "{}", check.name);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
}

#[test]
fn a_sabotage_harms_no_other_check() {
    let (output, last) = demonstrate(&["--break", "unsigned-reset"]);
    assert_eq!(last, "router-peer: failed: unsigned-reset", "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1));
}
