//! What happens to a live session: attacks by someone who reads everything on the wire and can send anything, and two key rollovers
//! on the schedule of a key chain.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use speaker::forge::{Forgery, correct_checksum};
use speaker::link::Direction;
use speaker::protection;
use speaker::routes::{Family, generate};
use speaker::stack::Stack;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::KeyChains;
use wireseal_tcp_ao::{Connection, KeyId, MKTS_PER_PEER, MktSet, Segment, SocketPair};

use super::sessions::{
    Conditions, GLANCE, Pair, SECRET, Sessions, carries_data, grouped, key, next_route, usual_key, usual_keys,
};

/// A secret that an attacker might guess.
pub const GUESS: &[u8; 32] = b"someone else guesses this secret";
/// A KeyID that neither router has.
pub const UNKNOWN_ID: u8 = 9;
/// A BGP NOTIFICATION: Cease, Administrative Shutdown (RFC 4271 §4.5, RFC 4486 §4).
const CEASE: &[u8] =
    &[255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 21, 3, 6, 2];
/// The first router's port, where two connections in a row must have the same one.
const PORT: u16 = 50_000;
/// UPDATEs per announced route: the route itself and the End-of-RIB of each family.
const UPDATES_PER_ROUTE: u64 = 3;
/// How long a reset or a segment may take on a good wire.
const PATIENCE: Duration = Duration::from_secs(5);

/// A packet that would end the session if the second router believed that the first had sent it.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// A RST; otherwise a NOTIFICATION.
    pub is_reset: bool,
    /// KeyID and secret to sign it with.
    pub signed: Option<(u8, &'static [u8; 32])>,
    /// The second router's counter for it.
    pub expected: &'static str,
}

/// A live session over IPv4 after an exchange of routes.
struct Scene {
    pair: Pair,
    sessions: Sessions,
    sockets: SocketPair,
}

impl Scene {
    async fn begin(pair: Pair) -> Result<Self> {
        let (sessions, sockets) = pair.establish(Family::Ipv4, PORT).await?;
        sessions.pass_route().await?;
        pair.quiet(&sessions).await?;
        Ok(Self { pair, sessions, sockets })
    }

    /// Delivers a packet to the second router. Fails unless it is counted as `expected`, and the session stays up and
    /// carries routes.
    async fn deliver(&self, packet: Vec<u8>, expected: &str) -> Result<String> {
        let before = self.pair.b.tally();
        self.pair.wire.inject_at_b(packet);
        self.pair.taken_in().await?;
        let seen = self.pair.b.tally().since(&before).to_string();
        let passed = self.sessions.pass_route().await.and_then(|()| self.sessions.still_up());
        match passed {
            Ok(()) if seen == expected => Ok(format!("{seen}, session up")),
            Ok(()) => bail!("{seen}, instead of {expected}"),
            Err(down) => bail!("{seen}, expected {expected}; {down:#}"),
        }
    }
}

/// Sends one packet in the first router's name. If sabotaged, the secret was guessed right, the second router has the
/// unknown key, or nothing is protected at all.
pub async fn attack(attack: Attack, Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let usual = usual_key()?;
    let (a, b, mkt) = match (is_sabotaged, attack.signed) {
        (true, None) => (None, None, None),
        (false, None) => (usual_keys()?, usual_keys()?, None),
        (true, Some((id, _))) if KeyId(id) == usual.send_id() => (usual_keys()?, usual_keys()?, Some(usual)),
        (_, Some((id, secret))) => {
            let stray = key(id, TcpAoAlgorithm::Aes128Cmac, secret)?;
            let known = is_sabotaged.then(|| stray.clone());
            (usual_keys()?, Some(MktSet::from_mkts([usual].into_iter().chain(known))?), Some(stray))
        }
    };
    let scene = Scene::begin(Pair::new(seed, a, b)?).await?;
    let recording = scene.pair.wire.recording();
    let packets = recording.iter().map(|(_, packet)| packet.as_slice());
    let next = Forgery::next(packets.clone(), scene.sockets)?;
    let forgery = if attack.is_reset { next.reset() } else { next.carrying(CEASE) };
    let packet = match mkt {
        Some(mkt) => forgery.signed(&mkt, packets)?,
        None => forgery.unsigned()?,
    };
    scene.deliver(packet, attack.expected).await
}

/// A router with a guessed secret tries to open a session; if sabotaged, the secret is right.
pub async fn bad_key_session(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let mkt = key(1, TcpAoAlgorithm::Aes128Cmac, if is_sabotaged { SECRET } else { GUESS })?;
    let pair = Pair::new(seed, Some(MktSet::from_mkts([mkt])?), usual_keys()?)?;
    // Fails at the first packet that a router drops.
    let opened = pair.connect(Family::Ipv4, 0).await;
    ensure!(opened.is_err(), "the connection was opened all the same");
    pair.taken_in().await?;
    let seen = pair.b.tally();
    let dropped = seen.dropped();
    let is_expected = dropped > 0 && seen.to_string() == format!("dropped {dropped}, bad +{dropped}");
    ensure!(is_expected, "{seen}, instead of bad alone");
    let answers = pair.wire.recorded(Direction::BToA).len();
    ensure!(answers == 0, "the second router answered {answers} times");
    Ok(format!("{seen}; not one answer, no session"))
}

