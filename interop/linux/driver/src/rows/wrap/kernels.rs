//! Between two kernels.

use agent::{Accept, ChooseIsn, Close, Connect, Export, Exported, Finish, Listen, Restore, Transfer};
use futures_util::FutureExt;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Mkt, SeqNum, SocketPair};

use super::userspace::{SYN_AND_FIN, TIME_WAIT_STEP};
use super::{BEFORE, OCTETS, check_wrapped, fresh_port, near_the_top, refused_at_sne_0, sent};
use crate::failure::{Failure, ensure};
use crate::guest::at;
use crate::lab::{Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::recording::Recording;
use crate::rows::kernels::{Kernels, address, north_keys, open_socket, south_keys};
use crate::rows::session::key;
use crate::rows::{Evidence, Refusal, Row};
use crate::userspace::{Amount, guest_transfer};
use crate::wire::Port;

pub fn rows() -> Vec<Row> {
    Family::ALL.into_iter().map(row).collect()
}

fn row(family: Family) -> Row {
    Row::new(
        format!("wrap-{}-kernels", family.name().to_lowercase()),
        format!(
            "one kernel to another over {}; both ISNs {} KiB from the top, {} MiB each way",
            family.name(),
            BEFORE >> 10,
            OCTETS >> 20
        ),
        move |lab| pass_the_top(lab, family).boxed_local(),
        "north is restored with the SNEs of before the wrap (TCP_AO_REPAIR); and the recording is verified with an SNE that stays 0",
        move |lab| stay_behind(lab, family).boxed_local(),
    )
}

fn mkts() -> Result<Vec<Mkt>, Failure> {
    Ok(vec![key(1, TcpAoAlgorithm::LinuxHmacSha256)?])
}

async fn pass_the_top(lab: &Lab, family: Family) -> Result<Evidence, Failure> {
    let mut kernels = open(lab, family).await?;
    let pair = kernels.pair;
    kernels.exchange(OCTETS, OCTETS).await?;
    let mut evidence = kernels.close(true).await?;
    let after = check_wrapped(&evidence.recording, pair)?;
    let sne = evidence.wire.highest_sne;
    ensure(sne == 1, || format!("the recording has come to SNE {sne}"))?;
    evidence.figures = format!("wrapped after {after} octets");
    Ok(evidence)
}

/// The kernels do it right, and whoever does not count the turns, be it a kernel, cannot verify what they send.
async fn stay_behind(lab: &Lab, family: Family) -> Result<Refusal, Failure> {
    let mut kernels = open(lab, family).await?;
    let pair = kernels.pair;
    kernels.exchange(OCTETS, OCTETS).await?;
    let recording = kernels.cut_off().await?;
    kernels.account(&recording, true).await?;
    let mkts = mkts()?;
    let [mkt] = &*mkts else { return Err(Failure("there is more than one key".to_owned())) };
    let to_north = refused_at_sne_0(&recording, pair, mkt)?;
    let to_south = refused_at_sne_0(&recording, pair.reversed(), mkt)?;
    let exported = lab.north.call(Export { socket: kernels.north }).await?;
    let snes = (exported.send_sne, exported.receive_sne);
    ensure(snes == (1, 1), || format!("north's SNEs are {snes:?}"))?;
    let behind = Exported { send_sne: 0, receive_sne: 0, ..exported };
    kernels.north = lab.north.call(Restore { exported: behind, keys: north_keys(family, &mkts)? }).await?;
    kernels.set_plugged(true);
    let mut refusal = Refusal::by_kernel("north", &kernels.refuses_octet().await?);
    kernels.reset().await?;
    refusal.counted.push(("recording: bad to north".into(), to_north));
    refusal.counted.push(("recording: bad to south".into(), to_south));
    Ok(refusal)
}

/// A connection whose ISNs are both near the top.
async fn open(lab: &Lab, family: Family) -> Result<Kernels<'_>, Failure> {
    let mkts = mkts()?;
    // A SYN that is not ahead of the connection in TIME-WAIT is no new one, and that has an ISN of south's own choice.
    let ports = loop {
        let ports = (fresh_port(), fresh_port());
        let last = leave_in_time_wait(lab, family, &mkts, ports).await?;
        if last.before(SeqNum(near_the_top().0)) {
            break ports;
        }
    };
    lab.wire.take_recording();
    let listener = open_socket(&lab.north, family, ports.0, north_keys(family, &mkts)?).await?;
    let south = open_socket(lab.south().await?, family, ports.1, south_keys(family, &mkts)).await?;
    Kernels::connect(lab, family, &mkts, listener, south, Some(near_the_top())).await
}

/// North opens and closes first; the ISN of what it accepts next on these ports is near the top. Gives the last number of
/// south's.
async fn leave_in_time_wait(
    lab: &Lab,
    family: Family,
    mkts: &[Mkt],
    ports: (u16, u16),
) -> Result<SeqNum, Failure> {
    let (south, time_limit) = (lab.south().await?, TIME_LIMIT_MILLISECONDS);
    lab.wire.take_recording();
    let isn = near_the_top().0.wrapping_sub(TIME_WAIT_STEP + SYN_AND_FIN);
    let listener = open_socket(south, family, ports.1, south_keys(family, mkts)).await?;
    south.call(Listen { socket: listener }).await?;
    let socket = open_socket(&lab.north, family, ports.0, north_keys(family, mkts)?).await?;
    lab.north.call(ChooseIsn { socket, isn }).await?;
    let remote = at(address(Port::South, family), ports.1);
    let connect = lab.north.call(Connect { socket, remote, time_limit });
    let (_, accepted) = tokio::try_join!(connect, south.call(Accept { socket: listener, time_limit }))?;
    // South closes when it has read the end, so that TIME-WAIT is north's alone.
    let answer = async {
        let end = south.call(receive_one(accepted.socket)).await;
        ensure(end.is_err(), || "north sends more than it should".to_owned())?;
        south.call(Finish { socket: accepted.socket, time_limit }).await
    };
    tokio::try_join!(lab.north.call(Finish { socket, time_limit }), answer)?;
    let ends = [(Port::South, ports.1), (Port::North, ports.0)];
    let [local, remote] = ends.map(|(guest, port)| at(address(guest, family), port).into());
    let pair = SocketPair { local, remote };
    // Of this connection, since one before may have sent its FIN again; and south is to know that it is through.
    let last = |recording: &Recording| {
        let last = sent(recording, pair).find(|segment| segment.flags().fin())?.end();
        sent(recording, pair.reversed()).any(|segment| segment.acknowledgment() == last).then_some(last)
    };
    let last = lab.wire.await_recorded("the acknowledgment of south's FIN", last).await?;
    lab.take_in(Port::South).await?;
    lab.north.call(Close { socket }).await?;
    south.call(Close { socket: accepted.socket }).await?;
    south.call(Close { socket: listener }).await?;
    Ok(last)
}

/// Waits for an octet, and fails when the stream ends instead.
const fn receive_one(socket: u64) -> Transfer {
    guest_transfer(socket, Amount::NONE, Amount { octets: 1, ..Amount::NONE })
}
