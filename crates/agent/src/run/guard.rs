//! Ending a program when its supervisor does.

use std::io;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, wait};

use super::process::Family;
use super::{RunError, exit_code, pass, pid_of, signals};

/// How long killed processes may take to be gone.
const AGAIN: Duration = Duration::from_millis(10);

/// Runs a supervisor, and kills everything that it has started and that is left when it ends: it was killed itself, or failed. Returns
/// its exit code. Signals are passed on to it, SIGHUP too.
///
/// # Errors
/// [`RunError`] if it cannot be started.
pub fn stop_with(supervisor: &mut Command) -> Result<u8, RunError> {
    let system = |error: rustix::io::Errno| RunError::System(error.into());
    // The program comes to this process then.
    set_child_subreaper(Some(getpid())).map_err(system)?;
    let started = supervisor.spawn().map_err(RunError::System)?;
    let child = Pid::from_child(&started);
    signals::pass_all_on(child).map_err(RunError::System)?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => {
                kill_all().map_err(RunError::System)?;
                return Ok(exit_code(status));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(system(error)),
        }
    }
}

/// Kills all descendants of this process, and waits until none is left.
fn kill_all() -> io::Result<()> {
    let mut family = Family::of_this_process()?;
    let mut is_said = false;
    loop {
        for pid in family.descendants()?.iter().filter_map(pid_of) {
            if !is_said {
                tracing::error!("the supervisor has ended before the program: the program is killed");
            }
            is_said = true;
            pass(Signal::KILL, pid);
        }
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) | Err(rustix::io::Errno::INTR) => sleep(AGAIN),
            // Nobody is left.
            Err(_) => return Ok(()),
        }
    }
}
