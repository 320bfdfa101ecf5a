//! The example bgp-daemon-keys, whose sockets are its own: against BIRD, against itself on another kernel, and as the one listener of peers
//! that are protected in different ways. And the keys of a thousand sessions, changed at once.

use std::time::Instant;

use agent::{
    AcceptManaged, Connect, Counted, Detach, Listen, Manage, NewManager, SetMd5Key, SetPeers, WriteFile,
};
use speaker::message::Export;
use speaker::session::{Session, SessionConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::Key;
use wireseal_tcp_ao::Mkt;

use super::bgp::{SECRET, await_signed, evidence, key_chain};
use super::bird::{AS, Bird, HOLD_TIME, PEER_AS, tcp_ao};
use super::kernels::open_socket;
use super::manager::{chain, set_memory};
use super::router_peer::ROUTES;
use super::session::{End, SOME, Session as Connection, Setup, key, key_with};
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::userspace::Userspace;
use crate::verify::verify;
use crate::wait::Program;

const FAMILY: Family = Family::Ipv4;
/// Where BGP is served.
const BGP: u16 = 179;
const FOLDER: &str = "/tmp/daemon-keys";
/// Seconds that a peer has to move to a new key. It sends a KEEPALIVE every three.
const PATIENCE: u32 = 15;
/// How many sessions change their keys at once.
const MANY: u16 = 1000;
/// Octets for the keys of a listener with so many peers, two each.
const MEMORY: u32 = 8 << 20;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "daemon-keys-bird",
            "bgp-daemon-keys against BIRD: a rotation with a barrier, on the daemon's own sockets; sessions over IPv4 (opened by the daemon) \
             and IPv6 (opened by BIRD) go over to a second key, and then lose the first; both barriers are reached, and they stay up",
            bird,
            "BIRD never gets the second key: all sockets hold it, nobody moves; one session keeps the old keys and stays up, the \
             other is reset, as their policies say",
            bird_lacks_the_new_key,
        ),
        Row::new(
            "daemon-keys-kernel",
            "bgp-daemon-keys on two kernels: both rotate and take it back, while two sessions are up; segments under either key are \
             counted at either end",
            both_rotate,
            "the other end has no new key for IPv6: that session is reset, the one over IPv4 goes over to the new key",
            one_lacks_a_key,
        ),
        Row::new(
            "daemon-keys-mixed",
            "peers with TCP-AO, with TCP-MD5 and with neither call bgp-daemon-keys' one listener: each gets in as it is configured",
            mixed,
            "the protected peers call unsigned, one of them after its key chain is gone: neither gets in",
            mixed_unsigned,
        ),
        Row::new(
            "daemon-keys-many",
            format!(
                "the keys of {MANY} sessions of one listener are changed at once under traffic: all sockets hold the new key, all peers \
                 move to it, then the old one goes"
            ),
            many,
            "one peer never gets the new key: after its policy's patience its session is reset, and in a second run keeps the old keys; the \
             others move",
            many_but_one,
        ),
        Row::new(
            "daemon-keys-queued",
            "a peer's key chain gets a second key while its connection waits to be accepted: it is handed out, and goes on",
            queued,
            "the key's secret is replaced meanwhile: the connection is reset and not handed out, the next one is",
            queued_under_a_replaced_secret,
        ),
    ]
}

/// The key chain of the guest at a port. South has the keys as `key_chain` has them, north has them mirrored.
fn key_file(at: Port, chain: &str, ids: &[u8], preferred: u8) -> String {
    let mut text = format!("[[key-chain]]\nname = \"{chain}\"\npreferred = {preferred}\n");
    for id in ids {
        let (word, algorithm) =
            if *id == 1 { ("first", "AES-128-CMAC-96") } else { ("second", "hmac(sha256)") };
        let (send, receive) = if at == Port::North { (20 + id, 10 + id) } else { (10 + id, 20 + id) };
        text += &format!(
            "[[key-chain.key]]\nkey-id = {id}\nsend-id = {send}\nrecv-id = {receive}\nalgorithm = \"{algorithm}\"\n\
             secret = \"{SECRET} {word}\"\n"
        );
    }
    text
}

