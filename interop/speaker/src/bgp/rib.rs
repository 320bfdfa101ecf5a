//! Routes, and the table of those that a peer has announced.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use inetnum::addr::Prefix;

/// An address family: unicast only.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// IPv4 unicast.
    Ipv4 = 0,
    /// IPv6 unicast.
    Ipv6 = 1,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// The family of a prefix.
    #[must_use]
    pub fn of(prefix: Prefix) -> Self {
        if prefix.is_v4() { Self::Ipv4 } else { Self::Ipv6 }
    }
}

/// The path attributes that the speaker keeps; it drops others on receipt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    /// AS_PATH: one AS_SEQUENCE, the neighbouring AS first. Paths with an AS_SET are not kept (RFC 9774).
    pub as_path: Box<[u32]>,
    /// NEXT_HOP, or none for the speaker's own address.
    pub next_hop: Option<IpAddr>,
}

/// A prefix with its attributes; routes announced together share them.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The prefix.
    pub prefix: Prefix,
    /// Its attributes.
    pub attributes: Arc<Attributes>,
}

/// What one UPDATE changes.
#[derive(Debug, Default)]
pub struct Changes {
    /// Prefixes that the peer no longer reaches.
    pub withdrawn: Vec<Prefix>,
    /// Prefixes that the peer reaches.
    pub announced: Vec<Route>,
    /// The family whose initial table is complete (RFC 4724 §2).
    pub end_of_rib: Option<Family>,
}

/// The Adj-RIB-In of one peer (RFC 4271 §3.2).
#[derive(Debug, Default)]
pub struct AdjRibIn([HashMap<Prefix, Arc<Attributes>>; 2]);

impl AdjRibIn {
    /// Applies an UPDATE: withdrawals first.
    pub fn apply(&mut self, changes: Changes) {
        for prefix in changes.withdrawn {
            self.0[Family::of(prefix) as usize].remove(&prefix);
        }
        for Route { prefix, attributes } in changes.announced {
            self.0[Family::of(prefix) as usize].insert(prefix, attributes);
        }
    }

    /// The attributes of a prefix that the peer reaches.
    #[must_use]
    pub fn get(&self, prefix: Prefix) -> Option<&Arc<Attributes>> {
        self.0[Family::of(prefix) as usize].get(&prefix)
    }

    /// How many IPv4 and IPv6 prefixes the peer reaches.
    #[must_use]
    pub fn counts(&self) -> [usize; 2] {
        [self.0[0].len(), self.0[1].len()]
    }
}
