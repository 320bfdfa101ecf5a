//! The second wrap: moving a connection advances it by almost 8 GiB, so that its next wrap takes the SNE from 1 to 2.

use agent::Counted;
use speaker::protection::mirrored;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::{Exported, TcpState};
use wireseal_tcp_ao::{Connection, ConnectionState, MKTS_PER_PEER, Mkt, MktSet, Sne};

use super::near_the_top::{NEAR_THE_TOP, OCTETS};
use crate::prelude::*;
use crate::rows::kernels::{Kernels, REFUSED, delivered};
use crate::rows::session::{SOME, key};

/// The SNE before the wrap.
const FIRST_TURN: Sne = Sne(1);
const SECOND_TURN: Sne = Sne(2);

pub fn row(family: Family) -> Row {
    Row::new(
        format!("wrap-second-turn-{family}"),
        format!(
            "one kernel to another over {family}, from the second turn of the numbers to the third; both ends exported, all numbers brought to just before \
             the end of the second turn, both restored (TCP_AO_REPAIR with SNE 1), {} MiB each way",
            OCTETS >> 20
        ),
        async move |lab| turn_again(lab, family).await,
        "north is restored with the receive SNE of the first turn",
        async move |lab| stay_behind(lab, family).await,
    )
}

fn mkts() -> Result<[Mkt; 1]> {
    Ok([key(1, TcpAoAlgorithm::Aes128Cmac)?])
}

async fn turn_again(lab: &Lab, family: Family) -> Result<Evidence> {
    let mkts = mkts()?;
    let mut kernels = Kernels::open(lab, family, &mkts).await?;
    let (mut recording, [north, south]) = age(&mut kernels).await?;
    let mut wire = crate::verify::verify(lab, &recording, &mkts)?;
    wire.check_all_verified()?;
    let states = [north.authentication.clone(), south.authentication.clone()];
    restore(&mut kernels, &north, &south).await?;
    kernels.exchange(OCTETS, OCTETS).await?;
    let (turned, [north, south]) = export(&kernels).await?;
    let after = [north.authentication, south.authentication];
    let snes = after.each_ref().map(|state| (state.send_sne, state.receive_sne));
    ensure!(snes == [(SECOND_TURN, SECOND_TURN); 2], "the SNEs are {snes:?}");
    wire.verified += verify(&turned, &kernels, &states, &mkts)?;
    wire.highest_sne = SECOND_TURN.0;
    for (end, before) in after.iter().zip(&states) {
        check_socket(end, before, delivered(&turned, end.pair.local.address()))?;
    }
    recording.frames.extend(turned.frames);
    let counters = kernels.account(&recording, true).await?;
    Ok(Evidence {
        counters: vec![("north".into(), counters[0].to_string()), ("south".into(), counters[1].to_string())],
        wire,
        figures: "SNE 1 to 2 both ways at both ends".to_owned(),
        recording,
        ..Evidence::default()
    })
}

/// Checks that a socket's own counters, which move with it, grew by the delivered segments, all good.
fn check_socket(end: &ConnectionState, before: &ConnectionState, delivered: u64) -> Result<()> {
    let [counted, before] = [end.counters, before.counters].map(Counted::from);
    let expected = Counted::good(before.good + delivered);
    counted.check(&format!("the socket at {}", end.pair.local), &expected)?;
    Ok(())
}

async fn stay_behind(lab: &Lab, family: Family) -> Result<Refusal> {
    let mut kernels = Kernels::open(lab, family, &mkts()?).await?;
    let (_, [mut north, south]) = age(&mut kernels).await?;
    north.authentication.receive_sne = Sne(0);
    restore(&mut kernels, &north, &south).await?;
    Ok(Refusal::by("north", &kernels.refuses_octet(Counted::bad(REFUSED)).await?))
}

/// Takes the connection out of both kernels and moves all sequence numbers to just before the second wrap.
async fn age(kernels: &mut Kernels<'_>) -> Result<(Recording, [Exported; 2])> {
    kernels.exchange(SOME, SOME).await?;
    let (recording, [mut north, mut south]) = export(kernels).await?;
    let sends = [&north, &south].map(|end| end.authentication.send_sequence);
    let receives = [&south, &north].map(|end| end.authentication.receive_sequence);
    ensure!(sends == receives, "segments are in flight");
    let [by_north, by_south] = sends.map(|sequence| NEAR_THE_TOP.0.wrapping_sub(sequence.0));
    shift(&mut north, by_north, by_south);
    shift(&mut south, by_south, by_north);
    Ok((recording, [north, south]))
}

/// Cuts the cables and takes both ends out of their kernels; returns the recording since the last call.
async fn export(kernels: &Kernels<'_>) -> Result<(Recording, [Exported; 2])> {
    let recording = kernels.cut_off().await?;
    Ok((recording, tokio::try_join!(kernels.export_north(), kernels.export_south())?.into()))
}

/// Restores both ends, then joins the cables. Leaving TCP_REPAIR sends a window probe; it must get lost on the cut cable, or
/// a peer that is not restored yet would count it.
async fn restore(kernels: &mut Kernels<'_>, north: &Exported, south: &Exported) -> Result<()> {
    kernels.restore_north(north).await?;
    kernels.restore_south(south).await?;
    kernels.set_plugged(true);
    Ok(())
}

/// Adds to all send and receive sequence numbers, and sets their SNEs.
fn shift(exported: &mut Exported, send: u32, receive: u32) {
    let Exported { tcp, authentication: state, .. } = exported;
    (state.send_sne, state.receive_sne) = (FIRST_TURN, FIRST_TURN);
    let TcpState { send_next, receive_next, window, .. } = tcp;
    for number in [&mut state.send_sequence, &mut state.sent_end, &mut state.acknowledged, send_next] {
        number.0 = number.0.wrapping_add(send);
    }
    let windows = [&mut window.send_update, &mut window.receive_update];
    for number in [&mut state.receive_sequence, receive_next].into_iter().chain(windows) {
        number.0 = number.0.wrapping_add(receive);
    }
}

/// Verifies the recording with a Wireseal connection for each end, imported from the restored state.
fn verify(
    recording: &Recording,
    kernels: &Kernels<'_>,
    [north, south]: &[ConnectionState; 2],
    mkts: &[Mkt],
) -> Result<u64> {
    let for_south = MktSet::<MKTS_PER_PEER>::from_mkts(mkts.iter().cloned())?;
    let for_north = MktSet::from_mkts(mkts.iter().map(mirrored).collect::<Result<Vec<_>, _>>()?)?;
    let mut verified = 0;
    for (state, mkts, pair) in [(north, for_north, kernels.pair), (south, for_south, kernels.pair.reversed())]
    {
        let mut receiver = Connection::import(state, &mkts)?;
        for segment in recording.sent(pair) {
            receiver.verify(&segment).map_err(|error| anyhow!("{segment:?}: {error}"))?;
            verified += 1;
        }
        let sne = receiver.export()?.receive_sne;
        ensure!(sne == SECOND_TURN, "{pair}: the recording reached {sne:?}");
    }
    Ok(verified)
}
