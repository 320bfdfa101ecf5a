//! A chain at its end: nothing gets through unsigned.

use agent::{Close, Connect, Counted, Stepped};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::Mkt;
use wireseal_tcp_ao::key_chain::Key;

use super::managed::{BEHIND, Managed, Managers, mkts, planned};
use crate::prelude::*;
use crate::rows::kernels::{Kernels, open_socket, south_keys};
use crate::rows::session::{SOME, key};

const FAMILY: Family = Family::Ipv4;
/// When the first key is over at both ends.
const OVER: i64 = 130 + BEHIND + 1;

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "manager-expired",
        "a chain goes on with a second key after the end of the first: the session lives, and a new one is opened",
        go_on,
        "there is no second key: both managers say that the chain has expired and the session has to be shut down; no new \
         one is opened, neither unsigned nor with the expired key",
        expire,
    )]
}

fn two_keys() -> Result<[Key; 2]> {
    Ok([
        planned(key(1, TcpAoAlgorithm::Aes128Cmac)?, (None, Some(100)), (None, Some(130)))?,
        planned(key(2, TcpAoAlgorithm::HmacSha1)?, (Some(90), None), (Some(60), None))?,
    ])
}

async fn open<'a>(lab: &'a Lab, keys: &[Key]) -> Result<Managed<'a>> {
    let managers = Managers::new(lab, FAMILY, keys, keys).await?;
    let mut managed = managers.open(&mkts(keys), 0).await?;
    managed.kernels.exchange(SOME, SOME).await?;
    Ok(managed)
}

async fn go_on(lab: &Lab) -> Result<Evidence> {
    let keys = two_keys()?;
    let mut managed = open(lab, &keys).await?;
    let managers = managed.managers;
    for now in [70, 110, 120, OVER] {
        let [north, south] = managed.step_under_traffic(now).await?;
        ensure!(north.expired + south.expired == 0, "at {now}: north {north:?}, south {south:?}");
    }
    let (listener, first) = (managed.listener, managed.kernels);
    let [north, _] = first.info().await?;
    ensure!(north.counted.bad == 0, "north says {north:?}");
    managers.detach(&first).await?;
    first.finish().await?;
    lab.wire.take_recording();

    let south = open_socket(managers.south_guest, FAMILY, 0, Vec::new()).await?;
    managers.attach_south(south, OVER).await?;
    let mut second = Kernels::connect(lab, FAMILY, &mkts(&keys), (listener, south)).await?;
    managers.attach_north(second.north, OVER).await?;
    second.exchange(SOME, SOME).await?;
    let evidence = Managed { managers, kernels: second, listener }.detach().await?.close(true).await?;
    let good = north.counted.good;
    Ok(evidence.with_figures(format!(
        "the first session {good} good, 0 bad; the second opened under the second key"
    )))
}

async fn expire(lab: &Lab) -> Result<Refusal> {
    let [first, _] = two_keys()?;
    let managed = open(lab, std::slice::from_ref(&first)).await?;
    let Managed { managers, kernels, .. } = managed;
    let [north, south] = managers.step(OVER).await?;
    let expired = |end: &Stepped| end.expired == 1 && end.ended == 1 && end.overdue > 0;
    ensure!(expired(&north) && expired(&south), "north says {north:?}, south {south:?}");
    // Its owner shuts the session down.
    managers.detach(&kernels).await?;
    let port = kernels.pair.remote.port();
    kernels.finish().await?;

    let unsigned = not_connected(lab, port, &[], Counted::required(1)).await?;
    let with_expired_key =
        not_connected(lab, port, &[first.mkt().clone()], Counted::key_not_found(1)).await?;
    let refusal = Refusal::by("north, unsigned", &unsigned);
    Ok(refusal.and(Refusal::by("north, expired key", &with_expired_key)))
}

/// South tries to connect with these keys until north has counted what it must.
async fn not_connected(lab: &Lab, port: u16, mkts: &[Mkt], counter: Counted) -> Result<Counted> {
    let south_guest = lab.south().await?;
    let before = lab.north.counters().await?;
    let socket = open_socket(south_guest, FAMILY, 0, south_keys(FAMILY, mkts)?).await?;
    let connect = south_guest.call(Connect { socket, remote: Port::North.at(FAMILY, port) });
    let counted = refused(lab.north.await_counted(&before, counter), connect).await?;
    south_guest.call(Close { socket }).await?;
    Ok(counted)
}
