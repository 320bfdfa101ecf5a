//! Polling.

use std::time::Duration;

use agent::TIME_LIMIT;
use tokio::time::{Instant, sleep};

use crate::failure::Result;

/// Polls `is_so` every `period` until it is true; returns false if the time runs out first.
pub async fn becomes(period: Duration, is_so: impl AsyncFn() -> Result<bool>) -> Result<bool> {
    let started = Instant::now();
    while !is_so().await? {
        if started.elapsed() > TIME_LIMIT {
            return Ok(false);
        }
        sleep(period).await;
    }
    Ok(true)
}
