//! Signals: those for the program are passed on.

use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::Signals;

use super::connects::lock;

/// Those that a supervisor passes on.
const FOR_THE_PROGRAM: [i32; 8] = [SIGALRM, SIGCONT, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];
/// Those that a terminal sends to the program as well.
const FROM_TERMINALS: [i32; 4] = [SIGCONT, SIGINT, SIGQUIT, SIGWINCH];

/// What signals have asked for.
#[derive(Clone, Default)]
pub(super) struct Asked {
    reload: Arc<AtomicBool>,
    /// Signals for the program.
    passed: Arc<Mutex<Vec<Signal>>>,
}

impl Asked {
    /// Whether the configuration is to be read again; once for each time.
    pub(super) fn wants_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// The signals that the program has still to get.
    pub(super) fn take_passed(&self) -> Vec<Signal> {
        std::mem::take(&mut *lock(&self.passed))
    }
}

/// Calls `act` for each of these signals, in a thread of its own.
fn handle(signals: &[i32], mut act: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || signals.forever().for_each(&mut act)).map(drop)
}

/// A signal that is passed on, unless the program has it from the terminal.
fn passed(signal: i32) -> Option<Signal> {
    let has_it = FROM_TERMINALS.contains(&signal) && io::stdin().is_terminal();
    Signal::from_named_raw(signal).filter(|_| !has_it)
}

/// Wakes the supervisor from now on for signals: those that are its own, and those that it passes on.
pub(super) fn pass_on(mut wake: UnixStream) -> io::Result<Asked> {
    let asked = Asked::default();
    let told = asked.clone();
    wake.set_nonblocking(true)?;
    handle(&[&FOR_THE_PROGRAM[..], &[SIGHUP, SIGCHLD]].concat(), move |signal| {
        match signal {
            SIGHUP => told.reload.store(true, Ordering::Relaxed),
            SIGCHLD => {}
            signal => lock(&told.passed).extend(passed(signal)),
        }
        // If the buffer is full, the supervisor is awake.
        let _ = wake.write(&[0]);
    })?;
    Ok(asked)
}

/// Passes all of a supervisor's signals on to it.
pub(super) fn pass_all_on(supervisor: Pid) -> io::Result<()> {
    handle(&[&FOR_THE_PROGRAM[..], &[SIGHUP]].concat(), move |signal| {
        if let Some(signal) = passed(signal) {
            // It may have ended.
            let _ = kill_process(supervisor, signal);
        }
    })
}
