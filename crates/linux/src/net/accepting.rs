//! Accepting connections in a task that may be dropped at any time.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};

/// The accepted connection whose keys are being put in order, if there is one. It is kept here while nothing waits for it.
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
            // If this is dropped while it waits, the next call finds the task.
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
    use std::thread::sleep;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn no_connection_is_lost_when_accepting_is_given_up() {
        const CONNECTIONS: usize = 8;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(TcpStream::connect(address).await.unwrap());
        }
        let (accepting, mut accepted, mut given_up) = (Accepting::default(), Vec::new(), 0);
        while accepted.len() < CONNECTIONS {
            let next = accepting.next(&listener, |stream, remote| {
                sleep(Duration::from_millis(20));
                Some((stream, remote))
            });
            match timeout(Duration::from_millis(3), next).await {
                Ok(connection) => accepted.push(connection.unwrap().1),
                Err(_) => given_up += 1,
            }
        }
        assert!(given_up >= CONNECTIONS, "each was given up once or more often");
        assert_eq!(accepted, clients.iter().map(|client| client.local_addr().unwrap()).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_connection_that_is_refused_is_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let first = TcpStream::connect(address).await.unwrap().local_addr().unwrap();
        let second = TcpStream::connect(address).await.unwrap();
        let next = Accepting::default();
        let next = next.next(&listener, move |_, remote| (remote != first).then_some(remote));
        assert_eq!(next.await.unwrap(), second.local_addr().unwrap());
    }
}
