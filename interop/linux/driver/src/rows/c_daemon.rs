//! Programs in C on libwireseal's part for Linux. The example daemon, whose poll loop drives the key manager of libwireseal: on a kernel's TCP-AO, against Wireseal's BGP speaker on its
//! userspace stack.

use std::net::SocketAddr;
use std::time::Instant;

use agent::{Counted, TIME_LIMIT, WriteFile};
use speaker::message::{Closed, Export};
use speaker::session::{Session, SessionConfig, State};
use wireseal_keys::Timestamp;
use wireseal_tcp_ao::{Endpoint, Mkt, SocketPair};

use super::bgp::{SECRET, await_signed, evidence, key_chain};
use super::bird::{AS, HOLD_TIME, PEER_AS};
use crate::row::prelude::*;
use crate::userspace::Userspace;
use crate::wait::Program;

/// Where BGP is served.
const BGP: u16 = 179;
const FOLDER: &str = "/tmp/c-daemon";
/// Seconds from the last reading of the file to the end of the key.
const LEFT: i64 = 15;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "c-daemon",
            "the daemon in C on a kernel, with a session that it opens (IPv4) and one that it accepts (IPv6): it reads its file again, and both \
         go over to a second key, then lose the first; at the end of the second's lifetime its descriptor wakes it, and it says a signed goodbye",
            roll_and_end,
            "the peer has another secret: neither session opens, and the daemon says why",
            another_secret,
        ),
        Row::new(
            "c-sockets",
            "a program in C on a kernel: each function of libwireseal for sockets, and the key manager, on a connection of two sockets of one \
             host: keys added, chosen, listed and deleted; a rollover; a peer removed; a reset",
            each_function,
            "the caller's secret is another: the connection does not open",
            callers_secret,
        ),
    ]
}

/// The keys as north has them, the last one preferred; the send lifetimes end at `until`.
async fn write_keys(lab: &Lab, ids: &[u8], until: Option<i64>) -> Result<()> {
    let mut contents = format!("[[key-chain]]\nname = \"lab\"\npreferred = {}\n", ids[ids.len() - 1]);
    for id in ids {
        let (word, algorithm) =
            if *id == 1 { ("first", "AES-128-CMAC-96") } else { ("second", "hmac(sha256)") };
        contents += &format!(
            "[[key-chain.key]]\nkey-id = {id}\nsend-id = {}\nrecv-id = {}\nalgorithm = \"{algorithm}\"\nsecret = \"{SECRET} {word}\"\n",
            20 + id,
            10 + id
        );
        if let Some(until) = until {
            let until = Timestamp::from_unix_seconds(until);
            contents +=
                &format!("send = {{ until = {until} }}\naccept = {{ until = {} }}\n", until.later_by(60));
        }
    }
    lab.north.call(WriteFile { path: format!("{FOLDER}/keys.toml"), contents }).await
}

async fn start(lab: &Lab) -> Result<Program<'_>> {
    lab.north.shell(&format!("rm -rf {FOLDER}; mkdir {FOLDER}")).await?;
    write_keys(lab, &[1], None).await?;
    let [dialled, passive] = Family::ALL.map(|family| Port::Userspace.address(family));
    let command = format!("c-daemon {FOLDER}/keys.toml {AS} to:{dialled}=lab {passive}=lab");
    let program = Program::start(&lab.north, "c-daemon", &command).await?;
    program.await_log("listening", 1).await?;
    Ok(program)
}

/// The userspace end, with these keys.
fn userspace(lab: &Lab, mkts: &[Mkt]) -> Result<Userspace> {
    let peer = |family| Userspace::peer(Port::North.address(family), mkts);
    let peers = Family::ALL.map(peer).into_iter().collect::<Result<_>>()?;
    Userspace::start(&lab.wire, peers, fastrand::u64(..))
}

