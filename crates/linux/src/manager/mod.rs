//! Installing and removing the keys of key chains on sockets, on schedule.
//!
//! A chain's way to the kernel: a transaction, of one peer or many (`transaction`), puts it into the table (`peers`) as the next generation
//! and makes a step due (`sockets`), which a thread or a task takes (`background`). For each socket a step (`step`)
//! 1. looks: reads the kind of the socket (`look`), and its keys in the kernel;
//! 2. plans: decides how to change each peer's keys, a pure function of chain, time and keys (`plan`);
//! 3. applies: makes the plan's calls; looks and plans again without a key that the kernel refused (`apply`);
//! 4. records how the socket stands to the generation, which `progress` counts, and carries out the peer's `policy` if it has failed;
//! 5. reports: what was done, what failed, and which segments the kernel refused (`report`).
//!
//! A dry run does the first three with a copy of the keys in place of the kernel.

mod action;
mod apply;
mod background;
mod look;
mod memory;
mod peers;
mod plan;
mod policy;
mod progress;
mod report;
#[cfg(feature = "simulation")]
mod simulation;
mod sockets;
mod step;
mod transaction;

use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use wireseal_keys::Timestamp;

use self::apply::{Outcome, Scope, WithoutWaiting};
use self::look::{Attached, Look};
use self::peers::{Configured, PeerTable, longest, next_change, with_keys_of};
use self::policy::{Finding, Standing};
use self::sockets::{Entry, Shared, lock};
use crate::{Error, InstalledKey, PeerName, Remote, TcpAoSocket};

pub use background::StepTimer;
pub use plan::{Action, Origin, SocketKind};
pub use policy::{OnFailure, Policy, PolicyAction};
pub use progress::{Barrier, PendingSocket, Progress};
pub use report::{Refused, SocketReport, SocketState, StepReport};
#[cfg(feature = "simulation")]
pub use simulation::{Call, Calls, SimulatedSocket, SimulatedStep};
pub use sockets::Attachment;
pub use transaction::{Peer, PlannedSocket, Transaction};

