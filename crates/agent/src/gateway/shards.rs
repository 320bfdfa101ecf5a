//! The shards, and what they have in common: peers with their key chains, and sessions of a gateway before.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wireseal_linux::PeerName;
use wireseal_tcp_ao::key_chain::{KeyChain, Timestamp};
use wireseal_tcp_ao::shim::{PeerSlot, ShimConfig};
use wireseal_tcp_ao::{
    Connection, ConnectionIdentifier, ConnectionState, MKTS_PER_PEER, Peer, Segment, SocketPair,
};

use super::GatewayError;
use super::refusals::Refusals;
use super::shard::Shard;
use crate::config::Config;
use crate::status::{Command, PeerStatus, Segments, SessionStatus, Status};

/// The longest packet. The kernel knows the MTU of each device; what is longer it refuses by ICMP, which comes through the shim.
const LONGEST: usize = u16::MAX as usize;
/// Room for peers that are added later.
const MORE_PEERS: usize = 1024;

/// What the threads share.
pub(super) struct Shards {
    since: Timestamp,
    started: Instant,
    shards: Vec<Mutex<Shard>>,
    peers: Mutex<HashMap<PeerName, Followed>>,
    /// Sessions of a gateway before, by their socket pairs, until a packet tells which shard they belong to: only the kernel knows.
    waiting: Mutex<HashMap<SocketPair, ConnectionState>>,
    any_waits: AtomicBool,
}

/// A peer with what was logged of it.
struct Followed {
    /// Its index in every shard, since all of them add and remove the same peers in the same order.
    index: usize,
    chain: KeyChain,
    has_key: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shards {
    /// As many shards, each with room for so many connections.
    pub(super) fn new(
        config: &Config,
        shards: usize,
        connections: usize,
        accept_icmp: bool,
    ) -> Result<Self, GatewayError> {
        let shim_config = ShimConfig { stack_mtu: LONGEST, accept_icmp, ..ShimConfig::new(LONGEST) };
        let room = config.peers.len() + MORE_PEERS;
        let shard = || {
            let slots = (0..room).map(|_| PeerSlot::EMPTY).collect();
            Shard::new(shim_config, slots, connections).map(Mutex::new).map_err(GatewayError::Peers)
        };
        let shards = Self {
            since: Timestamp::now(),
            started: Instant::now(),
            shards: (0..shards).map(|_| shard()).collect::<Result<_, _>>()?,
            peers: Mutex::default(),
            waiting: Mutex::default(),
            any_waits: AtomicBool::new(false),
        };
        shards.change(config)?;
        Ok(shards)
    }

    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// A thread's own shard, which others take for a moment once a second.
    pub(super) fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[index])
    }

    /// All shards, one after the other.
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock)
    }

    /// Adds and changes peers; returns those that are to be forgotten. On an error the peers are as before, but a chain may have changed.
    pub(super) fn change(&self, config: &Config) -> Result<Vec<PeerName>, GatewayError> {
        let now = Timestamp::now();
        let mut peers = lock(&self.peers);
        let mut added = Vec::new();
        for (name, chain) in &config.peers {
            if let Some(followed) = peers.get_mut(name) {
                followed.chain = chain.clone();
                continue;
            }
            let anywhere = if name.remote.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            let local = anywhere.parse().expect("it is a network");
            let connections = ConnectionIdentifier::between(local, name.remote);
            let mut indices = self.each().map(|mut shard| {
                shard.shim.add_peer(Peer { connections, mkts: chain.mkts(now) }).map_err(GatewayError::Peers)
            });
            // What one shard refuses, all do.
            match indices.try_fold(0, |_, index| index) {
                Ok(index) => {
                    let followed = Followed { index, chain: chain.clone(), has_key: true };
                    peers.insert(*name, followed);
                    added.push(*name);
                }
                Err(error) => {
                    drop(peers);
                    self.forget(&added);
                    return Err(error);
                }
            }
        }
        let is_gone = |name: &&PeerName| !config.peers.iter().any(|(other, _)| other == *name);
        let gone = peers.keys().filter(is_gone).copied().collect();
        drop(peers);
        self.tick();
        Ok(gone)
    }

    pub(super) fn forget(&self, names: &[PeerName]) {
        let mut peers = lock(&self.peers);
        for followed in names.iter().filter_map(|name| peers.remove(name)) {
            for mut shard in self.each() {
                // It is there: nobody else removes peers.
                let _ = shard.shim.remove_peer(followed.index);
            }
        }
    }

    /// Takes over sessions of a gateway before.
    pub(super) fn adopt(&self, states: Vec<ConnectionState>) {
        lock(&self.waiting).extend(states.into_iter().map(|state| (state.pair, state)));
        self.any_waits.store(true, Ordering::Relaxed);
    }

    /// Gives a shard the session that a packet belongs to, if it waits for that.
    pub(super) fn claim(&self, shard: &mut Shard, packet: &[u8], is_outbound: bool) {
        if !self.any_waits.load(Ordering::Relaxed) {
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
        let covering = shard.shim.peers().filter(|(_, peer)| peer.connections.contains(&pair));
        let longest = covering.max_by_key(|(_, peer)| peer.connections.remote.network_length());
        let Some(mkts) = longest.map(|(_, peer)| peer.mkts.clone()) else {
            tracing::warn!(%pair, "the peer of a session is gone");
            return;
        };
        let adopted = Connection::<MKTS_PER_PEER>::import(&state, &mkts).map_err(|error| error.to_string());
        let adopted = adopted.and_then(|connection| {
            shard.shim.adopt(self.now(), connection).map_err(|refusal| refusal.to_string())
        });
        if let Err(error) = adopted {
            tracing::warn!(%pair, %error, "a session cannot go on");
        }
    }

    /// Carries out the key chains, and logs what was refused.
    pub(super) fn tick(&self) {
        let (now, since_start) = (Timestamp::now(), self.now());
        let mut peers = lock(&self.peers);
        let mut refusals = Refusals::default();
        for mut shard in self.each() {
            shard.shim.expire(since_start);
            for (name, followed) in &*peers {
                if let Err(error) = shard.shim.follow_key_chain(followed.index, &followed.chain, now) {
                    tracing::error!(peer = %name, %error, "the key chain cannot be carried out");
                }
            }
            shard.log();
            refusals.take(&mut shard.refusals);
        }
        refusals.log(|index| peers.iter().find(|(_, peer)| peer.index == index).map(|(name, _)| *name));
        for (name, followed) in &mut *peers {
            let has_key = followed.chain.at(now).preferred().is_some();
            if followed.has_key && !has_key {
                tracing::warn!(peer = %name, "no key is valid for sending: no session");
            }
            followed.has_key = has_key;
        }
    }

    /// What the gateway does now.
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
            program: None,
            peers: peers.collect(),
            listeners: Vec::new(),
        }
    }

    /// Carries nothing from now on; returns the established sessions.
    pub(super) fn stop(&self) -> Vec<ConnectionState> {
        let carried = self.each().flat_map(|mut shard| shard.stop()).collect::<Vec<_>>();
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        carried.into_iter().chain(waiting.into_values()).collect()
    }
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
        is_peer_behind: connection.peers_key().recv_id != asked_for,
    }
}
