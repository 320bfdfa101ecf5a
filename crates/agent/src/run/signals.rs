//! Signals: those for the program are passed on.

use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::Signals;

/// What signals have asked for.
pub(super) struct Asked {
    reload: Arc<AtomicBool>,
}

impl Asked {
    /// Whether the configuration is to be read again; once for each time.
    pub(super) fn wants_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}

/// Passes signals on to the program from now on, and wakes the supervisor for those that are its own.
pub(super) fn pass_on(program: Pid, mut wake: UnixStream) -> io::Result<Asked> {
    let mut signals = Signals::new([
        SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
    ])?;
    // A terminal sends these to the program as well.
    let from_terminal: &[i32] =
        if io::stdin().is_terminal() { &[SIGCONT, SIGINT, SIGQUIT, SIGWINCH] } else { &[] };
    let reload = Arc::new(AtomicBool::new(false));
    let asked = Asked { reload: Arc::clone(&reload) };
    wake.set_nonblocking(true)?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP => reload.store(true, Ordering::Relaxed),
                SIGCHLD => {}
                _ if from_terminal.contains(&signal) => continue,
                _ => {
                    if let Some(signal) = Signal::from_named_raw(signal) {
                        // It may have ended.
                        let _ = kill_process(program, signal);
                    }
                    continue;
                }
            }
            // If the buffer is full, the supervisor is awake.
            let _ = wake.write(&[0]);
        }
    })?;
    Ok(asked)
}
