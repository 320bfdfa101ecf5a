//! Sequence numbers that wrap during a transfer, so that the sequence number extension advances (RFC 5925 §6.2, RFC 9187).

use std::mem;
use std::sync::atomic::{AtomicU16, Ordering};

use agent::{
    Accept, Amount, ChooseIsn, Close, Connect, Counted, Export, Finish, Listen, Restore, SocketInfo, Transfer,
};
use futures_util::TryFutureExt;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use speaker::forge;
use speaker::link::{DEFAULT_IP_MTU, Link};
use speaker::protection::mirrored;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::{Exported, TcpState};
use wireseal_tcp_ao::{
    Connection, ConnectionState, Isn, KdfContext, MKTS_PER_PEER, Mkt, MktSet, Segment, SeqNum, Sne,
    SocketPair, TrafficKey, verify_segment,
};

use crate::row::prelude::*;
use crate::rows::kernels::{Kernels, REFUSED, delivered, north_keys, open_socket, south_keys};
use crate::rows::session::{End, SOME, Session, Setup, USERSPACE_PORT, families_and_ends, key};
use crate::wait::NOT_REFUSED;

pub fn rows() -> Vec<Row> {
    let opened_by_both = families_and_ends().map(|(family, opener)| userspace(family, opener));
    let rows = [kernels, first_octet, second_turn];
    opened_by_both.chain(rows.into_iter().flat_map(|row| Family::ALL.map(row))).collect()
}

/// Octets that go each way before the wrap, at most.
pub const BEFORE: u32 = 1 << 20;
/// Octets that go each way in all.
pub const OCTETS: u64 = 4 << 20;
/// An ISN at most that close to the top.
pub const NEAR_THE_TOP: Isn = Isn(BEFORE.wrapping_neg());
/// The ISN of a connection, whose SYN and FIN take a number each, so that Linux gives the next one of the same ports
/// [`NEAR_THE_TOP`] if the first is in TIME-WAIT: it goes on 65,537 higher (`tcp_timewait_state_process`).
pub const BEFORE_TIME_WAIT: Isn = Isn(NEAR_THE_TOP.0.wrapping_sub(65_535 + 2 + 2));
/// Seeds that are tried: a multiple of what is needed on average.
const SEEDS: u64 = 1 << 20;

/// A port of a guest's that no row has used: something might be in TIME-WAIT there.
pub fn fresh_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(1790);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The kernel opens with a chosen ISN, from a chosen port unless that is 0, to a stack with this seed.
pub async fn connect_from_kernel(
    lab: &Lab,
    setup: Setup,
    isn: Isn,
    port: u16,
    seed: u64,
) -> Result<Session<'_>> {
    let setup = Setup { opener: End::Kernel, ..setup };
    let before: Counted = lab.north.counters().await?;
    let userspace = setup.userspace_seeded(lab, seed)?;
    let socket = setup.kernel_socket_at(lab, port, true).await?;
    lab.north.call(ChooseIsn { socket, isn: isn.0 }).await?;
    Session::connect(lab, setup, before, userspace, socket).await
}

/// Fails unless both directions have wrapped during the transfer; returns after how many octets.
pub fn check_wrapped(recording: &Recording, pair: SocketPair) -> Result<String> {
    let mut wrapped_after = Vec::new();
    for pair in [pair, pair.reversed()] {
        let Isn(isn) = forge::isn(recording.packets(), pair)?;
        let mut data = recording.sent(pair).filter(|segment| !segment.payload().is_empty());
        let has_wrapped = data.any(|segment| segment.sequence().0 < isn);
        let before = isn.wrapping_neg();
        ensure!(has_wrapped && before <= BEFORE, "{pair}: sent from {isn} on without a wrap");
        wrapped_after.push(before.to_string());
    }
    Ok(wrapped_after.join(" and "))
}

/// How many of the segments from `pair.local` to `pair.remote` do not verify with an SNE of 0.
pub fn refused_at_sne_0(recording: &Recording, pair: SocketPair, mkt: &Mkt) -> Result<u64> {
    let parameters = mkt.parameters();
    let source_isn = forge::isn(recording.packets(), pair)?;
    let destination_isn = forge::isn(recording.packets(), pair.reversed())?;
    let context = KdfContext { source: pair.local, destination: pair.remote, source_isn, destination_isn };
    let key = TrafficKey::derive(mkt, &context);
    let segments = recording.sent(pair).filter(|segment| !segment.flags().syn());
    Ok(segments.filter(|segment| verify_segment(&key, Sne(0), parameters, segment).is_err()).count() as u64)
}

/// A seed with which the first ISN of a stack is near the top.
pub fn seed_near_the_top() -> Result<u64> {
    seed(|isn| isn.0 >= NEAR_THE_TOP.0)
}

