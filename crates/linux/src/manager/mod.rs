//! Carrying key chains out on sockets.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cidr::IpCidr;
use wireseal_tcp_ao::key_chain::{KeyChain, Timestamp};

use crate::Error;
use crate::address::canonical;

mod attached;
mod attachment;
mod carry_out;
mod managed;
mod pace;
pub mod plan;
mod report;
mod situation;
#[cfg(feature = "tokio")]
mod task;

pub use attachment::Attachment;
pub use managed::Managed;
pub use report::{ManagerError, SocketReport, StepReport};

use attached::{Attached, Identity};
use carry_out::Outcome;
use pace::Pace;
use situation::SocketKind;

/// Carries a key chain's lifetimes out on sockets. A clone is another handle on the same manager.
///
/// One manager is for one peer, or for one network of peers with a chain in common. It touches only keys for exactly
/// its `remote` and `vrf`, so managers for different peers may have the same listener attached. Their networks should not
/// overlap: a connection starts with the keys of both, and keeps those of the one that it is not attached to. There must
/// not be two for the same `remote` and `vrf` on a socket: each would take the other's keys for old ones. A connection
/// belongs to one manager.
///
/// | a socket that | attach it | and it gets |
/// |---|---|---|
/// | listens, or will | before `listen`, if possible | all keys that are accepted now |
/// | will connect | before `connect` | the same, the preferred one as current and rnext key |
/// | was accepted | as soon as it was | what the configuration says now, in place of what it had when the handshake ended |
///
/// Then call [`step`](Self::step) at the moment that the last report named, and now and then in case that a clock was
/// set; with feature `tokio`, [`run`](Self::run) does.
///
/// # What happens to a key
/// - From the start of its accept lifetime, widened by the chain's tolerance, it is on the socket.
/// - While it is [preferred](wireseal_tcp_ao::key_chain::ActiveKeys::preferred), the peer is asked for it with RNextKeyID.
/// - This end signs with what the peer asks for; the kernel sees to that. After the current key's send lifetime this
///   end goes over to the preferred key by itself: once the peer has signed with that, and without that after half of the
///   time for which the current key is still accepted.
/// - After its accept lifetime it is deleted, also when the peer still asks for it:
///   [`SocketReport::taken_away`] then names it.
/// - A key that has left the chain, or has another secret, is deleted or replaced at once.
///
/// # Nothing unsigned gets through
/// A listener or unconnected socket is made to [require](crate::TcpAoSocket::set_required) TCP-AO when it is attached, and is
/// at no moment without a key for the peers. When no key may be sent with, a listener and an unconnected socket get a
/// placeholder: a key with ids that are free and a random secret that nobody knows. On the way from one secret to another
/// under the same ids a socket has one for a moment. A connection keeps what it has, and the report says that it should be
/// shut down.
///
/// A listener that also serves peers without TCP-AO may be told so after attaching, with
/// [`set_required(false)`](crate::TcpAoSocket::set_required): `remote` stays protected by the keys for it. Where
/// TCP-MD5 keys for other peers are on a listener it cannot require TCP-AO, and does not.
///
/// Whoever connected to a listener before it was attached is refused by `attach` with [`ManagerError::Unsigned`]: close that
/// connection and accept the next.
///
/// ```no_run
/// use std::net::{SocketAddr, TcpStream};
/// use std::time::{SystemTime, UNIX_EPOCH};
///
/// use socket2::{Domain, Socket, Type};
/// use wireseal_linux::{KeyManager, Managed};
/// use wireseal_tcp_ao::key_chain::{KeyChain, Timestamp};
///
/// fn now() -> Timestamp {
///     let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
///     Timestamp::from_unix_seconds(since_1970.as_secs() as i64)
/// }
///
/// fn serve(chain: KeyChain) -> Result<(), Box<dyn std::error::Error>> {
///     let manager = KeyManager::new(chain, "192.0.2.7".parse()?, None)?;
///     let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
///     socket.bind(&"0.0.0.0:179".parse::<SocketAddr>()?.into())?;
///     let socket = Managed::new(socket, &manager, now())?;
///     socket.listen(16)?;
///     let (stream, _) = socket.accept()?;
///     let stream = TcpStream::from(stream);
///     let stream: Managed<TcpStream> = Managed::new(stream, &manager, now())?;
///     loop {
///         let report = manager.step(now());
///         if report.expired {
///             return Ok(());
///         }
///         // Speak BGP on the stream until it is `report.next_step`, or 30 seconds later.
/// #       let _ = &stream;
///     }
/// }
/// ```
#[derive(Clone)]
pub struct KeyManager {
    shared: Arc<Shared>,
}

/// What all handles and attachments have in common.
struct Shared {
    remote: IpCidr,
    vrf: Option<u32>,
    state: Mutex<State>,
    /// Held for a whole step, so that none overtakes another and puts back what was right at an earlier time. It is locked
    /// before any socket.
    turn: Mutex<()>,
}

