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

use attached::Attached;
use carry_out::Outcome;
use pace::Pace;
use situation::SocketKind;

/// Carries a key chain's lifetimes out on sockets. A clone is another handle on the same manager.
///
/// One manager is for one peer, or for one network of peers with a chain in common. It touches only keys for exactly
/// its `remote` and `vrf`, so managers for different peers may have the same listener attached. A connection belongs to
/// one manager.
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
/// at no moment without a key for the peers. When no key may be sent with, a listener and an unconnected socket get a placeholder: a key with ids that are
/// free and a random secret that nobody knows. On the way from one secret to another under the same ids a socket has
/// one for a moment. A connection keeps what it has, and the report says that it should be shut down.
///
/// A listener that also serves peers without TCP-AO may be told so after attaching, with
/// [`set_required(false)`](crate::TcpAoSocket::set_required): `remote` stays protected by the keys for it. Where
/// TCP-MD5 keys for other peers are on a listener it cannot require TCP-AO, and does not.
///
/// ```no_run
/// use std::net::{TcpListener, TcpStream};
/// use std::time::{SystemTime, UNIX_EPOCH};
///
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
///     let listener = Managed::new(TcpListener::bind("0.0.0.0:179")?, &manager, now())?;
///     let (stream, _) = listener.accept()?;
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
}

struct State {
    chain: KeyChain,
    sockets: Vec<Attached>,
    next_number: u64,
    pace: Pace,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The keys are on the sockets; what is here is right at every moment at which the lock may be let go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyManager {
    /// A manager of the connections with these peers, in this VRF (as in [`SocketKey::vrf`](crate::SocketKey::vrf)).
    ///
    /// # Errors
    /// [`ManagerError::AlgorithmNotInLinux`], naming the key.
    pub fn new(chain: KeyChain, remote: IpCidr, vrf: Option<u32>) -> Result<Self, ManagerError> {
        check_algorithms(&chain)?;
        let state = State { chain, sockets: Vec::new(), next_number: 0, pace: Pace::default() };
        let shared = Shared { remote: canonical(remote), vrf, state: Mutex::new(state) };
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
    /// Like [`step`](Self::step) it may wait in the kernel for some milliseconds.
    pub fn attach<S: AsFd + ?Sized>(&self, socket: &S, now: Timestamp) -> Result<Attachment, ManagerError> {
        let mut guard = self.shared.state();
        let state = &mut *guard;
        let mut attached = Attached::new(socket, state.next_number).map_err(Error::from)?;
        if state.sockets.iter().any(|other| other.identity == attached.identity) {
            return Err(ManagerError::AlreadyAttached);
        }
        let kind = attached.kind().map_err(Error::from)?.unwrap_or(SocketKind::Closed);
        self.check(&attached, kind, &state.chain, now)?;
        match kind {
            SocketKind::Connection => {}
            SocketKind::Closed => attached.socket().set_required(true)?,
            SocketKind::Listener => match attached.socket().set_required(true) {
                Err(Error::Md5KeyInTheWay) => {}
                required => required?,
            },
        }
        let outcome = attached.carry_out(&state.chain, self.peers(), now, kind);
        let again = Pace::after_socket(&outcome, attached.is_peer_behind(), now);
        // A key that the peer is asking for just now is deleted in the next step.
        let serious = outcome.failed.into_iter().find(|(_, error)| !matches!(error, Error::KeyInUse(_)));
        if let Some((action, error)) = serious {
            return Err(ManagerError::Socket { key: action.map(|action| action.key()), error });
        }
        let change = state.chain.next_change(now);
        state.pace.no_later_than([again, change].into_iter().flatten().min());
        let number = attached.number;
        state.next_number += 1;
        state.sockets.push(attached);
        Ok(Attachment::new(Arc::clone(&self.shared), number))
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
    /// another secret are replaced.
    ///
    /// # Errors
    /// [`ManagerError::AlgorithmNotInLinux`]; the chain is then as before.
    pub fn set_chain(&self, chain: KeyChain, now: Timestamp) -> Result<StepReport, ManagerError> {
        check_algorithms(&chain)?;
        let mut state = self.shared.state();
        state.chain = chain;
        Ok(state.step(self.peers(), now))
    }

    /// Brings the keys of all attached sockets in line with the chain at this moment. `now` may also be earlier than in
    /// the step before.
    ///
    /// Deleting a key from a connection waits in the kernel, for some milliseconds each.
    #[must_use = "it says which connections to shut down and when to step next"]
    pub fn step(&self, now: Timestamp) -> StepReport {
        self.shared.state().step(self.peers(), now)
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

impl State {
    fn step(&mut self, peers: (IpCidr, Option<u32>), now: Timestamp) -> StepReport {
        let mut next_step = self.chain.next_change(now);
        let mut sockets = Vec::with_capacity(self.sockets.len());
        for attached in &mut self.sockets {
            let attachment = attached.number;
            let (kind, outcome) = match attached.kind() {
                Ok(Some(kind)) => (Some(kind), attached.carry_out(&self.chain, peers, now, kind)),
                Ok(None) => (None, Outcome::default()),
                Err(error) => (None, Outcome { failed: vec![(None, error.into())], ..Outcome::default() }),
            };
            let is_peer_behind =
                kind == Some(SocketKind::Connection) && !outcome.expired && attached.is_peer_behind();
            let again = Pace::after_socket(&outcome, is_peer_behind, now);
            next_step = [next_step, again].into_iter().flatten().min();
            let Outcome { done, failed, overdue, .. } = outcome;
            sockets.push(SocketReport { attachment, kind, done, failed, is_peer_behind, overdue });
        }
        self.pace.stepped(now, next_step);
        StepReport { sockets, expired: self.chain.at(now).preferred().is_none(), next_step }
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
