//! HMAC on x86-64: chooses the path for one message and for many.

use super::frame::KeyedJob;
use super::message::BLOCK;
use super::{avx512, bmi2, sha_ni};
use crate::cpu::{Avx512, Bmi2, InstructionSet, ShaNi, ShaNiAvx, is_zen_5};
use crate::groups::{Cost, each_group};

/// The best path for one message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path {
    ShaNiAvx(ShaNiAvx),
    ShaNi(ShaNi),
    Bmi2(Bmi2),
}

impl Path {
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        let sha_ni = || ShaNi::detect().map(Self::ShaNi);
        ShaNiAvx::detect().map(Self::ShaNiAvx).or_else(sha_ni).or_else(|| Bmi2::detect().map(Self::Bmi2))
    }

    pub(super) fn set(self) -> InstructionSet {
        match self {
            Self::ShaNiAvx(_) => InstructionSet::ShaNiAvx,
            Self::ShaNi(_) => InstructionSet::ShaNi,
            Self::Bmi2(_) => InstructionSet::Bmi2,
        }
    }

    #[inline]
    pub(super) fn sha1(self, keys: [&[u32; 5]; 2], before: u64, message: &[&[u8]]) -> [u8; 20] {
        match self {
            // SAFETY: the token proves SHA-NI.
            Self::ShaNi(_) => unsafe { sha_ni::sha1::hmac(keys, before, message) },
            // SAFETY: the token proves SHA-NI and AVX.
            Self::ShaNiAvx(_) => unsafe { sha_ni::sha1::avx::hmac(keys, before, message) },
            // SAFETY: the token proves BMI2.
            Self::Bmi2(_) => unsafe { bmi2::sha1::hmac(keys, before, message) },
        }
    }

    #[inline]
    pub(super) fn sha1_blocks(self, value: &mut [u32; 5], blocks: &[[u8; BLOCK]]) {
        match self {
            // SAFETY: the token proves SHA-NI.
            Self::ShaNi(_) => unsafe { sha_ni::sha1::absorb(value, blocks) },
            // SAFETY: the token proves SHA-NI and AVX.
            Self::ShaNiAvx(_) => unsafe { sha_ni::sha1::avx::absorb(value, blocks) },
            // SAFETY: the token proves BMI2.
            Self::Bmi2(_) => unsafe { bmi2::sha1::absorb(value, blocks) },
        }
    }

    #[inline]
    pub(super) fn sha1_key(self, values: &mut [[u32; 5]; 2], key: &[u8]) {
        match self {
            // SAFETY: the token proves SHA-NI.
            Self::ShaNi(_) => unsafe { sha_ni::sha1::absorb_key(values, key) },
            // SAFETY: the token proves SHA-NI and AVX.
            Self::ShaNiAvx(_) => unsafe { sha_ni::sha1::avx::absorb_key(values, key) },
            // SAFETY: the token proves BMI2.
            Self::Bmi2(_) => unsafe { bmi2::sha1::absorb_key(values, key) },
        }
    }

    #[inline]
    pub(super) fn sha256(self, keys: [&[u32; 8]; 2], before: u64, message: &[&[u8]]) -> [u8; 32] {
        match self {
            // SAFETY: the token proves SHA-NI.
            Self::ShaNi(_) => unsafe { sha_ni::sha256::hmac(keys, before, message) },
            // SAFETY: the token proves SHA-NI and AVX.
            Self::ShaNiAvx(_) => unsafe { sha_ni::sha256::avx::hmac(keys, before, message) },
            // SAFETY: the token proves BMI2.
            Self::Bmi2(_) => unsafe { bmi2::sha256::hmac(keys, before, message) },
        }
    }

    #[inline]
    pub(super) fn sha256_blocks(self, value: &mut [u32; 8], blocks: &[[u8; BLOCK]]) {
        match self {
            // SAFETY: the token proves SHA-NI.
            Self::ShaNi(_) => unsafe { sha_ni::sha256::absorb(value, blocks) },
            // SAFETY: the token proves SHA-NI and AVX.
            Self::ShaNiAvx(_) => unsafe { sha_ni::sha256::avx::absorb(value, blocks) },
            // SAFETY: the token proves BMI2.
            Self::Bmi2(_) => unsafe { bmi2::sha256::absorb(value, blocks) },
        }
    }

    #[inline]
    pub(super) fn sha256_key(self, values: &mut [[u32; 8]; 2], key: &[u8]) {
        match self {
            // SAFETY: the token proves SHA-NI.
            Self::ShaNi(_) => unsafe { sha_ni::sha256::absorb_key(values, key) },
            // SAFETY: the token proves SHA-NI and AVX.
            Self::ShaNiAvx(_) => unsafe { sha_ni::sha256::avx::absorb_key(values, key) },
            // SAFETY: the token proves BMI2.
            Self::Bmi2(_) => unsafe { bmi2::sha256::absorb_key(values, key) },
        }
    }
}

