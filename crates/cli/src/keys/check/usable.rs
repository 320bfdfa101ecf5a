//! What a key can be used for at a given time.

use wireseal_keys::Timestamp;

use crate::keys::{Chain, ChainKey};

/// What a key can be used for at a given time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usable {
    /// Sending and receiving.
    Whole,
    /// Receiving only.
    Accepted,
    /// Nothing yet.
    NotYet,
    /// Nothing any more.
    Expired,
}

impl Usable {
    /// What a key of this chain can be used for now.
    #[must_use]
    pub fn of(chain: &Chain, key: &ChainKey, now: Timestamp) -> Self {
        let acceptance = chain.acceptance(key);
        if key.send.contains(now) {
            Self::Whole
        } else if acceptance.contains(now) {
            Self::Accepted
        } else if acceptance.is_over(now) && key.send.is_over(now) {
            Self::Expired
        } else {
            Self::NotYet
        }
    }

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "yes",
            Self::Accepted => "accepted",
            Self::NotYet => "not yet",
            Self::Expired => "expired",
        }
    }
}
