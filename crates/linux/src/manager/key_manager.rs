//! The key manager.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use cidr::IpCidr;
use wireseal_keys::{KeyChain, Timestamp};

use crate::manager::action::SocketKind;
use crate::manager::apply::Scope;
use crate::manager::attached::Attached;
use crate::manager::attachment::{Attachment, Entry, Shared, SocketState, lock};
use crate::manager::error::ManagerError;
use crate::manager::pace::Pace;
use crate::manager::peers::{Configured, PeerTable, check_ids, longest, next_change};
use crate::{Error, PeerName};

/// Installs and removes the keys of key chains on sockets, on schedule. A clone is another handle on the same manager.
///
/// A manager has any number of peers, each an address or a network with a key chain. [`new`](Self::new) makes one with one
/// peer; [`set_peer`](Self::set_peer) adds peers and changes their chains, [`remove_peer`](Self::remove_peer) removes them,
/// while it runs. Use one manager for all peers of a listener: a step reads a socket's keys once, however many peers they are
/// for. A listener may be attached to several managers if none of their peers overlap.
///
/// | a socket that | attach it | it gets |
/// |---|---|---|
/// | listens, or will | with [`attach`](Self::attach) before `listen`, if possible | all keys of all peers that are accepted now |
/// | will connect | with [`attach_connecting`](Self::attach_connecting) before `connect` | those of its peer, with the preferred one as current and rnext key |
/// | was accepted | with [`attach`](Self::attach) at once | what the configuration says now of its peer, in place of the keys from its handshake |
///
/// Then call [`step_due`](Self::step_due) every second or [`step`](Self::step) at the time that the last report gave, and every
/// now and then in case a clock was set; with feature `tokio`, [`run_reporting`](Self::run_reporting) does this. Neither that nor the
/// thread that a [`TcpAoListener`](crate::TcpAoListener) starts survives a fork. Take steps in the network namespace that the sockets
/// belong to: the kernel is asked there which VRF a device is in.
///
/// # Which peer a connection belongs to
/// The one with the longest prefix that contains its remote address, in its VRF; the manager decides it when the connection is
/// attached. Networks may overlap: a network of dynamic neighbours, say, and a neighbour within it that has a chain of its own.
/// While the handshake lasts, Linux takes the keys of both for that neighbour; attaching leaves it those of its own chain. As
/// the ids of keys for the same connection must differ (RFC 5925 §3.1), `set_peer` refuses peers that overlap if two of their
/// keys have a SendID or RecvID in common while both are valid.
///
/// A connection keeps its peer while it is attached, even if a peer with a longer prefix is added. If its peer is removed, it
/// keeps its keys, so that you can end the session in order (in BGP, with a NOTIFICATION), and reports say that it has
/// [`expired`](crate::SocketReport::expired).
///
/// # What happens to a key
/// - It is put on the socket at the start of its accept lifetime, widened by the chain's tolerance.
/// - While it is [preferred](wireseal_keys::ActiveKeys::preferred), RNextKeyID asks the peer for it.
/// - This end signs with what the peer asks for; the kernel takes care of that. After the current key's send lifetime this end
///   switches to the preferred key unasked: once the peer has signed with it, or at the latest after half of the time for which
///   the current key is still accepted.
/// - It is deleted after its accept lifetime, even if the peer still asks for it;
///   [`SocketReport::taken_away`](crate::SocketReport::taken_away) then lists it.
/// - If it leaves the chain it is deleted at once; if its secret changes it is replaced at once. If the peer is removed, its keys
///   are deleted from sockets that listen.
///
/// The manager leaves other programs' keys on a listener alone. From a connection it deletes every key that is not of its peer's
/// chain. Attach a connection to one manager.
///
/// # Nothing unsigned gets through
/// Attaching a listener or unconnected socket makes it [require](crate::TcpAoSocket::set_required) TCP-AO, and it is never
/// without a key for a peer. While no key is valid for sending, it has a placeholder: a key with free ids and a random
/// secret. Any socket has one briefly while a secret is replaced under the same ids. A connection keeps what it has, and the
/// report says to shut it down.
///
/// If a listener also serves peers without TCP-AO, call [`set_required(false)`](crate::TcpAoSocket::set_required) after
/// attaching; its keys still protect the manager's peers, but a peer that is removed gets in unsigned from then on. A socket
/// that listens or will, with TCP-MD5 keys for other peers, cannot require TCP-AO, and does not.
///
/// `attach` refuses a connection that its peer opened before the listener was attached, with [`ManagerError::Unsigned`], or with
/// [`ManagerError::Ended`] if the peer has reset it already: close it and accept the next.
///
/// # Many peers
/// A step reads all keys of a listener (304 octets each), and makes other calls only for keys that change; the work is
/// proportional to keys and peers. It never skips the reading, because another program may have changed the keys. Linux
/// itself looks a key up by walking through the listener's keys, for each SYN and each key added. It takes 200 to 240 octets
/// for a key from the socket's allowance, `net.core.optmem_max`: raise that for more than 500 keys. With 10,000 peers a manager
/// takes 18 MiB, and a step with nothing to do makes five system calls for the listener and four for each connection
/// (`benches/results/emulated`).
///
/// ```no_run
/// use std::net::{SocketAddr, TcpStream};
///
/// use socket2::{Domain, Socket, Type};
/// use wireseal_linux::{KeyManager, PeerName};
/// use wireseal_keys::{KeyChain, Timestamp};
///
/// fn serve(chain: KeyChain, for_dynamic: KeyChain) -> Result<(), Box<dyn std::error::Error>> {
///     let manager = KeyManager::new(chain, "192.0.2.7".parse()?, None)?;
///     manager.set_peer(PeerName::new("198.51.100.0/24".parse()?), for_dynamic)?;
///     let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
///     let _attachment = manager.attach(&socket, Timestamp::now())?;
///     socket.bind(&"0.0.0.0:179".parse::<SocketAddr>()?.into())?;
///     socket.listen(16)?;
///     let (stream, _) = socket.accept()?;
///     let stream = TcpStream::from(stream);
///     let attachment_of_stream = manager.attach(&stream, Timestamp::now())?;
///     loop {
///         let report = manager.step(Timestamp::now());
///         let of_stream = report.sockets.iter().find(|socket| socket.attachment == attachment_of_stream.number());
///         if of_stream.is_some_and(|socket| socket.expired) {
///             return Ok(());
///         }
///         // Speak BGP on the stream until `report.next_step`, or for 30 seconds.
///     }
/// }
/// ```
#[derive(Clone, Default)]
pub struct KeyManager {
    pub(super) shared: Arc<Shared>,
}

