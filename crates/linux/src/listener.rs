//! A listening socket with the keys of all peers.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{Domain, SockRef, Socket, Type};
use wireseal_keys::Timestamp;

use crate::manager::{Attachment, KeyManager};
use crate::{Error, TcpAoStream};
#[cfg(feature = "tokio")]
use with_tokio::Accepting;

/// How many connections may wait to be accepted, as in std.
const BACKLOG: i32 = 128;

/// A listening socket with the keys of all peers of a [`KeyManager`]. It accepts connections from these peers only.
///
/// A thread keeps its keys current, and those of the connections that it accepts; peers can be [added](KeyManager::set_peer), changed and
/// [removed](KeyManager::remove_peer) meanwhile. Fork before you bind: threads do not survive a fork. The socket belongs to the network
/// namespace of the thread that binds it.
///
/// The socket `L` is std's, or with feature `tokio` tokio's.
///
/// ```no_run
/// use std::io::Write;
/// use std::{fs, thread};
///
/// use wireseal_linux::{KeyManager, TcpAoListener};
/// use wireseal_keys::KeyChains;
///
/// let chains = KeyChains::from_toml(&fs::read_to_string("keys.toml")?)?;
/// let peers = KeyManager::default();
/// peers.set_peer("192.0.2.0/24".parse()?, chains.get("core").ok_or("no chain core")?.clone())?;
/// let listener = TcpAoListener::bind("0.0.0.0:323".parse()?, &peers)?;
/// loop {
///     let (mut stream, peer) = listener.accept()?;
///     thread::spawn(move || stream.write_all(format!("hello {peer}\n").as_bytes()));
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TcpAoListener<L = TcpListener> {
    // Dropped first: the attachment keeps the socket open, too.
    attachment: Attachment,
    manager: KeyManager,
    address: SocketAddr,
    socket: L,
    #[cfg(feature = "tokio")]
    accepting: Accepting<(TcpAoStream<tokio::net::TcpStream>, SocketAddr)>,
}

impl TcpAoListener {
    /// Binds a socket to an address, puts the peers' keys on it, and listens.
    ///
    /// # Errors
    /// [`Error::NotSupported`] if this kernel has no TCP-AO: see [what to do then](crate#without-tcp-ao-in-the-kernel). Those of
    /// [`KeyManager::attach`], and [`Error::Address`] if the address cannot be used.
    pub fn bind(address: SocketAddr, manager: &KeyManager) -> Result<Self, Error> {
        Self::from_socket(bound(address)?, manager)
    }

    /// Listens on a socket that is bound but does not listen yet, for example in a VRF.
    ///
    /// # Errors
    /// As for [`bind`](Self::bind). If it listens already, [`accept`](Self::accept) refuses a connection that was opened before the keys
    /// were there.
    pub fn from_socket(socket: impl Into<OwnedFd>, manager: &KeyManager) -> Result<Self, Error> {
        let socket = TcpListener::from(socket.into());
        let attachment = manager.attach(&socket, Timestamp::now())?;
        manager.run_in_background()?;
        // If two sockets are bound to one address, only the first can listen.
        let bound = socket.local_addr()?;
        SockRef::from(&socket).listen(BACKLOG).map_err(Error::at("listen on", bound))?;
        Ok(Self {
            attachment,
            manager: manager.clone(),
            address: socket.local_addr()?,
            socket,
            #[cfg(feature = "tokio")]
            accepting: Accepting::default(),
        })
    }

    /// Waits for the next connection from one of the peers.
    ///
    /// Resets connections that cannot be attached, for any reason of [`KeyManager::attach_accepted`], which feature `tracing` logs. A
    /// connection takes two descriptors, its own and the manager's.
    ///
    /// # Errors
    /// [`Error::Address`], as for std's, for example with too many open files. The listener still works.
    pub fn accept(&self) -> Result<(TcpAoStream, SocketAddr), Error> {
        loop {
            let (stream, remote) = self.socket.accept().map_err(Error::at("accept on", self.address))?;
            if let Some(stream) = TcpAoStream::accepted(stream, remote, &self.manager) {
                return Ok((stream, remote));
            }
        }
    }
}

impl<L> TcpAoListener<L> {
    /// The attachment, which keeps the keys on the socket current; [`Attachment::number`] names it in reports.
    pub const fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// The address that it listens on.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

/// A socket that is bound to an address, in the network namespace of the thread that calls.
fn bound(address: SocketAddr) -> Result<Socket, Error> {
    let bound = || -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    bound().map_err(Error::at("listen on", address))
}

impl<L: AsFd> AsFd for TcpAoListener<L> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Calls that may wait in the kernel run on tokio's threads for blocking calls.
#[cfg(feature = "tokio")]
mod with_tokio {
    use std::io;
    use std::net::SocketAddr;

    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::Mutex;
    use tokio::task::{JoinHandle, spawn_blocking};

