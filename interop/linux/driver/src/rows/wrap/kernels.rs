//! Between two kernels.

use agent::{Accept, Amount, ChooseIsn, Close, Connect, Counted, Finish, Listen, Transfer};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Mkt, SeqNum, Sne, SocketPair};

use super::near_the_top::{
    BEFORE, BEFORE_TIME_WAIT, NEAR_THE_TOP, OCTETS, check_wrapped, fresh_port, refused_at_sne_0,
};
use crate::prelude::*;
use crate::rows::kernels::{Kernels, REFUSED, north_keys, open_socket, south_keys};
use crate::rows::session::key;

pub fn row(family: Family) -> Row {
    Row::new(
        format!("wrap-{family}-kernels"),
        format!(
            "one kernel to another over {family}, both ISNs {} KiB from the top, {} MiB each way",
            BEFORE >> 10,
            OCTETS >> 20
        ),
        async move |lab| pass_the_top(lab, family).await,
        "north is restored with the SNEs of before the wrap (TCP_AO_REPAIR); and the recording is verified with an SNE that stays 0",
        async move |lab| stay_behind(lab, family).await,
    )
}

fn mkts() -> Result<[Mkt; 1]> {
    Ok([key(1, TcpAoAlgorithm::LinuxHmacSha256)?])
}

async fn pass_the_top(lab: &Lab, family: Family) -> Result<Evidence> {
    let mut kernels = open(lab, family).await?;
    let pair = kernels.pair;
    kernels.exchange(OCTETS, OCTETS).await?;
    let evidence = kernels.close(true).await?;
    let after = check_wrapped(&evidence.recording, pair)?;
    let sne = evidence.wire.highest_sne;
    ensure!(sne == 1, "the recording has come to SNE {sne}");
    Ok(evidence.with_figures(format!("wrapped after {after} octets")))
}

/// The kernels do it right, and an end that does not count the turns cannot verify what they send.
async fn stay_behind(lab: &Lab, family: Family) -> Result<Refusal> {
    let mut kernels = open(lab, family).await?;
    let pair = kernels.pair;
    kernels.exchange(OCTETS, OCTETS).await?;
    let recording = kernels.cut_off().await?;
    kernels.account(&recording, true).await?;
    let mkts = mkts()?;
    let to_north = refused_at_sne_0(&recording, pair, &mkts[0])?;
    let to_south = refused_at_sne_0(&recording, pair.reversed(), &mkts[0])?;
    let mut exported = kernels.export_north().await?;
    let state = &mut exported.authentication;
    let snes = (state.send_sne, state.receive_sne);
    ensure!(snes == (Sne(1), Sne(1)), "north's SNEs are {snes:?}");
    (state.send_sne, state.receive_sne) = (Sne(0), Sne(0));
    kernels.restore_north(&exported).await?;
    kernels.set_plugged(true);
    let refusal = Refusal::by("north", &kernels.refuses_octet(Counted::bad(REFUSED)).await?);
    let refusal = refusal.and(Refusal::of("recording: bad to north", to_north));
    Ok(refusal.and(Refusal::of("recording: bad to south", to_south)))
}

/// A connection whose ISNs are both near the top.
async fn open(lab: &Lab, family: Family) -> Result<Kernels<'_>> {
    let mkts = mkts()?;
    // A SYN that is not ahead of the connection in TIME-WAIT is no new one, and that has an ISN of south's own choice.
    let ports = loop {
        let ports = (fresh_port(), fresh_port());
        let last = leave_in_time_wait(lab, family, &mkts, ports).await?;
        if last.before(SeqNum(NEAR_THE_TOP.0)) {
            break ports;
        }
    };
    lab.wire.take_recording();
    Kernels::open_at(lab, family, &mkts, ports, Some(NEAR_THE_TOP)).await
}

/// North opens and closes first; the ISN of what it accepts next on these ports is near the top. Gives the last number of
/// south's.
async fn leave_in_time_wait(lab: &Lab, family: Family, mkts: &[Mkt], ports: (u16, u16)) -> Result<SeqNum> {
    let south = lab.south().await?;
    lab.wire.take_recording();
    let listener = open_socket(south, family, ports.1, south_keys(family, mkts)?).await?;
    south.call(Listen { socket: listener }).await?;
    let socket = open_socket(&lab.north, family, ports.0, north_keys(family, mkts)?).await?;
    lab.north.call(ChooseIsn { socket, isn: BEFORE_TIME_WAIT.0 }).await?;
    let remote = Port::South.at(family, ports.1);
    let connect = lab.north.call(Connect { socket, remote });
    let (_, accepted) = tokio::try_join!(connect, south.call(Accept { socket: listener }))?;
    // South closes when it has read the end, so that TIME-WAIT is north's alone.
    let answer = async {
        let receive = Transfer { socket: accepted, send: Amount::NONE, receive: Amount::of(1) };
        let end = south.call(receive).await;
        ensure!(end.is_err(), "north sends more than it should");
        south.call(Finish { socket: accepted }).await
    };
    tokio::try_join!(lab.north.call(Finish { socket }), answer)?;
    let ends = [(Port::South, ports.1), (Port::North, ports.0)];
    let [local, remote] = ends.map(|(guest, port)| guest.at(family, port).into());
    let pair = SocketPair { local, remote };
    // Of this connection, since one before may have sent its FIN again; and south is to know that it is through.
    let last = |recording: &Recording| {
        let last = recording.sent(pair).find(|segment| segment.flags().fin())?.end();
        recording.sent(pair.reversed()).any(|segment| segment.acknowledgment() == last).then_some(last)
    };
    let last = lab.wire.await_recorded("the acknowledgment of south's FIN", last).await?;
    lab.take_in(Port::South).await?;
    lab.north.call(Close { socket }).await?;
    south.call(Close { socket: accepted }).await?;
    south.call(Close { socket: listener }).await?;
    Ok(last)
}
