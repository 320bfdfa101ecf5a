//! Sessions over QUIC between two UDP sockets on loopback, with every packet counted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use quinn::Connection;
use rcgen::{CertificateParams, KeyPair};
use rustls::CipherSuite;
use rustls::pki_types::PrivateKeyDer;
use tokio::time::{sleep, timeout};
use tracing::Span;

use super::sessions::{Conditions, FEW, GLANCE, ROUTES, Sessions, grouped, start_session, within_memory};
use crate::quic::{Acceptor, Caller, Connector};
use crate::tls::{Tls, is_wireseal, provider, suite_name};
use speaker::routes::Route;
use speaker::routes::generate;
use speaker::session::{Session, State, Status};
use wireseal_rustls::{CountedKeys, KeyUse};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The suite that every QUIC stack has.
const USUAL: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;
/// How long a key update or the end of a refused connection may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A router with one suite and a new certificate.
fn router(suite: CipherSuite) -> Result<Tls> {
    let provider = provider();
    ensure!(is_wireseal(suite), "{suite:?} is not Wireseal's");
    let chosen = provider.cipher_suites.iter().find(|offered| offered.suite() == suite).copied();
    let chosen = chosen.with_context(|| format!("{suite:?} is not there"))?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::default().self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Tls::new(provider, Some(vec![chosen]), certificate.into(), key)
}

/// Two routers. The first opens connections.
struct Pair {
    connector: Connector,
    acceptor: Acceptor,
}

/// Both ends of a session and of the QUIC connection under it.
struct Up {
    sessions: Sessions,
    a: Connection,
    b: Connection,
}

impl Pair {
    /// The first router expects the certificate of `expected[0]`, the second that of `expected[1]`.
    fn new(a: &Tls, b: &Tls, expected: [&Tls; 2]) -> Result<Self> {
        let [by_a, by_b] = expected.map(Tls::fingerprint);
        let any_port = SocketAddr::new(LOOPBACK, 0);
        let caller = Caller { neighbour: 0, address: LOOPBACK, certificate: by_b, span: Span::none() };
        let acceptor = Acceptor::bind(any_port, b, vec![caller])?;
        let connector = Connector::new(any_port, acceptor.endpoint.local_addr()?, a, by_a)?;
        Ok(Self { connector, acceptor })
    }

    fn with_suites(a: CipherSuite, b: CipherSuite) -> Result<Self> {
        let (a, b) = (router(a)?, router(b)?);
        Self::new(&a, &b, [&b, &a])
    }

    fn keys(&self) -> [&CountedKeys; 2] {
        [&self.connector.keys, self.acceptor.keys(0)]
    }

    /// Connects the routers and waits for an established session.
    async fn establish(&mut self) -> Result<Up> {
        let Self { connector, acceptor } = self;
        let calling = async {
            let (connection, stream) = connector.connect().await.context("caller")?;
            // The session sends OPEN; without data the other end would not see the stream.
            Ok((connection, start_session(stream, 1)))
        };
        let called = async { acceptor.call().await?.1 };
        let ((a, caller), (b, stream)) = tokio::try_join!(calling, called)?;
        Ok(Up { sessions: Sessions::of(caller, start_session(stream, 2)).await?, a, b })
    }

    /// Fails unless both routers have opened every packet that reached them; returns how many that were.
    fn all_opened(&self) -> Result<u64> {
        let packets =
            |keys: &CountedKeys, of: fn(&KeyUse) -> u64| one_rtt_keys(keys).iter().map(of).sum::<u64>();
        let [a, b] = self.keys();
        let mut all = 0;
        for (end, here, there) in [("first", a, b), ("second", b, a)] {
            let refused: u64 = here.packet_keys().iter().map(|key| key.refused).sum();
            ensure!(refused == 0, "the {end} router refused {refused} packets");
            let (opened, sent) = (packets(here, |key| key.opened), packets(there, |key| key.sealed));
            ensure!(opened > 0 && opened <= sent, "the {end} router opened {opened} packets of {sent}");
            all += opened;
        }
        Ok(all)
    }
}

/// The 1-RTT keys that have sealed or opened packets.
fn one_rtt_keys(keys: &CountedKeys) -> Vec<KeyUse> {
    keys.packet_keys().into_iter().filter(|key| key.one_rtt > 0).collect()
}

/// How many 1-RTT keys have sealed and opened packets: one each at first, then one more with every key update.
fn keys_used(keys: &CountedKeys) -> [usize; 2] {
    let count = |of: fn(&KeyUse) -> u64| one_rtt_keys(keys).iter().filter(|key| of(key) > 0).count();
    [count(|key| key.sealed), count(|key| key.opened)]
}

/// A session under one suite. If sabotaged, the second router has another suite.
pub async fn session(suite: CipherSuite, Conditions { is_sabotaged, .. }: Conditions) -> Result<String> {
    let other = match (is_sabotaged, suite) {
        (false, _) => suite,
        (true, USUAL) => CipherSuite::TLS13_AES_256_GCM_SHA384,
        (true, _) => USUAL,
    };
    let mut pair = Pair::with_suites(suite, other)?;
    let Up { sessions, .. } = pair.establish().await?;
    let table = generate(FEW);
    sessions.exchange(&table, &table).await?;
    let (routes, packets, suite) = (grouped(FEW.into()), pair.all_opened()?, suite_name(suite));
    Ok(format!(
        "{routes} routes each way in {packets} packets, each sealed and opened by Wireseal under {suite}"
    ))
}

