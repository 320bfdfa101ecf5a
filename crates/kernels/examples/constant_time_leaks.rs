//! Checks that `constant_time` runs every routine through every place where a mistake could be: it switches on each leak of a list in turn,
//! which must be found in every routine that passes its place.
//!
//! The library's files are compiled into this program again, with the places that they name as leaks; the library itself has no leaks. As
//! for the library itself, memcheck checks where valgrind knows the instructions, and the t-test elsewhere.
//!
//! `cargo run --release -p wireseal-kernels --example constant_time_leaks` does both and fails if a leak is not found, or if a
//! routine has none; `-- memcheck` and `-- timing` do one of them.
#![allow(dead_code, unused_imports, reason = "a program does not use all of a library")]

macro_rules! leak {
    ($name:literal, $secret:expr) => {{
        let secret = &$secret;
        // SAFETY: secrets are numbers and vectors, and arrays and structs of these without gaps.
        unsafe { $crate::place(const { $crate::number($name) }, secret) };
    }};
}

// The library's files refer to `crate`, and those of `constant_time` to the library by name.
extern crate self as wireseal_kernels;

#[path = "../src/aes/mod.rs"]
pub mod aes;
#[path = "../src/chacha20/mod.rs"]
pub mod chacha20;
#[path = "../src/chacha20_poly1305/mod.rs"]
pub mod chacha20_poly1305;
#[path = "../src/cmac/mod.rs"]
pub mod cmac;
#[path = "../src/cpu.rs"]
pub mod cpu;
#[path = "../src/gcm/mod.rs"]
pub mod gcm;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[path = "../src/groups.rs"]
mod groups;
#[path = "../src/head.rs"]
mod head;
#[path = "../src/hmac/mod.rs"]
pub mod hmac;
#[cfg(target_arch = "x86_64")]
#[path = "../src/partial_block.rs"]
mod partial_block;
#[path = "../src/poly1305/mod.rs"]
pub mod poly1305;

pub use head::MessageHead;
pub use hmac::{sha1, sha256};

#[path = "constant_time/memcheck.rs"]
mod memcheck;
#[path = "constant_time/routines.rs"]
mod routines;
#[path = "constant_time/timing.rs"]
mod timing;

use std::hint::black_box;
use std::process::ExitCode;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

use cpu::InstructionSet;
use cpu::InstructionSet::{
    Aarch64Aes, Aarch64Sha, AesNi, AesNiAvx, Avx2, Avx512, Avx512Ifma, Bmi2, ShaNi, ShaNiAvx, Vaes256,
    Vaes512,
};
use memcheck::Finding;
use routines::{Routine, routines};

/// Fewer measurements than for the library: a leak makes a large difference.
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
    // Discards its reports of leaks, which would be thousands of lines.
    memcheck::run("memcheck", &["--log-file=/dev/null"], || {
        let is_found = |routine: &Routine| matches!(memcheck::check(routine).0, Finding::DependsOnASecret);
        find("memcheck", memcheck::knows, is_found)
    })
}

fn by_timing() -> bool {
    find("timing", |routine| !memcheck::knows(routine), |routine| timing::check(routine, MEASUREMENTS).0)
}

