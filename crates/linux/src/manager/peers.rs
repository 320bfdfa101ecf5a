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
    table.range(PeerName::new(remote)..=PeerName { remote, vrf: Some(u32::MAX) }).rev()
}

/// The entries of other peers that share a connection with `peer`.
pub(super) fn overlapping<T>(table: &PeerTable<T>, peer: PeerName) -> impl Iterator<Item = (&PeerName, &T)> {
    let around = covering(peer.remote).flat_map(move |network| with_network(table, network));
    let own = PeerName { vrf: Some(u32::MAX), ..peer };
    let last = PeerName { remote: IpCidr::new_host(peer.remote.last_address()), ..own };
    let inside = table.range((Excluded(own), Included(last)));
    around.chain(inside).filter(move |(other, _)| **other != peer && other.overlaps(&peer))
}

/// The peer of a connection with `address`: the one with the longest prefix, and of two with the same prefix the one for the connection's
/// VRF. The VRF is looked up only if a peer is for one VRF.
pub(super) fn longest<T>(
    table: &PeerTable<T>,
    address: IpAddr,
    vrf: impl Fn() -> io::Result<u32>,
) -> io::Result<Option<PeerName>> {
    for network in covering(IpCidr::new_host(address)) {
        for (peer, _) in with_network(table, network) {
            match peer.vrf {
                Some(index) if index != vrf()? => {}
                _ => return Ok(Some(*peer)),
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
