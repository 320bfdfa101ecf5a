//! Planning: how to change one peer's keys on a socket, a pure function of its chain, the time and the present keys.

use std::fmt;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::KeyId;

use crate::manager::peers;
use crate::{InstalledKey, KeyName, PeerName, SocketKey};

/// The kind of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketKind {
    /// It listens. It has neither current nor rnext key; connections start with a copy of its keys.
    Listener,
    /// It is neither listening nor connected; it may be connecting.
    Closed,
    /// It is one end of a connection. The kernel never deletes the last key of one.
    Connection,
}

/// Where a key on a socket comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It is the chain's key with this key id.
    Chain(u64),
    /// It is the manager's [placeholder](Action::AddPlaceholder).
    Placeholder,
    /// It is for the manager's peers, but is not one of these: the key has left the chain, or its secret has changed.
    Leftover,
    /// It is for other peers. The manager leaves it alone.
    Foreign,
}

/// A change to a socket's keys, without their secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Add a key of the chain.
    Add {
        /// Its key id in the chain.
        key_id: u64,
        /// Its name on the socket.
        key: KeyName,
        /// Make it the current key in the same call.
        set_current: bool,
        /// Make it the rnext key in the same call.
        set_rnext: bool,
    },
    /// Add a key with a random secret, so that the socket always has a key for the peers.
    AddPlaceholder {
        /// Its name on the socket, with ids that no other key has.
        key: KeyName,
    },
    /// Sign with this key although the peer has not asked for it.
    SetCurrent(KeyName),
    /// Ask the peer to sign with this key.
    SetRnext(KeyName),
    /// Delete a key.
    Delete {
        /// Its name.
        key: KeyName,
        /// Where it comes from.
        origin: Origin,
        /// The key that protects the connections instead. If the deleted one is in use, it takes over in the same call.
        successor: Option<KeyName>,
        /// Whether it is the current key: the peer was still asking for it.
        is_current: bool,
        /// Whether it is the rnext key.
        is_rnext: bool,
    },
}

impl Action {
    /// The key that changes.
    #[must_use]
    pub const fn key(&self) -> KeyName {
        match *self {
            Self::Add { key, .. }
            | Self::AddPlaceholder { key }
            | Self::SetCurrent(key)
            | Self::SetRnext(key)
            | Self::Delete { key, .. } => key,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { key, .. } => write!(f, "add the {key}"),
            Self::AddPlaceholder { key } => write!(f, "keep the peer out with the {key}"),
            Self::SetCurrent(key) => write!(f, "sign with the {key}"),
            Self::SetRnext(key) => write!(f, "ask the peer for the {key}"),
            Self::Delete { key, is_current: false, is_rnext: false, .. } => write!(f, "delete the {key}"),
            Self::Delete { key, .. } => write!(f, "delete the {key}, which is still in use"),
        }
    }
}

/// A call of a plan, with its key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call<'a> {
    /// Add a key of the chain.
    Add {
        key_id: u64,
        key: SocketKey<'a>,
    },
    /// Add a key with a random secret and an algorithm of the chain; the kernel may lack others.
    AddPlaceholder {
        key: KeyName,
        algorithm: TcpAoAlgorithm,
    },
    SetCurrent(KeyName),
    SetRnext(KeyName),
    Delete {
        key: KeyName,
        origin: Origin,
        successor: Option<KeyName>,
        is_current: bool,
        is_rnext: bool,
    },
}

impl Call<'_> {
    /// The call as it is reported.
    pub(super) fn action(&self) -> Action {
        match *self {
            Self::Add { key_id, key } => {
                let SocketKey { set_current, set_rnext, .. } = key;
                Action::Add { key_id, key: key.name(), set_current, set_rnext }
            }
            Self::AddPlaceholder { key, .. } => Action::AddPlaceholder { key },
            Self::SetCurrent(key) => Action::SetCurrent(key),
            Self::SetRnext(key) => Action::SetRnext(key),
            Self::Delete { key, origin, successor, is_current, is_rnext } => {
                Action::Delete { key, origin, successor, is_current, is_rnext }
            }
        }
    }
}

/// A key on a socket as the kernel reports it, without its secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) name: KeyName,
    pub(super) origin: Origin,
    /// Whether this end signs with it.
    pub(super) is_current: bool,
    /// Whether this end asks the peer to sign with it.
    pub(super) is_rnext: bool,
    /// Segments verified under it.
    pub(super) good: u64,
}