/// Installs and removes the keys of key chains on sockets, on schedule. A clone is another handle on the same manager.
///
/// A manager has any number of peers, each an address or a network with a key chain. While it runs, [`set_peer`](Self::set_peer) adds
/// peers and changes their chains, and [`remove_peer`](Self::remove_peer) removes them. Use one manager for all peers of a listener: a
/// step reads a socket's keys once, however many peers they are for. A listener may be attached to several managers if none of their
/// peers overlap.
///
/// | a socket that | attach it | it gets |
/// |---|---|---|
/// | listens, or will | with [`attach`](Self::attach) before `listen`, if possible; if it serves others without TCP-AO, with [`attach_mixed`](Self::attach_mixed) | the keys of all peers that are accepted now |
/// | will connect | with [`attach_connecting`](Self::attach_connecting) before `connect` | those of its peer, the preferred one as current and rnext key |
/// | was accepted | with [`attach_accepted`](Self::attach_accepted) at once | those of its peer, in place of the keys from its handshake |
///
/// Then let a thread ([`spawn`](Self::spawn)) or with feature `tokio` a task (`run_reporting`) take the steps, or take them in an event loop of
/// your own, whose descriptor is a [`step_timer`](Self::step_timer), or call [`step_due`](Self::step_due) every second yourself. Neither thread nor task survives a fork. Take steps in the network namespace of
/// the sockets, because a step looks up there which VRF a device is in.
///
/// # Which peer a connection belongs to
/// To the one with the longest prefix that contains its remote address, in its VRF and on its interface; this is decided when the connection
/// is attached.
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
/// # Changing keys
/// Each change of peers has a number, its [`Generation`](crate::Generation), which reports and [`SocketState`] name. A
/// [`transaction`](Self::transaction) changes many peers at once, and has an example:
/// - [`dry_run`](Transaction::dry_run) says beforehand what will be done on which socket, and changes nothing;
/// - [`progress`](Self::progress) says which sockets have the keys of a generation, and which peers have moved to them;
///   [`wait_until`](Self::wait_until), or with feature `tokio` `reached`, waits until all have;
/// - [`undo`](Self::undo) gives the peers the keys from before the newest change;
/// - a [`Policy`] for a peer says what to do if its keys cannot be set or it does not move in time: go on trying, go back to its old keys, or
///   reset its connection or those of its cohort.
///
/// # What waits in the kernel
/// Linux deletes a key from a socket that does not listen only after some milliseconds, and the caller waits. If a thread or a task takes
/// the steps, attaching a socket leaves such deletions to the next step, which is due at once: until then a connection accepts a key of its
/// own peer that has expired or left the chain. It does not leave keys of *other* peers, which an accepted connection has if their
/// networks contain its address; for these attaching waits. Dropping an attachment, changing peers and asking for progress never wait for a
/// step.
///
/// # Nothing unsigned gets through
/// Attaching a listener or unconnected socket makes it [require](crate::TcpAoSocket::set_required) TCP-AO, and it always has a key for
/// each peer. While no key is valid for sending, that is a placeholder: a key with free ids and a random secret. Any socket briefly has
/// a placeholder while a secret is replaced under the same ids. A connection without a valid key keeps the keys it has, and the report
/// says to shut it down.
///
/// If a listener also serves peers without TCP-AO, attach it with [`attach_mixed`](Self::attach_mixed). Its keys still protect the manager's
/// peers, but a peer that is removed gets in unsigned from then on; one that has lost its keys can be [blocked](Self::block_peer). A
/// socket that listens or will listen, and has TCP-MD5 keys for other peers, cannot require TCP-AO, and does not, however it is attached.
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
    /// Puts the keys valid at `now` on a socket that listens, will listen or is connected, and keeps them current until the attachment is
    /// dropped. A connection gets the keys of its peer, another socket those of all peers of its address family.
    ///
    /// For accepted connections use [`attach_accepted`](Self::attach_accepted) if networks of peers overlap: this call does not check which
    /// peer's key signed the handshake.
    ///
    /// A listener can be attached even if no key is valid for sending; then nothing gets through. Deleting a key from a connection
    /// [can wait in the kernel](Self#what-waits-in-the-kernel).
    ///
    /// # Errors
    /// With the socket unchanged, [`Error::AlreadyAttached`] and, for a connection, [`Error::NoPeer`], [`Error::Unsigned`],
    /// [`Error::Ended`] and [`Error::NoKeyToSendWith`]. If a call on the socket fails, its error, as [`Error::Key`] if it is about a key;
    /// earlier changes stay.
    pub fn attach(&self, socket: &(impl AsFd + ?Sized), now: Timestamp) -> Result<Attachment, Error> {
        self.attach_as(socket, Role::Any, now)
    }

    /// [Attaches](Self::attach) a socket that listens, or will, and also serves peers that this manager does not have, with TCP-MD5 or without
    /// authentication: it does not require TCP-AO.
    ///
    /// The manager's peers are protected all the same: while a listener has a key for a peer, Linux drops what comes from it unsigned, and
    /// each peer has one, a placeholder if it must. But one that is [removed](Self::remove_peer) is a stranger from the next step on, and
    /// gets in unsigned: [block](Self::block_peer) a peer that has lost its keys instead. Nor does Linux keep a peer out for which it took
    /// no key (`failed` in reports, for example for lack of memory).
    ///
    /// So call [`attach_accepted`](Self::attach_accepted) for every connection. [`Error::NoPeer`] means a stranger, which you may serve without
    /// TCP-AO; on any other error reset the connection: a peer that came unsigned is [`Error::Unsigned`].
    ///
    /// # Errors
    /// As [`attach`](Self::attach). A connection is attached as there. After an error about a key, do not listen on the socket.
    pub fn attach_mixed(&self, socket: &(impl AsFd + ?Sized), now: Timestamp) -> Result<Attachment, Error> {
        self.attach_as(socket, Role::Mixed, now)
    }

    /// Puts the keys valid at `now` for connections with `remote` on a socket that will connect to it, and keeps them current until the
    /// attachment is dropped. If the peer is in a VRF, first bind the socket to the VRF, or to the interface of a link-local address in it.
    ///
    /// `remote` is an address, or a socket address, whose scope id says on which interface a link-local address is. Without one, it is the
    /// interface that the socket is bound to.
    ///
    /// # Errors
    /// As [`attach`](Self::attach) for a connection.
    pub fn attach_connecting(
        &self,
        socket: &(impl AsFd + ?Sized),
        remote: impl Into<Remote>,
        now: Timestamp,
    ) -> Result<Attachment, Error> {
        self.attach_as(socket, Role::WillConnect(remote.into()), now)
    }

    /// Attaches a connection that was accepted from `remote`, unless its handshake, or a segment since, was signed with a key of another peer
    /// whose network contains `remote`, or with one that is not accepted any more. Reset the connection on any error, including
    /// [`Error::Ended`]: data from an unsigned or wrong caller may be in the receive queue, and would be read as the peer's.
    ///
    /// # Errors
    /// As [`attach`](Self::attach) for a connection, [`Error::KeyOfAnotherPeer`] and [`Error::KeyNotAccepted`]; the socket is unchanged then.
    pub fn attach_accepted(
        &self,
        socket: &(impl AsFd + ?Sized),
        remote: IpAddr,
        now: Timestamp,
    ) -> Result<Attachment, Error> {
        self.attach_as(socket, Role::Accepted(remote), now)
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
        let (number, generation) = (state.next_number, state.generation);
        state.next_number += 1;
        // List the socket before it has its keys, so that a peer set in between reaches it too.
        let listed = Arc::clone(&attached);
        state.sockets.push(Entry {
            number,
            identity,
            socket: listed,
            next: None,
            state: SocketState { generation, ..SocketState::default() },
            standing: Standing::unsettled(),
            reset: None,
            is_let_go: false,
        });
        let peers = Arc::clone(&state.peers);
        drop(state);
        let attachment = Attachment { shared: Arc::clone(&self.shared), number };
        let leave_deletions = lock(&self.shared.clock).is_running();
        let (peer, is_connecting, outcome) = begin(&mut socket, &peers, role, leave_deletions, now)?;
        let is_peer_behind = peer.is_some_and(|peer| socket.is_peer_behind(peer));
        let is_unsettled = !outcome.failed.is_empty();
        // Only deletions can have failed, which the next step tries again.
        let again = if is_unsettled { Some(now) } else { outcome.next(is_peer_behind, now) };
        let next = [again, next_change(&peers, peer, now)].into_iter().flatten().min();
        let mut state = self.shared.state();
        if let Some(index) = state.position(number) {
            let is_newest = Arc::ptr_eq(&peers, &state.peers);
            let entry = &mut state.sockets[index];
            (entry.state.peer, entry.state.is_peer_behind) = (peer, is_peer_behind);
            let (is_asked, has_ended, is_unmoved) = (false, false, outcome.is_unmoved);
            let has_chosen = !matches!(role, Role::WillConnect(_)) && outcome.has_chosen();
            let has_changed = !outcome.done.is_empty();
            let found = Finding {
                has_ended,
                is_unsettled,
                is_unmoved,
                has_chosen,
                is_asked,
                is_connecting,
                has_changed,
            };
            let changed = peer.and_then(|peer| peers.get(&peer)).map_or(generation, |of| of.version);
            entry.standing.record(found, changed, now);
            entry.next = if is_newest { next } else { Some(Timestamp::MIN) };
        }
        drop(state);
        if is_unsettled {
            self.shared.wake();
        }
        self.shared.progressed();
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
    /// The same, and it serves peers without TCP-AO, too.
    Mixed,
    /// It will connect to this address.
    WillConnect(Remote),
    /// It was accepted from this address.
    Accepted(IpAddr),
}