async fn roll_and_end(lab: &Lab) -> Result<Evidence> {
    let started = Instant::now();
    let before = lab.north.counters().await?;
    let (_, keys) = key_chain(SECRET)?;
    let userspace = userspace(lab, &keys)?;
    let mut listener = userspace.stack.listen(None, BGP)?;
    let daemon = start(lab).await?;
    let streams =
        [userspace.accept(&mut listener).await?, userspace.connect(Port::North.at(Family::Ipv6, BGP)).await?];
    let pair = |[local, remote]: [SocketAddr; 2]| SocketPair {
        local: Endpoint::from(local),
        remote: Endpoint::from(remote),
    };
    let pairs: Vec<_> = streams.iter().filter_map(|stream| stream.ends().map(pair)).collect();
    let export = Export { local_as: PEER_AS, peer_as: AS, next_hops: [None, None] };
    let config = SessionConfig { export, router_id: Port::Userspace.ipv4(), hold_time: HOLD_TIME };
    let sessions = streams.map(|stream| Session::start(stream, config));
    for session in &sessions {
        session.established(TIME_LIMIT).await?;
    }
    daemon.await_log(": established", 2).await?;

    write_keys(lab, &[1, 2], None).await?;
    daemon.signal("HUP").await?;
    daemon.await_log("generation 2: on all sockets", 1).await?;
    // The daemon asks for the second key, and signs with it as soon as it is asked to.
    await_signed(lab, Port::Userspace, keys[1].send_id()).await?;
    for pair in &pairs {
        let ask =
            |connection: &mut wireseal_tcp_ao::Connection<_>| connection.set_rnext_key(keys[1].recv_id());
        let asked = userspace.stack.with_device(|device| device.shim_mut().connection_mut(pair).map(ask));
        asked.context("the shim does not know the connection")??;
    }
    await_signed(lab, Port::North, keys[1].recv_id()).await?;
    daemon.await_log("generation 2: used by all peers", 1).await?;

    let now: i64 = lab.north.shell("date +%s").await?.trim().parse()?;
    write_keys(lab, &[2], Some(now + LEFT)).await?;
    daemon.signal("HUP").await?;
    daemon.await_log("generation 3: used by all peers", 1).await?;
    ensure!(!daemon.log().await?.contains("closed"), "a session has ended before its key");
    for session in &sessions {
        let status = session.until(TIME_LIMIT, "its end", |now| now.state == State::Closed).await?;
        ensure!(
            matches!(status.closed, Some(Closed::Received(_))),
            "it ended otherwise: {:?}",
            status.closed
        );
    }
    let late = lab.north.shell("date +%s").await?.trim().parse::<i64>()? - (now + LEFT);
    ensure!((0..LEFT).contains(&late), "the sessions ended {late} s after the key");
    daemon.await_log("closed: no key is valid", 2).await?;
    daemon.await_log(": not opened: peer", 1).await?;
    drop((sessions, listener));
    userspace.idle().await?;
    drop(userspace);
    let log = daemon.stop().await?;
    let deleted = log.lines().filter(|line| line.contains("delete the key with SendID 21")).count();
    ensure!(deleted >= 2, "{log}");
    let counted = lab.north.counters().await?.since(&before).check_good("north")?;
    let evidence = evidence(lab, &keys, &[("north", counted)], started.elapsed().as_secs_f64())?;
    let by_key: Vec<_> =
        evidence.wire.by_key.iter().map(|(key, segments)| format!("{segments} under key {key}")).collect();
    let figures = format!("{}; goodbye {late} s after the key's end", by_key.join(", "));
    Ok(evidence.with_figures(figures))
}

async fn another_secret(lab: &Lab) -> Result<Refusal> {
    let before = lab.north.counters().await?;
    let (_, keys) = key_chain("what the other end does not know")?;
    let userspace = userspace(lab, &keys)?;
    let _listener = userspace.stack.listen(None, BGP)?;
    let daemon = start(lab).await?;
    let call = userspace.connect(Port::North.at(Family::Ipv6, BGP));
    let counted = refused(lab.north.await_counted(&before, Counted::bad(1)), call).await?;
    userspace.await_refused(1).await?;
    daemon.await_log("warning: listener: ", 1).await?;
    let log = daemon.stop().await?;
    let said =
        log.lines().filter(|line| line.contains("with a wrong MAC under the key with SendID 21")).count();
    ensure!(said > 0 && !log.contains("established"), "{log}");
    drop(userspace);
    Ok(Refusal::by("north", &counted).and(Refusal::of("the daemon: warnings", said as u64)))
}

async fn each_function(lab: &Lab) -> Result<Evidence> {
    lab.north.shell("ip link set lo up").await?;
    let before = lab.north.counters().await?;
    let said = lab.north.shell("c-sockets").await?;
    let counted = lab.north.counters().await?.since(&before).check_good("north")?;
    let counters = vec![("north".to_owned(), counted.to_string())];
    Ok(Evidence { counters, figures: said.trim().to_owned(), ..Evidence::default() })
}

async fn callers_secret(lab: &Lab) -> Result<Refusal> {
    lab.north.shell("ip link set lo up").await?;
    let before = lab.north.counters().await?;
    let said = lab.north.shell("c-sockets 'what it does not know'; echo ended with $?").await?;
    ensure!(said.contains("the connection is not opened\nended with 2"), "{said}");
    let counted = lab.north.await_counted(&before, Counted::bad(1)).await?;
    Ok(Refusal::by("north", &counted))
}
