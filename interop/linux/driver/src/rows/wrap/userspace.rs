//! Between the userspace stack and a kernel.

use agent::{
    ChooseIsn, Close, Connect, Export, Exported, Finish, Listen, NetworkCounters, Open, Restore, SocketInfo,
};
use futures_util::FutureExt;
use router_peer::link::LinkDevice;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use tokio::io::AsyncWriteExt;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Isn, MktSet, Segment};

use super::{BEFORE, OCTETS, check_wrapped, fresh_port, near_the_top};
use crate::failure::{Failure, ensure};
use crate::guest::{at, unspecified_like};
use crate::lab::{Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::rows::kernels::reset;
use crate::rows::session::{Beside, End, Session, Setup, USERSPACE_PORT, kernel_key, key};
use crate::rows::{Evidence, Refusal, Row};
use crate::userspace::Userspace;
use crate::wire::Port;

/// How far behind the last number of a connection in TIME-WAIT Linux starts the next one of the same ports
/// (`tcp_timewait_state_process`).
pub(super) const TIME_WAIT_STEP: u32 = 65_535 + 2;
/// A SYN and a FIN take one number each.
pub(super) const SYN_AND_FIN: u32 = 2;
/// Seeds that are tried: a multiple of what is needed on average.
const SEEDS: u64 = 1 << 20;
/// Octets that go each way after the kernel was asked for its SNEs.
const AFTERWARDS: u64 = 64 << 10;

pub fn rows() -> Vec<Row> {
    let all = Family::ALL.into_iter().flat_map(|family| End::BOTH.map(|opener| (family, opener)));
    all.map(|(family, opener)| row(family, opener)).collect()
}

fn row(family: Family, opener: End) -> Row {
    let starting = match opener {
        End::Kernel => "chosen by TCP_QUEUE_SEQ",
        End::Userspace => "chosen by way of a connection in TIME-WAIT",
    };
    Row::new(
        format!("wrap-{}-{}-opens", family.name().to_lowercase(), opener.name()),
        format!(
            "{} opens over {}; both ISNs within {} KiB of the top, the kernel's {starting}, {} MiB each way",
            opener.name(),
            family.name(),
            BEFORE >> 10,
            OCTETS >> 20
        ),
        move |lab| pass_the_top(lab, family, opener).boxed_local(),
        "the kernel's SNEs are put back to 0 after the wrap (TCP_AO_REPAIR)",
        move |lab| fall_behind(lab, family, opener).boxed_local(),
    )
}

fn setup(family: Family, opener: End) -> Result<Setup, Failure> {
    Ok(Setup::with_keys(family, opener, &[key(1, TcpAoAlgorithm::Aes128Cmac)?]))
}

async fn pass_the_top(lab: &Lab, family: Family, opener: End) -> Result<Evidence, Failure> {
    let mut session = open(lab, family, opener).await?;
    session.exchange(OCTETS, OCTETS).await?;
    let pair = session.ends.pair;
    let exported = export(lab, &mut session).await?;
    let kernel_snes = (exported.send_sne, exported.receive_sne);
    let userspace = session.ends.connection(|connection| connection.export())??;
    let snes = (userspace.send_sne.0, userspace.receive_sne.0);
    ensure((kernel_snes, snes) == ((1, 1), (1, 1)), || {
        format!("the SNEs of the kernel are {kernel_snes:?}, those of userspace {snes:?}")
    })?;
    let info = restore(lab, &mut session, exported).await?;
    session.exchange(AFTERWARDS, AFTERWARDS).await?;
    let mut evidence = session.close(Beside::default(), Beside::default()).await?;
    let after = check_wrapped(&evidence.recording, pair)?;
    evidence.figures = format!(
        "wrapped after {after} octets; SNE 1 both ways at both ends, then {} good, {} bad",
        info.good, info.bad
    );
    Ok(evidence)
}

async fn fall_behind(lab: &Lab, family: Family, opener: End) -> Result<Refusal, Failure> {
    let mut session = open(lab, family, opener).await?;
    session.exchange(OCTETS, OCTETS).await?;
    let exported = export(lab, &mut session).await?;
    let behind = Exported { send_sne: 0, receive_sne: 0, ..exported.clone() };
    restore(lab, &mut session, behind).await?;
    let counted = session
        .until_refused(async |ends| {
            let kernel =
                ends.await_kernel_counted(NetworkCounters { bad: 3, ..NetworkCounters::default() }).await?;
            ends.userspace.await_counters(|counters| counters.bad >= 3).await?;
            Ok(kernel)
        })
        .await?;
    let mut refusal = Refusal::by_kernel("kernel", &counted);
    refusal.counted.extend(Refusal::by_userspace("bad", session.ends.userspace.counters().bad).counted);
    reset(lab, session.ends.socket).await?;
    Ok(refusal)
}

/// Takes the connection out of the kernel. Nobody is sending; and what comes all the same, such as news of a window, must not
/// come to a socket that has no SNEs yet, which would count it as bad: the cable is cut, and what was on it awaited.
async fn export(lab: &Lab, session: &mut Session<'_>) -> Result<Exported, Failure> {
    session.ends.quiet().await?;
    lab.wire.set_plugged(Port::North, false);
    let good = lab.wire.segments_from(Port::Userspace);
    session.ends.await_kernel_counted(NetworkCounters { good, ..NetworkCounters::default() }).await?;
    lab.north.call(Export { socket: session.ends.socket }).await
}

/// Puts it back.
async fn restore(lab: &Lab, session: &mut Session<'_>, exported: Exported) -> Result<SocketInfo, Failure> {
    let ends = &mut session.ends;
    let keys = ends
        .setup
        .kernel
        .iter()
        .map(|mkt| kernel_key(ends.setup.family, mkt))
        .collect::<Result<Vec<_>, _>>()?;
    ends.socket = lab.north.call(Restore { exported, keys }).await?;
    lab.wire.set_plugged(Port::North, true);
    ends.info().await
}

/// A connection whose ISNs are both near the top.
async fn open(lab: &Lab, family: Family, opener: End) -> Result<Session<'_>, Failure> {
    let setup = setup(family, opener)?;
    match opener {
        End::Kernel => {
            let isn = near_the_top();
            connect_from_kernel(lab, setup, isn, 0, seed_near_the_top()?).await
        }
        End::Userspace => {
            let port = fresh_port();
            leave_in_time_wait(lab, &setup, port).await?;
            connect_from_userspace(lab, setup, port).await
        }
    }
}

