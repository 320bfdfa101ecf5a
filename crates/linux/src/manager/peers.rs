//! The peers of a manager and their chains, sorted by address, so that those of an address or a network are found in a few steps.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use cidr::{IpCidr, IpInet};
use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};

use crate::{Error, Generation, PeerName};

/// Something for each peer.
pub(super) type PeerTable<T> = BTreeMap<PeerName, T>;

/// A peer's key chain.
#[derive(Clone, Debug)]
pub(super) struct Configured {
    pub(super) chain: Arc<KeyChain>,
    /// Whether the peer is kept out. No key of its chain is ever valid then.
    pub(super) is_blocked: bool,
    /// Which change of the manager's peers set this chain.
    pub(super) version: Generation,
}

impl Configured {
    /// Whether it has the same keys by the same name, or is kept out as before.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_same_chain = self.chain.name() == other.chain.name() && self.chain.has_same_keys(&other.chain);
        self.is_blocked == other.is_blocked && (self.is_blocked || is_same_chain)
    }
}

/// Checks a new chain of a peer against the other peers'; returns the peer with its canonical network.
///
/// # Errors
/// [`Error::AlgorithmNotInLinux`]; [`Error::PeersClash`] if a key of another peer, for some of the same connections, has an id of one of
/// its keys while both are valid (RFC 5925 §3.1).
pub(super) fn check(
    peers: &PeerTable<Configured>,
    peer: PeerName,
    chain: &KeyChain,
) -> Result<PeerName, Error> {
    let algorithms = chain.keys().iter().map(|key| (key.key_id(), key.mkt().parameters().algorithm));
    for (key_id, algorithm) in algorithms {
        if algorithm.linux_name().is_none() {
            return Err(Error::AlgorithmNotInLinux { algorithm, key_id: Some(key_id) });
        }
    }
    let peer = peer.canonical();
    for (other, Configured { chain: others, .. }) in overlapping(peers, peer) {
        for key in chain.keys() {
            let is_in_the_way = |taken: &&Key| {
                peer.key(key.mkt()).clashes_with(&other.key(taken.mkt()))
                    && acceptance(chain, key).overlaps(&acceptance(others, taken))
            };
            if let Some(taken) = others.keys().iter().find(is_in_the_way) {
                let (key_id, other_key_id) = (key.key_id(), taken.key_id());
                return Err(Error::PeersClash { peer, key_id, other: *other, other_key_id });
            }
        }
    }
    Ok(peer)
}

/// When segments under a key of a chain are accepted: its accept lifetime with the chain's tolerance.
pub(super) fn acceptance(chain: &KeyChain, key: &Key) -> Lifetime {
    key.accept_lifetime().widened_by(chain.accept_tolerance())
}

/// The networks that contain a network, itself included, the longest first.
fn covering(inner: IpCidr) -> impl Iterator<Item = IpCidr> {
    let lengths = (0..=inner.network_length()).rev();
    lengths.filter_map(move |length| Some(IpInet::new(inner.first_address(), length).ok()?.network()))
}

/// The entries for exactly this network, the one for all VRFs last.
fn with_network<T>(table: &PeerTable<T>, remote: IpCidr) -> impl Iterator<Item = (&PeerName, &T)> {
    table
        .range(PeerName::new(remote)..=PeerName { vrf: LAST, interface: LAST, ..PeerName::new(remote) })
        .rev()
}

/// Sorts behind every VRF and every interface.
const LAST: Option<u32> = Some(u32::MAX);

/// The entries of peers whose keys have this peer's name on a socket: itself, and the same addresses on other interfaces.
pub(super) fn with_keys_of<T>(table: &PeerTable<T>, peer: PeerName) -> impl Iterator<Item = (&PeerName, &T)> {
    let first = peer.on_all_interfaces();
    table.range(first..=PeerName { interface: LAST, ..first })
}

/// The entries of other peers that share a connection with `peer`.
pub(super) fn overlapping<T>(table: &PeerTable<T>, peer: PeerName) -> impl Iterator<Item = (&PeerName, &T)> {
    around(table, peer).filter(move |(other, _)| **other != peer && other.overlaps(&peer))
}

/// The entries of other peers with which `peer` shares a connection or, on a listener that is bound to no interface, the keys: Linux takes
/// keys for an address on all interfaces.
pub(super) fn beside<T>(table: &PeerTable<T>, peer: PeerName) -> impl Iterator<Item = (&PeerName, &T)> {
    let all = peer.on_all_interfaces();
    around(table, peer).filter(move |(other, _)| **other != peer && other.on_all_interfaces().overlaps(&all))
}

/// The entries whose network contains the peer's, or is within it.
fn around<T>(table: &PeerTable<T>, peer: PeerName) -> impl Iterator<Item = (&PeerName, &T)> {
    let around = covering(peer.remote).flat_map(move |network| with_network(table, network));
    let own = PeerName { vrf: LAST, interface: LAST, ..peer };
    let last = PeerName { remote: IpCidr::new_host(peer.remote.last_address()), ..own };
    let inside = table.range((Excluded(own), Included(last)));
    around.chain(inside)
}

/// Where a socket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The interface index of its VRF; 0 for none.
    pub(super) vrf: u32,
    /// Its interface, if it has one alone.
    pub(super) interface: Option<u32>,
}

/// The peer of a connection with `address`: the one with the longest prefix, and of those with the same prefix the one for the connection's
/// VRF and interface. The place is looked up only if a peer is for one VRF or interface.
pub(super) fn longest<T>(
    table: &PeerTable<T>,
    address: IpAddr,
    place: impl Fn() -> io::Result<Place>,
) -> io::Result<Option<PeerName>> {
    for network in covering(IpCidr::new_host(address)) {
        for (peer, _) in with_network(table, network) {
            if peer.vrf.is_none() && peer.interface.is_none() {
                return Ok(Some(*peer));
            }
            let place = place()?;
            let is_in_vrf = peer.vrf.is_none_or(|vrf| vrf == place.vrf);
            if is_in_vrf && (peer.interface.is_none() || peer.interface == place.interface) {
                return Ok(Some(*peer));
            }
        }
    }
    Ok(None)
}

/// When the chain of one peer, or of any, changes next.
pub(super) fn next_change(
    peers: &PeerTable<Configured>,
    only: Option<PeerName>,
    now: Timestamp,
) -> Option<Timestamp> {
    match only {
        Some(peer) => peers.get(&peer)?.chain.next_change(now),
        None => peers.values().filter_map(|configured| configured.chain.next_change(now)).min(),
    }
}
