//! Applying: a plan's calls, one by one, while peers may change which keys are in use.

use std::io;
use std::sync::Arc;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{KeyChain, Timestamp};
use wireseal_tcp_ao::{MasterKey, Mkt};
use zeroize::Zeroizing;

use crate::manager::peers::{Configured, PeerTable, beside, with_keys_of};
use crate::manager::plan::{Action, Call, Found, Memory, Origin, Plan, SocketKind, Target};
use crate::{Error, InstalledKey, KeyName, PeerName, SocketKey, Successor, TcpAoSocket};

/// Seconds between steps when nothing is due; needed because the clock may be set.
pub(super) const IDLE: u32 = 30;

/// Seconds between steps while a peer has not switched keys, or has not answered a SYN from before a change.
pub(super) const WAITING: u32 = 1;

/// Octets of a placeholder's secret.
const PLACEHOLDER_SECRET_LENGTH: usize = 32;

/// Reads and changes the keys of a socket: the kernel, or a model of it in tests and simulations.
pub trait Calls {
    /// All keys on the socket.
    ///
    /// # Errors
    /// [`Error`] if the keys cannot be read.
    fn look(&mut self) -> Result<Vec<InstalledKey>, Error>;
    /// Makes a call that changes a key.
    ///
    /// # Errors
    /// [`Error`] if the kernel refuses. If a deletion fails with [`Error::KeyInUse`], its successor keys are in use nevertheless.
    fn call(&mut self, call: &Call<'_>) -> Result<(), Error>;
    /// Resets the connection.
    fn reset(&mut self);
}

impl Calls for TcpAoSocket<'_> {
    fn look(&mut self) -> Result<Vec<InstalledKey>, Error> {
        self.keys()
    }

    fn call(&mut self, call: &Call<'_>) -> Result<(), Error> {
        match *call {
            Call::Add { key, .. } => self.add_key(&key),
            Call::AddPlaceholder { key, algorithm } => {
                let mkt = placeholder(key, algorithm)?;
                self.add_key(&SocketKey { vrf: key.vrf, ..SocketKey::new(key.remote, &mkt) })
            }
            Call::SetCurrent(key) => self.set_current_key(key.send_id),
            Call::SetRnext(key) => self.set_rnext_key(key.recv_id),
            Call::Delete { key, successor, is_current, is_rnext, .. } => {
                let current = successor.filter(|_| is_current).map(|name| name.send_id);
                let rnext = successor.filter(|_| is_rnext).map(|name| name.recv_id);
                self.delete_key(&key, Successor { current, rnext })
            }
        }
    }

    fn reset(&mut self) {
        // It fails if the connection has ended.
        let _ = TcpAoSocket::reset(self);
    }
}

/// Leaves the deletion of a peer's own keys from a connection, for which the kernel waits, to the next step.
pub(super) struct WithoutWaiting<'a, C> {
    pub(super) calls: &'a mut C,
    pub(super) peer: PeerName,
}

impl<C: Calls> Calls for WithoutWaiting<'_, C> {
    fn look(&mut self) -> Result<Vec<InstalledKey>, Error> {
        self.calls.look()
    }

    fn call(&mut self, call: &Call<'_>) -> Result<(), Error> {
        match *call {
            // The kernel's answer for a key in use. Then the plan goes on without the deletion, and the next step tries again.
            Call::Delete { key, .. } if key.peer() == self.peer.on_all_interfaces() => {
                Err(Error::KeyInUse(key))
            }
            _ => self.calls.call(call),
        }
    }

    fn reset(&mut self) {
        self.calls.reset();
    }
}

/// A key with these ids and a random secret.
fn placeholder(KeyName { send_id, recv_id, .. }: KeyName, algorithm: TcpAoAlgorithm) -> io::Result<Mkt> {
    let mut secret = Zeroizing::new([0; PLACEHOLDER_SECRET_LENGTH]);
    getrandom::fill(secret.as_mut_slice())?;
    let master_key = MasterKey::new(secret.as_slice()).expect("32 octets are between 1 and 80");
    Mkt::with_short_master_key(send_id, recv_id, algorithm, master_key).map_err(io::Error::other)
}

