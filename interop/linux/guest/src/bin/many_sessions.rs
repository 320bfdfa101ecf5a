//! Changes the key of many sessions at once, between two programs' worth of sockets over the loopback interface, under traffic.
//!
//! `many_sessions SESSIONS` ends when the last peer uses the new key and the old key is gone. With the name of a policy behind it, the last
//! peer never gets the new key; then it ends when the policy has been carried out, and all other peers use the new key.

use std::env::args;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use socket2::{Domain, Socket, Type};
use wireseal_keys::{Key, KeyChain, Timestamp};
use wireseal_linux::{
    Attachment, Barrier, Generation, KeyManager, OnFailure, PeerName, Policy, Progress, TcpAoAlgorithm,
    TcpAoSocket,
};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

/// How long a barrier may take, and a read.
const LIMIT: Duration = Duration::from_secs(60);
/// Seconds until a peer that has not moved has failed.
const PATIENCE: u32 = 20;
const OLD: u8 = 1;
const NEW: u8 = 2;
/// What the RecvIDs of the daemon's keys are above their SendIDs.
const OTHER_WAY: u8 = 100;

/// Which end a key is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Daemon,
    Router,
}

fn key(id: u8, end: End) -> Result<Key> {
    let (one, other) = (KeyId(id), KeyId(id + OTHER_WAY));
    let (send, receive) = if end == End::Daemon { (one, other) } else { (other, one) };
    let secret = MasterKey::new(format!("secret of key {id}").as_bytes())?;
    Ok(Key::new(id.into(), Mkt::new(send, receive, TcpAoAlgorithm::HmacSha1, secret)?))
}

/// A chain of these keys, of which the last is preferred.
fn chain(ids: &[u8], end: End) -> Result<KeyChain> {
    let keys = ids.iter().map(|id| key(*id, end)).collect::<Result<_>>()?;
    let last = ids.last().context("a key")?;
    Ok(KeyChain::new("many", keys)?.with_preferred((*last).into())?)
}

fn address(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(127, 1 + high, low, 1)
}

fn name(number: u16) -> PeerName {
    PeerName::new(address(number).into())
}

/// Both ends of a session.
struct Session {
    daemon: (Socket, Attachment),
    router: (Socket, Attachment),
}

impl Session {
    fn open(listener: &Socket, number: u16, daemon: &KeyManager, routers: &KeyManager) -> Result<Self> {
        let router = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        router.bind(&SocketAddr::from((address(number), 0)).into())?;
        let at_router =
            routers.attach_connecting(&router, IpAddr::from(Ipv4Addr::LOCALHOST), Timestamp::now())?;
        router.connect_timeout(&listener.local_addr()?, LIMIT)?;
        let (accepted, remote) = listener.accept()?;
        let remote = remote.as_socket().context("TCP")?.ip();
        let at_daemon = daemon.attach_accepted(&accepted, remote, Timestamp::now())?;
        for socket in [&router, &accepted] {
            socket.set_read_timeout(Some(LIMIT))?;
        }
        Ok(Self { daemon: (accepted, at_daemon), router: (router, at_router) })
    }

    /// Sends a word each way, and checks it.
    fn talk(&self, word: u64) -> Result<()> {
        let ends = [&self.daemon.0, &self.router.0];
        for mut end in ends {
            end.write_all(&word.to_be_bytes())?;
        }
        for mut end in ends {
            let mut octets = [0; 8];
            end.read_exact(&mut octets)?;
            ensure!(octets == word.to_be_bytes(), "other octets than were sent");
        }
        Ok(())
    }

    /// Checks the keys on both ends' sockets, in order of their ids, and that none has refused a segment.
    fn check(&self, daemon: &[u8], router: &[u8], current: u8) -> Result<()> {
        for ((socket, _), wanted, above) in [(&self.daemon, daemon, 0), (&self.router, router, OTHER_WAY)] {
            let mut keys = TcpAoSocket::new(socket).keys()?;
            keys.sort_by_key(|key| key.name.send_id.0);
            let ids: Vec<u8> = keys.iter().map(|key| key.name.send_id.0 - above).collect();
            let in_use = keys.iter().find(|key| key.is_current).map(|key| key.name.send_id.0 - above);
            let bad: u64 = keys.iter().map(|key| key.bad).sum();
            ensure!(
                (ids.as_slice(), in_use, bad) == (wanted, Some(current), 0),
                "keys {ids:?}, {in_use:?} in use, {bad} bad, instead of {wanted:?} and {current}"
            );
        }
        Ok(())
    }
}

/// Lets all sessions talk until the barrier is reached. Fails when that takes too long.
fn talk_until(
    manager: &KeyManager,
    generation: Generation,
    barrier: Barrier,
    talk: &mut dyn FnMut() -> Result<()>,
) -> Result<Progress> {
    let waiting = manager.clone();
    let waiting = thread::spawn(move || waiting.wait_until(generation, barrier, LIMIT));
    while !waiting.is_finished() {
        talk()?;
    }
    let progress = waiting.join().map_err(|_| anyhow!("the waiting thread has panicked"))?;
    ensure!(progress.has_reached(barrier), "not within {} s: {progress:?}", LIMIT.as_secs());
    Ok(progress)
}

