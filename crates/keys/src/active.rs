//! The keys of a chain at one moment.

use alloc::vec::Vec;

use crate::Key;

/// The keys of a chain that are valid at one moment, in order of preference
/// ([`KeyChain::at`](crate::KeyChain::at)).
#[derive(Clone, Debug)]
pub struct ActiveKeys<'a> {
    keys: Vec<&'a Key>,
    sendable: usize,
}

impl<'a> ActiveKeys<'a> {
    /// `keys` with the `sendable` ones first, in order of preference.
    pub(super) const fn new(keys: Vec<&'a Key>, sendable: usize) -> Self {
        Self { keys, sendable }
    }

    /// The key to send with unless the peer asks for another: of the keys valid for sending, the one whose send lifetime
    /// started last. `None` if there is none; do not open a connection then.
    #[must_use]
    pub fn preferred(&self) -> Option<&'a Key> {
        self.sendable().next()
    }

    /// The keys that this end may choose to send with, the preferred one first.
    pub fn sendable(&self) -> impl Iterator<Item = &'a Key> {
        self.keys.iter().take(self.sendable).copied()
    }

    /// All keys to accept segments with: first the sendable ones, then those to send with only if the peer asks for them with
    /// RNextKeyID.
    pub fn iter(&self) -> impl Iterator<Item = &'a Key> {
        self.keys.iter().copied()
    }
}
