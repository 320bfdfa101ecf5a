//! Unusual ways to open a connection: with a key for a network, with ids that only one end has, from both ends at once, and from a socket to
//! itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::{
    Amount, Attach, Close, Connect, Counted, Export, GetInfo, Key, NewManager, Open, Reset, Restore, Transfer,
};
use speaker::stack::TcpStream;
use tokio::time::timeout;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::IpCidr;
use wireseal_tcp_ao::{KeyId, Mkt};

use super::manager::chain;
use super::refusals::check_unanswered;
use crate::row::prelude::*;
use crate::rows::session::{End, SOME, Session, Setup, kernel_key, key, key_with};
use crate::userspace::Userspace;
use crate::verify::verify;

const ALGORITHM: TcpAoAlgorithm = TcpAoAlgorithm::HmacSha1;
/// Ports of both ends, where an end binds before it connects.
const USERSPACE_PORT: u16 = 1791;
const KERNEL_PORT: u16 = 1792;

pub fn rows() -> Vec<Row> {
    let mut rows = vec![Row::new(
        "opening-network-key",
        "the kernel opens with a key for its peer's network, or for all addresses, over both versions of IP; also a KeyManager's socket",
        open_with_network_keys,
        "the key is for another network: EKEYREJECTED, and the kernel sends nothing",
        reject_other_networks,
    )];
    rows.extend(End::BOTH.map(|listener| {
        let what = match listener {
            End::Userspace => {
                "userspace answers the kernel's SYN under a KeyID that the kernel lacks, over both versions of IP: counted, no session"
            }
            End::Kernel => {
                "userspace's SYN asks for a KeyID that the kernel lacks, over both versions of IP: the SYN is good, and Linux does not answer"
            }
        };
        Row::new(
            format!("opening-id-of-one-end-{listener}-listens"),
            what,
            async move |lab| refuse_ids(lab, listener).await,
            "the ids are those of the other end",
            async move |lab| accept_ids(lab, listener).await,
        )
    }));
    rows.extend(Family::ALL.map(|family| {
        Row::new(
            format!("opening-simultaneous-{family}"),
            format!("both ends open the same connection over {family} at once: their SYNs cross; only the kernel has sent its SYN before"),
            async move |lab| open_at_once(lab, family).await,
            "userspace has another secret: each end counts the other's SYN",
            async move |lab| refuse_at_once(lab, family).await,
        )
    }));
    rows.push(Row::new(
        "opening-self-connect",
        "a socket of the kernel connects to itself, over both versions of IP: with a key of one id, and with two keys whose ids are \
         exchanged; it carries data, is moved into a new socket, and carries more",
        connect_to_itself,
        "only one of the two keys: the SYN's KeyID is not found",
        find_no_key_of_its_own,
    ));
    rows
}

/// A network around the userspace end, and all addresses.
fn networks(family: Family) -> [&'static str; 2] {
    match family {
        Family::Ipv4 => ["192.0.2.0/24", "0.0.0.0/0"],
        Family::Ipv6 => ["2001:db8::/64", "::/0"],
    }
}

fn mkt() -> Result<Mkt> {
    key(1, ALGORITHM)
}

async fn open_with_network_keys(lab: &Lab) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let mut sessions = 0;
    for family in Family::ALL {
        for network in networks(family) {
            for is_managed in [false, true] {
                let remote: IpCidr = network.parse()?;
                let named = || format!("{network}, managed {is_managed}");
                lab.clear().await?;
                let setup = Setup::with_keys(family, End::Kernel, &[mkt()?]);
                let before = lab.north.counters().await?;
                let userspace = setup.userspace(lab)?;
                let keys = if is_managed {
                    Vec::new()
                } else {
                    vec![Key { remote, ..kernel_key(family, &mkt()?)? }]
                };
                let socket = lab.north.call(Open { local: family.any(0), keys, required: false }).await?;
                if is_managed {
                    let chain = chain(Port::North, &[wireseal_keys::Key::new(1, mkt()?)])?;
                    let manager = lab.north.call(NewManager { peers: vec![(remote, None, chain)] }).await?;
                    let remote = Some(End::Userspace.address(family));
                    lab.north.call(Attach { manager, socket, remote, now: 0 }).await.with_context(named)?;
                }
                let session = Session::connect(lab, setup, before, userspace, socket).await;
                let mut session = session.with_context(named)?;
                session.exchange(SOME, SOME).await.with_context(named)?;
                evidence.add(session.close().await.with_context(named)?);
                sessions += 1;
            }
        }
    }
    Ok(evidence.with_figures(format!("{sessions} sessions")))
}