/// Writes the daemon's configuration.
async fn write(guest: &Guest, configuration: &str, keys: &str) -> Result<()> {
    let contents = format!("{configuration}{keys}");
    guest.call(WriteFile { path: format!("{FOLDER}/daemon.toml"), contents }).await
}

/// A peer's table in the daemon's configuration.
fn peer(port: Port, family: Family, lines: &str) -> String {
    let remote_as = if port == Port::North { AS } else { PEER_AS };
    format!(
        "[[peer]]\naddress = \"{}\"\nremote-as = {remote_as}\nttl = 64\nmss = 1300\ndscp = 48\n{lines}\n",
        port.address(family)
    )
}

/// The daemon, running.
struct Daemon<'a> {
    program: Program<'a>,
    /// Its configuration, but for the keys.
    configuration: String,
}

impl<'a> Daemon<'a> {
    async fn start(guest: &'a Guest, peers: &[String], keys: &str) -> Result<Self> {
        let at = guest.port();
        let own_as = if at == Port::North { AS } else { PEER_AS };
        let configuration = format!(
            "listen = [\"[::]:{BGP}\"]\nlocal-as = {own_as}\nrouter-id = \"{}\"\nhold-time = {HOLD_TIME}\n{}",
            at.ipv4(),
            peers.concat()
        );
        guest.shell(&format!("rm -rf {FOLDER}; mkdir -p {FOLDER} && mkfifo {FOLDER}/control")).await?;
        write(guest, &configuration, keys).await?;
        let command = format!("sh -c 'exec bgp-daemon-keys {FOLDER}/daemon.toml <>{FOLDER}/control'");
        let program = Program::start(guest, "bgp-daemon-keys", &command).await?;
        program.await_log("listening", 1).await?;
        Ok(Self { program, configuration })
    }

    async fn say(&self, line: &str) -> Result<()> {
        self.program.guest.shell(&format!("echo {line} >{FOLDER}/control")).await.map(drop)
    }

    /// Gives it other keys.
    async fn rotate(&self, keys: &str) -> Result<()> {
        write(self.program.guest, &self.configuration, keys).await?;
        self.say("rotate").await
    }

    /// Waits for a line that it prints about a peer.
    async fn about(&self, peer: Port, family: Family, words: &str) -> Result<()> {
        self.program.await_log(&format!("{}: {words}", peer.address(family)), 1).await
    }

    async fn established(&self, peer: Port) -> Result<()> {
        for family in Family::ALL {
            self.about(peer, family, "established").await?;
        }
        Ok(())
    }

    async fn reached(&self, generation: u64, what: &str) -> Result<()> {
        self.program.await_log(&format!("generation {generation}: {what}"), 1).await
    }

    /// What it prints about each key: the name, and the segments counted.
    async fn counted(&self) -> Result<Vec<String>> {
        let before = self.program.log().await?;
        self.say("status").await?;
        self.program.await_log("end of status", before.matches("end of status").count() + 1).await?;
        let log = self.program.log().await?;
        Ok(log
            .lines()
            .skip(before.lines().count())
            .filter(|line| line.contains(" good,"))
            .map(str::to_owned)
            .collect())
    }

    /// Checks that its sessions were opened once, and were not closed.
    async fn check_up(&self, peer: Port, families: &[Family]) -> Result<()> {
        let log = self.program.log().await?;
        for family in families {
            let address = peer.address(*family);
            let lines = |words: &str| log.matches(&format!("{address}: {words}")).count();
            ensure!((lines("established"), lines("closed")) == (1, 0), "{address}: {log}");
        }
        Ok(())
    }
}

const HELD: &str = "on all sockets";
const MOVED: &str = "used by all peers";

