//! A BGP session between two routers, seen from both ends.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use inetnum::addr::Prefix;
use speaker::message::Export;
use speaker::routes::generate;
use speaker::routes::{Attributes, Family, Route};
use speaker::session::{Session, SessionConfig, Status};
use tokio::io::{AsyncRead, AsyncWrite};

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
pub fn start(stream: impl AsyncRead + AsyncWrite + Send + 'static, router: u8) -> Session {
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
