//! Many messages: which of them go side by side.

use super::{Key, eight};
use crate::groups::{Cost, each_group};

/// What [`eight::macs`] costs. Not measured: a block of every lane is that of llvm-mca's model of Neoverse N1, the rest about what it
/// is with AES-NI.
const COST: Cost = Cost { once: 12, block: 4 };

/// Computes the MACs of messages side by side, each under its own key, and returns how many.
///
/// A job is a number, a key, and the slices of a message. `done` gets the number of each job with its MAC, in any order. It is not
/// called for messages that would gain nothing: compute those with [`Key::mac`]. They are small groups, messages of more than two
/// slices, and those whose first of two slices is not whole blocks of 16 octets.
pub fn mac_many<'a>(
    jobs: impl Iterator<Item = (usize, &'a Key, &'a [&'a [u8]])>,
    mut done: impl FnMut(usize, &[u8; 16]),
) -> usize {
    let mut count = 0;
    each_group::<_, 16>(jobs, |group| {
        for group in group.chunks(eight::LANES).filter(|group| COST.is_worth(group, 16)) {
            // SAFETY: a key is made only where the processor has AES.
            unsafe { eight::macs(group, &mut done) };
            count += group.len();
        }
    });
    count
}
