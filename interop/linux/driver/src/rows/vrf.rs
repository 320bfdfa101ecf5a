//! Keys for one VRF only.

use agent::{
    Attach, BindDevice, Chain, ConnectFrom, Counted, Detach, Key, ListKeys, Listen, NewManager, Open,
    SetPeers, Step, Stepped,
};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::IpCidr;
use wireseal_tcp_ao::Mkt;

use super::manager::chain;
use crate::row::prelude::*;
use crate::rows::kernels::open_socket;
use crate::rows::session::{End, SOME, Session, Setup, kernel_key, key, key_with};

const FAMILY: Family = Family::Ipv4;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "vrf",
            "a KeyManager gives one listener two keys for one address in two VRFs, with the same ids; the kernel's interface is in one \
             of the VRFs, and userspace has the secret of this one",
            async |lab| within(lab, async |indices| connect(lab, indices).await).await,
            "userspace has the secret of the key for the other VRF",
            async |lab| within(lab, async |indices| refuse(lab, indices).await).await,
        ),
        Row::new(
            "vrf-connect",
            "the same two keys, and the kernel opens the connection from the VRF: with TcpAoStream::connect_from",
            async |lab| within(lab, async |indices| connect_from(lab, indices).await).await,
            "userspace has the secret of the key for the other VRF",
            async |lab| within(lab, async |indices| connect_from_refused(lab, indices).await).await,
        ),
        Row::new(
            "vrf-key-removed",
            "a KeyManager takes a key for a VRF away: where Linux keeps it, on the listener for all VRFs and on the connection, the report \
             says so; a listener that is bound to the VRF, with keys for any, has it deleted",
            async |lab| within(lab, async |indices| remove(lab, indices).await).await,
            "the bound listener is called with the key that was taken away",
            async |lab| within(lab, async |_| call_with_removed(lab).await).await,
        ),
    ]
}

