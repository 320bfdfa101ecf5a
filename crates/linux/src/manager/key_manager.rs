//! The key manager.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use cidr::IpCidr;
use wireseal_tcp_ao::key_chain::{KeyChain, Timestamp};

use crate::Error;
use crate::manager::action::SocketKind;
use crate::manager::apply::Outcome;
use crate::manager::attached::Attached;
use crate::manager::attachment::{Attachment, Entry, Shared, State, lock};
use crate::manager::error::ManagerError;
use crate::manager::pace::Pace;
use crate::manager::report::{SocketReport, StepReport};
use crate::network::canonical;

/// Installs and removes the keys of a key chain on sockets, on schedule. A clone is another handle on the same manager.
///
/// One manager is for one peer, or for one network of peers that share a chain. It touches only keys for exactly its `remote`
/// and `vrf`, so a listener may be attached to managers for different peers. Their networks should not overlap: a connection
/// would start with the keys of both managers and keep those of the one it is not attached to. Never attach a socket to two
/// managers with the same `remote` and `vrf`: each would take the other's keys for old ones. Attach a connection to one manager.
///
/// | a socket that | attach it | it gets |
/// |---|---|---|
/// | listens, or will | before `listen`, if possible | all keys that are accepted now |
/// | will connect | before `connect` | the same, with the preferred one as current and rnext key |
/// | was accepted | at once | what the configuration says now, in place of the keys from its handshake |
///
/// Then call [`step`](Self::step) at the time that the last report gave, and every now and then in case a clock was set; with
/// feature `tokio`, [`run_reporting`](Self::run_reporting) does this.
///
/// # What happens to a key
/// - It is put on the socket at the start of its accept lifetime, widened by the chain's tolerance.
/// - While it is [preferred](wireseal_tcp_ao::key_chain::ActiveKeys::preferred), RNextKeyID asks the peer for it.
/// - This end signs with what the peer asks for; the kernel takes care of that. After the current key's send lifetime this end
///   switches to the preferred key unasked: once the peer has signed with it, or at the latest after half of the time for which
///   the current key is still accepted.
/// - It is deleted after its accept lifetime, even if the peer still asks for it; [`SocketReport::taken_away`] then lists it.
/// - If it leaves the chain it is deleted at once; if its secret changes it is replaced at once.
///
/// # Nothing unsigned gets through
/// Attaching a listener or unconnected socket makes it [require](crate::TcpAoSocket::set_required) TCP-AO, and it is never
/// without a key for the peers. While no key is valid for sending, it has a placeholder: a key with free ids and a random
/// secret. Any socket has one briefly while a secret is replaced under the same ids. A connection keeps what it has, and the
/// report says to shut it down.
///
/// If a listener also serves peers without TCP-AO, call [`set_required(false)`](crate::TcpAoSocket::set_required) after
/// attaching; its keys still protect `remote`. A listener with TCP-MD5 keys for other peers cannot require TCP-AO, and does not.
///
/// `attach` refuses a connection that was accepted before its listener was attached, with [`ManagerError::Unsigned`]: close it
/// and accept the next.
///
/// ```no_run
/// use std::net::{SocketAddr, TcpStream};
/// use std::time::{SystemTime, UNIX_EPOCH};
///
/// use socket2::{Domain, Socket, Type};
/// use wireseal_linux::KeyManager;
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
///     let _attachment = manager.attach(&socket, now())?;
///     socket.bind(&"0.0.0.0:179".parse::<SocketAddr>()?.into())?;
///     socket.listen(16)?;
///     let (stream, _) = socket.accept()?;
///     let stream = TcpStream::from(stream);
///     let _attachment_of_stream = manager.attach(&stream, now())?;
///     loop {
///         let report = manager.step(now());
///         if report.expired {
///             return Ok(());
///         }
///         // Speak BGP on the stream until `report.next_step`, or for 30 seconds.
///     }
/// }
/// ```
#[derive(Clone)]
pub struct KeyManager {
    pub(super) shared: Arc<Shared>,
}

impl KeyManager {
    /// A manager for connections with these peers, in this VRF (as in [`SocketKey::vrf`](crate::SocketKey::vrf)).
    ///
    /// # Errors
    /// [`ManagerError::AlgorithmNotInLinux`].
    pub fn new(chain: KeyChain, remote: IpCidr, vrf: Option<u32>) -> Result<Self, ManagerError> {
        check_algorithms(&chain)?;
        let chain = Arc::new(chain);
        let state = State { chain, sockets: Vec::new(), next_number: 0, pace: Pace::default() };
        let (state, turn) = (Mutex::new(state), Mutex::new(()));
        let shared = Shared { remote: canonical(remote), vrf, state, turn };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Puts the keys valid at `now` on the socket and keeps them current until the attachment is dropped.
    ///
    /// A listener can be attached even if no key is valid for sending; then nothing gets through. Deleting a key may wait in
    /// the kernel for some milliseconds; a [`step`](Self::step) on other sockets is not waited for.
    ///
    /// # Errors
    /// With the socket unchanged, [`ManagerError::AlreadyAttached`], [`ManagerError::AnotherPeer`],
    /// [`ManagerError::Unsigned`] and, except for a listener, [`ManagerError::NoKeyToSendWith`]. If a call on the socket
    /// fails, in particular one that adds a key, [`ManagerError::Socket`]; earlier changes stay.
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
        // It is listed before it has its keys, so that a chain set in between reaches it too.
        let chain = Arc::clone(&state.chain);
        drop(state);
        let attachment = Attachment { shared: Arc::clone(&self.shared), number };
        let again = self.prepare(&mut socket, &chain, now)?;
        let next = [again, chain.next_change(now)].into_iter().flatten().min();
        self.shared.state().pace.no_later_than(next);
        Ok(attachment)
    }