/// Puts the keys valid at `now` on a socket for the first time; returns its peer, and whether it is connecting. Leaves deletions that wait in
/// the kernel to the next step if `leave_deletions` says so.
fn begin(
    attached: &mut Attached,
    peers: &PeerTable<Configured>,
    role: Role,
    leave_deletions: bool,
    now: Timestamp,
) -> Result<(Option<PeerName>, bool, Outcome), Error> {
    let look = attached.look(|| peers.keys().any(|peer| peer.interface.is_some()))?.ok_or(Error::Ended)?;
    let Look { kind, is_connecting, remote, scope, device, families } = look;
    let address = match (kind, role) {
        (SocketKind::Connection, _) => remote.map(|address| Remote { address, interface: scope }),
        (_, Role::Accepted(_)) => return Err(Error::Ended),
        (SocketKind::Listener, _) => None,
        (SocketKind::Closed, Role::WillConnect(remote)) => Some(remote),
        // Data of an unsigned connection can still be read after its end.
        (SocketKind::Closed, Role::Any | Role::Mixed) if attached.socket().has_received()? => {
            return Err(Error::Ended);
        }
        (SocketKind::Closed, Role::Any | Role::Mixed) => None,
    };
    let peer = address.map(|address| peer_with_key(attached, peers, kind, role, address, now)).transpose()?;
    match kind {
        SocketKind::Connection => {}
        // It may require TCP-AO until now, and does until it has the keys.
        _ if matches!(role, Role::Mixed) => {}
        SocketKind::Closed if peer.is_some() => attached.socket().set_required(true)?,
        SocketKind::Closed | SocketKind::Listener => match attached.socket().set_required(true) {
            Err(Error::Md5KeyInTheWay) => {}
            required => required?,
        },
    }
    let scope = Scope { peers, only: peer, families, device, now, kind };
    let calls = &mut TcpAoSocket::new(&attached.descriptor);
    // Not if keys of another peer have the same name.
    let is_alone = |peer: &PeerName| with_keys_of(peers, *peer).nth(1).is_none();
    let mut outcome = match peer.filter(|peer| leave_deletions && is_alone(peer)) {
        Some(peer) => scope.apply(&mut attached.memories, &mut WithoutWaiting { calls, peer }),
        None => scope.apply(&mut attached.memories, calls),
    };
    // A key that the peer asks for at this moment is deleted in the next step.
    let is_serious = |(_, error): &(_, Error)| !matches!(error, Error::KeyInUse(_));
    let Some(serious) = outcome.failed.iter().position(is_serious) else {
        if matches!(role, Role::Mixed) && kind != SocketKind::Connection {
            attached.socket().set_required(false)?;
        }
        return Ok((peer, is_connecting, outcome));
    };
    match outcome.failed.swap_remove(serious) {
        (Some(action), error) => Err(Error::Key { key: action.key(), error: Box::new(error) }),
        (None, error) => Err(error),
    }
}

