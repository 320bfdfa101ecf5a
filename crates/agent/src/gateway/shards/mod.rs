//! All shards, and what they share: the peers with their key chains, and the sessions of an earlier gateway.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use wireseal_keys::{KeyChain, Timestamp};
use wireseal_linux::PeerName;
use wireseal_tcp_ao::shim::{ShimConfig, TimeLimits, Unmatched};
use wireseal_tcp_ao::{
    Connection, ConnectionIdentifier, ConnectionState, MKTS_PER_PEER, Peer, Segment, SocketPair,
};

use super::shard::{Refusals, Shard};
use crate::config::Config;
use crate::error::Error;
use crate::instance::lock;
use crate::status::{Command, PeerStatus, Segments, SessionStatus, Status, network_namespace};

/// The longest packet. The kernel enforces each device's MTU, by ICMP that passes through the shim.
const LONGEST: usize = u16::MAX as usize;
/// How many peers are handled under one lock of a shard: packets wait for that lock.
const AT_ONCE: usize = 16;

/// What the threads share.
pub(super) struct Shards {
    since: Timestamp,
    started: Instant,
    shards: Vec<Mutex<Shard>>,
    peers: Mutex<HashMap<PeerName, Followed>>,
    ports: Mutex<Vec<u16>>,
    /// Sessions of an earlier gateway, until a packet shows their shard: only the kernel knows which it is.
    waiting: Mutex<HashMap<SocketPair, ConnectionState>>,
    any_waits: AtomicBool,
}

/// A peer and its key chain.
struct Followed {
    /// Its index, the same in every shard, because all of them add and remove the same peers in the same order.
    index: usize,
    chain: KeyChain,
    has_key: bool,
    /// When the chain was last followed, and when its keys change next.
    seen: Timestamp,
    next_change: Option<Timestamp>,
}

impl Followed {
    /// Whether the valid keys may have changed since the chain was last followed, because time passed or the clock was set back.
    fn is_due(&self, now: Timestamp) -> bool {
        now < self.seen || self.next_change.is_some_and(|next| next <= now)
    }
}

/// What a new configuration has changed.
#[derive(Default)]
struct Changes {
    added: Vec<PeerName>,
    /// Peers whose keys changed.
    changed: Vec<PeerName>,
    gone: Vec<Gone>,
    /// Ports that are no longer protected.
    ports: Vec<u16>,
}

/// A removed peer.
struct Gone {
    name: PeerName,
    /// The peer whose network it now belongs to.
    around: Option<PeerName>,
    /// How many sessions it had.
    sessions: usize,
}

