//! Two key rollovers of a live session, on the schedule of a key chain.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::{sleep, timeout};
use wireseal_keys::KeyChains;
use wireseal_tcp_ao::{Connection, MKTS_PER_PEER, Segment};

use super::pair::Pair;
use super::sessions::{Conditions, GLANCE, Sessions, grouped};
use speaker::link::Direction;
use speaker::protection;
use speaker::routes::Family;
use speaker::routes::generate;
use speaker::stack::Stack;

/// Three keys, one after the other.
const CHAIN: &str = include_str!("../../configs/demonstration.toml");

/// What both clocks are set to, and the key that both routers must then sign with.
const CLOCK: [(&str, u8); 7] = [
    ("2026-06-30T22:00:00Z", 1),
    ("2026-06-30T23:30:00Z", 1),
    ("2026-07-01T00:30:00Z", 2),
    ("2026-07-01T02:00:00Z", 2),
    ("2026-09-30T23:30:00Z", 2),
    ("2026-10-01T00:30:00Z", 3),
    ("2026-10-01T02:00:00Z", 3),
];
/// Routes that flow each way in each step.
const ROUTES: usize = 3000;
/// Time limit for a step.
const PATIENCE: Duration = Duration::from_secs(5);

/// What `of` says of the protected connection.
fn connection<R>(stack: &Stack, of: impl FnMut(&Connection<MKTS_PER_PEER>) -> R) -> Option<R> {
    stack.with_device(|device| {
        device.shim().connections().find(|connection| connection.is_established()).map(of)
    })
}

/// Waits until both routers sign with key `id` and have received all routes.
async fn settle(pair: &Pair, sessions: &Sessions, id: u8, routes: usize) -> Result<()> {
    let current_keys =
        || [&pair.a, &pair.b].map(|stack| connection(stack, |end| end.current_key().send_id.0));
    let rolled_over = async {
        while current_keys() != [Some(id); 2] {
            sleep(GLANCE).await;
        }
    };
    if timeout(PATIENCE, rolled_over).await.is_err() {
        let (keys, [(_, a), (_, b)]) = (current_keys(), pair.tallies());
        bail!("keys {keys:?} instead of {id}; first router: {a}; second router: {b}");
    }
    timeout(PATIENCE, sessions.await_routes(routes)).await.context("the routes did not arrive")?
}

/// The keys that signed data in one direction. Fails if a segment was lost or sent twice.
fn keys_of_data(pair: &Pair, direction: Direction) -> Result<BTreeSet<u8>> {
    let (mut keys, mut next) = (BTreeSet::new(), None);
    for packet in pair.wire.recorded(direction) {
        let segment = Segment::parse(&packet)?;
        if segment.sequence() != segment.end() {
            ensure!(next.is_none_or(|next| next == segment.sequence()), "a segment was lost or sent twice");
            next = Some(segment.end());
        }
        if !segment.payload().is_empty() {
            keys.extend(segment.ao_option()?.map(|ao| ao.key_id.0));
        }
    }
    Ok(keys)
}

/// Two rollovers. If sabotaged, the second router has another secret for the second key.
pub async fn twice(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let chain = |text: &str| {
        let chains = KeyChains::from_toml(text)?;
        chains.get("demonstration").cloned().context("the chain is missing")
    };
    let summer = if is_sabotaged { "another secret" } else { "the secret of summer" };
    let (chain, other) = (chain(CHAIN)?, chain(&CHAIN.replace("the secret of summer", summer))?);
    let begin = CLOCK[0].0.parse()?;
    let pair = Pair::new(seed, Some(chain.mkts(begin)), Some(other.mkts(begin)))?;
    let (sessions, _) = pair.establish(Family::Ipv4, 0).await?;
    let table = generate((ROUTES * CLOCK.len()) as u32);
    let isns = || connection(&pair.a, |end| (end.local_isn(), end.remote_isn()));
    let first_isns = isns().context("the connection is not protected")?;

    for (step, (at, id)) in CLOCK.into_iter().enumerate() {
        let mut parts = table[step * ROUTES..][..ROUTES].chunks(ROUTES / 3);
        // The clocks are set some milliseconds apart, and routes flow before, between and after.
        for change in [None, Some((&pair.a, &chain)), Some((&pair.b, &other))] {
            if let Some((stack, chain)) = change {
                // Peer 0 is the IPv4 one.
                protection::apply(stack, 0, chain, at.parse()?);
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
    ensure!(isns() == Some(first_isns), "the TCP connection is another one");
    for direction in [Direction::AToB, Direction::BToA] {
        let keys = keys_of_data(&pair, direction)?;
        ensure!(keys == BTreeSet::from([1, 2, 3]), "data was signed with the keys {keys:?}");
    }
    let routes = grouped(table.len() as u64);
    Ok(format!(
        "keys 1, 2 and 3 signed {routes} routes each way in {segments} segments; all verified, none lost or sent twice, \
         same TCP connection, same BGP session"
    ))
}