impl KeyManager {
    /// A manager with one peer, or one network of peers that share a chain, in this VRF (as in
    /// [`SocketKey::vrf`](crate::SocketKey::vrf)). For a manager without peers use [`default`](Self::default).
    ///
    /// # Errors
    /// [`ManagerError::AlgorithmNotInLinux`].
    pub fn new(chain: KeyChain, remote: IpCidr, vrf: Option<u32>) -> Result<Self, ManagerError> {
        let manager = Self::default();
        manager.set_peer(PeerName { remote, vrf }, chain)?;
        Ok(manager)
    }

    /// Adds a peer, or replaces its chain. Keys with the same ids and another secret are replaced.
    ///
    /// It takes effect in the next step, which is [due](Self::step_due) at once. A step in progress does not undo it.
    ///
    /// # Errors
    /// [`ManagerError::AlgorithmNotInLinux`] and [`ManagerError::IdInUse`]; the peer is unchanged then.
    pub fn set_peer(&self, peer: PeerName, chain: KeyChain) -> Result<(), ManagerError> {
        check_algorithms(&chain)?;
        let peer = peer.canonical();
        let mut state = self.shared.state();
        check_ids(&state.peers, peer, &chain)?;
        state.change(|peers, version| peers.insert(peer, Configured { chain: Arc::new(chain), version }));
        self.shared.wake();
        Ok(())
    }

