//! Keys that are for one VRF alone.

use agent::{Accept, AwaitCounters, Close, Key, ListKeys, Listen, NetworkCounters, Open};
use futures_util::FutureExt;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::Mkt;

use super::PIECE;
use crate::failure::{Failure, ensure};
use crate::guest::{at, unspecified_like};
use crate::lab::{Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::rows::session::{Beside, End, Session, Setup, kernel_key, key, key_with};
use crate::rows::{Evidence, Refusal, Row};

const FAMILY: Family = Family::Ipv4;

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "vrf",
        "the kernel's interface is in a VRF; one listener for all VRFs has two keys with the same ids and other secrets for the \
         same peer, one for this VRF and one for another: userspace has the secret of this one",
        |lab| connect(lab).boxed_local(),
        "userspace has the secret of the key for the other VRF",
        |lab| refuse(lab).boxed_local(),
    )]
}

/// Puts north's interface in a VRF, and makes another one; gives the interface indices of both.
async fn enter(lab: &Lab) -> Result<[u32; 2], Failure> {
    lab.north
        .shell(
            "ip link add vrf-own type vrf table 1001 && ip link add vrf-other type vrf table 1002 && \
             ip link set vrf-own up && ip link set vrf-other up && \
             sysctl -q -w net.ipv4.tcp_l3mdev_accept=1 net.ipv6.conf.eth0.keep_addr_on_down=1 && \
             ip link set eth0 master vrf-own",
        )
        .await?;
    let mut indices = [0; 2];
    for (name, index) in ["vrf-own", "vrf-other"].into_iter().zip(&mut indices) {
        *index = lab.north.shell(&format!("cat /sys/class/net/{name}/ifindex")).await?.trim().parse()?;
    }
    Ok(indices)
}

/// Takes it out again.
async fn leave(lab: &Lab) -> Result<(), Failure> {
    let addresses = crate::lab::Addresses::of(crate::wire::Port::North);
    lab.north
        .shell(&format!(
            "ip link set eth0 nomaster && ip link del vrf-own && ip link del vrf-other && \
             sysctl -q -w net.ipv4.tcp_l3mdev_accept=0 && \
             (ip -6 address show dev eth0 | grep -q {0}/ || ip -6 address add {0}/64 dev eth0)",
            addresses.ipv6
        ))
        .await
        .map(drop)
}

/// The keys for this VRF and for the other.
fn mkts() -> Result<[Mkt; 2], Failure> {
    let algorithm = TcpAoAlgorithm::Aes128Cmac;
    Ok([key(1, algorithm)?, key_with(1, algorithm, "of the other VRF")?])
}

/// A listener with both keys, and its port.
async fn listen(lab: &Lab, indices: [u32; 2]) -> Result<(u64, u16), Failure> {
    let mkts = mkts()?;
    let keys =
        mkts.iter().zip(indices).map(|(mkt, index)| Ok(Key { vrf: Some(index), ..kernel_key(FAMILY, mkt)? }));
    let keys = keys.collect::<Result<Vec<_>, Failure>>()?;
    let local = at(unspecified_like(End::Kernel.address(FAMILY)), 0);
    let socket = lab.north.call(Open { local, keys, required: true }).await?;
    Ok((socket, lab.north.call(Listen { socket }).await?.port()))
}

async fn connect(lab: &Lab) -> Result<Evidence, Failure> {
    let indices = enter(lab).await?;
    let evidence = connect_within(lab, indices).await;
    leave(lab).await?;
    evidence
}

async fn connect_within(lab: &Lab, indices: [u32; 2]) -> Result<Evidence, Failure> {
    let [own, _] = mkts()?;
    let setup = Setup::with_keys(FAMILY, End::Userspace, &[own]);
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let (listener, port) = listen(lab, indices).await?;
    let accept = lab.north.call(Accept { socket: listener, time_limit: TIME_LIMIT_MILLISECONDS });
    let connect = userspace.connect(at(End::Kernel.address(FAMILY), port));
    let (stream, accepted) = tokio::try_join!(connect, accept)?;
    let sockets = (accepted.socket, Some(listener));
    let mut session = Session::established(lab, setup, before, userspace, stream, sockets, None)?;
    session.exchange(PIECE, PIECE).await?;
    let vrfs: Vec<Option<u32>> =
        lab.north.call(ListKeys { socket: accepted.socket }).await?.iter().map(|key| key.name.vrf).collect();
    ensure(vrfs == [Some(indices[0])], || format!("the connection has keys for the VRFs {vrfs:?}"))?;
    let mut evidence = session.close(Beside::default(), Beside::default()).await?;
    evidence.figures = "the connection has the key for its VRF alone".to_owned();
    Ok(evidence)
}

async fn refuse(lab: &Lab) -> Result<Refusal, Failure> {
    let indices = enter(lab).await?;
    let refusal = refuse_within(lab, indices).await;
    leave(lab).await?;
    refusal
}

async fn refuse_within(lab: &Lab, indices: [u32; 2]) -> Result<Refusal, Failure> {
    let [_, other] = mkts()?;
    let setup = Setup::with_keys(FAMILY, End::Userspace, &[other]);
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let (socket, port) = listen(lab, indices).await?;
    let at_least = before.plus(&NetworkCounters { bad: 1, ..NetworkCounters::default() });
    let after = tokio::select! {
        after = lab.north.call(AwaitCounters { at_least, time_limit: TIME_LIMIT_MILLISECONDS }) => after?,
        stream = userspace.connect(at(End::Kernel.address(FAMILY), port)) => {
            return Err(Failure(format!("a connection came about: {:?}", stream?)));
        }
    };
    lab.north.call(Close { socket }).await?;
    Ok(Refusal::by_kernel("kernel", &after.since(&before)))
}