    use super::{Error, KeyManager, TcpAoListener, TcpAoStream, bound};

    impl TcpAoListener {
        /// The same listener for tokio (feature `tokio`).
        ///
        /// # Errors
        /// As for `tokio::net::TcpListener::from_std`, which panics outside a runtime.
        pub fn into_async(self) -> io::Result<TcpAoListener<TcpListener>> {
            let Self { attachment, manager, address, socket, accepting } = self;
            socket.set_nonblocking(true)?;
            let socket = TcpListener::from_std(socket)?;
            Ok(TcpAoListener { attachment, manager, address, socket, accepting })
        }
    }

    impl TcpAoListener<TcpListener> {
        /// Binds and listens as [`TcpAoListener::bind`] does (feature `tokio`), without blocking the task while the keys of many peers
        /// are added.
        ///
        /// # Errors
        /// As for [`TcpAoListener::bind`].
        pub async fn bind_async(address: SocketAddr, manager: &KeyManager) -> Result<Self, Error> {
            let (socket, manager) = (bound(address)?, manager.clone());
            let listening = spawn_blocking(move || TcpAoListener::from_socket(socket, &manager));
            let listener = listening.await.map_err(io::Error::other)??;
            listener.into_async().map_err(Error::at("listen on", address))
        }

        /// Waits for the next connection from one of the peers, as [`TcpAoListener::accept`] does.
        ///
        /// Cancel safe: if the future is dropped before it is ready, the next call returns the connection that was being attached. If
        /// several tasks call it, they take turns.
        ///
        /// # Errors
        /// As for [`TcpAoListener::accept`].
        pub async fn accept(&self) -> Result<(TcpAoStream<TcpStream>, SocketAddr), Error> {
            let manager = self.manager.clone();
            let attach =
                move |stream, remote| Some((TcpAoStream::accepted(stream, remote, &manager)?, remote));
            self.accepting.next(&self.socket, attach).await.map_err(Error::at("accept on", self.address))
        }
    }

    /// The accepted connection that is being attached, if any. It is stored here so that a dropped future does not lose it.
    #[derive(Debug)]
    pub(super) struct Accepting<T>(Mutex<Option<JoinHandle<Option<T>>>>);

    impl<T> Default for Accepting<T> {
        fn default() -> Self {
            Self(Mutex::new(None))
        }
    }

    impl<T: Send + 'static> Accepting<T> {
        /// The next connection that `attach`, which may wait in the kernel, does not refuse.
        pub(super) async fn next(
            &self,
            listener: &TcpListener,
            attach: impl FnOnce(TcpStream, SocketAddr) -> Option<T> + Clone + Send + 'static,
        ) -> io::Result<T> {
            let mut attaching = self.0.lock().await;
            loop {
                let task = match attaching.take() {
                    Some(task) => task,
                    None => {
                        let (stream, remote) = listener.accept().await?;
                        let attach = attach.clone();
                        spawn_blocking(move || attach(stream, remote))
                    }
                };
                // If the future is dropped here, the next call finds the task.
                let attached = attaching.insert(task).await;
                *attaching = None;
                if let Some(connection) = attached.map_err(io::Error::other)? {
                    return Ok(connection);
                }
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};
        use std::thread::sleep;
        use std::time::Duration;

        use tokio::time::timeout;

        use super::*;

        #[tokio::test]
        async fn no_connection_is_lost_when_accepting_is_given_up_and_those_that_are_refused_are_passed_over()
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut clients = Vec::new();
            for _ in 0..8 {
                clients.push(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
            }
            let mut expected: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
            let refused = expected.remove(0);
            let (accepting, mut accepted, given_up) = (Accepting::default(), Vec::new(), AtomicUsize::new(0));
            let given_up = Arc::new(given_up);
            while accepted.len() < expected.len() {
                let counter = Arc::clone(&given_up);
                let next = accepting.next(&listener, move |stream, remote| {
                    // Each future is dropped at least once while it attaches.
                    let before = counter.load(Ordering::Relaxed);
                    while counter.load(Ordering::Relaxed) == before {
                        sleep(Duration::from_millis(1));
                    }
                    (remote != refused).then_some((stream, remote))
                });
                match timeout(Duration::from_millis(3), next).await {
                    Ok(connection) => accepted.push(connection.unwrap().1),
                    Err(_) => _ = given_up.fetch_add(1, Ordering::Relaxed),
                }
            }
            assert_eq!(accepted, expected);
        }
    }
}
