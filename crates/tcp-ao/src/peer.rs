//! Which connections must be authenticated, and with which keys.

use core::net::{IpAddr, Ipv4Addr};

use cidr::{IpCidr, Ipv4Cidr};

use crate::mkt::{MktError, MktSet};
use crate::types::{Endpoint, SocketPair};

/// How many MKTs a [`Peer`] and a connection of the [`Shim`](crate::shim::Shim) have room for: the one in use, its
/// successor, and two more while lifetimes overlap.
pub const MKTS_PER_PEER: usize = 4;

/// Which TCP connections an MKT is for (RFC 5925 §3.1, the TCP connection identifier).
///
/// A prefix of IPv4-mapped IPv6 addresses means the IPv4 prefix, since IPv4 is what is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
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
    /// Connections between these addresses on any port: either side may open a BGP session.
    #[must_use]
    pub const fn between(local: IpCidr, remote: IpCidr) -> Self {
        Self { local, remote, local_port: None, remote_port: None }
    }

    /// Whether this covers a connection.
    #[must_use]
    pub fn contains(&self, pair: &SocketPair) -> bool {
        let port = |wanted: Option<u16>, end: Endpoint| wanted.is_none_or(|port| port == end.port());
        self.contains_addresses(pair)
            && port(self.local_port, pair.local)
            && port(self.remote_port, pair.remote)
    }

    /// Whether this covers some connection between these addresses: all that a fragment shows.
    #[must_use]
    pub fn contains_addresses(&self, pair: &SocketPair) -> bool {
        contains(self.local, pair.local.address()) && contains(self.remote, pair.remote.address())
    }

    /// Whether both cover some connection.
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

/// The IPv4 prefix that a prefix of IPv4-mapped addresses means. An [`Endpoint`] has no mapped address, so that without this
/// a peer would never match and go unprotected.
pub(crate) fn canonical(network: IpCidr) -> IpCidr {
    let IpCidr::V6(mapped) = network else { return network };
    let ipv4 = mapped.first_address().to_ipv4_mapped().zip(mapped.network_length().checked_sub(96));
    ipv4.and_then(|(address, length)| Ipv4Cidr::new(address, length).ok()).map_or(network, IpCidr::V4)
}

/// Whether an address, or the IPv6 address that it maps to, is in a prefix: `::/0` contains every address.
fn contains(network: IpCidr, address: IpAddr) -> bool {
    let is_mapped = |address: Ipv4Addr| network.contains(&address.to_ipv6_mapped().into());
    canonical(network).contains(&address) || matches!(address, IpAddr::V4(address) if is_mapped(address))
}

/// Connections that must be authenticated, and their keys. Without keys, nothing gets through.
///
/// A connection that several peers cover belongs to the one with the longest remote prefix, then the longest local one, then the
/// most ports. Of equally specific ones, a received SYN's KeyID decides (RFC 5925 §3.3).
///
/// RFC 5925 §3.1 forbids MKTs to share an id where their connection identifiers overlap, so that a connection and a KeyID name one MKT. What
/// a more specific peer covers is taken out of the identifiers of the others, so a host and a network around it may share ids.
/// Equally specific peers that cover the same connection may not.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The connections.
    pub connections: ConnectionIdentifier,
    /// The keys, the preferred one first.
    pub mkts: MktSet<MKTS_PER_PEER>,
}

/// Why peers or their keys were refused. Configuration or caller error; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PeerError {
    /// Two peers cover the same connection, neither is more specific, and they share a key id.
    #[error("peers {peer} and {other} cover the same connections: {error}")]
    Overlap {
        /// The index of one peer.
        peer: usize,
        /// The index of the other.
        other: usize,
        /// The shared id.
        error: MktError,
    },
    /// There is no peer with this index.
    #[error("there is no peer {0}")]
    NoSuchPeer(usize),
    /// Every slot has a peer.
    #[error("there is no room for more than {room} peers")]
    TooMany {
        /// How many slots there are.
        room: usize,
    },
}
