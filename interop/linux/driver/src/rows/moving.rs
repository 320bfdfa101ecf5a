//! A live session moved out of a kernel and into another place, while its peer sees one connection.

use agent::{Amount, Counted, Export, Restore, Transfer};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::Exported;
use wireseal_tcp_ao::{MKTS_PER_PEER, Mkt, MktSet, SocketPair};

use super::kernels::{Kernels, REFUSED, to_north, to_south};
use super::session::{End, SOME, Session, Setup, key, key_with};
use crate::carrier::{Carrier, Place};
use crate::row::prelude::*;
use crate::verify::verify;

/// Octets that south sends in each place. North's are slowed at first, so that much is in flight when south is moved.
const PART: u64 = 1 << 20;
/// Octets that south has received after this many places.
const RECEIVED: [u64; 4] = [0, PART / 4, PART, 3 * PART];
/// Octets that south, or its stand-in, sends while north's cable is cut: they are moved with the connection, which
/// cannot go on without them.
const UNHEARD: u64 = 8 << 10;

/// Where a session is moved to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// Into the driver and back.
    Userspace,
    /// Into another socket.
    Kernel,
}

/// Options that fit into a SYN beside TCP-AO: the accepting kernel agrees to one of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Agreed {
    Sack,
    Timestamps,
}

pub fn rows() -> Vec<Row> {
    let all = Family::ALL.into_iter().flat_map(|family| [(family, By::Userspace), (family, By::Kernel)]);
    let with_sack = all.map(|(family, by)| row(family, by, Agreed::Sack));
    let with_timestamps = [By::Userspace, By::Kernel].map(|by| row(Family::Ipv4, by, Agreed::Timestamps));
    with_sack.chain(with_timestamps).chain(Family::ALL.map(wrong_numbers)).collect()
}

fn row(family: Family, by: By, agreed: Agreed) -> Row {
    let (suffix, beside) = match agreed {
        Agreed::Sack => ("", "SACK"),
        Agreed::Timestamps => ("-timestamps", "timestamps"),
    };
    let (name, what) = match by {
        By::Userspace => (
            "userspace",
            "to userspace and back: with TCP_REPAIR, TCP_AO_REPAIR and Connection::import, which takes over south's addresses, and \
             with wireseal_linux::restore",
        ),
        By::Kernel => ("kernel", "to a new socket, twice: with TCP_REPAIR and TCP_AO_REPAIR"),
    };
    Row::new(
        format!("moving-{name}-{family}{suffix}"),
        format!(
            "a session of two kernels over {family} with {beside} is moved in mid-transfer from south {what}; {} MiB each way in \
             all, and north makes one transfer of it",
            (3 * PART) >> 20
        ),
        async move |lab| agreed_on(lab, agreed, move_on(lab, family, by, agreed)).await,
        "south's end is taken up with another ISN, with another SNE, with another secret: each is refused, and the right one \
         goes on after them",
        async move |lab| agreed_on(lab, agreed, move_wrongly(lab, family)).await,
    )
}

/// Runs `row` while the guests' connections agree on this.
async fn agreed_on<T>(lab: &Lab, agreed: Agreed, row: impl Future<Output = Result<T>>) -> Result<T> {
    let offer_sack = async |offered: u8| {
        let order = format!("sysctl -q -w net.ipv4.tcp_sack={offered}");
        for guest in [&lab.north, lab.south().await?] {
            guest.shell(&order).await?;
        }
        anyhow::Ok(())
    };
    if agreed == Agreed::Sack {
        return row.await;
    }
    offer_sack(0).await?;
    let result = row.await;
    offer_sack(1).await?;
    result
}

fn mkts() -> Result<Vec<Mkt>> {
    Ok(vec![key(1, TcpAoAlgorithm::Aes128Cmac)?, key(2, TcpAoAlgorithm::LinuxHmacSha256)?])
}

fn set(mkts: &[Mkt]) -> Result<MktSet<MKTS_PER_PEER>> {
    Ok(MktSet::from_mkts(mkts.iter().cloned())?)
}

