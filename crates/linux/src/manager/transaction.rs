//! Changes of peers, one or several at once: with a dry run, and with an undo.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, OptionCoverage};

use crate::manager::KeyManager;
use crate::manager::apply::{Calls, Outcome};
use crate::manager::look::Attached;
use crate::manager::peers::{Configured, PeerTable};
use crate::manager::plan::{Action, Call, SocketKind};
use crate::manager::policy::Policy;
use crate::manager::report::in_words;
use crate::manager::sockets::{Changes, Shared, State, lock};
use crate::manager::step::{bring_in_line, find};
use crate::{Error, Generation, InstalledKey, KeyName, PeerName, TcpAoSocket};

impl KeyManager {
    /// Adds a peer, or replaces its chain. A key with the same ids and another secret is replaced. Returns the number of the change.
    ///
    /// The change takes effect in the next step, which is [due](Self::step_due) at once. A step in progress does not undo it.
    ///
    /// # Errors
    /// [`Error::AlgorithmNotInLinux`] and [`Error::PeersClash`]; the peer is unchanged then.
    pub fn set_peer(&self, peer: PeerName, chain: KeyChain) -> Result<Generation, Error> {
        let mut transaction = self.transaction();
        transaction.set_peer(peer, chain);
        transaction.commit_anyway()
    }

    /// Replaces all peers at once: adds, changes and removes them as [`set_peer`](Self::set_peer) and [`remove_peer`](Self::remove_peer)
    /// do. Returns the number of the change.
    ///
    /// # Errors
    /// [`Error::AlgorithmNotInLinux`], [`Error::PeersClash`] and [`Error::PeerTwice`]; all peers are unchanged then.
    pub fn set_peers(
        &self,
        peers: impl IntoIterator<Item = (PeerName, KeyChain)>,
    ) -> Result<Generation, Error> {
        let mut transaction = self.transaction();
        for (peer, chain) in peers {
            if transaction.set_peer(peer, chain) {
                return Err(Error::PeerTwice(peer.canonical()));
            }
        }
        transaction.remove_others();
        transaction.commit_anyway()
    }

    /// Removes a peer; `None` if the manager does not have it, and then nothing has changed.
    ///
    /// The next step, which is [due](Self::step_due) at once, deletes the peer's keys from sockets that listen. The peer's connections
    /// keep theirs; shut them down.
    pub fn remove_peer(&self, peer: PeerName) -> Option<Generation> {
        let mut transaction = self.transaction();
        transaction.remove_peer(peer);
        let mut state = self.shared.state();
        state.peers.get(&peer.canonical())?;
        transaction.began = state.generation;
        let removed = transaction.commit_to(&mut state);
        drop(state);
        self.shared.changed();
        removed.ok()
    }

    /// Keeps a peer out that has lost its keys, or adds a peer without any: sockets that listen have a
    /// [placeholder](Action::AddPlaceholder) for it in place of its keys, so that it does not get in unsigned either. Its connections keep
    /// the keys that are in use, and are [expired](crate::SocketState::expired): shut them down.
    pub fn block_peer(&self, peer: PeerName) -> Generation {
        let mut transaction = self.transaction();
        transaction.block_peer(peer);
        transaction.commit_anyway().expect("a peer without keys clashes with none")
    }

    /// The peers, in order.
    pub fn peers(&self) -> Vec<Peer> {
        let peers = Arc::clone(&self.shared.state().peers);
        let peer = |(name, of): (&PeerName, &Configured)| Peer {
            name: *name,
            chain: (!of.is_blocked).then(|| of.chain.name().to_owned()),
            generation: of.version,
        };
        peers.iter().map(peer).collect()
    }

    /// Begins a change of several peers that takes effect at once, or not at all.
    pub fn transaction(&self) -> Transaction {
        let began = self.generation();
        Transaction {
            shared: Arc::clone(&self.shared),
            began,
            changes: Changes::new(),
            kept: BTreeSet::new(),
            policies: PeerTable::new(),
            replaces_all: false,
        }
    }

