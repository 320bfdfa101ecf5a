//! Which connections must be authenticated, and with which keys.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};

use cidr::{IpCidr, Ipv4Cidr};

use crate::mkt::{MktError, MktSet};
use crate::types::{Endpoint, SocketPair};

/// The MKTs that a [`Peer`] and a connection of the [`Shim`](crate::shim::Shim) have room for: the one in use, its
/// successor, and two more while lifetimes overlap.
pub const MKTS_PER_PEER: usize = 4;

/// Which TCP connections an MKT is for (RFC 5925 §3.1, the TCP connection identifier).
///
/// A network of IPv4-mapped IPv6 addresses stands for the IPv4 network: those are what is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionIdentifier {
    /// This end's addresses.
    pub local: IpCidr,
    /// The other end's addresses.
    pub remote: IpCidr,
    /// This end's port; any if `None`.
    pub local_port: Option<u16>,
    /// The other end's port; any if `None`.
    pub remote_port: Option<u16>,
}

impl ConnectionIdentifier {
    /// Connections on any port between these addresses: a BGP session may be opened from either side.
    #[must_use]
    pub const fn between(local: IpCidr, remote: IpCidr) -> Self {
        Self { local, remote, local_port: None, remote_port: None }
    }

    /// Whether a connection is one of these.
    #[must_use]
    pub fn contains(&self, pair: &SocketPair) -> bool {
        let port = |wanted: Option<u16>, end: Endpoint| wanted.is_none_or(|port| port == end.port());
        self.contains_addresses(pair)
            && port(self.local_port, pair.local)
            && port(self.remote_port, pair.remote)
    }

    /// Whether any connection between these addresses might be one of these: what can be said of a fragment.
    #[must_use]
    pub fn contains_addresses(&self, pair: &SocketPair) -> bool {
        contains(self.local, pair.local.address()) && contains(self.remote, pair.remote.address())
    }

    /// Whether some connection is one of both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let nets = |a: &IpCidr, b: &IpCidr| {
            let (a, b) = (canonical(*a), canonical(*b));
            contains(a, b.first_address()) || contains(b, a.first_address())
        };
        let ports = |a: Option<u16>, b: Option<u16>| a.is_none() || b.is_none() || a == b;
        nets(&self.local, &other.local)
            && nets(&self.remote, &other.remote)
            && ports(self.local_port, other.local_port)
            && ports(self.remote_port, other.remote_port)
    }
}

/// A network of IPv4-mapped addresses as the IPv4 network it stands for: an [`Endpoint`] has no mapped address, and a peer
/// that never matched would go unprotected.
fn canonical(network: IpCidr) -> IpCidr {
    let IpCidr::V6(mapped) = network else { return network };
    let ipv4 = mapped.first_address().to_ipv4_mapped().zip(mapped.network_length().checked_sub(96));
    ipv4.and_then(|(address, length)| Ipv4Cidr::new(address, length).ok()).map_or(network, IpCidr::V4)
}

/// Whether an address is of a network, for which an IPv4 address is also the IPv6 address it is mapped to: `::/0` leaves
/// no address out.
fn contains(network: IpCidr, address: IpAddr) -> bool {
    let is_mapped = |address: Ipv4Addr| network.contains(&address.to_ipv6_mapped().into());
    canonical(network).contains(&address) || matches!(address, IpAddr::V4(address) if is_mapped(address))
}

/// Connections that must be authenticated, and the keys for it. Without keys nothing of them gets through.
///
/// A connection that is one of several peers' belongs to the first of them.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Which connections.
    pub connections: ConnectionIdentifier,
    /// The keys, the preferred one first.
    pub mkts: MktSet<MKTS_PER_PEER>,
}

/// Why peers, or the keys of one, cannot be as asked; the configuration or the caller is to blame. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerError {
    /// Two peers overlap and their keys cannot be told apart.
    Overlap {
        /// The index of the one peer.
        peer: usize,
        /// The index of the other.
        other: usize,
        /// The id they share.
        error: MktError,
    },
    /// There is no peer with this index.
    NoSuchPeer(usize),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { peer, other, error } => write!(f, "peers {peer} and {other} overlap: {error}"),
            Self::NoSuchPeer(index) => write!(f, "there is no peer {index}"),
        }
    }
}

impl core::error::Error for PeerError {}

/// Refuses peers whose connections overlap while their MKTs share a SendID or a RecvID (RFC 5925 §3.1).
///
/// # Errors
/// [`PeerError::Overlap`] names the first such pair.
pub fn check_peers(peers: &[Peer]) -> Result<(), PeerError> {
    for (index, peer) in peers.iter().enumerate() {
        check_mkts(peers, index, &peer.mkts)?;
    }
    Ok(())
}

/// The same for the one peer at `index`, were its MKTs `mkts`.
pub(crate) fn check_mkts(
    peers: &[Peer],
    index: usize,
    mkts: &MktSet<MKTS_PER_PEER>,
) -> Result<(), PeerError> {
    let peer = peers.get(index).ok_or(PeerError::NoSuchPeer(index))?;
    for (other, another) in peers.iter().enumerate() {
        if other != index && peer.connections.overlaps(&another.connections) {
            mkts.iter()
                .try_for_each(|mkt| another.mkts.check_ids(mkt.parameters()))
                .map_err(|error| PeerError::Overlap { peer: index, other, error })?;
        }
    }
    Ok(())
}
