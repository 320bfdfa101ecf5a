//! BGP sessions between two routers, seen from both ends: over any stream, and over a wire in memory under TCP-AO.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use inetnum::addr::Prefix;
use ipnet::IpNet;
use speaker::link::{DEFAULT_IP_MTU, Direction, Link, Wire};
use speaker::message::Export;
use speaker::protection::peer;
use speaker::routes::{Attributes, Family, Route, generate};
use speaker::session::{self, Session, SessionConfig, Status};
use speaker::stack::{Stack, StackConfig, Tally, TcpStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MKTS_PER_PEER, MasterKey, Mkt, MktSet, Segment, SocketPair};

/// How long a handshake or a change may take, even on a bad wire.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How often routers are polled.
pub const GLANCE: Duration = Duration::from_millis(2);
/// Routes sent each way under each algorithm and cipher suite.
pub const FEW: u32 = 1000;
/// Routes of a full table.
pub const ROUTES: u32 = 100_000;
/// Time limit for the exchange of two full tables, in an optimised build.
const TIME: Duration = Duration::from_secs(10);
/// Memory limit of the whole program, in MiB.
const MEMORY: u64 = 300;
/// AS numbers of the routers. The second needs four octets.
const ASNS: [u32; 2] = [64_512, 4_200_000_000];

/// How to run a check: the seed for everything random, and whether to sabotage it.
#[derive(Clone, Copy)]
pub struct Conditions {
    pub seed: u64,
    pub is_sabotaged: bool,
}

/// The address of router 1 or 2.
pub fn address(family: Family, router: u8) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::from([192, 0, 2, router]),
        Family::Ipv6 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(router)]),
    }
}

/// Router 1's or 2's end of a session.
pub fn start_session(stream: impl AsyncRead + AsyncWrite + Send + 'static, router: u8) -> Session {
    let [local_as, peer_as] = if router == 1 { ASNS } else { [ASNS[1], ASNS[0]] };
    let next_hops = Family::ALL.map(|family| Some(address(family, router)));
    let export = Export { local_as, peer_as, next_hops };
    Session::start(stream, SessionConfig { export, router_id: [192, 0, 2, router].into(), hold_time: 30 })
}

/// Both ends of a session.
pub struct Sessions {
    pub a: Session,
    pub b: Session,
}

impl Sessions {
    /// Waits until both ends are established.
    pub async fn of(a: Session, b: Session) -> Result<Self> {
        for session in [&a, &b] {
            session.established(PATIENCE).await?;
        }
        Ok(Self { a, b })
    }

    /// Fails unless both ends are still established.
    pub fn still_up(&self) -> Result<()> {
        for (end, session) in [("first", &self.a), ("second", &self.b)] {
            if let Some(closed) = &session.status().borrow().closed {
                bail!("the session is down at the {end} router, {closed}");
            }
        }
        Ok(())
    }

    /// Announces routes at both ends.
    pub async fn announce(&self, routes: &[Route]) -> Result<()> {
        let routes: Arc<[Route]> = routes.into();
        self.a.announce(Arc::clone(&routes)).await?;
        self.b.announce(routes).await
    }

    /// Waits until both ends have received exactly this many routes.
    pub async fn await_routes(&self, routes: usize) -> Result<()> {
        for session in [&self.a, &self.b] {
            let has_all = |status: &Status| status.routes.iter().sum::<usize>() == routes;
            session.until(PATIENCE, "all routes", has_all).await?;
        }
        Ok(())
    }

    /// Sends a new route each way and waits for its arrival.
    pub async fn pass_route(&self) -> Result<()> {
        for (from, to) in [(&self.a, &self.b), (&self.b, &self.a)] {
            let [before, _] = to.status().borrow().routes;
            from.announce(next_route(to)).await?;
            to.until(PATIENCE, "a route", |status| status.routes[0] > before).await?;
        }
        Ok(())
    }

    /// Sends `sent` each way at once and compares what arrived with `table`. Returns the number of UPDATEs.
    pub async fn exchange(&self, sent: &Arc<[Route]>, table: &[Route]) -> Result<u64> {
        let there = send_table(&self.a, &self.b, sent, table);
        let back = send_table(&self.b, &self.a, sent, table);
        let (there, back) = tokio::try_join!(there, back)?;
        self.still_up()?;
        Ok(there + back)
    }

    /// Sends a full table each way. If sabotaged, one route is missing.
    pub async fn exchange_full_tables(&self, is_sabotaged: bool) -> Result<String> {
        let table = generate(ROUTES);
        let sent = if is_sabotaged { table[1..].into() } else { Arc::clone(&table) };
        let started = Instant::now();
        let updates = grouped(self.exchange(&sent, &table).await?);
        let (took, routes) = (started.elapsed(), grouped(ROUTES.into()));
        let seconds = took.as_secs_f64();
        ensure!(cfg!(debug_assertions) || took <= TIME, "{routes} routes took {seconds:.1} s");
        Ok(format!("{routes} routes each way in {updates} UPDATEs, both tables equal after {seconds:.2} s"))
    }
}