async fn move_on(lab: &Lab, family: Family, by: By, agreed: Agreed) -> Result<Evidence> {
    let mkts = mkts()?;
    let mut kernels = Kernels::open(lab, family, &mkts).await?;
    let all = north_transfers_all(lab, &kernels);
    let moves = async {
        let heard = PART - UNHEARD;
        kernels.south_transfers(to_north(0..heard), to_south(0..RECEIVED[1])).await?;
        // South must have unread data, and room for unacknowledged data.
        await_acknowledged(lab, kernels.pair, heard).await?;
        await_acknowledged(lab, kernels.pair.reversed(), RECEIVED[1] + 1).await?;
        lab.wire.set_plugged(Port::North, false);
        kernels.south_transfers(to_north(heard..PART), Amount::NONE).await?;
        let first = kernels.export_south().await?;
        check_queues(&first)?;
        let has = (first.tcp.sack, first.tcp.timestamp.is_some());
        ensure!(
            has == (agreed == Agreed::Sack, agreed == Agreed::Timestamps),
            "SACK and timestamps are agreed on as {has:?}"
        );
        ensure!(!first.tcp.receive_queue.is_empty(), "there is nothing that is not read");
        let mut figures = vec![described("first", &first)];
        let second = match by {
            By::Userspace => {
                let place = Place::take_over(&lab.wire, Port::South, Port::Userspace, Port::North);
                let before = Counted::from(first.authentication.counters);
                let taken = first.tcp.send_queue.len() as u64;
                let mut carrier = Carrier::take_up(place, first, &set(&mkts)?)?;
                lab.wire.set_plugged(Port::North, true);
                let (send, receive) = (PART..PART + heard, RECEIVED[1]..RECEIVED[2]);
                carrier.transfer(to_north(send), to_south(receive)).await?;
                carrier.serve_until(|carrier| u64::from(carrier.moved().0) == taken + heard).await?;
                lab.wire.set_plugged(Port::North, false);
                carrier.transfer(to_north(PART + heard..2 * PART), Amount::NONE).await?;
                let counters = carrier.counters();
                let good = counters.good - before.good;
                ensure!(
                    good > 0 && counters == Counted { good: counters.good, ..before },
                    "the carrier has counted {counters} after {before}"
                );
                figures.push(format!("userspace {good} good, 0 bad"));
                let exported = carrier.export()?;
                check_queues(&exported)?;
                exported
            }
            By::Kernel => {
                kernels.restore_south(&first).await?;
                lab.wire.set_plugged(Port::North, true);
                let (send, receive) = (PART..2 * PART, RECEIVED[1]..RECEIVED[2]);
                kernels.south_transfers(to_north(send), to_south(receive)).await?;
                kernels.export_south().await?
            }
        };
        figures.push(described("second", &second));
        kernels.restore_south(&second).await?;
        kernels.set_plugged(true);
        kernels.south_transfers(to_north(2 * PART..3 * PART), to_south(RECEIVED[2]..RECEIVED[3])).await?;
        Ok(figures)
    };
    let ((), figures) = tokio::try_join!(all, moves)?;
    let [north, _] = kernels.info().await?;
    let good = north.counted.good;
    ensure!(good > 0 && north.counted == Counted::good(good), "north's socket says {north:?}");
    let figures = format!("north's one socket {good} good, 0 bad, no resets; {}", figures.join(", "));
    Ok(kernels.close(false).await?.with_figures(figures))
}

/// North makes one transfer of it all, wherever south is.
fn north_transfers_all<'a>(
    lab: &'a Lab,
    kernels: &Kernels<'_>,
) -> impl Future<Output = Result<()>> + use<'a> {
    let (send, receive) = (to_south(0..3 * PART), to_north(0..3 * PART));
    lab.north.call(Transfer { socket: kernels.north, send, receive })
}

