//! Somebody on the wire of a live session reads everything and can send anything.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use smoltcp::wire::{IpAddress, Ipv4Packet, TcpPacket, TcpSeqNumber};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::option::{AO_HEADER_LENGTH, TCP_HEADER_LENGTH};
use wireseal_tcp_ao::{Connection, ConnectionState, Mkt, MktSet, Segment, SocketPair};

use super::pair::{Keys, Pair, SECRET, key, usual_key, usual_keys};
use super::sessions::{Conditions, GLANCE, Sessions, next_route};
use super::tally::Tally;
use speaker::bgp::rib::Family;
use speaker::wire::Direction;

/// What somebody without the secret might guess.
const GUESS: &[u8; 32] = b"someone else guesses this secret";
/// The id of a key that no router has.
const UNKNOWN_ID: u8 = 9;
/// A NOTIFICATION of BGP: Cease, Administrative Shutdown (RFC 4271 §4.5, RFC 4486).
const CEASE: [u8; 21] =
    [255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 21, 3, 6, 2];
/// Octets of the IPv4 header that smoltcp writes.
const IP_HEADER_LENGTH: usize = 20;
/// The first router's port, the same for two connections in a row.
const PORT: u16 = 50_000;
/// UPDATEs that announce one route: the route, and the end of the table for each family.
const UPDATES_PER_ROUTE: u64 = 3;
/// How long a reset or a segment may take on a good wire.
const PATIENCE: Duration = Duration::from_secs(5);

/// One packet that would end the session if it got through.
#[derive(Clone, Copy, Debug)]
pub(super) enum Strike {
    /// A NOTIFICATION signed with a guess.
    BadKey,
    /// A NOTIFICATION signed with the right secret under an id that no router has.
    UnknownKeyId,
    /// A reset with the right addresses, ports and sequence number.
    UnsignedReset,
    /// The same with a made-up MAC.
    ForgedReset,
}

/// A live session over IPv4 that has exchanged a route.
struct Scene {
    pair: Pair,
    sessions: Sessions,
    sockets: SocketPair,
}

impl Scene {
    async fn set(seed: u64, a: Keys, b: Keys) -> Result<Self> {
        Self::begin(Pair::new(seed, a, b)?).await
    }

    async fn begin(pair: Pair) -> Result<Self> {
        let (sessions, sockets) = pair.establish(Family::Ipv4, PORT).await?;
        sessions.pass_route().await?;
        pair.quiet(&sessions).await?;
        Ok(Self { pair, sessions, sockets })
    }

    /// A packet in the first router's name, without payload, that its TCP could have sent next: the one thing amiss is what
    /// the attacker then makes of it.
    fn forge(&self) -> Result<Forgery> {
        let last = self.pair.recorded(Direction::AToB).pop().context("nothing went over the wire")?;
        let next = Segment::parse(&last)?.end();
        let mut forgery = Forgery(last).carrying(&[]);
        forgery.tcp().set_seq_number(TcpSeqNumber(next.0.cast_signed()));
        Ok(forgery)
    }

    /// The first router's connection as somebody has it who knows all but, perhaps, the secret: ISNs, extensions and sequence
    /// numbers are right, the key is `mkt`.
    fn sign(&self, mut packet: Vec<u8>, mkt: Mkt) -> Result<Vec<u8>> {
        let export = |device: &mut speaker::stack::Device| {
            device.shim().connection(&self.sockets).map(Connection::export)
        };
        let state = self.pair.a.with_device(export).context("the connection is not protected")??;
        let state = ConnectionState { current_key: mkt.send_id(), rnext_key: mkt.recv_id(), ..state };
        let mut impostor = Connection::import(&state, &MktSet::<4>::from_mkts([mkt])?)?;
        impostor.sign(&mut packet[IP_HEADER_LENGTH..])?;
        Ok(packet)
    }

    /// Puts packets onto the quiet wire, to the second router. Fails unless that counts exactly `expected`, and the session is
    /// still up and carries routes.
    async fn strike(&self, packet: Forgery, expected: Tally) -> Result<String> {
        let before = Tally::of(&self.pair.b);
        self.pair.wire.inject_at_b(packet.finish());
        self.pair.taken_in().await?;
        let seen = Tally::of(&self.pair.b).since(&before);
        let passed = self.sessions.pass_route().await.and_then(|()| self.sessions.still_up());
        match passed {
            Ok(()) if seen == expected => Ok(format!("{seen}, session up")),
            Ok(()) => bail!("{seen}, instead of {expected}"),
            Err(down) => bail!("{seen}, expected {expected}; {down:#}"),
        }
    }
}