/// Puts north's interface into a VRF, and creates another VRF; returns the interface indices of both.
async fn enter(lab: &Lab) -> Result<[u32; 2]> {
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
async fn leave(lab: &Lab) -> Result<()> {
    let order = format!(
        "ip link set eth0 nomaster && ip link del vrf-own && ip link del vrf-other && \
         sysctl -q -w net.ipv4.tcp_l3mdev_accept=0 && \
         (ip -6 address show dev eth0 | grep -q {0}/ || ip -6 address add {0}/64 dev eth0)",
        Port::North.ipv6()
    );
    lab.north.shell(&order).await.map(drop)
}

/// The keys for this VRF and for the other.
fn mkts() -> Result<[Mkt; 2]> {
    let algorithm = TcpAoAlgorithm::Aes128Cmac;
    Ok([key(1, algorithm)?, key_with(1, algorithm, "of the other VRF")?])
}

/// A socket with both keys.
async fn open(lab: &Lab, indices: [u32; 2]) -> Result<u64> {
    let keys = mkts()?.into_iter().zip(indices);
    let keys = keys.map(|(mkt, index)| Ok(Key { vrf: Some(index), ..kernel_key(FAMILY, &mkt)? }));
    lab.north.call(Open { local: FAMILY.any(0), keys: keys.collect::<Result<_>>()?, required: true }).await
}

/// A key manager with a peer for each VRF, at the same address.
async fn manager(lab: &Lab, indices: [u32; 2]) -> Result<u64> {
    let peer = |(mkt, index)| {
        let chain = chain(Port::North, &[wireseal_keys::Key::new(1, mkt)])?;
        Ok((End::Userspace.address(FAMILY).into(), Some(index), chain))
    };
    let peers: Result<_> = mkts()?.into_iter().zip(indices).map(peer).collect();
    lab.north.call(NewManager { peers: peers? }).await
}

/// Runs a row within the VRF.
async fn within<T>(lab: &Lab, row: impl AsyncFnOnce([u32; 2]) -> Result<T>) -> Result<T> {
    let result = row(enter(lab).await?).await;
    leave(lab).await?;
    result
}

async fn connect(lab: &Lab, indices: [u32; 2]) -> Result<Evidence> {
    let [own, _] = mkts()?;
    let setup = Setup::with_keys(FAMILY, End::Userspace, &[own]);
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let listener = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    let manager = manager(lab, indices).await?;
    lab.north.call(Attach { manager, socket: listener, remote: None, now: 0 }).await?;
    let mut session = Session::connect(lab, setup, before, userspace, listener).await?;
    session.exchange(SOME, SOME).await?;
    // The manager finds the VRF of the connection, and gives it the keys of the peer there.
    let socket = session.ends.socket;
    lab.north.call(Attach { manager, socket, remote: None, now: 0 }).await?;
    let step = lab.north.call(Step { manager, now: 0 }).await?;
    ensure!(step.done.is_empty() && step.ended == 0, "the connection is not that of its VRF: {step:?}");
    session.exchange(SOME, SOME).await?;
    let keys = lab.north.call(ListKeys { socket: session.ends.socket }).await?;
    let vrfs: Vec<Option<u32>> = keys.iter().map(|key| key.1).collect();
    ensure!(vrfs == [Some(indices[0])], "the connection has keys for the VRFs {vrfs:?}");
    for socket in [listener, socket] {
        lab.north.call(Detach { socket }).await?;
    }
    Ok(session.close().await?.with_figures("the connection has the key for its VRF alone"))
}

async fn refuse(lab: &Lab, indices: [u32; 2]) -> Result<Refusal> {
    let [_, other] = mkts()?;
    let setup = Setup::with_keys(FAMILY, End::Userspace, &[other]);
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let socket = open(lab, indices).await?;
    let counted = lab.north.await_counted(&before, Counted::bad(1));
    Ok(Refusal::by("kernel", &setup.until_refused(lab, &userspace, socket, counted).await?))
}

/// How often a SYN is repeated: the kernel gives up after three seconds.
const SYN_RETRIES: &str = "net.ipv4.tcp_syn_retries";

async fn connect_from(lab: &Lab, indices: [u32; 2]) -> Result<Evidence> {
    let [own, _] = mkts()?;
    let setup = Setup::with_keys(FAMILY, End::Kernel, &[own]);
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let remote = setup.userspace_listens_at();
    let mut listener = userspace.stack.listen(None, remote.port())?;
    let connect = ConnectFrom { manager: manager(lab, indices).await?, remote, vrf: Some(indices[0]) };
    let (stream, socket) = tokio::try_join!(userspace.accept(&mut listener), lab.north.call(connect))?;
    let mut session = Session::established(lab, setup, before, userspace, stream, (socket, None))?;
    session.exchange(SOME, SOME).await?;
    let keys = lab.north.call(ListKeys { socket }).await?;
    let vrfs: Vec<Option<u32>> = keys.iter().map(|key| key.1).collect();
    ensure!(vrfs == [Some(indices[0])], "the connection has keys for the VRFs {vrfs:?}");
    lab.north.call(Detach { socket }).await?;
    Ok(session.close().await?.with_figures("the connection has the key for its VRF alone"))
}

async fn connect_from_refused(lab: &Lab, indices: [u32; 2]) -> Result<Refusal> {
    let [_, other] = mkts()?;
    let setup = Setup::with_keys(FAMILY, End::Kernel, &[other]);
    let userspace = setup.userspace(lab)?;
    let remote = setup.userspace_listens_at();
    let mut listener = userspace.stack.listen(None, remote.port())?;
    let retries = lab.north.shell(&format!("sysctl -n {SYN_RETRIES}")).await?;
    lab.north.shell(&format!("sysctl -q -w {SYN_RETRIES}=1")).await?;
    let connect = ConnectFrom { manager: manager(lab, indices).await?, remote, vrf: Some(indices[0]) };
    let gave_up = async {
        let error = lab.north.call(connect).await.err().context("the kernel has connected")?;
        ensure!(error.to_string().contains("timed out"), "{error:#}");
        Ok(())
    };
    let refused = refused(gave_up, userspace.accept(&mut listener)).await;
    lab.north.shell(&format!("sysctl -q -w {SYN_RETRIES}={}", retries.trim())).await?;
    refused?;
    Ok(Refusal::by("userspace", &userspace.await_counted(Counted::bad(1)).await?))
}

/// The key that a peer has first, and the one that follows it.
fn successive() -> Result<[Mkt; 2]> {
    Ok([key(1, TcpAoAlgorithm::Aes128Cmac)?, key(2, TcpAoAlgorithm::HmacSha1)?])
}

/// The peers of a key manager with these keys.
fn peers(vrf: Option<u32>, mkts: &[Mkt]) -> Result<Vec<(IpCidr, Option<u32>, Chain)>> {
    let keys = mkts.iter().map(|mkt| wireseal_keys::Key::new(mkt.send_id().0.into(), mkt.clone()));
    let chain = chain(Port::North, &keys.collect::<Vec<_>>())?;
    Ok(vec![(End::Userspace.address(FAMILY).into(), vrf, chain)])
}

/// Gives a manager's peer these keys in place of those that it has.
async fn replace(lab: &Lab, manager: u64, vrf: Option<u32>, by: &[Mkt]) -> Result<Stepped> {
    lab.north.call(SetPeers { manager, peers: peers(vrf, by)? }).await?;
    lab.north.call(Step { manager, now: 0 }).await
}

/// A listener that is bound to the VRF and has had the first key and then the second.
async fn bound_listener(lab: &Lab) -> Result<u64> {
    let [first, second] = successive()?;
    let socket = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    lab.north.call(BindDevice { socket, device: "vrf-own".to_owned() }).await?;
    let manager = lab.north.call(NewManager { peers: peers(None, &[first])? }).await?;
    lab.north.call(Attach { manager, socket, remote: None, now: 0 }).await?;
    lab.north.call(Listen { socket }).await?;
    let step = replace(lab, manager, None, std::slice::from_ref(&second)).await?;
    let keys = lab.north.call(ListKeys { socket }).await?;
    ensure!(keys == [(second.recv_id().0, None)], "the bound listener has the keys {keys:?}: {step:?}");
    lab.north.call(Detach { socket }).await?;
    Ok(socket)
}

async fn remove(lab: &Lab, [index, _]: [u32; 2]) -> Result<Evidence> {
    let mkts = successive()?;
    let [first, second] = &mkts;
    let setup = Setup::with_keys(FAMILY, End::Userspace, &mkts);
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let listener = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    let manager = lab.north.call(NewManager { peers: peers(Some(index), &mkts[..1])? }).await?;
    lab.north.call(Attach { manager, socket: listener, remote: None, now: 0 }).await?;
    let mut session = Session::connect(lab, setup, before, userspace, listener).await?;
    let socket = session.ends.socket;
    lab.north.call(Attach { manager, socket, remote: None, now: 0 }).await?;
    session.exchange(SOME, SOME).await?;
    // The peer changes first, so that it does not sign with a removed key.
    replace(lab, manager, Some(index), &[second.clone(), first.clone()]).await?;
    session.exchange(SOME, SOME).await?;
    session.ends.await_current_key(End::Userspace, second).await?;
    session.ends.quiet().await?;
    let step = replace(lab, manager, Some(index), &mkts[1..]).await?;
    let mut left = 0;
    for socket in [listener, socket] {
        let keys = lab.north.call(ListKeys { socket }).await?;
        left += keys.iter().filter(|key| key.0 == first.recv_id().0).count();
        lab.north.call(Detach { socket }).await?;
    }
    ensure!(left == step.overdue, "{left} sockets still have the key: {step:?}");
    session.ends.await_current_key(End::Kernel, second).await?;
    session.exchange(SOME, SOME).await?;
    bound_listener(lab).await?;
    let kept = if left == 0 {
        "Linux has deleted it".to_owned()
    } else {
        format!("Linux keeps it on {left} sockets")
    };
    Ok(session.close().await?.with_figures(kept))
}

async fn call_with_removed(lab: &Lab) -> Result<Refusal> {
    let [first, _] = successive()?;
    let setup = Setup::with_keys(FAMILY, End::Userspace, &[first]);
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let socket = bound_listener(lab).await?;
    let counted = lab.north.await_counted(&before, Counted::key_not_found(1));
    Ok(Refusal::by("kernel", &setup.until_refused(lab, &userspace, socket, counted).await?))
}
