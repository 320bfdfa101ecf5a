//! Two changes of the key under a live session, as its key chain prescribes them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::{sleep, timeout};
use wireseal_tcp_ao::key_chain::{KeyChain, KeyChains, Timestamp};
use wireseal_tcp_ao::{ConnectionState, KeyId, Segment};

use super::pair::Pair;
use super::sessions::{Conditions, GLANCE, Sessions, grouped};
use speaker::bgp::rib::Family;
use speaker::protection;
use speaker::routes::generate;
use speaker::stack::Stack;
use speaker::wire::Direction;

/// Three keys that follow each other.
const CHAIN: &str = include_str!("../../configs/demonstration.toml");

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

/// The chain of a router that has not been told of the second key.
fn without_second_key(chain: &KeyChain) -> Result<KeyChain> {
    let keys = chain.keys().iter().filter(|key| key.mkt().send_id() != KeyId(2)).cloned();
    Ok(KeyChain::new(chain.name(), keys.collect())?.with_accept_tolerance(chain.accept_tolerance())?)
}

fn state(stack: &Stack) -> Option<ConnectionState> {
    stack.with_device(|device| device.shim().connections().find_map(|connection| connection.export().ok()))
}

/// Waits until both routers sign with the key and both have all routes.
async fn settle(pair: &Pair, sessions: &Sessions, id: u8, routes: usize) -> Result<()> {
    let current_keys = || [&pair.a, &pair.b].map(|stack| state(stack).map(|state| state.current_key.0));
    let rolled_over = async {
        while current_keys() != [Some(id); 2] {
            sleep(GLANCE).await;
        }
    };
    if timeout(PATIENCE, rolled_over).await.is_err() {
        let ([a, b], [by_a, by_b]) = (current_keys(), pair.tallies());
        bail!(
            "expected key {id}: the first router signs with {a:?} ({by_a}), the second with {b:?} ({by_b})"
        );
    }
    timeout(PATIENCE, sessions.await_routes(routes)).await.context("the routes did not arrive")?
}

/// Fails if a segment was sent twice; says which keys the data was signed with.
fn check_stream(pair: &Pair, direction: Direction) -> Result<BTreeSet<u8>> {
    let (mut keys, mut highest) = (BTreeSet::new(), None);
    for packet in pair.recorded(direction) {
        let segment = Segment::parse(&packet)?;
        let (first, end) = (segment.sequence(), segment.end());
        if first != end {
            ensure!(highest.is_none_or(|highest| highest == first), "a segment was lost or sent twice");
            highest = Some(end);
        }
        if !segment.payload().is_empty() {
            keys.extend(segment.ao_option()?.map(|ao| ao.key_id.0));
        }
    }
    Ok(keys)
}

/// Rolls over twice; if sabotaged, the second router is not told of the second key.
pub(super) async fn twice(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let chains = KeyChains::from_toml(CHAIN)?;
    let chain = chains.get("demonstration").context("the chain is not there")?;
    let other = if is_sabotaged { without_second_key(chain)? } else { chain.clone() };
    let moments = CLOCK.iter().map(|(at, id)| Ok((at.parse::<Timestamp>()?, *id)));
    let moments: Vec<(Timestamp, u8)> = moments.collect::<Result<_>>()?;
    let pair = Pair::new(seed, Some(chain.mkts(moments[0].0)), Some(other.mkts(moments[0].0)))?;
    let (sessions, _) = pair.establish(Family::Ipv4, 0).await?;
    let table = generate((ROUTES * CLOCK.len()) as u32);
    let isns = || state(&pair.a).map(|state| (state.local_isn, state.remote_isn));
    let began = isns().context("the connection is not protected")?;

    for (step, (at, id)) in moments.into_iter().enumerate() {
        let mut parts = table[step * ROUTES..][..ROUTES].chunks(ROUTES / 3);
        // The clocks differ by some milliseconds, and routes flow before, between and after.
        for change in [None, Some((&pair.a, chain)), Some((&pair.b, &other))] {
            if let Some((stack, chain)) = change {
                // Peer 0 is the IPv4 one.
                protection::apply(stack, 0, chain, at);
            }
            sessions.announce(parts.next().unwrap_or_default()).await?;
            sleep(GLANCE).await;
        }
        let settled = settle(&pair, &sessions, id, (step + 1) * ROUTES).await;
        settled.with_context(|| format!("at {at}"))?;
    }
    pair.quiet(&sessions).await?;
    sessions.still_up()?;
    let segments = grouped(pair.all_verified()?.iter().sum());
    ensure!(isns() == Some(began), "the TCP connection is another one");
    for direction in [Direction::AToB, Direction::BToA] {
        let keys = check_stream(&pair, direction)?;
        ensure!(keys == BTreeSet::from([1, 2, 3]), "data was signed with the keys {keys:?}");
    }
    let routes = grouped(table.len() as u64);
    Ok(format!(
        "keys 1, 2 and 3 signed {routes} routes each way in {segments} segments; all verified, none lost or sent twice, \
         same TCP connection, same BGP session"
    ))
}