/// What is known beyond the kernel's reports about one peer's keys on a socket, kept from one step to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Memory {
    /// The key that the peer was asked to sign with and has not used since, and how many segments had been verified under it at that time.
    awaited: Option<(KeyName, u64)>,
    placeholder: Option<KeyName>,
    asks: Asks,
}

/// What is known of the key that the peer asks for.
///
/// The kernel does not say what a segment asked for, but it makes the key with the RNextKeyID of each good segment current, if the socket has
/// that key (`tcp_inbound_ao_hash` in net/ipv4/tcp_ao.c). So the current key is the one that the peer asks for, once a segment has come since
/// it was chosen otherwise: by this end, or in the handshake, where the kernel may choose any key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Asks {
    /// Nothing: the past of the connection is not known.
    #[default]
    Unknown,
    /// This end has made the key current since the keys were read.
    Chosen(KeyName),
    /// The key was current, and so many segments had been verified, when the keys were read.
    Since(KeyName, u64),
    /// The peer asks for the key.
    For(KeyName),
}

impl Asks {
    /// What the keys on a connection show.
    fn observe(self, found: &[Found]) -> Self {
        let Some(current) = found.iter().find(|key| key.is_current).map(|key| key.name) else {
            return Self::Unknown;
        };
        let verified = found.iter().map(|key| key.good).sum();
        match self {
            Self::Unknown => Self::Since(current, verified),
            Self::Chosen(key) if key == current => Self::Since(current, verified),
            Self::Since(key, before) if key == current && verified <= before => {
                // There are fewer if a key was deleted with its count.
                Self::Since(current, verified)
            }
            Self::Chosen(_) | Self::Since(..) | Self::For(_) => Self::For(current),
        }
    }
}

impl Memory {
    /// Whether the peer has not yet signed with the key that it was asked to sign with.
    pub(super) const fn is_peer_behind(&self) -> bool {
        self.awaited.is_some()
    }

    pub(super) fn is_placeholder(&self, name: KeyName) -> bool {
        self.placeholder == Some(name)
    }

    /// The key that the peer asks for, as far as that is known.
    pub(super) const fn asks_for(&self) -> Option<KeyName> {
        match self.asks {
            Asks::For(key) => Some(key),
            _ => None,
        }
    }

    /// Records whether the peer has switched to the key that it was asked for, and which key it asks for.
    pub(super) fn observe(&mut self, kind: SocketKind, found: &[Found]) {
        if kind == SocketKind::Connection {
            self.asks = self.asks.observe(found);
        }
        let has_switched = |(name, before): (KeyName, u64)| {
            found.iter().any(|key| key.name == name && key.is_rnext && key.good > before)
        };
        if self.awaited.is_some_and(has_switched) {
            self.awaited = None;
        }
    }

    /// Records an action that succeeded, or a deletion that failed because the key is in use: the kernel has made its successor the current
    /// or rnext key anyway. `found` is from before the action.
    pub(super) fn note(&mut self, action: &Action, is_done: bool, kind: SocketKind, found: &[Found]) {
        let good = |name| found.iter().find(|key| key.name == name).map_or(0, |key| key.good);
        let without = |key| self.placeholder.filter(|placeholder| *placeholder != key);
        let (asked_for, placeholder, chosen) = match *action {
            Action::Add { key, set_current, set_rnext, .. } => {
                (set_rnext.then_some((key, 0)), without(key), set_current.then_some(key))
            }
            Action::AddPlaceholder { key } => (None, Some(key), None),
            Action::SetCurrent(key) => (None, self.placeholder, Some(key)),
            Action::SetRnext(key) => (Some((key, good(key))), self.placeholder, None),
            Action::Delete { key, successor, is_current, is_rnext, .. } => {
                let asked_for = successor.filter(|_| is_rnext).map(|key| (key, good(key)));
                (asked_for, without(key), successor.filter(|_| is_current))
            }
        };
        if is_done {
            self.placeholder = placeholder;
        }
        if let Some(key) = chosen {
            self.asks = Asks::Chosen(key);
        }
        if kind == SocketKind::Connection {
            self.awaited = asked_for.or(self.awaited);
        }
    }
}

/// The plan for one peer's keys on a socket.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan<'a> {
    /// The calls, in order. Between any two, the socket has a key for the peers.
    pub(super) calls: Vec<Call<'a>>,
    /// No key of the chain is valid for sending now. A listener and a closed socket get a placeholder; a connection keeps its keys until
    /// its owner shuts it down.
    pub(super) expired: bool,
    /// Keys that are no longer valid but cannot be deleted, because the connection has no other.
    pub(super) overdue: Vec<KeyName>,
    /// When to plan again even if the chain does not change.
    pub(super) again: Option<Timestamp>,
}