/// The result of applying plans to a socket.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The actions that succeeded, in order.
    pub(super) done: Vec<Action>,
    /// The actions that failed; `None` is for reading the socket's keys.
    pub(super) failed: Vec<(Option<Action>, Error)>,
    /// The peers whose keys the kernel refused, or whose keys could not be read. A key that cannot be deleted is `overdue` instead.
    pub(super) failing: Vec<PeerName>,
    /// As in [`Plan`], for any of the peers.
    pub(super) expired: bool,
    /// As in [`Plan`], for all peers, and the keys that the kernel does not delete.
    pub(super) overdue: Vec<KeyName>,
    /// As in [`Plan`], the earliest of all peers.
    pub(super) again: Option<Timestamp>,
    /// As in [`Plan`].
    pub(super) insists_on: Option<KeyName>,
    /// The peer of a connection did not sign with the preferred key, or this end did not, when the keys were last read.
    pub(super) is_unmoved: bool,
    /// The keys under which segments have failed, with their number, when the keys were last read; `None` if they were not read.
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
    /// The interface that it is bound to.
    pub(super) device: Option<u32>,
    pub(super) now: Timestamp,
    pub(super) kind: SocketKind,
}

/// The keys on a socket, by peer.
type OnSocket = PeerTable<Vec<InstalledKey>>;

/// A peer that is not done yet.
struct Unsettled {
    peer: PeerName,
    /// `None` if the peer was removed.
    chain: Option<Arc<KeyChain>>,
    set_aside: Vec<KeyName>,
    /// Keys that are not in use and that the kernel has just refused to delete; they may be gone.
    undeleted: Vec<KeyName>,
    /// How often an id of its key was taken by a key of another peer. That peer's turn may delete the key, or has just added it.
    clashes: u8,
}

