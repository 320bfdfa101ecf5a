//! Valgrind: starting this program on it, and the requests that a program makes to it (valgrind.h and memcheck.h).

use std::env;
use std::process::Command;

const RUNNING_ON_VALGRIND: u64 = 0x1001;
const COUNT_ERRORS: u64 = 0x1201;
/// Memcheck's own begin at the letters M and C.
const MAKE_MEM_UNDEFINED: u64 = 0x4d43_0001;
const MAKE_MEM_DEFINED: u64 = 0x4d43_0002;
const GET_VBITS: u64 = 0x4d43_0008;

/// Set for the program that was started on valgrind: if that answers no request, starting it once more would not help.
const STARTED: &str = "WIRESEAL_STARTED_ON_VALGRIND";

/// Runs the check if this program runs on valgrind. Otherwise starts this program there, with `argument` and valgrind's `options`.
pub fn run(argument: &str, options: &[&str], check: impl FnOnce() -> bool) -> bool {
    if request([RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0]) != 0 {
        return check();
    }
    if env::var_os(STARTED).is_some() {
        eprintln!("valgrind started this program but does not answer it: memcheck was not run");
        return false;
    }
    let this = env::current_exe().expect("this program is a file");
    let options = ["--quiet", "--error-limit=no"].iter().chain(options);
    match Command::new("valgrind").args(options).arg(this).arg(argument).env(STARTED, "1").status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("valgrind cannot be run: {error}");
            false
        }
    }
}

pub fn count_errors() -> usize {
    request([COUNT_ERRORS, 0, 0, 0, 0, 0]) as usize
}

pub fn make_undefined(octets: &mut [u8]) {
    request([MAKE_MEM_UNDEFINED, octets.as_mut_ptr().addr() as u64, octets.len() as u64, 0, 0, 0]);
}

pub fn make_defined(octets: &mut [u8]) {
    request([MAKE_MEM_DEFINED, octets.as_mut_ptr().addr() as u64, octets.len() as u64, 0, 0, 0]);
}

/// Whether a bit of them is undefined.
pub fn is_undefined(octets: &[u8; 16]) -> bool {
    let mut undefined = [0_u8; 16];
    let [from, to] =
        [octets.as_ptr(), undefined.as_mut_ptr().cast_const()].map(|octets| octets.addr() as u64);
    request([GET_VBITS, from, to, 16, 0, 0]);
    std::hint::black_box(undefined) != [0; 16]
}

/// The request and its five arguments. A processor does nothing with it, and the answer is 0.
#[cfg(target_arch = "x86_64")]
fn request(arguments: [u64; 6]) -> u64 {
    let mut answer = 0;
    // SAFETY: rotations by 128 bits in all and an exchange of a register with itself change nothing. Valgrind reads the six
    // words and writes the answer; the memory that a request is about keeps its octets.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer
}

#[cfg(target_arch = "aarch64")]
fn request(arguments: [u64; 6]) -> u64 {
    let mut answer = 0;
    // SAFETY: as on x86-64.
    unsafe {
        std::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            in("x4") arguments.as_ptr(),
            inout("x3") answer,
            options(nostack),
        );
    }
    answer
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn request(_: [u64; 6]) -> u64 {
    0
}