    /// Undoes the newest change: gives the peers that it changed the chains from before, as a change of its own, whose generation it
    /// returns. The next step adds keys that the change had deleted before it deletes others.
    ///
    /// The manager keeps the chains from before the newest change for this, and wipes them with the next. Undoing an undoing repeats the
    /// change.
    ///
    /// # Errors
    /// [`Error::CannotUndo`] if `generation` is not the newest, or no change was made yet; [`Error::PeersClash`] if a
    /// [policy](crate::OnFailure::HoldOldKeys) has since given a peer old keys, which have an id of those from before. Nothing has changed then.
    pub fn undo(&self, generation: Generation) -> Result<Generation, Error> {
        let mut state = self.shared.state();
        let newest = state.generation;
        if generation != newest || newest == Generation::default() {
            return Err(Error::CannotUndo { generation, newest });
        }
        let undoing = state.undo()?;
        drop(state);
        self.shared.changed();
        Ok(undoing)
    }

    /// Sets what to do when the keys of a peer cannot be put on a socket, or the peer does not move to them. The peer need not be set yet,
    /// and the policy stays when it is changed or removed. This is no change of the peer's keys.
    pub fn set_policy(&self, peer: PeerName, policy: Policy) {
        self.shared.state().set_policies(PeerTable::from([(peer.canonical(), policy)]));
        self.shared.changed();
    }
}

/// A peer of a [`KeyManager`] ([`KeyManager::peers`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its name.
    pub name: PeerName,
    /// The name of its key chain; `None` if it is [kept out](KeyManager::block_peer).
    pub chain: Option<String>,
    /// The change that gave it this chain, or has kept it out.
    pub generation: Generation,
}

/// Changes of a [`KeyManager`]'s peers that take effect at once, or not at all ([`KeyManager::transaction`]).
///
/// ```no_run
/// use std::time::Duration;
///
/// use wireseal_keys::{KeyChain, Timestamp};
/// use wireseal_linux::{Barrier, Error, KeyManager, OnFailure, PeerName, Policy};
///
/// /// Gives peers new keys. One that does not use its new key within 30 seconds gets its old one again; if after a minute others are not
/// /// done either, all do.
/// fn rotate(manager: &KeyManager, peers: Vec<(PeerName, KeyChain)>) -> Result<(), Error> {
///     let policy = Policy { on_failure: OnFailure::HoldOldKeys, patience: Some(30), cohort: None };
///     let mut transaction = manager.transaction();
///     for (peer, chain) in peers {
///         transaction.set_peer(peer, chain);
///         transaction.set_policy(peer, policy.clone());
///     }
///     for socket in transaction.dry_run(Timestamp::now())? {
///         println!("{socket}");
///     }
///     let generation = transaction.commit()?;
///     let progress = manager.wait_until(generation, Barrier::Moved, Duration::from_secs(60));
///     for (peer, action) in &progress.given_up {
///         println!("{peer}: {action}");
///     }
///     if !progress.has_moved() {
///         manager.undo(generation)?;
///     }
///     Ok(())
/// }
///
/// let manager = KeyManager::default();
/// // Takes the steps. Attach the daemon's sockets, too.
/// manager.spawn(|report| println!("{report:?}"))?;
/// # let peers = Vec::new();
/// rotate(&manager, peers)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing changes before it is committed"]
pub struct Transaction {
    shared: Arc<Shared>,
    /// The generation when it began.
    began: Generation,
    changes: Changes,
    /// The peers that have to be there, and stay as they are.
    kept: BTreeSet<PeerName>,
    policies: PeerTable<Policy>,
    /// It removes all other peers.
    replaces_all: bool,
}

impl Transaction {
    /// Will add a peer, or replace its chain. Returns whether that replaces an earlier change of the peer in this transaction.
    ///
    /// Whether the chain fits is checked at the end, so that peers may exchange ids.
    pub fn set_peer(&mut self, peer: PeerName, chain: KeyChain) -> bool {
        self.change(peer, Some((Arc::new(chain), false)))
    }

    /// Will [keep a peer out](KeyManager::block_peer). Returns whether that replaces an earlier change of the peer in this transaction.
    pub fn block_peer(&mut self, peer: PeerName) -> bool {
        let peer = peer.canonical();
        let state = self.shared.state();
        let before = state.peers.get(&peer).map(|before| before.chain.keys()[0].mkt().parameters().algorithm);
        drop(state);
        self.change(peer, Some((no_key(before.unwrap_or(TcpAoAlgorithm::HmacSha1)), true)))
    }