/// Everything that decides which of one peer's keys a socket should have.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) chain: &'a KeyChain,
    /// The peer that the chain is for, with a canonical network.
    pub(super) peer: PeerName,
    pub(super) now: Timestamp,
    /// A socket that will listen counts as a listener: it needs neither current nor rnext key.
    pub(super) kind: SocketKind,
    /// The names of other peers' keys for some of the same connections, whose ids a placeholder must not have.
    pub(super) near: &'a dyn Fn() -> Vec<KeyName>,
}

impl<'a> Target<'a> {
    /// Finds the origin of a key on the socket.
    pub(super) fn recognise(&self, memory: &Memory, key: &InstalledKey) -> Found {
        let InstalledKey { name, is_current, is_rnext, good, .. } = *key;
        Found { name, origin: self.origin(memory, key), is_current, is_rnext, good }
    }

    fn origin(&self, memory: &Memory, key: &InstalledKey) -> Origin {
        let name = key.name;
        if name.peer() != self.peer {
            // A connection has only its own peer's keys; any others come from its listener.
            let is_connection = self.kind == SocketKind::Connection;
            return if is_connection { Origin::Leftover } else { Origin::Foreign };
        }
        // A chain may have the same MKT twice, at different times.
        let same = self.chain.keys().iter().filter(|of_chain| key.is(of_chain.mkt()));
        let best = same.min_by_key(|key| {
            let acceptance = self.acceptance(key);
            (!acceptance.contains(self.now), acceptance.is_over(self.now))
        });
        let is_in_the_way = || (self.near)().into_iter().any(|near| near.clashes_with(&name));
        match best {
            Some(key) => Origin::Chain(key.key_id()),
            None if memory.is_placeholder(name) && !is_in_the_way() => Origin::Placeholder,
            None => Origin::Leftover,
        }
    }

    /// When segments under a key are accepted.
    pub(super) fn acceptance(&self, key: &Key) -> Lifetime {
        peers::acceptance(self.chain, key)
    }

    /// The name of a key of the chain on the socket.
    pub(super) fn name(&self, key: &Key) -> KeyName {
        self.peer.key(key.mkt())
    }

    /// The key of the chain with this key id.
    pub(super) fn key(&self, key_id: u64) -> Option<&'a Key> {
        self.chain.keys().iter().find(|key| key.key_id() == key_id)
    }

    /// Plans for the keys `found` on the socket. Keys in `set_aside`, which the kernel has just refused to change, are neither added nor
    /// deleted.
    pub(super) fn plan(&self, found: &[Found], memory: &Memory, set_aside: &[KeyName]) -> Plan<'a> {
        let active = self.chain.at(self.now);
        let is_found = |key: &Key| found.iter().any(|held| held.origin == Origin::Chain(key.key_id()));
        let is_available = |key: &&Key| is_found(key) || !set_aside.contains(&self.name(key));
        let preferred = active.sendable().find(is_available);
        let wanted: Vec<&Key> = match preferred {
            None => Vec::new(),
            Some(_) => active.iter().filter(is_available).collect(),
        };
        let mut draft =
            Draft { target: self, wanted, set_aside, keys: found.to_vec(), plan: Plan::default() };
        draft.plan.expired = preferred.is_none();
        draft.add_and_delete();
        if let Some(preferred) = preferred {
            draft.choose(preferred, found, memory);
        }
        draft.plan
    }
}

/// An unfinished plan, and the keys as they will be after its actions so far.
struct Draft<'a, 'b> {
    target: &'b Target<'a>,
    /// The keys that the socket should have, the preferred one first; none if no key is valid for sending.
    wanted: Vec<&'a Key>,
    set_aside: &'b [KeyName],
    keys: Vec<Found>,
    plan: Plan<'a>,
}

