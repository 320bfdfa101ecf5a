//! Polling, and waiting for a refusal.

use std::time::Duration;

use agent::TIME_LIMIT;
use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// How long something may take to become so. Programs need longer than a call to a guest: from the start of ExaBGP, which is Python, to the
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
