//! One gateway in each network namespace: two would queue the same packets twice.

use super::bound::{Holder, LOCK, holder};
use super::error::GatewayError;
use super::queues::PacketQueues;

/// Held by the gateway that runs, or by who changes its rules instead.
pub(super) struct Lock(#[expect(dead_code, reason = "it is held")] PacketQueues);

impl Lock {
    /// Takes it, before the process has any other netlink socket: the kernel then knows this one by the process's number. If another has
    /// the lock, `taken` says what is wrong with that.
    pub(super) fn take(taken: impl FnOnce(Holder) -> GatewayError) -> Result<Self, GatewayError> {
        PacketQueues::bind([LOCK]).map(Self).map_err(|error| match holder() {
            Some(holder) => taken(holder),
            None => GatewayError::Queue { first: LOCK, last: LOCK, error },
        })
    }
}
