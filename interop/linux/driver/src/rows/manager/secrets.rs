//! Another secret under the same ids.

use std::slice;

use agent::{NetworkCounters, SetChain};
use futures_util::FutureExt;
use wireseal_algorithms::TcpAoAlgorithm;

use super::{Managers, PIECE, Planned, START, chain};
use crate::failure::{Failure, ensure};
use crate::lab::{Family, Lab};
use crate::rows::session::{key, key_with};
use crate::rows::{Evidence, Refusal, Row};
use crate::wire::Port;

const FAMILY: Family = Family::Ipv4;
/// When the secret is replaced.
const REPLACED: i64 = 50;

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "manager-secret-replaced",
        "both managers get a chain with another secret under the ids of the only key; the session goes on, under the new one",
        |lab| replace(lab).boxed_local(),
        "one of the managers gets it",
        |lab| replace_at_one_end(lab).boxed_local(),
    )]
}

/// The only key, with its first secret and with its second.
fn secrets() -> Result<[Planned; 2], Failure> {
    let algorithm = TcpAoAlgorithm::Aes128Cmac;
    let always = (None, None);
    Ok([(key(1, algorithm)?, always, always), (key_with(1, algorithm, "the second secret")?, always, always)])
}

async fn replace(lab: &Lab) -> Result<Evidence, Failure> {
    let [first, second] = secrets()?;
    let managers = Managers::new(lab, FAMILY, slice::from_ref(&first), slice::from_ref(&first)).await?;
    let mut managed = managers.open(&[first.0, second.0.clone()], 0).await?;
    managed.kernels.exchange(PIECE, PIECE).await?;
    managed.kernels.quiet().await?;
    let second = [second];
    let at_north = lab.north.call(SetChain {
        manager: managers.north,
        chain: chain(Port::North, FAMILY, &second)?,
        now: START + REPLACED,
    });
    let at_south = managers.south_guest.call(SetChain {
        manager: managers.south,
        chain: chain(Port::South, FAMILY, &second)?,
        now: START + REPLACED,
    });
    let (north, south) = tokio::try_join!(at_north, at_south)?;
    ensure(north.failed.is_empty() && south.failed.is_empty() && !north.done.is_empty(), || {
        format!("north: {north:?}; south: {south:?}")
    })?;
    managed.step_under_traffic(REPLACED + 1).await?;
    let mut evidence = managed.detach().await?.close(true).await?;
    evidence.figures = format!("south did: {}", south.done.join("; "));
    Ok(evidence)
}

async fn replace_at_one_end(lab: &Lab) -> Result<Refusal, Failure> {
    let [first, second] = secrets()?;
    let managers = Managers::new(lab, FAMILY, slice::from_ref(&first), slice::from_ref(&first)).await?;
    let mut managed = managers.open(&[first.0], 0).await?;
    managed.kernels.exchange(PIECE, PIECE).await?;
    managed.kernels.quiet().await?;
    let chain = chain(Port::South, FAMILY, &[second])?;
    managers.south_guest.call(SetChain { manager: managers.south, chain, now: START + REPLACED }).await?;
    let bad = NetworkCounters { bad: 1, ..NetworkCounters::default() };
    let counted = tokio::select! {
        counted = managed.kernels.await_north_counted(bad) => counted?,
        passed = managed.kernels.transfer_to_north(1) => {
            passed?;
            return Err(Failure("an octet went through".to_owned()));
        }
    };
    managed.detach().await?.reset().await?;
    Ok(Refusal::by_kernel("north", &counted))
}