/// Checks that `connect` fails with EKEYREJECTED.
pub async fn check_rejected(lab: &Lab, socket: u64, remote: SocketAddr) -> Result<()> {
    let connected = lab.north.call(Connect { socket, remote }).await;
    let error = connected.err().context("the kernel has connected")?;
    ensure!(error.to_string().contains("os error 129"), "{error:#}");
    Ok(())
}

async fn reject_other_networks(lab: &Lab) -> Result<Refusal> {
    let mut rejected = 0;
    for (family, network) in Family::ALL.into_iter().zip(["198.51.100.0/24", "2001:db8:1::/64"]) {
        let _userspace = Setup::with_keys(family, End::Kernel, &[mkt()?]).userspace(lab)?;
        let keys = vec![Key { remote: network.parse()?, ..kernel_key(family, &mkt()?)? }];
        let socket = lab.north.call(Open { local: family.any(0), keys, required: false }).await?;
        let remote = Port::Userspace.at(family, USERSPACE_PORT);
        check_rejected(lab, socket, remote).await?;
        rejected += 1;
    }
    ensure!(lab.wire.segments_from(Port::North) == 0, "the kernel has sent something");
    Ok(Refusal::of("connect: EKEYREJECTED", rejected))
}

/// The keys of userspace and of the kernel, each written as userspace's. The opener's SendID is known to the listener, and the listener's
/// SendID is not known to the opener.
fn mismatched(listener: End) -> Result<[Mkt; 2]> {
    let opener = mkt()?;
    let (send_id, recv_id, secret) = (opener.send_id(), opener.recv_id(), opener.master_key().clone());
    let unknown = KeyId(99);
    Ok(match listener {
        End::Kernel => [opener, Mkt::new(send_id, unknown, ALGORITHM, secret)?],
        End::Userspace => [Mkt::new(unknown, recv_id, ALGORITHM, secret)?, opener],
    })
}

async fn refuse_ids(lab: &Lab, listener: End) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let mut answers = 0;
    for family in Family::ALL {
        lab.clear().await?;
        let before = lab.north.counters().await?;
        let [userspaces, kernels] = mismatched(listener)?;
        let setup = Setup {
            family,
            opener: listener.other(),
            userspace: vec![userspaces.clone()],
            kernel: vec![kernels],
            number: 0,
        };
        let userspace = setup.userspace(lab)?;
        let socket = setup.kernel_socket(lab).await?;
        let sign = async {
            match listener {
                // The SYN verifies.
                End::Kernel => lab.north.await_counted(&before, Counted::good(1)).await,
                End::Userspace => lab.north.await_counted(&before, Counted::key_not_found(1)).await,
            }
        };
        setup.until_refused(lab, &userspace, socket, sign).await?;
        lab.wire.set_plugged(Port::Userspace, false);
        lab.take_in(Port::North).await?;
        let counters = userspace.counters();
        drop(userspace);
        lab.north.call(Close { socket }).await?;
        let mut recording = lab.wire.take_recording();
        recording.frames.retain(|frame| !frame.is_lost);
        let [from_userspace, from_kernel] =
            End::BOTH.map(|end| recording.segments_from(end.port()).count() as u64);
        let kernel = lab.north.counters().await?.since(&before);
        let expected = match listener {
            End::Kernel => {
                check_unanswered(&recording, Port::Userspace, Port::North)?;
                [Counted::default(), Counted::good(from_userspace)]
            }
            End::Userspace => {
                answers += from_userspace;
                [Counted::good(from_kernel), Counted::key_not_found(from_userspace)]
            }
        };
        let counters = counters.check("userspace", &expected[0])?;
        let kernel = kernel.check("the kernel", &expected[1])?;
        let wire = verify(lab, &recording, &[userspaces])?;
        wire.check_all_verified()?;
        let counters =
            vec![("kernel".into(), kernel.to_string()), ("userspace".into(), counters.to_string())];
        evidence.add(Evidence { counters, wire, recording, ..Evidence::default() });
    }
    Ok(evidence.with_figures(format!("{answers} answers, no session")))
}

