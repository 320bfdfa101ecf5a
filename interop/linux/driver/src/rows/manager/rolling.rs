//! Three keys, one after another, on a live session.

use agent::{Counted, ListKeys};

use super::managed::{BEHIND, Managed, Managers, mkts, three_keys};
use crate::guest::Guest;
use crate::prelude::*;
use crate::rows::kernels::{Kernels, open_socket};
use crate::rows::session::SOME;

/// The moments at which the managers are stepped: before, at and after each change, and one step back in time.
const MOMENTS: [i64; 18] =
    [10, 65, 72, 80, 101, 99, 106, 109, 125, 138, 150, 169, 180, 199, 203, 208, 229, 240];
/// When south's second key may not be sent with any more.
const SECOND_SENT_UNTIL: i64 = 200 + BEHIND;

pub fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Family::ALL.into_iter().map(row).collect();
    // What is accepted has the keys of the moment of its handshake, and gets those of now when it is attached.
    rows.push(Row::new(
        "manager-accepted-while-keys-change",
        "a second key comes to the listener between the handshake and the accepting; then the session is \
         accepted and attached, and goes over to the second (AO-43)",
        ao_43_a_session_accepted_while_keys_change,
        "the accepted session is not attached, and keeps the first key alone",
        accept_unattached,
    ));
    rows
}

fn row(family: Family) -> Row {
    Row::new(
        format!("manager-rolling-{family}"),
        format!(
            "a KeyManager in each kernel's guest rolls three keys over on a live session over {family}; they are of three \
             algorithms, south's clock is {BEHIND} s behind, both stepped {} times under traffic",
            MOMENTS.len()
        ),
        async move |lab| roll(lab, family).await,
        "south's chain is without the third key: the session goes on under the second until that may not be sent with",
        async move |lab| roll_without_the_third(lab, family).await,
    )
}

async fn roll(lab: &Lab, family: Family) -> Result<Evidence> {
    let keys = three_keys()?;
    let mkts = mkts(&keys);
    let managers = Managers::new(lab, family, &keys, &keys).await?;
    let mut managed = managers.open(&mkts, 0).await?;
    for now in MOMENTS {
        managed.step_under_traffic(now).await?;
    }
    let third = mkts.last().context("there are no keys")?;
    let kernels = &managed.kernels;
    let left =
        [send_ids(&lab.north, kernels.north).await?, send_ids(kernels.south_guest, kernels.south).await?];
    ensure!(left == [[third.recv_id().0], [third.send_id().0]], "the keys left are {left:?}");
    let evidence = managed.detach().await?.close(true).await?;
    let by_key = &evidence.wire.by_key;
    for mkt in &mkts {
        for id in [mkt.send_id().0, mkt.recv_id().0] {
            ensure!(by_key.contains_key(&id), "no segment has KeyID {id}");
        }
    }
    let used: Vec<String> = by_key.iter().map(|(id, segments)| format!("{id}: {segments}")).collect();
    let figures = format!("segments by KeyID {}; the third key alone is left", used.join(", "));
    Ok(evidence.with_figures(figures))
}

async fn roll_without_the_third(lab: &Lab, family: Family) -> Result<Refusal> {
    let keys = three_keys()?;
    let (mkts, two) = (mkts(&keys), &keys[..2]);
    let managers = Managers::new(lab, family, &keys, two).await?;
    let mut managed = managers.open(&mkts, 0).await?;
    for now in MOMENTS.into_iter().filter(|now| *now < SECOND_SENT_UNTIL) {
        managed.step_under_traffic(now).await?;
    }
    let second = two.last().map(|key| key.mkt().send_id().0);
    let [north, south] = managed.kernels.info().await?;
    ensure!(
        south.current_key == second
            && (north.counted.bad, north.counted.key_not_found, south.counted.bad) == (0, 0, 0),
        "after the first change: north {north:?}, south {south:?}"
    );
    // A later acknowledgment would ask for the key of its time.
    managed.kernels.quiet().await?;
    let before = managers.south_guest.counters().await?;
    // North goes over to the third key by itself when half of the time is over for which the second is still accepted.
    let [_, south] = managers.step(225).await?;
    ensure!(south.expired == 1, "south does not say that it has expired: {south:?}");
    let counted = managers.south_guest.await_counted(&before, Counted::key_not_found(1));
    // Only north sends: what south sent would ask for the second key again.
    Ok(Refusal::by("south", &refused(counted, managed.kernels.exchange(0, SOME)).await?))
}

const FAMILY: Family = Family::Ipv4;
/// When the second key comes to the listener.
const CHANGE: i64 = 75;
/// When both ends have it, and when they have gone over to it.
const BEFORE: [i64; 2] = [80, 109];
/// When the first key is gone.
const AFTER: i64 = 140;

/// A session that is accepted after the listener's keys have changed.
async fn accept_after_change<'a>(lab: &'a Lab, managers: &Managers<'a>) -> Result<(Kernels<'a>, u64)> {
    let keys = three_keys()?;
    let listener = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    managers.attach_north(listener, 0).await?;
    let south = open_socket(managers.south_guest, FAMILY, 0, Vec::new()).await?;
    managers.attach_south(south, 0).await?;
    let step = async { managers.step_north(CHANGE).await.map(drop) };
    let kernels = Kernels::connect_and_accept(lab, FAMILY, &mkts(&keys), (listener, south), step).await?;
    let ids = send_ids(&lab.north, kernels.north).await?;
    let first = keys.first().map(|key| key.mkt().recv_id().0);
    ensure!(first.is_some_and(|first| ids == [first]), "it was accepted with the keys {ids:?}");
    Ok((kernels, listener))
}

async fn ao_43_a_session_accepted_while_keys_change(lab: &Lab) -> Result<Evidence> {
    let keys = three_keys()?;
    let managers = Managers::new(lab, FAMILY, &keys, &keys).await?;
    let (kernels, listener) = accept_after_change(lab, &managers).await?;
    managers.attach_north(kernels.north, CHANGE).await?;
    let mut managed = Managed { managers, kernels, listener };
    for now in BEFORE.into_iter().chain([AFTER]) {
        managed.step_under_traffic(now).await?;
    }
    let ids = send_ids(&lab.north, managed.kernels.north).await?;
    let evidence = managed.detach().await?.close(true).await?;
    Ok(evidence.with_figures(format!("accepted with the first key alone, went on with {ids:?}")))
}

async fn accept_unattached(lab: &Lab) -> Result<Refusal> {
    let keys = three_keys()?;
    let managers = Managers::new(lab, FAMILY, &keys, &keys).await?;
    let (mut kernels, _) = accept_after_change(lab, &managers).await?;
    for now in BEFORE {
        managers.step_south(now).await?;
        kernels.exchange(SOME, SOME).await?;
    }
    managers.step_south(AFTER).await?;
    Ok(Refusal::by("north", &kernels.refuses_octet(Counted::key_not_found(1)).await?))
}

async fn send_ids(guest: &Guest, socket: u64) -> Result<Vec<u8>> {
    Ok(guest.call(ListKeys { socket }).await?.iter().map(|key| key.0).collect())
}