/// The kernel opens with a chosen ISN, from a chosen port unless that is 0.
pub(super) async fn connect_from_kernel(
    lab: &Lab,
    setup: Setup,
    isn: Isn,
    port: u16,
    seed: u64,
) -> Result<Session<'_>, Failure> {
    let before = lab.north.counters().await?;
    let userspace = start(lab, &setup, seed)?;
    let socket = kernel_socket(lab, &setup, port).await?;
    lab.north.call(ChooseIsn { socket, isn: isn.0 }).await?;
    let mut listener = userspace.stack.listen(None, USERSPACE_PORT)?;
    let remote = at(End::Userspace.address(setup.family), USERSPACE_PORT);
    let connect = lab.north.call(Connect { socket, remote, time_limit: TIME_LIMIT_MILLISECONDS });
    let (stream, _) = tokio::try_join!(userspace.accept(&mut listener), connect)?;
    Session::established(lab, setup, before, userspace, stream, (socket, None), Some(listener))
}

/// Userspace opens to the port of a connection that is in TIME-WAIT, from that connection's other port.
async fn connect_from_userspace(lab: &Lab, setup: Setup, port: u16) -> Result<Session<'_>, Failure> {
    lab.wire.take_recording();
    let before = lab.north.counters().await?;
    let userspace = start(lab, &setup, seed_near_the_top()?)?;
    let listener = kernel_socket(lab, &setup, port).await?;
    lab.north.call(Listen { socket: listener }).await?;
    let accept = lab.north.call(agent::Accept { socket: listener, time_limit: TIME_LIMIT_MILLISECONDS });
    let connect = async {
        let local = (End::Userspace.address(setup.family), USERSPACE_PORT);
        let connect = userspace.stack.connect_from(local, at(End::Kernel.address(setup.family), port));
        let connected = tokio::time::timeout(crate::lab::TIME_LIMIT, connect).await;
        Ok(connected.map_err(|_| Failure("userspace cannot connect to TIME-WAIT".to_owned()))??)
    };
    let (stream, accepted) = tokio::try_join!(connect, accept)?;
    lab.north.call(Close { socket: listener }).await?;
    Session::established(lab, setup, before, userspace, stream, (accepted.socket, None), None)
}