/// A seed with which the first ISN of a stack is as wanted.
pub fn seed(is_wanted: impl Fn(Isn) -> bool) -> Result<u64> {
    let start = fastrand::u64(..);
    let mut seeds = (0..SEEDS).map(|step| start.wrapping_add(step));
    let found = seeds.find(|seed| first_isn(*seed).is_some_and(&is_wanted));
    found.context("no seed will do")
}

/// The ISN of the first connection that a stack with this seed opens or accepts: it is the first random number of the stack.
fn first_isn(seed: u64) -> Option<Isn> {
    let (own, other) = (IpAddress::v4(192, 0, 2, 1), IpAddress::v4(192, 0, 2, 2));
    let mut link = Link::new(Medium::Ip, DEFAULT_IP_MTU);
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut interface = Interface::new(config, &mut link, Instant::ZERO);
    interface.update_ip_addrs(|addresses| {
        // There is room for one.
        let _ = addresses.push(IpCidr::new(own, 24));
    });
    let mut sockets = SocketSet::new(Vec::new());
    let mut socket = Socket::new(SocketBuffer::new(vec![0]), SocketBuffer::new(vec![0]));
    socket.connect(interface.context(), (other, 179), (own, 49_152)).ok()?;
    sockets.add(socket);
    interface.poll(Instant::ZERO, &mut link, &mut sockets);
    let syn = link.from_stack.try_pop()?;
    Some(Isn(Segment::parse(&syn).ok()?.sequence().0))
}

pub fn userspace(family: Family, opener: End) -> Row {
    let starting = match opener {
        End::Kernel => "chosen by TCP_QUEUE_SEQ",
        End::Userspace => "chosen by way of a connection in TIME-WAIT",
    };
    Row::new(
        format!("wrap-{family}-{opener}-opens"),
        format!(
            "{opener} opens over {family}, both ISNs within {} KiB of the top; the kernel's {starting}, {} MiB each way",
            BEFORE >> 10,
            OCTETS >> 20
        ),
        async move |lab| pass_with_userspace(lab, family, opener).await,
        "the kernel's SNEs are put back to 0 after the wrap (TCP_AO_REPAIR)",
        async move |lab| fall_behind(lab, family, opener).await,
    )
}

async fn pass_with_userspace(lab: &Lab, family: Family, opener: End) -> Result<Evidence> {
    let mut session = open_near_the_top(lab, family, opener).await?;
    session.exchange(OCTETS, OCTETS).await?;
    let pair = session.ends.pair;
    let exported = take_out(lab, &session).await?;
    let kernel = (exported.authentication.send_sne, exported.authentication.receive_sne);
    let userspace = session
        .ends
        .connection(|connection| (connection.highest_sent().0, connection.highest_received().0))?;
    let snes = [kernel, userspace];
    ensure!(snes == [(Sne(1), Sne(1)); 2], "the SNEs of the kernel and of userspace are {snes:?}");
    let counted = put_back(lab, &mut session, &exported).await?.counted;
    session.exchange(SOME, SOME).await?;
    let evidence = session.close().await?;
    let after = check_wrapped(&evidence.recording, pair)?;
    Ok(evidence.with_figures(format!(
        "wrapped after {after} octets; SNE 1 both ways at both ends, then {} good, {} bad",
        counted.good, counted.bad
    )))
}

async fn fall_behind(lab: &Lab, family: Family, opener: End) -> Result<Refusal> {
    let mut session = open_near_the_top(lab, family, opener).await?;
    session.exchange(OCTETS, OCTETS).await?;
    let mut exported = take_out(lab, &session).await?;
    (exported.authentication.send_sne, exported.authentication.receive_sne) = (Sne(0), Sne(0));
    put_back(lab, &mut session, &exported).await?;
    let bad = Counted::bad(3);
    let counted = session.until_refused(&End::BOTH, async |ends| {
        let kernel = ends.await_kernel_counted(bad).await?;
        Ok((kernel, ends.userspace.await_counted(bad).await?))
    });
    let (kernel, userspace) = counted.await?;
    Ok(Refusal::by("kernel", &kernel).and(Refusal::by("userspace", &userspace)))
}

/// Takes the connection out of the kernel. Neither end is sending, but a segment such as a window update must not reach a socket that has
/// no SNEs yet and would count it as bad. So the cable is cut, and frames in flight are awaited.
async fn take_out(lab: &Lab, session: &Session<'_>) -> Result<Exported> {
    session.ends.quiet().await?;
    lab.wire.set_plugged(Port::North, false);
    let good = lab.wire.segments_from(Port::Userspace);
    session.ends.await_kernel_counted(Counted::good(good)).await?;
    Ok(Exported::from_octets(&lab.north.call(Export { socket: session.ends.socket }).await?)?)
}