impl Shards {
    /// This many shards, each with room for this many connections.
    pub(super) fn new(
        config: &Config,
        shards: usize,
        connections: usize,
        accept_icmp: bool,
    ) -> Result<Self, Error> {
        let shim_config = ShimConfig {
            stack_mtu: LONGEST,
            // The rules queue only packets of peers. During a change the rules and the peers may differ; then drop rather than pass
            // unjudged.
            unmatched: Unmatched::DropAll,
            accept_icmp,
            ..ShimConfig::new(LONGEST)
        };
        let shard = || Shard::new(shim_config, connections).map(Mutex::new).map_err(Error::Shim);
        let shards = Self {
            since: Timestamp::now(),
            started: Instant::now(),
            shards: (0..shards).map(|_| shard()).collect::<Result<_, _>>()?,
            peers: Mutex::default(),
            ports: Mutex::default(),
            waiting: Mutex::default(),
            any_waits: AtomicBool::new(false),
        };
        shards.apply(config);
        Ok(shards)
    }

    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// A thread's own shard, which others lock for a moment once a second.
    pub(super) fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[index])
    }

    /// All shards, one after the other.
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock)
    }

    /// Applies a new configuration, which has been checked, and logs what has changed. It cannot fail.
    pub(super) fn change(&self, config: &Config) {
        let Changes { added, changed, gone, ports } = self.apply(config);
        let names = list(gone.iter().map(|gone| gone.name));
        tracing::info!(
            added = list(added),
            changed = list(changed),
            gone = names,
            "the configuration was read again"
        );
        for Gone { name, around, sessions } in gone {
            let peer = tracing::field::display(name);
            let now = match around {
                None => "its packets pass UNSIGNED from now on".to_owned(),
                Some(network) => format!("it now belongs to {network}, and its sessions have to open again"),
            };
            tracing::warn!(peer, sessions, "peer removed: {now}");
        }
        if let Some(ports) = list(ports) {
            tracing::warn!(ports, "not protected any more: packets at these ports pass UNSIGNED from now on");
        }
    }

    /// Adds peers, changes key chains, and removes peers. A peer that a shim refuses has its packets dropped.
    fn apply(&self, config: &Config) -> Changes {
        let now = Timestamp::now();
        let mut peers = lock(&self.peers);
        let mut changes = Changes::default();
        let wanted: HashSet<_> = config.peers.iter().map(|(name, _)| name.canonical()).collect();
        let room = wanted.union(&peers.keys().copied().collect()).count();
        for mut shard in self.each() {
            if let Err(error) = shard.make_room(room) {
                tracing::error!(%error, "there is no room for more peers");
            }
        }
        for (name, chain) in &config.peers {
            let name = name.canonical();
            let chain = chain.clone();
            if let Some(followed) = peers.get_mut(&name) {
                if !followed.chain.has_same_keys(&chain) {
                    changes.changed.push(name);
                    followed.next_change = Some(now);
                }
                followed.chain = chain;
            } else if let Some(index) = self.add(name, &chain, now) {
                let followed = Followed { index, chain, has_key: true, seen: now, next_change: Some(now) };
                peers.insert(name, followed);
                changes.added.push(name);
            }
        }
        let gone: HashMap<_, _> = peers.extract_if(|name, _| !wanted.contains(name)).collect();
        drop(peers);
        let networks: Vec<_> = wanted.iter().filter(|name| !name.remote.is_host_address()).collect();
        let mut sessions: HashMap<usize, usize> = HashMap::new();
        for mut shard in self.each().filter(|_| !gone.is_empty()) {
            for (index, _) in shard.shim.connections_with_peers() {
                *sessions.entry(index).or_default() += 1;
            }
            for Followed { index, .. } in gone.values() {
                // Cannot fail: nobody else removes peers.
                let _ = shard.shim.remove_peer(*index);
            }
        }
        changes.gone.extend(gone.into_iter().map(|(name, Followed { index, .. })| {
            let around =
                networks.iter().filter(|network| network.remote.contains(&name.remote.first_address()));
            let around =
                around.max_by_key(|network| network.remote.network_length()).map(|network| **network);
            Gone { name, around, sessions: sessions.get(&index).copied().unwrap_or_default() }
        }));
        changes.gone.sort_by_key(|gone| gone.name);
        changes.ports = self.change_ports(&config.ports);
        self.tick();
        changes
    }

    /// Forgets the sessions at ports that are no longer protected; returns those ports.
    fn change_ports(&self, ports: &[u16]) -> Vec<u16> {
        let mut gone = std::mem::replace(&mut *lock(&self.ports), ports.to_vec());
        gone.retain(|port| !ports.contains(port));
        for mut shard in self.each().filter(|_| !gone.is_empty()) {
            let pairs = shard.shim.connections().map(Connection::pair);
            let is_gone =
                |pair: &SocketPair| ![pair.local, pair.remote].iter().any(|end| ports.contains(&end.port()));
            for pair in pairs.filter(is_gone).collect::<Vec<_>>() {
                shard.shim.forget(&pair);
            }
        }
        gone
    }

    /// Adds a peer to all shards, with the same index; they all take it or all refuse it.
    fn add(&self, name: PeerName, chain: &KeyChain, now: Timestamp) -> Option<usize> {
        let anywhere = if name.remote.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let local = anywhere.parse().expect("it is a network");
        let connections = ConnectionIdentifier::between(local, name.remote);
        let indices =
            self.each().map(|mut shard| shard.shim.add_peer(Peer { connections, mkts: chain.mkts(now) }));
        let index = indices.reduce(|index, other| index.and(other))?;
        index
            .inspect_err(|error| tracing::error!(peer = %name, %error, "the peer could not be added, and its packets are dropped"))
            .ok()
    }

    /// Takes over the sessions of an earlier gateway.
    pub(super) fn adopt(&self, states: Vec<ConnectionState>) {
        lock(&self.waiting).extend(states.into_iter().map(|state| (state.pair, state)));
        self.any_waits.store(true, Ordering::Relaxed);
    }

    /// If a packet belongs to a session of an earlier gateway, moves that session into the shard.
    pub(super) fn claim(&self, shard: &mut Shard, packet: &[u8], is_outbound: bool) {
        // A stopped shard's sessions are already being written.
        if !self.any_waits.load(Ordering::Relaxed) || shard.has_stopped {
            return;
        }
        let Ok(segment) = Segment::parse(packet) else { return };
        let (from, to) = (segment.source(), segment.destination());
        let (local, remote) = if is_outbound { (from, to) } else { (to, from) };
        let pair = SocketPair { local, remote };
        let mut waiting = lock(&self.waiting);
        let Some(state) = waiting.remove(&pair) else { return };
        self.any_waits.store(!waiting.is_empty(), Ordering::Relaxed);
        drop(waiting);
        let Some(mkts) = shard.shim.peer_of(&pair).map(|(_, peer)| peer.mkts.clone()) else {
            tracing::warn!(%local, %remote, "a saved session cannot go on: its peer is not in the configuration");
            return;
        };
        let adopted = Connection::<MKTS_PER_PEER>::import(&state, &mkts).map_err(|error| error.to_string());
        let adopted = adopted.and_then(|connection| {
            shard.shim.adopt(self.now(), connection).map_err(|refusal| refusal.to_string())
        });
        if let Err(error) = adopted {
            tracing::warn!(%local, %remote, %error, "a saved session cannot go on, and has to open again");
        }
    }

    /// Follows the key chains, and logs what was refused.
    pub(super) fn tick(&self) {
        let (now, since_start) = (Timestamp::now(), self.now());
        self.forget_waiting(since_start);
        let mut peers = lock(&self.peers);
        let due: Vec<_> = peers.iter_mut().filter(|(_, followed)| followed.is_due(now)).collect();
        let mut refusals = Refusals::default();
        for shard in &self.shards {
            for some in due.chunks(AT_ONCE) {
                let mut shard = lock(shard);
                for (name, followed) in some {
                    let followed = followed.chain.apply_to(&mut shard.shim, followed.index, now);
                    if let Err(error) = followed {
                        tracing::error!(peer = %name, %error, "the peer's keys cannot be changed as its key chain says");
                    }
                }
                shard.log();
                drop(shard);
                // Otherwise this thread might take the lock again before the threads that wait for it.
                thread::yield_now();
            }
            let mut shard = lock(shard);
            shard.expire(since_start);
            shard.log();
            refusals.take(&mut shard.refusals);
        }
        for (name, followed) in due {
            (followed.seen, followed.next_change) = (now, followed.chain.next_change(now));
            let has_key = followed.chain.at(now).preferred().is_some();
            if followed.has_key && !has_key {
                tracing::warn!(peer = %name, "no key is valid for sending: no session");
            }
            followed.has_key = has_key;
        }
        refusals.log(|index| peers.iter().find(|(_, peer)| peer.index == index).map(|(name, _)| *name));
    }

    /// Forgets sessions of an earlier gateway that had no packet for as long as an open one may be silent: TCP's keepalive waits two hours
    /// (RFC 9293 §3.8.4), and BGP suggests a KEEPALIVE every 30 seconds (RFC 4271 §10).
    fn forget_waiting(&self, since_start: Duration) {
        if since_start < TimeLimits::DEFAULT.idle || !self.any_waits.swap(false, Ordering::Relaxed) {
            return;
        }
        let sessions = std::mem::take(&mut *lock(&self.waiting)).len();
        tracing::info!(sessions, "saved sessions without a packet since the start are forgotten");
    }

    /// The gateway's present status, without its rules.
    pub(super) fn status(&self) -> Status {
        let peers = lock(&self.peers);
        let mut of_index: Vec<Vec<SessionStatus>> = Vec::new();
        let mut segments: Vec<Segments> = Vec::new();
        for shard in self.each() {
            for (index, connection) in shard.shim.connections_with_peers() {
                of_index.resize_with(of_index.len().max(index + 1), Vec::new);
                of_index[index].push(session(connection));
            }
            for followed in peers.values() {
                let (index, counters) = (followed.index, shard.shim.peer_counters(followed.index));
                segments.resize(segments.len().max(index + 1), Segments::default());
                segments[index] = segments[index].plus(counters.copied().unwrap_or_default().into());
            }
        }
        let mut peers: Vec<_> = peers.iter().collect();
        peers.sort_by_key(|(name, _)| **name);
        let peers = peers.into_iter().map(|(name, followed)| PeerStatus {
            sessions: of_index.get_mut(followed.index).map(std::mem::take).unwrap_or_default(),
            segments: segments.get(followed.index).copied().unwrap_or_default(),
            ..PeerStatus::new(name, &followed.chain, self.since)
        });
        Status {
            command: Command::Gateway,
            pid: std::process::id(),
            since: self.since,
            network_namespace: network_namespace(),
            program: None,
            ports: lock(&self.ports).clone(),
            peers: peers.collect(),
            listeners: Vec::new(),
            rules: None,
        }
    }

    /// Stops carrying packets; returns the open sessions, and those of an earlier gateway that still wait for a packet.
    pub(super) fn stop(&self) -> Vec<ConnectionState> {
        let carried = self.each().flat_map(|mut shard| shard.stop()).collect::<Vec<_>>();
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        carried.into_iter().chain(waiting.into_values()).collect()
    }
}

/// A list for the log; `None` if it is empty.
fn list(names: impl IntoIterator<Item = impl ToString>) -> Option<String> {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn session(connection: &Connection<MKTS_PER_PEER>) -> SessionStatus {
    let SocketPair { local, remote } = connection.pair();
    let asked_for = connection.rnext_key().recv_id;
    SessionStatus {
        local: SocketAddr::new(local.address(), local.port()),
        remote: SocketAddr::new(remote.address(), remote.port()),
        is_established: connection.is_established(),
        send_id: connection.current_key().send_id,
        asked_for,
        is_peer_behind: connection.peers_key().recv_id != asked_for || !connection.peer_uses_rnext_key(),
        peer_insists: connection.peer_insists(),
    }
}

#[cfg(test)]
mod tests;
