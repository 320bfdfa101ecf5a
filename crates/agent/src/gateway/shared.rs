//! The shim, its peers and their key chains.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use wireseal_linux::PeerName;
use wireseal_tcp_ao::key_chain::{KeyChain, Timestamp};
use wireseal_tcp_ao::shim::{Event, EventKind, OPTION_ROOM, Observer, PeerSlot, Shim, ShimConfig, ShimSlot};
use wireseal_tcp_ao::{Connection, ConnectionIdentifier, ConnectionState, Counters, Peer};

use super::GatewayError;
use crate::Config;

/// The longest packet. The kernel knows the MTU of each device; what is longer it refuses by ICMP, which comes through the shim.
const LONGEST: usize = u16::MAX as usize;
/// Room for peers that are added later.
const MORE_PEERS: usize = 1024;

/// Where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    /// To the peer.
    Wire,
    /// To a program.
    Stack,
    /// From this host to itself: an ICMP error.
    Itself,
}

/// What the threads share.
pub(super) struct Shared {
    started: Instant,
    inner: Mutex<Inner>,
}

struct Inner {
    shim: Shim<Vec<PeerSlot>, Vec<ShimSlot>, Log>,
    peers: HashMap<PeerName, Followed>,
    has_stopped: bool,
}

/// A peer with what was logged of it.
struct Followed {
    index: usize,
    chain: KeyChain,
    counters: Counters,
    has_key: bool,
}

