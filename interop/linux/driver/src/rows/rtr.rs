//! The example `rtr`: a server on the first guest, routers on the second, through listeners and streams whose keys are managed.

use std::net::IpAddr;
use std::time::Duration;

use agent::{Counted, WriteFile};
use wireseal_tcp_ao::key_chain::KeyChains;
use wireseal_tcp_ao::{KeyId, Mkt};

use super::bgp::common::{ALONE, BOTH, FIRST, SECOND, SECRET, key_chain, key_file};
use crate::guest::Guest;
use crate::prelude::*;
use crate::verify::verify;
use crate::wait::becomes;

/// How often a log is looked at.
const CHECK: Duration = Duration::from_millis(200);
const SERVER: &str = "rtr";

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "rtr",
            "examples/rtr with a TcpAoListener for both address families, a router over each; the second is added to the running server, the \
         key chain rolls over from AES-128-CMAC-96 to hmac(sha256), and the sessions stay up",
            rtr,
            "another secret at the router: no session, and the server's log says whose segments failed, under which key, at once",
            rtr_twin,
        ),
        Row::new(
            "rtr-neighbour-of-a-network",
            "the server has a key chain for a network and another for the router in it, which calls with its own: a session",
            rtr_in_a_network,
            "the router calls with the network's key: the kernel accepts it, the listener resets it before a word is exchanged, and \
         the log says whose key it was",
            rtr_with_the_networks_key,
        ),
    ]
}

/// The name of a router's session in its guest.
fn router(family: Family) -> String {
    format!("router-{family}")
}

/// Swaps the ids, which are those of the server's end.
fn seen_from(end: Port, keys: &str) -> String {
    if end == Port::North {
        return keys.to_owned();
    }
    keys.replace("send-id", "x-id").replace("recv-id", "send-id").replace("x-id", "recv-id")
}

/// A guest's files: keys, and the configuration with so many origins and the other guest as a peer, in these families.
async fn write(guest: &Guest, keys: &str, peers: &[Family], origins: usize) -> Result<()> {
    let other = if guest.port() == Port::North { Port::South } else { Port::North };
    let peers: Vec<_> = peers.iter().map(|family| (other.address(*family).to_string(), "lab")).collect();
    write_with(guest, keys, &peers, origins).await
}

/// The same with any peers, each with the name of its key chain.
async fn write_with(guest: &Guest, keys: &str, peers: &[(String, &str)], origins: usize) -> Result<()> {
    let own = guest.port();
    let listen =
        Family::ALL.map(|family| format!("\"{}\"", std::net::SocketAddr::new(own.address(family), 323)));
    let origins: Vec<_> = (0..origins).map(|number| format!("\"203.0.{number}.0/24-24 AS64496\"")).collect();
    let mut contents = format!(
        "key-chains = \"keys.toml\"\nlisten = [{}]\norigins = [{}]\n[peers]\n",
        listen.join(", "),
        origins.join(", ")
    );
    for (peer, chain) in peers {
        contents += &format!("\"{peer}\" = \"{chain}\"\n");
    }
    guest.shell("mkdir -p /tmp/rtr").await?;
    guest.call(WriteFile { path: "/tmp/rtr/rtr.toml".into(), contents }).await?;
    let contents = seen_from(own, keys);
    guest.call(WriteFile { path: "/tmp/rtr/keys.toml".into(), contents }).await
}

/// Waits until a log has these words.
async fn await_log(guest: &Guest, name: &str, words: &str) -> Result<String> {
    let has_words = async || Ok(guest.log(name).await?.contains(words));
    let is_there = becomes(CHECK, has_words).await?;
    let log = guest.log(name).await?;
    ensure!(is_there, "timed out waiting for {words:?} of {name}: {log}");
    Ok(log)
}

async fn serve(lab: &Lab, keys: &str) -> Result<()> {
    write(&lab.north, keys, &[Family::Ipv4], 1).await?;
    start_server(lab).await
}

async fn start_server(lab: &Lab) -> Result<()> {
    lab.north.start(SERVER, "rtr --config /tmp/rtr/rtr.toml").await?;
    let listening = format!("{}", std::net::SocketAddr::new(Port::North.address(Family::Ipv6), 323));
    await_log(&lab.north, SERVER, &listening).await.map(drop)
}

async fn fetch(guest: &Guest, family: Family) -> Result<()> {
    let server = std::net::SocketAddr::new(Port::North.address(family), 323);
    guest.start(&router(family), &format!("rtr --config /tmp/rtr/rtr.toml --fetch {server}")).await
}

