//! The secrets of a connection's MKTs, by their slots.

use crate::connection::slot::{BothTrafficKeys, Secret};
use crate::kdf::TrafficKey;
use crate::mkt::MasterKey;

/// The master keys until the ISNs are confirmed, the traffic keys afterwards; never both.
#[allow(clippy::large_enum_variant, reason = "a heap is what this crate does without")]
pub(super) enum Secrets<const N: usize> {
    Master([Option<MasterKey>; N]),
    Traffic(TrafficKeys<N>),
}

/// Only two keys are ready to compute MACs; a key takes 208 octets so, and at most 32 otherwise.
#[repr(C)]
pub(super) struct TrafficKeys<const N: usize> {
    /// Of the slot that the connection `verifies_with`.
    pub(super) receive: TrafficKey,
    /// Of the current key.
    pub(super) send: TrafficKey,
    /// Of all slots; zeros where there is no MKT.
    pub(super) octets: [BothTrafficKeys; N],
}

impl<const N: usize> Secrets<N> {
    /// A copy of what is kept for a slot that has an MKT.
    pub(super) fn get(&self, slot: usize) -> Option<Secret> {
        match self {
            Self::Master(keys) => keys[slot].clone().map(Secret::Master),
            Self::Traffic(keys) => Some(Secret::Traffic(keys.octets[slot].clone())),
        }
    }
}
