//! Installing and removing the keys of key chains on sockets, on schedule.
//!
//! A chain's way to the kernel: `set_peer` puts it into the table (`peers`) and makes a step due (`sockets`), which a thread or a task
//! takes (`background`). For each socket a step
//! 1. looks: reads the kind of the socket (`look`), and its keys in the kernel;
//! 2. plans: decides how to change each peer's keys, a pure function of chain, time and keys (`plan`);
//! 3. applies: makes the plan's calls; looks and plans again without a key that the kernel refused (`apply`);
//! 4. reports: what was done, what failed, and which segments the kernel refused (`report`).

mod action;
mod apply;
mod background;
mod look;
mod memory;
mod peers;
mod plan;
mod report;
mod sockets;

use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use wireseal_keys::{KeyChain, Timestamp};

use self::apply::{Outcome, Scope};
use self::look::{Attached, Look};
use self::peers::{Configured, PeerTable, check, longest, next_change};
use self::sockets::{Entry, Shared, lock};
use crate::{Error, PeerName, TcpAoSocket};

pub use look::vrf_of_device;
pub use plan::{Action, Origin, SocketKind};
pub use report::{Refused, SocketReport, SocketState, StepReport};
pub use sockets::Attachment;

/// Installs and removes the keys of key chains on sockets, on schedule. A clone is another handle on the same manager.
///
/// A manager has any number of peers, each an address or a network with a key chain. While it runs, [`set_peer`](Self::set_peer) adds
/// peers and changes their chains, and [`remove_peer`](Self::remove_peer) removes them. Use one manager for all peers of a listener: a
/// step reads a socket's keys once, however many peers they are for. A listener may be attached to several managers if none of their
/// peers overlap.
///
/// | a socket that | attach it | it gets |
/// |---|---|---|
/// | listens, or will | with [`attach`](Self::attach) before `listen`, if possible | the keys of all peers that are accepted now |
/// | will connect | with [`attach_connecting`](Self::attach_connecting) before `connect` | those of its peer, the preferred one as current and rnext key |
/// | was accepted | with [`attach_accepted`](Self::attach_accepted) at once | those of its peer, in place of the keys from its handshake |
///
/// Then call [`step_due`](Self::step_due) every second, or with feature `tokio` spawn [`run_reporting`](Self::run_reporting), which
/// does so. Neither this task nor the thread of a [`TcpAoListener`](crate::TcpAoListener) survives a fork. Take steps in the network
/// namespace of the sockets, because a step looks up there which VRF a device is in.
///
/// # Which peer a connection belongs to
/// To the one with the longest prefix that contains its remote address, in its VRF; this is decided when the connection is attached.
/// Networks may overlap, for example a network of dynamic neighbours and a neighbour within it that has its own chain. During the
/// handshake Linux accepts the keys of both for that neighbour; attaching leaves only those of its own chain. The ids of keys for the
/// same connection must differ (RFC 5925 §3.1), so `set_peer` refuses peers that overlap if two of their keys have a SendID or RecvID
/// in common while both are valid.
///
/// A connection keeps its peer while it is attached, even if a peer with a longer prefix is added. If its peer is removed, it
/// keeps its keys, so that you can end the session in order (in BGP, with a NOTIFICATION), and reports say that it has
/// [`expired`](crate::SocketState::expired).
///
/// # What happens to a key
/// - It is added at the start of its accept lifetime, widened by the chain's tolerance.
/// - While it is [preferred](wireseal_keys::ActiveKeys::preferred), RNextKeyID asks the peer for it.
/// - The kernel signs with the key that the peer asks for. After the current key's send lifetime, this end switches to the preferred key
///   without being asked, once the peer has signed with that. If the peer then asks for the old key again, it gets it, and
///   [`SocketReport::insists_on`](crate::SocketReport::insists_on) says so. A peer that has not moved may hold no other key: the old one
///   serves until the end of its accept lifetime. Connections in userspace decide
///   [alike](wireseal_tcp_ao::Connection::replace_keys).
/// - It is deleted after its accept lifetime, even if the peer still asks for it;
///   [`SocketReport::taken_away`](crate::SocketReport::taken_away) then lists it.
/// - If it leaves the chain, it is deleted at once; if its secret changes, it is replaced at once. If the peer is removed, its keys are
///   deleted from sockets that listen.
///
/// The manager leaves other programs' keys on a listener alone. From a connection it deletes every key that is not of its peer's
/// chain. Attach a connection to one manager.
///
/// # Nothing unsigned gets through
/// Attaching a listener or unconnected socket makes it [require](crate::TcpAoSocket::set_required) TCP-AO, and it always has a key for
/// each peer. While no key is valid for sending, that is a placeholder: a key with free ids and a random secret. Any socket briefly has
/// a placeholder while a secret is replaced under the same ids. A connection without a valid key keeps the keys it has, and the report
/// says to shut it down.
///
/// If a listener also serves peers without TCP-AO, call [`set_required(false)`](crate::TcpAoSocket::set_required) after
/// attaching. Its keys still protect the manager's peers, but a peer that is removed gets in unsigned from then on. A socket
/// that listens or will listen, and has TCP-MD5 keys for other peers, cannot require TCP-AO, and does not.
///
/// `attach` refuses a connection that its peer opened before the listener was attached, with [`Error::Unsigned`], or with
/// [`Error::Ended`] if the peer has already reset it. Close it and accept the next.
///
/// # Many peers
/// A step reads all keys of a listener (304 octets each), because another program may have changed them, and makes other calls only for
/// keys that change; the work is proportional to keys and peers. Linux itself searches the listener's keys one by one, for each SYN and
/// each key added. A key takes 200 to 240 octets of the socket's option memory, `net.core.optmem_max`: raise that for more than 500 keys.
/// With 10,000 peers a manager takes 18 MiB, and a step with nothing to do makes five system calls for the listener and four for each
/// connection (`benches/results/emulated`).
///
/// ```no_run
/// use std::net::{SocketAddr, TcpStream};
///
/// use socket2::{Domain, Socket, Type};
/// use wireseal_linux::KeyManager;
/// use wireseal_keys::{KeyChain, Timestamp};
///
/// fn serve(chain: KeyChain, for_dynamic: KeyChain) -> Result<(), Box<dyn std::error::Error>> {
///     let manager = KeyManager::default();
///     manager.set_peer("192.0.2.7".parse()?, chain)?;
///     manager.set_peer("198.51.100.0/24".parse()?, for_dynamic)?;
///     let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
///     let _attachment = manager.attach(&socket, Timestamp::now())?;
///     socket.bind(&"0.0.0.0:179".parse::<SocketAddr>()?.into())?;
///     socket.listen(16)?;
///     let (stream, remote) = socket.accept()?;
///     let (stream, remote) = (TcpStream::from(stream), remote.as_socket().ok_or("not TCP")?);
///     let attachment = manager.attach_accepted(&stream, remote.ip(), Timestamp::now())?;
///     while !attachment.state().expired {
///         // Speak BGP on the stream for a second.
///         let _report = manager.step_due(Timestamp::now());
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Default)]
pub struct KeyManager {
    shared: Arc<Shared>,
}

