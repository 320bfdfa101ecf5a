//! Waiting for a program.

use std::time::Duration;

use crate::prelude::*;
use crate::wait::becomes;

/// How often to check.
const CHECK: Duration = Duration::from_millis(100);

/// Waits for something. On timeout, fails with the end of the program's log.
pub async fn wait(
    what: &str,
    is_there: impl AsyncFn() -> Result<bool>,
    log: impl AsyncFn() -> Result<String>,
) -> Result<()> {
    if becomes(CHECK, is_there).await? {
        return Ok(());
    }
    let log = log().await?;
    let tail: Vec<&str> = log.lines().rev().take(5).collect();
    bail!("timed out waiting for {what}; the log, last line first: {tail:?}")
}
