//! Sessions over QUIC, between two UDP sockets on loopback, with every packet counted.

mod ledger;
mod pair;

use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::Connection;
use rustls::CipherSuite;
use tokio::time::{sleep, timeout};

use self::ledger::Ledger;
use self::pair::{Pair, Router, Up};
use super::peers::{GLANCE, until};
use super::routes::{MEMORY, ROUTES, TIME, exchange, peak_memory};
use super::{Conditions, Failure, Outcome, ensure, grouped};
use crate::bgp::rib::Route;
use crate::bgp::session::{Session, State, Status};
use crate::quic::suite_name;
use crate::routes::generate;

/// Routes sent each way under each suite.
const FEW: usize = 1000;
/// How long a change of the key or the end of a refused connection may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A suite that does not go together with this one.
fn another(suite: CipherSuite) -> CipherSuite {
    if suite == CipherSuite::TLS13_AES_128_GCM_SHA256 {
        CipherSuite::TLS13_AES_256_GCM_SHA384
    } else {
        CipherSuite::TLS13_AES_128_GCM_SHA256
    }
}

pub(super) async fn session(suite: CipherSuite, conditions: Conditions) -> Outcome {
    let other = if conditions.sabotaged { another(suite) } else { suite };
    let pair = Pair::new(Router::new(&[suite])?, Router::new(&[other])?)?;
    let up = pair.establish().await?;
    let table = generate(FEW);
    exchange(&up.sessions, Arc::clone(&table), &table).await?;
    up.sessions.still_up()?;
    let packets = pair.all_opened()?;
    Ok(format!(
        "{} routes each way in {packets} packets, each sealed and opened by Wireseal under {}",
        grouped(FEW),
        suite_name(suite)
    ))
}

pub(super) async fn full_table(conditions: Conditions) -> Outcome {
    let table = generate(ROUTES);
    let sent = if conditions.sabotaged { table[1..].into() } else { Arc::clone(&table) };
    let pair = Pair::usual()?;
    let up = pair.establish().await?;

    let started = Instant::now();
    let updates = exchange(&up.sessions, sent, &table).await?;
    let took = started.elapsed();
    // Without optimisation the time says nothing.
    ensure!(cfg!(debug_assertions) || took <= TIME, "{ROUTES} routes took {:.1} s", took.as_secs_f64());
    up.sessions.still_up()?;
    let outcome = format!(
        "{} routes each way in {} UPDATEs, both tables equal after {:.2} s; {} packets, each sealed and opened by Wireseal",
        grouped(ROUTES),
        grouped(updates),
        took.as_secs_f64(),
        grouped(pair.all_opened()?)
    );
    let Some(peak) = peak_memory() else { return Ok(outcome) };
    ensure!(peak <= MEMORY, "the program has used {peak} MiB of memory, {MEMORY} are allowed");
    Ok(format!("{outcome}; {peak} MiB of memory at most"))
}

/// Has one end change its key, and waits until it seals with another one.
async fn update_key(
    session: &Session,
    connection: &Connection,
    ledger: &Ledger,
    known: &Arc<[Route]>,
) -> Result<(), Failure> {
    let before = ledger.sealing_keys();
    let updated = async {
        while ledger.sealing_keys() == before {
            // While the last update is not over it does nothing (RFC 9001 section 6.5).
            connection.force_key_update();
            // Only what is sent shows the new key.
            session.announce(Arc::clone(known)).await?;
            sleep(GLANCE).await;
        }
        Ok(())
    };
    timeout(PATIENCE, updated).await.map_err(|_| Failure(format!("sealed with key {before} only")))?
}

pub(super) async fn key_update(conditions: Conditions) -> Outcome {
    let table = generate(ROUTES);
    let pair = Pair::usual()?;
    let up = pair.establish().await?;
    let [a, b] = [(&up.sessions.a, &up.a, &pair.a.ledger), (&up.sessions.b, &up.b, &pair.b.ledger)];
    let known: Arc<[Route]> = table[..1].into();
    let mut announced = 0;
    for (asked, part) in [None, Some(a), Some(b)].into_iter().zip(table.chunks(ROUTES.div_ceil(3))) {
        let part: Arc<[Route]> = part.into();
        for session in [&up.sessions.a, &up.sessions.b] {
            session.announce(Arc::clone(&part)).await?;
        }
        // The part is on its way when the key changes.
        if let Some((session, connection, ledger)) = asked.filter(|_| !conditions.sabotaged) {
            update_key(session, connection, ledger, &known).await?;
        }
        announced += part.len();
        for session in [&up.sessions.a, &up.sessions.b] {
            let all = |status: &Status| status.ipv4_routes + status.ipv6_routes == announced;
            until(session, "all routes", all).await?;
        }
    }
    // An end takes the new key with the first packet after it has seen it: after the second pair of routes both have.
    for _ in 0..2 {
        up.sessions.pass_route().await?;
    }
    up.sessions.still_up()?;
    let packets = pair.all_opened()?;
    let keys = pair.a.ledger.sealing_keys();
    for (end, router) in [("first", &pair.a), ("second", &pair.b)] {
        let (sealed, opened) = (router.ledger.sealing_keys(), router.ledger.opening_keys());
        // quinn changes the key once by itself, somewhere in the first thousand packets.
        ensure!(
            sealed >= 3 && sealed == keys && opened == keys,
            "the {end} router sealed with {sealed} keys and opened with {opened}"
        );
    }
    Ok(format!(
        "{keys} keys in each direction: the first, two for the updates asked for, one by each router, and {} for quinn's own \
         updates; {} routes each way in {} packets, all opened; same QUIC connection, same BGP session",
        keys - 3,
        grouped(table.len()),
        grouped(packets)
    ))
}

/// Opens a connection that is to be refused for a certificate. Fails if the router called has a connection or the caller a
/// session, or if either waits for ever.
async fn refused(pair: &Pair) -> Result<(), Failure> {
    let calling = async {
        // A caller that has verified the certificate it saw learns only later that its own was refused.
        let Ok(session) = pair.call().await else { return Ok(()) };
        let mut status = session.status();
        let over = |state| matches!(state, State::Established | State::Closed);
        let ended = timeout(PATIENCE, status.wait_for(|status| over(status.state))).await;
        let state = ended.map_err(|_| Failure("the caller is not told".to_owned()))??.state;
        ensure!(state == State::Closed, "the caller has a session");
        Ok(())
    };
    let (called, calling) = tokio::join!(pair.answer(), calling);
    calling?;
    let Err(Failure(reason)) = called else {
        return Err(Failure("the router called has a connection".to_owned()));
    };
    ensure!(reason.contains("certificate"), "refused for another reason: {reason}");
    Ok(())
}

pub(super) async fn other_certificate(conditions: Conditions) -> Outcome {
    let (a, b) = (Router::usual()?, Router::usual()?);
    for stranger_calls in [true, false] {
        let stranger = Router::usual()?;
        let pair = match (conditions.sabotaged, stranger_calls) {
            (true, _) => Pair::new(a.clone(), b.clone())?,
            (false, true) => Pair::impostor(stranger, b.clone(), [&b, &a])?,
            (false, false) => Pair::impostor(a.clone(), stranger, [&b, &a])?,
        };
        refused(&pair).await?;
    }
    let pair = Pair::new(a, b)?;
    let Up { sessions, .. } = pair.establish().await?;
    sessions.pass_route().await?;
    Ok("a router that shows another certificate than the configured one is refused and gets no session, whichever of the two \
        calls; with the right certificates a session opens and carries routes"
        .to_owned())
}
