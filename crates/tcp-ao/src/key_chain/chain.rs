//! Chains, and a file's worth of them.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::key_chain::{ActiveKeys, Key, KeyChainError, Lifetime, Problem, Timestamp};
use crate::{MktError, MktSet};

/// A named list of keys for one kind of peer (RFC 8177 `key-chain`), no two in each other's way.
#[derive(Clone, Debug)]
pub struct KeyChain {
    name: String,
    description: Option<String>,
    accept_tolerance: u32,
    keys: Vec<Key>,
}

impl KeyChain {
    /// A chain of these keys.
    ///
    /// # Errors
    /// [`KeyChainError`] when there is no key, when two keys have one key id, or when two keys with a SendID or a RecvID
    /// in common have accept lifetimes that overlap; it names both keys.
    pub fn new(name: impl Into<String>, keys: Vec<Key>) -> Result<Self, KeyChainError> {
        Self { name: name.into(), description: None, accept_tolerance: 0, keys }.checked()
    }

    /// The same chain with words for its reader.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }

    /// The same chain with every accept lifetime so many seconds longer at each end (RFC 8177 `accept-tolerance`).
    ///
    /// # Errors
    /// [`KeyChainError`] when that makes the accept lifetimes of two keys overlap that have an id in common.
    pub fn with_accept_tolerance(self, seconds: u32) -> Result<Self, KeyChainError> {
        Self { accept_tolerance: seconds, ..self }.checked()
    }

    fn checked(self) -> Result<Self, KeyChainError> {
        if self.keys.is_empty() {
            return Err(KeyChainError::new(Problem::NoKeys).field("key").in_chain(&self.name));
        }
        for (index, key) in self.keys.iter().enumerate() {
            for earlier in &self.keys[..index] {
                if let Some((field, problem)) = self.clash(earlier, key) {
                    let error = KeyChainError::new(problem).field(field);
                    return Err(error.in_key(key.key_id()).in_chain(&self.name));
                }
            }
        }
        Ok(self)
    }

    /// The field that keeps two keys from being in one chain.
    fn clash(&self, earlier: &Key, key: &Key) -> Option<(&'static str, Problem)> {
        if earlier.key_id() == key.key_id() {
            return Some(("key-id", Problem::KeyIdTwice));
        }
        if !self.acceptance(earlier).overlaps(&self.acceptance(key)) {
            return None;
        }
        let (a, b) = (earlier.mkt(), key.mkt());
        let field = match (a.send_id() == b.send_id(), a.recv_id() == b.recv_id()) {
            (true, _) => "send-id",
            (_, true) => "recv-id",
            _ => return None,
        };
        Some((field, Problem::IdInUse { by: earlier.key_id() }))
    }

    /// The name, by which a configuration refers to the chain.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The words for its reader, if there are any.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// By how many seconds each end of every accept lifetime is moved out.
    #[must_use]
    pub const fn accept_tolerance(&self) -> u32 {
        self.accept_tolerance
    }

    /// The keys, in the order in which they were given.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// When segments under a key of this chain are accepted: its accept lifetime with the chain's tolerance.
    fn acceptance(&self, key: &Key) -> Lifetime {
        key.accept_lifetime().widened_by(self.accept_tolerance)
    }

    /// The keys that are usable at this moment, in order of preference; none when the chain has expired or not begun.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> ActiveKeys<'_> {
        let mut keys: Vec<&Key> = self.keys.iter().filter(|key| self.acceptance(key).contains(now)).collect();
        let may_send = |key: &Key| key.send_lifetime().contains(now);
        keys.sort_by_key(|key| Reverse(may_send(key).then_some(key.send_lifetime().from())));
        let sendable = keys.iter().filter(|key| may_send(key)).count();
        ActiveKeys::new(keys, sendable)
    }

    /// The MKTs for a peer's connections at this moment: what [`Self::at`] has, in its order, those that may not be sent
    /// with as [accept-only](crate::MktParameters::accept_only); or none at all when none may be sent with.
    ///
    /// Of more than `N` the preferred ones are taken; [`Self::check_room`] says beforehand whether that can be.
    #[must_use]
    pub fn mkts<const N: usize>(&self, now: Timestamp) -> MktSet<N> {
        let active = self.at(now);
        let mut set = MktSet::new();
        if active.preferred().is_none() {
            return set;
        }
        for (index, key) in active.iter().take(N).enumerate() {
            let mkt = key.mkt().clone();
            let is_sendable = index < active.sendable().count();
            // Ids cannot clash: keys that are acceptable at once have been compared when the chain was made.
            let _ = set.push(if is_sendable { mkt } else { mkt.accept_only() });
        }
        set
    }

    /// Checks that at no time more than `room` keys are usable, such as a peer or a connection has room for.
    ///
    /// # Errors
    /// [`KeyChainError`] with [`MktError::TooMany`].
    pub fn check_room(&self, room: usize) -> Result<(), KeyChainError> {
        let moments = self.keys.iter().map(|key| self.acceptance(key).from().unwrap_or(Timestamp::MIN));
        let most = moments.map(|moment| self.at(moment).iter().count()).max().unwrap_or(0);
        if most > room {
            let problem = Problem::Mkt(MktError::TooMany { capacity: room });
            return Err(KeyChainError::new(problem).field("key").in_chain(&self.name));
        }
        Ok(())
    }

    /// Whether every key's send lifetime is over: without a new key, nothing will be sent any more.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.keys.iter().all(|key| key.send_lifetime().is_over(now))
    }

    /// The first moment after `now` at which [`Self::at`] has another answer, or `None` when it never will.
    #[must_use]
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let lifetimes = self.keys.iter().flat_map(|key| [*key.send_lifetime(), self.acceptance(key)]);
        let edges = lifetimes.flat_map(|lifetime| [lifetime.from(), lifetime.until()]).flatten();
        edges.filter(|edge| *edge > now).min()
    }
}

/// All key chains of a file (RFC 8177 `key-chains`), each with a name of its own.
#[derive(Clone, Debug, Default)]
pub struct KeyChains {
    chains: Vec<KeyChain>,
}

impl KeyChains {
    /// These chains.
    ///
    /// # Errors
    /// [`KeyChainError`] when two have one name.
    pub fn new(chains: Vec<KeyChain>) -> Result<Self, KeyChainError> {
        for (index, chain) in chains.iter().enumerate() {
            if chains[..index].iter().any(|earlier| earlier.name == chain.name) {
                return Err(KeyChainError::new(Problem::ChainTwice).field("name").in_chain(&chain.name));
            }
        }
        Ok(Self { chains })
    }

    /// The chain with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&KeyChain> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    /// The chains, in the order in which they were given.
    #[must_use]
    pub fn chains(&self) -> &[KeyChain] {
        &self.chains
    }
}
