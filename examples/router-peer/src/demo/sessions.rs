//! A session between two routers, seen from both ends.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use inetnum::addr::Prefix;
use speaker::bgp::rib::{Attributes, Family, Route};
use speaker::bgp::session::{Session, SessionConfig, State};
use speaker::bgp::update::Export;
use speaker::routes::generate;
use tokio::io::{AsyncRead, AsyncWrite};

/// How long a handshake or a change may take even on a bad wire.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How often routers are looked at while something is waited for.
pub(super) const GLANCE: Duration = Duration::from_millis(2);
/// Routes sent each way under each algorithm and suite.
pub(super) const FEW: u32 = 1000;
/// Routes of a full table.
pub(super) const ROUTES: u32 = 100_000;
/// Longest time that two full tables may take.
const TIME: Duration = Duration::from_secs(10);
/// Most memory that the whole program may have used, in MiB.
const MEMORY: u64 = 300;
/// AS number of the first router, and of the second, which needs four octets.
const ASNS: [u32; 2] = [64_512, 4_200_000_000];

/// What a check is told: the seed of everything random, and whether it is to be sabotaged.
#[derive(Clone, Copy)]
pub(super) struct Conditions {
    pub(super) seed: u64,
    pub(super) is_sabotaged: bool,
}

/// The address of a router, which is 1 or 2.
pub(super) fn address(family: Family, router: u8) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::from([192, 0, 2, router]),
        Family::Ipv6 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(router)]),
    }
}

/// A router's end of a session.
pub(super) fn start<S: AsyncRead + AsyncWrite + Send + 'static>(stream: S, router: u8) -> Session {
    let [local_as, peer_as] = if router == 1 { ASNS } else { [ASNS[1], ASNS[0]] };
    let next_hops = Family::ALL.map(|family| Some(address(family, router)));
    let export = Export { local_as, peer_as, next_hops };
    Session::start(stream, SessionConfig { export, router_id: [192, 0, 2, router].into(), hold_time: 30 })
}

/// A session, seen from both ends.
pub(super) struct Sessions {
    pub(super) a: Session,
    pub(super) b: Session,
}

impl Sessions {
    /// Waits until both ends are established.
    pub(super) async fn of(a: Session, b: Session) -> Result<Self> {
        for session in [&a, &b] {
            let what = "the session to be established";
            session.until(PATIENCE, what, |status| status.state == State::Established).await?;
        }
        Ok(Self { a, b })
    }

    /// Fails unless both ends are established now.
    pub(super) fn still_up(&self) -> Result<()> {
        for (end, session) in [("first", &self.a), ("second", &self.b)] {
            if let Some(closed) = &session.status().borrow().closed {
                bail!("the session is down at the {end} router, {closed}");
            }
        }
        Ok(())
    }

    /// Announces routes at both ends.
    pub(super) async fn announce(&self, routes: &[Route]) -> Result<()> {
        let routes: Arc<[Route]> = routes.into();
        self.a.announce(Arc::clone(&routes)).await?;
        self.b.announce(routes).await
    }

    /// Waits until both ends have so many routes.
    pub(super) async fn await_routes(&self, routes: usize) -> Result<()> {
        for session in [&self.a, &self.b] {
            let has_all = |[ipv4, ipv6]: [usize; 2]| ipv4 + ipv6 == routes;
            session.until(PATIENCE, "all routes", |status| has_all(status.routes)).await?;
        }
        Ok(())
    }

    /// Sends a route each way and waits until it has arrived.
    pub(super) async fn pass_route(&self) -> Result<()> {
        for (from, to) in [(&self.a, &self.b), (&self.b, &self.a)] {
            let [before, _] = to.status().borrow().routes;
            from.announce(next_route(to)).await?;
            to.until(PATIENCE, "a route", |status| status.routes[0] > before).await?;
        }
        Ok(())
    }

    /// Sends routes each way at once and compares what arrived with `table`. Returns the number of UPDATEs.
    pub(super) async fn exchange(&self, sent: &Arc<[Route]>, table: &[Route]) -> Result<u64> {
        let there = send_table(&self.a, &self.b, sent, table);
        let back = send_table(&self.b, &self.a, sent, table);
        let (there, back) = tokio::try_join!(there, back)?;
        self.still_up()?;
        Ok(there + back)
    }

    /// Sends a full table each way, but for one route if sabotaged; says what was seen.
    pub(super) async fn exchange_full_tables(&self, is_sabotaged: bool) -> Result<String> {
        let table = generate(ROUTES);
        let sent = if is_sabotaged { table[1..].into() } else { Arc::clone(&table) };
        let started = Instant::now();
        let updates = grouped(self.exchange(&sent, &table).await?);
        let (took, routes) = (started.elapsed(), grouped(ROUTES.into()));
        let seconds = took.as_secs_f64();
        // Without optimisation the time says nothing.
        ensure!(cfg!(debug_assertions) || took <= TIME, "{routes} routes took {seconds:.1} s");
        Ok(format!("{routes} routes each way in {updates} UPDATEs, both tables equal after {seconds:.2} s"))
    }
}

/// A route that a session has not received yet.
pub(super) fn next_route(to: &Session) -> Arc<[Route]> {
    let number = to.status().borrow().routes[0] as u8;
    let prefix = Prefix::new([10, 0, number, 0].into(), 24).expect("the rest of the address is zero");
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
        // The first AS of the path is the neighbour's own.
        let path = learnt.and_then(|learnt| learnt.as_path.split_first());
        let is_equal = path.is_some_and(|(_, path)| *path == *attributes.as_path);
        ensure!(is_equal, "{prefix} arrived as {learnt:?} instead of {attributes:?}");
    }
    Ok(status.updates)
}

/// Adds the program's peak memory to what was seen, and fails if it was too much.
pub(super) fn within_memory(seen: String) -> Result<String> {
    let Some(peak) = peak_memory() else { return Ok(seen) };
    ensure!(peak <= MEMORY, "the program has used {peak} MiB of memory, {MEMORY} are allowed");
    Ok(format!("{seen}; {peak} MiB of memory at most"))
}

/// The most memory that this process has had, in MiB, where the system tells.
pub(super) fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? / 1024)
}

/// A number as people read it, as in 100,000.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
