//! A socket that peers call.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpListener;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::warn;
use wireseal_linux::{Attachment, ManagerError, TcpAoSocket};

use super::{COUNTERS_CHECK, KernelStream, Protection, Refusals, bind};

/// Connections that may wait to be accepted on one socket.
const BACKLOG: u32 = 64;

/// A peer has called.
#[derive(Debug)]
pub struct Call {
    /// Which one: its place in the list that [`Listener::bind`] was given.
    pub peer: usize,
    /// Where it calls from.
    pub remote: SocketAddr,
    /// The connection.
    pub stream: KernelStream,
}

/// Why a socket cannot be listened on.
#[derive(Debug)]
pub enum ListenError {
    /// The operating system does not give the address.
    Socket(io::Error),
    /// The kernel does not take the keys of a peer.
    Peer {
        /// Its place in the list of peers.
        index: usize,
        /// Why not.
        error: Box<ManagerError>,
    },
}

impl From<io::Error> for ListenError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

/// Takes connections from configured peers.
#[derive(Debug)]
pub struct Listener {
    // First, because they hold the socket open too.
    _attachments: Vec<Attachment>,
    socket: TcpListener,
    peers: Vec<(IpAddr, Protection)>,
    look: Interval,
    refusals: Refusals,
}

impl Listener {
    /// Listens for `peers`, each of which calls from its address under its protection.
    ///
    /// # Errors
    /// [`ListenError`].
    ///
    /// # Panics
    /// When called outside a tokio runtime.
    pub fn bind(local: SocketAddr, peers: Vec<(IpAddr, Protection)>) -> Result<Self, ListenError> {
        let wrong = |index, error| ListenError::Peer { index, error: Box::new(error) };
        let socket = bind(local)?;
        for (index, (address, protection)) in peers.iter().enumerate() {
            protection.set_md5_key(&socket, *address).map_err(|error| wrong(index, error.into()))?;
        }
        let socket = socket.listen(BACKLOG)?;
        // A chain may have no key yet, which only a socket that listens can be kept shut with. Who calls unsigned before it is
        // turned away by `accepted`.
        let mut attachments = Vec::new();
        for (index, (_, protection)) in peers.iter().enumerate() {
            attachments.extend(protection.attach(&socket).map_err(|error| wrong(index, error))?);
        }
        if !attachments.is_empty() && attachments.len() < peers.len() {
            // The managers had it require TCP-AO of everybody; keys require it of the peers that they are for.
            TcpAoSocket::new(&socket).set_required(false).map_err(io::Error::other)?;
        }

        let mut look = interval(COUNTERS_CHECK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { _attachments: attachments, socket, peers, look, refusals: Refusals::default() })
    }

    /// Waits until a peer calls. Calls from other addresses are reset, as are those that are not signed but should be. It may
    /// be cancelled at any time.
    ///
    /// # Errors
    /// Those of the operating system, after which it can be called again.
    pub async fn accept(&mut self) -> io::Result<Call> {
        loop {
            let (stream, remote) = tokio::select! {
                accepted = self.socket.accept() => accepted?,
                _ = self.look.tick() => {
                    self.refusals.warn_of_more(&self.socket);
                    continue;
                }
            };
            let Some(peer) = self.peers.iter().position(|(address, _)| *address == remote.ip()) else {
                warn!(%remote, "not a configured peer");
                KernelStream::new(stream, None, &Protection::Nothing).reset();
                continue;
            };
            match KernelStream::accepted(stream, &self.peers[peer].1) {
                Ok(stream) => return Ok(Call { peer, remote, stream }),
                Err(error) => warn!(%remote, %error, "call refused"),
            }
        }
    }
}
