//! Names of keys on a socket and of a key manager's peers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use cidr::IpCidr;
use wireseal_tcp_ao::{KeyId, Mkt, canonical_network};

/// Identifies a key on a socket: the fields that `TCP_AO_DEL_KEY` compares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyName {
    /// The peers the key is for.
    pub remote: IpCidr,
    /// The VRF it is for, as in [`SocketKey::vrf`](crate::SocketKey::vrf).
    pub vrf: Option<u32>,
    /// The KeyID in segments that this end sends.
    pub send_id: KeyId,
    /// The KeyID in segments that this end accepts.
    pub recv_id: KeyId,
}

impl KeyName {
    /// The peer that the key is for.
    #[must_use]
    pub const fn peer(&self) -> PeerName {
        PeerName { vrf: self.vrf, ..PeerName::new(self.remote) }
    }

    /// Whether two keys for the same connections cannot be on one socket together (RFC 5925 §3.1).
    pub(crate) fn clashes_with(&self, other: &Self) -> bool {
        self.send_id == other.send_id || self.recv_id == other.recv_id
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { send_id, recv_id, .. } = self;
        write!(f, "key with SendID {send_id} and RecvID {recv_id} for {}", self.peer())
    }
}

/// Identifies a peer of a [`KeyManager`](crate::KeyManager): the addresses, the VRF and the interface that its key chain is for.
///
/// A link-local address without an interface is one peer on all interfaces of its VRF. Two routers that have the same link-local address on
/// two links are two peers, each with its interface, as in `fe80::1%eth0`. Linux takes keys for an address and a VRF, but not for an
/// interface, so a listener that is bound to an interface (`SO_BINDTODEVICE`) gets the keys of this interface's peers and of those without
/// one, and any other listener gets those of both links: give them different ids then. If they have an id in common there,
/// [`Error::PeersClash`](crate::Error::PeersClash) names both. The connection tells the two apart: it belongs to the peer of its own interface.
///
/// Peers sort by address, then networks before their subnets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct PeerName {
    /// One address, or a network of peers that share a key chain. A network of IPv4-mapped IPv6 addresses means the IPv4
    /// network.
    pub remote: IpCidr,
    /// The VRF, as in [`SocketKey::vrf`](crate::SocketKey::vrf).
    pub vrf: Option<u32>,
    /// The index of the interface, if the peer is on one alone: that of its link-local address, or the one that the connection's socket is
    /// bound to.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub interface: Option<u32>,
}

impl PeerName {
    /// These peers, in any VRF and on any interface.
    #[must_use]
    pub const fn new(remote: IpCidr) -> Self {
        Self { remote, vrf: None, interface: None }
    }

    /// The same peer with its network as the kernel reports it: a network of IPv4-mapped IPv6 addresses becomes the IPv4 network.
    #[must_use]
    pub fn canonical(self) -> Self {
        Self { remote: canonical_network(self.remote), ..self }
    }

    /// Whether a connection can belong to both: their networks have an address in common, they are in the same VRF or one of them is in any,
    /// and the same holds for their interfaces.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let [one, two] = [self, other].map(|peer| canonical_network(peer.remote));
        let may_be_same = |one: Option<u32>, two| one.zip(two).is_none_or(|(one, two)| one == two);
        may_be_same(self.vrf, other.vrf)
            && may_be_same(self.interface, other.interface)
            && (one.contains(&two.first_address()) || two.contains(&one.first_address()))
    }

    /// The peers that the peer's keys are for on a socket.
    pub(crate) const fn on_all_interfaces(self) -> Self {
        Self { interface: None, ..self }
    }

    /// The name of an MKT for this peer on a socket.
    pub(crate) fn key(self, mkt: &Mkt) -> KeyName {
        let Self { remote, vrf, .. } = self;
        KeyName { remote, vrf, send_id: mkt.send_id(), recv_id: mkt.recv_id() }
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.remote)?;
        if let Some(index) = self.interface {
            write!(f, "%{index}")?;
        }
        match self.vrf {
            Some(index) => write!(f, " in VRF {index}"),
            None => Ok(()),
        }
    }
}