async fn accept_ids(lab: &Lab, listener: End) -> Result<Refusal> {
    let mut refusal = Refusal::default();
    for family in Family::ALL {
        let setup = Setup::with_keys(family, listener.other(), &[mkt()?]);
        let session = Session::open(lab, setup).await?;
        let good = session.ends.kernel_counted().await?.good;
        refusal = refusal.and(Refusal::of(format!("kernel: good ({family})"), good));
    }
    Ok(refusal)
}

/// Which SYNs have crossed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Crossing {
    /// Each end is sent the other's SYN after its own.
    Both,
    /// Only the kernel is: its own SYN never arrives.
    Kernel,
}

/// An attempt of both ends at once. The kernel's segments are lost until userspace has sent its SYN; with [`Crossing::Both`], userspace is
/// then sent the kernel's SYN.
async fn connect_at_once(
    lab: &Lab,
    family: Family,
    userspace: &Userspace,
    socket: u64,
    crossing: Crossing,
) -> Result<TcpStream> {
    let passes = Arc::new(AtomicBool::new(false));
    let may_pass = Arc::clone(&passes);
    lab.wire.lose(move |from, _| from == Port::North && !may_pass.load(Ordering::Relaxed));
    let ends = [Port::Userspace.at(family, USERSPACE_PORT), Port::North.at(family, KERNEL_PORT)];
    let syn_from = |port: Port| {
        move |recording: &Recording| {
            let is_syn = |frame: &&Frame| {
                frame.from == Some(port) && frame.segment().is_some_and(|segment| segment.flags().syn())
            };
            recording.frames.iter().find(is_syn).map(|frame| frame.octets.clone())
        }
    };
    let by_userspace = async {
        let kernels = lab.wire.await_recorded("the kernel's SYN", syn_from(Port::North)).await?;
        let connect = async {
            let stream = timeout(agent::TIME_LIMIT, userspace.stack.connect(ends[1], Some(ends[0]))).await;
            Ok(stream.context("userspace does not connect")??)
        };
        let cross = async {
            lab.wire.await_recorded("userspace's SYN", syn_from(Port::Userspace)).await?;
            if crossing == Crossing::Both {
                lab.wire.inject(Port::Userspace, kernels);
            }
            passes.store(true, Ordering::Relaxed);
            Ok(())
        };
        tokio::try_join!(connect, cross).map(|(stream, ())| stream)
    };
    let by_kernel = lab.north.call(Connect { socket, remote: ends[0] });
    let (stream, _) = tokio::try_join!(by_userspace, by_kernel)?;
    Ok(stream)
}

async fn open_at_once(lab: &Lab, family: Family) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for crossing in [Crossing::Both, Crossing::Kernel] {
        let named = || format!("{crossing:?}");
        lab.clear().await?;
        let setup = Setup::with_keys(family, End::Kernel, &[mkt()?]);
        let before = lab.north.counters().await?;
        let userspace = setup.userspace(lab)?;
        let socket = setup.kernel_socket_at(lab, KERNEL_PORT, false).await?;
        let stream = connect_at_once(lab, family, &userspace, socket, crossing).await.with_context(named)?;
        let mut session = Session::established(lab, setup, before, userspace, stream, (socket, None))?;
        session.exchange(SOME, SOME).await.with_context(named)?;
        // The kernel's SYN, which the driver has delivered.
        session.ends.beside[0] = Counted::good(u64::from(crossing == Crossing::Both));
        evidence.add(session.close().await.with_context(named)?);
    }
    Ok(evidence.with_figures("2 sessions"))
}

