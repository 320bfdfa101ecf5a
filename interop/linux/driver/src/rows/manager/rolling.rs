//! Three keys, one after another, on a live session.

use agent::{AwaitCounters, InstalledKey, ListKeys, NetworkCounters};
use futures_util::FutureExt;

use super::{BEHIND, Managers, PIECE, mkts, three_keys};
use crate::failure::{Failure, ensure};
use crate::lab::{Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::rows::kernels::{Kernels, open_socket};
use crate::rows::{Evidence, Refusal, Row};

/// The moments at which the managers are stepped: before, at and after each change, and one step back in time.
const MOMENTS: [i64; 18] =
    [10, 65, 72, 80, 101, 99, 106, 109, 125, 138, 150, 169, 180, 199, 203, 208, 229, 240];
/// When south's second key may not be sent with any more.
const SECOND_SENT_UNTIL: i64 = 200 + BEHIND;

pub fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Family::ALL.into_iter().map(row).collect();
    rows.push(ao_43_a_session_accepted_while_keys_change());
    rows
}

fn row(family: Family) -> Row {
    Row::new(
        format!("manager-rolling-{}", family.name().to_lowercase()),
        format!(
            "a KeyManager in each kernel's guest rolls three keys of three algorithms over on a live session over {}, south's \
             clock {BEHIND} s behind, both stepped {} times under traffic",
            family.name(),
            MOMENTS.len()
        ),
        move |lab| roll(lab, family).boxed_local(),
        "south's chain is without the third key: the session goes on under the second until that may not be sent with",
        move |lab| roll_without_the_third(lab, family).boxed_local(),
    )
}

async fn roll(lab: &Lab, family: Family) -> Result<Evidence, Failure> {
    let planned = three_keys()?;
    let mkts = mkts(&planned);
    let managers = Managers::new(lab, family, &planned, &planned).await?;
    let mut managed = managers.open(&mkts, 0).await?;
    for now in MOMENTS {
        managed.step_under_traffic(now).await?;
    }
    let left = [keys(lab, &managed.kernels).await?, south_keys(&managed.kernels).await?];
    let third = mkts.last().ok_or_else(|| Failure("there are no keys".to_owned()))?;
    let ids = |keys: &[InstalledKey]| keys.iter().map(|key| key.name.send_id).collect::<Vec<_>>();
    let left = left.map(|keys| ids(&keys));
    ensure(left == [vec![third.recv_id().0], vec![third.send_id().0]], || {
        format!("the keys left are {left:?}")
    })?;
    let mut evidence = managed.detach().await?.close(true).await?;
    let by_key = evidence.wire.by_key.clone();
    for mkt in &mkts {
        for id in [mkt.send_id().0, mkt.recv_id().0] {
            ensure(by_key.contains_key(&id), || format!("no segment has KeyID {id}"))?;
        }
    }
    let used: Vec<String> = by_key.iter().map(|(id, segments)| format!("{id}: {segments}")).collect();
    evidence.figures = format!("segments by KeyID {}; the third key alone is left", used.join(", "));
    Ok(evidence)
}

async fn roll_without_the_third(lab: &Lab, family: Family) -> Result<Refusal, Failure> {
    let planned = three_keys()?;
    let (mkts, two) = (mkts(&planned), &planned[..2]);
    let managers = Managers::new(lab, family, &planned, two).await?;
    let mut managed = managers.open(&mkts, 0).await?;
    for now in MOMENTS.into_iter().filter(|now| *now < SECOND_SENT_UNTIL) {
        managed.step_under_traffic(now).await?;
    }
    let second = two.last().map(|(mkt, ..)| mkt.send_id().0);
    let [north, south] = managed.kernels.info().await?;
    ensure(south.current_key == second && (north.bad, north.key_not_found, south.bad) == (0, 0, 0), || {
        format!("after the first change: north {north:?}, south {south:?}")
    })?;
    let before = managers.south_guest.counters().await?;
    let not_found = NetworkCounters { key_not_found: 1, ..NetworkCounters::default() };
    let wait = AwaitCounters { at_least: before.plus(&not_found), time_limit: TIME_LIMIT_MILLISECONDS };
    // North goes over to the third key by itself when half of the time is over for which the second is still accepted.
    let [_, south] = managers.step(225).await?;
    ensure(south.expired, || format!("south does not say that it has expired: {south:?}"))?;
    let after = tokio::select! {
        after = managers.south_guest.call(wait) => after?,
        passed = managed.kernels.exchange(PIECE, PIECE) => {
            passed?;
            return Err(Failure("the session goes on under a key that south does not have".to_owned()));
        }
    };
    managed.detach().await?.reset().await?;
    Ok(Refusal::by_kernel("south", &after.since(&before)))
}