    /// Makes these the peers: adds, changes and removes, all at once.
    ///
    /// It takes effect as [`set_peer`](Self::set_peer) and [`remove_peer`](Self::remove_peer) do.
    ///
    /// # Errors
    /// [`ManagerError::AlgorithmNotInLinux`], [`ManagerError::IdInUse`] and [`ManagerError::PeerTwice`]; all peers are unchanged then.
    pub fn set_peers(
        &self,
        peers: impl IntoIterator<Item = (PeerName, KeyChain)>,
    ) -> Result<(), ManagerError> {
        let mut wanted = PeerTable::new();
        for (peer, chain) in peers {
            check_algorithms(&chain)?;
            let peer = peer.canonical();
            check_ids(&wanted, peer, &chain)?;
            if wanted.contains_key(&peer) {
                return Err(ManagerError::PeerTwice(peer));
            }
            wanted.insert(peer, Configured { chain: Arc::new(chain), version: 0 });
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
    /// It takes effect in the next step, which is [due](Self::step_due) at once: that deletes the peer's keys from sockets that
    /// listen. The peer's connections keep theirs; shut them down.
    pub fn remove_peer(&self, peer: PeerName) -> bool {
        let mut state = self.shared.state();
        let removed = state.change(|peers, _| peers.remove(&peer.canonical()));
        self.shared.wake();
        removed.is_some()
    }

    /// Puts the keys valid at `now` on a socket that listens, will listen or is connected, and keeps them current until the
    /// attachment is dropped. A connection gets those of its peer, another socket those of all peers of its address family.
    ///
    /// If networks of peers overlap, an accepted connection may have been signed with another peer's key until now, and what was
    /// sent that way can be read: compare its [rnext key](crate::Info::rnext_key) before, as
    /// [`TcpAoListener`](crate::TcpAoListener) does.
    ///
    /// A listener can be attached even if no key is valid for sending; then nothing gets through. Deleting a key may wait in
    /// the kernel for some milliseconds; a [`step`](Self::step) on other sockets is not waited for.
    ///
    /// # Errors
    /// With the socket unchanged, [`ManagerError::AlreadyAttached`] and, for a connection, [`ManagerError::NoPeer`],
    /// [`ManagerError::Unsigned`], [`ManagerError::Ended`] and [`ManagerError::NoKeyToSendWith`]. If a call on the socket fails, in
    /// particular one that adds a key, [`ManagerError::Socket`]; earlier changes stay.
    pub fn attach<S: AsFd + ?Sized>(&self, socket: &S, now: Timestamp) -> Result<Attachment, ManagerError> {
        self.attach_as(socket, Role::Any, now)
    }

    /// Puts the keys valid at `now` for connections with `remote` on a socket that will connect to it, and keeps them current
    /// until the attachment is dropped. Before that, bind the socket to the peer's VRF, if it is in one, or to the interface of a
    /// link-local address in it.
    ///
    /// # Errors
    /// As [`attach`](Self::attach) for a connection.
    pub fn attach_connecting<S: AsFd + ?Sized>(
        &self,
        socket: &S,
        remote: IpAddr,
        now: Timestamp,
    ) -> Result<Attachment, ManagerError> {
        self.attach_as(socket, Role::WillConnect(remote), now)
    }

    /// Attaches a connection that was accepted from `remote`, unless its handshake was signed with a key of another peer, whose network
    /// contains `remote`. Reset the connection on any error: what such a caller sent is in the receive queue, and would be read as the
    /// peer's. That is so, too, if the caller has reset it already ([`ManagerError::Ended`]).
    ///
    /// # Errors
    /// As [`attach`](Self::attach) for a connection, and [`ManagerError::KeyOfAnotherPeer`]; the socket is unchanged then.
    pub fn attach_accepted<S: AsFd + ?Sized>(
        &self,
        socket: &S,
        remote: IpAddr,
        now: Timestamp,
    ) -> Result<Attachment, ManagerError> {
        self.attach_as(socket, Role::Accepted(remote), now)
    }

    /// The peers, by address, networks before their subnets.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerName> {
        self.shared.state().peers.keys().copied().collect()
    }

    /// What the last step found of one peer; `None` if the manager does not have it.
    #[must_use]
    pub fn peer_state(&self, peer: PeerName) -> Option<PeerState> {
        let peer = peer.canonical();
        let state = self.shared.state();
        let configured = state.peers.get(&peer)?;
        let of_peer = |entry: &&Entry| entry.peer == Some(peer);
        let connections = state.sockets.iter().filter(of_peer);
        let connections = connections.map(|entry| SocketState { peer: Some(peer), ..entry.state }).collect();
        let chain = configured.chain.name().to_owned();
        let listeners: Vec<_> = state.sockets.iter().filter(|entry| entry.peer.is_none()).collect();
        let listeners: Vec<_> = listeners.into_iter().map(|entry| Arc::clone(&entry.socket)).collect();
        drop(state);
        let refused = listeners.iter().map(|socket| lock(socket).seen.bad(peer)).sum();
        Some(PeerState { chain, connections, refused })
    }

    fn attach_as<S: AsFd + ?Sized>(
        &self,
        socket: &S,
        role: Role,
        now: Timestamp,
    ) -> Result<Attachment, ManagerError> {
        let attached = Attached::new(socket).map_err(Error::from)?;
        let identity = attached.identity;
        let attached = Arc::new(Mutex::new(attached));
        let mut socket = lock(&attached);
        let mut state = self.shared.state();
        if state.sockets.iter().any(|other| other.identity == identity) {
            return Err(ManagerError::AlreadyAttached);
        }
        let (number, version) = (state.next_number, state.version);
        state.next_number += 1;
        let listed = Entry {
            number,
            identity,
            socket: Arc::clone(&attached),
            peer: None,
            version,
            next: None,
            state: SocketState::default(),
        };
        state.sockets.push(listed);
        // It is listed before it has its keys, so that a peer set in between reaches it too.
        let peers = Arc::clone(&state.peers);
        drop(state);
        let attachment = Attachment { shared: Arc::clone(&self.shared), number };
        let (peer, next) = prepare(&mut socket, &peers, role, now)?;
        let mut state = self.shared.state();
        if let Some(index) = state.position(number) {
            (state.sockets[index].peer, state.sockets[index].next) = (peer, next);
        }
        drop(state);
        Ok(attachment)
    }
}

/// What a manager's last step found of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerState {
    /// The name of its key chain.
    pub chain: String,
    /// Its connections, and sockets that are connecting to it, in the order of attaching.
    pub connections: Vec<SocketState>,
    /// Segments with a wrong MAC that named one of its present keys and that no connection took, on all listeners: with another
    /// secret at the peer, its SYNs.
    pub refused: u64,
}