    /// Puts the keys valid at `now` on a socket for the first time, and returns the time of its next step.
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
        let outcome = attached.apply(chain, self.peers(), now, kind);
        let again = Pace::after_socket(&outcome, attached.is_peer_behind(), now);
        // The next step deletes a key that the peer is asking for right now.
        let serious = outcome.failed.into_iter().find(|(_, error)| !matches!(error, Error::KeyInUse(_)));
        match serious {
            Some((action, error)) => {
                Err(ManagerError::Socket { key: action.map(|action| action.key()), error })
            }
            None => Ok(again),
        }
    }

    /// Refuses sockets that cannot be attached.
    fn check(
        &self,
        attached: &Attached,
        kind: SocketKind,
        chain: &KeyChain,
        now: Timestamp,
    ) -> Result<(), ManagerError> {
        if kind == SocketKind::Connection {
            let expected = self.shared.remote;
            if let Some(got) = attached.peer().filter(|peer| !expected.contains(peer)) {
                return Err(ManagerError::AnotherPeer { expected, got });
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

    /// Replaces the chain and takes a [`step`](Self::step) at once, after waiting for a step in progress. Keys with the same ids
    /// and another secret are replaced.
    ///
    /// # Errors
    /// [`ManagerError::AlgorithmNotInLinux`]; the chain is unchanged then.
    pub fn set_chain(&self, chain: KeyChain, now: Timestamp) -> Result<StepReport, ManagerError> {
        check_algorithms(&chain)?;
        self.shared.state().chain = Arc::new(chain);
        Ok(self.step(now))
    }

    /// Brings the keys of all attached sockets in line with the chain at `now`, which may be earlier than in the last step.
    ///
    /// Deleting a key from a connection waits in the kernel for some milliseconds; other sockets can be attached and detached
    /// meanwhile.
    #[must_use = "the report says which connections to shut down and when to step next"]
    pub fn step(&self, now: Timestamp) -> StepReport {
        let _turn = lock(&self.shared.turn);
        let mut state = self.shared.state();
        state.pace.stepped(now, None);
        let listed: Vec<_> =
            state.sockets.iter().map(|entry| (entry.number, Arc::downgrade(&entry.socket))).collect();
        drop(state);
        let mut again = None;
        let sockets = listed.into_iter().filter_map(|(number, socket)| {
            // A socket that is detached during the step can be closed before the step ends.
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

    /// Steps one socket and returns the time of its next step; `None` if it has been detached.
    fn step_socket(
        &self,
        attachment: u64,
        attached: &mut Attached,
        now: Timestamp,
    ) -> Option<(SocketReport, Option<Timestamp>)> {
        // The chain as it is once the socket is locked, so that a chain set during the step is not undone.
        let state = self.shared.state();
        state.position(attachment)?;
        let chain = Arc::clone(&state.chain);
        drop(state);
        let (kind, outcome) = match attached.kind() {
            Ok(Some(kind)) => (Some(kind), attached.apply(&chain, self.peers(), now, kind)),
            Ok(None) => (None, Outcome::default()),
            Err(error) => (None, Outcome { failed: vec![(None, error.into())], ..Outcome::default() }),
        };
        let is_peer_behind =
            kind == Some(SocketKind::Connection) && !outcome.expired && attached.is_peer_behind();
        let again = Pace::after_socket(&outcome, is_peer_behind, now);
        let Outcome { done, failed, overdue, .. } = outcome;
        Some((SocketReport { attachment, kind, done, failed, is_peer_behind, overdue }, again))
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

/// Refuses a chain with an algorithm that no Linux has.
fn check_algorithms(chain: &KeyChain) -> Result<(), ManagerError> {
    let parameters = chain.keys().iter().map(|key| (key.key_id(), key.mkt().parameters().algorithm));
    match parameters.into_iter().find(|(_, algorithm)| algorithm.linux_name().is_none()) {
        Some((key_id, algorithm)) => Err(ManagerError::AlgorithmNotInLinux { key_id, algorithm }),
        None => Ok(()),
    }
}
