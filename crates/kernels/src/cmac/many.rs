//! Many messages: which of them go side by side, and by which instructions.

use super::key::Key;
use super::{aes_ni, vaes512};
use crate::cpu::Vaes512;
use crate::groups::{Cost, each_group};

/// What [`aes_ni::macs`] costs.
const COST: Cost = Cost { once: 13, block: 2 };

/// Computes the MACs of messages side by side, each under its own key, and returns how many.
///
/// A job is a number, a key, and the slices of a message. `done` gets the number of each job with its MAC, in any order. It is not
/// called for messages that would gain nothing: compute those with [`Key::mac`]. They are small groups, messages of more than two
/// slices, and those whose first of two slices is not whole blocks of 16 octets.
pub fn mac_many<'a>(
    jobs: impl Iterator<Item = (usize, &'a Key, &'a [&'a [u8]])>,
    mut done: impl FnMut(usize, &[u8; 16]),
) -> usize {
    let vaes512 = Vaes512::detect();
    let mut count = 0;
    each_group::<_, 16>(jobs, |group| {
        if let (Some(_token), Ok(group)) = (vaes512, group.try_into()) {
            // SAFETY: the token proves the path.
            unsafe { vaes512::macs(group, &mut done) };
            count += group.len();
            return;
        }
        for group in group.chunks(aes_ni::LANES).filter(|group| COST.is_worth(group, 16)) {
            // SAFETY: a key is made only where the processor has AES-NI.
            unsafe { aes_ni::macs(group, &mut done) };
            count += group.len();
        }
    });
    count
}
