//! Sessions come up.

use super::peers::Peers;
use super::{Conditions, Outcome, ensure};
use crate::bgp::rib::Family;

/// An AS that neither router is in.
const STRANGER: u32 = 65_551;

pub(super) async fn families(conditions: Conditions) -> Outcome {
    let mut established = 0;
    for family in [Family::Ipv4, Family::Ipv6] {
        let peers = Peers::new(conditions.seed)?;
        let sessions = if conditions.sabotaged {
            let sessions = peers.connect(family, STRANGER).await?;
            sessions.established().await?;
            sessions
        } else {
            peers.establish(family).await?
        };
        sessions.still_up()?;
        let hold_time = sessions.a.status().borrow().hold_time;
        ensure!(hold_time == Some(30), "agreed on a hold time of {hold_time:?} instead of 30 s");
        established += 1;
    }
    Ok(format!("{established} sessions established"))
}