/// A connection that the kernel opens and closes first, so that the ISN of its next one with the same ports, which the peer
/// opens, is near the top.
async fn leave_in_time_wait(lab: &Lab, setup: &Setup, port: u16) -> Result<(), Failure> {
    let isn = near_the_top().0.wrapping_sub(TIME_WAIT_STEP + SYN_AND_FIN);
    // The next SYN has to be ahead of this connection's numbers for Linux to take it for a new one.
    let seed = seed(|isn| (1 << 31..(1 << 31) + (1 << 30)).contains(&isn.0))?;
    let mut session = connect_from_kernel(lab, setup.clone(), Isn(isn), port, seed).await?;
    let socket = session.ends.socket;
    let finish = lab.north.call(Finish { socket, time_limit: TIME_LIMIT_MILLISECONDS });
    let stream = &mut session.stream;
    let answer = async {
        let end = tokio::io::AsyncReadExt::read(stream, &mut [0]).await?;
        ensure(end == 0, || "the kernel sends more than it should".to_owned())?;
        Ok(stream.shutdown().await?)
    };
    tokio::try_join!(finish, answer)?;
    session.settle(Beside::default(), Beside::default()).await?;
    Ok(())
}

fn start(lab: &Lab, setup: &Setup, seed: u64) -> Result<Userspace, Failure> {
    let mkts = MktSet::from_mkts(setup.userspace.iter().cloned())?;
    Userspace::start_seeded(&lab.wire, vec![Userspace::peer(End::Kernel.address(setup.family), mkts)], seed)
}

async fn kernel_socket(lab: &Lab, setup: &Setup, port: u16) -> Result<u64, Failure> {
    let keys = setup.kernel.iter().map(|mkt| kernel_key(setup.family, mkt)).collect::<Result<Vec<_>, _>>()?;
    let local = at(unspecified_like(End::Kernel.address(setup.family)), port);
    lab.north.call(Open { local, keys, required: true }).await
}

pub(super) fn seed_near_the_top() -> Result<u64, Failure> {
    seed(|isn| isn.0 >= near_the_top().0)
}

/// A seed with which the first ISN of a stack is as wanted.
fn seed(is_wanted: impl Fn(Isn) -> bool) -> Result<u64, Failure> {
    let start = fastrand::u64(..);
    let mut seeds = (0..SEEDS).map(|step| start.wrapping_add(step));
    seeds
        .find(|seed| first_isn(*seed).is_some_and(&is_wanted))
        .ok_or_else(|| Failure("no seed will do".to_owned()))
}

/// The ISN of the first connection that a stack with this seed opens or accepts: it is the first random number of the stack.
fn first_isn(seed: u64) -> Option<Isn> {
    let (own, other) = (IpAddress::v4(192, 0, 2, 1), IpAddress::v4(192, 0, 2, 2));
    let (mut device, link) = LinkDevice::new(Medium::Ip, router_peer::transport::DEFAULT_IP_MTU);
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut interface = Interface::new(config, &mut device, Instant::ZERO);
    interface.update_ip_addrs(|addresses| {
        // There is room for one.
        let _ = addresses.push(IpCidr::new(own, 24));
    });
    let mut sockets = SocketSet::new(Vec::new());
    let mut socket = Socket::new(SocketBuffer::new(vec![0]), SocketBuffer::new(vec![0]));
    socket.connect(interface.context(), (other, 179), (own, 49_152)).ok()?;
    sockets.add(socket);
    interface.poll(Instant::ZERO, &mut device, &mut sockets);
    let syn = link.from_stack.try_pop()?;
    Some(Isn(Segment::parse(&syn).ok()?.sequence().0))
}