impl Scope<'_> {
    /// Reads the keys of a socket, plans for each peer, and makes the plans' calls one by one.
    ///
    /// If a call fails, it reads the keys again after the other peers' turns, and plans again for that peer without the key in question, so
    /// that one impossible key does not hold up the others. The next step tries that key again, for instance to delete a key that the peer
    /// asked for between reading and deleting.
    pub(super) fn apply(&self, memories: &mut PeerTable<Memory>, socket: &mut impl Calls) -> Outcome {
        let mut outcome = Outcome { bad: Some(Vec::new()), ..Outcome::default() };
        let mut unsettled = self.unsettled(memories);
        while !unsettled.is_empty() {
            let keys = match socket.look() {
                Ok(keys) => keys,
                Err(error) => {
                    outcome.failed.push((None, error));
                    outcome.failing.extend(self.only);
                    outcome.bad = None;
                    return outcome;
                }
            };
            let failing = keys.iter().filter(|key| key.bad > 0);
            outcome.bad = Some(failing.map(|key| (key.name, key.bad)).collect());
            let on_socket = self.by_peer(keys, memories);
            unsettled.retain_mut(|peer| match &peer.chain {
                Some(chain) => {
                    let chain = Arc::clone(chain);
                    let memory = memories.entry(peer.peer).or_default();
                    self.turn(peer, &chain, memory, &on_socket, socket, &mut outcome)
                }
                None => remove(peer, memories, &on_socket, socket, &mut outcome),
            });
        }
        outcome
    }

    /// The peers whose keys the socket should have, and removed peers whose keys it may still have.
    fn unsettled(&self, memories: &PeerTable<Memory>) -> Vec<Unsettled> {
        let new = |peer: PeerName, chain| Unsettled {
            peer,
            chain,
            set_aside: Vec::new(),
            undeleted: Vec::new(),
            clashes: 0,
        };
        let configured = |peer: PeerName| Some(new(peer, Some(Arc::clone(&self.peers.get(&peer)?.chain))));
        if let Some(only) = self.only {
            return configured(only).into_iter().collect();
        }
        let removed =
            memories.keys().filter(|peer| !self.peers.contains_key(peer) || !self.has_room_for(peer));
        let removed = removed.map(|peer| new(*peer, None));
        let fitting = self.peers.keys().filter(|peer| self.has_room_for(peer));
        removed.chain(fitting.filter_map(|peer| configured(*peer))).collect()
    }

    /// Whether connections with a peer can come to the socket.
    fn has_room_for(&self, peer: &PeerName) -> bool {
        let [ipv4, ipv6] = self.families;
        let is_on_its_link = self.device.zip(peer.interface).is_none_or(|(device, of)| device == of);
        is_on_its_link && if peer.remote.is_ipv4() { ipv4 } else { ipv6 }
    }

    /// Sorts a socket's keys by peer. All keys of a connection belong to its peer.
    fn by_peer(&self, keys: Vec<InstalledKey>, memories: &PeerTable<Memory>) -> OnSocket {
        let mut on_socket = OnSocket::new();
        for key in keys {
            let peer = self.only.unwrap_or_else(|| self.owner(&key, memories));
            on_socket.entry(peer).or_default().push(key);
        }
        on_socket
    }

    /// The peer that a key on a listener belongs to. Its name has no interface: of peers with one address on several, it is the one that has
    /// the key. One that none of them has is for any of them to delete.
    fn owner(&self, key: &InstalledKey, memories: &PeerTable<Memory>) -> PeerName {
        let name = key.name.peer();
        let with_name = || with_keys_of(self.peers, name).filter(|(peer, _)| self.has_room_for(peer));
        let (mut remembered, mut several) = (with_keys_of(memories, name), with_name());
        match (several.next(), several.next()) {
            (Some((only, _)), None) => *only,
            (None, _) => remembered.next().map_or(name, |(peer, _)| *peer),
            (Some((first, _)), Some(_)) => {
                let has_key =
                    |configured: &Configured| configured.chain.keys().iter().any(|of| key.is(of.mkt()));
                let in_chain = with_name().find(|(_, configured)| has_key(configured)).map(|(peer, _)| *peer);
                let mut placeholder = || remembered.find(|(_, memory)| memory.is_placeholder(key.name));
                in_chain.or_else(|| placeholder().map(|(peer, _)| *peer)).unwrap_or(*first)
            }
        }
    }

    /// Why an id is taken: another peer of the manager has it, with the same addresses on another interface.
    fn explained(&self, action: &Action, peer: PeerName, error: Error) -> Error {
        let (Error::IdInUse { .. }, Action::Add { key_id, key, .. }) = (&error, action) else { return error };
        let clash =
            beside(self.peers, peer).filter(|(other, _)| self.has_room_for(other)).find_map(|(other, of)| {
                let active = of.chain.at(self.now);
                let taken = active.iter().find(|taken| other.key(taken.mkt()).clashes_with(key))?;
                Some((*other, taken.key_id()))
            });
        clash.map_or(error, |(other, other_key_id)| Error::PeersClash {
            peer,
            key_id: *key_id,
            other,
            other_key_id,
        })
    }

    /// Plans for one peer and makes the plan's calls; returns whether the peer needs another turn.
    fn turn(
        &self,
        unsettled: &mut Unsettled,
        chain: &KeyChain,
        memory: &mut Memory,
        on_socket: &OnSocket,
        socket: &mut impl Calls,
        outcome: &mut Outcome,
    ) -> bool {
        let Self { now, .. } = *self;
        let kind = if self.only.is_some() { self.kind } else { SocketKind::Listener };
        let peer = unsettled.peer;
        let near = || self.near(peer, on_socket);
        let target = Target { chain, peer, now, kind, near: &near };
        let held = on_socket.get(&peer).map_or(&[][..], Vec::as_slice);
        let found: Vec<Found> = held.iter().map(|key| target.recognise(memory, key)).collect();
        memory.observe(kind, &found);
        let preferred = chain.at(now).preferred().map(|key| Origin::Chain(key.key_id()));
        let is_it = |key: &&Found| Some(key.origin) == preferred && key.is_current && key.is_rnext;
        let has_moved = found.iter().any(|key| is_it(&key)) && !memory.is_peer_behind();
        outcome.is_unmoved = kind == SocketKind::Connection && preferred.is_some() && !has_moved;
        let is_held = |name: &KeyName| found.iter().any(|key| key.name == *name);
        outcome.overdue.extend(unsettled.undeleted.drain(..).filter(is_held));
        let plan = target.plan(&found, memory, &unsettled.set_aside);
        memory.planned(plan.over, plan.insists_on, &found);
        outcome.insists_on = plan.insists_on.or(outcome.insists_on);
        let refused = plan.calls.iter().find_map(|call| {
            let (action, called) = (call.action(), socket.call(call));
            if matches!(called, Ok(()) | Err(Error::KeyInUse(_))) {
                memory.note(&action, called.is_ok(), kind, &found);
            }
            if called.is_ok() {
                outcome.done.push(action);
            }
            called.err().map(|error| (action, error))
        });
        let Some((action, error)) = refused else {
            outcome.take_over(plan);
            return false;
        };
        // Peers with one address each choose ids for a placeholder, and find those taken that the others have just chosen.
        let most = if matches!(action, Action::AddPlaceholder { .. }) { u8::MAX } else { 1 };
        let is_clash = matches!(error, Error::IdInUse { .. }) && self.only.is_none();
        if is_clash && unsettled.clashes < most {
            unsettled.clashes += 1;
            return true;
        }
        let key = action.key();
        let is_about_one_key = matches!(action, Action::Add { .. } | Action::Delete { .. });
        let goes_on = is_about_one_key && !unsettled.set_aside.contains(&key);
        unsettled.set_aside.push(key);
        let is_deletion = matches!(action, Action::Delete { .. });
        if is_deletion && !matches!(error, Error::KeyInUse(_)) {
            unsettled.undeleted.push(key);
        }
        if !is_deletion {
            outcome.failing.push(peer);
        }
        let error = self.explained(&action, peer, error);
        outcome.failed.push((Some(action), error));
        if !goes_on {
            outcome.take_over(plan);
        }
        goes_on
    }

    /// Keys of other peers, on the socket or in a chain, that are for some of the same addresses.
    fn near(&self, peer: PeerName, on_socket: &OnSocket) -> Vec<KeyName> {
        if self.only.is_some() {
            return Vec::new();
        }
        let held = beside(on_socket, peer).flat_map(|(_, keys)| keys.iter().map(|key| key.name));
        let planned = beside(self.peers, peer)
            .flat_map(|(other, configured)| configured.chain.keys().iter().map(|key| other.key(key.mkt())));
        held.chain(planned).collect()
    }
}

