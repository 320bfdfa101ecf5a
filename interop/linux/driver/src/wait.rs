//! Waiting for what has to be asked for.

use std::time::Duration;

use agent::TIME_LIMIT;
use tokio::time::{Instant, sleep};

use crate::failure::Result;

/// Asks every `period` until it is so; says whether it was in time.
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
