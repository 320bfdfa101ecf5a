//! Two routers on one wire, which protect their connections with TCP-AO.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ipnet::IpNet;
use smoltcp::socket::tcp::CongestionControl;
use tokio::time::{sleep, timeout};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MKTS_PER_PEER, MasterKey, Mkt, MktSet, Segment, SocketPair};

use super::sessions::{
    Conditions, FEW, GLANCE, PATIENCE, ROUTES, Sessions, address, grouped, start, within_memory,
};
use super::tally::Tally;
use speaker::bgp;
use speaker::bgp::rib::Family;
use speaker::link::{DEFAULT_IP_MTU, Link};
use speaker::protection::peer;
use speaker::routes::generate;
use speaker::stack::{Stack, StackConfig, TcpStream};
use speaker::wire::{Direction, Wire};

/// A wire that has carried nothing for so long is quiet: longer than TCP holds an acknowledgment back.
const QUIET: Duration = Duration::from_millis(100);
/// The secret of the demonstration: 256 bits, as draft-ietf-tcpm-tcp-ao-algs asks for.
pub(super) const SECRET: &[u8; 32] = b"the two routers know this secret";
/// Routes sent each way over the bad wire, some 900 segments in all.
const IMPAIRED: u32 = 5000;
/// Of a hundred packets on it, so many are lost, as many reordered, and as many duplicated.
const PERCENT: u8 = 5;

/// A key with the same id in both directions.
pub(super) fn key(id: u8, algorithm: TcpAoAlgorithm, secret: &[u8]) -> Result<Mkt> {
    Ok(Mkt::new(KeyId(id), KeyId(id), algorithm, MasterKey::new(secret)?)?)
}

/// The key of all checks that are about something else.
pub(super) fn usual_key() -> Result<Mkt> {
    key(1, TcpAoAlgorithm::Aes128Cmac, SECRET)
}

/// What a router protects its connections with; nothing at all where there is no set.
pub(super) type Keys = Option<MktSet<MKTS_PER_PEER>>;

/// The usual key.
pub(super) fn usual_keys() -> Result<Keys> {
    Ok(Some(MktSet::from_mkts([usual_key()?])?))
}

/// Two routers with an address of each family; the first opens connections.
pub(super) struct Pair {
    pub(super) a: Stack,
    pub(super) b: Stack,
    pub(super) wire: Wire,
    recording: Recording,
}

/// Every packet on a wire.
type Recording = Arc<Mutex<Vec<(Direction, Vec<u8>)>>>;

fn stack(link: &Link, router: u8, keys: Keys, seed: u64) -> Result<Stack> {
    let nets = [(Family::Ipv4, 24), (Family::Ipv6, 64)];
    let config = StackConfig {
        hardware_address: [2, 0, 0, 0, 0, router],
        addresses: nets.map(|(family, length)| IpNet::new_assert(address(family, router), length)).into(),
        gateways: Vec::new(),
        congestion_control: CongestionControl::None,
        seed: seed ^ u64::from(router),
    };
    let between = |family| (address(family, router), address(family, 3 - router));
    let peers = keys
        .iter()
        .flat_map(|mkts| Family::ALL.map(between).map(|(local, remote)| peer(local, remote, mkts.clone())));
    Stack::start(link.clone(), peers.collect(), &config)
}

impl Pair {
    pub(super) fn new(seed: u64, a: Keys, b: Keys) -> Result<Self> {
        let wire = Wire::new(DEFAULT_IP_MTU, seed);
        let (a, b) = (stack(&wire.a, 1, a, seed)?, stack(&wire.b, 2, b, seed)?);
        let pair = Self { a, b, wire, recording: Recording::default() };
        pair.record();
        Ok(pair)
    }

    /// Records what goes over the wire, in place of any other tap.
    pub(super) fn record(&self) {
        let recording = Arc::clone(&self.recording);
        self.wire.tap(move |direction, packet| {
            recording.lock().unwrap().push((direction, packet.to_vec()));
            true
        });
    }