impl KeyManager {
    /// Adds a peer, or replaces its chain. A key with the same ids and another secret is replaced.
    ///
    /// The change takes effect in the next step, which is [due](Self::step_due) at once. A step in progress does not undo it.
    ///
    /// # Errors
    /// [`Error::AlgorithmNotInLinux`] and [`Error::PeersClash`]; the peer is unchanged then.
    pub fn set_peer(&self, peer: PeerName, chain: KeyChain) -> Result<(), Error> {
        let mut state = self.shared.state();
        let peer = check(&state.peers, peer, &chain)?;
        state.change(|peers, version| peers.insert(peer, Configured { chain: Arc::new(chain), version }));
        self.shared.wake();
        Ok(())
    }

    /// Replaces all peers at once: adds, changes and removes them as [`set_peer`](Self::set_peer) and [`remove_peer`](Self::remove_peer)
    /// do.
    ///
    /// # Errors
    /// [`Error::AlgorithmNotInLinux`], [`Error::PeersClash`] and [`Error::PeerTwice`]; all peers are unchanged then.
    pub fn set_peers(&self, peers: impl IntoIterator<Item = (PeerName, KeyChain)>) -> Result<(), Error> {
        let mut wanted = PeerTable::new();
        for (peer, chain) in peers {
            let peer = check(&wanted, peer, &chain)?;
            if wanted.insert(peer, Configured { chain: Arc::new(chain), version: 0 }).is_some() {
                return Err(Error::PeerTwice(peer));
            }
        }
        self.shared.state().change(|peers, version| {
            wanted.values_mut().for_each(|configured| configured.version = version);
            *peers = wanted;
        });
        self.shared.wake();
        Ok(())
    }