/// BIRD with the first key, and the daemon with sessions over both versions of IP.
async fn begin<'a>(lab: &'a Lab, policies: [&str; 2]) -> Result<(Daemon<'a>, Bird<'a>, [Mkt; 2], Both<'a>)> {
    let south = lab.south().await?;
    let (_, keys) = key_chain(SECRET)?;
    let before = Both::of(&lab.north, south).await?;
    let bird = Bird::start(&lab.north, Port::South, &tcp_ao(&[&keys[0]], &keys[0])?).await?;
    let lines = |passive: bool, policy: &str| {
        format!(
            "key-chain = \"lab\"\npassive = {passive}\npolicy = {{ on-failure = \"{policy}\", patience = {PATIENCE} }}"
        )
    };
    let peers = [
        peer(Port::North, Family::Ipv4, &lines(false, policies[0])),
        peer(Port::North, Family::Ipv6, &lines(true, policies[1])),
    ];
    let daemon = Daemon::start(south, &peers, &key_file(Port::South, "lab", &[1], 1)).await?;
    bird.open().await?;
    daemon.established(Port::North).await?;
    Ok((daemon, bird, keys, before))
}

async fn bird(lab: &Lab) -> Result<Evidence> {
    let started = Instant::now();
    let (daemon, bird, keys, before) = begin(lab, ["retry", "retry"]).await?;
    let [first, second] = &keys;
    let mut since = Vec::new();
    for family in Family::ALL {
        since.push(bird.await_exported(family, 0, ROUTES).await?.since);
    }
    // BIRD signs with the second key as soon as it is asked to, and goes on asking for the first.
    bird.configure(&tcp_ao(&[first, second], first)?).await?;
    daemon.rotate(&key_file(Port::South, "lab", &[1, 2], 2)).await?;
    daemon.reached(2, HELD).await?;
    await_signed(lab, Port::North, second.recv_id()).await?;
    ensure!(!daemon.program.log().await?.contains(MOVED), "the peers have not moved yet");
    bird.configure(&tcp_ao(&[first, second], second)?).await?;
    daemon.reached(2, MOVED).await?;
    bird.configure(&tcp_ao(&[second], second)?).await?;
    daemon.rotate(&key_file(Port::South, "lab", &[2], 2)).await?;
    daemon.reached(3, MOVED).await?;
    let counted = daemon.counted().await?;
    ensure!(counted.len() == 2 && counted.iter().all(|line| line.contains("SendID 12")), "{counted:?}");
    for (family, since) in Family::ALL.into_iter().zip(since) {
        let state = bird.await_exported(family, 0, ROUTES).await?;
        ensure!(state.since == since, "BIRD's session over {family} is up since {:?}", state.since);
    }
    daemon.check_up(Port::North, &Family::ALL).await?;
    let good = before.good().await?;
    bird.close().await?;
    daemon.program.stop().await?;
    bird.stop().await?;
    let seconds = started.elapsed().as_secs_f64();
    let counters = [("BIRD's kernel", good[0]), ("bgp-daemon-keys' kernel", good[1])];
    Ok(evidence(lab, &keys, &counters, seconds)?
        .with_figures(format!("{}; {seconds:.1} s", counted.join("; "))))
}

async fn bird_lacks_the_new_key(lab: &Lab) -> Result<Refusal> {
    let (daemon, bird, ..) = begin(lab, ["hold-old-keys", "reset-session"]).await?;
    let since = bird.state(Family::Ipv4).await?.since;
    daemon.rotate(&key_file(Port::South, "lab", &[1, 2], 2)).await?;
    daemon.reached(2, HELD).await?;
    daemon.about(Port::North, Family::Ipv4, "the policy: HeldOldKeys").await?;
    daemon.about(Port::North, Family::Ipv6, "the policy: ResetSession").await?;
    // BIRD opens it again, under the first key, which the chain still has.
    daemon.program.await_log(&format!("{}: established", Port::North.address(Family::Ipv6)), 2).await?;
    daemon.check_up(Port::North, &[Family::Ipv4]).await?;
    let state = bird.state(Family::Ipv4).await?;
    ensure!(state.state == "Established" && state.since == since, "BIRD's session over IPv4: {state:?}");
    let log = daemon.program.log().await?;
    let refused = log.lines().filter(|line| line.contains("the policy:")).count() as u64;
    bird.close().await?;
    daemon.program.stop().await?;
    bird.stop().await?;
    Ok(Refusal::of("bgp-daemon-keys: policies carried out", refused))
}

