//! s2n-quic's endpoints for one run.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use peer_program::Failure;
use peer_s2n_quic::{AddressValidation, Events, exchange, serve};
use rustls::crypto::CryptoProvider;
use s2n_quic::provider::tls;
use s2n_quic::{Client, Server};
use wireseal_rustls::{CountedKeys, KeyUse, counted};

use crate::recording::{Report, Used, print_report};
use crate::task::{Task, with_limit, with_suite};

/// s2n-quic updates a key this many packets before its confidentiality limit.
const UPDATE_WINDOW: u64 = 10_000;
/// In a run each end sends more packets than this, but fewer than twice as many. If a second update became due within a probe timeout of
/// the first, s2n-quic would use the keys from before the first.
const PACKETS_BEFORE_UPDATE: u64 = 500;

/// Connects, carries the payload to the server and back, and prints a report.
pub(crate) async fn client(task: &Task) -> Result<(), Failure> {
    let (provider, keys) = provider(task)?;
    let tls = task.client_tls(provider)?;

    let events = Events::default();
    let client = Client::builder()
        .with_tls(tls::rustls::Client::from(tls))?
        .with_event(events.clone())?
        .with_io(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?
        .start()?;
    let received = exchange(client, task.address, fs::read(&task.payload)?).await?;
    print(task, &keys, &events, &received)
}

/// Serves one connection, and prints a report.
pub(crate) async fn server(task: &Task) -> Result<(), Failure> {
    let (provider, keys) = provider(task)?;
    let tls = task.server_tls(provider)?;

    let events = Events::default();
    let server = Server::builder()
        .with_tls(tls::rustls::Server::from(tls))?
        .with_event(events.clone())?
        .with_endpoint_limits(AddressValidation { wanted: task.retry })?
        .with_io(task.address)?
        .start()?;
    let received = serve(server).await?;
    print(task, &keys, &events, &received)
}

/// Wireseal's provider, counted.
fn provider(task: &Task) -> Result<(Arc<CryptoProvider>, Arc<CountedKeys>), Failure> {
    let mut provider = with_suite(&task.suite)?;
    if task.update_keys {
        provider = with_limit(provider, UPDATE_WINDOW + PACKETS_BEFORE_UPDATE);
    }
    let (provider, keys) = counted(provider);
    Ok((Arc::new(provider), keys))
}

fn print(task: &Task, keys: &CountedKeys, events: &Events, received: &[u8]) -> Result<(), Failure> {
    let suite = keys.suite().and_then(|suite| suite.as_str()).unwrap_or("none").replace("TLS13_", "TLS_");
    let used = keys.packet_keys();
    let one_rtt = used.get(2..).ok_or("no keys of Handshake packets")?;
    if used[..2].iter().any(|key| key.one_rtt > 0) || one_rtt.iter().any(|key| key.one_rtt != packets(key)) {
        return Err("a key was used at another level than its own".into());
    }
    let seen = events.seen();
    print_report(&Report {
        suite: &suite,
        // s2n-quic makes these itself.
        initial: Vec::new(),
        others: used.iter().map(|key| Used { sealed: key.sealed, opened: key.opened }).collect(),
        received,
        // With this end's stated limit, only this end starts updates.
        updates_started: if task.update_keys { seen.updates_remote } else { 0 },
        retry: seen.retry,
    });
    Ok(())
}

fn packets(key: &KeyUse) -> u64 {
    key.sealed + key.opened
}