/// Has the server serve so many origins, to routers in these families, and waits until they have them.
async fn publish(lab: &Lab, south: &Guest, families: &[Family], origins: usize) -> Result<()> {
    write(&lab.north, &key_file(SECRET), &Family::ALL, origins).await?;
    lab.north.shell("kill -HUP $(cat /tmp/rtr.pid)").await?;
    for family in families {
        await_log(south, &router(*family), &format!("\n{origins} origins")).await?;
    }
    Ok(())
}

/// Whether the newest segments of each end, in both families, are under its second key.
fn has_rolled(lab: &Lab, second: &Mkt) -> bool {
    let newest = |from: Port, family: Family, key_id: KeyId| {
        let source = from.address(family);
        lab.wire.look(|recording| {
            let mut segments = recording.frames.iter().rev().filter_map(|frame| frame.segment());
            let newest = segments.find(|segment| segment.source_address() == source);
            newest.and_then(|segment| segment.ao_option().ok().flatten().map(|ao| ao.key_id)) == Some(key_id)
        })
    };
    Family::ALL.into_iter().all(|family| {
        newest(Port::North, family, second.send_id()) && newest(Port::South, family, second.recv_id())
    })
}

/// Waits until an end has added the key with these ids for the other.
async fn await_added(guest: &Guest, name: &str, ids: (KeyId, KeyId), peer: IpAddr) -> Result<()> {
    let words = format!("add the key with SendID {} and RecvID {} for {peer}", ids.0, ids.1);
    await_log(guest, name, &words).await.map(drop)
}

/// Waits until both ends have the second key: from then on either may sign with it.
async fn await_second_key(lab: &Lab, south: &Guest, second: &Mkt) -> Result<()> {
    let (send_id, recv_id) = (second.send_id(), second.recv_id());
    for family in Family::ALL {
        await_added(&lab.north, SERVER, (send_id, recv_id), Port::South.address(family)).await?;
        await_added(south, &router(family), (recv_id, send_id), Port::North.address(family)).await?;
    }
    Ok(())
}

async fn stop(lab: &Lab, south: &Guest) -> Result<String> {
    for family in Family::ALL {
        south
            .shell(&format!("kill -9 $(cat /tmp/{}.pid 2>/dev/null) 2>/dev/null; true", router(family)))
            .await?;
    }
    let log = lab.north.log(SERVER).await?;
    lab.north.shell("kill -9 $(cat /tmp/rtr.pid)").await?;
    Ok(log)
}

async fn rtr(lab: &Lab) -> Result<Evidence> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    let before = (lab.north.counters().await?, south.counters().await?);
    let set_clocks = async |seconds: i64| {
        for guest in [&lab.north, south] {
            guest.shell(&format!("date -u -s @{seconds}")).await?;
        }
        anyhow::Ok(())
    };
    set_clocks(FIRST).await?;
    write(south, &key_file(SECRET), &Family::ALL, 0).await?;
    serve(lab, &key_file(SECRET)).await?;
    fetch(south, Family::Ipv4).await?;
    await_log(south, &router(Family::Ipv4), "1 origins").await?;
    publish(lab, south, &[Family::Ipv4], 2).await?;
    let first = (keys[0].send_id(), keys[0].recv_id());
    await_added(&lab.north, SERVER, first, Port::South.address(Family::Ipv6)).await?;
    fetch(south, Family::Ipv6).await?;
    await_log(south, &router(Family::Ipv6), "2 origins").await?;

    let mut origins = 2;
    for moment in [BOTH, SECOND, ALONE] {
        set_clocks(moment).await?;
        if moment == BOTH {
            await_second_key(lab, south, &keys[1]).await?;
        }
        for _ in 0..3 {
            origins += 1;
            publish(lab, south, &Family::ALL, origins).await?;
        }
        // The first key is deleted after this; both ends have left it by then.
        while moment == SECOND && !has_rolled(lab, &keys[1]) {
            origins += 1;
            ensure!(origins < 60, "the ends do not go over to the second key");
            publish(lab, south, &Family::ALL, origins).await?;
        }
    }
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    counted.0.check_good("north")?;
    counted.1.check_good("south")?;
    let log = stop(lab, south).await?;
    ensure!(log.matches(" connected ").count() == 2 && !log.contains("WARN"), "the server's log: {log}");

    let recording = lab.wire.take_recording();
    let wire = verify(lab, &recording, &keys)?;
    wire.check_all_verified()?;
    let counters = [("the server's kernel", counted.0), ("the routers' kernel", counted.1)]
        .map(|(end, counted)| (end.into(), counted.to_string()));
    let figures = format!("{} sets of origins, segments by key: {:?}", origins, wire.by_key);
    Ok(Evidence { counters: counters.into(), figures, wire, unsigned: 0, recording })
}

