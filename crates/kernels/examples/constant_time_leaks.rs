//! Whether `constant_time` runs every routine to where a mistake could be: each leak of a list is switched on in turn, and has to be
//! found in every routine that passes its place.
//!
//! The library's files are compiled into this program once more, with the places that they name as leaks: the library itself has
//! none of them. Memcheck looks where valgrind knows the instructions, and the t-test elsewhere, as for the library itself.
//!
//! `cargo run --release -p wireseal-kernels --example constant_time_leaks` does both and fails if a leak is not found, or if a
//! routine has none; `-- memcheck` and `-- timing` do one of them.
#![allow(dead_code, unused_imports, reason = "a program does not use all of a library")]

macro_rules! leak {
    ($name:literal, $secret:expr) => {
        $crate::leaks::place(const { $crate::leaks::number($name) }, &$secret)
    };
}

// The files name their crate, and those of `constant_time` name the library.
extern crate self as wireseal_kernels;

#[path = "../../src/aes/mod.rs"]
pub mod aes;
#[path = "../../src/chacha20/mod.rs"]
pub mod chacha20;
#[path = "../../src/chacha20_poly1305/mod.rs"]
pub mod chacha20_poly1305;
#[path = "../../src/cmac/mod.rs"]
pub mod cmac;
#[path = "../../src/cpu.rs"]
pub mod cpu;
#[path = "../../src/gcm/mod.rs"]
pub mod gcm;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[path = "../../src/groups.rs"]
mod groups;
#[path = "../../src/head.rs"]
mod head;
#[path = "../../src/hmac/mod.rs"]
pub mod hmac;
#[cfg(target_arch = "x86_64")]
#[path = "../../src/partial_block.rs"]
mod partial_block;
#[path = "../../src/poly1305/mod.rs"]
pub mod poly1305;

pub use head::MessageHead;
pub use hmac::{sha1, sha256};

mod leaks;
#[path = "../constant_time/memcheck.rs"]
mod memcheck;
#[path = "../constant_time/routines.rs"]
mod routines;
#[path = "../constant_time/timing.rs"]
mod timing;
#[path = "../constant_time/valgrind.rs"]
mod valgrind;

use std::process::ExitCode;

use leaks::{LEAKS, Leak};
use memcheck::Finding;
use routines::{Routine, routines};

/// Fewer measurements than for the library: a leak is loud.
const MEASUREMENTS: usize = 4000;

fn main() -> ExitCode {
    let method = std::env::args().nth(1);
    let passed = match method.as_deref() {
        None => {
            let every_routine = every_routine_has_a_leak();
            let by_memcheck = by_memcheck_on_valgrind();
            by_timing() && by_memcheck && every_routine
        }
        Some("memcheck") => by_memcheck_on_valgrind(),
        Some("timing") => by_timing(),
        Some(other) => {
            eprintln!("{other}: neither memcheck nor timing");
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn every_routine_has_a_leak() -> bool {
    let mut passed = true;
    for routine in routines() {
        if !LEAKS.iter().any(|leak| leak.is_in(&routine)) {
            println!("leaks     {routine:<40} HAS NO LEAK: nothing shows that it is run");
            passed = false;
        }
    }
    passed
}

fn by_memcheck_on_valgrind() -> bool {
    // Its reports of leaks would be thousands of lines.
    valgrind::run("memcheck", &["--log-file=/dev/null"], || {
        let is_found = |routine: &Routine| matches!(memcheck::check(routine).0, Finding::DependsOnASecret);
        find("memcheck", memcheck::knows, is_found)
    })
}

fn by_timing() -> bool {
    find("timing", |routine| !memcheck::knows(routine), |routine| timing::check(routine, MEASUREMENTS).0)
}

/// Switches on each leak in turn. Those of the method's routines that pass its place have to show it.
fn find(method: &str, is_of: impl Fn(&Routine) -> bool, is_found: impl Fn(&Routine) -> bool) -> bool {
    let routines: Vec<_> = routines().into_iter().filter(is_of).collect();
    let (here, elsewhere): (Vec<_>, Vec<_>) = routines.into_iter().partition(Routine::select);
    let (mut passed, mut leaks, mut places) = (true, 0, 0);
    // A method that finds everything anyway would show nothing.
    for routine in here.iter().filter(|routine| is_found(routine)) {
        println!("{method:<9} {routine:<40} DEPENDS ON A SECRET without a leak");
        passed = false;
    }
    for leak in LEAKS {
        leaks::switch_on(Some(leak));
        let mut hidden = Vec::new();
        let mut count = 0;
        for routine in here.iter().filter(|routine| leak.is_in(routine)) {
            count += 1;
            if !is_found(routine) {
                hidden.push(routine.to_string());
            }
        }
        leaks::switch_on(None);
        if count == 0 {
            continue;
        }
        let verdict = if hidden.is_empty() {
            "found".to_owned()
        } else {
            format!("NOT FOUND in {}", hidden.join(", "))
        };
        println!("{method:<9} {:<40} {verdict} ({count} routines)", leak.name);
        passed &= hidden.is_empty();
        leaks += 1;
        places += count;
    }
    for routine in &elsewhere {
        println!("{method:<9} {routine:<40} not run: this processor does not have its instructions");
    }
    println!("{method} has looked for {leaks} leaks, in {} routines: {places} combinations", here.len());
    passed
}