    /// Removes a peer, and returns whether the manager had it.
    ///
    /// The next step, which is [due](Self::step_due) at once, deletes the peer's keys from sockets that listen. The peer's connections
    /// keep theirs; shut them down.
    pub fn remove_peer(&self, peer: PeerName) -> bool {
        let mut state = self.shared.state();
        let removed = state.change(|peers, _| peers.remove(&peer.canonical()));
        self.shared.wake();
        removed.is_some()
    }

    /// Puts the keys valid at `now` on a socket that listens, will listen or is connected, and keeps them current until the attachment is
    /// dropped. A connection gets the keys of its peer, another socket those of all peers of its address family.
    ///
    /// For accepted connections use [`attach_accepted`](Self::attach_accepted) if networks of peers overlap: this call does not check which
    /// peer's key signed the handshake.
    ///
    /// A listener can be attached even if no key is valid for sending; then nothing gets through. Deleting a key from a connection waits in
    /// the kernel for some milliseconds: keep it off the threads of asynchronous tasks.
    ///
    /// # Errors
    /// With the socket unchanged, [`Error::AlreadyAttached`] and, for a connection, [`Error::NoPeer`], [`Error::Unsigned`],
    /// [`Error::Ended`] and [`Error::NoKeyToSendWith`]. If a call on the socket fails, its error, as [`Error::Key`] if it is about a key;
    /// earlier changes stay.
    pub fn attach(&self, socket: &(impl AsFd + ?Sized), now: Timestamp) -> Result<Attachment, Error> {
        self.attach_as(socket, Role::Any, now)
    }

    /// Puts the keys valid at `now` for connections with `remote` on a socket that will connect to it, and keeps them current until the
    /// attachment is dropped. If the peer is in a VRF, first bind the socket to the VRF, or to the interface of a link-local address in it.
    ///
    /// # Errors
    /// As [`attach`](Self::attach) for a connection.
    pub fn attach_connecting(
        &self,
        socket: &(impl AsFd + ?Sized),
        remote: IpAddr,
        now: Timestamp,
    ) -> Result<Attachment, Error> {
        self.attach_as(socket, Role::WillConnect(remote), now)
    }

    /// Attaches a connection that was accepted from `remote`, unless its handshake was signed with a key of another peer whose network
    /// contains `remote`. Reset the connection on any error, including [`Error::Ended`]: data from an unsigned or wrong caller may be in
    /// the receive queue, and would be read as the peer's.
    ///
    /// # Errors
    /// As [`attach`](Self::attach) for a connection, and [`Error::KeyOfAnotherPeer`]; the socket is unchanged then.
    pub fn attach_accepted(
        &self,
        socket: &(impl AsFd + ?Sized),
        remote: IpAddr,
        now: Timestamp,
    ) -> Result<Attachment, Error> {
        self.attach_as(socket, Role::Accepted(remote), now)
    }

    /// Takes a step: brings the keys of all attached sockets in line with their peers' chains at `now`, which may be earlier than in the
    /// last step.
    ///
    /// Deleting a key from a connection waits in the kernel for some milliseconds. Meanwhile, other sockets can be attached and detached,
    /// and peers changed.
    #[must_use = "the report says which connections to shut down and when to step next"]
    pub fn step(&self, now: Timestamp) -> StepReport {
        self.step_sockets(now, true)
    }

