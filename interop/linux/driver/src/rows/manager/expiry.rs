//! A chain at its end: nothing gets through unsigned.

use agent::{AwaitCounters, Close, Connect, NetworkCounters};
use futures_util::FutureExt;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::Mkt;

use super::{BEHIND, Managed, Managers, PIECE, Planned, mkts};
use crate::failure::{Failure, ensure};
use crate::guest::at;
use crate::lab::{Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::rows::kernels::{Kernels, address, open_socket, south_keys};
use crate::rows::session::key;
use crate::rows::{Evidence, Refusal, Row};
use crate::wire::Port;

const FAMILY: Family = Family::Ipv4;
/// When the first key is over at both ends.
const OVER: i64 = 130 + BEHIND + 1;

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "manager-expired",
        "a chain goes on with a second key after the end of the first: the session lives, and a new one is opened",
        |lab| go_on(lab).boxed_local(),
        "there is no second key: both managers say that the chain has expired and the session has to be shut down; no new \
         one is opened, neither unsigned nor with the expired key",
        |lab| expire(lab).boxed_local(),
    )]
}

fn planned() -> Result<[Planned; 2], Failure> {
    Ok([
        (key(1, TcpAoAlgorithm::Aes128Cmac)?, (None, Some(100)), (None, Some(130))),
        (key(2, TcpAoAlgorithm::HmacSha1)?, (Some(90), None), (Some(60), None)),
    ])
}

async fn open<'a>(lab: &'a Lab, planned: &[Planned]) -> Result<Managed<'a>, Failure> {
    let managers = Managers::new(lab, FAMILY, planned, planned).await?;
    let mut managed = managers.open(&mkts(planned), 0).await?;
    managed.kernels.exchange(PIECE, PIECE).await?;
    Ok(managed)
}

async fn go_on(lab: &Lab) -> Result<Evidence, Failure> {
    let planned = planned()?;
    let mut managed = open(lab, &planned).await?;
    let managers = managed.managers;
    for now in [70, 110, 120, OVER] {
        let [north, south] = managed.step_under_traffic(now).await?;
        ensure(!north.expired && !south.expired, || {
            format!("at {now} north says {north:?}, south {south:?}")
        })?;
    }
    let (listener, first) = (managed.listener, managed.kernels);
    let [north, _] = first.info().await?;
    ensure(north.bad == 0, || format!("north says {north:?}"))?;
    lab.north.call(agent::Detach { socket: first.north }).await?;
    managers.south_guest.call(agent::Detach { socket: first.south }).await?;
    first.close_ends().await?;
    lab.wire.take_recording();

    let south = open_socket(managers.south_guest, FAMILY, 0, Vec::new()).await?;
    managers.attach_south(south, OVER).await?;
    let mut second = Kernels::connect(lab, FAMILY, &mkts(&planned), listener, south, None).await?;
    managers.attach_north(second.north, OVER).await?;
    second.exchange(PIECE, PIECE).await?;
    let mut evidence = Managed { managers, kernels: second, listener }.detach().await?.close(true).await?;
    evidence.figures =
        format!("the first session {} good, 0 bad; the second opened under the second key", north.good);
    Ok(evidence)
}

async fn expire(lab: &Lab) -> Result<Refusal, Failure> {
    let [first, _] = planned()?;
    let managed = open(lab, std::slice::from_ref(&first)).await?;
    let Managed { managers, kernels, listener } = managed;
    let [north, south] = managers.step(OVER).await?;
    let expired = north.expired && south.expired && north.overdue > 0 && south.overdue > 0;
    ensure(expired, || format!("north says {north:?}, south {south:?}"))?;
    // Its owner shuts the session down.
    lab.north.call(agent::Detach { socket: kernels.north }).await?;
    managers.south_guest.call(agent::Detach { socket: kernels.south }).await?;
    let port = kernels.pair.remote.port();
    kernels.close_ends().await?;

    let required = NetworkCounters { ao_required: 1, ..NetworkCounters::default() };
    let unsigned = refused(lab, port, &[], required).await?;
    let not_found = NetworkCounters { key_not_found: 1, ..NetworkCounters::default() };
    let with_expired_key = refused(lab, port, &[first.0], not_found).await?;
    lab.north.call(agent::Detach { socket: listener }).await?;
    lab.north.call(Close { socket: listener }).await?;
    let mut refusal = Refusal::by_kernel("north, unsigned", &unsigned);
    refusal.counted.extend(Refusal::by_kernel("north, expired key", &with_expired_key).counted);
    Ok(refusal)
}

/// South tries to connect with these keys until north has counted what it must.
async fn refused(
    lab: &Lab,
    port: u16,
    mkts: &[Mkt],
    counter: NetworkCounters,
) -> Result<NetworkCounters, Failure> {
    let south_guest = lab.south().await?;
    let before = lab.north.counters().await?;
    let time_limit = TIME_LIMIT_MILLISECONDS;
    let socket = open_socket(south_guest, FAMILY, 0, south_keys(FAMILY, mkts)).await?;
    let remote = at(address(Port::North, FAMILY), port);
    let after = tokio::select! {
        after = lab.north.call(AwaitCounters { at_least: before.plus(&counter), time_limit }) => after?,
        connected = south_guest.call(Connect { socket, remote, time_limit }) => {
            return Err(Failure(format!("south is connected: {}", connected?)));
        }
    };
    south_guest.call(Close { socket }).await?;
    Ok(after.since(&before))
}
