//! Sessions over QUIC, between two UDP sockets on loopback, with every packet counted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use counted::{Ledger, Packets};
use quinn::Connection;
use rcgen::{CertificateParams, KeyPair};
use rustls::CipherSuite;
use rustls::pki_types::PrivateKeyDer;
use tokio::time::{sleep, timeout};
use tracing::Span;

use super::sessions::{Conditions, FEW, GLANCE, ROUTES, Sessions, grouped, start, within_memory};
use crate::quic::{Acceptor, Connector, Tls, provider, suite_name};
use speaker::bgp::rib::Route;
use speaker::bgp::session::{Session, State, Status};
use speaker::routes::generate;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The suite that every QUIC stack has.
const USUAL: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;
/// How long a change of the key or the end of a refused connection may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A router that offers one suite, and shows a certificate of its own.
fn router(suite: CipherSuite) -> Result<Tls> {
    let provider = provider();
    for suite in provider.cipher_suites.iter().filter_map(|suite| suite.tls13()) {
        ensure!(wireseal_rustls::is_wireseal(suite), "{suite:?} is not Wireseal's");
    }
    let chosen = provider.cipher_suites.iter().find(|offered| offered.suite() == suite).copied();
    let chosen = chosen.with_context(|| format!("{suite:?} is not there"))?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::default().self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Tls::new(provider, Some(vec![chosen]), certificate.into(), key)
}

/// Two routers; the first opens connections.
struct Pair {
    connector: Connector,
    acceptor: Acceptor,
}

/// A session, seen from both ends, and the connection below it.
struct Up {
    sessions: Sessions,
    a: Connection,
    b: Connection,
}

impl Pair {
    /// Routers of which the first expects the certificate of `expected[0]`, the second that of `expected[1]`.
    fn new(a: &Tls, b: &Tls, expected: [&Tls; 2]) -> Result<Self> {
        let [by_a, by_b] = expected.map(Tls::fingerprint);
        let any_port = SocketAddr::new(LOOPBACK, 0);
        let acceptor = Acceptor::bind(any_port, b, vec![(LOOPBACK, by_b, Span::none())])?;
        let connector = Connector::new(any_port, acceptor.endpoint.local_addr()?, a, by_a)?;
        Ok(Self { connector, acceptor })
    }

    fn of_suites(a: CipherSuite, b: CipherSuite) -> Result<Self> {
        let (a, b) = (router(a)?, router(b)?);
        Self::new(&a, &b, [&b, &a])
    }

    fn ledgers(&self) -> [&Ledger; 2] {
        [&self.connector.ledger, self.acceptor.ledger(0)]
    }

    /// Connects the routers and waits until their session is established.
    async fn establish(&mut self) -> Result<Up> {
        let Self { connector, acceptor } = self;
        let calling = async {
            let (connection, stream) = connector.connect().await.context("caller")?;
            // The stream shows at the other end only with the session's first message on it.
            Ok((connection, start(stream, 1)))
        };
        let called = async { acceptor.accept().await?.1 };
        let ((a, caller), (b, stream)) = tokio::try_join!(calling, called)?;
        Ok(Up { sessions: Sessions::of(caller, start(stream, 2)).await?, a, b })
    }

    /// Fails unless both routers have opened all packets that reached them; says how many.
    fn all_opened(&self) -> Result<u64> {
        let [a, b] = self.ledgers().map(total);
        for (end, here, there) in [("first", a, b), ("second", b, a)] {
            let Packets { opened, refused, .. } = here;
            ensure!(refused == 0, "the {end} router refused {refused} packets");
            let sent = there.sealed;
            ensure!(opened > 0 && opened <= sent, "the {end} router opened {opened} packets of {sent}");
        }
        Ok(a.opened + b.opened)
    }
}

/// What was done with all keys together.
fn total(ledger: &Ledger) -> Packets {
    let sum = |of: fn(&Packets) -> u64| ledger.keys().iter().map(of).sum();
    Packets { sealed: sum(|key| key.sealed), opened: sum(|key| key.opened), refused: sum(|key| key.refused) }
}

/// How many keys have sealed packets, and how many have opened some: one each, and another with each key update.
fn keys_used(ledger: &Ledger) -> [usize; 2] {
    let count = |of: fn(&Packets) -> u64| ledger.keys().iter().filter(|key| of(key) > 0).count();
    [count(|key| key.sealed), count(|key| key.opened)]
}

/// A session under a suite; if sabotaged, the second router has another one.
pub(super) async fn session(
    suite: CipherSuite,
    Conditions { is_sabotaged, .. }: Conditions,
) -> Result<String> {
    let other = match (is_sabotaged, suite) {
        (false, _) => suite,
        (true, USUAL) => CipherSuite::TLS13_AES_256_GCM_SHA384,
        (true, _) => USUAL,
    };
    let mut pair = Pair::of_suites(suite, other)?;
    let Up { sessions, .. } = pair.establish().await?;
    let table = generate(FEW);
    sessions.exchange(&table, &table).await?;
    let (routes, packets, suite) = (grouped(FEW.into()), pair.all_opened()?, suite_name(suite));
    Ok(format!(
        "{routes} routes each way in {packets} packets, each sealed and opened by Wireseal under {suite}"
    ))
}