    /// Takes a [`step`](Self::step) of the sockets that need one now, if any does. A socket needs one when a chain changes or a peer was
    /// changed; a listener when it has refused segments with a wrong MAC; a connection every second while its peer has not switched keys;
    /// and all sockets every 30 seconds and when the clock was set back.
    ///
    /// Call it about every second: with nothing due it makes one system call for each listener and returns `None`.
    #[must_use = "the report says which connections to shut down"]
    pub fn step_due(&self, now: Timestamp) -> Option<StepReport> {
        if self.shared.state().pace.is_long_ago(now) {
            return Some(self.step(now));
        }
        self.look_at_listeners(now);
        let state = self.shared.state();
        let is_due = state.pace.next().is_some_and(|next| next <= now)
            || state.sockets.iter().any(|entry| state.is_due(entry, now));
        drop(state);
        is_due.then(|| self.step_sockets(now, false))
    }

    /// Takes a [`step`](Self::step) of one socket that was [let go](Attachment::let_go), with any descriptor of it, which the manager does
    /// not keep. Logs what it did (feature `tracing`).
    ///
    /// # Errors
    /// With nothing changed, [`Error::AnotherSocket`] if it is not the socket that was attached, for instance because the program has
    /// closed that one and opened another; [`Error::Io`] if the descriptor cannot be duplicated.
    pub fn step_with(
        &self,
        attachment: &Attachment,
        socket: &(impl AsFd + ?Sized),
        now: Timestamp,
    ) -> Result<SocketReport, Error> {
        let _turn = lock(&self.shared.turn);
        let attached = self.shared.state().socket(attachment.number).ok_or(Error::AnotherSocket)?;
        let mut attached = lock(&attached);
        if !attached.take_up(socket)? {
            return Err(Error::AnotherSocket);
        }
        let report = self.step_socket(attachment.number, &mut attached, now);
        attached.let_go();
        let report = report.ok_or(Error::AnotherSocket)?;
        crate::log::socket(&report);
        Ok(report)
    }

    /// Makes listeners due that have refused segments, so that a peer with a wrong secret is reported at once.
    fn look_at_listeners(&self, now: Timestamp) {
        let listeners = self.shared.state().listed(|entry| entry.state.peer.is_none());
        for (number, socket) in listeners {
            let Some(socket) = socket.upgrade() else { continue };
            // A locked socket is being stepped or attached right now.
            let Ok(attached) = socket.try_lock() else { continue };
            if !attached.is_let_go()
                && attached.counters().is_some_and(|counters| attached.seen.has_grown(&counters))
            {
                let mut state = self.shared.state();
                if let Some(index) = state.position(number) {
                    state.sockets[index].next = Some(now);
                }
            }
        }
    }

    /// Steps all sockets, or those that are due.
    fn step_sockets(&self, now: Timestamp, all: bool) -> StepReport {
        let _turn = lock(&self.shared.turn);
        let mut state = self.shared.state();
        state.pace.stepped(all.then_some(now));
        let listed = state.listed(|entry| all || state.is_due(entry, now));
        drop(state);
        let sockets = listed
            .into_iter()
            .filter_map(|(number, socket)| self.step_socket(number, &mut lock(&*socket.upgrade()?), now));
        let sockets = sockets.collect();
        let peers = Arc::clone(&self.shared.state().peers);
        let has_key = |configured: &Configured| configured.chain.at(now).preferred().is_some();
        let expired = peers.iter().filter(|(_, configured)| !has_key(configured));
        let expired = expired.map(|(peer, _)| *peer).collect();
        let next_change = next_change(&peers, None, now);
        let mut state = self.shared.state();
        state.pace.no_later_than(next_change);
        StepReport { sockets, expired, next_step: state.next_step() }
    }

