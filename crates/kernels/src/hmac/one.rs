//! HMAC of one message by SHA-NI, from its first octet to its last without leaving the registers.

/// Defines the functions for a hash of so many words. Where it is called there are its `State` and `Block` and the functions
/// that know how these lie in registers.
macro_rules! hmac_by_sha_ni {
    ($words:literal) => {
        #[inline]
        #[target_feature(enable = "sha,sse4.1,ssse3")]
        fn block(octets: &[u8; 64]) -> Block {
            let (parts, _) = octets.as_chunks();
            core::array::from_fn(|at| big_endian($crate::cut::load(&parts[at])))
        }

        /// The HMAC (RFC 2104) of the slices of `message`, from the chaining values behind the inner and the outer key.
        #[target_feature(enable = "sha,sse4.1,ssse3")]
        pub(super) fn hmac(
            inner: &[u32; $words],
            outer: &[u32; $words],
            message: &[&[u8]],
        ) -> [u8; 4 * $words] {
            let mut value = state(inner);
            let mut buffer = $crate::hmac::last::Buffer::new();
            let mut length = 64;
            // What is left is at the end of this slice, which is the buffer's when it is of more than one.
            let (mut whole, mut left): (&[u8], usize) = (&[], 0);
            for slice in message {
                length += slice.len() as u64;
                let mut slice = *slice;
                if left > 0 {
                    buffer.take(&whole[whole.len() - left..]);
                    left = 0;
                }
                if buffer.length > 0 {
                    slice = buffer.take(slice);
                    if buffer.length < 64 {
                        continue;
                    }
                    value = compress(value, block(&buffer.octets));
                    buffer.length = 0;
                }
                let (blocks, rest) = slice.as_chunks();
                for octets in blocks {
                    value = compress(value, block(octets));
                }
                (whole, left) = (slice, rest.len());
            }
            if buffer.length > 0 {
                (whole, left) = (&buffer.octets[..buffer.length], buffer.length);
            }
            let mut last = $crate::hmac::last::last_block(whole, left).map(|part| big_endian(part));
            if left >= 56 {
                value = compress(value, last);
                last = [core::arch::x86_64::_mm_setzero_si128(); 4];
            }
            last[3] = with_length(last[3], length);
            value = compress(value, last);
            octets(compress(state(outer), outer_block(value)))
        }

        fn in_network_order(words: [u32; $words]) -> [u8; 4 * $words] {
            let mut octets = [0; 4 * $words];
            for (octets, word) in octets.as_chunks_mut().0.iter_mut().zip(words) {
                *octets = word.to_be_bytes();
            }
            octets
        }

        /// Computes the HMACs of many messages, as the module's function of this name says.
        pub(super) fn hmac_many<'a>(
            jobs: impl Iterator<Item = $crate::hmac::Job<'a, $words>> + Clone,
            mut each: impl FnMut(usize, Option<&[u8; 4 * $words]>),
        ) {
            let mut jobs = jobs;
            if $crate::cpu::Avx512::detect().is_some() {
                while let Some(group) = $crate::shape::group(&mut jobs, 64) {
                    let advance = super::lanes::advance;
                    // SAFETY: the token proves the path.
                    unsafe {
                        $crate::hmac::same::run(
                            &group,
                            advance,
                            super::lanes::compress,
                            &mut |number, words| {
                                each(number, Some(&in_network_order(words)));
                            },
                        );
                    }
                }
            }
            if jobs.clone().next().is_none() {
                return;
            }
            let cost = if $crate::cpu::ShaNi::detect().is_some() { COST } else { COST_WITHOUT_SHA_NI };
            let blocks = jobs.clone().map(|(.., message)| $crate::worth::octets(message) / 64 + 2);
            if $crate::cpu::Avx512::detect().is_none() || !cost.is_worth(blocks) {
                return jobs.for_each(|(number, ..)| each(number, None));
            }
            let each = |number, words| each(number, Some(&in_network_order(words)));
            // SAFETY: the token proves the path.
            unsafe { $crate::hmac::lanes::run(jobs, super::lanes::advance, each) };
        }
    };
}
pub(crate) use hmac_by_sha_ni;
