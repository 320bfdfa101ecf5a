//! Messages of one shape side by side, in step: each with its own key, which stays where it lies.

use core::arch::x86_64::*;

use super::lanes::Job;
use super::x86::double;
use crate::cut::{end, store, tail};

/// How many chains keep AES busy: a round takes three cycles, and two begin in each.
pub(super) const LANES: usize = 8;

/// The next messages, if there are so many and they can go in step: with as many slices of the same lengths, all but the last
/// of whole blocks, and the last not empty.
#[inline]
pub(super) fn group<'a>(mut jobs: impl Iterator<Item = Job<'a>>) -> Option<[Job<'a>; LANES]> {
    let first = jobs.next()?;
    let (last, whole) = first.2.split_last()?;
    if last.is_empty() || whole.iter().any(|slice| slice.len() % 16 != 0) {
        return None;
    }
    let mut group = [first; LANES];
    for place in &mut group[1..] {
        let job = jobs.next()?;
        let is_like = |(a, b): (&&[u8], &&[u8])| a.len() == b.len();
        if job.2.len() != first.2.len() || !job.2.iter().zip(first.2).all(is_like) {
            return None;
        }
        *place = job;
    }
    Some(group)
}

/// Computes the MACs of a group, and hands each to `done` with its job's number.
#[target_feature(enable = "aes,sse4.1,ssse3")]
pub(super) fn macs(jobs: &[Job<'_>; LANES], done: &mut impl FnMut(usize, &[u8; 16])) {
    let mut states = [_mm_setzero_si128(); LANES];
    let shape = jobs[0].2;
    for (at, slice) in shape.iter().enumerate() {
        let is_last = at + 1 == shape.len();
        let blocks = slice.len().saturating_sub(usize::from(is_last)) / 16;
        let starts: [_; LANES] = core::array::from_fn(|lane| jobs[lane].2[at].as_ptr());
        for block in 0..blocks {
            for lane in 0..LANES {
                // SAFETY: every lane's slice is as long as the first one's, and has so many blocks.
                let octets = unsafe { _mm_loadu_si128(starts[lane].add(16 * block).cast()) };
                states[lane] = _mm_xor_si128(states[lane], octets);
            }
            encrypt(&mut states, jobs);
        }
        if is_last {
            let length = slice.len() - 16 * blocks;
            for (state, (_, key, message)) in states.iter_mut().zip(jobs) {
                let subkey = match length {
                    16 => key.k1,
                    _ => _mm_xor_si128(double(key.k1), end(length)),
                };
                *state = _mm_xor_si128(*state, _mm_xor_si128(tail(message[at], length), subkey));
            }
            encrypt(&mut states, jobs);
        }
    }
    for ((number, ..), state) in jobs.iter().zip(states) {
        done(*number, &store(state));
    }
}

/// A block of each chain.
#[inline]
#[target_feature(enable = "aes,sse2")]
fn encrypt(states: &mut [__m128i; LANES], jobs: &[Job<'_>; LANES]) {
    for (state, (_, key, _)) in states.iter_mut().zip(jobs) {
        *state = _mm_xor_si128(*state, key.round_keys[0]);
    }
    for round in 1..10 {
        for (state, (_, key, _)) in states.iter_mut().zip(jobs) {
            *state = _mm_aesenc_si128(*state, key.round_keys[round]);
        }
    }
    for (state, (_, key, _)) in states.iter_mut().zip(jobs) {
        *state = _mm_aesenclast_si128(*state, key.round_keys[10]);
    }
}
