//! Two messages side by side.
//!
//! A hash is a chain, and its instructions take four cycles each but can start in every cycle. In llvm-mca's models of Neoverse N1
//! and V2, two chains keep them busy: a third would gain nothing.

use super::super::padding::BLOCK;
use super::super::{Job, in_network_order};
use super::{Aarch64Hash, block, finish};
use crate::cpu::Aarch64Sha;
use crate::groups::{self, each_group};

/// Computes the HMACs of messages two by two, and returns how many.
pub(crate) fn hmac_many<'a, H: Aarch64Hash<WORDS>, const WORDS: usize, const OCTETS: usize>(
    jobs: impl Iterator<Item = Job<'a, WORDS>>,
    mut done: impl FnMut(usize, &[u8; OCTETS]),
) -> usize {
    if Aarch64Sha::detect().is_none() {
        return 0;
    }
    let mut count = 0;
    each_group::<_, BLOCK>(jobs, |group| {
        for pair in group.as_chunks().0 {
            // SAFETY: the token proves the path.
            let macs = unsafe { hmacs::<H, WORDS>(pair) };
            pair.iter().zip(macs).for_each(|(job, mac)| done(job.number, &in_network_order(mac)));
            count += pair.len();
        }
    });
    count
}

/// The HMACs of two jobs, the longer first.
#[target_feature(enable = "neon,sha2")]
fn hmacs<H: Aarch64Hash<WORDS>, const WORDS: usize>(
    jobs: &[groups::Job<'_, [&[u32; WORDS]; 2]>; 2],
) -> [[u32; WORDS]; 2] {
    let [inner, outer] = [0, 1].map(|at| jobs.each_ref().map(|job| job.key[at]));
    leak!("HMAC: two keys", *inner[0]);
    // SAFETY: this function is compiled for all that the hash needs.
    let mut states = unsafe { inner.map(|words| H::state(words)) };
    let [(long, long_end), (short, short_end)] = jobs.each_ref().map(|job| job.tail.as_chunks());
    // SAFETY: as above.
    unsafe {
        H::compress_two(&mut states, jobs.each_ref().map(|job| job.head.as_chunks().0));
        H::compress_two(&mut states, [long, short]);
    }
    let [mut longer, shorter] = states.map(|state| [state]);
    for octets in &long[short.len()..] {
        // SAFETY: as above.
        unsafe { H::compress(&mut longer, [block(octets)]) };
    }
    let lengths = jobs.each_ref().map(|job| BLOCK + job.head.len() + job.tail.len());
    finish::<H, WORDS, 2>([longer[0], shorter[0]], [(long_end, lengths[0]), (short_end, lengths[1])], outer)
}
