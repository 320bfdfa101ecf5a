//! What supervisor and gateway have in common: they keep their memory private, and answer callers. The number of callers and the time of
//! each are limited, so that nobody can use up the process's descriptors.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// How many callers are answered at the same time; others are disconnected at once.
const MOST: usize = 16;
/// The time that a caller has to ask and to read the answer.
const LIMIT: Duration = Duration::from_secs(5);
/// How long to wait after a caller could not be accepted.
const AGAIN: Duration = Duration::from_millis(100);

/// A socket on which callers are answered.
pub(crate) enum Listener {
    Unix(std::os::unix::net::UnixListener),
    Loopback(std::net::TcpListener),
}

/// A connection with a caller.
pub(crate) trait Caller: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Caller for T {}

enum Accepting {
    Unix(UnixListener),
    Loopback(TcpListener),
}

impl Accepting {
    async fn accept(&self) -> io::Result<Box<dyn Caller>> {
        Ok(match self {
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
            Self::Loopback(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

/// Answers callers in a thread of its own, until the process ends.
pub(crate) fn answer<A, F>(name: &str, listener: Listener, answer: A) -> io::Result<()>
where
    A: Fn(Box<dyn Caller>) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let listener = match listener {
        Listener::Unix(listener) => {
            listener.set_nonblocking(true)?;
            Accepting::Unix(UnixListener::from_std(listener)?)
        }
        Listener::Loopback(listener) => {
            listener.set_nonblocking(true)?;
            Accepting::Loopback(TcpListener::from_std(listener)?)
        }
    };
    drop(entered);
    let accept = async move {
        let places = Arc::new(Semaphore::new(MOST));
        loop {
            match listener.accept().await {
                Ok(caller) => {
                    let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                    let answered = timeout(LIMIT, answer(caller));
                    tokio::spawn(async move {
                        // A timeout only closes the connection.
                        let _ = answered.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    // No descriptors are left, or the caller has gone.
                    tracing::debug!(%error, "a caller was not accepted");
                    sleep(AGAIN).await;
                }
            }
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(accept)).map(drop)
}

/// Locks, and ignores poisoning: a panic of any thread ends the program.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on nobody but root may read this process's memory, where the keys will be, and no core dump contains them.
pub(crate) fn keep_memory_private() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Into::into)
}

/// Raises this process's limit of open files to the hard limit. Programs that it starts from now on inherit it.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // This cannot fail: the hard limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Connects to a Unix socket. Connecting, reading and writing may each take this long: even connecting waits for a process that is stopped.
pub(crate) fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(limit))?;
    socket.set_read_timeout(Some(limit))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(std::os::fd::OwnedFd::from(socket).into())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;
    use std::time::Instant;

    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn callers_that_do_nothing_have_a_limit_in_number_and_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        answer("test", Listener::Loopback(listener), |mut caller| async move {
            // Much more than waits in buffers.
            let _ = caller.write_all(&[1; 16 << 20]).await;
        })
        .unwrap();
        let ask = || TcpStream::connect(address).unwrap();
        let idle: Vec<_> = (0..MOST).map(|_| ask()).collect();
        let started = Instant::now();
        for mut caller in &idle {
            caller.read_exact(&mut [0]).unwrap();
        }
        // There is no place until theirs are over.
        assert_eq!(ask().read(&mut [0]).unwrap_or(0), 0);
        while ask().read(&mut [0]).unwrap_or(0) == 0 {
            assert!(started.elapsed() < 2 * LIMIT, "their time is over");
            thread::sleep(AGAIN);
        }
        assert!(started.elapsed() > LIMIT / 2);
    }
}
