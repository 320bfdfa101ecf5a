//! A bad wire is survived.

use super::peers::Peers;
use super::routes::exchange;
use super::{Conditions, Outcome, ensure};
use crate::bgp::rib::Family;
use crate::routes::generate;
use crate::transport::memory::Impairments;

/// Routes sent over the bad wire, about 600 segments.
const ROUTES: usize = 10_000;
/// Each impairment, in percent.
const PERCENT: u8 = 5;

pub(super) async fn survived(conditions: Conditions) -> Outcome {
    let table = generate(ROUTES);
    let peers = Peers::new(conditions.seed)?;
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
    Ok(format!(
        "{ROUTES} routes arrived although {} of {} segments were lost, {} reordered and {} duplicated",
        counters.lost, counters.carried, counters.reordered, counters.duplicated
    ))
}