/// What is accepted has the keys of the moment of its handshake, and gets those of now when it is attached.
fn ao_43_a_session_accepted_while_keys_change() -> Row {
    Row::new(
        "manager-accepted-while-keys-change",
        "the handshake is done when the listener has the first key alone, the second comes to it, and only then is the \
         session accepted and attached; it goes over to the second (AO-43)",
        move |lab| accept_late(lab).boxed_local(),
        "the accepted session is not attached, and keeps the first key alone",
        move |lab| accept_unattached(lab).boxed_local(),
    )
}

const FAMILY: Family = Family::Ipv4;
/// When the second key comes to the listener.
const CHANGE: i64 = 75;
/// When both ends have it, and when they have gone over to it.
const BEFORE: [i64; 2] = [80, 109];
/// When the first key is gone.
const AFTER: i64 = 140;

/// A session that is accepted after the listener's keys have changed.
async fn accept_after_change<'a>(
    lab: &'a Lab,
    managers: &Managers<'a>,
) -> Result<(Kernels<'a>, u64), Failure> {
    let planned = three_keys()?;
    let listener = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    managers.attach_north(listener, 0).await?;
    let south = open_socket(managers.south_guest, FAMILY, 0, Vec::new()).await?;
    managers.attach_south(south, 0).await?;
    let step = async { managers.step_north(CHANGE).await.map(drop) };
    let kernels = Kernels::connect_and_accept(lab, FAMILY, &mkts(&planned), (listener, south), step).await?;
    let ids: Vec<u8> = keys(lab, &kernels).await?.iter().map(|key| key.name.send_id).collect();
    let first = planned.first().map(|(mkt, ..)| mkt.recv_id().0);
    ensure(Some(&*ids) == first.as_ref().map(std::slice::from_ref), || {
        format!("it was accepted with the keys {ids:?}")
    })?;
    Ok((kernels, listener))
}

async fn accept_late(lab: &Lab) -> Result<Evidence, Failure> {
    let planned = three_keys()?;
    let managers = Managers::new(lab, FAMILY, &planned, &planned).await?;
    let (kernels, listener) = accept_after_change(lab, &managers).await?;
    managers.attach_north(kernels.north, CHANGE).await?;
    let mut managed = super::Managed { managers, kernels, listener };
    for now in BEFORE.into_iter().chain([AFTER]) {
        managed.step_under_traffic(now).await?;
    }
    let ids: Vec<u8> = keys(lab, &managed.kernels).await?.iter().map(|key| key.name.send_id).collect();
    let mut evidence = managed.detach().await?.close(true).await?;
    evidence.figures = format!("accepted with the first key alone, went on with {ids:?}");
    Ok(evidence)
}

async fn accept_unattached(lab: &Lab) -> Result<Refusal, Failure> {
    let planned = three_keys()?;
    let managers = Managers::new(lab, FAMILY, &planned, &planned).await?;
    let (mut kernels, listener) = accept_after_change(lab, &managers).await?;
    for now in BEFORE {
        managers.step_south(now).await?;
        kernels.exchange(PIECE, PIECE).await?;
    }
    let south = managers.step_south(AFTER).await?;
    let not_found = NetworkCounters { key_not_found: 1, ..NetworkCounters::default() };
    let counted = tokio::select! {
        counted = kernels.await_north_counted(not_found) => counted?,
        passed = kernels.transfer_to_north(1) => {
            passed?;
            return Err(Failure(format!("an octet went through after {south:?}")));
        }
    };
    lab.north.call(agent::Detach { socket: listener }).await?;
    managers.south_guest.call(agent::Detach { socket: kernels.south }).await?;
    kernels.reset().await?;
    Ok(Refusal::by_kernel("north", &counted))
}

async fn keys(lab: &Lab, kernels: &Kernels<'_>) -> Result<Vec<InstalledKey>, Failure> {
    lab.north.call(ListKeys { socket: kernels.north }).await
}

async fn south_keys(kernels: &Kernels<'_>) -> Result<Vec<InstalledKey>, Failure> {
    kernels.south_guest.call(ListKeys { socket: kernels.south }).await
}