/// Full tables each way.
pub async fn full_table(Conditions { is_sabotaged, .. }: Conditions) -> Result<String> {
    let mut pair = Pair::with_suites(USUAL, USUAL)?;
    let up = pair.establish().await?;
    let seen = up.sessions.exchange_full_tables(is_sabotaged).await?;
    let packets = grouped(pair.all_opened()?);
    within_memory(format!("{seen}; {packets} packets, each sealed and opened by Wireseal"))
}

/// Updates the key at one end, and waits until that end seals with the next key.
async fn update_key(end: (&Session, &Connection, &CountedKeys), known: &Arc<[Route]>) -> Result<()> {
    let (session, connection, keys) = end;
    let [before, _] = keys_used(keys);
    let updated = async {
        while keys_used(keys)[0] == before {
            // Without effect until the last update is confirmed (RFC 9001 §6.5).
            connection.force_key_update();
            // The next key shows only when something is sent.
            session.announce(Arc::clone(known)).await?;
            sleep(GLANCE).await;
        }
        Ok(())
    };
    timeout(PATIENCE, updated).await.unwrap_or_else(|_| Err(anyhow!("sealed with key {before} only")))
}

/// Each router updates the key once while routes flow. If sabotaged, neither does.
pub async fn key_update(Conditions { is_sabotaged, .. }: Conditions) -> Result<String> {
    let table = generate(ROUTES);
    let mut pair = Pair::with_suites(USUAL, USUAL)?;
    let Up { sessions, a, b } = pair.establish().await?;
    let [by_a, by_b] = pair.keys();
    let known: Arc<[Route]> = table[..1].into();
    let updates = [None, Some((&sessions.a, &a, by_a)), Some((&sessions.b, &b, by_b))];
    let mut announced = 0;
    for (end, part) in updates.into_iter().zip(table.chunks(table.len().div_ceil(3))) {
        sessions.announce(part).await?;
        if let Some(end) = end.filter(|_| !is_sabotaged) {
            update_key(end, &known).await?;
        }
        announced += part.len();
        sessions.await_routes(announced).await?;
    }
    // An end answers with the key that it has seen last: after two exchanges both have used the newest key.
    for _ in 0..2 {
        sessions.pass_route().await?;
    }
    sessions.still_up()?;
    let packets = grouped(pair.all_opened()?);
    let keys = keys_used(by_a)[0];
    for (end, used) in [("first", by_a), ("second", by_b)] {
        let [sealed, opened] = keys_used(used);
        // quinn itself updates the key once, within the first thousand packets.
        let is_right = sealed >= 3 && sealed == keys && opened == keys;
        ensure!(is_right, "the {end} router sealed with {sealed} keys and opened with {opened}");
    }
    let (own, routes) = (keys - 3, grouped(ROUTES.into()));
    Ok(format!(
        "{keys} keys in each direction: the first one, two for the updates (one by each router), and {own} for quinn's own; \
         {routes} routes each way in {packets} packets, all opened; same QUIC connection, same BGP session"
    ))
}

/// Opens a connection that must be refused for a certificate. Fails if the router called gets a connection or the caller a
/// session, or if either end never learns of it.
async fn refused(mut pair: Pair) -> Result<()> {
    let Pair { connector, acceptor } = &mut pair;
    let calling = async {
        // A caller that accepts the certificate it sees learns only later that its own was refused.
        let Ok((_connection, stream)) = connector.connect().await else { return Ok(()) };
        let session = start_session(stream, 1);
        let is_decided = |status: &Status| matches!(status.state, State::Established | State::Closed);
        let status = session.until(PATIENCE, "the caller to be told", is_decided).await?;
        ensure!(status.state == State::Closed, "the caller has a session");
        Ok(())
    };
    let (called, calling) = tokio::join!(acceptor.call(), calling);
    calling?;
    let Err(reason) = called?.1 else { bail!("the router called has a connection") };
    ensure!(reason.to_string().contains("certificate"), "refused for another reason: {reason:#}");
    Ok(())
}

/// A stranger at either end. If sabotaged, the certificates are right.
pub async fn other_certificate(Conditions { is_sabotaged, .. }: Conditions) -> Result<String> {
    let (a, b, stranger) = (router(USUAL)?, router(USUAL)?, router(USUAL)?);
    let (caller, called) = if is_sabotaged { (&a, &b) } else { (&stranger, &stranger) };
    refused(Pair::new(caller, &b, [&b, &a])?).await?;
    refused(Pair::new(&a, called, [&b, &a])?).await?;
    let Up { sessions, .. } = Pair::new(&a, &b, [&b, &a])?.establish().await?;
    sessions.pass_route().await?;
    Ok("a router with another certificate than the configured one gets no session, whether it calls or is called; with the \
        right certificates a session opens and carries routes"
        .to_owned())
}
