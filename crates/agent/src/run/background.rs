//! A supervisor in the background, for programs that go there themselves and whose caller waits for that.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::{Pid, setsid};

use super::error::RunError;
use super::signals;

/// Runs a supervisor with [`Supervisor::in_background`](crate::Supervisor) until the program has gone into the background, that is, the
/// process that was started first has ended; the supervisor goes on there. Returns that process's exit code, or the supervisor's if that
/// ended first.
///
/// # Errors
/// [`RunError`] if it cannot be started.
pub fn run_in_background(supervisor: &mut Command) -> Result<u8, RunError> {
    let (mut own, other) = UnixStream::pair().map_err(RunError::System)?;
    supervisor.stdin(OwnedFd::from(other));
    let mut started = supervisor.spawn().map_err(RunError::System)?;
    // Otherwise this end would never see that the other is gone.
    supervisor.stdin(std::process::Stdio::null());
    signals::pass_all_on(Pid::from_child(&started)).map_err(RunError::System)?;
    let mut code = [0];
    match own.read(&mut code) {
        Ok(1) => Ok(code[0]),
        _ => {
            let code = started.wait().map_err(RunError::System)?.code();
            Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
        }
    }
}

/// The supervisor's end.
pub(super) struct Caller(Option<UnixStream>);

impl Caller {
    /// Nobody waits.
    pub(super) const NONE: Self = Self(None);

    /// The one that waits at standard input. This process becomes independent of its terminal.
    pub(super) fn at_stdin() -> io::Result<Self> {
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        // It fails if it has one of its own already.
        let _ = setsid();
        Ok(Self(Some(stream)))
    }

    /// The process that was started first has ended.
    pub(super) fn tell(&mut self, code: u8) {
        if let Some(mut stream) = self.0.take() {
            // It may have been killed.
            let _ = stream.write_all(&[code]);
        }
    }
}