    /// Will remove a peer, if the manager has it. Returns whether that replaces an earlier change of the peer in this transaction.
    pub fn remove_peer(&mut self, peer: PeerName) -> bool {
        self.change(peer, None)
    }

    /// Will leave a peer as it is, also if the transaction [removes others](Self::remove_others); [`Error::UnknownPeer`] at the end, if the
    /// manager does not have it. Returns whether that replaces an earlier change of the peer in this transaction.
    pub fn keep_peer(&mut self, peer: PeerName) -> bool {
        let peer = peer.canonical();
        let is_twice = !self.kept.insert(peer);
        self.changes.remove(&peer).is_some() || is_twice
    }

    /// Will remove all peers that this transaction neither sets nor blocks nor keeps, as [`KeyManager::set_peers`] does.
    pub fn remove_others(&mut self) {
        self.replaces_all = true;
    }

    fn change(&mut self, peer: PeerName, to: Option<(Arc<KeyChain>, bool)>) -> bool {
        let version = Generation::default();
        let configured = to.map(|(chain, is_blocked)| Configured { chain, is_blocked, version });
        let peer = peer.canonical();
        let is_kept = self.kept.remove(&peer);
        self.changes.insert(peer, configured).is_some() || is_kept
    }

    /// Will [set a peer's policy](KeyManager::set_policy), before its keys change.
    pub fn set_policy(&mut self, peer: PeerName, policy: Policy) {
        self.policies.insert(peer.canonical(), policy);
    }

    /// Tells what a step at `now` would do on each attached socket after these changes, in the order of attaching. It reads the sockets'
    /// keys and changes nothing.
    ///
    /// It waits for a step in progress. What the kernel will refuse can be foreseen only in part: it does foresee ids that are taken
    /// ([`Error::IdInUse`]), but not a lack of memory. Sockets that were [let go](crate::Attachment::let_go) cannot be read.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    pub fn dry_run(&self, now: Timestamp) -> Result<Vec<PlannedSocket>, Error> {
        let state = self.shared.state();
        let changes = self.checked(&state)?;
        let mut peers = PeerTable::clone(&state.peers);
        for (peer, change) in changes {
            match change {
                Some(configured) => _ = peers.insert(peer, configured),
                None => _ = peers.remove(&peer),
            }
        }
        let listed =
            state.sockets.iter().map(|entry| (entry.number, entry.state.peer, Arc::downgrade(&entry.socket)));
        let listed: Vec<_> = listed.collect();
        drop(state);
        let planned = listed.into_iter().filter_map(|(number, peer, socket)| {
            Some(PlannedSocket::of(number, &mut lock(&*socket.upgrade()?), &peers, peer, now))
        });
        Ok(planned.collect())
    }

    /// Makes the changes. They take effect in the next step, which is [due](KeyManager::step_due) at once.
    ///
    /// A peer that is given the chain that it has is not changed: its policy does not act anew, and its old keys are not forgotten. If
    /// nothing changes at all, this is a generation nevertheless, so that to undo it never undoes an earlier one.
    ///
    /// # Errors
    /// [`Error::ChangedMeanwhile`] if peers were changed since the transaction began; [`Error::UnknownPeer`],
    /// [`Error::AlgorithmNotInLinux`] and [`Error::PeersClash`]. Nothing has changed then.
    pub fn commit(self) -> Result<Generation, Error> {
        let shared = Arc::clone(&self.shared);
        let done = self.commit_to(&mut shared.state());
        shared.changed();
        done
    }

    /// Makes the changes, whatever was changed since it began.
    fn commit_anyway(mut self) -> Result<Generation, Error> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        self.began = state.generation;
        let done = self.commit_to(&mut state);
        drop(state);
        shared.changed();
        done
    }

    fn commit_to(self, state: &mut State) -> Result<Generation, Error> {
        let changes = self.checked(state)?;
        state.set_policies(self.policies);
        Ok(state.change(changes))
    }

    /// All changes that change something, if they fit.
    fn checked(&self, state: &State) -> Result<Changes, Error> {
        let (began, newest) = (self.began, state.generation);
        if began != newest {
            return Err(Error::ChangedMeanwhile { began, newest });
        }
        if let Some(unknown) = self.kept.iter().find(|peer| !state.peers.contains_key(peer)) {
            return Err(Error::UnknownPeer(*unknown));
        }
        let mut changes = self.changes.clone();
        if self.replaces_all {
            let others = state.peers.keys().filter(|peer| !self.kept.contains(peer));
            others.for_each(|peer| _ = changes.entry(*peer).or_insert(None));
        }
        changes.retain(|peer, change| match (change, state.peers.get(peer)) {
            (Some(change), Some(before)) => !change.is_same(before),
            (change, before) => change.is_some() || before.is_some(),
        });
        for (peer, change) in &changes {
            if let Some(Configured { chain, is_blocked: false, .. }) = change {
                state.check(&changes, *peer, chain)?;
            }
        }
        Ok(changes)
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers = self.changes.keys();
        f.debug_struct("Transaction")
            .field("began", &self.began)
            .field("peers", &peers)
            .finish_non_exhaustive()
    }
}