pub(super) async fn full_table(Conditions { is_sabotaged, .. }: Conditions) -> Result<String> {
    let mut pair = Pair::of_suites(USUAL, USUAL)?;
    let up = pair.establish().await?;
    let seen = up.sessions.exchange_full_tables(is_sabotaged).await?;
    let packets = grouped(pair.all_opened()?);
    within_memory(format!("{seen}; {packets} packets, each sealed and opened by Wireseal"))
}

/// Has one end change its key, and waits until it seals with another one.
async fn update_key(
    session: &Session,
    connection: &Connection,
    ledger: &Ledger,
    known: &Arc<[Route]>,
) -> Result<()> {
    let [before, _] = keys_used(ledger);
    let updated = async {
        while keys_used(ledger)[0] == before {
            // While the last update is not over it does nothing (RFC 9001 §6.5).
            connection.force_key_update();
            // Only what is sent shows the new key.
            session.announce(Arc::clone(known)).await?;
            sleep(GLANCE).await;
        }
        Ok(())
    };
    timeout(PATIENCE, updated).await.unwrap_or_else(|_| Err(anyhow!("sealed with key {before} only")))
}

/// Each router updates the key once while routes flow; if sabotaged, none does.
pub(super) async fn key_update(Conditions { is_sabotaged, .. }: Conditions) -> Result<String> {
    let table = generate(ROUTES);
    let mut pair = Pair::of_suites(USUAL, USUAL)?;
    let Up { sessions, a, b } = pair.establish().await?;
    let [by_a, by_b] = pair.ledgers();
    let known: Arc<[Route]> = table[..1].into();
    let updates = [None, Some((&sessions.a, &a, by_a)), Some((&sessions.b, &b, by_b))];
    let mut announced = 0;
    for (asked, part) in updates.into_iter().zip(table.chunks(table.len().div_ceil(3))) {
        sessions.announce(part).await?;
        // The part is on its way when the key changes.
        if let Some((session, connection, ledger)) = asked.filter(|_| !is_sabotaged) {
            update_key(session, connection, ledger, &known).await?;
        }
        announced += part.len();
        sessions.await_routes(announced).await?;
    }
    // An end takes the new key with the first packet after it has seen it: after the second pair of routes both have.
    for _ in 0..2 {
        sessions.pass_route().await?;
    }
    sessions.still_up()?;
    let packets = grouped(pair.all_opened()?);
    let keys = keys_used(by_a)[0];
    for (end, ledger) in [("first", by_a), ("second", by_b)] {
        let [sealed, opened] = keys_used(ledger);
        // quinn changes the key once by itself, somewhere in the first thousand packets.
        let is_right = sealed >= 3 && sealed == keys && opened == keys;
        ensure!(is_right, "the {end} router sealed with {sealed} keys and opened with {opened}");
    }
    let (own, routes) = (keys - 3, grouped(ROUTES.into()));
    Ok(format!(
        "{keys} keys in each direction: the first, two for the updates asked for, one by each router, and {own} for quinn's \
         own updates; {routes} routes each way in {packets} packets, all opened; same QUIC connection, same BGP session"
    ))
}

/// Opens a connection that is to be refused for a certificate. Fails if the router called has a connection or the caller a
/// session, or if either waits for ever.
async fn refused(mut pair: Pair) -> Result<()> {
    let Pair { connector, acceptor } = &mut pair;
    let calling = async {
        // A caller that has verified the certificate it saw learns only later that its own was refused.
        let Ok((_connection, stream)) = connector.connect().await else { return Ok(()) };
        let session = start(stream, 1);
        let is_decided = |status: &Status| matches!(status.state, State::Established | State::Closed);
        let status = session.until(PATIENCE, "the caller to be told", is_decided).await?;
        ensure!(status.state == State::Closed, "the caller has a session");
        Ok(())
    };
    let (called, calling) = tokio::join!(acceptor.accept(), calling);
    calling?;
    let Err(reason) = called?.1 else { bail!("the router called has a connection") };
    ensure!(reason.to_string().contains("certificate"), "refused for another reason: {reason:#}");
    Ok(())
}

/// Strangers at either end; if sabotaged, the certificates are right.
pub(super) async fn other_certificate(Conditions { is_sabotaged, .. }: Conditions) -> Result<String> {
    let (a, b, stranger) = (router(USUAL)?, router(USUAL)?, router(USUAL)?);
    let (caller, called) = if is_sabotaged { (&a, &b) } else { (&stranger, &stranger) };
    refused(Pair::new(caller, &b, [&b, &a])?).await?;
    refused(Pair::new(&a, called, [&b, &a])?).await?;
    let Up { sessions, .. } = Pair::new(&a, &b, [&b, &a])?.establish().await?;
    sessions.pass_route().await?;
    Ok("a router that shows another certificate than the configured one is refused and gets no session, whichever of the two \
        calls; with the right certificates a session opens and carries routes"
        .to_owned())
}