/// The peer of a connection, or of a socket that will connect. Refuses connections that are unsigned or signed with a wrong key, and peers
/// without a key to send with.
fn peer_with_key(
    attached: &Attached,
    peers: &PeerTable<Configured>,
    kind: SocketKind,
    role: Role,
    Remote { address, interface }: Remote,
    now: Timestamp,
) -> Result<PeerName, Error> {
    let peer = longest(peers, address, || attached.place(interface))?.ok_or(Error::NoPeer(address))?;
    let chain = &peers[&peer].chain;
    if chain.at(now).preferred().is_none() {
        let (chain, next_change) = (chain.name().to_owned(), chain.next_change(now));
        return Err(Error::NoKeyToSendWith { peer, chain, next_change });
    }
    if kind == SocketKind::Connection {
        attached.socket().info()?.ok_or(Error::Unsigned)?;
        if let Role::Accepted(remote) = role {
            let keys = attached.socket().keys()?;
            check_handshake(peers, peer, &keys, remote.to_canonical(), now)?;
        }
    }
    Ok(peer)
}

/// Refuses an accepted connection if its handshake or a later segment was signed with a key of another peer, or with one that its peer's
/// chain does not accept any more: the sender may know only that key, and what it sent is in the receive queue.
fn check_handshake(
    peers: &PeerTable<Configured>,
    peer: PeerName,
    keys: &[InstalledKey],
    address: IpAddr,
    now: Timestamp,
) -> Result<(), Error> {
    // The key that signed the SYN became the rnext key, and only this end changes that. Segments count from the end of the handshake.
    let handshake = keys.iter().find(|key| key.is_rnext).ok_or(Error::Unsigned)?;
    let later = keys.iter().filter(|key| key.good > 0);
    for key in std::iter::once(handshake).chain(later) {
        if !is_key_of(peers, peer, key) {
            return Err(Error::KeyOfAnotherPeer { address, key: key.name });
        }
        if !peers[&peer].chain.at(now).iter().any(|accepted| key.is(accepted.mkt())) {
            return Err(Error::KeyNotAccepted { address, key: key.name });
        }
    }
    Ok(())
}

/// Whether a key that signed a handshake is the peer's. Linux does not tell keys of two interfaces apart: if another peer has the same
/// addresses, the key must be one of the peer's chain.
fn is_key_of(peers: &PeerTable<Configured>, peer: PeerName, key: &InstalledKey) -> bool {
    let has_key = |configured: &Configured| configured.chain.keys().iter().any(|of| key.is(of.mkt()));
    let is_alone = with_keys_of(peers, peer).nth(1).is_none();
    key.name.peer() == peer.on_all_interfaces() && (is_alone || peers.get(&peer).is_some_and(has_key))
}

#[cfg(test)]
mod tests;