/// A route that an end has not received yet.
pub fn next_route(to: &Session) -> Arc<[Route]> {
    let number = to.status().borrow().routes[0] as u8;
    let prefix = Prefix::new([10, 0, number, 0].into(), 24).expect("host bits are zero");
    Arc::new([Route { prefix, attributes: Arc::new(Attributes::default()) }])
}

async fn send_table(from: &Session, to: &Session, sent: &Arc<[Route]>, table: &[Route]) -> Result<u64> {
    from.announce(Arc::clone(sent)).await?;
    let status = to.until(PATIENCE, "the whole table", |status| status.end_of_rib == [true; 2]).await?;
    let received: usize = status.routes.iter().sum();
    ensure!(received == table.len(), "{received} routes arrived of {}", table.len());
    let rib = to.rib();
    for Route { prefix, attributes } in table {
        let learnt = rib.get(*prefix);
        // The sender has prepended its own AS.
        let path = learnt.and_then(|learnt| learnt.as_path.split_first());
        let is_equal = path.is_some_and(|(_, path)| *path == *attributes.as_path);
        ensure!(is_equal, "{prefix} arrived as {learnt:?} instead of {attributes:?}");
    }
    Ok(status.updates)
}

/// Adds the program's peak memory to the result, and fails if it is over the limit.
pub fn within_memory(seen: String) -> Result<String> {
    let Some(peak) = peak_memory() else { return Ok(seen) };
    ensure!(peak <= MEMORY, "{peak} MiB of memory used, {MEMORY} are allowed");
    Ok(format!("{seen}; {peak} MiB of memory at most"))
}

/// Peak memory of this process in MiB, where the system has `/proc`.
pub fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? / 1024)
}

/// Groups digits by three: 100,000.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A wire without packets for this long is quiet. Longer than TCP delays an acknowledgment.
const QUIET: Duration = Duration::from_millis(100);
/// The routers' secret: 256 bits, as draft-ietf-tcpm-tcp-ao-algs recommends.
pub const SECRET: &[u8; 32] = b"the two routers know this secret";
/// Routes sent each way over the bad wire: about 900 segments.
const IMPAIRED: u32 = 5000;
/// How many of a hundred packets it loses, reorders and duplicates.
const PERCENT: u8 = 5;

/// A key with the same id in both directions.
pub fn key(id: u8, algorithm: TcpAoAlgorithm, secret: &[u8]) -> Result<Mkt> {
    Ok(Mkt::new(KeyId(id), KeyId(id), algorithm, MasterKey::new(secret)?)?)
}

/// The key of checks that are not about keys.
pub fn usual_key() -> Result<Mkt> {
    key(1, TcpAoAlgorithm::Aes128Cmac, SECRET)
}

/// A router's keys; without any, its connections are not protected.
pub type Keys = Option<MktSet<MKTS_PER_PEER>>;

pub fn usual_keys() -> Result<Keys> {
    Ok(Some(MktSet::from_mkts([usual_key()?])?))
}

pub fn carries_data(packet: &[u8]) -> bool {
    Segment::parse(packet).is_ok_and(|segment| !segment.payload().is_empty())
}

/// Two routers with an address of each family. The first opens connections.
pub struct Pair {
    pub a: Stack,
    pub b: Stack,
    pub wire: Wire,
}

fn stack(link: &Link, router: u8, keys: Keys, seed: u64) -> Result<Stack> {
    let nets = [(Family::Ipv4, 24), (Family::Ipv6, 64)];
    let addresses = nets.map(|(family, length)| IpNet::new_assert(address(family, router), length)).into();
    let config = StackConfig { addresses, seed: seed ^ u64::from(router), ..StackConfig::default() };
    let to_other = |family, mkts| peer(address(family, router), address(family, 3 - router), mkts);
    let peers = keys.iter().flat_map(|mkts| Family::ALL.map(|family| to_other(family, mkts.clone())));
    Stack::start(link.clone(), peers.collect(), &config)
}

impl Pair {
    /// All packets on the wire are recorded.
    pub fn new(seed: u64, a: Keys, b: Keys) -> Result<Self> {
        let wire = Wire::new(DEFAULT_IP_MTU, seed);
        wire.record();
        Ok(Self { a: stack(&wire.a, 1, a, seed)?, b: stack(&wire.b, 2, b, seed)?, wire })
    }

    /// The first router's last packet with data.
    pub fn last_data(&self) -> Result<Vec<u8>> {
        let mut sent = self.wire.recorded(Direction::AToB).into_iter();
        sent.rfind(|packet| carries_data(packet)).context("nothing was sent")
    }

