//! The program: its demonstration, its errors, and routers that talk to each other.
#![cfg(target_os = "linux")]

mod mistakes;
mod program;
mod sessions;

use std::sync::Mutex;

use router_peer::demo::CHECKS;

use crate::program::router_peer;

/// How many demonstrations run at the same time.
const WORKERS: usize = 4;

/// Runs the demonstration. Returns its exit code and last line.
fn demonstrate(arguments: &[&str]) -> (Option<i32>, String) {
    let output = router_peer().args(arguments).output().unwrap();
    let last = String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned();
    (output.status.code(), last)
}

#[test]
fn each_sabotage_is_noticed() {
    let waiting = Mutex::new(CHECKS.iter());
    let next = || waiting.lock().unwrap().next();
    let work = || {
        while let Some(check) = next() {
            let seen = demonstrate(&["--only", check.name, "--break", check.name]);
            assert_eq!(seen, (Some(1), format!("router-peer: failed: {}", check.name)));
        }
    };
    std::thread::scope(|scope| (0..WORKERS).for_each(|_| drop(scope.spawn(work))));
}

#[test]
fn all_checks_pass_but_the_sabotaged_one() {
    let seen = demonstrate(&["--break", "unsigned-reset"]);
    assert_eq!(seen, (Some(1), "router-peer: failed: unsigned-reset".to_owned()));
    let seen = demonstrate(&["--only", "unsigned-reset"]);
    assert_eq!(seen, (Some(0), "router-peer: all checks passed".to_owned()));
}