/// The chain of a peer that is kept out: one key that is never valid. A placeholder for the peer has the same algorithm.
fn no_key(algorithm: TcpAoAlgorithm) -> Arc<KeyChain> {
    let never = Lifetime::new(None, Some(Timestamp::MIN)).expect("it ends");
    let mkt = MasterKey::new(b"never on a socket").ok();
    let mkt = mkt.and_then(|secret| Mkt::new(KeyId(0), KeyId(0), algorithm, secret).ok());
    let key = Key::new(0, mkt.expect("17 octets")).with_lifetimes(never, never).expect("it covers itself");
    Arc::new(KeyChain::new("blocked", vec![key]).expect("one key does not clash"))
}

/// What a step would do on a socket ([`Transaction::dry_run`]). Its Display is one line.
#[derive(Debug)]
pub struct PlannedSocket {
    /// The number of its [`Attachment`](crate::Attachment).
    pub attachment: u64,
    /// The kind of the socket; `None` for a connection that has ended, and for one that could not be looked at.
    pub kind: Option<SocketKind>,
    /// The peer of a connection, or of a socket that will connect; `None` for a socket that listens or will.
    pub peer: Option<PeerName>,
    /// The manager has no descriptor of it, so it could not be looked at.
    pub is_let_go: bool,
    /// What would be done, in order.
    pub actions: Vec<Action>,
    /// What would fail; `None` means that the socket's keys could not be read.
    pub failed: Vec<(Option<Action>, Error)>,
    /// As [`SocketState::expired`](crate::SocketState::expired) then.
    pub expired: bool,
    /// As [`SocketReport::overdue`](crate::SocketReport::overdue) then.
    pub overdue: Vec<KeyName>,
}

impl PlannedSocket {
    /// Reads a socket, and rehearses a step of it with these peers.
    fn of(
        attachment: u64,
        attached: &mut Attached,
        peers: &PeerTable<Configured>,
        peer: Option<PeerName>,
        now: Timestamp,
    ) -> Self {
        let is_let_go = attached.is_let_go();
        let (mut kind, mut belongs_to, mut outcome) = (None, peer, Outcome::default());
        if !is_let_go {
            match find(attached, peers, peer) {
                Ok(found) => {
                    (kind, belongs_to) = (found.look.map(|look| look.kind), found.peer);
                    let mut memories = attached.memories.clone();
                    let socket = &mut TcpAoSocket::new(&attached.descriptor);
                    let rehearsal = &mut Rehearsal::of(socket);
                    outcome = bring_in_line(found.look, found.peer, peers, &mut memories, rehearsal, now);
                }
                Err(error) => outcome.failed.push((None, error)),
            }
        }
        let Outcome { done: actions, failed, expired, overdue, .. } = outcome;
        Self { attachment, kind, peer: belongs_to, is_let_go, actions, failed, expired, overdue }
    }
}

