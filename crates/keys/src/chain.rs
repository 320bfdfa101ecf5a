//! Keys with their lifetimes, chains of keys, and the chains of a file.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use wireseal_tcp_ao::shim::{Observer, PeerSlot, Shim, ShimSlot};
use wireseal_tcp_ao::{KeyId, Mkt, MktError, MktSet, PeerError};

use crate::error::{Error, Fault, Problem};
use crate::lifetime::Lifetime;
use crate::timestamp::Timestamp;

/// A key of a [`KeyChain`]: an MKT and when to use it (RFC 8177 §3).
#[derive(Clone, Debug)]
pub struct Key {
    key_id: u64,
    mkt: Mkt,
    send: Lifetime,
    accept: Lifetime,
}

impl Key {
    /// A key that is always valid. `key_id` names it within its chain and is never sent.
    #[must_use]
    pub const fn new(key_id: u64, mkt: Mkt) -> Self {
        Self { key_id, mkt, send: Lifetime::ALWAYS, accept: Lifetime::ALWAYS }
    }

    /// Sets the lifetimes.
    ///
    /// # Errors
    /// [`Problem::AcceptLifetimeTooShort`] unless `accept` covers `send`: one MKT both signs and verifies (RFC 5925 §3.1).
    pub fn with_lifetimes(self, send: Lifetime, accept: Lifetime) -> Result<Self, Error> {
        if !accept.covers(&send) {
            return Err(Problem::AcceptLifetimeTooShort.into());
        }
        Ok(Self { send, accept, ..self })
    }

    fn is_same(&self, other: &Self) -> bool {
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

/// The keys of a chain that are valid at one moment, in order of preference ([`KeyChain::at`]).
#[derive(Clone, Debug)]
pub struct ActiveKeys<'a> {
    keys: Vec<&'a Key>,
    sendable: usize,
}

impl<'a> ActiveKeys<'a> {
    /// `keys` with the `sendable` ones first, in order of preference.
    const fn new(keys: Vec<&'a Key>, sendable: usize) -> Self {
        Self { keys, sendable }
    }

    /// The key to send with unless the peer asks for another: of the keys valid for sending, the one that the
    /// [chain prefers](KeyChain::with_preferred), or else the one whose send lifetime started last. `None` if there is none; do not open a
    /// connection then.
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

/// A named list of keys (RFC 8177 `key-chain`). Two keys that are valid at the same time never share an id.
#[derive(Clone, Debug)]
pub struct KeyChain {
    name: String,
    description: Option<String>,
    accept_tolerance: u32,
    /// The key id of the preferred key, if lifetimes alone do not decide.
    preferred: Option<u64>,
    keys: Vec<Key>,
}

impl KeyChain {
    /// A chain of these keys.
    ///
    /// # Errors
    /// [`Error`] if there is no key, if two keys have the same key id, or if two keys with the same SendID or RecvID
    /// have accept lifetimes that overlap; it names both keys.
    pub fn new(name: impl Into<String>, keys: Vec<Key>) -> Result<Self, Error> {
        let chain = Self { name: name.into(), description: None, accept_tolerance: 0, preferred: None, keys };
        Ok(chain.checked()?)
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..self }
    }

    /// Extends every accept lifetime by `seconds` at each end (RFC 8177 `accept-tolerance`).
    ///
    /// # Errors
    /// [`Error`] if the accept lifetimes of two keys with an id in common then overlap.
    pub fn with_accept_tolerance(self, seconds: u32) -> Result<Self, Error> {
        Ok(Self { accept_tolerance: seconds, ..self }.checked()?)
    }

    /// Prefers the key with this key id whenever it is valid for sending, whatever the other keys' lifetimes. This is for configurations
    /// that name the key to send with, such as `send-id` of GoBGP, so that no lifetimes have to be invented. While the key is not valid
    /// for sending, the order is that of a chain without a preferred key.
    ///
    /// # Errors
    /// [`Problem::NoSuchKey`] if no key of the chain has this key id.
    pub fn with_preferred(self, key_id: u64) -> Result<Self, Error> {
        Ok(Self { preferred: Some(key_id), ..self }.checked()?)
    }

    /// A chain as read from a file; its keys may collide, and it may lack the preferred one.
    #[cfg(feature = "serde")]
    pub(crate) fn unchecked(
        name: String,
        description: Option<String>,
        accept_tolerance: u32,
        preferred: Option<u64>,
        keys: Vec<Key>,
    ) -> Self {
        Self { name, description, accept_tolerance, preferred, keys }
    }

