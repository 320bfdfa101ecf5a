//! Secrets marked as undefined: valgrind's memcheck reports what branches on them and what they are an address of.

use std::process::Command;

use wireseal_kernels::cpu::switch;

use crate::routines::{ROUTINES, Routine, Secrets};

/// The lengths of text that every routine is run with.
const LENGTHS: [usize; 14] = [0, 1, 15, 16, 17, 31, 64, 127, 128, 255, 256, 300, 1024, 1200];

/// Runs this program again under valgrind, or the check itself when that has been done.
pub fn run_by_valgrind() -> bool {
    if request::is_running_on_valgrind() {
        return run();
    }
    let this = std::env::current_exe().expect("this program is a file");
    // Only counts matter here; what memcheck prints is for who looks for the cause.
    let valgrind =
        Command::new("valgrind").args(["--quiet", "--error-limit=no"]).arg(this).arg("memcheck").status();
    match valgrind {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("valgrind cannot be run: {error}");
            false
        }
    }
}

fn run() -> bool {
    let mut passed = true;
    for routine in ROUTINES {
        switch::all();
        if routine.path.is_some_and(|path| !path.is_available()) {
            println!("memcheck  {routine:<40} skipped: valgrind does not know its instructions, see timing");
            continue;
        }
        routine.path.map_or_else(|| switch::only(&[]), switch::up_to);
        let (errors, is_seen) = errors_of(routine);
        let verdicts = routine.verdicts * LENGTHS.len();
        let (is_right, verdict) = match (errors, routine.is_twin) {
            (0, true) => (false, "NOT FOUND: this check sees nothing"),
            (_, true) => (true, "found, as it must be"),
            // Otherwise the processor's instructions would have made something public of the secrets.
            _ if !is_seen => {
                (false, "NOT FOLLOWED: the outcome does not depend on the secrets, says valgrind")
            }
            _ if errors == verdicts => (true, "nothing depends on a secret"),
            _ => (false, "DEPENDS ON A SECRET"),
        };
        println!("memcheck  {routine:<40} {verdict} ({errors} reports, {verdicts} of them of verdicts)");
        passed &= is_right;
    }
    passed
}

/// The errors that memcheck reports, and whether the outcome was secret for it too.
fn errors_of(routine: &Routine) -> (usize, bool) {
    let before = request::count_errors();
    let mut is_seen = false;
    for length in LENGTHS {
        let mut secrets = Secrets::new();
        secrets.fill(|octets| {
            octets.fill(0xa7);
            request::make_undefined(octets);
        });
        (routine.run)(&mut secrets, length);
        is_seen |= request::is_undefined(&secrets.outcome);
        // What has been computed is public from here on, and no later check may trip over it.
        secrets.fill(request::make_defined);
        request::make_defined(&mut secrets.outcome);
    }
    (request::count_errors() - before, is_seen)
}

/// Client requests: what a program says to the valgrind that it runs on (valgrind.h and memcheck.h).
mod request {
    const RUNNING_ON_VALGRIND: u64 = 0x1001;
    const COUNT_ERRORS: u64 = 0x1201;
    /// Memcheck's own begin at the letters M and C.
    const MAKE_MEM_UNDEFINED: u64 = 0x4d43_0001;
    const MAKE_MEM_DEFINED: u64 = 0x4d43_0002;
    const GET_VBITS: u64 = 0x4d43_0008;

    pub fn is_running_on_valgrind() -> bool {
        request([RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0]) != 0
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

    #[cfg(not(target_arch = "x86_64"))]
    fn request(_: [u64; 6]) -> u64 {
        0
    }
}
