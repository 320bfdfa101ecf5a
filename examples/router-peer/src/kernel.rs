//! TCP sockets of the system, which the kernel protects: with TCP-AO, or with the TCP-MD5 that is to be left behind.
//!
//! | to | call |
//! |---|---|
//! | open a connection | [`connect`] |
//! | be called | [`Listener::bind`], then [`Listener::accept`] |

mod listener;
mod stream;

use std::io;
use std::mem::replace;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use cidr::IpCidr;
use tokio::net::TcpSocket;
use tracing::warn;
use wireseal_linux::{Attachment, Error, KeyManager, ManagerError, TcpAoSocket};
use wireseal_tcp_ao::key_chain::KeyChain;
use wireseal_tcp_ao::{Counters, MasterKey};

pub use self::listener::{Call, ListenError, Listener};
pub use self::stream::KernelStream;
use crate::protection::now;

/// How often the counters of a socket are looked at.
const COUNTERS_CHECK: Duration = Duration::from_secs(5);

/// What protects the connections with one peer.
#[derive(Clone, Debug)]
pub enum Protection {
    /// TCP-AO, with the keys of a chain, which the manager puts on sockets.
    TcpAo(KeyManager, Arc<KeyChain>),
    /// TCP-MD5 (RFC 2385).
    TcpMd5(Arc<MasterKey>),
    /// Nothing.
    Nothing,
}

impl Protection {
    /// Has the keys on a socket looked after as long as what is returned stays, if they are those of a chain.
    fn attach<S: AsFd>(&self, socket: &S) -> Result<Option<Attachment>, ManagerError> {
        match self {
            Self::TcpAo(manager, _) => manager.attach(socket, now()).map(Some),
            Self::TcpMd5(_) | Self::Nothing => Ok(None),
        }
    }

    /// Puts the secret of TCP-MD5 for a peer, if there is one, on a socket that is not connected.
    fn set_md5_key<S: AsFd>(&self, socket: &S, peer: IpAddr) -> Result<(), Error> {
        match self {
            Self::TcpMd5(secret) => {
                TcpAoSocket::new(socket).set_md5_key(IpCidr::new_host(peer), None, secret)
            }
            Self::TcpAo(..) | Self::Nothing => Ok(()),
        }
    }
}

/// A socket with an own address; with port 0 it is one to connect from.
///
/// # Errors
/// Those of the operating system.
pub fn bind(local: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if local.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if local.port() != 0 {
        // Connections of an earlier run may still wait for their end.
        socket.set_reuseaddr(true)?;
    }
    socket.bind(local)?;
    Ok(socket)
}

/// Opens a connection. It may be cancelled at any time; a peer that never answers is given up when the kernel does.
///
/// # Errors
/// Those of the operating system, and when no key may be sent with at present.
pub async fn connect(local: IpAddr, remote: SocketAddr, protection: &Protection) -> io::Result<KernelStream> {
    let socket = bind(SocketAddr::from((local, 0)))?;
    protection.set_md5_key(&socket, remote.ip()).map_err(io::Error::other)?;
    let attachment = protection.attach(&socket).map_err(io::Error::other)?;
    Ok(KernelStream::new(socket.connect(remote).await?, attachment, protection))
}

/// What the kernel has refused on a socket, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Refusals {
    bad: u64,
    key_not_found: u64,
    required: u64,
}

impl Refusals {
    /// Looks at the counters of the socket and says in the log when they have grown, so that nobody has to guess why nothing
    /// gets through.
    fn warn_of_more<S: AsFd>(&mut self, socket: &S) {
        let Some(Counters { bad, key_not_found, required, .. }) = counters(socket) else { return };
        let before = replace(self, Self { bad, key_not_found, required });
        if *self != before {
            warn!(
                bad,
                key_not_found, required, "segments were refused that are signed wrongly or not at all"
            );
        }
    }
}

/// What the kernel has counted on a socket, if it has TCP-AO.
fn counters<S: AsFd>(socket: &S) -> Option<Counters> {
    TcpAoSocket::new(socket).info().ok().flatten().map(|info| info.counters)
}