/// An IPv4 packet that no router sent: one off the wire, altered.
struct Forgery(Vec<u8>);

impl Forgery {
    fn tcp(&mut self) -> TcpPacket<&mut [u8]> {
        TcpPacket::new_unchecked(&mut self.0[IP_HEADER_LENGTH..])
    }

    fn ip(&mut self) -> Ipv4Packet<&mut [u8]> {
        Ipv4Packet::new_unchecked(&mut self.0)
    }

    fn payload_start(&mut self) -> usize {
        IP_HEADER_LENGTH + usize::from(self.tcp().header_len())
    }

    fn carrying(mut self, payload: &[u8]) -> Self {
        let start = self.payload_start();
        self.0.truncate(start);
        self.0.extend_from_slice(payload);
        self.measured()
    }

    /// Has the length that it has.
    fn measured(mut self) -> Self {
        let length = self.0.len() as u16;
        self.ip().set_total_len(length);
        self
    }

    fn reset(mut self) -> Self {
        self.tcp().set_rst(true);
        self.tcp().set_psh(false);
        self
    }

    fn unsigned(mut self) -> Self {
        let start = self.payload_start();
        self.0.drain(IP_HEADER_LENGTH + TCP_HEADER_LENGTH..start);
        self.tcp().set_header_len(TCP_HEADER_LENGTH as u8);
        self.measured()
    }

    /// Has this octet in place of each of the MAC's.
    fn with_mac_of(mut self, octet: u8) -> Result<Self> {
        let ao = Segment::parse(&self.0)?.ao_option()?.map(|ao| (ao.offset + AO_HEADER_LENGTH, ao.mac.len()));
        let (offset, length) = ao.context("there is no signed segment to forge")?;
        self.0[IP_HEADER_LENGTH + TCP_HEADER_LENGTH + offset..][..length].fill(octet);
        Ok(self)
    }

    /// The packet, with its checksums right, so that it is not dropped for them.
    fn finish(mut self) -> Vec<u8> {
        self.ip().fill_checksum();
        let (source, destination) = (self.ip().src_addr(), self.ip().dst_addr());
        self.tcp().fill_checksum(&IpAddress::from(source), &IpAddress::from(destination));
        self.0
    }
}

/// Somebody who has got hold of everything but, perhaps, the secret sends what the first router would.
pub(super) async fn strike(strike: Strike, conditions: Conditions) -> Result<String> {
    let Conditions { seed, is_sabotaged } = conditions;
    let stray = key(UNKNOWN_ID, TcpAoAlgorithm::Aes128Cmac, SECRET)?;
    let (a, b) = match (strike, is_sabotaged) {
        (Strike::UnsignedReset, true) => (None, None),
        (Strike::UnknownKeyId, true) => {
            (usual_keys()?, Some(MktSet::from_mkts([usual_key()?, stray.clone()])?))
        }
        _ => (usual_keys()?, usual_keys()?),
    };
    let scene = Scene::set(seed, a, b).await?;
    let forgery = scene.forge()?;
    let signed = |forgery: Forgery, mkt| scene.sign(forgery.finish(), mkt).map(Forgery);
    let (packet, expected) = match strike {
        Strike::BadKey => {
            let mkt = key(1, TcpAoAlgorithm::Aes128Cmac, if is_sabotaged { SECRET } else { GUESS })?;
            (signed(forgery.carrying(&CEASE), mkt)?, Tally::bad(1))
        }
        Strike::UnknownKeyId => (signed(forgery.carrying(&CEASE), stray)?, Tally::KEY_NOT_FOUND),
        Strike::UnsignedReset => (forgery.reset().unsigned(), Tally::REQUIRED),
        Strike::ForgedReset if is_sabotaged => (signed(forgery.reset(), usual_key()?)?, Tally::bad(1)),
        Strike::ForgedReset => (forgery.reset().with_mac_of(0xa5)?, Tally::bad(1)),
    };
    scene.strike(packet, expected).await
}