/// A daemon at each end, with a chain for each version of IP. South opens the session over IPv4, north the one over IPv6.
async fn pair<'a>(lab: &'a Lab) -> Result<(Daemon<'a>, Daemon<'a>)> {
    let south = lab.south().await?;
    let start = async |guest: &'a Guest, other: Port| {
        let peers = Family::ALL.map(|family| {
            let is_passive = (family == Family::Ipv4) == (guest.port() == Port::North);
            peer(
                other,
                family,
                &format!(
                    "key-chain = \"{family}\"\npassive = {is_passive}\npolicy = {{ on-failure = \"reset-session\", patience = {PATIENCE} }}"
                ),
            )
        });
        Daemon::start(guest, &peers, &both_chains(guest.port(), [&[1], &[1]])).await
    };
    let (north, south) = tokio::try_join!(start(&lab.north, Port::South), start(south, Port::North))?;
    tokio::try_join!(north.established(Port::South), south.established(Port::North))?;
    Ok((north, south))
}

/// A key file with a chain for each version of IP, each with the last of its keys preferred.
fn both_chains(at: Port, ids: [&[u8]; 2]) -> String {
    let chain = |(family, ids): (Family, &[u8])| {
        key_file(at, &family.to_string(), ids, ids.last().copied().unwrap_or_default())
    };
    Family::ALL.into_iter().zip(ids).map(chain).collect()
}

async fn both_rotate(lab: &Lab) -> Result<Evidence> {
    let before = Both::of(&lab.north, lab.south().await?).await?;
    let started = Instant::now();
    let (north, south) = pair(lab).await?;
    for daemon in [&north, &south] {
        daemon.rotate(&both_chains(daemon.program.guest.port(), [&[1, 2], &[1, 2]])).await?;
    }
    tokio::try_join!(north.reached(2, MOVED), south.reached(2, MOVED))?;
    let counted = south.counted().await?;
    for daemon in [&north, &south] {
        daemon.say("undo").await?;
    }
    tokio::try_join!(north.reached(3, MOVED), south.reached(3, MOVED))?;
    let after = north.counted().await?;
    ensure!((counted.len(), after.len()) == (4, 2), "{counted:?}, then {after:?}");
    north.check_up(Port::South, &Family::ALL).await?;
    south.check_up(Port::North, &Family::ALL).await?;
    let good = before.good().await?;
    south.program.stop().await?;
    north.program.stop().await?;
    let (_, keys) = key_chain(SECRET)?;
    let counters = [("north", good[0]), ("south", good[1])];
    let evidence = evidence(lab, &keys, &counters, started.elapsed().as_secs_f64())?;
    Ok(evidence.with_figures(counted.join("; ")))
}

async fn one_lacks_a_key(lab: &Lab) -> Result<Refusal> {
    let (north, south) = pair(lab).await?;
    north.rotate(&both_chains(Port::North, [&[1, 2], &[1]])).await?;
    south.rotate(&both_chains(Port::South, [&[1, 2], &[1, 2]])).await?;
    tokio::try_join!(north.reached(2, MOVED), south.reached(2, HELD))?;
    south.about(Port::North, Family::Ipv6, "the policy: ResetSession").await?;
    south.check_up(Port::North, &[Family::Ipv4]).await?;
    let counted = south.counted().await?;
    let has_moved = |line: &String| {
        line.contains("SendID 12")
            && line.contains(&Port::North.ipv4().to_string())
            && line.ends_with("in use: true")
    };
    ensure!(counted.iter().any(has_moved), "{counted:?}");
    south.program.stop().await?;
    north.program.stop().await?;
    Ok(Refusal::of("bgp-daemon-keys: policy carried out", 1))
}

const MD5_SECRET: &str = "what both ends have long known";

/// The daemon as the listener of north, under TCP-MD5 over IPv4 and under TCP-AO over IPv6, and of an unprotected peer.
async fn listener<'a>(lab: &'a Lab) -> Result<Daemon<'a>> {
    let peers = [
        peer(Port::North, Family::Ipv4, &format!("md5-secret = \"{MD5_SECRET}\"\npassive = true")),
        peer(Port::North, Family::Ipv6, "key-chain = \"lab\"\npassive = true"),
        peer(Port::Userspace, Family::Ipv4, "passive = true"),
    ];
    Daemon::start(lab.south().await?, &peers, &key_file(Port::South, "lab", &[1], 1)).await
}

