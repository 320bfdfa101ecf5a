//! Whether the time that the routines take, and the addresses that they touch, depend on keys and texts.
//!
//! Two methods, the first wherever it reaches: valgrind's memcheck follows every bit of the secrets and reports each branch and
//! each address that depends on one; for instructions that it does not know, the routine is timed with secrets that are always
//! the same and with random ones, and Welch's t-test tells whether the times differ. Both must find the twins that are made to
//! depend on a secret.
//!
//! `cargo run --release -p wireseal-kernels --example constant_time` does both and fails if anything was found;
//! `-- memcheck` and `-- timing` do one of them.

mod memcheck;
mod routines;
mod timing;

use std::process::ExitCode;

fn main() -> ExitCode {
    let method = std::env::args().nth(1);
    let passed = match method.as_deref() {
        None => {
            let memcheck = memcheck::run_by_valgrind();
            timing::run() && memcheck
        }
        Some("memcheck") => memcheck::run_by_valgrind(),
        Some("timing") => timing::run(),
        Some(other) => {
            eprintln!("{other}: neither memcheck nor timing");
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
