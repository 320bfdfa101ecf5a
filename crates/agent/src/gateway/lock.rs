//! One gateway in each network namespace: two would queue the same packets twice.

use std::thread;
use std::time::{Duration, Instant};

use super::bound::{Holder, LOCK, holder};
use super::error::GatewayError;
use super::queues::PacketQueues;

/// How long one that has the lock may take to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Held by the gateway that runs, or by who changes its rules instead.
pub(super) struct Lock(#[expect(dead_code, reason = "it is held")] PacketQueues);

impl Lock {
    /// Takes it, before the process has any other netlink socket: the kernel then knows this one by the process's number. If another has
    /// the lock, `taken` says what is wrong with that.
    pub(super) fn take(taken: impl FnOnce(Holder) -> GatewayError) -> Result<Self, GatewayError> {
        let started = Instant::now();
        let mut was_free = false;
        loop {
            let error = match PacketQueues::bind([LOCK]) {
                Ok(queue) => return Ok(Self(queue)),
                Err(error) => error,
            };
            match holder() {
                // It may be about to end.
                Some(_) if started.elapsed() < PATIENCE => thread::sleep(PATIENCE / 10),
                Some(holder) => return Err(taken(holder)),
                // It has just ended, or nobody has it.
                None if !was_free => was_free = true,
                None => return Err(GatewayError::Queue { first: LOCK, last: LOCK, error }),
            }
        }
    }
}
