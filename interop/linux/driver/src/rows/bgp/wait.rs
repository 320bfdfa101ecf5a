//! Waiting for a program.

use std::time::Duration;

use agent::TIME_LIMIT;
use tokio::time::{Instant, sleep};

use crate::failure::{Result, fail};

/// How often it is asked for what is waited for.
const CHECK: Duration = Duration::from_millis(100);

/// Waits until something is there; if it never is, says so with the end of the program's log.
pub async fn wait(
    what: &str,
    is_there: impl AsyncFn() -> Result<bool>,
    log: impl AsyncFn() -> Result<String>,
) -> Result<()> {
    let started = Instant::now();
    while !is_there().await? {
        if started.elapsed() > TIME_LIMIT {
            let log = log().await?;
            let tail: Vec<&str> = log.lines().rev().take(5).collect();
            return fail(format!("waited in vain for {what}; the log, last line first: {tail:?}"));
        }
        sleep(CHECK).await;
    }
    Ok(())
}