impl Shared {
    pub(super) fn new(config: &Config, connections: usize, accept_icmp: bool) -> Result<Self, GatewayError> {
        let mut slots: Vec<PeerSlot> = Vec::new();
        slots.resize_with(config.peers.len() + MORE_PEERS, || PeerSlot::EMPTY);
        let shim_config = ShimConfig { stack_mtu: LONGEST, accept_icmp, ..ShimConfig::new(LONGEST) };
        let shim = Shim::new(shim_config, slots, ShimSlot::many::<Vec<_>>(connections))
            .map_err(GatewayError::Peers)?;
        let inner = Inner { shim: shim.with_observer(Log), peers: HashMap::new(), has_stopped: false };
        let shared = Self { started: Instant::now(), inner: Mutex::new(inner) };
        shared.change(config)?;
        Ok(shared)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds and changes peers; returns those that are to be forgotten. On an error the peers are as before, but a chain may have changed.
    pub(super) fn change(&self, config: &Config) -> Result<Vec<PeerName>, GatewayError> {
        let now = Timestamp::now();
        let mut inner = self.inner();
        let mut added = Vec::new();
        for (name, chain) in &config.peers {
            if name.vrf.is_some() {
                return Err(GatewayError::Vrf(*name));
            }
            if let Some(followed) = inner.peers.get_mut(name) {
                followed.chain = chain.clone();
                continue;
            }
            let anywhere = if name.remote.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            let local = anywhere.parse().expect("it is a network");
            let peer = Peer {
                connections: ConnectionIdentifier::between(local, name.remote),
                mkts: chain.mkts(now),
            };
            match inner.shim.add_peer(peer) {
                Ok(index) => {
                    let followed = Followed {
                        index,
                        chain: chain.clone(),
                        counters: Counters::default(),
                        has_key: true,
                    };
                    inner.peers.insert(*name, followed);
                    added.push(*name);
                }
                Err(error) => {
                    inner.forget(&added);
                    return Err(GatewayError::Peers(error));
                }
            }
        }
        let is_gone = |name: &&PeerName| !config.peers.iter().any(|(other, _)| other == *name);
        let gone = inner.peers.keys().filter(is_gone).copied().collect();
        drop(inner);
        self.tick();
        Ok(gone)
    }

    pub(super) fn forget(&self, peers: Vec<PeerName>) {
        self.inner().forget(&peers);
    }

    /// Takes over sessions of a gateway before.
    pub(super) fn adopt(&self, states: Vec<ConnectionState>) {
        let now = self.started.elapsed();
        let mut inner = self.inner();
        for state in states {
            let pair = state.pair;
            let covering = inner.shim.peers().filter(|(_, peer)| peer.connections.contains(&pair));
            let longest = covering.max_by_key(|(_, peer)| peer.connections.remote.network_length());
            let Some(mkts) = longest.map(|(_, peer)| peer.mkts.clone()) else {
                tracing::warn!(%pair, "the peer of a session is gone");
                continue;
            };
            let adopted = Connection::import(&state, &mkts).map_err(|error| error.to_string());
            let adopted = adopted.and_then(|connection| {
                inner.shim.adopt(now, connection).map_err(|refusal| refusal.to_string())
            });
            if let Err(error) = adopted {
                tracing::warn!(%pair, %error, "a session cannot go on");
            }
        }
    }

    /// Carries out the key chains, and logs what was refused.
    pub(super) fn tick(&self) {
        let (now, since_start) = (Timestamp::now(), self.started.elapsed());
        let mut inner = self.inner();
        let Inner { shim, peers, .. } = &mut *inner;
        shim.expire(since_start);
        for (name, followed) in peers {
            if let Err(error) = shim.follow_key_chain(followed.index, &followed.chain, now) {
                tracing::error!(peer = %name, %error, "the key chain cannot be carried out");
            }
            let has_key = followed.chain.at(now).preferred().is_some();
            if followed.has_key && !has_key {
                tracing::warn!(peer = %name, "no key is valid for sending: no session");
            }
            followed.has_key = has_key;
            if let Some(counters) = shim.peer_counters(followed.index) {
                log_refused(name, &std::mem::replace(&mut followed.counters, *counters), counters);
            }
        }
    }

    /// The place in `buffer` of what takes the packet's place, or nothing if it is to be dropped.
    pub(super) fn judge(&self, to: Where, packet: &[u8], buffer: &mut Vec<u8>) -> Option<Range<usize>> {
        buffer.resize(OPTION_ROOM, 0);
        buffer.extend_from_slice(packet);
        let now = self.started.elapsed();
        let mut inner = self.inner();
        if inner.has_stopped {
            return None;
        }
        match to {
            Where::Wire => inner.shim.outbound(now, buffer, OPTION_ROOM).ok(),
            Where::Itself => {
                inner.shim.own_icmp(&mut buffer[OPTION_ROOM..]);
                Some(OPTION_ROOM..buffer.len())
            }
            Where::Stack => {
                let range = inner.shim.inbound(now, &mut buffer[OPTION_ROOM..]).ok()?;
                Some(range.start + OPTION_ROOM..range.end + OPTION_ROOM)
            }
        }
    }

    /// Carries nothing from now on; returns the established sessions.
    pub(super) fn stop(&self) -> Vec<ConnectionState> {
        let mut inner = self.inner();
        inner.has_stopped = true;
        let pairs: Vec<_> = inner.shim.connections().map(Connection::pair).collect();
        pairs.iter().filter_map(|pair| inner.shim.export(pair)).collect()
    }
}

impl Inner {
    fn forget(&mut self, peers: &[PeerName]) {
        for name in peers {
            if let Some(followed) = self.peers.remove(name) {
                // It is there: nobody else removes peers.
                let _ = self.shim.remove_peer(followed.index);
            }
        }
    }
}

/// Logs sessions. What is refused is counted and logged once a second, since anybody can cause any amount of it.
struct Log;

impl Observer for Log {
    fn observe(&mut self, event: &Event) {
        match event.kind {
            EventKind::Opened | EventKind::Ended(_) | EventKind::KeySwitched { .. } => {
                tracing::info!("{event}");
            }
            EventKind::PeerOnOldKey { .. } | EventKind::Passed { .. } => tracing::warn!("{event}"),
            EventKind::Refused { .. } | EventKind::HandshakeEnded(_) => tracing::debug!("{event}"),
        }
    }
}

fn log_refused(peer: &PeerName, before: &Counters, now: &Counters) {
    for (segments, what) in [
        (now.bad - before.bad, "wrong MAC: the secret differs from the peer's, or segments are forged"),
        (now.key_not_found - before.key_not_found, "segments have a KeyID that no key has"),
        (now.required - before.required, "segments are not signed"),
    ] {
        if segments > 0 {
            tracing::warn!(%peer, segments, "{what}");
        }
    }
}