async fn rtr_twin(lab: &Lab) -> Result<Refusal> {
    let south = lab.south().await?;
    let before = lab.north.counters().await?;
    for guest in [&lab.north, south] {
        guest.shell(&format!("date -u -s @{FIRST}")).await?;
    }
    write(south, &key_file("what one end knows"), &Family::ALL, 0).await?;
    serve(lab, &key_file(SECRET)).await?;
    fetch(south, Family::Ipv4).await?;
    lab.north.await_counted(&before, Counted::bad(1)).await?;
    let log = await_log(&lab.north, SERVER, "bad MAC").await?;
    let line = log.lines().find(|line| line.contains("bad MAC")).context("the line is there")?;
    // SYNs come after 0, 1 and 3 seconds.
    let at_once = ["segments=1", "segments=2"].iter().any(|words| line.contains(words));
    let peer = format!("peer={}", Port::South.address(Family::Ipv4));
    ensure!(at_once && line.contains(&peer), "the server's log: {log}");
    let log = stop(lab, south).await?;
    ensure!(!log.contains(" connected "), "there was a session: {log}");
    Ok(Refusal::of("server's log: bad MAC", 1))
}

/// The network around the router.
const NETWORK: &str = "192.0.2.0/24";

/// The network's key chain, "lab", and that of the router alone, "own".
fn two_chains() -> String {
    let own = "[[key-chain]]\nname = \"own\"\n[[key-chain.key]]\nsend-id = 31\nrecv-id = 41\n\
               algorithm = \"AES-128-CMAC-96\"\nsecret = \"what the neighbour knows\"\n";
    key_file(SECRET) + own
}

/// Starts a server with both key chains, and a router that calls with one of them.
async fn call_with(lab: &Lab, chain: &str) -> Result<Mkt> {
    let south = lab.south().await?;
    for guest in [&lab.north, south] {
        guest.shell(&format!("date -u -s @{FIRST}")).await?;
    }
    let router_address = Port::South.address(Family::Ipv4).to_string();
    write_with(&lab.north, &two_chains(), &[(NETWORK.into(), "lab"), (router_address, "own")], 1).await?;
    start_server(lab).await?;
    let server = Port::North.address(Family::Ipv4).to_string();
    write_with(south, &two_chains(), &[(server, chain)], 0).await?;
    fetch(south, Family::Ipv4).await?;
    let chains = KeyChains::from_toml(&two_chains())?;
    let own = chains.get("own").and_then(|chain| chain.keys().first()).context("the router's key")?;
    Ok(own.mkt().clone())
}

async fn rtr_in_a_network(lab: &Lab) -> Result<Evidence> {
    let before = (lab.north.counters().await?, lab.south().await?.counters().await?);
    let own = call_with(lab, "own").await?;
    let south = lab.south().await?;
    await_log(south, &router(Family::Ipv4), "1 origins").await?;
    let counted = (lab.north.counters().await?.since(&before.0), south.counters().await?.since(&before.1));
    counted.0.check_good("north")?;
    counted.1.check_good("south")?;
    let log = stop(lab, south).await?;
    ensure!(log.matches(" connected ").count() == 1 && !log.contains("WARN"), "the server's log: {log}");
    let recording = lab.wire.take_recording();
    let wire = verify(lab, &recording, &[own])?;
    wire.check_all_verified()?;
    let counters = [("the server's kernel", counted.0), ("the router's kernel", counted.1)]
        .map(|(end, counted)| (end.into(), counted.to_string()));
    Ok(Evidence { counters: counters.into(), wire, recording, ..Evidence::default() })
}

async fn rtr_with_the_networks_key(lab: &Lab) -> Result<Refusal> {
    call_with(lab, "lab").await?;
    let log = await_log(&lab.north, SERVER, "has a key chain of its own").await?;
    let whose = format!("{} has a key chain of its own, and called with the key", Port::South.ipv4());
    ensure!(log.contains(&whose) && log.contains(NETWORK), "the server's log: {log}");
    let log = stop(lab, lab.south().await?).await?;
    ensure!(!log.contains(" connected "), "there was a session: {log}");
    Ok(Refusal::of("server's log: called with another peer's key", 1))
}