/// Restored wrongly three times, and correctly in the end.
async fn move_wrongly(lab: &Lab, family: Family) -> Result<Refusal> {
    let mkts = mkts()?;
    let mut kernels = Kernels::open(lab, family, &mkts).await?;
    let all = north_transfers_all(lab, &kernels);
    let moves = async {
        kernels.south_transfers(to_north(0..PART), to_south(0..RECEIVED[1])).await?;
        // Without SACK, Linux retransmits a moved queue a few segments at each timeout, and each timeout is twice as long as the last.
        await_acknowledged(lab, kernels.pair, PART).await?;
        let exported = kernels.export_south().await?;
        let (mut other_isn, mut other_sne) = (exported.clone(), exported.clone());
        other_isn.authentication.local_isn.0 ^= 1;
        other_sne.authentication.send_sne.0 += 1;
        other_sne.authentication.receive_sne.0 += 1;
        let other_secret = (1..)
            .zip(&mkts)
            .map(|(number, mkt)| key_with(number, mkt.parameters().algorithm, "another secret"));
        let other_secret = other_secret.collect::<Result<Vec<_>, _>>()?;
        let wrong = [
            ("ISN", other_isn, &mkts),
            ("SNE", other_sne, &mkts),
            ("secret", exported.clone(), &other_secret),
        ];
        let mut counted = Vec::new();
        for (what, exported, mkts) in wrong {
            let (by_north, by_userspace) = take_up_wrongly(lab, exported, mkts).await?;
            counted.push((format!("north: bad (another {what})"), by_north));
            counted.push((format!("userspace: bad (another {what})"), by_userspace));
        }
        lab.wire.set_plugged(Port::South, false);
        kernels.restore_south(&exported).await?;
        lab.wire.set_plugged(Port::South, true);
        kernels.south_transfers(to_north(PART..3 * PART), to_south(RECEIVED[1]..RECEIVED[3])).await?;
        Ok(counted)
    };
    let ((), counted) = tokio::try_join!(all, moves)?;
    Ok(Refusal { counted })
}

/// Checks that nothing gets through; returns how many segments the two ends have refused.
async fn take_up_wrongly(lab: &Lab, exported: Exported, mkts: &[Mkt]) -> Result<(u64, u64)> {
    let before = lab.north.counters().await?;
    let counted = Counted::from(exported.authentication.counters);
    let place = Place::take_over(&lab.wire, Port::South, Port::Userspace, Port::North);
    let mut carrier = Carrier::take_up(place, exported, &set(mkts)?)?;
    carrier.write_all(&[0; 4096]);
    let by_north = lab.north.await_counted(&before, Counted::bad(REFUSED));
    let by_north = refused(by_north, carrier.serve_until(|_| false)).await?;
    carrier.serve_until(|carrier| carrier.counters().bad > counted.bad).await?;
    let moved = carrier.moved();
    ensure!(moved == (0, 0), "octets went through: {moved:?}");
    Ok((by_north.bad, carrier.counters().bad - counted.bad))
}

/// Waits until this many octets of `pair.local` are acknowledged.
async fn await_acknowledged(lab: &Lab, pair: SocketPair, octets: u64) -> Result<()> {
    let is_acknowledged = |recording: &Recording| {
        let syn = recording.sent(pair).find(|segment| segment.flags().syn())?;
        let heard = recording.sent(pair.reversed()).last()?.acknowledgment();
        // The SYN takes a sequence number, too.
        (i64::from(heard.offset_from(syn.sequence())) > octets as i64).then_some(())
    };
    lab.wire.await_recorded("the acknowledgment before the move", is_acknowledged).await
}

/// Fails unless there is unacknowledged data.
fn check_queues(Exported { tcp, .. }: &Exported) -> Result<()> {
    let (queue, unsent) = (tcp.send_queue.len(), tcp.unsent);
    ensure!(
        queue as u64 >= UNHEARD && unsent < queue,
        "{queue} octets are not acknowledged, {unsent} of them not sent"
    );
    Ok(())
}

/// What was in flight when the session was moved.
fn described(which: &str, exported: &Exported) -> String {
    let (send, receive) = (exported.tcp.send_queue.len(), exported.tcp.receive_queue.len());
    format!("{which} move with {send} octets not acknowledged and {receive} not read")
}

/// What is wrong in a connection that the kernel takes up again.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    SendIsn,
    ReceiveIsn,
    SendSne,
    ReceiveSne,
}

