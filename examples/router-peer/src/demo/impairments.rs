//! A bad wire is survived.

use super::peers::{Keys, Peers};
use super::routes::exchange;
use super::{Conditions, Outcome, ensure, grouped};
use crate::bgp::rib::Family;
use crate::routes::generate;
use crate::transport::memory::Impairments;

/// Routes sent each way over the bad wire, some 900 segments in all.
const ROUTES: usize = 5000;
/// Each impairment, in percent.
const PERCENT: u8 = 5;

pub(super) async fn survived(conditions: Conditions) -> Outcome {
    let table = generate(ROUTES);
    let peers = Peers::new(conditions.seed, Keys::usual()?)?;
    let sessions = peers.establish(Family::Ipv4).await?;
    if !conditions.sabotaged {
        peers.wire.impair(Impairments { loss: PERCENT, reordering: PERCENT, duplication: PERCENT });
    }
    exchange(&sessions, table.clone(), &table).await?;
    peers.wire.impair(Impairments::default());
    sessions.still_up()?;
    let counters = peers.wire.counters();
    for (what, count) in
        [("lost", counters.lost), ("reordered", counters.reordered), ("duplicated", counters.duplicated)]
    {
        ensure!(count > 0, "no segment of {} was {what}", counters.carried);
    }
    let [by_a, by_b] = peers.all_verified()?;
    Ok(format!(
        "{} routes each way; {} of {} segments lost, {} reordered, {} duplicated; all {} that arrived verified",
        grouped(ROUTES),
        counters.lost,
        grouped(counters.carried),
        counters.reordered,
        counters.duplicated,
        grouped(by_a + by_b)
    ))
}