/// What a socket is attached as.
#[derive(Clone, Copy)]
enum Role {
    /// What it is: it listens or will, or is connected.
    Any,
    /// It will connect to this address.
    WillConnect(IpAddr),
    /// It was accepted from this address.
    Accepted(IpAddr),
}

/// Puts the keys valid at `now` on a socket for the first time; returns its peer and the time of its next step.
fn prepare(
    attached: &mut Attached,
    peers: &PeerTable<Configured>,
    role: Role,
    now: Timestamp,
) -> Result<(Option<PeerName>, Option<Timestamp>), ManagerError> {
    // A socket that a manager sees for the first time was not connected before.
    let kind = attached.kind().map_err(Error::from)?.unwrap_or(SocketKind::Closed);
    let families = attached.families()?;
    let address = match (kind, role) {
        (SocketKind::Connection, _) => Some(attached.peer().ok_or(ManagerError::Ended)?),
        (_, Role::Accepted(_)) => return Err(ManagerError::Ended),
        (SocketKind::Listener, _) => None,
        (SocketKind::Closed, Role::WillConnect(remote)) => Some(remote.to_canonical()),
        // What an unsigned connection has received can be read after its end.
        (SocketKind::Closed, Role::Any) if attached.socket().has_received()? => {
            return Err(ManagerError::Ended);
        }
        (SocketKind::Closed, Role::Any) => None,
    };
    let mut peer = None;
    if let Some(address) = address {
        let (found, chain) = find(attached, peers, address)?;
        if kind == SocketKind::Connection {
            check_signed(attached, role, found)?;
        }
        if chain.at(now).preferred().is_none() {
            let (chain, next_change) = (chain.name().to_owned(), chain.next_change(now));
            return Err(ManagerError::NoKeyToSendWith { peer: found, chain, next_change });
        }
        peer = Some(found);
    }
    let scope = Scope { peers, only: peer, families, now, kind };
    match kind {
        SocketKind::Connection => {}
        SocketKind::Closed if peer.is_some() => attached.socket().set_required(true)?,
        SocketKind::Closed | SocketKind::Listener => match attached.socket().set_required(true) {
            Err(Error::Md5KeyInTheWay) => {}
            required => required?,
        },
    }
    let outcome = attached.apply(&scope);
    let is_peer_behind = peer.is_some_and(|peer| attached.is_peer_behind(peer));
    let again = Pace::after_socket(&outcome, is_peer_behind, now);
    // The next step deletes a key that the peer is asking for right now.
    let serious = outcome.failed.into_iter().find(|(_, error)| !matches!(error, Error::KeyInUse(_)));
    match serious {
        Some((action, error)) => Err(ManagerError::Socket { key: action.map(|action| action.key()), error }),
        None => Ok((peer, [again, next_change(peers, peer, now)].into_iter().flatten().min())),
    }
}

