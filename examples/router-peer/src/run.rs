//! Runs a configuration until it is told to stop.

mod calls;
mod frames;
mod keep;
#[cfg(target_os = "linux")]
mod kernel;
mod quic;
mod tasks;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tracing::{Span, info, info_span, warn};
use wireseal_tcp_ao::PeerError;

use self::tasks::Tasks;
use crate::config::{Config, Neighbour, TransportKind};
use crate::transport::OpenError;

/// How long sessions may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why a checked configuration could not be started.
#[derive(Debug)]
pub enum RunError {
    /// The transport.
    Transport(OpenError),
    /// The TCP stack.
    Stack(io::Error),
    /// A socket of the system.
    Socket {
        /// The field of the configuration that is to blame.
        field: String,
        /// Its transport protocol.
        protocol: &'static str,
        /// Its address.
        address: SocketAddr,
        /// What the operating system said.
        error: io::Error,
    },
    /// The kernel does not take a key of a neighbour.
    #[cfg(target_os = "linux")]
    Key {
        /// The field of the configuration that asks for it.
        field: String,
        /// Why not.
        error: Box<wireseal_linux::ManagerError>,
    },
    /// Neighbours whose keys cannot be told apart.
    Peers(PeerError),
    /// This system has no such transport.
    Unsupported(TransportKind),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(error) => error.fmt(f),
            Self::Stack(error) => write!(f, "cannot start the TCP stack: {error}"),
            Self::Socket { field, protocol, address, error } => {
                write!(f, "{field}: cannot open {protocol} socket {address}: {error}")
            }
            #[cfg(target_os = "linux")]
            Self::Key { field, error } => write!(f, "{field}: {error}"),
            Self::Peers(error) => error.fmt(f),
            Self::Unsupported(kind) => write!(f, "this system has no {kind:?} transport"),
        }
    }
}

impl std::error::Error for RunError {}

impl RunError {
    /// Whether the message begins with a field of the configuration.
    #[must_use]
    pub fn names_field(&self) -> bool {
        match self {
            Self::Socket { .. } => true,
            #[cfg(target_os = "linux")]
            Self::Key { .. } => true,
            _ => false,
        }
    }

    /// A socket that cannot be opened for the peer at this place of the configuration.
    fn socket(protocol: &'static str, address: SocketAddr, index: usize, error: io::Error) -> Self {
        let field = match error.kind() {
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => format!("peer[{index}].port"),
            _ => "transport.addresses".to_owned(),
        };
        Self::Socket { field, protocol, address, error }
    }

    /// What a field of the peer at this place of the configuration asks of the kernel in vain.
    #[cfg(target_os = "linux")]
    fn key(index: usize, field: &str, error: Box<wireseal_linux::ManagerError>) -> Self {
        Self::Key { field: format!("peer[{index}].{field}"), error }
    }
}

/// What waits until the last octets have left, and then lets go of the transport.
type Settled = BoxFuture<'static, ()>;

/// Runs all neighbours of a configuration until `stop` resolves, then ends their sessions in order.
///
/// # Errors
/// [`RunError`] when the transport or the stack cannot be started; nothing is left running then.
///
/// # Panics
/// When called outside a tokio runtime.
pub async fn run(config: Config, seed: u64, stop: impl Future<Output = ()>) -> Result<(), RunError> {
    let mut tasks = Tasks::new();
    let settled = match (&config.tls, config.transport.kind) {
        (Some(tls), _) => quic::start(tls, &config.neighbours, &mut tasks)?,
        #[cfg(target_os = "linux")]
        (None, TransportKind::Kernel) => kernel::start(&config.neighbours, &mut tasks)?,
        #[cfg(not(target_os = "linux"))]
        (None, kind @ TransportKind::Kernel) => return Err(RunError::Unsupported(kind)),
        (None, _) => frames::start(&config, seed, &mut tasks)?,
    };
    stop.await;
    info!("stopping");
    if timeout(FAREWELL, tasks.stop()).await.is_err() {
        warn!("not all peers took leave in time");
    }
    let _ = timeout(FAREWELL, settled).await;
    Ok(())
}

/// What each line in the log of a neighbour begins with.
fn peer_span(neighbour: &Neighbour) -> Span {
    info_span!("peer", name = %neighbour.name)
}

fn warn_of_no_protection(neighbour: &Neighbour, span: &Span) {
    if neighbour.key_chain.is_none() {
        warn!(parent: span, "no key chain: this session is not protected");
    }
}