/// Locked for moments only, never while the kernel is asked for anything that may wait.
struct State {
    chain: Arc<KeyChain>,
    /// In the order of their numbers.
    sockets: Vec<Entry>,
    next_number: u64,
    pace: Pace,
}

/// A socket in the manager's list. Whoever locks the socket may lock the state after that, but not the other way round.
struct Entry {
    number: u64,
    identity: Identity,
    socket: Arc<Mutex<Attached>>,
}

impl State {
    fn position(&self, number: u64) -> Option<usize> {
        self.sockets.binary_search_by_key(&number, |entry| entry.number).ok()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes a socket off the list and closes the manager's descriptor of it.
    fn detach(&self, number: u64) {
        let mut state = self.state();
        let entry = state.position(number).map(|index| state.sockets.remove(index));
        // Closing a socket can take its time, for which nobody should wait at the lock.
        drop(state);
        drop(entry);
    }
}

/// Locks, also after a panic: the keys are on the sockets, and what is here is right whenever a lock may be let go.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeyManager {
    /// A manager of the connections with these peers, in this VRF (as in [`SocketKey::vrf`](crate::SocketKey::vrf)).
    ///
    /// # Errors
    /// [`ManagerError::AlgorithmNotInLinux`], naming the key.
    pub fn new(chain: KeyChain, remote: IpCidr, vrf: Option<u32>) -> Result<Self, ManagerError> {
        check_algorithms(&chain)?;
        let chain = Arc::new(chain);
        let state = State { chain, sockets: Vec::new(), next_number: 0, pace: Pace::default() };
        let (state, turn) = (Mutex::new(state), Mutex::new(()));
        let shared = Shared { remote: canonical(remote), vrf, state, turn };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Puts the keys of `now` on the socket and keeps them so until the attachment is dropped.
    ///
    /// A listener may be attached at any time, also when no key may be sent with: then nobody gets through.
    ///
    /// # Errors
    /// [`ManagerError::AlreadyAttached`], [`ManagerError::AnotherPeer`], [`ManagerError::Unsigned`] and, not for a
    /// listener, [`ManagerError::NoKeyToSendWith`]; the socket is untouched. [`ManagerError::Socket`] when a call on
    /// the socket failed, in particular one that adds a key: what was done before stays.
    ///
    /// It may wait in the kernel for some milliseconds where a key is to be deleted, but not for a [`step`](Self::step) with
    /// other sockets.
    pub fn attach<S: AsFd + ?Sized>(&self, socket: &S, now: Timestamp) -> Result<Attachment, ManagerError> {
        let attached = Attached::new(socket).map_err(Error::from)?;
        let identity = attached.identity;
        let attached = Arc::new(Mutex::new(attached));
        let mut socket = lock(&attached);
        let mut state = self.shared.state();
        if state.sockets.iter().any(|other| other.identity == identity) {
            return Err(ManagerError::AlreadyAttached);
        }
        let number = state.next_number;
        state.next_number += 1;
        state.sockets.push(Entry { number, identity, socket: Arc::clone(&attached) });
        // It is in the list before it has its keys, so that another chain that comes meanwhile gets to it as well.
        let chain = Arc::clone(&state.chain);
        drop(state);
        let attachment = Attachment::new(Arc::clone(&self.shared), number);
        let again = self.prepare(&mut socket, &chain, now)?;
        let next = [again, chain.next_change(now)].into_iter().flatten().min();
        self.shared.state().pace.no_later_than(next);
        Ok(attachment)
    }

    /// Puts the keys of `now` on a socket for the first time, and gives the time of its next step.
    fn prepare(
        &self,
        attached: &mut Attached,
        chain: &KeyChain,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, ManagerError> {
        let kind = attached.kind().map_err(Error::from)?.unwrap_or(SocketKind::Closed);
        self.check(attached, kind, chain, now)?;
        match kind {
            SocketKind::Connection => {}
            SocketKind::Closed => attached.socket().set_required(true)?,
            SocketKind::Listener => match attached.socket().set_required(true) {
                Err(Error::Md5KeyInTheWay) => {}
                required => required?,
            },
        }
        let outcome = attached.carry_out(chain, self.peers(), now, kind);
        let again = Pace::after_socket(&outcome, attached.is_peer_behind(), now);
        // A key that the peer is asking for just now is deleted in the next step.
        let serious = outcome.failed.into_iter().find(|(_, error)| !matches!(error, Error::KeyInUse(_)));
        match serious {
            Some((action, error)) => {
                Err(ManagerError::Socket { key: action.map(|action| action.key()), error })
            }
            None => Ok(again),
        }
    }

    /// What an attached socket must be.
    fn check(
        &self,
        attached: &Attached,
        kind: SocketKind,
        chain: &KeyChain,
        now: Timestamp,
    ) -> Result<(), ManagerError> {
        if kind == SocketKind::Connection {
            let remote = self.shared.remote;
            if let Some(peer) = attached.peer().filter(|peer| !remote.contains(peer)) {
                return Err(ManagerError::AnotherPeer { remote, peer });
            }
            if attached.socket().info()?.is_none() {
                return Err(ManagerError::Unsigned);
            }
        }
        if kind != SocketKind::Listener && chain.at(now).preferred().is_none() {
            let (chain, next_change) = (chain.name().to_owned(), chain.next_change(now));
            return Err(ManagerError::NoKeyToSendWith { chain, next_change });
        }
        Ok(())
    }

    /// Takes another chain in place of the one it has, and carries it out at once. Keys of the two with the same ids and
    /// another secret are replaced. It waits as [`step`](Self::step) does, and for a step that is under way.
    ///
    /// # Errors
    /// [`ManagerError::AlgorithmNotInLinux`]; the chain is then as before.
    pub fn set_chain(&self, chain: KeyChain, now: Timestamp) -> Result<StepReport, ManagerError> {
        check_algorithms(&chain)?;
        self.shared.state().chain = Arc::new(chain);
        Ok(self.step(now))
    }

    /// Brings the keys of all attached sockets in line with the chain at this moment. `now` may also be earlier than in
    /// the step before.
    ///
    /// Deleting a key from a connection waits in the kernel, for some milliseconds each; other sockets may be attached and
    /// detached meanwhile.
    #[must_use = "it says which connections to shut down and when to step next"]
    pub fn step(&self, now: Timestamp) -> StepReport {
        let _turn = lock(&self.shared.turn);
        let mut state = self.shared.state();
        state.pace.stepped(now, None);
        let listed: Vec<_> =
            state.sockets.iter().map(|entry| (entry.number, Arc::downgrade(&entry.socket))).collect();
        drop(state);
        let mut again = None;
        let sockets = listed.into_iter().filter_map(|(number, socket)| {
            // One that is detached meanwhile is closed by its owner without waiting for this step's end.
            let (report, next) = self.step_socket(number, &mut lock(&*socket.upgrade()?), now)?;
            again = [again, next].into_iter().flatten().min();
            Some(report)
        });
        let sockets = sockets.collect();
        let mut state = self.shared.state();
        let next_step = [again, state.chain.next_change(now)].into_iter().flatten().min();
        state.pace.no_later_than(next_step);
        StepReport { sockets, expired: state.chain.at(now).preferred().is_none(), next_step }
    }

    /// What a step does with one socket, and the time of its next step; nothing once it is off the list.
    fn step_socket(
        &self,
        attachment: u64,
        attached: &mut Attached,
        now: Timestamp,
    ) -> Option<(SocketReport, Option<Timestamp>)> {
        // The chain as it is once the socket is at hand: one that came during the step is not to be undone.
        let state = self.shared.state();
        state.position(attachment)?;
        let chain = Arc::clone(&state.chain);
        drop(state);
        let (kind, outcome) = match attached.kind() {
            Ok(Some(kind)) => (Some(kind), attached.carry_out(&chain, self.peers(), now, kind)),
            Ok(None) => (None, Outcome::default()),
            Err(error) => (None, Outcome { failed: vec![(None, error.into())], ..Outcome::default() }),
        };
        let is_peer_behind =
            kind == Some(SocketKind::Connection) && !outcome.expired && attached.is_peer_behind();
        let again = Pace::after_socket(&outcome, is_peer_behind, now);
        let Outcome { done, failed, overdue, .. } = outcome;
        Some((SocketReport { attachment, kind, done, failed, is_peer_behind, overdue }, again))
    }

    /// The peers that it is for. Not of IPv4-mapped addresses: those are IPv4.
    #[must_use]
    pub fn remote(&self) -> IpCidr {
        self.shared.remote
    }

    /// The VRF that it is for.
    #[must_use]
    pub fn vrf(&self) -> Option<u32> {
        self.shared.vrf
    }

    fn peers(&self) -> (IpCidr, Option<u32>) {
        (self.shared.remote, self.shared.vrf)
    }
}

impl fmt::Debug for KeyManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (remote, vrf) = self.peers();
        f.debug_struct("KeyManager").field("remote", &remote).field("vrf", &vrf).finish_non_exhaustive()
    }
}

/// Refuses a chain that no Linux can carry out.
fn check_algorithms(chain: &KeyChain) -> Result<(), ManagerError> {
    let parameters = chain.keys().iter().map(|key| (key.key_id(), key.mkt().parameters().algorithm));
    match parameters.into_iter().find(|(_, algorithm)| algorithm.linux_name().is_none()) {
        Some((key_id, algorithm)) => Err(ManagerError::AlgorithmNotInLinux { key_id, algorithm }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