impl<'a> Draft<'a, '_> {
    /// Adds what is missing and deletes what is stale, with a placeholder in between if necessary.
    fn add_and_delete(&mut self) {
        loop {
            self.add_missing();
            let Some(stale) = self.next_stale() else { break };
            let successor = self.successor(stale);
            if self.can_go_without_successor(stale) {
                self.delete(stale, None);
            } else if successor.is_some() {
                self.delete(stale, successor);
            } else if !self.may_have_placeholder() || !self.add_placeholder() {
                self.plan.overdue.push(stale.name);
            }
        }
        if self.target.kind != SocketKind::Connection && !self.keys.iter().any(is_own) {
            self.add_placeholder();
        }
    }

    /// Adds every wanted key whose ids are free.
    fn add_missing(&mut self) {
        for index in 0..self.wanted.len() {
            let key = self.wanted[index];
            let name = self.target.name(key);
            let is_taken = |held: &Found| {
                held.origin == Origin::Chain(key.key_id()) || is_own(held) && held.name.clashes_with(&name)
            };
            if self.keys.iter().any(is_taken) {
                continue;
            }
            let is_preferred = index == 0;
            let set_current = is_preferred && self.target.kind == SocketKind::Closed;
            let set_rnext = is_preferred && self.target.kind != SocketKind::Listener;
            let PeerName { remote, vrf } = self.target.peer;
            let added = SocketKey { remote, vrf, mkt: key.mkt(), set_current, set_rnext };
            self.plan.calls.push(Call::Add { key_id: key.key_id(), key: added });
            self.hold(name, Origin::Chain(key.key_id()), set_current, set_rnext);
        }
    }

    /// The next key to delete: first those not in use, then those in use, the placeholder last.
    fn next_stale(&self) -> Option<Found> {
        let is_left = |key: &&Found| {
            self.is_stale(key)
                && !self.set_aside.contains(&key.name)
                && !self.plan.overdue.contains(&key.name)
        };
        let rank = |key: &&Found| (key.origin == Origin::Placeholder, self.is_in_use(key));
        self.keys.iter().filter(is_left).min_by_key(rank).copied()
    }

    /// Whether a key should not be on the socket.
    fn is_stale(&self, held: &Found) -> bool {
        let is_connection = self.target.kind == SocketKind::Connection;
        match held.origin {
            Origin::Foreign => false,
            Origin::Leftover => true,
            Origin::Placeholder => is_connection || !self.wanted.is_empty(),
            Origin::Chain(key_id) if self.wanted.iter().any(|key| key.key_id() == key_id) => false,
            Origin::Chain(_) if !is_connection => true,
            // The clock was set back: the peer may use a key that is not valid yet by this end's clock.
            Origin::Chain(key_id) => {
                let is_over = |key| self.target.acceptance(key).is_over(self.target.now);
                let is_in_the_way =
                    || self.wanted.iter().any(|key| self.target.name(key).clashes_with(&held.name));
                self.target.key(key_id).is_none_or(is_over) || is_in_the_way()
            }
        }
    }

    fn is_in_use(&self, key: &Found) -> bool {
        // A listener may have a current key from before it listened; it has no effect.
        self.target.kind != SocketKind::Listener && (key.is_current || key.is_rnext)
    }

    /// Whether a stale key can go without a successor. A connection is protected while it has any key, another socket only while it has one
    /// for these peers.
    fn can_go_without_successor(&self, stale: Found) -> bool {
        self.target.kind == SocketKind::Connection && !self.is_in_use(&stale)
    }

    /// The replacement of a stale key: the most preferred key on the socket, or else the placeholder.
    fn successor(&self, stale: Found) -> Option<KeyName> {
        let by_origin = |origin| self.keys.iter().find(|held| held.origin == origin);
        let mut wanted = self.wanted.iter().filter_map(|key| by_origin(Origin::Chain(key.key_id())));
        let placeholder = || by_origin(Origin::Placeholder).filter(|held| held.name != stale.name);
        wanted.next().or_else(|| self.kept()).or_else(placeholder).map(|held| held.name)
    }

    /// The key to keep while no key is valid for sending: preferably one that the peer may still send with.
    fn kept(&self) -> Option<&Found> {
        let acceptable = |held: &&Found| match held.origin {
            Origin::Chain(key_id) if self.wanted.is_empty() && !self.is_stale(held) => {
                let key = self.target.key(key_id)?;
                Some(self.target.acceptance(key).contains(self.target.now))
            }
            _ => None,
        };
        let kept = self.keys.iter().filter_map(|held| Some((acceptable(&held)?, held)));
        kept.max_by_key(|(is_acceptable, _)| *is_acceptable).map(|(_, held)| held)
    }

    /// Whether to add a placeholder: on a connection only until it has another key.
    fn may_have_placeholder(&self) -> bool {
        let has_one = self.keys.iter().any(|held| held.origin == Origin::Placeholder);
        !has_one && (self.target.kind != SocketKind::Connection || !self.wanted.is_empty())
    }

    /// Adds a placeholder; false if no ids are free.
    fn add_placeholder(&mut self) -> bool {
        let wanted = self.wanted.iter().map(|key| self.target.name(key));
        let held = self.keys.iter().map(|held| held.name);
        let held = held.filter(|name| name.peer().overlaps(&self.target.peer));
        let taken: Vec<KeyName> = held.chain(wanted).chain((self.target.near)()).collect();
        let free =
            |is_taken: &dyn Fn(KeyId) -> bool| (0..=u8::MAX).rev().map(KeyId).find(|id| !is_taken(*id));
        let send_id = free(&|id| taken.iter().any(|name| name.send_id == id));
        let recv_id = free(&|id| taken.iter().any(|name| name.recv_id == id));
        let Some((send_id, recv_id)) = send_id.zip(recv_id) else { return false };
        let PeerName { remote, vrf } = self.target.peer;
        let key = KeyName { remote, vrf, send_id, recv_id };
        let algorithm = self.target.chain.keys()[0].mkt().parameters().algorithm;
        self.plan.calls.push(Call::AddPlaceholder { key, algorithm });
        self.hold(key, Origin::Placeholder, false, false);
        true
    }

    fn delete(&mut self, stale: Found, successor: Option<KeyName>) {
        let in_use = self.is_in_use(&stale);
        let (is_current, is_rnext) = (in_use && stale.is_current, in_use && stale.is_rnext);
        let Found { name: key, origin, .. } = stale;
        self.plan.calls.push(Call::Delete { key, origin, successor, is_current, is_rnext });
        self.keys.retain(|held| held.name != stale.name);
        for held in self.keys.iter_mut().filter(|held| Some(held.name) == successor) {
            held.is_current |= is_current;
            held.is_rnext |= is_rnext;
        }
    }

    /// Records a key as added.
    fn hold(&mut self, name: KeyName, origin: Origin, is_current: bool, is_rnext: bool) {
        for held in &mut self.keys {
            held.is_current &= !is_current;
            held.is_rnext &= !is_rnext;
        }
        self.keys.push(Found { name, origin, is_current, is_rnext, good: 0 });
    }

    /// Chooses the current and the rnext key, if the preferred key is on the socket.
    fn choose(&mut self, preferred: &Key, found: &[Found], memory: &Memory) {
        let origin = Origin::Chain(preferred.key_id());
        let Some(held) = self.keys.iter().find(|held| held.origin == origin).copied() else { return };
        if self.target.kind == SocketKind::Listener {
            return;
        }
        if !held.is_rnext {
            self.plan.calls.push(Call::SetRnext(held.name));
        }
        let was_rnext = found.iter().any(|before| before.is_rnext && before.origin == origin);
        let has_switched = was_rnext && held.is_rnext && !memory.is_peer_behind();
        if !held.is_current && self.is_time_to_leave_current_key(has_switched) {
            self.plan.calls.push(Call::SetCurrent(held.name));
        }
    }

    /// Whether this end should switch from its current key to the preferred one without being asked.
    ///
    /// It should at the end of the send lifetime. If the peer has not yet signed with the preferred key, this end waits for half of the
    /// time for which the current key is still accepted; the other half allows for clocks that differ.
    fn is_time_to_leave_current_key(&mut self, has_switched: bool) -> bool {
        if self.target.kind == SocketKind::Closed {
            return true;
        }
        let current = self.keys.iter().find(|held| held.is_current);
        let key_id = match current {
            Some(Found { origin: Origin::Chain(key_id), .. }) => *key_id,
            // The kernel has just refused to delete it.
            Some(held) => return self.set_aside.contains(&held.name),
            None => return false,
        };
        let Some(key) = self.target.key(key_id) else { return false };
        if !key.send_lifetime().is_over(self.target.now) {
            return false;
        }
        let ends = key.send_lifetime().until().zip(self.target.acceptance(key).until());
        let latest = ends.map(|(send, accept)| {
            Timestamp::from_unix_seconds(send.unix_seconds().midpoint(accept.unix_seconds()))
        });
        if has_switched || latest.is_some_and(|latest| latest <= self.target.now) {
            return true;
        }
        self.plan.again = latest;
        false
    }
}

/// Whether a key is for the manager's peers.
fn is_own(held: &Found) -> bool {
    held.origin != Origin::Foreign
}