pub(super) fn sha1_many<'a>(
    jobs: impl Iterator<Item = (usize, [&'a [u32; 5]; 2], &'a [&'a [u8]])>,
    done: impl FnMut(usize, &[u8; 20]),
) -> usize {
    static SHA1: Many<5, 20> = Many {
        two: sha_ni::sha1::hmac_pair,
        two_avx: sha_ni::sha1::avx::hmac_pair,
        sixteen: avx512::hmac_sha1,
        cost: Some(Cost { once: 16, block: 9 }),
        cost_zen_5: Cost { once: 16, block: 9 },
        cost_bmi2: Cost { once: 5, block: 2 },
        cost_without_either: Cost { once: 4, block: 2 },
    };
    hmac_many(&SHA1, jobs, done)
}

pub(super) fn sha256_many<'a>(
    jobs: impl Iterator<Item = (usize, [&'a [u32; 8]; 2], &'a [&'a [u8]])>,
    done: impl FnMut(usize, &[u8; 32]),
) -> usize {
    static SHA256: Many<8, 32> = Many {
        two: sha_ni::sha256::hmac_pair,
        two_avx: sha_ni::sha256::avx::hmac_pair,
        sixteen: avx512::hmac_sha256,
        cost: None,
        cost_zen_5: Cost { once: 14, block: 8 },
        cost_bmi2: Cost { once: 6, block: 3 },
        cost_without_either: Cost { once: 4, block: 2 },
    };
    hmac_many(&SHA256, jobs, done)
}

/// The functions and costs of one hash for many messages.
struct Many<const WORDS: usize, const OCTETS: usize> {
    /// Computes two messages, on a processor with SHA-NI.
    two: unsafe fn(&[KeyedJob<'_, WORDS>; 2], &mut [[u8; OCTETS]; 2]),
    /// The same, on a processor that also has AVX.
    two_avx: unsafe fn(&[KeyedJob<'_, WORDS>; 2], &mut [[u8; OCTETS]; 2]),
    /// Computes a group of up to sixteen messages from [`each_group`], on a processor with AVX-512.
    sixteen: unsafe fn(&[KeyedJob<'_, WORDS>], &mut [[u8; OCTETS]; 16]),
    /// The cost of sixteen in blocks of messages computed two at a time with SHA-NI; `None` if sixteen are never faster.
    cost: Option<Cost>,
    /// The same on a Zen 5 of servers and desktops.
    cost_zen_5: Cost,
    /// The same in blocks with BMI2. Not measured: scaled from the next field by the time of a block on Zen 3.
    cost_bmi2: Cost,
    /// The same in blocks with a library that uses neither.
    cost_without_either: Cost,
}

/// Computes the HMACs of the messages that are faster side by side, and returns the number computed.
fn hmac_many<'a, const WORDS: usize, const OCTETS: usize>(
    hash: &Many<WORDS, OCTETS>,
    jobs: impl Iterator<Item = (usize, [&'a [u32; WORDS]; 2], &'a [&'a [u8]])>,
    mut done: impl FnMut(usize, &[u8; OCTETS]),
) -> usize {
    let sha_ni = ShaNi::detect();
    let cost = Avx512::detect().and_then(|_| match (sha_ni, Bmi2::detect()) {
        (Some(_), _) if is_zen_5() => Some(&hash.cost_zen_5),
        (Some(_), _) => hash.cost.as_ref(),
        (None, Some(_)) => Some(&hash.cost_bmi2),
        (None, None) => Some(&hash.cost_without_either),
    });
    let compute_two = if ShaNiAvx::detect().is_some() { hash.two_avx } else { hash.two };
    let mut count = 0;
    let mut two = [[0; OCTETS]; 2];
    each_group::<_, BLOCK>(jobs, |group| {
        if cost.is_some_and(|cost| cost.is_worth(group, BLOCK)) {
            let mut sixteen = [[0; OCTETS]; 16];
            // SAFETY: there is a cost only if there is the token, which proves AVX-512; the group is whole.
            unsafe { (hash.sixteen)(group, &mut sixteen) };
            group.iter().zip(&sixteen).for_each(|(job, mac)| done(job.number, mac));
            count += group.len();
        } else if sha_ni.is_some() {
            for pair in group.as_chunks().0 {
                // SAFETY: the token proves SHA-NI, and the AVX version is chosen only with its token.
                unsafe { compute_two(pair, &mut two) };
                pair.iter().zip(&two).for_each(|(job, mac)| done(job.number, mac));
                count += 2;
            }
        }
    });
    count
}