/// The ends that then refuse the other's segments. Every traffic key depends on both ISNs, and each SNE on one direction.
const WRONG: [(Wrong, &[End]); 4] = [
    (Wrong::SendIsn, &End::BOTH),
    (Wrong::ReceiveIsn, &End::BOTH),
    (Wrong::SendSne, &[End::Userspace]),
    (Wrong::ReceiveSne, &[End::Kernel]),
];

fn wrong_numbers(family: Family) -> Row {
    Row::new(
        format!("moving-wrong-numbers-{family}"),
        format!(
            "the kernel's end of a session with userspace over {family} is moved into a new socket with wrong numbers: an ISN, its own or the \
             peer's, and both ends refuse everything; an SNE, for sending or for receiving, and only the receiver does"
        ),
        async move |lab| move_with_wrong_numbers(lab, family).await,
        "nothing is wrong: the session goes on",
        async move |lab| move_with_right_numbers(lab, family).await,
    )
}

/// A used session, the kernel's end of which has been moved into a new socket with this fault, and the recording until then.
async fn moved_within_kernel(
    lab: &Lab,
    family: Family,
    wrong: Option<Wrong>,
) -> Result<(Session<'_>, Recording)> {
    let mut session = Session::open_used(lab, Setup::with_keys(family, End::Userspace, &mkts()?)).await?;
    let ends = &mut session.ends;
    let mut exported = Exported::from_octets(&lab.north.call(Export { socket: ends.socket }).await?)?;
    let recording = lab.wire.take_recording();
    let numbers = &mut exported.authentication;
    match wrong {
        Some(Wrong::SendIsn) => numbers.local_isn.0 ^= 1,
        Some(Wrong::ReceiveIsn) => numbers.remote_isn.0 ^= 1,
        Some(Wrong::SendSne) => numbers.send_sne.0 += 1,
        Some(Wrong::ReceiveSne) => numbers.receive_sne.0 += 1,
        None => {}
    }
    let keys = ends.setup.kernel_keys()?;
    ends.socket = lab.north.call(Restore { exported: exported.to_octets(), keys }).await?;
    Ok((session, recording))
}

async fn move_with_wrong_numbers(lab: &Lab, family: Family) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for (wrong, refusers) in WRONG {
        let named = || format!("{wrong:?}");
        let (mut session, recording) =
            moved_within_kernel(lab, family, Some(wrong)).await.with_context(named)?;
        let before = [session.ends.userspace.counters(), session.ends.kernel_counted().await?];
        let all_have_refused = async |ends: &super::session::Ends<'_>| {
            for (end, before) in End::BOTH.iter().zip(&before) {
                // The other end verifies what this one sends, without getting through.
                let wanted = if refusers.contains(end) { Counted::bad(REFUSED) } else { Counted::good(1) };
                ends.await_counted(*end, before.plus(&wanted)).await?;
            }
            Ok([ends.userspace.counters(), ends.kernel_counted().await?])
        };
        let counted = session.until_refused(&End::BOTH, all_have_refused).await.with_context(named)?;
        for ((end, counted), before) in End::BOTH.iter().zip(counted).zip(&before) {
            let counted = counted.since(before);
            let refuses = refusers.contains(end);
            let is_expected =
                if refuses { counted.good == 0 } else { counted == Counted::good(counted.good) };
            ensure!(is_expected, "{wrong:?}: {end} has counted {counted}");
            evidence.counters.push((format!("{end} ({wrong:?})"), counted.to_string()));
        }
        // What comes after the move is not the session's.
        evidence.wire.add(verify(lab, &recording, &session.ends.setup.userspace)?);
        evidence.recording.frames.extend(recording.frames);
    }
    Ok(evidence.with_figures(format!("{} ways to be wrong", WRONG.len())))
}

async fn move_with_right_numbers(lab: &Lab, family: Family) -> Result<Refusal> {
    let (mut session, _) = moved_within_kernel(lab, family, None).await?;
    session.exchange(SOME, SOME).await?;
    let info = session.ends.info().await?;
    info.counted.check_good("the new socket")?;
    Ok(Refusal::of("new socket: good", info.counted.good))
}