/// Changes the peers' chains, and their policies.
fn change(daemon: &KeyManager, count: u16, ids: &[u8], on_failure: OnFailure) -> Result<Generation> {
    let mut transaction = daemon.transaction();
    for number in 0..count {
        transaction.set_peer(name(number), chain(ids, End::Daemon)?);
        let policy = Policy { on_failure, patience: Some(PATIENCE), ..Policy::default() };
        transaction.set_policy(name(number), policy);
    }
    let started = Instant::now();
    let planned = transaction.dry_run(Timestamp::now())?.len();
    let took = started.elapsed().as_secs_f64();
    println!("keys {ids:?}: {planned} sockets planned in {took:.1} s");
    Ok(transaction.commit()?)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = args().skip(1).collect();
    let (sessions, policy) = match &arguments[..] {
        [sessions] => (sessions, None),
        [sessions, policy] => (sessions, Some(policy.as_str())),
        _ => return Err(anyhow!("usage: many_sessions SESSIONS [hold-old-keys|reset-session]")),
    };
    let count: u16 = sessions.parse()?;
    let on_failure = match policy {
        None => OnFailure::Retry,
        Some("hold-old-keys") => OnFailure::HoldOldKeys,
        Some("reset-session") => OnFailure::ResetSession,
        Some(other) => return Err(anyhow!("there is no policy {other}")),
    };
    let straggler = policy.map(|_| count - 1);

    let [daemon, routers, late] = [(); 3].map(|()| KeyManager::default());
    let other_end = PeerName::new(Ipv4Addr::LOCALHOST.into());
    change(&daemon, count, &[OLD], on_failure)?;
    for manager in [&routers, &late] {
        manager.set_peer(other_end, chain(&[OLD], End::Router)?)?;
    }
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let _attachment = daemon.attach_mixed(&listener, Timestamp::now())?;
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    listener.listen(16)?;
    let started = Instant::now();
    let open = |number| {
        let routers = if straggler == Some(number) { &late } else { &routers };
        Session::open(&listener, number, &daemon, routers)
    };
    let all = (0..count).map(open).collect::<Result<Vec<_>>>()?;
    println!("{count} sessions opened in {:.1} s", started.elapsed().as_secs_f64());
    let (others, late) = all.split_at(all.len() - straggler.iter().len());

    let (sender, reports) = mpsc::channel();
    daemon.spawn(move |report| drop(sender.send(report)))?;
    routers.spawn(drop)?;
    let mut word = 0;
    let mut talk = || {
        word += 1;
        // Until its policy resets it.
        late.iter().for_each(|session| drop(session.talk(word)));
        others.iter().try_for_each(|session| session.talk(word))
    };
    talk()?;
    others.iter().try_for_each(|session| session.check(&[OLD], &[OLD], OLD))?;

    let started = Instant::now();
    let generation = change(&daemon, count, &[OLD, NEW], on_failure)?;
    routers.set_peer(other_end, chain(&[OLD, NEW], End::Router)?)?;
    for (barrier, said) in [(Barrier::Held, "on all sockets"), (Barrier::Moved, "used by all peers")] {
        let progress = talk_until(&daemon, generation, barrier, &mut talk)?;
        println!(
            "{said} ({}) after {:.1} s, but for {:?}",
            progress.sockets,
            started.elapsed().as_secs_f64(),
            progress.given_up
        );
        ensure!(barrier == Barrier::Held || progress.given_up.len() == late.len(), "{progress:?}");
    }
    others.iter().try_for_each(|session| session.check(&[OLD, NEW], &[OLD, NEW], NEW))?;

    if let [late] = late {
        let carried_out: Vec<_> =
            reports.try_iter().flat_map(|report| report.sockets).flat_map(|socket| socket.policy).collect();
        println!("policy: {carried_out:?}");
        ensure!(carried_out.len() == 1, "it was to be carried out once");
        ensure!(late.talk(0).is_err() == (on_failure == OnFailure::ResetSession), "it was not carried out");
        talk()?;
        return Ok(());
    }
    let started = Instant::now();
    let generation = change(&daemon, count, &[NEW], on_failure)?;
    routers.set_peer(other_end, chain(&[NEW], End::Router)?)?;
    for (manager, generation) in [(&daemon, generation), (&routers, routers.generation())] {
        talk_until(manager, generation, Barrier::Moved, &mut talk)?;
    }
    println!("the old key is gone after {:.1} s", started.elapsed().as_secs_f64());
    others.iter().try_for_each(|session| session.check(&[NEW], &[NEW], NEW))
}
