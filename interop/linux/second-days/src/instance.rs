//! A running gateway or supervisor, and its log.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::world::Side;

/// How long starting or ending may take.
pub const START: Duration = Duration::from_secs(20);
pub const END: Duration = Duration::from_secs(10);
/// How late the log may be: a second according to the documents, the rest for a busy machine.
pub const SAID: Duration = Duration::from_secs(4);
/// The size of the log's pipe in octets: so small that it is soon full.
const PIPE: usize = 4096;
const DESCRIPTORS: u64 = 1024;

/// How a gateway is started.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub threads: u16,
    pub queue: u16,
    pub keeps_state: bool,
    pub connections: usize,
    /// Whether it removes its rules when it ends.
    pub opens: bool,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.keeps_state { " --state" } else { "" };
        let opens = if self.opens { " --open-on-exit" } else { "" };
        write!(
            f,
            "--threads {} --queue {} --connections {}{state}{opens}",
            self.threads, self.queue, self.connections
        )
    }
}

/// What was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `wireseal gateway`.
    Gateway,
    /// `wireseal run`, with the daemon under it.
    Run,
}

pub struct Instance {
    child: Child,
    side: Side,
    pub options: Options,
    lines: Arc<Mutex<Vec<String>>>,
    is_unread: Arc<AtomicBool>,
    pub metrics: PathBuf,
}

impl Instance {
    /// Starts a gateway by this command, which has all arguments but the options; waits until it carries packets.
    pub fn gateway(
        mut command: Command,
        side: Side,
        options: Options,
        folder: &Path,
        log: &Path,
    ) -> Result<Self> {
        command.args(["--threads", &options.threads.to_string(), "--queue", &options.queue.to_string()]);
        command.args(["--connections", &options.connections.to_string()]);
        let sessions = folder.join("sessions");
        if options.keeps_state {
            command.arg("--state").arg(sessions);
        } else if sessions.exists() {
            // As the document says: an old file would bring back sessions as they were under an earlier gateway.
            fs::remove_file(sessions)?;
        }
        if options.opens {
            command.arg("--open-on-exit");
        }
        let metrics = folder.join("metrics");
        command.arg("--metrics").arg(format!("unix:{}", metrics.display()));
        let mut gateway = Self::start(command, side, options, log, metrics)?;
        let started = Instant::now();
        while !gateway.has_said(0, |line| line.contains("carries the packets of its peers")) {
            let ended = gateway.child.try_wait()?;
            if ended.is_some() || started.elapsed() > START {
                sleep(Duration::from_millis(100));
                bail!("{side}: the gateway did not start ({ended:?}): {}", gateway.log().join(" / "));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(gateway)
    }

    /// Starts it by this command.
    pub fn start(
        mut command: Command,
        side: Side,
        options: Options,
        log: &Path,
        metrics: PathBuf,
    ) -> Result<Self> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().context("its log")?;
        fcntl_setpipe_size(&stderr, PIPE)?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let is_unread = Arc::new(AtomicBool::new(false));
        let (known, pauses) = (Arc::clone(&lines), Arc::clone(&is_unread));
        let mut file = File::options().create(true).append(true).open(log)?;
        writeln!(file, "--- {options}")?;
        thread::spawn(move || {
            for line in BufReader::with_capacity(128, stderr).lines().map_while(Result::ok) {
                // A full disk may lose lines, but no verdict.
                let _ = writeln!(file, "{line}");
                known.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                while pauses.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(20));
                }
            }
        });
        Ok(Self { child, side, options, lines, is_unread, metrics })
    }

    /// The output of its program.
    pub fn stdout(&mut self) -> Result<ChildStdout> {
        self.child.stdout.take().context("its output")
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many lines it has logged.
    pub fn said(&self) -> usize {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn has_said(&self, since: usize, is_it: impl Fn(&str) -> bool) -> bool {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().skip(since).any(|line| is_it(line))
    }

    /// Whether it logs this in time, in a line after the first `since`. A log that nobody reads shows nothing.
    pub fn says(&self, since: usize, is_it: impl Fn(&str) -> bool) -> bool {
        let started = Instant::now();
        while started.elapsed() < SAID {
            if self.has_said(since, &is_it) {
                return true;
            }
            sleep(Duration::from_millis(10));
        }
        false
    }

    /// From now on nobody reads its log, so the pipe fills up.
    pub fn stop_log(&self) -> Result<()> {
        self.is_unread.store(true, Ordering::Relaxed);
        // The reader may be about to take a line.
        sleep(Duration::from_millis(100));
        let mut pipe = File::options()
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(format!("/proc/{}/fd/2", self.id()))?;
        while pipe.write(b"filler\n").is_ok() {}
        Ok(())
    }

    /// The log is read again.
    pub fn read_log(&self) {
        self.is_unread.store(false, Ordering::Relaxed);
    }

    pub fn is_log_read(&self) -> bool {
        !self.is_unread.load(Ordering::Relaxed)
    }

    pub fn hang_up(&self) -> Result<()> {
        Ok(kill_process(self.pid(), Signal::HUP)?)
    }

    /// Limits it to this many more descriptors than it has open.
    pub fn leave_descriptors(&self, more: u64) -> Result<()> {
        let open = fs::read_dir(format!("/proc/{}/fd", self.id()))?.count() as u64;
        self.limit(open + more)
    }

    pub fn give_descriptors(&self) -> Result<()> {
        self.limit(DESCRIPTORS)
    }

    fn limit(&self, descriptors: u64) -> Result<()> {
        let new = Rlimit { current: Some(descriptors), maximum: Some(DESCRIPTORS.max(descriptors)) };
        prlimit(Some(self.pid()), Resource::Nofile, new)?;
        Ok(())
    }

    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Kills it, but nothing that it has started.
    pub fn kill(self) {
        drop(self);
    }

    /// Ends it by a signal; returns its exit code and its log. An error if it does not end.
    pub fn end(mut self) -> Result<(Option<i32>, Vec<String>)> {
        kill_process(self.pid(), Signal::TERM)?;
        let started = Instant::now();
        while self.child.try_wait()?.is_none() {
            if started.elapsed() > END {
                bail!("{}: it did not end in {END:?}", self.side);
            }
            sleep(Duration::from_millis(10));
        }
        self.read_log();
        sleep(Duration::from_millis(50));
        Ok((self.child.wait()?.code(), self.log()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.read_log();
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a line of the log says what is wrong with the rules.
pub fn is_about_rules(line: &str) -> bool {
    line.contains("ERROR") && line.contains("rules")
}
