//! A listening socket with the keys of all peers.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{Domain, SockRef, Socket, Type};
use wireseal_keys::Timestamp;

#[cfg(feature = "tokio")]
use crate::net::accepting::Accepting;
use crate::{Attachment, Error, KeyManager, ManagerError, TcpAoStream};

/// Connections that may wait to be accepted, as in std.
const BACKLOG: i32 = 128;

/// A listening socket that has the keys of all peers of a [`KeyManager`], and accepts connections from them alone.
///
/// Its keys, and those of the connections that it accepts, are kept current: peers can be
/// [added](KeyManager::set_peer), changed and [removed](KeyManager::remove_peer) meanwhile. The socket `L` is std's, or with
/// feature `tokio` tokio's.
///
/// A thread keeps the keys current, and threads do not survive a fork: a daemon that goes into the background does so first. A
/// socket belongs to the network namespace of the thread that binds it.
///
/// ```no_run
/// use std::io::Write;
/// use std::{fs, thread};
///
/// use wireseal_linux::{KeyManager, PeerName, TcpAoListener};
/// use wireseal_keys::KeyChains;
///
/// let chains = KeyChains::from_toml(&fs::read_to_string("keys.toml")?)?;
/// let peers = KeyManager::default();
/// peers.set_peer(PeerName::new("192.0.2.0/24".parse()?), chains.get("core").ok_or("no chain core")?.clone())?;
/// let listener = TcpAoListener::bind("0.0.0.0:323".parse()?, &peers)?;
/// loop {
///     let (mut stream, peer) = listener.accept()?;
///     thread::spawn(move || stream.write_all(format!("hello {peer}\n").as_bytes()));
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TcpAoListener<L = TcpListener> {
    // Dropped first: the attachment keeps the socket open, too.
    attachment: Attachment,
    pub(super) manager: KeyManager,
    pub(super) socket: L,
    #[cfg(feature = "tokio")]
    pub(super) accepting: Accepting<(TcpAoStream<tokio::net::TcpStream>, SocketAddr)>,
}

impl TcpAoListener {
    /// Binds a socket to an address, puts the peers' keys on it, and listens.
    ///
    /// # Errors
    /// [`Error::NotSupported`] if this kernel has no TCP-AO: see [what to do then](crate#without-tcp-ao-in-the-kernel). Those of
    /// [`KeyManager::attach`], and [`ManagerError::Io`] if the address cannot be used.
    pub fn bind(address: SocketAddr, manager: &KeyManager) -> Result<Self, ManagerError> {
        Self::from_socket(bound(address)?, manager)
    }

    /// The same for a socket that is bound but does not listen yet: one in a VRF, say.
    ///
    /// # Errors
    /// As for [`bind`](Self::bind). If it listens already, a connection that was opened before the keys were there is refused by
    /// [`accept`](Self::accept).
    pub fn from_socket(socket: impl Into<OwnedFd>, manager: &KeyManager) -> Result<Self, ManagerError> {
        let socket = TcpListener::from(socket.into());
        let attachment = manager.attach(&socket, Timestamp::now())?;
        manager.run_in_background().map_err(Error::Io)?;
        let address = address_of(&socket).map_err(Error::Io)?;
        // Of two sockets bound to one address, only the first can listen.
        SockRef::from(&socket).listen(BACKLOG).map_err(ManagerError::listening(address))?;
        Ok(Self {
            attachment,
            manager: manager.clone(),
            socket,
            #[cfg(feature = "tokio")]
            accepting: Accepting::default(),
        })
    }

    /// Waits for the next connection from one of the peers.
    ///
    /// Resets connections that cannot be attached, and feature `tracing` logs why: the handshake was signed with another
    /// peer's key ([`ManagerError::KeyOfAnotherPeer`]), the caller connected before the listener had keys ([`ManagerError::Unsigned`]) or
    /// has reset the connection already ([`ManagerError::Ended`]), the peer was removed or has no key to send with, or a call on the
    /// socket failed. A connection takes two descriptors, its own and the manager's.
    ///
    /// # Errors
    /// [`ManagerError::Io`], as for std's: too many open files, say. The listener still works.
    pub fn accept(&self) -> Result<(TcpAoStream, SocketAddr), ManagerError> {
        loop {
            let (stream, remote) = self.socket.accept().map_err(|error| self.cannot_accept(error))?;
            if let Some(stream) = TcpAoStream::accepted(stream, remote, &self.manager) {
                return Ok((stream, remote));
            }
        }
    }
}

impl<L> TcpAoListener<L> {
    /// Keeps the keys on the socket current; [`Attachment::number`] names it in reports.
    pub const fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// As for std's.
    pub fn local_addr(&self) -> io::Result<SocketAddr>
    where
        L: AsFd,
    {
        address_of(&self.socket)
    }

    pub(super) fn cannot_accept(&self, error: io::Error) -> ManagerError
    where
        L: AsFd,
    {
        match self.local_addr() {
            Ok(address) => ManagerError::accepting(address)(error),
            Err(_) => Error::Io(error).into(),
        }
    }

    /// The socket. What it accepts by itself is not attached: use [`accept`](TcpAoListener::accept).
    pub const fn get_ref(&self) -> &L {
        &self.socket
    }

    /// The same listener with another type of the same socket.
    #[cfg(feature = "tokio")]
    pub(super) fn try_map<M>(self, convert: impl FnOnce(L) -> io::Result<M>) -> io::Result<TcpAoListener<M>> {
        let Self { attachment, manager, socket, accepting } = self;
        Ok(TcpAoListener { attachment, manager, socket: convert(socket)?, accepting })
    }
}

/// A socket that is bound to an address, in the network namespace of the thread that calls.
pub(super) fn bound(address: SocketAddr) -> Result<Socket, ManagerError> {
    let bound = || -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    bound().map_err(ManagerError::listening(address))
}

fn address_of(socket: &impl AsFd) -> io::Result<SocketAddr> {
    SockRef::from(socket).local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl<L: AsFd> AsFd for TcpAoListener<L> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<L: fmt::Debug> fmt::Debug for TcpAoListener<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpAoListener")
            .field("manager", &self.manager)
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}
