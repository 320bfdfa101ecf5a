//! One key of a chain.

use crate::{Lifetime, Problem};
use wireseal_tcp_ao::Mkt;

/// A key of a [`KeyChain`](crate::KeyChain): an MKT and when to use it (RFC 8177 §3).
#[derive(Clone, Debug)]
pub struct Key {
    key_id: u64,
    mkt: Mkt,
    send: Lifetime,
    accept: Lifetime,
}

impl Key {
    /// A key that is always valid. `key_id` names it within its chain and is never on the wire.
    #[must_use]
    pub const fn new(key_id: u64, mkt: Mkt) -> Self {
        Self { key_id, mkt, send: Lifetime::ALWAYS, accept: Lifetime::ALWAYS }
    }

    /// Sets the lifetimes.
    ///
    /// # Errors
    /// [`Problem::AcceptLifetimeTooShort`] unless `accept` covers `send`: one MKT both signs and verifies (RFC 5925 §3.1).
    pub fn with_lifetimes(self, send: Lifetime, accept: Lifetime) -> Result<Self, Problem> {
        if !accept.covers(&send) {
            return Err(Problem::AcceptLifetimeTooShort);
        }
        Ok(Self { send, accept, ..self })
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let rest = |key: &Self| (key.key_id, key.send, key.accept);
        rest(self) == rest(other) && self.mkt.is_same(&other.mkt)
    }

    /// The number that names the key within its chain (RFC 8177 `key-id`).
    #[must_use]
    pub const fn key_id(&self) -> u64 {
        self.key_id
    }

    /// The MKT, with ids, algorithm and secret.
    #[must_use]
    pub const fn mkt(&self) -> &Mkt {
        &self.mkt
    }

    /// When this end may choose to send with the key.
    #[must_use]
    pub const fn send_lifetime(&self) -> &Lifetime {
        &self.send
    }

    /// When the peer may send with the key, before the chain's tolerance.
    #[must_use]
    pub const fn accept_lifetime(&self) -> &Lifetime {
        &self.accept
    }
}