/// Restores it in the kernel.
async fn put_back(lab: &Lab, session: &mut Session<'_>, exported: &Exported) -> Result<SocketInfo> {
    let ends = &mut session.ends;
    let keys = ends.setup.kernel_keys()?;
    ends.socket = lab.north.call(Restore { exported: exported.to_octets(), keys }).await?;
    lab.wire.set_plugged(Port::North, true);
    ends.info().await
}

/// A connection whose ISNs are both near the top.
async fn open_near_the_top(lab: &Lab, family: Family, opener: End) -> Result<Session<'_>> {
    let setup = Setup::with_keys(family, opener, &[key(1, TcpAoAlgorithm::Aes128Cmac)?]);
    match opener {
        End::Kernel => connect_from_kernel(lab, setup, NEAR_THE_TOP, 0, seed_near_the_top()?).await,
        End::Userspace => {
            let port = fresh_port();
            kernel_leaves_time_wait(lab, &setup, port).await?;
            connect_from_userspace(lab, setup, port).await
        }
    }
}

/// Userspace opens to the port of a connection that is in TIME-WAIT, from that connection's other port.
async fn connect_from_userspace(lab: &Lab, setup: Setup, port: u16) -> Result<Session<'_>> {
    lab.wire.take_recording();
    let before = lab.north.counters().await?;
    let userspace = setup.userspace_seeded(lab, seed_near_the_top()?)?;
    let listener = setup.kernel_socket_at(lab, port, true).await?;
    lab.north.call(Listen { socket: listener }).await?;
    let local = Port::Userspace.at(setup.family, USERSPACE_PORT);
    let connect = userspace.stack.connect(Port::North.at(setup.family, port), Some(local)).err_into();
    let (stream, socket) = tokio::try_join!(connect, lab.north.call(Accept { socket: listener }))?;
    Session::established(lab, setup, before, userspace, stream, (socket, None))
}

/// A connection that the kernel opens and closes first, so that the ISN of its next one with the same ports, which the peer
/// opens, is near the top.
async fn kernel_leaves_time_wait(lab: &Lab, setup: &Setup, port: u16) -> Result<()> {
    // The next SYN has to be ahead of this connection's numbers for Linux to take it for a new one.
    let seed = seed(|isn| (1 << 31..(1 << 31) + (1 << 30)).contains(&isn.0))?;
    let mut session = connect_from_kernel(lab, setup.clone(), BEFORE_TIME_WAIT, port, seed).await?;
    let finish = lab.north.call(Finish { socket: session.ends.socket });
    let stream = &mut session.stream;
    let answer = async {
        let end = stream.read(&mut [0]).await?;
        ensure!(end == 0, "the kernel sends more than it should");
        Ok(stream.shutdown().await?)
    };
    tokio::try_join!(finish, answer)?;
    let socket = session.ends.socket;
    session.settle().await?;
    lab.north.call(Close { socket }).await
}

pub fn kernels(family: Family) -> Row {
    Row::new(
        format!("wrap-{family}-kernels"),
        format!(
            "one kernel to another over {family}, both ISNs {} KiB from the top, {} MiB each way",
            BEFORE >> 10,
            OCTETS >> 20
        ),
        async move |lab| pass_the_top(lab, family).await,
        "north is restored with the SNEs of before the wrap (TCP_AO_REPAIR); and the recording is verified with an SNE that stays 0",
        async move |lab| stay_at_first_turn(lab, family).await,
    )
}

fn sha256_key() -> Result<[Mkt; 1]> {
    Ok([key(1, TcpAoAlgorithm::LinuxHmacSha256)?])
}

async fn pass_the_top(lab: &Lab, family: Family) -> Result<Evidence> {
    let mut kernels = open_kernels(lab, family).await?;
    let pair = kernels.pair;
    kernels.exchange(OCTETS, OCTETS).await?;
    let evidence = kernels.close(true).await?;
    let after = check_wrapped(&evidence.recording, pair)?;
    let sne = evidence.wire.highest_sne;
    ensure!(sne == 1, "the recording has come to SNE {sne}");
    Ok(evidence.with_figures(format!("wrapped after {after} octets")))
}