impl Outcome {
    /// When the socket needs its next step even if no chain changes.
    pub(super) fn next(&self, is_peer_behind: bool, now: Timestamp) -> Option<Timestamp> {
        let is_busy = self.failed.iter().any(|(_, error)| matches!(error, Error::KeyInUse(_)));
        let soon = (is_peer_behind || is_busy).then(|| now.later_by(WAITING));
        let retry = (!self.failed.is_empty()).then(|| now.later_by(IDLE));
        [soon, retry, self.again].into_iter().flatten().min()
    }

    /// Whether this end has made a key current on a connection, whatever the peer asks for.
    pub(super) fn has_chosen(&self) -> bool {
        self.done.iter().any(|action| {
            use Action::{Add, Delete, SetCurrent};
            matches!(action, SetCurrent(_) | Delete { is_current: true, .. } | Add { set_current: true, .. })
        })
    }

    fn take_over(&mut self, plan: Plan<'_>) {
        self.expired |= plan.expired;
        self.overdue.extend(plan.overdue);
        self.again = [self.again, plan.again].into_iter().flatten().min();
    }
}

/// Deletes the keys of a removed peer from a socket that is not connected. Returns whether another turn is needed because some could not be
/// deleted.
fn remove(
    unsettled: &mut Unsettled,
    memories: &mut PeerTable<Memory>,
    on_socket: &OnSocket,
    socket: &mut impl Calls,
    outcome: &mut Outcome,
) -> bool {
    let peer = unsettled.peer;
    let is_placeholder = |name| memories.get(&peer).is_some_and(|memory| memory.is_placeholder(name));
    let (mut refused, mut is_gone) = (Vec::new(), true);
    for key in on_socket.get(&peer).into_iter().flatten().map(|key| key.name) {
        if unsettled.set_aside.contains(&key) {
            is_gone = false;
            outcome.overdue.push(key);
            continue;
        }
        let origin = if is_placeholder(key) { Origin::Placeholder } else { Origin::Leftover };
        let call = Call::Delete { key, origin, successor: None, is_current: false, is_rnext: false };
        match socket.call(&call) {
            Ok(()) => outcome.done.push(call.action()),
            Err(error) => {
                is_gone = false;
                refused.push(key);
                outcome.failed.push((Some(call.action()), error));
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