    /// The packets that have gone one way.
    pub(super) fn recorded(&self, direction: Direction) -> Vec<Vec<u8>> {
        let recording = self.recording.lock().unwrap();
        let one_way = recording.iter().filter(|(went, _)| *went == direction);
        one_way.map(|(_, packet)| packet.clone()).collect()
    }

    /// The last packet of the first router's that carries data.
    pub(super) fn last_data(&self) -> Result<Vec<u8>> {
        let carries_data =
            |packet: &Vec<u8>| Segment::parse(packet).is_ok_and(|segment| !segment.payload().is_empty());
        self.recorded(Direction::AToB).into_iter().rfind(carries_data).context("nothing was carried")
    }

    /// What the two routers have counted.
    pub(super) fn tallies(&self) -> [Tally; 2] {
        [Tally::of(&self.a), Tally::of(&self.b)]
    }

    /// Connects the routers, from a port that the first one chooses or from the given one. Gives up as soon as a router
    /// drops a packet.
    pub(super) async fn connect(&self, family: Family, port: u16) -> Result<(TcpStream, TcpStream)> {
        let before = self.tallies();
        let mut listener = self.b.listen(None, bgp::PORT)?;
        let [local, remote] =
            [(1, port), (2, bgp::PORT)].map(|(router, port)| SocketAddr::new(address(family, router), port));
        let dropping = async {
            loop {
                sleep(GLANCE).await;
                for (place, router) in ["first", "second"].iter().enumerate() {
                    let change = self.tallies()[place].since(&before[place]);
                    if change.dropped() > 0 {
                        return format!("no TCP connection, the {router} router: {change}");
                    }
                }
            }
        };
        tokio::select! {
            ends = async { tokio::join!(self.a.connect(remote, Some(local)), listener.accept()) } => Ok((ends.0?, ends.1?)),
            dropped = dropping => bail!(dropped),
            () = sleep(PATIENCE) => bail!("no TCP connection within {} s", PATIENCE.as_secs()),
        }
    }

    /// Connects the routers, and waits until their session is established. Gives the connection as the first sees it, too.
    pub(super) async fn establish(&self, family: Family, port: u16) -> Result<(Sessions, SocketPair)> {
        let (a, b) = self.connect(family, port).await?;
        let [local, remote] = a.ends().context("the connection is gone before the session began")?;
        let pair = SocketPair { local: local.into(), remote: remote.into() };
        Ok((Sessions::of(start(a, 1), start(b, 2)).await?, pair))
    }

    /// Waits until both routers have nothing to say for the moment.
    pub(super) async fn quiet(&self, sessions: &Sessions) -> Result<()> {
        for session in [&sessions.a, &sessions.b] {
            // One KEEPALIVE answers OPEN, another one follows at once; the third is far.
            session.until(PATIENCE, "two KEEPALIVEs", |status| status.keepalives >= 2).await?;
        }
        let silence = async {
            let mut before = None;
            while before != Some(self.wire.counters().carried) {
                before = Some(self.wire.counters().carried);
                sleep(QUIET).await;
            }
        };
        timeout(PATIENCE, silence).await.context("the wire does not fall silent")?;
        self.taken_in().await
    }

    /// Waits until all that has arrived has been through Wireseal and TCP.
    pub(super) async fn taken_in(&self) -> Result<()> {
        let taken_in = async {
            while self.wire.a.to_stack.waiting() + self.wire.b.to_stack.waiting() > 0 {
                sleep(GLANCE).await;
            }
        };
        timeout(PATIENCE, taken_in).await.context("a router takes nothing in")?;
        // A router takes a frame out of its queue and deals with it in one step, after which its device can be had.
        self.tallies();
        Ok(())
    }

    /// Fails unless both routers have verified all that they received; says how many segments each has.
    pub(super) fn all_verified(&self) -> Result<[u64; 2]> {
        let tallies = self.tallies();
        for (router, tally) in ["first", "second"].iter().zip(&tallies) {
            let is_good = tally.verified() > 0 && *tally == Tally::good(tally.verified());
            ensure!(is_good, "the {router} router: {tally}");
        }
        Ok(tallies.map(|tally| tally.verified()))
    }
}