    pub(crate) fn checked(self) -> Result<Self, Fault> {
        if self.keys.is_empty() {
            return Err(Error::from(Problem::NoKeys).field("key").in_chain(&self.name).of(None, None));
        }
        let mut key_ids = BTreeSet::new();
        let mut taken = [BTreeMap::new(), BTreeMap::new()];
        for (index, key) in self.keys.iter().enumerate() {
            let acceptance = self.acceptance(key);
            let mut is_free = key_ids.insert(key.key_id());
            for (taken, id) in taken.iter_mut().zip([key.mkt().send_id(), key.mkt().recv_id()]) {
                is_free &= take(taken, id, acceptance);
            }
            let clash = || self.keys[..index].iter().find_map(|earlier| self.clash(earlier, key));
            if !is_free && let Some((field, problem)) = clash() {
                let error = Error::from(problem).field(field).in_key(key.key_id());
                return Err(error.in_chain(&self.name).of(None, Some(index)));
            }
        }
        self.with_known_preferred()
    }

    /// Refuses a preferred key that the chain does not have.
    pub(crate) fn with_known_preferred(self) -> Result<Self, Fault> {
        let is_missing = |key_id| self.keys.iter().all(|key| key.key_id() != key_id);
        if self.preferred.is_some_and(is_missing) {
            let error = Error::from(Problem::NoSuchKey).field("preferred");
            return Err(error.in_chain(&self.name).of(None, None));
        }
        Ok(self)
    }

    /// The field in which two keys clash, so that they cannot be in one chain.
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

    /// The name by which a configuration refers to the chain.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description, if there is one.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// By how many seconds every accept lifetime is extended at each end.
    #[must_use]
    pub const fn accept_tolerance(&self) -> u32 {
        self.accept_tolerance
    }

    /// The key id of the key that is [preferred](Self::with_preferred) while it is valid for sending, if there is one.
    #[must_use]
    pub const fn preferred(&self) -> Option<u64> {
        self.preferred
    }

    /// The keys, in the order given.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Whether both chains have the same keys, secrets included, in the same order, prefer the same one, and accept them at the same
    /// times. Secrets are compared in constant time.
    #[must_use]
    pub fn has_same_keys(&self, other: &Self) -> bool {
        (self.accept_tolerance, self.preferred) == (other.accept_tolerance, other.preferred)
            && self.keys.len() == other.keys.len()
            && self.keys.iter().zip(&other.keys).all(|(key, other)| key.is_same(other))
    }

    /// When segments under a key of this chain are accepted: its accept lifetime with the chain's tolerance.
    fn acceptance(&self, key: &Key) -> Lifetime {
        key.accept_lifetime().widened_by(self.accept_tolerance)
    }

    /// The keys that are valid at `now`, in order of preference; none if the chain has expired or not begun.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> ActiveKeys<'_> {
        let mut keys: Vec<&Key> = self.keys.iter().filter(|key| self.acceptance(key).contains(now)).collect();
        let may_send = |key: &Key| key.send_lifetime().contains(now);
        let is_preferred = |key: &Key| self.preferred == Some(key.key_id());
        keys.sort_by_key(|key| {
            Reverse(may_send(key).then_some((is_preferred(key), key.send_lifetime().from())))
        });
        let sendable = keys.iter().filter(|key| may_send(key)).count();
        ActiveKeys::new(keys, sendable)
    }

