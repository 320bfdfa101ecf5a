//! The server: one listener for each address, all peers on one manager.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, vec};

use anyhow::Result;
use futures_util::{Stream, stream};
use rpki::rtr::payload::{Action, PayloadRef, RouteOrigin, Timing};
use rpki::rtr::server::{NotifySender, PayloadDiff, PayloadSet, PayloadSource, Server, Socket};
use rpki::rtr::state::State;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{info, warn};
use wireseal_linux::{KeyManager, TcpAoListener, TcpAoStream};

use crate::config::Config;

/// Serves until a listener fails.
pub async fn serve(path: &Path) -> Result<()> {
    let (peers, mut notify) = (KeyManager::default(), NotifySender::new());
    let config = Config::load(path, &peers)?;
    let origins = Origins::new(config.origins()?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut servers = JoinSet::new();
    for address in config.listen {
        let listener = TcpAoListener::bind_async(address, &peers).await?;
        info!(%address, "listening");
        let connections = Box::pin(accepted(listener));
        servers.spawn(Server::new(connections, notify.clone(), origins.clone()).run());
    }
    loop {
        tokio::select! {
            ended = servers.join_next() => return ended.map_or(Ok(()), |ended| Ok(ended??)),
            _ = hang_up.recv() => {}
        }
        match Config::load(path, &peers).and_then(|config| config.origins()) {
            Ok(reloaded) => {
                origins.replace(reloaded);
                notify.notify();
                info!("configuration read again");
            }
            Err(error) => warn!("configuration unchanged: {error:#}"),
        }
    }
}

/// The connections of a listener.
fn accepted(listener: TcpAoListener<TcpListener>) -> impl Stream<Item = io::Result<Connection>> {
    stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    info!(%peer, "connected");
                    let expired = Box::pin(stream.attachment().expired());
                    return Some((Ok(Connection { stream, expired }), listener));
                }
                // Not returned, because the server ends at the first error that it gets; this may be too many open files, for example.
                Err(error) => {
                    warn!("{error}");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    })
}

/// A connection that ends when its peer's keys do.
struct Connection {
    stream: TcpAoStream<TcpStream>,
    expired: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
}

impl Socket for Connection {}

type Done<T> = Poll<io::Result<T>>;

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Done<()> {
        if self.expired.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::Error::other("no key is valid for sending")));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Done<usize> {
        Pin::new(&mut self.stream).poll_write(context, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Done<()> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Done<()> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// What is served, and its serial number.
#[derive(Clone)]
struct Origins(Arc<RwLock<(State, Vec<RouteOrigin>)>>);

impl Origins {
    fn new(origins: Vec<RouteOrigin>) -> Self {
        Self(Arc::new(RwLock::new((State::new(), origins))))
    }

    fn replace(&self, origins: Vec<RouteOrigin>) {
        let mut served = self.0.write().expect("no reader panics");
        served.0.inc();
        served.1 = origins;
    }
}

impl PayloadSource for Origins {
    type Set = Listed;
    type Diff = Listed;

    fn ready(&self) -> bool {
        true
    }

    fn notify(&self) -> State {
        self.0.read().expect("no writer panics").0
    }

    fn full(&self) -> (State, Listed) {
        let (state, origins) = self.0.read().expect("no writer panics").clone();
        (state, Listed(origins.into_iter()))
    }

    /// No differences are kept, so clients ask for the full set.
    fn diff(&self, _: State) -> Option<(State, Listed)> {
        None
    }

    fn timing(&self) -> Timing {
        Timing::default()
    }
}

struct Listed(vec::IntoIter<RouteOrigin>);

impl PayloadSet for Listed {
    fn next(&mut self) -> Option<PayloadRef<'_>> {
        self.0.next().map(PayloadRef::Origin)
    }
}

impl PayloadDiff for Listed {
    fn next(&mut self) -> Option<(PayloadRef<'_>, Action)> {
        self.0.next().map(|origin| (PayloadRef::Origin(origin), Action::Announce))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rpki::rtr::client::Client;
    use wireseal_linux::PeerName;

    use super::*;

    const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/rtr.toml");

    fn printed(client: &Client<TcpStream, crate::Origins>) -> Vec<String> {
        client.target().lines().collect()
    }

    /// Over TCP without AO, which any kernel has.
    #[tokio::test]
    async fn a_router_gets_the_origins_and_then_the_changed_ones() {
        let config = Config::load(Path::new(CONFIG), &KeyManager::default()).unwrap();
        let (origins, mut notify) = (Origins::new(config.origins().unwrap()), NotifySender::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Box::pin(stream::unfold(listener, |listener| async {
            Some((listener.accept().await.map(|(stream, _)| stream), listener))
        }));
        let server = tokio::spawn(Server::new(connections, notify.clone(), origins.clone()).run());
        let router = TcpStream::connect(address).await.unwrap();
        let mut client = Client::new(router, crate::Origins::default(), None);
        client.step().await.unwrap();
        assert_eq!(
            printed(&client),
            ["2 origins", "203.0.113.0/24-24 AS64496", "2001:db8:1000::/36-48 AS64497"]
        );
        origins.replace(Vec::new());
        notify.notify();
        client.step().await.unwrap();
        assert_eq!(printed(&client), ["0 origins"]);
        server.abort();
    }

    #[test]
    fn a_file_with_a_mistake_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (config, keys) = (folder.path().join("rtr.toml"), folder.path().join("keys.toml"));
        let network: PeerName = "192.0.2.0/24".parse().unwrap();
        // The file that is read again would take this peer away.
        let right = fs::read_to_string(CONFIG).unwrap().replace("\"192.0.2.0/24\" = \"routers\"\n", "");
        let right_keys = include_str!("../configs/keys.toml");
        for (written, instead, wrong) in [
            ("listen", "listens", Some("rtr.toml: unknown field `listens`")),
            ("AS64497", "nobody", Some("rtr.toml: origins: \"2001:db8:1000::/36-48 nobody\"")),
            ("name = \"routers\"", "name = \"others\"", Some("there is no key chain \"routers\"")),
            ("send-id = 2", "send-id = 1", Some("keys.toml: line 12, column 11, key chain \"routers\"")),
            ("", "", None),
        ] {
            let peers = KeyManager::default();
            Config::load(Path::new(CONFIG), &peers).unwrap();
            fs::write(&config, right.replace(written, instead)).unwrap();
            fs::write(&keys, right_keys.replace(written, instead)).unwrap();
            let error = Config::load(&config, &peers).err().map(|error| format!("{error:#}"));
            let is_expected = error.as_ref().zip(wrong).map(|(error, wrong)| error.contains(wrong));
            assert_eq!(is_expected, wrong.map(|_| true), "{error:?}");
            assert_eq!(peers.remove_peer(network).is_some(), wrong.is_some(), "{error:?}");
        }
    }
}
