//! Deciding what to do with the keys of one peer on a socket: a pure function of the chain, the time and the keys that are
//! there.

use cidr::IpCidr;
use wireseal_keys::{Key, Timestamp};
use wireseal_tcp_ao::KeyId;

use crate::manager::action::{Action, Origin, SocketKind};
use crate::manager::state::{Found, Memory};
use crate::manager::target::{Target, names_clash};
use crate::{KeyName, PeerName};

/// What to do with the keys of one peer on a socket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Plan {
    /// What to do, in this order. The socket is never without a key for the peers in between.
    pub(super) actions: Vec<Action>,
    /// No key of the chain is valid for sending now: a listener and a closed socket get a placeholder, and a connection keeps
    /// what it has until its owner shuts it down.
    pub(super) expired: bool,
    /// Keys that are no longer valid but cannot be deleted, because the connection has no other.
    pub(super) overdue: Vec<KeyName>,
    /// When to decide again although the chain does not change then.
    pub(super) again: Option<Timestamp>,
}

impl Target<'_> {
    /// Decides what to do with the keys `found` on the socket.
    ///
    /// Keys in `set_aside` are neither added nor deleted, because the kernel has just refused that.
    pub(super) fn plan(&self, found: &[Found], memory: &Memory, set_aside: &[KeyName]) -> Plan {
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
struct Draft<'a> {
    target: &'a Target<'a>,
    /// The keys that the socket should have, the preferred one first; none if no key is valid for sending.
    wanted: Vec<&'a Key>,
    set_aside: &'a [KeyName],
    keys: Vec<Found>,
    plan: Plan,
}

impl Draft<'_> {
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
                held.origin == Origin::Chain(key.key_id()) || is_own(held) && names_clash(held.name, name)
            };
            if self.keys.iter().any(is_taken) {
                continue;
            }
            let is_preferred = index == 0;
            let set_current = is_preferred && self.target.kind == SocketKind::Closed;
            let set_rnext = is_preferred && self.target.kind != SocketKind::Listener;
            self.plan.actions.push(Action::Add { key_id: key.key_id(), key: name, set_current, set_rnext });
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
            // The clock was set back: the peer may be using a key that is not valid yet by this end's clock.
            Origin::Chain(key_id) => {
                let is_over = |key| self.target.acceptance(key).is_over(self.target.now);
                let is_in_the_way =
                    || self.wanted.iter().any(|key| names_clash(self.target.name(key), held.name));
                self.target.key(key_id).is_none_or(is_over) || is_in_the_way()
            }
        }
    }

    fn is_in_use(&self, key: &Found) -> bool {
        // A listener's current key dates from before it listened and has no effect.
        self.target.kind != SocketKind::Listener && (key.is_current || key.is_rnext)
    }

    /// A connection is protected while it has any key, another socket while it has one for these peers.
    fn can_go_without_successor(&self, stale: Found) -> bool {
        self.target.kind == SocketKind::Connection && !self.is_in_use(&stale)
    }

    /// What replaces a stale key: the most preferred key on the socket, or else the placeholder.
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

    /// Whether a placeholder helps: on a connection only until another key is there.
    fn may_have_placeholder(&self) -> bool {
        let has_one = self.keys.iter().any(|held| held.origin == Origin::Placeholder);
        !has_one && (self.target.kind != SocketKind::Connection || !self.wanted.is_empty())
    }

    /// Adds a placeholder; false if no ids are free.
    fn add_placeholder(&mut self) -> bool {
        let wanted = self.wanted.iter().map(|key| self.target.name(key));
        let held = self.keys.iter().map(|held| held.name);
        let held = held.filter(|name| overlap(name.remote, self.target.peer.remote));
        let taken: Vec<KeyName> = held.chain(wanted).chain((self.target.near)()).collect();
        let free =
            |is_taken: &dyn Fn(KeyId) -> bool| (0..=u8::MAX).rev().map(KeyId).find(|id| !is_taken(*id));
        let send_id = free(&|id| taken.iter().any(|name| name.send_id == id));
        let recv_id = free(&|id| taken.iter().any(|name| name.recv_id == id));
        let Some((send_id, recv_id)) = send_id.zip(recv_id) else { return false };
        let PeerName { remote, vrf } = self.target.peer;
        let key = KeyName { remote, vrf, send_id, recv_id };
        self.plan.actions.push(Action::AddPlaceholder { key });
        self.hold(key, Origin::Placeholder, false, false);
        true
    }

    fn delete(&mut self, stale: Found, successor: Option<KeyName>) {
        let in_use = self.is_in_use(&stale);
        let (is_current, is_rnext) = (in_use && stale.is_current, in_use && stale.is_rnext);
        let Found { name: key, origin, .. } = stale;
        self.plan.actions.push(Action::Delete { key, origin, successor, is_current, is_rnext });
        self.keys.retain(|held| held.name != stale.name);
        for held in self.keys.iter_mut().filter(|held| Some(held.name) == successor) {
            held.is_current |= is_current;
            held.is_rnext |= is_rnext;
        }
    }

    /// Counts a key as added.
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
            self.plan.actions.push(Action::SetRnext(held.name));
        }
        let was_rnext = found.iter().any(|before| before.is_rnext && before.origin == origin);
        let has_switched = was_rnext && held.is_rnext && !memory.is_peer_behind();
        if !held.is_current && self.is_time_to_leave_current_key(has_switched) {
            self.plan.actions.push(Action::SetCurrent(held.name));
        }
    }

    /// Whether this end should leave its current key for the preferred one unasked.
    ///
    /// It should at the end of the send lifetime. A peer that has not yet signed with the preferred key gets half of the time
    /// for which the current key is still accepted; the other half allows for clocks that differ.
    fn is_time_to_leave_current_key(&mut self, has_switched: bool) -> bool {
        if self.target.kind == SocketKind::Closed {
            return true;
        }
        let current = self.keys.iter().find(|held| held.is_current);
        let key_id = match current {
            Some(Found { origin: Origin::Chain(key_id), .. }) => *key_id,
            // It should be gone, but the kernel has just refused to delete it.
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

/// Whether two networks have a peer in common.
fn overlap(one: IpCidr, other: IpCidr) -> bool {
    one.contains(&other.first_address()) || other.contains(&one.first_address())
}