/// The kernels extend correctly, and an end that does not count wraps cannot verify what they send.
async fn stay_at_first_turn(lab: &Lab, family: Family) -> Result<Refusal> {
    let mut kernels = open_kernels(lab, family).await?;
    let pair = kernels.pair;
    kernels.exchange(OCTETS, OCTETS).await?;
    let recording = kernels.cut_off().await?;
    kernels.account(&recording, true).await?;
    let mkts = sha256_key()?;
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
async fn open_kernels(lab: &Lab, family: Family) -> Result<Kernels<'_>> {
    let mkts = sha256_key()?;
    // The next SYN opens a new connection only if it is ahead of the one in TIME-WAIT, whose ISN south chose: try until that is so.
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

/// North opens and closes first; the ISN of the connection that it accepts next on these ports is near the top. Returns south's last
/// sequence number.
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
    // South closes after reading the end, so that only north is in TIME-WAIT.
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
    // This connection's alone: an earlier one may send its FIN again. South must have had the acknowledgment.
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

/// The last number before the wrap.
const LAST: Isn = Isn(u32::MAX);
/// Octets each way.
const FEW_OCTETS: u64 = 256 << 10;

pub fn first_octet(family: Family) -> Row {
    Row::new(
        format!("wrap-first-octet-{family}"),
        format!(
            "kernel opens over {family} with ISN 2^32 - 1: its first octet of data has SNE 1; {} KiB each way. A second kernel \
             is asked the same, and the figures say what it did",
            FEW_OCTETS >> 10
        ),
        async move |lab| carry(lab, family).await,
        "userspace starts to receive with SNE 0",
        async move |lab| start_behind(lab, family).await,
    )
}

async fn open_at_last(lab: &Lab, family: Family) -> Result<Session<'_>> {
    let setup = Setup::with_keys(family, End::Kernel, &[key(1, TcpAoAlgorithm::HmacSha1)?]);
    let session = connect_from_kernel(lab, setup, LAST, 0, fastrand::u64(..)).await?;
    session.ends.quiet().await?;
    Ok(session)
}

async fn carry(lab: &Lab, family: Family) -> Result<Evidence> {
    let mut session = open_at_last(lab, family).await?;
    session.exchange(FEW_OCTETS, FEW_OCTETS).await?;
    let start =
        session.ends.connection(|connection| (connection.remote_isn(), connection.highest_received().0))?;
    ensure!(start == (Some(LAST), Sne(1)), "the kernel's ISN and SNE are {start:?}");
    let evidence = session.close().await?;
    let sne = evidence.wire.highest_sne;
    ensure!(sne == 1, "the recording has come to SNE {sne}");
    let figures = format!("SNE 1 from the first octet on; {}", ask_kernels(lab, family).await?);
    Ok(evidence.with_figures(figures))
}

async fn start_behind(lab: &Lab, family: Family) -> Result<Refusal> {
    let mut session = open_at_last(lab, family).await?;
    let mkts = MktSet::from_mkts(session.ends.setup.userspace.iter().cloned())?;
    session.ends.connection(|connection| -> Result<()> {
        let placeholder = Connection::active(connection.pair(), LAST, &mkts)?;
        let state = mem::replace(connection, placeholder).export()?;
        let behind = ConnectionState { receive_sne: Sne(0), receive_sequence: SeqNum(0), ..state };
        *connection = Connection::import(&behind, &mkts)?;
        Ok(())
    })??;
    let counted = session
        .until_refused(&End::BOTH, async |ends| ends.userspace.await_counted(Counted::bad(3)).await)
        .await?;
    Ok(Refusal::by("userspace", &counted))
}

/// What a receiving kernel does with the same ISN. Wireseal cannot change that, so both outcomes pass.
async fn ask_kernels(lab: &Lab, family: Family) -> Result<String> {
    let mkts = [key(1, TcpAoAlgorithm::HmacSha1)?];
    let kernels = Kernels::open_at(lab, family, &mkts, (0, 0), Some(LAST)).await?;
    let verdict = match kernels.refuses_octet(Counted::bad(1)).await {
        Ok(counted) => format!("Linux refuses it from Linux ({counted})"),
        Err(error) if error.to_string() == NOT_REFUSED => "Linux takes it from Linux".to_owned(),
        Err(failure) => return Err(failure),
    };
    lab.wire.take_recording();
    Ok(verdict)
}

/// The SNE before the wrap.
const FIRST_TURN: Sne = Sne(1);
const SECOND_TURN: Sne = Sne(2);

pub fn second_turn(family: Family) -> Row {
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

fn cmac_key() -> Result<[Mkt; 1]> {
    Ok([key(1, TcpAoAlgorithm::Aes128Cmac)?])
}

async fn turn_again(lab: &Lab, family: Family) -> Result<Evidence> {
    let mkts = cmac_key()?;
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
    wire.verified += verify_turn(&turned, &kernels, &states, &mkts)?;
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
    let mut kernels = Kernels::open(lab, family, &cmac_key()?).await?;
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
fn verify_turn(
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