/// The address that a socket will connect to. An IPv4-mapped IPv6 address means the IPv4 address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    pub(crate) address: IpAddr,
    /// The interface of a link-local address.
    pub(crate) interface: Option<u32>,
}

/// On no interface in particular.
impl From<IpAddr> for Remote {
    fn from(address: IpAddr) -> Self {
        Self { address: address.to_canonical(), interface: None }
    }
}

/// On the interface of its scope id, if it has one.
impl From<SocketAddr> for Remote {
    fn from(address: SocketAddr) -> Self {
        let interface = match address {
            SocketAddr::V6(address) => Some(address.scope_id()).filter(|scope| *scope != 0),
            SocketAddr::V4(_) => None,
        };
        Self { interface, ..address.ip().into() }
    }
}

/// Counts the changes of a [`KeyManager`](crate::KeyManager)'s peers, from 0 for a new manager. A later change has a higher one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Generation(pub(crate) u64);

impl Generation {
    /// The generation with this number, for callers that keep numbers.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_overlap_if_they_share_an_address_and_may_share_a_vrf() {
        let peer = |network: &str, vrf| PeerName { vrf, ..network.parse().unwrap() };
        for (one, other, expected) in [
            (peer("192.0.2.0/24", None), peer("192.0.2.7", None), true),
            (peer("192.0.2.0/24", None), peer("192.0.2.0/24", None), true),
            (peer("192.0.2.0/25", None), peer("192.0.2.128/25", None), false),
            (peer("::ffff:192.0.2.0/120", None), peer("192.0.2.7", None), true),
            (peer("::/0", None), peer("192.0.2.7", None), false),
            (peer("::/0", None), peer("2001:db8::1", None), true),
            (peer("192.0.2.7", Some(5)), peer("192.0.2.7", None), true),
            (peer("192.0.2.7", Some(5)), peer("192.0.2.0/24", Some(5)), true),
            (peer("192.0.2.7", Some(5)), peer("192.0.2.7", Some(6)), false),
        ] {
            assert_eq!(one.overlaps(&other), expected, "{one}, {other}");
            assert_eq!(other.overlaps(&one), expected, "{other}, {one}");
        }
    }

    #[test]
    fn peers_on_two_interfaces_do_not_overlap() {
        let on = |interface| PeerName { interface, ..PeerName::new("fe80::1".parse().unwrap()) };
        let around = |interface| PeerName { interface, ..PeerName::new("fe80::/10".parse().unwrap()) };
        for (one, other, expected) in [
            (on(Some(2)), on(Some(3)), false),
            (on(Some(2)), around(Some(3)), false),
            (on(Some(2)), around(Some(2)), true),
            (on(Some(2)), on(None), true),
            (around(None), on(Some(2)), true),
        ] {
            assert_eq!((one.overlaps(&other), other.overlaps(&one)), (expected, expected), "{one}, {other}");
        }
    }

    #[test]
    fn a_scope_id_is_the_interface_of_a_remote_address() {
        let remote = |text: &str| Remote::from(text.parse::<SocketAddr>().unwrap());
        assert_eq!(remote("[fe80::1%7]:179").interface, Some(7));
        assert_eq!(remote("[fe80::1]:179"), Remote::from("fe80::1".parse::<IpAddr>().unwrap()));
        assert_eq!(remote("[::ffff:192.0.2.7]:179"), remote("192.0.2.7:179"));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn peers_are_texts() {
        let peer = PeerName::new("192.0.2.0/24".parse().unwrap());
        let in_vrf = PeerName { vrf: Some(5), ..peer };
        let text = serde_json::to_string(&in_vrf).unwrap();
        assert_eq!(text, r#"{"remote":"192.0.2.0/24","vrf":5}"#);
        assert_eq!(serde_json::from_str::<PeerName>(&text).unwrap(), in_vrf);
        assert_eq!(serde_json::from_str::<PeerName>(&text.replace(",\"vrf\":5", "")).unwrap(), peer);
        let on_link = PeerName { interface: Some(7), ..peer };
        let text = serde_json::to_string(&on_link).unwrap();
        assert_eq!(text, r#"{"remote":"192.0.2.0/24","vrf":null,"interface":7}"#);
        assert_eq!(serde_json::from_str::<PeerName>(&text).unwrap(), on_link);
    }
}
