//! Two changes of the key under a live session, as its key chain prescribes them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use wireseal_tcp_ao::key_chain::{KeyChain, KeyChains, Timestamp};
use wireseal_tcp_ao::{ConnectionState, KeyId};

use super::peers::{GLANCE, Keys, Peers, Sessions, until};
use super::recording::{Recording, end_of};
use super::{Conditions, Failure, Outcome, ensure, grouped};
use crate::bgp::rib::{Family, Route};
use crate::protection;
use crate::routes::generate;
use crate::stack::Stack;
use crate::transport::memory::Direction;

/// Three keys, of three algorithms, each acceptable for an hour before it is sent with and after.
const CHAIN: &str = r#"
[[key-chain]]
name = "demonstration"
accept-tolerance = 3600

[[key-chain.key]]
send-id = 1
algorithm = "HMAC-SHA-1-96"
secret = "the secret of spring"
send = { until = 2026-07-01T00:00:00Z }

[[key-chain.key]]
send-id = 2
algorithm = "AES-128-CMAC-96"
secret = "the secret of summer"
send = { from = 2026-07-01T00:00:00Z, until = 2026-10-01T00:00:00Z }

[[key-chain.key]]
send-id = 3
algorithm = "HMAC-SHA256-128"
secret = "the secret of autumn and of winter"
send = { from = 2026-10-01T00:00:00Z }
"#;

/// What the clocks are put to while routes flow, and the key that both routers must have come to sign with.
const CLOCK: [(&str, u8); 7] = [
    ("2026-06-30T22:00:00Z", 1),
    ("2026-06-30T23:30:00Z", 1),
    ("2026-07-01T00:30:00Z", 2),
    ("2026-07-01T02:00:00Z", 2),
    ("2026-09-30T23:30:00Z", 2),
    ("2026-10-01T00:30:00Z", 3),
    ("2026-10-01T02:00:00Z", 3),
];
/// Routes that flow each way at each step.
const ROUTES: usize = 3000;
/// How long a step may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The chain of the second router when it has not been told of the second key.
fn without_second_key(chain: &KeyChain) -> Result<KeyChain, Failure> {
    let keys = chain.keys().iter().filter(|key| key.mkt().send_id() != KeyId(2)).cloned();
    Ok(KeyChain::new(chain.name(), keys.collect())?.with_accept_tolerance(chain.accept_tolerance())?)
}

fn state(stack: &Stack<protection::Protected>) -> Option<ConnectionState> {
    stack.with_device(|device| device.shim().connections().find_map(|connection| connection.export().ok()))
}

/// Waits until both routers sign with the key and both have all routes.
async fn settle(peers: &Peers, sessions: &Sessions, id: u8, routes: usize) -> Result<(), Failure> {
    let rolled_over = async {
        while [&peers.a, &peers.b].iter().any(|stack| state(stack).map(|s| s.current_key) != Some(KeyId(id)))
        {
            sleep(GLANCE).await;
        }
    };
    if timeout(PATIENCE, rolled_over).await.is_err() {
        let [a, b] = [&peers.a, &peers.b].map(|stack| {
            state(stack).map_or("nothing".to_owned(), |state| format!("key {}", state.current_key))
        });
        let [by_a, by_b] = peers.tallies();
        return Err(Failure(format!(
            "to sign with key {id}, but the first router signs with {a} and the second with {b} (first: {by_a}; second: \
             {by_b})"
        )));
    }
    for session in [&sessions.a, &sessions.b] {
        let arrived =
            until(session, "all routes", |status| status.ipv4_routes + status.ipv6_routes >= routes);
        timeout(PATIENCE, arrived)
            .await
            .map_err(|_| Failure(format!("not all of {routes} routes arrived under key {id}")))??;
    }
    Ok(())
}

/// Fails if a segment was sent twice; tells which keys the data was signed with.
fn check_stream(recording: &Recording, direction: Direction) -> Result<BTreeSet<u8>, Failure> {
    let (mut keys, mut highest) = (BTreeSet::new(), None);
    recording.each(direction, |segment| {
        let (first, end) = (segment.sequence(), end_of(&segment));
        if first != end {
            ensure!(highest.is_none_or(|highest| highest == first), "a segment was lost or sent twice");
            highest = Some(end);
        }
        if !segment.payload().is_empty() {
            keys.extend(segment.ao_option()?.map(|ao| ao.key_id.0));
        }
        Ok(())
    })?;
    Ok(keys)
}

pub(super) async fn twice(conditions: Conditions) -> Outcome {
    let chains = KeyChains::from_toml(CHAIN)?;
    let chain = chains.get("demonstration").ok_or_else(|| Failure("the chain is not there".to_owned()))?;
    let other = if conditions.sabotaged { without_second_key(chain)? } else { chain.clone() };
    let moments = CLOCK.iter().map(|(at, id)| Ok((at.parse::<Timestamp>()?, *id)));
    let moments: Vec<(Timestamp, u8)> = moments.collect::<Result<_, Failure>>()?;
    let keys = Keys { a: Some(chain.mkts(moments[0].0)), b: Some(other.mkts(moments[0].0)) };
    let peers = Peers::new(conditions.seed, keys)?;
    let recording = Recording::start(&peers.wire);
    let sessions = peers.establish(Family::Ipv4).await?;
    let table = generate(ROUTES * CLOCK.len());
    let isns = |stack| state(stack).map(|state| (state.local_isn, state.remote_isn));
    let began = isns(&peers.a);

    for (step, (at, id)) in moments.into_iter().enumerate() {
        let mut parts = table[step * ROUTES..][..ROUTES].chunks(ROUTES / 3);
        // The clocks differ by some milliseconds, and routes flow before, between and after.
        for change in [None, Some((&peers.a, chain)), Some((&peers.b, &other))] {
            if let Some((stack, chain)) = change {
                // Peer 0 is the IPv4 one.
                protection::apply(stack, 0, chain, at);
            }
            let routes: Arc<[Route]> = parts.next().unwrap_or_default().into();
            sessions.a.announce(Arc::clone(&routes)).await?;
            sessions.b.announce(routes).await?;
            sleep(GLANCE).await;
        }
        let settled = settle(&peers, &sessions, id, (step + 1) * ROUTES).await;
        settled.map_err(|Failure(what)| Failure(format!("at {at}, expected {what}")))?;
    }
    peers.quiet(&sessions).await?;
    sessions.still_up()?;
    let [by_a, by_b] = peers.all_verified()?;
    ensure!(began.is_some() && isns(&peers.a) == began, "the TCP connection is another one");
    for direction in [Direction::AToB, Direction::BToA] {
        let keys = check_stream(&recording, direction)?;
        ensure!(keys == BTreeSet::from([1, 2, 3]), "data was signed with the keys {keys:?}");
    }
    Ok(format!(
        "keys 1, 2 and 3 signed {} routes each way in {} segments; all verified, none lost or sent twice, same TCP \
         connection, same BGP session",
        grouped(table.len()),
        grouped(by_a + by_b)
    ))
}