impl fmt::Display for PlannedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attachment, kind, peer, is_let_go, actions, failed, expired, overdue } = self;
        write!(f, "socket {attachment}")?;
        match kind {
            Some(SocketKind::Listener) => write!(f, ", a listener")?,
            Some(SocketKind::Connection) => write!(f, ", a connection")?,
            Some(SocketKind::Closed) => write!(f, ", not connected")?,
            None => {}
        }
        peer.map_or(Ok(()), |peer| write!(f, " with {peer}"))?;
        let mut parts: Vec<String> = actions.iter().map(Action::to_string).collect();
        parts.extend(failed.iter().map(in_words));
        parts.extend(overdue.iter().map(|key| format!("the {key} stays, because it cannot be deleted")));
        if *expired {
            parts.push("no key is valid for sending".to_owned());
        }
        if *is_let_go {
            parts.push("let go, so it was not looked at".to_owned());
        }
        match &parts[..] {
            [] => write!(f, ": nothing to do"),
            parts => write!(f, ": {}", parts.join("; ")),
        }
    }
}

/// A copy of a socket's keys: read once from the socket, and changed in memory as the kernel would change them.
pub(super) struct Rehearsal<'a, C> {
    socket: &'a mut C,
    keys: Option<Vec<InstalledKey>>,
}

impl<'a, C: Calls> Rehearsal<'a, C> {
    pub(super) fn of(socket: &'a mut C) -> Self {
        Self { socket, keys: None }
    }

    /// Adds a key, unless another for some of the same peers has an id of it.
    fn add(&mut self, key: InstalledKey) -> Result<(), Error> {
        let (name, keys) = (key.name, self.keys.get_or_insert_default());
        let is_in_the_way = |held: &InstalledKey| {
            let is_same_vrf = held.name.vrf.is_none_or(|vrf| vrf == name.vrf.unwrap_or(0));
            let overlaps = PeerName::new(held.name.remote).overlaps(&PeerName::new(name.remote));
            held.name.clashes_with(&name) && is_same_vrf && overlaps
        };
        if keys.iter().any(is_in_the_way) {
            return Err(Error::IdInUse { send_id: name.send_id, recv_id: name.recv_id });
        }
        let (is_current, is_rnext) = (key.is_current, key.is_rnext);
        keys.insert(0, key);
        self.choose(is_current.then_some(name), is_rnext.then_some(name));
        Ok(())
    }

    fn choose(&mut self, current: Option<KeyName>, rnext: Option<KeyName>) {
        for key in self.keys.iter_mut().flatten() {
            key.is_current = current.map_or(key.is_current, |current| current == key.name);
            key.is_rnext = rnext.map_or(key.is_rnext, |rnext| rnext == key.name);
        }
    }
}

impl<C: Calls> Calls for Rehearsal<'_, C> {
    fn look(&mut self) -> Result<Vec<InstalledKey>, Error> {
        if self.keys.is_none() {
            self.keys = Some(self.socket.look()?);
        }
        Ok(self.keys.clone().unwrap_or_default())
    }

    fn call(&mut self, call: &Call<'_>) -> Result<(), Error> {
        match *call {
            Call::Add { key, .. } => {
                let (is_current, is_rnext) = (key.set_current, key.set_rnext);
                return self.add(InstalledKey {
                    is_current,
                    is_rnext,
                    ..InstalledKey::of(key.name(), key.mkt)
                });
            }
            Call::AddPlaceholder { key: name, algorithm } => {
                // Its secret is random, and does not matter here.
                let (mac_length, options, master_key) = (0, OptionCoverage::Covered, None);
                let (is_current, is_rnext, good, bad) = (false, false, 0, 0);
                return self.add(InstalledKey {
                    name,
                    algorithm,
                    mac_length,
                    options,
                    is_current,
                    is_rnext,
                    good,
                    bad,
                    master_key,
                });
            }
            Call::SetCurrent(key) => self.choose(Some(key), None),
            Call::SetRnext(key) => self.choose(None, Some(key)),
            Call::Delete { key, successor, is_current, is_rnext, .. } => {
                self.choose(successor.filter(|_| is_current), successor.filter(|_| is_rnext));
                self.keys.get_or_insert_default().retain(|held| held.name != key);
            }
        }
        Ok(())
    }

    fn reset(&mut self) {}
}
