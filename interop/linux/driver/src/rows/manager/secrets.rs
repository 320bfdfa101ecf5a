//! Another secret under the same ids.

use agent::Counted;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::key_chain::Key;

use super::managed::{Managed, Managers, mkts};
use crate::prelude::*;
use crate::rows::session::{SOME, key, key_with};

const FAMILY: Family = Family::Ipv4;
/// When the secret is replaced.
const REPLACED: i64 = 50;

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "manager-secret-replaced",
        "both managers get a chain with another secret under the ids of the only key; the session goes on, under the new one",
        replace,
        "one of the managers gets it",
        replace_at_one_end,
    )]
}

/// The only key, with its first secret and with its second.
fn secrets() -> Result<[Key; 2]> {
    let algorithm = TcpAoAlgorithm::Aes128Cmac;
    Ok([Key::new(1, key(1, algorithm)?), Key::new(1, key_with(1, algorithm, "the second secret")?)])
}

/// A session under the first secret, of which both may be seen, and the key with the second.
async fn open(lab: &Lab) -> Result<(Managed<'_>, [Key; 1])> {
    let secrets = secrets()?;
    let mkts = mkts(&secrets);
    let [first, second] = secrets.map(|key| [key]);
    let managers = Managers::new(lab, FAMILY, &first, &first).await?;
    let mut managed = managers.open(&mkts, 0).await?;
    managed.kernels.exchange(SOME, SOME).await?;
    managed.kernels.quiet().await?;
    Ok((managed, second))
}

async fn replace(lab: &Lab) -> Result<Evidence> {
    let (mut managed, second) = open(lab).await?;
    let managers = managed.managers;
    let [at_north, at_south] =
        [Port::North, Port::South].map(|port| managers.set_chain(port, &second, REPLACED));
    let (north, south) = tokio::try_join!(at_north, at_south)?;
    ensure!(!north.done.is_empty(), "north: {north:?}; south: {south:?}");
    managed.step_under_traffic(REPLACED + 1).await?;
    let evidence = managed.detach().await?.close(true).await?;
    Ok(evidence.with_figures(format!("south did: {}", south.done.join("; "))))
}

async fn replace_at_one_end(lab: &Lab) -> Result<Refusal> {
    let (managed, second) = open(lab).await?;
    managed.managers.set_chain(Port::South, &second, REPLACED).await?;
    Ok(Refusal::by("north", &managed.kernels.refuses_octet(Counted::bad(1)).await?))
}
