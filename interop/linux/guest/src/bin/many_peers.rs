//! Measures one key manager for the peers of one listener: memory, time and system calls of attaching and of each kind of step.
//! Needs root and tracefs, which counts the system calls.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use socket2::{Domain, Socket, Type};
use wireseal_keys::{KeyChain, KeyChains, Timestamp};
use wireseal_linux::{KeyManager, PeerName, StepReport};

/// How many octets a socket may use for its keys.
const ALLOWANCE: &str = "/proc/sys/net/core/optmem_max";
const TRACING: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter";
const HISTOGRAM: &str = "hist:keys=id";
/// `getsockopt` and `setsockopt` on x86-64.
const CALLS: [u32; 2] = [55, 54];
const CONNECTIONS: u16 = 100;

/// Two keys that are both valid between 100 and 200 seconds after 1970, for the listener's end or the other.
fn key_chain(secret: &str, ids: [(u8, u8); 2]) -> Result<KeyChain> {
    let key = |(send, receive): (u8, u8), from: u16, until: &str| {
        format!(
            "[[key-chain.key]]\nsend-id = {send}\nrecv-id = {receive}\nalgorithm = \"AES-128-CMAC-96\"\n\
             secret = \"{secret} {}\"\nsend = {{ from = 1970-01-01T00:0{}:{:02}Z, until = {until} }}\n",
            send.min(receive),
            from / 60,
            from % 60
        )
    };
    let [first, second] = ids;
    let keys = [key(first, 0, "1970-01-01T00:03:20Z"), key(second, 100, "2100-01-01T00:00:00Z")].concat();
    let chains = KeyChains::from_toml(&format!("[[key-chain]]\nname = \"peers\"\n{keys}"))?;
    chains.chains().first().cloned().context("a chain")
}

fn peer(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(127, 1 + high, low, 1)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(seconds)
}

/// Resident memory in KiB.
fn memory() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Calls of getsockopt and of setsockopt so far.
fn calls() -> Result<[u64; 2]> {
    let counted = fs::read_to_string(format!("{TRACING}/hist"))?;
    let hits = |call: u32| {
        let call = call.to_string();
        let mut lines = counted.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let hits = lines.find_map(|line| match line[..] {
            ["{", "id:", id, "}", "hitcount:", hits] if id == call => Some(hits.parse()),
            _ => None,
        });
        hits.unwrap_or(Ok(0))
    };
    Ok([hits(CALLS[0])?, hits(CALLS[1])?])
}

/// Runs a step, and prints what it took.
fn measured<T>(what: &str, act: impl FnOnce() -> Result<T>) -> Result<T> {
    let (before, started) = (calls()?, Instant::now());
    let done = act()?;
    let took = started.elapsed().as_secs_f64() * 1000.0;
    let after = calls()?;
    let [get, set] = [after[0] - before[0], after[1] - before[1]];
    println!("| {what} | {get} | {set} | {} KiB | {took:.1} ms |", memory()?);
    Ok(done)
}

fn step(manager: &KeyManager, seconds: i64) -> Result<StepReport> {
    let report = manager.step(at(seconds));
    ensure!(report.sockets.iter().all(|socket| socket.failed.is_empty()), "a call failed: {report:?}");
    Ok(report)
}

fn measure(peers: u16) -> Result<()> {
    println!("\n## {peers} peers, each with two keys that follow one another\n");
    println!("| what | getsockopt | setsockopt | memory afterwards | time |\n|---|---|---|---|---|");
    let ids = [(1, 101), (2, 102)];
    let chain = key_chain("a secret", ids)?;
    let manager = KeyManager::default();
    let names: Vec<_> = (0..peers).map(|number| PeerName::new(peer(number).into())).collect();
    let last = *names.last().context("a peer")?;
    measured("nothing", || Ok(()))?;
    measured("giving the manager its peers", || {
        Ok(manager.set_peers(names.iter().map(|name| (*name, chain.clone())))?)
    })?;
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let _attached = measured("attaching the listener", || Ok(manager.attach(&listener, at(10))?))?;
    listener.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into())?;
    listener.listen(1)?;
    let port = listener.local_addr()?.as_socket_ipv4().context("IPv4")?.port();
    measured("a step with nothing to do", || step(&manager, 20))?;
    measured("replacing the secret of one peer", || {
        manager.set_peer(last, key_chain("another secret", ids)?)?;
        step(&manager, 30)
    })?;
    let (mut kept, routers) = (Vec::new(), KeyManager::default());
    let seen_from_there = ids.map(|(send, receive)| (receive, send));
    routers.set_peer(PeerName::new(Ipv4Addr::LOCALHOST.into()), key_chain("a secret", seen_from_there)?)?;
    measured(&format!("opening, accepting and attaching {CONNECTIONS} connections, both ends"), || {
        for number in 0..CONNECTIONS {
            let router = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            router.bind(&SocketAddr::from((peer(number), 0)).into())?;
            let attached_router =
                routers.attach_connecting(&router, IpAddr::from(Ipv4Addr::LOCALHOST), at(40))?;
            let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into();
            router.connect_timeout(&remote, Duration::from_secs(30))?;
            let accepted = listener.accept()?.0;
            let attached = manager.attach(&accepted, at(40))?;
            kept.push((router, attached_router, accepted, attached));
        }
        Ok(())
    })?;
    measured(&format!("a step with nothing to do, {CONNECTIONS} connections"), || step(&manager, 50))?;
    measured("adding the second key of each peer", || step(&manager, 120))?;
    step(&routers, 120)?;
    measured("deleting the first key of each peer", || step(&manager, 300))?;
    measured("a step with nothing to do", || step(&manager, 310))?;
    Ok(())
}

fn main() -> Result<()> {
    fs::write(ALLOWANCE, "33554432").context("net.core.optmem_max")?;
    fs::write(format!("{TRACING}/trigger"), HISTOGRAM).context("tracefs does not count system calls")?;
    println!("# One KeyManager for all peers of a listener, Linux {}", wireseal_linux::probe()?.kernel);
    println!(
        "\nThe processor is emulated: of the times, only those of one table compare. The calls are those of the whole process."
    );
    measure(1000)?;
    measure(10_000)
}
