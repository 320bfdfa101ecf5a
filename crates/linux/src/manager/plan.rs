//! Planning: how to change one peer's keys on a socket, a pure function of its chain, the time and the present keys.

use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::KeyId;

pub(super) use crate::manager::action::Found;
pub use crate::manager::action::{Action, Call, Origin, SocketKind};
pub(super) use crate::manager::memory::Memory;
use crate::manager::peers;
use crate::{InstalledKey, KeyName, PeerName, SocketKey};

/// A peer that asks for a key past its send lifetime is reported after at most so many seconds, more than clocks should differ by.
const PATIENCE: u32 = 300;

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
    /// The current key, if its send lifetime is over.
    pub(super) over: Option<KeyName>,
    /// The current key, if the peer goes on asking for it although its send lifetime is over, and that was not reported yet.
    pub(super) insists_on: Option<KeyName>,
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
        if name.peer() != self.peer.on_all_interfaces() {
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
            draft.tell(found, memory);
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
            let PeerName { remote, vrf, .. } = self.target.peer;
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
        let PeerName { remote, vrf, .. } = self.target.peer;
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
        let has_moved = was_rnext && held.is_rnext && held.good > 0 && !memory.is_peer_behind();
        if !held.is_current && self.leaves_current_key(has_moved, memory) {
            self.plan.calls.push(Call::SetCurrent(held.name));
        }
    }

    /// Whether this end should switch from its current key to the preferred one without being asked.
    ///
    /// It leaves a key whose send lifetime is over once the peer has signed with the preferred one. If the peer then asks for the old one
    /// again, it gets it (RFC 5925 §7.5), and this end does not try again. A peer that has not moved may hold no other key: the old one serves
    /// until the end of its accept lifetime. [`Connection::replace_keys`](wireseal_tcp_ao::Connection::replace_keys) decides alike.
    fn leaves_current_key(&self, has_moved: bool, memory: &Memory) -> bool {
        if self.target.kind == SocketKind::Closed {
            return true;
        }
        let Some(current) = self.keys.iter().find(|held| held.is_current) else { return false };
        match self.chains_key(current) {
            // The kernel has just refused to delete it.
            None => self.set_aside.contains(&current.name),
            Some(key) if self.target.acceptance(key).is_over(self.target.now) => true,
            Some(key) => {
                key.send_lifetime().is_over(self.target.now) && has_moved && !memory.insists_on(current.name)
            }
        }
    }

    /// The key of the chain that is held under this name.
    fn chains_key(&self, held: &Found) -> Option<&'a Key> {
        match held.origin {
            Origin::Chain(key_id) => self.target.key(key_id),
            _ => None,
        }
    }

    /// Finds out whether the peer goes on asking for a key past its send lifetime. The peer's clock may be behind: it has half of the time for
    /// which the key is still accepted, but no more than [`PATIENCE`].
    fn tell(&mut self, found: &[Found], memory: &Memory) {
        let current = found.iter().find(|held| held.is_current);
        let current = current.filter(|_| self.target.kind == SocketKind::Connection);
        let key = current.and_then(|current| self.chains_key(current));
        let Some((name, key)) = current.map(|current| current.name).zip(key) else { return };
        let Some(over) = key.send_lifetime().until().filter(|until| *until <= self.target.now) else {
            return;
        };
        self.plan.over = Some(name);
        if memory.is_told(name) {
            return;
        }
        let half =
            self.target.acceptance(key).until().map(|until| {
                Timestamp::from_unix_seconds(over.unix_seconds().midpoint(until.unix_seconds()))
            });
        let late = half.into_iter().fold(over.later_by(PATIENCE), Timestamp::min);
        if self.target.now < late {
            self.plan.again = Some(late);
        } else if memory.has_asked_late(name, found) {
            self.plan.insists_on = Some(name);
        }
    }
}
/// Whether a key is for the manager's peers.
fn is_own(held: &Found) -> bool {
    held.origin != Origin::Foreign
}