async fn mixed(lab: &Lab) -> Result<Evidence> {
    let south = lab.south().await?;
    let before = Both::of(&lab.north, south).await?;
    let daemon = listener(lab).await?;
    let (_, [first, _]) = key_chain(SECRET)?;

    let remote = Port::South.at(Family::Ipv4, BGP);
    let socket = open_socket(&lab.north, Family::Ipv4, 0, Vec::new()).await?;
    let md5 = SetMd5Key {
        socket,
        remote: Port::South.address(Family::Ipv4).into(),
        vrf: None,
        secret: MD5_SECRET.to_owned(),
    };
    lab.north.call(md5).await?;
    lab.north.call(Connect { socket, remote }).await?;
    daemon.about(Port::North, Family::Ipv4, "connected").await?;

    let mirrored = speaker::protection::mirrored(&first)?;
    let keys = vec![agent::Key::new(Port::South.address(Family::Ipv6), &mirrored)?];
    let socket = open_socket(&lab.north, Family::Ipv6, 0, keys).await?;
    lab.north.call(Connect { socket, remote: Port::South.at(Family::Ipv6, BGP) }).await?;
    daemon.about(Port::North, Family::Ipv6, "connected").await?;

    let userspace = Userspace::start(&lab.wire, Vec::new(), fastrand::u64(..))?;
    let export = Export { local_as: PEER_AS, peer_as: PEER_AS, next_hops: [None, None] };
    let config = SessionConfig { export, router_id: Port::Userspace.ipv4(), hold_time: HOLD_TIME };
    let session = Session::start(userspace.connect(remote).await?, config);
    session.established(agent::TIME_LIMIT).await?;
    daemon.about(Port::Userspace, Family::Ipv4, "established").await?;
    session.shutdown().await?;
    daemon.about(Port::Userspace, Family::Ipv4, "closed").await?;
    userspace.idle().await?;
    drop(userspace);

    let good = before.good().await?;
    daemon.program.stop().await?;
    let recording = lab.wire.take_recording();
    // All that is not of the protected address is without TCP-AO.
    let is_protected = |address| address == Port::North.address(Family::Ipv6);
    let unsigned = recording.segments().filter(|segment| {
        !is_protected(segment.source_address()) && !is_protected(segment.destination_address())
    });
    let unsigned = unsigned.count() as u64;
    let wire = verify(lab, &recording, &[first])?;
    let counters = vec![("south".to_owned(), good[1].to_string())];
    Ok(Evidence { counters, wire, unsigned, recording, ..Evidence::default() })
}

async fn mixed_unsigned(lab: &Lab) -> Result<Refusal> {
    let south = lab.south().await?;
    let daemon = listener(lab).await?;
    let mut refusal = Refusal::default();
    let mut call = async |family: Family, wanted: Counted, chain: &str| {
        let before = south.counters().await?;
        let socket = open_socket(&lab.north, family, 0, Vec::new()).await?;
        let connect = lab.north.call(Connect { socket, remote: Port::South.at(family, BGP) });
        let counted = refused(south.await_counted(&before, wanted), connect).await?;
        refusal = std::mem::take(&mut refusal).and(Refusal::by(chain, &counted));
        lab.north.call(agent::Close { socket }).await
    };
    call(Family::Ipv6, Counted::required(1), "south, with its chain").await?;
    call(Family::Ipv4, Counted::md5_not_found(1), "south, under TCP-MD5").await?;
    daemon.rotate(&key_file(Port::South, "another", &[1], 1)).await?;
    daemon.reached(2, HELD).await?;
    call(Family::Ipv6, Counted::required(1), "south, without its chain").await?;
    let log = daemon.program.stop().await?;
    ensure!(!log.contains(": connected"), "one got in: {log}");
    Ok(refusal)
}

/// Runs it on the first guest; returns what it prints.
async fn many_sessions(lab: &Lab, policy: &str) -> Result<String> {
    let before = set_memory(lab, MEMORY).await?;
    let said = lab.north.shell(&format!("ulimit -n 16384 && many_sessions {MANY} {policy}")).await;
    set_memory(lab, before).await?;
    said
}