    /// The counters of both routers, with their names.
    pub fn tallies(&self) -> [(&'static str, Tally); 2] {
        [("first", self.a.tally()), ("second", self.b.tally())]
    }

    /// Connects the routers from the given port, or from a free one with port 0. Fails as soon as a router drops a packet.
    pub async fn connect(&self, family: Family, port: u16) -> Result<(TcpStream, TcpStream)> {
        let mut listener = self.b.listen(None, session::PORT)?;
        let [local, remote] = [(1, port), (2, session::PORT)]
            .map(|(router, port)| SocketAddr::new(address(family, router), port));
        let dropped = async {
            while self.tallies().iter().all(|(_, tally)| tally.dropped() == 0) {
                sleep(GLANCE).await;
            }
        };
        tokio::select! {
            ends = async { tokio::join!(self.a.connect(remote, Some(local)), listener.accept()) } => Ok((ends.0?, ends.1?)),
            () = dropped => {
                let [(_, a), (_, b)] = self.tallies();
                bail!("no TCP connection; first router: {a}; second router: {b}")
            }
            () = sleep(PATIENCE) => bail!("no TCP connection within {} s", PATIENCE.as_secs()),
        }
    }

    /// Connects the routers and waits for an established session. Also returns the first router's socket pair.
    pub async fn establish(&self, family: Family, port: u16) -> Result<(Sessions, SocketPair)> {
        let (a, b) = self.connect(family, port).await?;
        let [local, remote] = a.ends().context("the connection is gone before the session began")?;
        let pair = SocketPair { local: local.into(), remote: remote.into() };
        Ok((Sessions::of(start_session(a, 1), start_session(b, 2)).await?, pair))
    }

    /// Waits until neither router has anything more to send for now.
    pub async fn quiet(&self, sessions: &Sessions) -> Result<()> {
        for session in [&sessions.a, &sessions.b] {
            // One answers OPEN, another follows at once, the third only after a third of the hold time.
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

    /// Waits until all packets that have arrived have been through Wireseal and TCP.
    pub async fn taken_in(&self) -> Result<()> {
        let taken_in = async {
            while self.wire.a.to_stack.waiting() + self.wire.b.to_stack.waiting() > 0 {
                sleep(GLANCE).await;
            }
        };
        timeout(PATIENCE, taken_in).await.context("a router takes nothing in")?;
        // A stack locks its device until it has processed the packets that it took from the queue.
        self.tallies();
        Ok(())
    }

    /// Fails unless both routers have verified everything that they received; returns their numbers of segments.
    pub fn all_verified(&self) -> Result<[u64; 2]> {
        let tallies = self.tallies();
        for (router, tally) in &tallies {
            let verified = tally.verified();
            let is_good = verified > 0 && tally.to_string() == format!("dropped 0, good +{verified}");
            ensure!(is_good, "the {router} router: {tally}");
        }
        Ok(tallies.map(|(_, tally)| tally.verified()))
    }
}

/// A session under one algorithm. If sabotaged, the second router has another algorithm.
pub async fn tcp_ao_session(
    algorithm: TcpAoAlgorithm,
    family: Family,
    conditions: Conditions,
) -> Result<String> {
    let other = match (conditions.is_sabotaged, algorithm) {
        (false, _) => algorithm,
        (true, TcpAoAlgorithm::HmacSha1) => TcpAoAlgorithm::Aes128Cmac,
        (true, _) => TcpAoAlgorithm::HmacSha1,
    };
    let keys = |algorithm| anyhow::Ok(Some(MktSet::from_mkts([key(1, algorithm, SECRET)?])?));
    let pair = Pair::new(conditions.seed, keys(algorithm)?, keys(other)?)?;
    let (sessions, _) = pair.establish(family, 0).await?;
    let hold_time = sessions.a.status().borrow().hold_time;
    ensure!(hold_time == Some(30), "agreed on a hold time of {hold_time:?} instead of 30 s");
    let table = generate(FEW);
    sessions.exchange(&table, &table).await?;
    pair.quiet(&sessions).await?;

    let [by_a, by_b] = pair.all_verified()?;
    let mac_length = algorithm.default_mac_length();
    for (direction, verified) in [(Direction::AToB, by_b), (Direction::BToA, by_a)] {
        let packets = pair.wire.recorded(direction);
        for packet in &packets {
            let length = Segment::parse(packet)?.ao_option()?.map(|ao| ao.mac.len());
            ensure!(length == Some(mac_length), "a MAC of {length:?} octets, not {mac_length}");
        }
        let signed = packets.len() as u64;
        ensure!(signed == verified, "{signed} segments were signed but {verified} verified");
    }
    let (routes, segments) = (grouped(FEW.into()), by_a + by_b);
    Ok(format!(
        "{routes} routes each way in {segments} segments, each signed with a MAC of {mac_length} octets and verified"
    ))
}

/// Full tables each way, withdrawn at the end.
pub async fn full_table(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
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

/// Routes over a bad wire. If sabotaged, the wire is good.
pub async fn impairments(Conditions { seed, is_sabotaged }: Conditions) -> Result<String> {
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
