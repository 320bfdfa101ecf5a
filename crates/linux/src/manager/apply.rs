//! Applying plans to a socket while the peers change which keys are in use.

use std::sync::Arc;

use wireseal_keys::{KeyChain, Timestamp};

use crate::manager::action::{Action, Origin, SocketKind};
use crate::manager::peers::{Configured, PeerTable, overlapping};
use crate::manager::plan::Plan;
use crate::manager::refusals::failed_under;
use crate::manager::state::{Found, Memory, Reported};
use crate::manager::target::Target;
use crate::{Error, KeyName, PeerName};

/// The result of applying plans to a socket.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The actions that succeeded, in order.
    pub(super) done: Vec<Action>,
    /// The actions that failed; `None` is for reading the socket's keys.
    pub(super) failed: Vec<(Option<Action>, Error)>,
    /// As in [`Plan`], of any peer.
    pub(super) expired: bool,
    /// As in [`Plan`], of all peers, and those that the kernel does not delete.
    pub(super) overdue: Vec<KeyName>,
    /// As in [`Plan`], the earliest.
    pub(super) again: Option<Timestamp>,
    /// The keys under which segments have failed, when the keys were last read, and how many; `None` if they were not read.
    pub(super) bad: Option<Vec<(KeyName, u64)>>,
}

/// Which peers' keys a socket should have at a moment.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) peers: &'a PeerTable<Configured>,
    /// The peer of a connection, or of a socket that will connect. Without one the socket has the keys of all peers.
    pub(super) only: Option<PeerName>,
    /// Whether the socket takes keys for IPv4 and for IPv6 peers.
    pub(super) families: [bool; 2],
    pub(super) now: Timestamp,
    pub(super) kind: SocketKind,
}

/// The keys on a socket, by peer.
type OnSocket<K> = PeerTable<Vec<K>>;

/// A peer whose keys on the socket are not as they should be yet.
struct Unsettled {
    peer: PeerName,
    /// `None` if the peer was removed.
    chain: Option<Arc<KeyChain>>,
    set_aside: Vec<KeyName>,
    /// The keys that the kernel has just refused to delete though they are not in use. Perhaps they are gone.
    undeleted: Vec<KeyName>,
    /// A key had an id of another peer's, which may be deleted in the same round.
    has_clashed: bool,
}