/// A session under an algorithm; if sabotaged, the second router has another one.
pub(super) async fn session(
    algorithm: TcpAoAlgorithm,
    family: Family,
    Conditions { seed, is_sabotaged }: Conditions,
) -> Result<String> {
    let other = match (is_sabotaged, algorithm) {
        (false, _) => algorithm,
        (true, TcpAoAlgorithm::HmacSha1) => TcpAoAlgorithm::Aes128Cmac,
        (true, _) => TcpAoAlgorithm::HmacSha1,
    };
    let keys = |algorithm| anyhow::Ok(Some(MktSet::from_mkts([key(1, algorithm, SECRET)?])?));
    let pair = Pair::new(seed, keys(algorithm)?, keys(other)?)?;
    let (sessions, _) = pair.establish(family, 0).await?;
    let hold_time = sessions.a.status().borrow().hold_time;
    ensure!(hold_time == Some(30), "agreed on a hold time of {hold_time:?} instead of 30 s");
    let table = generate(FEW);
    sessions.exchange(&table, &table).await?;
    pair.quiet(&sessions).await?;

    let [by_a, by_b] = pair.all_verified()?;
    let mac_length = algorithm.default_mac_length();
    for (direction, verified) in [(Direction::AToB, by_b), (Direction::BToA, by_a)] {
        let packets = pair.recorded(direction);
        for packet in &packets {
            let segment = Segment::parse(packet)?;
            let length = segment.ao_option()?.map(|ao| ao.mac.len());
            ensure!(length == Some(mac_length), "a MAC of {length:?} octets, not {mac_length}");
        }
        let signed = packets.len() as u64;
        ensure!(signed == verified, "{signed} segments were signed but {verified} verified");
    }
    Ok(format!(
        "{} routes each way in {} segments, each signed with a MAC of {mac_length} octets and verified",
        grouped(FEW.into()),
        by_a + by_b
    ))
}

/// Full tables, which are withdrawn in the end.
pub(super) async fn full_table(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let pair = Pair::new(seed, usual_keys()?, usual_keys()?)?;
    let (sessions, _) = pair.establish(Family::Ipv4, 0).await?;
    let seen = sessions.exchange_full_tables(is_sabotaged).await?;
    let prefixes: Vec<_> = generate(ROUTES).iter().map(|route| route.prefix).collect();
    for session in [&sessions.a, &sessions.b] {
        session.withdraw(prefixes.clone()).await?;
    }
    sessions.await_routes(0).await?;
    pair.quiet(&sessions).await?;
    sessions.still_up()?;
    let segments = grouped(pair.all_verified()?.iter().sum());
    within_memory(format!("{seen}, then all withdrawn; all {segments} segments verified"))
}

/// Routes over a bad wire; if sabotaged, it is a good one.
pub(super) async fn impairments(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
    let table = generate(IMPAIRED);
    let pair = Pair::new(seed, usual_keys()?, usual_keys()?)?;
    let (sessions, _) = pair.establish(Family::Ipv4, 0).await?;
    pair.wire.impair(if is_sabotaged { 0 } else { PERCENT });
    sessions.exchange(&table, &table).await?;
    pair.wire.impair(0);
    let counted = pair.wire.counters();
    let (lost, reordered, duplicated) = (counted.lost, counted.reordered, counted.duplicated);
    for (what, count) in [("lost", lost), ("reordered", reordered), ("duplicated", duplicated)] {
        ensure!(count > 0, "no segment of {} was {what}", counted.carried);
    }
    let verified = grouped(pair.all_verified()?.iter().sum());
    let (routes, carried) = (grouped(IMPAIRED.into()), grouped(counted.carried));
    Ok(format!(
        "{routes} routes each way; {lost} of {carried} segments lost, {reordered} reordered, {duplicated} duplicated; all \
         {verified} that arrived verified"
    ))
}