    /// The MKTs for a peer's connections at `now`: the keys of [`Self::at`] in the same order, those not valid for sending as
    /// [accept-only](wireseal_tcp_ao::MktParameters::accept_only). Empty if no key is valid for sending.
    ///
    /// Takes the first `N`; check with [`Self::check_room`] beforehand whether there can be more.
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
            // Ids cannot clash: `checked` has compared keys that are valid at the same time.
            let _ = set.push(if is_sendable { mkt } else { mkt.accept_only() });
        }
        set
    }

    /// Whether the chain has the MKT that `is` recognises, and its send lifetime has not begun. Then keep it on a live connection, because
    /// the clock was set back. Recognise it with [`Connection::has_key`](wireseal_tcp_ao::Connection::has_key), not by its ids alone: a
    /// later key may reuse the ids of a removed one, with another secret.
    #[must_use]
    pub fn is_early(&self, is: impl Fn(&Mkt) -> bool, now: Timestamp) -> bool {
        let mut keys = self.keys.iter().filter(|key| is(key.mkt())).peekable();
        // The chain may have the same MKT twice. If either lifetime has begun, the MKT is not early.
        keys.peek().is_some() && keys.all(|key| key.send_lifetime().from().is_some_and(|from| from > now))
    }

    /// Gives the peer at `index` of a shim, and its live connections, the keys that the chain has at `now`. Call it at each
    /// [`Self::next_change`], and when the clock has been set.
    ///
    /// A live connection keeps keys that are valid later, recognised by ids and secret, so that setting a clock back costs no session. If
    /// it is left without a key to send with, it is forgotten, and nothing gets through.
    ///
    /// # Errors
    /// Those of [`Shim::set_valid_mkts`]. Ids that collide with those of another peer are left out, and everything else takes effect. In
    /// particular, keys that have expired are gone.
    pub fn apply_to<P, T, O>(
        &self,
        shim: &mut Shim<P, T, O>,
        index: usize,
        now: Timestamp,
    ) -> Result<(), PeerError>
    where
        P: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>,
        T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>,
        O: Observer,
    {
        shim.set_valid_mkts(index, &self.mkts(now), |is| self.is_early(is, now))
    }

    /// Checks that never more than `room` keys are valid at once, for a peer or a connection with that much room.
    ///
    /// # Errors
    /// [`Error`] with [`MktError::TooMany`] otherwise.
    pub fn check_room(&self, room: usize) -> Result<(), Error> {
        let starts = self.keys.iter().map(|key| (self.acceptance(key).from().unwrap_or(Timestamp::MIN), 1));
        let ends = self.keys.iter().filter_map(|key| Some((self.acceptance(key).until()?, -1)));
        let mut changes: Vec<(Timestamp, isize)> = starts.chain(ends).collect();
        // A lifetime excludes its end, so a key that ends makes room for one that starts then.
        changes.sort_unstable();
        let valid = changes.iter().scan(0, |count, (_, change)| {
            *count += change;
            Some(*count)
        });
        let most = valid.max().unwrap_or(0).unsigned_abs();
        if most > room {
            let problem = Problem::Mkt(MktError::TooMany { capacity: room });
            return Err(Error::from(problem).field("key").in_chain(&self.name));
        }
        Ok(())
    }

    /// Whether every key's send lifetime is over.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.keys.iter().all(|key| key.send_lifetime().is_over(now))
    }

    /// The first moment after `now` at which [`Self::at`] changes; `None` if it never does.
    #[must_use]
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let lifetimes = self.keys.iter().flat_map(|key| [*key.send_lifetime(), self.acceptance(key)]);
        let edges = lifetimes.flat_map(|lifetime| [lifetime.from(), lifetime.until()]).flatten();
        edges.filter(|edge| *edge > now).min()
    }
}

/// Takes an id for a lifetime, unless it is taken for one that overlaps. The lifetimes taken so far do not overlap and are sorted by start,
/// so only the neighbours need to be compared.
fn take(
    taken: &mut BTreeMap<(u8, Option<Timestamp>), Lifetime>,
    KeyId(id): KeyId,
    lifetime: Lifetime,
) -> bool {
    let place = (id, lifetime.from());
    let neighbours = [taken.range(..=place).next_back(), taken.range(place..).next()];
    let is_free =
        !neighbours.into_iter().flatten().any(|((other, _), of)| *other == id && of.overlaps(&lifetime));
    if is_free {
        taken.insert(place, lifetime);
    }
    is_free
}

/// The key chains of a file (RFC 8177 `key-chains`), each with a different name.
#[derive(Clone, Debug, Default)]
pub struct KeyChains {
    pub(crate) chains: Vec<KeyChain>,
    /// Names of chains that are not among `chains`, and why.
    pub(crate) unusable: Vec<(String, Error)>,
}

impl KeyChains {
    /// A list of chains.
    ///
    /// # Errors
    /// [`Error`] if two have the same name.
    pub fn new(chains: Vec<KeyChain>) -> Result<Self, Error> {
        Ok(Self::checked(chains)?)
    }

    pub(crate) fn checked(chains: Vec<KeyChain>) -> Result<Self, Fault> {
        let mut names = BTreeSet::new();
        for (index, chain) in chains.iter().enumerate() {
            if !names.insert(&chain.name) {
                let error = Error::from(Problem::ChainTwice).field("name").in_chain(&chain.name);
                return Err(error.of(Some(index), None));
            }
        }
        Ok(Self { chains, unusable: Vec::new() })
    }

    /// The chain with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&KeyChain> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    /// The chains, in the order given.
    #[must_use]
    pub fn chains(&self) -> &[KeyChain] {
        &self.chains
    }

    /// The names of further chains that a router's configuration has and that cannot be used, each with the reason. Refuse a peer that
    /// such a chain is for. Other files have none: one wrong chain is an error of the whole file.
    #[must_use]
    pub fn unusable(&self) -> &[(String, Error)] {
        &self.unusable
    }
}
