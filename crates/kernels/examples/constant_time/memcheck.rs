//! Marks secrets as undefined: valgrind's memcheck then reports branches and addresses that depend on them.
//!
//! The requests to valgrind are defined in its valgrind.h and memcheck.h.

use std::env;
use std::process::Command;

use wireseal_kernels::cpu::{InstructionSet, switch};

use crate::routines::{Routine, Secrets};

/// The lengths of text that every routine is run with. 240 octets fill the last group of GCM's registers to the last block.
const LENGTHS: [usize; 15] = [0, 1, 15, 16, 17, 31, 64, 127, 128, 240, 255, 256, 300, 1024, 1200];

/// The samples of real packets, 4 octets after the start of a packet number of 0 to 4 octets; the last sample that GCM takes from its
/// registers; and the first that it reads back.
const SAMPLE_STARTS: &[usize] = &[0, 1, 2, 3, 4, 16, 17];

/// The result of memcheck for a routine.
pub enum Finding {
    Nothing,
    DependsOnASecret,
    /// For valgrind the outcome does not depend on the secrets, so it has not followed them.
    NotFollowed,
}

/// Whether valgrind knows the routine's instructions. It emulates a processor with fewer instructions and knows no others.
pub const fn knows(routine: &Routine) -> bool {
    matches!(
        routine.path,
        None | Some(
            InstructionSet::AesNi
                | InstructionSet::AesNiAvx
                | InstructionSet::Avx2
                | InstructionSet::Bmi2
                | InstructionSet::Aarch64Aes
                | InstructionSet::Aarch64Sha
        )
    )
}

/// Runs memcheck on a routine. Returns the finding, the number of reports, and how many of them are of verdicts.
pub fn check(routine: &Routine) -> (Finding, usize, usize) {
    assert!(routine.select(), "valgrind's processor has no instructions for {routine}");
    let (reports, is_followed) = reports_of(routine);
    let verdicts = routine.verdicts * LENGTHS.len();
    let finding = match reports {
        // A reported verdict shows that memcheck followed the secrets, though the outcome is public.
        _ if reports == verdicts && (is_followed || verdicts > 0) => Finding::Nothing,
        _ if reports > verdicts => Finding::DependsOnASecret,
        _ => Finding::NotFollowed,
    };
    switch::all();
    (finding, reports, verdicts)
}

/// The number of memcheck's reports, and whether memcheck also took the outcome for secret.
fn reports_of(routine: &Routine) -> (usize, bool) {
    let before = count_errors();
    let mut is_followed = false;
    for length in LENGTHS {
        let mut secrets = Secrets::new(SAMPLE_STARTS);
        secrets.fill(|octets| {
            octets.fill(0xa7);
            make_undefined(octets);
        });
        (routine.run)(&mut secrets, length);
        is_followed |= is_undefined(&secrets.outcome);
        // The results are public from here on, and must not cause reports in later checks.
        secrets.fill(make_defined);
        make_defined(&mut secrets.outcome);
    }
    (count_errors() - before, is_followed)
}

const RUNNING_ON_VALGRIND: u64 = 0x1001;
const COUNT_ERRORS: u64 = 0x1201;
/// Memcheck's requests start at the letters M and C.
const MAKE_MEM_UNDEFINED: u64 = 0x4d43_0001;
const MAKE_MEM_DEFINED: u64 = 0x4d43_0002;
const GET_VBITS: u64 = 0x4d43_0008;

/// Set for the program that was started on valgrind: if valgrind then answers no request, starting again would not help.
const STARTED: &str = "WIRESEAL_STARTED_ON_VALGRIND";

/// Runs the check if this program runs on valgrind. Otherwise starts this program on valgrind, with `argument` and valgrind's `options`.
pub fn run(argument: &str, options: &[&str], check: impl FnOnce() -> bool) -> bool {
    // SAFETY: this request names no memory.
    if unsafe { request([RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0]) } != 0 {
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

fn count_errors() -> usize {
    // SAFETY: this request names no memory.
    unsafe { request([COUNT_ERRORS, 0, 0, 0, 0, 0]) as usize }
}

fn make_undefined(octets: &mut [u8]) {
    // SAFETY: memory keeps its octets.
    unsafe { request([MAKE_MEM_UNDEFINED, octets.as_mut_ptr().addr() as u64, octets.len() as u64, 0, 0, 0]) };
}

fn make_defined(octets: &mut [u8]) {
    // SAFETY: memory keeps its octets.
    unsafe { request([MAKE_MEM_DEFINED, octets.as_mut_ptr().addr() as u64, octets.len() as u64, 0, 0, 0]) };
}

/// Whether any of their bits is undefined.
fn is_undefined(octets: &[u8; 16]) -> bool {
    let mut undefined = [0_u8; 16];
    let [from, to] =
        [octets.as_ptr(), undefined.as_mut_ptr().cast_const()].map(|octets| octets.addr() as u64);
    // SAFETY: both places have 16 octets, and valgrind writes only to the second, which is mutable.
    unsafe { request([GET_VBITS, from, to, 16, 0, 0]) };
    std::hint::black_box(undefined) != [0; 16]
}

/// Sends the request with its five arguments. On a real processor it does nothing, and the answer is 0.
///
/// # Safety
/// What the request has valgrind read and write is there to be read and written.
#[cfg(target_arch = "x86_64")]
unsafe fn request(arguments: [u64; 6]) -> u64 {
    let mut answer = 0;
    // SAFETY: rotations by 128 bits in all and an exchange of a register with itself change nothing. Valgrind reads the six words and
    // writes the answer; the caller guarantees the memory named in the request.
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

/// As on x86-64.
///
/// # Safety
/// As on x86-64.
#[cfg(target_arch = "aarch64")]
unsafe fn request(arguments: [u64; 6]) -> u64 {
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

/// Sends nothing: the answer is 0.
///
/// # Safety
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn request(_: [u64; 6]) -> u64 {
    0
}
