//! Polling, refusals, and programs on a guest.

use std::time::Duration;

use agent::TIME_LIMIT;
use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

use crate::guest::Guest;

/// Time limit for polling. Programs need longer than a call to a guest: from the start of ExaBGP, which is Python, to the
/// last route took 25 seconds on an idle machine and 40 on a busy one.
const POLLING_LIMIT: Duration = TIME_LIMIT.saturating_mul(4);

/// Polls `is_so` every `period` until it is true; returns false if the time runs out first.
pub async fn becomes(period: Duration, is_so: impl AsyncFn() -> Result<bool>) -> Result<bool> {
    let started = Instant::now();
    while !is_so().await? {
        if started.elapsed() > POLLING_LIMIT {
            return Ok(false);
        }
        sleep(period).await;
    }
    Ok(true)
}

/// Why [`refused`] fails when the attempt succeeds.
pub const NOT_REFUSED: &str = "it was not refused";

/// Waits for the sign that an attempt is refused; fails if the attempt ends first.
pub async fn refused<T, U>(
    sign: impl Future<Output = Result<T>>,
    attempt: impl Future<Output = Result<U>>,
) -> Result<T> {
    tokio::select! {
        sign = sign => sign,
        ended = attempt => {
            ended?;
            bail!(NOT_REFUSED)
        }
    }
}

/// How often to check a program's progress.
const PROGRAM_CHECK: Duration = Duration::from_millis(100);

/// A program on a guest, with its log.
pub struct Program<'a> {
    pub guest: &'a Guest,
    /// Of its log and of its process.
    name: &'static str,
}

impl<'a> Program<'a> {
    /// Starts a command in the background, which is killed when the guest ends. Ends one that a failed row has left.
    pub async fn start(guest: &'a Guest, name: &'static str, command: &str) -> Result<Self> {
        let line = format!(
            "kill -9 $(cat /tmp/{name}.pid 2>/dev/null) 2>/dev/null; \
             {command} </dev/null >/tmp/{name}.log 2>&1 & echo $! >/tmp/{name}.pid"
        );
        guest.shell(&line).await?;
        Ok(Self { guest, name })
    }

    /// What it has printed so far. It may have ended.
    pub async fn log(&self) -> Result<String> {
        self.guest.shell(&format!("cat /tmp/{}.log", self.name)).await
    }

    /// Waits for something. On timeout, fails with the end of the log.
    pub async fn wait(&self, what: &str, is_there: impl AsyncFn() -> Result<bool>) -> Result<()> {
        if becomes(PROGRAM_CHECK, is_there).await? {
            return Ok(());
        }
        let log = self.log().await?;
        let tail: Vec<&str> = log.lines().rev().take(5).collect();
        bail!("timed out waiting for {what}; the log, last line first: {tail:?}")
    }

    /// Waits until this many lines of the log have these words.
    pub async fn await_log(&self, words: &str, lines: usize) -> Result<()> {
        let has_lines =
            async || Ok(self.log().await?.lines().filter(|line| line.contains(words)).count() >= lines);
        self.wait(words, has_lines).await
    }

    pub async fn signal(&self, signal: &str) -> Result<()> {
        self.guest.shell(&format!("kill -{signal} $(cat /tmp/{}.pid)", self.name)).await.map(drop)
    }

    /// Waits until it has ended. A zombie has no command line.
    pub async fn await_end(&self) -> Result<()> {
        let ended = format!("test -z \"$(cat /proc/$(cat /tmp/{}.pid)/cmdline 2>/dev/null)\"", self.name);
        self.wait("it to end", async || Ok(self.guest.shell(&ended).await.is_ok())).await
    }

    /// Ends it by a signal, and waits until it is gone. Returns its log.
    pub async fn stop(self) -> Result<String> {
        self.signal("TERM").await?;
        self.await_end().await?;
        self.log().await
    }
}
