//! aws-lc-rs's keys, which wipe themselves: AWS-LC overwrites all memory that it frees, where AEAD keys are, and aws-lc-rs the keys of
//! header masks.

use aws_lc_rs as library;

#[path = "like_ring.rs"]
#[allow(clippy::duplicate_mod, reason = "the interface is ring's, and is written once for both")]
mod keys;

pub(crate) use keys::{AeadKey, MaskKey};

#[cfg(test)]
mod tests {
    use core::mem::needs_drop;

    use aws_lc_rs::aead::{LessSafeKey, quic};

    #[test]
    fn keys_are_dropped_by_aws_lc_rs_which_wipes_them() {
        assert!(needs_drop::<LessSafeKey>() && needs_drop::<quic::HeaderProtectionKey>());
    }
}