async fn many(lab: &Lab) -> Result<Evidence> {
    let before = lab.north.counters().await?;
    let said = many_sessions(lab, "").await?;
    let counted = lab.north.counters().await?.since(&before).check_good("north")?;
    let counters = vec![("north".to_owned(), counted.to_string())];
    let figures = said.lines().collect::<Vec<_>>().join("; ");
    Ok(Evidence { counters, figures, ..Evidence::default() })
}

async fn many_but_one(lab: &Lab) -> Result<Refusal> {
    let before = lab.north.counters().await?;
    let mut carried_out = 0;
    for policy in ["reset-session", "hold-old-keys"] {
        let said = many_sessions(lab, policy).await?;
        carried_out += said.lines().filter(|line| line.starts_with("policy: ")).count() as u64;
    }
    lab.north.counters().await?.since(&before).check_good("north")?;
    ensure!(carried_out == 2, "{carried_out} policies were carried out");
    Ok(Refusal::of("many_sessions: policies carried out", carried_out))
}

/// A managed listener with one key for the userspace end, its port and its key manager.
async fn managed_listener(lab: &Lab, mkt: &Mkt) -> Result<(u64, u16, u64)> {
    let listener = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    let port = lab.north.call(Listen { socket: listener }).await?.port();
    let manager = lab.north.call(NewManager { peers: peers(std::slice::from_ref(mkt))? }).await?;
    lab.north.call(Manage { manager, socket: listener }).await?;
    Ok((listener, port, manager))
}

/// The userspace end, with these keys.
fn peers(mkts: &[Mkt]) -> Result<Vec<(wireseal_linux::IpCidr, Option<u32>, agent::Chain)>> {
    let keys: Vec<Key> = mkts.iter().map(|mkt| Key::new(mkt.send_id().0.into(), mkt.clone())).collect();
    Ok(vec![(End::Userspace.address(FAMILY).into(), None, chain(Port::North, &keys)?)])
}

async fn queued(lab: &Lab) -> Result<Evidence> {
    let [first, second] = [key(1, TcpAoAlgorithm::Aes128Cmac)?, key(2, TcpAoAlgorithm::HmacSha1)?];
    let (listener, port, manager) = managed_listener(lab, &first).await?;
    let setup = Setup::with_keys(FAMILY, End::Userspace, std::slice::from_ref(&first));
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let stream = userspace.connect(End::Kernel.port().at(FAMILY, port)).await?;
    lab.take_in(Port::North).await?;
    lab.north.call(SetPeers { manager, peers: peers(&[first, second])? }).await?;
    let socket = lab.north.call(AcceptManaged { socket: listener }).await?;
    let mut session =
        Connection::established(lab, setup, before, userspace, stream, (socket, Some(listener)))?;
    session.exchange(SOME, SOME).await?;
    lab.north.call(Detach { socket }).await?;
    session.close().await
}

async fn queued_under_a_replaced_secret(lab: &Lab) -> Result<Refusal> {
    let first = key(1, TcpAoAlgorithm::Aes128Cmac)?;
    let replaced = key_with(1, TcpAoAlgorithm::Aes128Cmac, "another secret of 32 octets, and more")?;
    let (listener, port, manager) = managed_listener(lab, &first).await?;
    let remote = End::Kernel.port().at(FAMILY, port);
    let caller = Setup::with_keys(FAMILY, End::Userspace, &[first]).userspace(lab)?;
    let mut stream = caller.connect(remote).await?;
    stream.write_all(b"from somebody who knows the old secret").await?;
    lab.take_in(Port::North).await?;
    lab.north.call(SetPeers { manager, peers: peers(std::slice::from_ref(&replaced))? }).await?;
    let call = async {
        ensure!(stream.read_u8().await.is_err(), "the connection was not reset");
        drop((stream, caller));
        let caller = Setup::with_keys(FAMILY, End::Userspace, &[replaced]).userspace(lab)?;
        let stream = caller.connect(remote).await?;
        Ok((caller, stream))
    };
    let accept = lab.north.call(AcceptManaged { socket: listener });
    let (socket, _second) = tokio::try_join!(accept, call)?;
    lab.north.call(Detach { socket }).await?;
    Ok(Refusal::of("TcpAoListener: connections reset", 1))
}