/// A router with another secret tries to open a session; if sabotaged, the secret is right.
pub(super) async fn bad_key_session(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let mkt = key(1, TcpAoAlgorithm::Aes128Cmac, if is_sabotaged { SECRET } else { GUESS })?;
    let pair = Pair::new(seed, Some(MktSet::from_mkts([mkt])?), usual_keys()?)?;
    // It is given up at the first packet that a router drops.
    let opened = pair.connect(Family::Ipv4, 0).await;
    ensure!(opened.is_err(), "the connection was opened all the same");
    pair.taken_in().await?;
    let seen = Tally::of(&pair.b);
    ensure!(seen.dropped() > 0 && seen == Tally::bad(seen.dropped()), "{seen}, instead of bad alone");
    let answers = pair.recorded(Direction::BToA).len();
    ensure!(answers == 0, "the second router answered {answers} times");
    Ok(format!("{seen}; not one answer, no session"))
}

/// A segment of a connection between the same addresses and ports as the one after it.
async fn of_earlier_connection(pair: &Pair) -> Result<Forgery> {
    let (mut a, mut b) = pair.connect(Family::Ipv4, PORT).await?;
    a.write_all(&CEASE).await?;
    b.read_exact(&mut [0; CEASE.len()]).await?;
    a.abort();
    let reset = timeout(PATIENCE, b.read_u8()).await;
    ensure!(matches!(reset, Ok(Err(_))), "the earlier connection does not end");
    pair.last_data().map(Forgery)
}

/// Copies of this connection's segments are TCP's to discard, those of an earlier one are Wireseal's.
pub(super) async fn replay(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let keys = if is_sabotaged { None } else { usual_keys()? };
    let pair = Pair::new(seed, keys.clone(), keys)?;
    let earlier = of_earlier_connection(&pair).await?;
    let scene = Scene::begin(pair).await?;

    let updates = || scene.sessions.b.status().borrow().updates;
    let before = updates();
    let verified = scene.strike(Forgery(scene.pair.last_data()?), Tally::good(1)).await?;
    scene.pair.quiet(&scene.sessions).await?;
    let delivered = updates() - before;
    ensure!(delivered == UPDATES_PER_ROUTE, "{delivered} UPDATEs arrived instead of {UPDATES_PER_ROUTE}");
    let dropped = scene.strike(earlier, Tally::bad(1)).await?;
    Ok(format!(
        "of this session: {verified}; its MAC is right, TCP knows its sequence number and delivers nothing twice. Of an \
         earlier one: {dropped}"
    ))
}

/// A segment is held on its way, and arrives only after copies of it that have each bit of the payload flipped in turn.
pub(super) async fn flipped_bit(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let scene = Scene::set(seed, usual_keys()?, usual_keys()?).await?;
    let Scene { pair, sessions, .. } = &scene;
    let held = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let hold = Arc::clone(&held);
    pair.wire.tap(move |direction, packet| {
        let carries_data = Segment::parse(packet).is_ok_and(|segment| !segment.payload().is_empty());
        let is_held = direction == Direction::AToB && carries_data;
        hold.lock().unwrap().extend(is_held.then(|| packet.to_vec()));
        !is_held
    });
    let routes = next_route(&sessions.b);
    let before = Tally::of(&pair.b);
    sessions.a.announce(Arc::clone(&routes)).await?;
    let first = async {
        loop {
            if let Some(first) = held.lock().unwrap().first() {
                return first.clone();
            }
            sleep(GLANCE).await;
        }
    };
    let original = timeout(PATIENCE, first).await.context("the first router sends no route")?;
    let bits = Segment::parse(&original)?.payload().len() * 8;
    let start = original.len() - bits / 8;
    for bit in 0..bits {
        let mut altered = original.clone();
        altered[start + bit / 8] ^= if is_sabotaged { 0 } else { 0x80 >> (bit % 8) };
        pair.wire.inject_at_b(Forgery(altered).finish());
    }
    pair.taken_in().await?;
    let (seen, expected) = (Tally::of(&pair.b).since(&before), Tally::bad(bits as u64));
    ensure!(seen == expected, "{seen}, instead of {expected}");

    pair.record();
    let passed = scene.strike(Forgery(original), Tally::good(1)).await?;
    ensure!(sessions.b.rib().get(routes[0].prefix).is_some(), "the route in it did not arrive");
    Ok(format!("each of {bits} bits: {seen}; then the segment as it was sent: {passed}"))
}