    /// Steps one socket; `None` if it has been detached or let go.
    fn step_socket(&self, number: u64, attached: &mut Attached, now: Timestamp) -> Option<SocketReport> {
        if attached.is_let_go() {
            return None;
        }
        // Read the chains once the socket is locked, so that a peer set during the step is not undone.
        let state = self.shared.state();
        let before = state.sockets[state.position(number)?].state;
        let (peers, version) = (Arc::clone(&state.peers), state.version);
        drop(state);
        // Read the counters before the keys: segments that arrive in between make the counters grow once more.
        let counters = attached.counters();
        let (kind, peer, outcome) =
            look_and_apply(attached, &peers, before.peer, now).unwrap_or_else(|error| {
                (None, before.peer, Outcome { failed: vec![(None, error)], ..Outcome::default() })
            });
        let is_peer_behind = kind == Some(SocketKind::Connection)
            && !outcome.expired
            && peer.is_some_and(|peer| attached.is_peer_behind(peer));
        let again = outcome.next(is_peer_behind, now);
        let next = [again, next_change(&peers, peer, now)].into_iter().flatten().min();
        let asks_for = peer.filter(|peer| kind == Some(SocketKind::Connection) && peers.contains_key(peer));
        let asks_for = asks_for.and_then(|peer| attached.asks_for(peer));
        let found = SocketState { peer, expired: outcome.expired, is_peer_behind, asks_for, counters };
        let report = SocketReport::new(number, kind, found, outcome, &mut attached.seen);
        let mut state = self.shared.state();
        if let Some(index) = state.position(number) {
            let entry = &mut state.sockets[index];
            (entry.version, entry.next) = (version, next);
            let has_expired = found.expired && !entry.state.expired;
            entry.state = found;
            drop(state);
            if has_expired {
                self.shared.notify();
            }
        }
        Some(report)
    }

    fn attach_as(
        &self,
        socket: &(impl AsFd + ?Sized),
        role: Role,
        now: Timestamp,
    ) -> Result<Attachment, Error> {
        let attached = Attached::new(socket)?;
        let identity = attached.identity;
        let attached = Arc::new(Mutex::new(attached));
        let mut socket = lock(&attached);
        let mut state = self.shared.state();
        if state.sockets.iter().any(|other| other.identity == identity) {
            return Err(Error::AlreadyAttached);
        }
        let (number, version) = (state.next_number, state.version);
        state.next_number += 1;
        // List the socket before it has its keys, so that a peer set in between reaches it too.
        let listed = Arc::clone(&attached);
        state.sockets.push(Entry {
            number,
            identity,
            socket: listed,
            version,
            next: None,
            state: SocketState::default(),
        });
        let peers = Arc::clone(&state.peers);
        drop(state);
        let attachment = Attachment { shared: Arc::clone(&self.shared), number };
        let (peer, next) = begin(&mut socket, &peers, role, now)?;
        let mut state = self.shared.state();
        if let Some(index) = state.position(number) {
            (state.sockets[index].state.peer, state.sockets[index].next) = (peer, next);
        }
        drop(state);
        Ok(attachment)
    }
}

impl fmt::Debug for KeyManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers = Arc::clone(&self.shared.state().peers);
        f.debug_struct("KeyManager").field("peers", &peers.keys()).finish_non_exhaustive()
    }
}

/// The role in which a socket is attached.
#[derive(Clone, Copy)]
enum Role {
    /// It listens, will listen, or is connected.
    Any,
    /// It will connect to this address.
    WillConnect(IpAddr),
    /// It was accepted from this address.
    Accepted(IpAddr),
}