impl Scope<'_> {
    /// Reads the keys of a socket, plans for each peer, and applies the plans' actions one by one.
    ///
    /// If an action fails, the keys are read again after the other peers' turn, and a new plan for that peer is made without
    /// the key in question, so that one impossible key does not hold up the others. The next step tries it again, for instance
    /// to delete a key that the peer asked for between reading and deleting.
    pub(super) fn settle<K: Reported>(
        &self,
        memories: &mut PeerTable<Memory>,
        mut read: impl FnMut() -> Result<Vec<K>, Error>,
        mut apply: impl FnMut(&Action, Option<&KeyChain>) -> Result<(), Error>,
    ) -> Outcome {
        let mut outcome = Outcome { bad: Some(Vec::new()), ..Outcome::default() };
        let mut unsettled = self.unsettled(memories);
        while !unsettled.is_empty() {
            let keys = match read() {
                Ok(keys) => keys,
                Err(error) => {
                    outcome.failed.push((None, error));
                    outcome.bad = None;
                    return outcome;
                }
            };
            outcome.bad = Some(failed_under(&keys));
            let on_socket = self.by_peer(keys);
            unsettled.retain_mut(|peer| match &peer.chain {
                Some(chain) => {
                    let chain = Arc::clone(chain);
                    let memory = memories.entry(peer.peer).or_default();
                    self.settle_peer(peer, &chain, memory, &on_socket, &mut apply, &mut outcome)
                }
                None => forget(peer, memories, &on_socket, &mut apply, &mut outcome),
            });
        }
        outcome
    }

    /// The peers whose keys the socket should have, and those that were removed and whose keys it may still have.
    fn unsettled(&self, memories: &PeerTable<Memory>) -> Vec<Unsettled> {
        let new = |peer: PeerName, chain| Unsettled {
            peer,
            chain,
            set_aside: Vec::new(),
            undeleted: Vec::new(),
            has_clashed: false,
        };
        let configured = |peer: PeerName| Some(new(peer, Some(Arc::clone(&self.peers.get(&peer)?.chain))));
        if let Some(only) = self.only {
            return configured(only).into_iter().collect();
        }
        let removed = memories.keys().filter(|peer| !self.peers.contains_key(peer));
        let removed = removed.map(|peer| new(*peer, None));
        removed.chain(self.fitting().filter_map(|peer| configured(*peer))).collect()
    }

    /// The peers that the socket takes keys for.
    pub(super) fn fitting(&self) -> impl Iterator<Item = &PeerName> {
        let [ipv4, ipv6] = self.families;
        self.peers.keys().filter(move |peer| if peer.remote.is_ipv4() { ipv4 } else { ipv6 })
    }

    /// Sorts the keys of a socket by peer. All keys of a connection are its peer's.
    fn by_peer<K: Reported>(&self, keys: Vec<K>) -> OnSocket<K> {
        let mut on_socket = OnSocket::new();
        for key in keys {
            let peer = self.only.unwrap_or_else(|| key.name().peer());
            on_socket.entry(peer).or_insert_with(Vec::new).push(key);
        }
        on_socket
    }

    /// Plans for one peer and applies the plan; returns whether another round is needed.
    fn settle_peer<K: Reported>(
        &self,
        unsettled: &mut Unsettled,
        chain: &KeyChain,
        memory: &mut Memory,
        on_socket: &OnSocket<K>,
        apply: &mut impl FnMut(&Action, Option<&KeyChain>) -> Result<(), Error>,
        outcome: &mut Outcome,
    ) -> bool {
        let Self { now, .. } = *self;
        let kind = if self.only.is_some() { self.kind } else { SocketKind::Listener };
        let peer = unsettled.peer;
        let near = || self.near(peer, on_socket);
        let target = Target { chain, peer, now, kind, near: &near };
        let held = on_socket.get(&peer).map_or(&[][..], Vec::as_slice);
        let found: Vec<Found> = held.iter().map(|key| target.recognise(memory, key)).collect();
        memory.observe(&found);
        let is_held = |name: &KeyName| found.iter().any(|key| key.name == *name);
        outcome.overdue.extend(unsettled.undeleted.drain(..).filter(is_held));
        let plan = target.plan(&found, memory, &unsettled.set_aside);
        let refused = plan.actions.iter().find_map(|action| match apply(action, Some(chain)) {
            Ok(()) => {
                memory.note(action, kind, &found);
                outcome.done.push(*action);
                None
            }
            Err(error) => {
                if matches!(error, Error::KeyInUse(_)) {
                    memory.note_in_use(action, kind, &found);
                }
                Some((*action, error))
            }
        });
        let Some((action, error)) = refused else {
            outcome.take_over(plan);
            return false;
        };
        let is_first_clash = matches!(error, Error::IdInUse { .. }) && !unsettled.has_clashed;
        if is_first_clash && self.only.is_none() {
            unsettled.has_clashed = true;
            return true;
        }
        let key = action.key();
        let is_about_one_key = matches!(action, Action::Add { .. } | Action::Delete { .. });
        let goes_on = is_about_one_key && !unsettled.set_aside.contains(&key);
        unsettled.set_aside.push(key);
        if matches!(action, Action::Delete { .. }) && !matches!(error, Error::KeyInUse(_)) {
            unsettled.undeleted.push(key);
        }
        outcome.failed.push((Some(action), error));
        if !goes_on {
            outcome.take_over(plan);
        }
        goes_on
    }

    /// The keys of other peers, on the socket or in a chain, that are for some of the same connections.
    fn near<K: Reported>(&self, peer: PeerName, on_socket: &OnSocket<K>) -> Vec<KeyName> {
        if self.only.is_some() {
            return Vec::new();
        }
        let held = overlapping(on_socket, peer).flat_map(|(_, keys)| keys.iter().map(Reported::name));
        let planned = overlapping(self.peers, peer)
            .flat_map(|(other, configured)| configured.chain.keys().iter().map(|key| other.key(key.mkt())));
        held.chain(planned).collect()
    }
}

impl Outcome {
    fn take_over(&mut self, plan: Plan) {
        self.expired |= plan.expired;
        self.overdue.extend(plan.overdue);
        self.again = [self.again, plan.again].into_iter().flatten().min();
    }
}

/// Deletes the keys of a peer that was removed from a socket that is not connected. Returns whether another round has to look for keys
/// that could not be deleted.
fn forget<K: Reported>(
    unsettled: &mut Unsettled,
    memories: &mut PeerTable<Memory>,
    on_socket: &OnSocket<K>,
    apply: &mut impl FnMut(&Action, Option<&KeyChain>) -> Result<(), Error>,
    outcome: &mut Outcome,
) -> bool {
    let peer = unsettled.peer;
    let is_placeholder = |name| memories.get(&peer).is_some_and(|memory| memory.is_placeholder(name));
    let (mut refused, mut is_gone) = (Vec::new(), true);
    for key in on_socket.get(&peer).into_iter().flatten().map(Reported::name) {
        if unsettled.set_aside.contains(&key) {
            is_gone = false;
            outcome.overdue.push(key);
            continue;
        }
        let origin = if is_placeholder(key) { Origin::Placeholder } else { Origin::Leftover };
        let action = Action::Delete { key, origin, successor: None, is_current: false, is_rnext: false };
        match apply(&action, None) {
            Ok(()) => outcome.done.push(action),
            Err(error) => {
                is_gone = false;
                refused.push(key);
                outcome.failed.push((Some(action), error));
            }
        }
    }
    if is_gone {
        memories.remove(&peer);
    }
    let goes_on = !refused.is_empty();
    unsettled.set_aside.append(&mut refused);
    goes_on
}
