//! Checks that neither the time of a routine nor the addresses it accesses depend on keys and texts.
//!
//! There are two methods. The first is used wherever possible: valgrind's memcheck follows every bit of the secrets and reports each branch
//! and each address that depends on one. For instructions that valgrind does not know, the routine is timed with constant secrets and with
//! random ones, and Welch's t-test tells whether the times differ. Both methods must find the twins, which depend on a secret on purpose.
//! `constant_time_leaks` shows that both run each routine to its last branch.
//!
//! `cargo run --release -p wireseal-kernels --example constant_time` uses both and fails if anything is found;
//! `-- memcheck` and `-- timing` use one of them.

mod memcheck;
mod routines;
mod timing;

use std::process::ExitCode;

use memcheck::Finding;
use routines::{BRANCH_TWIN, INDEX_TWIN, Routine, routines};
use wireseal_kernels::cpu::switch;

fn main() -> ExitCode {
    let method = std::env::args().nth(1);
    let passed = match method.as_deref() {
        None => {
            let by_memcheck = memcheck::run("memcheck", &[], by_memcheck);
            let by_timing = by_timing();
            print_sum();
            by_memcheck && by_timing
        }
        Some("memcheck") => memcheck::run("memcheck", &[], by_memcheck),
        Some("timing") => by_timing(),
        Some(other) => {
            eprintln!("{other}: neither memcheck nor timing");
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn by_memcheck() -> bool {
    let mut passed = true;
    for twin in [BRANCH_TWIN, INDEX_TWIN] {
        let (finding, reports, _) = memcheck::check(&twin);
        let is_found = matches!(finding, Finding::DependsOnASecret);
        let verdict = if is_found { "found, as it must be" } else { "NOT FOUND: this check sees nothing" };
        println!("memcheck  {twin:<40} {verdict} ({reports} reports)");
        passed &= is_found;
    }
    for routine in &routines() {
        if !memcheck::knows(routine) {
            println!("memcheck  {routine:<40} skipped: valgrind does not know its instructions, see timing");
            continue;
        }
        if !is_here(routine) {
            println!("memcheck  {routine:<40} skipped: this processor does not have its instructions");
            continue;
        }
        let (finding, reports, verdicts) = memcheck::check(routine);
        let verdict = match finding {
            Finding::Nothing => "nothing depends on a secret",
            Finding::DependsOnASecret => "DEPENDS ON A SECRET",
            Finding::NotFollowed => "NOT FOLLOWED: the outcome does not depend on the secrets, says valgrind",
        };
        println!("memcheck  {routine:<40} {verdict} ({reports} reports, {verdicts} of them of verdicts)");
        passed &= matches!(finding, Finding::Nothing);
    }
    passed
}

fn by_timing() -> bool {
    let (differs, t) = timing::check(&BRANCH_TWIN, timing::MEASUREMENTS);
    let verdict = if differs { "differs, as it must" } else { "NO DIFFERENCE: this check sees nothing" };
    println!("timing    {BRANCH_TWIN:<40} {verdict} (t = {t:.1})");
    let mut passed = differs;
    for routine in &routines() {
        if !is_here(routine) {
            println!("timing    {routine:<40} skipped: this processor does not have its instructions");
            continue;
        }
        let (differs, t) = timing::check(routine, timing::MEASUREMENTS);
        let verdict = if differs { "DIFFERS" } else { "no difference" };
        println!("timing    {routine:<40} {verdict} (t = {t:.1})");
        passed &= !differs;
    }
    passed
}

/// Prints how many routines each method has checked, in one line.
fn print_sum() {
    let (here, skipped): (Vec<_>, Vec<_>) = routines().into_iter().partition(is_here);
    let (followed, timed): (Vec<_>, Vec<_>) = here.into_iter().partition(memcheck::knows);
    println!(
        "checked {} routines by memcheck and timing, {} more by timing alone; not run, for want of instructions: {}",
        followed.len(),
        timed.len(),
        skipped.len(),
    );
}

fn is_here(routine: &Routine) -> bool {
    let is_here = routine.select();
    switch::all();
    is_here
}