/// Switches on each leak in turn. Those of the method's routines that pass its place must show it.
fn find(method: &str, is_of: impl Fn(&Routine) -> bool, is_found: impl Fn(&Routine) -> bool) -> bool {
    let routines: Vec<_> = routines().into_iter().filter(is_of).collect();
    let (here, elsewhere): (Vec<_>, Vec<_>) = routines.into_iter().partition(Routine::select);
    let (mut passed, mut leaks, mut places) = (true, 0, 0);
    // A method that reports everything would prove nothing.
    for routine in here.iter().filter(|routine| is_found(routine)) {
        println!("{method:<9} {routine:<40} DEPENDS ON A SECRET without a leak");
        passed = false;
    }
    for leak in LEAKS {
        switch_on(Some(leak));
        let mut hidden = Vec::new();
        let mut count = 0;
        for routine in here.iter().filter(|routine| leak.is_in(routine)) {
            count += 1;
            if !is_found(routine) {
                hidden.push(routine.to_string());
            }
        }
        switch_on(None);
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

/// A branch on a secret, at the place in the library that has this name.
struct Leak {
    name: &'static str,
    /// The names of the routines that must show it.
    routines: &'static [&'static str],
    /// The paths on which they must, if not on all: `None` is for the instructions that every processor has.
    paths: Option<&'static [Option<InstructionSet>]>,
}

impl Leak {
    /// Whether the routine passes the place, so that the leak must be found in it.
    fn is_in(&self, routine: &Routine) -> bool {
        self.routines.contains(&routine.name) && self.paths.is_none_or(|paths| paths.contains(&routine.path))
    }
}

const fn leak(name: &'static str, routines: &'static [&'static str]) -> Leak {
    Leak { name, routines, paths: None }
}

const fn on(
    paths: &'static [Option<InstructionSet>],
    name: &'static str,
    routines: &'static [&'static str],
) -> Leak {
    Leak { name, routines, paths: Some(paths) }
}

const SEAL: &[&str] = &["AES-128-GCM seal", "AES-256-GCM seal"];
/// The routines that open without sealing first: only opening passes the place.
const REFUSE: &[&str] = &["AES-128-GCM refuse", "AES-256-GCM refuse"];
const OPEN: &[&str] = &["AES-128-GCM open", "AES-256-GCM open", "AES-128-GCM refuse", "AES-256-GCM refuse"];
const SEAL_OR_REFUSE: &[&str] =
    &["AES-128-GCM seal", "AES-256-GCM seal", "AES-128-GCM refuse", "AES-256-GCM refuse"];
const AES_128: &[&str] = &["AES-128 mask", "AES-128-GCM seal", "AES-128-GCM open", "AES-128-GCM refuse"];
const AES_256: &[&str] = &["AES-256 mask", "AES-256-GCM seal", "AES-256-GCM open", "AES-256-GCM refuse"];
const CMACS: &[&str] = &["AES-128-CMAC", "AES-128-CMAC of 16"];
const HMACS: &[&str] = &["HMAC-SHA-1", "HMAC-SHA-256"];
const HMACS_OF_16: &[&str] = &["HMAC-SHA-1 of 16", "HMAC-SHA-256 of 16"];
const CHACHA20_POLY1305: &[&str] =
    &["ChaCha20-Poly1305 seal", "ChaCha20-Poly1305 open", "ChaCha20-Poly1305 refuse"];
const CHACHA20_POLY1305_OPEN: &[&str] = &["ChaCha20-Poly1305 open", "ChaCha20-Poly1305 refuse"];

/// The paths that compute one HMAC. On x86-64 batches end with it; AArch64 has other code for two messages.
const ONE_HASH: &[Option<InstructionSet>] = &[Some(ShaNi), Some(ShaNiAvx), Some(Bmi2), Some(Aarch64Sha)];
const ONE_HMAC_SHA1: &[&str] =
    if cfg!(target_arch = "aarch64") { &["HMAC-SHA-1"] } else { &["HMAC-SHA-1", "HMAC-SHA-1 of 16"] };
const ONE_HMAC_SHA256: &[&str] =
    if cfg!(target_arch = "aarch64") { &["HMAC-SHA-256"] } else { &["HMAC-SHA-256", "HMAC-SHA-256 of 16"] };

/// Every AArch64 has NEON.
const POLY1305_IN_VECTORS: &[Option<InstructionSet>] =
    if cfg!(target_arch = "aarch64") { &[None] } else { &[Some(Avx512Ifma)] };

const LEAKS: &[Leak] = &[
    leak("AES-128: key expansion", AES_128),
    leak("AES-256: key expansion", AES_256),
    leak("AES: mask", &["AES-128 mask", "AES-256 mask"]),
    leak("GCM: powers of H", SEAL_OR_REFUSE),
    leak("GCM: header mask from registers", SEAL),
    leak("GCM: header mask from memory", SEAL),
    leak("GCM: associated data hashed", SEAL_OR_REFUSE),
    leak("GCM: whole group", SEAL_OR_REFUSE),
    leak("GCM: whole group hashed", SEAL_OR_REFUSE),
    leak("GCM: last group", SEAL_OR_REFUSE),
    // The other paths have more powers of H than blocks in a group, or a mask for the octets of the text.
    on(
        &[Some(AesNi), Some(AesNiAvx), Some(Vaes256), Some(Vaes512)],
        "GCM: lengths hashed alone",
        SEAL_OR_REFUSE,
    ),
    on(
        &[Some(AesNi), Some(AesNiAvx), Some(Vaes256), Some(Aarch64Aes)],
        "GCM: end of a long text stored",
        SEAL_OR_REFUSE,
    ),
    on(
        &[Some(AesNi), Some(AesNiAvx), Some(Vaes256), Some(Aarch64Aes)],
        "GCM: text shorter than a block stored",
        SEAL_OR_REFUSE,
    ),
    leak("GCM: tag to send", SEAL),
    leak("GCM: tag to compare", OPEN),
    leak("GCM: refused text", REFUSE),
    leak("ChaCha20: one mask", &["ChaCha20 mask", "ChaCha20 masks"]),
    #[cfg(target_arch = "x86_64")]
    on(&[None, Some(Avx2), Some(Avx512)], "ChaCha20: masks in lanes", &["ChaCha20 masks"]),
    #[cfg(target_arch = "x86_64")]
    leak("ChaCha20: masks in lanes filled up", &["ChaCha20 masks"]),
    leak("Poly1305: one block", &["Poly1305"]),
    leak("Poly1305: block in two slices", &["Poly1305"]),
    leak("Poly1305: end of a message", &["Poly1305"]),
    leak("Poly1305: reduction", &["Poly1305"]),
    on(POLY1305_IN_VECTORS, "Poly1305: eight blocks", &["Poly1305"]),
    on(&[Some(Avx512Ifma)], "Poly1305: eight blocks, powers ready", CHACHA20_POLY1305),
    on(&[Some(Avx2)], "Poly1305: four blocks", &["Poly1305"]),
    leak("ChaCha20-Poly1305: key stream", CHACHA20_POLY1305_OPEN),
    leak("ChaCha20-Poly1305: key stream beside the one-time key", CHACHA20_POLY1305),
    leak("ChaCha20-Poly1305: seal", &["ChaCha20-Poly1305 seal"]),
    leak("ChaCha20-Poly1305: tag to compare", CHACHA20_POLY1305_OPEN),
    leak("ChaCha20-Poly1305: refused text", &["ChaCha20-Poly1305 refuse"]),
    leak("CMAC: key", CMACS),
    leak("CMAC: one block", &["AES-128-CMAC"]),
    leak("CMAC: block in two slices", &["AES-128-CMAC"]),
    leak("CMAC: last block of one of many", &["AES-128-CMAC of 16"]),
    on(&[Some(AesNi), Some(Aarch64Aes)], "CMAC: eight messages", &["AES-128-CMAC of 16"]),
    on(&[Some(Vaes512)], "CMAC: sixteen messages", &["AES-128-CMAC of 16"]),
    leak("CMAC and HMAC: short message", &["AES-128-CMAC", "HMAC-SHA-1", "HMAC-SHA-256"]),
    leak("HMAC: key", HMACS),
    leak("HMAC: block in two slices", HMACS),
    leak("HMAC: last block", HMACS),
    leak("HMAC: inner hash", HMACS),
    on(ONE_HASH, "HMAC-SHA-1: one block", ONE_HMAC_SHA1),
    on(ONE_HASH, "HMAC-SHA-256: one block", ONE_HMAC_SHA256),
    on(&[Some(Bmi2)], "HMAC-SHA-1: second block", &["HMAC-SHA-1"]),
    on(&[Some(Bmi2)], "HMAC-SHA-256: second block", &["HMAC-SHA-256"]),
    on(&[Some(ShaNi), Some(ShaNiAvx)], "HMAC: inner hashes of two", HMACS_OF_16),
    on(&[Some(Avx512)], "HMAC: sixteen keys", HMACS_OF_16),
    on(&[Some(Avx512)], "HMAC-SHA-1: sixteen blocks", &["HMAC-SHA-1 of 16"]),
    on(&[Some(Avx512)], "HMAC-SHA-256: sixteen blocks", &["HMAC-SHA-256 of 16"]),
    on(&[Some(Aarch64Sha)], "HMAC: two keys", HMACS_OF_16),
];

/// The number of a leak. A place whose name is not in the list does not compile.
const fn number(name: &str) -> usize {
    let mut number = 0;
    while !is_same(LEAKS[number].name.as_bytes(), name.as_bytes()) {
        number += 1;
    }
    number
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The leak that is switched on.
static CHOSEN: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Switches on one leak, or none.
fn switch_on(leak: Option<&Leak>) {
    CHOSEN.store(leak.map_or(usize::MAX, |leak| number(leak.name)), Ordering::Relaxed);
}

/// The place of a leak.
///
/// # Safety
/// All octets of the secret are initialised.
#[inline]
unsafe fn place<T: Copy>(leak: usize, secret: &T) {
    if CHOSEN.load(Ordering::Relaxed) == leak {
        // SAFETY: the caller guarantees that all of these octets are initialised.
        branch(unsafe { slice::from_raw_parts(std::ptr::from_ref(secret).cast(), size_of::<T>()) });
    }
}

/// Loops for one value of a bit of the secret, and not for the other: long enough for a clock to show.
#[inline(never)]
fn branch(secret: &[u8]) {
    if black_box(secret.iter().fold(0, |sum, octet| sum ^ octet)) & 1 == 1 {
        for step in 0..2000 {
            black_box(step);
        }
    }
}