/// Finds the peer of a connection, or of a socket that will connect.
fn find(
    attached: &Attached,
    peers: &PeerTable<Configured>,
    address: IpAddr,
) -> Result<(PeerName, Arc<KeyChain>), ManagerError> {
    let found = longest(peers, address, || attached.vrf()).map_err(Error::from)?;
    let found = found.and_then(|peer| Some((peer, Arc::clone(&peers.get(&peer)?.chain))));
    found.ok_or(ManagerError::NoPeer(address))
}

/// Refuses a connection without TCP-AO, and an accepted one whose handshake was signed with a key of another peer.
fn check_signed(attached: &Attached, role: Role, peer: PeerName) -> Result<(), ManagerError> {
    if attached.socket().info()?.is_none() {
        return Err(ManagerError::Unsigned);
    }
    let Role::Accepted(remote) = role else { return Ok(()) };
    // The rnext key was the one that the SYN was signed with, and only this end changes it.
    let keys = attached.socket().keys()?;
    match keys.iter().find(|key| key.is_rnext).map(|key| key.name) {
        Some(key) if key.peer() == peer => Ok(()),
        Some(key) => Err(ManagerError::KeyOfAnotherPeer { address: remote.to_canonical(), key }),
        None => Err(ManagerError::Unsigned),
    }
}

impl fmt::Debug for KeyManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyManager").field("peers", &self.peers()).finish_non_exhaustive()
    }
}

/// Refuses a chain with an algorithm that no Linux has.
fn check_algorithms(chain: &KeyChain) -> Result<(), ManagerError> {
    let parameters = chain.keys().iter().map(|key| (key.key_id(), key.mkt().parameters().algorithm));
    match parameters.into_iter().find(|(_, algorithm)| algorithm.linux_name().is_none()) {
        Some((key_id, algorithm)) => Err(ManagerError::AlgorithmNotInLinux { key_id, algorithm }),
        None => Ok(()),
    }
}
