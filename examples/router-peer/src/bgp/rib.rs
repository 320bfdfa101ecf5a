//! Routes, and the table of those that a peer has announced.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netgauze_bgp_pkt::path_attribute::Origin;

/// An address family that sessions exchange: unicast only.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Family {
    /// IPv4 unicast.
    Ipv4,
    /// IPv6 unicast.
    Ipv6,
}

impl Family {
    /// The family of a prefix.
    #[must_use]
    pub fn of(prefix: &IpNet) -> Self {
        match prefix {
            IpNet::V4(_) => Self::Ipv4,
            IpNet::V6(_) => Self::Ipv6,
        }
    }
}

/// The path attributes that the speaker keeps (RFC 4271 section 5, RFC 1997); others are dropped on receipt.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes {
    /// ORIGIN.
    pub origin: Origin,
    /// AS_PATH, as one AS_SEQUENCE with the neighbouring AS first. Paths with an AS_SET are not kept (RFC 9774).
    pub as_path: Box<[u32]>,
    /// NEXT_HOP, or none for the speaker's own address.
    pub next_hop: Option<IpAddr>,
    /// MULTI_EXIT_DISC.
    pub multi_exit_discriminator: Option<u32>,
    /// LOCAL_PREF; only sent inside an AS.
    pub local_preference: Option<u32>,
    /// COMMUNITIES, each as its 32 bits.
    pub communities: Box<[u32]>,
}

impl Default for Attributes {
    /// The attributes of a route that starts here.
    fn default() -> Self {
        Self {
            origin: Origin::IGP,
            as_path: Box::default(),
            next_hop: None,
            multi_exit_discriminator: None,
            local_preference: None,
            communities: Box::default(),
        }
    }
}

/// A prefix with its attributes; routes announced together share them.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The prefix, without host bits.
    pub prefix: IpNet,
    /// Its attributes.
    pub attributes: Arc<Attributes>,
}

/// What one UPDATE changes.
#[derive(Debug, Default)]
pub struct Changes {
    /// Prefixes that the peer no longer reaches.
    pub withdrawn: Vec<IpNet>,
    /// Prefixes that the peer reaches.
    pub announced: Vec<Route>,
    /// The family whose initial table is complete (RFC 4724 section 2).
    pub end_of_rib: Option<Family>,
}

/// The Adj-RIB-In of one peer (RFC 4271 section 3.2).
#[derive(Debug, Default)]
pub struct AdjRibIn {
    routes: HashMap<IpNet, Arc<Attributes>>,
    ipv4: usize,
}

impl AdjRibIn {
    /// Applies an UPDATE: withdrawals first.
    pub fn apply(&mut self, changes: Changes) {
        for prefix in changes.withdrawn {
            if self.routes.remove(&prefix).is_some() && Family::of(&prefix) == Family::Ipv4 {
                self.ipv4 -= 1;
            }
        }
        for Route { prefix, attributes } in changes.announced {
            if self.routes.insert(prefix, attributes).is_none() && Family::of(&prefix) == Family::Ipv4 {
                self.ipv4 += 1;
            }
        }
    }

    /// The attributes of a prefix, if the peer reaches it.
    #[must_use]
    pub fn get(&self, prefix: &IpNet) -> Option<&Arc<Attributes>> {
        self.routes.get(prefix)
    }

    /// How many prefixes of a family the peer reaches.
    #[must_use]
    pub fn count(&self, family: Family) -> usize {
        match family {
            Family::Ipv4 => self.ipv4,
            Family::Ipv6 => self.routes.len() - self.ipv4,
        }
    }

    /// Forgets all routes, as the end of a session asks.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