async fn refuse_at_once(lab: &Lab, family: Family) -> Result<Refusal> {
    let before = lab.north.counters().await?;
    let other = key_with(1, ALGORITHM, "another secret of key 1, 32 octets")?;
    let setup = Setup { userspace: vec![other], ..Setup::with_keys(family, End::Kernel, &[mkt()?]) };
    let userspace = setup.userspace(lab)?;
    let socket = setup.kernel_socket_at(lab, KERNEL_PORT, false).await?;
    let bad = Counted::bad(1);
    let counted =
        async { tokio::try_join!(lab.north.await_counted(&before, bad), userspace.await_counted(bad)) };
    let attempt = connect_at_once(lab, family, &userspace, socket, Crossing::Both);
    let (by_kernel, by_userspace) = refused(counted, attempt).await?;
    Ok(Refusal::by("kernel", &by_kernel).and(Refusal::by("userspace", &by_userspace)))
}

/// The loopback address, and a port of its own for each socket that is bound to it.
fn loopback(family: Family, number: u16) -> SocketAddr {
    let address: IpAddr = match family {
        Family::Ipv4 => Ipv4Addr::LOCALHOST.into(),
        Family::Ipv6 => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(address, KERNEL_PORT + number)
}

/// Keys of a socket that is its own peer, with these SendIDs and RecvIDs.
fn own_keys(family: Family, ids: &[(u8, u8)]) -> Result<Vec<Key>> {
    let secret = mkt()?.master_key().clone();
    let key = |(send_id, recv_id): &(u8, u8)| {
        let mkt = Mkt::new(KeyId(*send_id), KeyId(*recv_id), ALGORITHM, secret.clone())?;
        Ok(Key::new(loopback(family, 0).ip(), &mkt)?)
    };
    ids.iter().map(key).collect()
}

async fn connect_to_itself(lab: &Lab) -> Result<Evidence> {
    lab.north.shell("ip link set lo up").await?;
    let before = lab.north.counters().await?;
    let mut moved = 0;
    for (place, family) in (0..).zip(Family::ALL) {
        for (number, ids) in (0..).zip([&[(100, 100)][..], &[(5, 7), (7, 5)]]) {
            let named = || format!("{family}, {ids:?}");
            let keys = own_keys(family, ids)?;
            let local = loopback(family, 2 * place + number);
            let socket = lab.north.call(Open { local, keys: keys.clone(), required: true }).await?;
            lab.north.call(Connect { socket, remote: local }).await.with_context(named)?;
            let first = Amount::of(SOME);
            let transfer = Transfer { socket, send: first, receive: first };
            lab.north.call(transfer).await.with_context(named)?;
            let exported = lab.north.call(Export { socket }).await.with_context(named)?;
            let socket = lab.north.call(Restore { exported, keys }).await.with_context(named)?;
            let second = Amount { from: SOME, ..first };
            let transfer = Transfer { socket, send: second, receive: second };
            lab.north.call(transfer).await.with_context(named)?;
            let info = lab.north.call(GetInfo { socket }).await?.context("the socket has no TCP-AO")?;
            info.counted.check_good("the socket").with_context(named)?;
            ensure!(info.required, "{ids:?}: the moved socket does not require TCP-AO");
            // Its FIN and what follows would go to itself, and be counted in the next row.
            lab.north.call(Reset { socket }).await?;
            moved += 1;
        }
    }
    let counted = lab.north.counters().await?.since(&before).check_good("north")?;
    let counters = vec![("north".into(), counted.to_string())];
    Ok(Evidence { counters, ..Evidence::default() }.with_figures(format!("{moved} sockets, each moved once")))
}

async fn find_no_key_of_its_own(lab: &Lab) -> Result<Refusal> {
    lab.north.shell("ip link set lo up").await?;
    let mut refusal = Refusal::default();
    for family in Family::ALL {
        let before = lab.north.counters().await?;
        let local = loopback(family, 8);
        let keys = own_keys(family, &[(5, 7)])?;
        let socket = lab.north.call(Open { local, keys, required: true }).await?;
        let counted = lab.north.await_counted(&before, Counted::key_not_found(1));
        let counted = refused(counted, lab.north.call(Connect { socket, remote: local })).await?;
        refusal = refusal.and(Refusal::by(&format!("north ({family})"), &counted));
        lab.north.call(Close { socket }).await?;
    }
    Ok(refusal)
}