/// A segment of a connection with the addresses and ports of the next one.
async fn of_earlier_connection(pair: &Pair) -> Result<Vec<u8>> {
    let (mut a, mut b) = pair.connect(Family::Ipv4, PORT).await?;
    a.write_all(CEASE).await?;
    b.read_exact(&mut [0; CEASE.len()]).await?;
    a.abort();
    let reset = timeout(PATIENCE, b.read_u8()).await;
    ensure!(matches!(reset, Ok(Err(_))), "the earlier connection does not end");
    pair.last_data()
}

/// TCP discards copies of this connection's segments; Wireseal drops those of an earlier connection.
pub async fn replay(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let keys = if is_sabotaged { None } else { usual_keys()? };
    let pair = Pair::new(seed, keys.clone(), keys)?;
    let earlier = of_earlier_connection(&pair).await?;
    let scene = Scene::begin(pair).await?;

    let updates = || scene.sessions.b.status().borrow().updates;
    let before = updates();
    let verified = scene.deliver(scene.pair.last_data()?, "dropped 0, good +1").await?;
    scene.pair.quiet(&scene.sessions).await?;
    let delivered = updates() - before;
    ensure!(delivered == UPDATES_PER_ROUTE, "{delivered} UPDATEs arrived instead of {UPDATES_PER_ROUTE}");
    let dropped = scene.deliver(earlier, "dropped 1, bad +1").await?;
    Ok(format!(
        "of this session: {verified}; the MAC is right, and TCP discards what it has already. Of an earlier one: {dropped}"
    ))
}

/// Holds a segment back, and delivers it after copies with one bit of the payload flipped, each bit in turn.
pub async fn flipped_bit(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let scene = Scene::begin(Pair::new(seed, usual_keys()?, usual_keys()?)?).await?;
    let Scene { pair, sessions, .. } = &scene;
    let (hold, mut held) = mpsc::unbounded_channel();
    pair.wire.tap(move |direction, packet| {
        let is_held = direction == Direction::AToB && carries_data(packet);
        !is_held || hold.send(packet.to_vec()).is_err()
    });
    let routes = next_route(&sessions.b);
    let before = pair.b.tally();
    sessions.a.announce(Arc::clone(&routes)).await?;
    let original = timeout(PATIENCE, held.recv()).await.ok().flatten();
    let original = original.context("the first router sends no route")?;
    let bits = Segment::parse(&original)?.payload().len() * 8;
    let start = original.len() - bits / 8;
    for bit in 0..bits {
        let mut altered = original.clone();
        altered[start + bit / 8] ^= if is_sabotaged { 0 } else { 0x80 >> (bit % 8) };
        correct_checksum(&mut altered)?;
        pair.wire.inject_at_b(altered);
    }
    pair.taken_in().await?;
    let (seen, expected) = (pair.b.tally().since(&before), format!("dropped {bits}, bad +{bits}"));
    ensure!(seen.to_string() == expected, "{seen}, instead of {expected}");

    pair.wire.tap(|_, _| true);
    let passed = scene.deliver(original, "dropped 0, good +1").await?;
    ensure!(sessions.b.rib().get(routes[0].prefix).is_some(), "the route in it did not arrive");
    Ok(format!("each of {bits} bits: {seen}; then the segment as it was sent: {passed}"))
}

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
const ROUTES_PER_STEP: usize = 3000;

/// What `of` returns for the protected connection.
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
pub async fn roll_over_twice(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let chain = |text: &str| {
        let chains = KeyChains::from_toml(text)?;
        chains.get("demonstration").cloned().context("the chain is missing")
    };
    let summer = if is_sabotaged { "another secret" } else { "the secret of summer" };
    let (chain, other) = (chain(CHAIN)?, chain(&CHAIN.replace("the secret of summer", summer))?);
    let begin = CLOCK[0].0.parse()?;
    let pair = Pair::new(seed, Some(chain.mkts(begin)), Some(other.mkts(begin)))?;
    let (sessions, _) = pair.establish(Family::Ipv4, 0).await?;
    let table = generate((ROUTES_PER_STEP * CLOCK.len()) as u32);
    let isns = || connection(&pair.a, |end| (end.local_isn(), end.remote_isn()));
    let first_isns = isns().context("the connection is not protected")?;

    for (step, (at, id)) in CLOCK.into_iter().enumerate() {
        let mut parts = table[step * ROUTES_PER_STEP..][..ROUTES_PER_STEP].chunks(ROUTES_PER_STEP / 3);
        // The clocks are set some milliseconds apart, and routes flow before, between and after.
        for change in [None, Some((&pair.a, &chain)), Some((&pair.b, &other))] {
            if let Some((stack, chain)) = change {
                // Peer 0 is the IPv4 one.
                protection::apply(stack, 0, chain, at.parse()?);
            }
            sessions.announce(parts.next().unwrap_or_default()).await?;
            sleep(GLANCE).await;
        }
        let settled = settle(&pair, &sessions, id, (step + 1) * ROUTES_PER_STEP).await;
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
