//! Many messages at once.

use crate::key::MacKey;
use crate::output::Mac;

/// Computes the MACs of many messages, each under its own key; the shorter slice decides.
pub fn mac_batch(jobs: &[(&MacKey, &[&[u8]])], macs: &mut [Mac]) {
    for ((key, message), mac) in jobs.iter().zip(macs) {
        *mac = key.mac(message);
    }
}