/// Puts the keys valid at `now` on a socket for the first time; returns its peer and the time of its next step.
fn begin(
    attached: &mut Attached,
    peers: &PeerTable<Configured>,
    role: Role,
    now: Timestamp,
) -> Result<(Option<PeerName>, Option<Timestamp>), Error> {
    let Look { kind, remote, families } = attached.look()?.ok_or(Error::Ended)?;
    let address = match (kind, role) {
        (SocketKind::Connection, _) => remote,
        (_, Role::Accepted(_)) => return Err(Error::Ended),
        (SocketKind::Listener, _) => None,
        (SocketKind::Closed, Role::WillConnect(remote)) => Some(remote.to_canonical()),
        // Data of an unsigned connection can still be read after its end.
        (SocketKind::Closed, Role::Any) if attached.socket().has_received()? => return Err(Error::Ended),
        (SocketKind::Closed, Role::Any) => None,
    };
    let peer = address.map(|address| peer_with_key(attached, peers, kind, role, address, now)).transpose()?;
    match kind {
        SocketKind::Connection => {}
        SocketKind::Closed if peer.is_some() => attached.socket().set_required(true)?,
        SocketKind::Closed | SocketKind::Listener => match attached.socket().set_required(true) {
            Err(Error::Md5KeyInTheWay) => {}
            required => required?,
        },
    }
    let scope = Scope { peers, only: peer, families, now, kind };
    let outcome = scope.apply(&mut attached.memories, &mut TcpAoSocket::new(&attached.descriptor));
    let is_peer_behind = peer.is_some_and(|peer| attached.is_peer_behind(peer));
    let again = outcome.next(is_peer_behind, now);
    // A key that the peer asks for at this moment is deleted in the next step.
    let serious = outcome.failed.into_iter().find(|(_, error)| !matches!(error, Error::KeyInUse(_)));
    match serious {
        Some((Some(action), error)) => Err(Error::Key { key: action.key(), error: Box::new(error) }),
        Some((None, error)) => Err(error),
        None => Ok((peer, [again, next_change(peers, peer, now)].into_iter().flatten().min())),
    }
}

/// The peer of a connection, or of a socket that will connect. Refuses connections that are unsigned or signed with another peer's key, and
/// peers without a key to send with.
fn peer_with_key(
    attached: &Attached,
    peers: &PeerTable<Configured>,
    kind: SocketKind,
    role: Role,
    address: IpAddr,
    now: Timestamp,
) -> Result<PeerName, Error> {
    let peer = longest(peers, address, || attached.vrf())?.ok_or(Error::NoPeer(address))?;
    let chain = &peers[&peer].chain;
    if kind == SocketKind::Connection {
        attached.socket().info()?.ok_or(Error::Unsigned)?;
        if let Role::Accepted(remote) = role {
            // The key that signed the SYN became the rnext key, and only this end changes that.
            let key = attached.socket().keys()?.iter().find(|key| key.is_rnext).map(|key| key.name);
            let key = key.ok_or(Error::Unsigned)?;
            if key.peer() != peer {
                return Err(Error::KeyOfAnotherPeer { address: remote.to_canonical(), key });
            }
        }
    }
    if chain.at(now).preferred().is_none() {
        let (chain, next_change) = (chain.name().to_owned(), chain.next_change(now));
        return Err(Error::NoKeyToSendWith { peer, chain, next_change });
    }
    Ok(peer)
}

/// Reads the state of one socket, and brings its keys in line with the chain of its peer, if it has one, or of all peers. Returns the kind
/// of the socket, and its peer.
fn look_and_apply(
    attached: &mut Attached,
    peers: &PeerTable<Configured>,
    peer: Option<PeerName>,
    now: Timestamp,
) -> Result<(Option<SocketKind>, Option<PeerName>, Outcome), Error> {
    let Some(Look { kind, remote, families }) = attached.look()? else {
        return Ok((None, peer, Outcome::default()));
    };
    let peer = match (kind, remote) {
        (SocketKind::Listener, _) => None,
        (SocketKind::Connection, Some(address)) if peer.is_none() => {
            longest(peers, address, || attached.vrf())?
        }
        _ => peer,
    };
    let is_removed = peer.map_or(kind == SocketKind::Connection, |peer| !peers.contains_key(&peer));
    if is_removed {
        // Keep its keys, so that its owner can end the session in order.
        return Ok((Some(kind), peer, Outcome { expired: true, ..Outcome::default() }));
    }
    let scope = Scope { peers, only: peer, families, now, kind };
    let outcome = scope.apply(&mut attached.memories, &mut TcpAoSocket::new(&attached.descriptor));
    Ok((Some(kind), peer, Outcome { expired: outcome.expired && peer.is_some(), ..outcome }))
}

#[cfg(test)]
mod tests;
