//! A full table goes over, each way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::peers::{Keys, Peers, Sessions, until};
use super::{Conditions, Failure, Outcome, ensure, grouped};
use crate::bgp::rib::{Family, Route};
use crate::bgp::session::Session;
use crate::routes::generate;

/// Routes of each table.
pub(super) const ROUTES: usize = 100_000;
/// Longest time that both tables may take.
pub(super) const TIME: Duration = Duration::from_secs(10);
/// Most memory that the whole program may have used, in MiB.
pub(super) const MEMORY: u64 = 300;

pub(super) async fn full_table(conditions: Conditions) -> Outcome {
    let table = generate(ROUTES);
    let sent = if conditions.sabotaged { table[1..].into() } else { Arc::clone(&table) };
    let peers = Peers::new(conditions.seed, Keys::usual()?)?;
    let sessions = peers.establish(Family::Ipv4).await?;

    let started = Instant::now();
    let updates = exchange(&sessions, sent, &table).await?;
    let took = started.elapsed();
    // Without optimisation the time says nothing.
    ensure!(cfg!(debug_assertions) || took <= TIME, "{ROUTES} routes took {:.1} s", took.as_secs_f64());

    let prefixes: Vec<_> = table.iter().map(|route| route.prefix).collect();
    for (from, to) in [(&sessions.a, &sessions.b), (&sessions.b, &sessions.a)] {
        from.withdraw(prefixes.clone()).await?;
        until(to, "the withdrawal of all routes", |status| status.ipv4_routes + status.ipv6_routes == 0)
            .await?;
    }
    peers.quiet(&sessions).await?;
    sessions.still_up()?;
    let [by_a, by_b] = peers.all_verified()?;
    let outcome = format!(
        "{} routes each way in {} UPDATEs, both tables equal after {:.2} s, then all withdrawn; all {} segments verified",
        grouped(ROUTES),
        grouped(updates),
        took.as_secs_f64(),
        grouped(by_a + by_b)
    );
    let Some(peak) = peak_memory() else { return Ok(outcome) };
    ensure!(peak <= MEMORY, "the program has used {peak} MiB of memory, {MEMORY} are allowed");
    Ok(format!("{outcome}; {peak} MiB of memory at most"))
}

/// Sends routes each way at once and compares what arrived with `table`. Returns the number of UPDATEs.
pub(super) async fn exchange(
    sessions: &Sessions,
    sent: Arc<[Route]>,
    table: &[Route],
) -> Result<u64, Failure> {
    let there = send_table(&sessions.a, &sessions.b, Arc::clone(&sent), table);
    let back = send_table(&sessions.b, &sessions.a, sent, table);
    let (there, back) = tokio::try_join!(there, back)?;
    Ok(there + back)
}

async fn send_table(
    from: &Session,
    to: &Session,
    sent: Arc<[Route]>,
    table: &[Route],
) -> Result<u64, Failure> {
    from.announce(sent).await?;
    let status = until(to, "the whole table", |status| status.end_of_rib == [true; 2]).await?;
    let received = status.ipv4_routes + status.ipv6_routes;
    ensure!(received == table.len(), "{received} routes arrived of {}", table.len());
    let rib = to.rib();
    let rib = rib.lock();
    for Route { prefix, attributes } in table {
        let learnt = rib.get(prefix);
        // The first AS of the path is the neighbour's own.
        let path = learnt.and_then(|learnt| learnt.as_path.split_first());
        ensure!(
            path.is_some_and(|(_, path)| *path == *attributes.as_path),
            "{prefix} arrived as {learnt:?} instead of {attributes:?}"
        );
    }
    Ok(status.updates)
}

/// The most memory that this process has had, in MiB, where the system tells.
pub(super) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024)
}
