//! Supervising a program.

mod calls;
mod connects;
mod filter;
mod process;
mod protected;
mod signals;
mod sockets;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use wireseal_keys::Timestamp;
use wireseal_linux::probe;

use self::calls::Calls;
use self::process::{Family, Opened};
use self::signals::{caller_at_stdin, exit_code, pass};
use self::sockets::Sockets;
use crate::config::Config;
use crate::error::Error;
use crate::instance::{keep_memory_private, lock, raise_descriptor_limit};
use crate::metrics::{self, MetricsAddress, Served};
use crate::source::Source;
use crate::status::{Announced, Command, Status, StatusSource, announce, network_namespace};

pub use self::signals::{run_in_background, stop_with};

/// How often keys are installed and removed, and new sockets looked for.
const TICK: Duration = Duration::from_secs(1);

/// Puts keys on the sockets of a program from outside.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    /// The peers and their keys.
    pub source: Source,
    /// Where metrics for Prometheus are served.
    pub metrics: Option<MetricsAddress>,
    /// Whether this process was started by [`run_in_background`]. The program then has no standard input.
    pub in_background: bool,
}

impl Supervisor {
    /// Runs a program with keys on its sockets until it and all of its children have ended. Returns its exit code; 128 and the signal's
    /// number if a signal ended it.
    ///
    /// On SIGHUP the configuration is read again; if it cannot be used, the one before stays, and the log says why. Other signals are
    /// passed on to the program. The calling process must have no other children, since it waits for all. Its limit of open files is raised
    /// to the hard limit; the program keeps its own.
    ///
    /// # Errors
    /// [`Error`]; the program was not started then. [`Error::exit_code`] is what a shell would return.
    pub fn run(&self, program: &OsStr, arguments: &[OsString]) -> Result<u8, Error> {
        let config = self.read()?;
        check_kernel()?;
        self.supervise(program, arguments, config)
    }

    fn read(&self) -> Result<Config, Error> {
        keep_memory_private().map_err(Error::cannot("supervise"))?;
        let config = self.source.read()?;
        config.check_for_kernel()?;
        Ok(config)
    }

    /// Runs a program, whether the kernel has TCP-AO or not.
    fn supervise(&self, program: &OsStr, arguments: &[OsString], config: Config) -> Result<u8, Error> {
        let program = filter::find(program)?;
        let mut caller =
            self.in_background.then(caller_at_stdin).transpose().map_err(Error::cannot("supervise"))?;
        // The thread for signals writes to the first to wake this one, which polls the second.
        let (wake, woken) = UnixStream::pair().map_err(Error::cannot("supervise"))?;
        woken.set_nonblocking(true).map_err(Error::cannot("supervise"))?;
        // Better said now than in the log at the first connection.
        let own = Opened::of_thread(getpid().as_raw_nonzero().get());
        let duplicate = own.and_then(|own| own.duplicate(woken.as_raw_fd()));
        duplicate.map_err(Error::cannot(
            "duplicate sockets with pidfd_getfd, which a container's seccomp profile has to allow",
        ))?;
        set_child_subreaper(Some(getpid())).map_err(Error::cannot("supervise"))?;
        let family = Family::of_this_process().map_err(Error::cannot("supervise"))?;
        let sockets = Sockets::new(config)?;
        let published = self.publish(program.display().to_string())?;
        let (child, notifications) = filter::spawn(&program, arguments, !self.in_background)?;
        // The program keeps the limit that it would have without a supervisor.
        raise_descriptor_limit();
        let signals = signals::pass_on(wake).map_err(Error::cannot("supervise"))?;
        tracing::info!(program = %program.display(), pid = child.as_raw_nonzero(), "started");
        let mut calls = Calls::new(notifications, sockets, family);
        let (mut status, mut next) = (None, Instant::now());
        loop {
            let is_over = wait_for(&mut calls, &woken, next.saturating_duration_since(Instant::now()));
            let is_over = is_over.map_err(Error::cannot("supervise"))?;
            // Ended children, and orphans of the program, which become children of this process.
            while let Ok(Some((pid, ended))) = wait(WaitOptions::NOHANG) {
                if pid == child {
                    status = Some(ended);
                }
            }
            if let Some(status) = status
                && let Some(mut caller) = caller.take()
            {
                // It may have been killed.
                let _ = caller.write_all(&[exit_code(status)]);
            }
            for signal in signals.take_passed() {
                match status {
                    None => pass(signal, child),
                    // After the first process has ended, its children count as the program.
                    Some(_) => calls.pass(signal),
                }
            }
            if is_over {
                break;
            }
            if signals.wants_reload() {
                match self.read().and_then(|config| calls.sockets.change(config)) {
                    Ok(()) => tracing::info!("the configuration was read again"),
                    Err(error) => tracing::error!(%error, "the configuration stays as it was"),
                }
                next = Instant::now();
            }
            if next <= Instant::now() {
                calls.tick();
                published.set(&calls.sockets);
                next = Instant::now() + TICK;
            }
        }
        while status.is_none() {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, ended))) if pid == child => status = Some(ended),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::cannot("supervise")(error)),
            }
        }
        Ok(status.map_or(1, exit_code))
    }

    /// Serves status and metrics from now on.
    fn publish(&self, program: String) -> Result<Published, Error> {
        let status = Status {
            command: Command::Run,
            pid: std::process::id(),
            since: Timestamp::now(),
            network_namespace: network_namespace(),
            program: Some(program),
            ports: Vec::new(),
            peers: Vec::new(),
            listeners: Vec::new(),
            rules: None,
        };
        let status = Arc::new(Mutex::new(status));
        let shown = Arc::clone(&status);
        let source: StatusSource = Arc::new(move || lock(&shown).clone());
        let served = self.metrics.as_ref().map(|address| metrics::serve(address, Arc::clone(&source)));
        Ok(Published { status, _served: served.transpose()?, _announced: announce(Command::Run, source) })
    }
}

/// The status as it was at the last tick, for whoever asks.
struct Published {
    status: Arc<Mutex<Status>>,
    _served: Option<Served>,
    _announced: Option<Announced>,
}

impl Published {
    fn set(&self, sockets: &Sockets) {
        let mut status = lock(&self.status);
        (status.peers, status.listeners) = sockets.status(status.since);
        status.ports = sockets.ports().to_vec();
    }
}

fn check_kernel() -> Result<(), Error> {
    let support = probe().map_err(Error::cannot("find out whether this kernel has TCP-AO"));
    if support.as_ref().is_ok_and(|support| support.tcp_ao) {
        return Ok(());
    }
    // The filter of another supervisor refuses the options that detect TCP-AO.
    if filter::is_supervised() {
        return Err(Error::Supervised);
    }
    Err(Error::NoTcpAo { kernel: support?.kernel })
}

/// Waits for a call of the program or a signal, and answers a call. Returns whether no process is left that could make one.
fn wait_for(calls: &mut Calls, woken: &UnixStream, wait: Duration) -> io::Result<bool> {
    let notifications = calls.notifications();
    let mut events = [PollFd::new(&*notifications, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
    let limit = Timespec::try_from(wait).ok();
    match poll(&mut events, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let [call, signal] = events.map(|event| event.revents());
    if !signal.is_empty() {
        // The octets have no meaning; a full buffer is read in several rounds.
        let _ = (&*woken).read(&mut [0; 64]);
    }
    if call.contains(PollFlags::IN) {
        calls.answer_next();
        return Ok(false);
    }
    Ok(call.contains(PollFlags::HUP))
}
