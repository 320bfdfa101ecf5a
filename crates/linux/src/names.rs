//! Names of keys on a socket and of a key manager's peers.

use std::fmt;
use std::str::FromStr;

use cidr::IpCidr;
use cidr::errors::NetworkParseError;
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
        PeerName { remote: self.remote, vrf: self.vrf }
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

/// Identifies a peer of a [`KeyManager`](crate::KeyManager): the addresses and the VRF that its key chain is for.
///
/// A link-local address is one peer on all interfaces of its VRF, because Linux takes keys for an address and a VRF, but not for an
/// interface. If two routers have the same link-local address on two links, give each link its own manager and its own listener, bound to
/// the interface (`SO_BINDTODEVICE`, then [`TcpAoListener::from_socket`](crate::TcpAoListener::from_socket)).
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
}

impl PeerName {
    /// These peers, in any VRF.
    #[must_use]
    pub const fn new(remote: IpCidr) -> Self {
        Self { remote, vrf: None }
    }

    /// The same peer with its network as the kernel reports it: a network of IPv4-mapped IPv6 addresses becomes the IPv4 network.
    #[must_use]
    pub fn canonical(self) -> Self {
        Self { remote: canonical_network(self.remote), ..self }
    }

    /// Whether a connection can be with both: their networks have an address in common, and they are in the same VRF or one of them is in
    /// any.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let [one, two] = [self, other].map(|peer| canonical_network(peer.remote));
        let is_same_vrf = self.vrf.zip(other.vrf).is_none_or(|(one, two)| one == two);
        is_same_vrf && (one.contains(&two.first_address()) || two.contains(&one.first_address()))
    }

    /// The name of an MKT for this peer on a socket.
    pub(crate) fn key(self, mkt: &Mkt) -> KeyName {
        let Self { remote, vrf } = self;
        KeyName { remote, vrf, send_id: mkt.send_id(), recv_id: mkt.recv_id() }
    }
}

/// Reads an address or a network, in any VRF.
impl FromStr for PeerName {
    type Err = NetworkParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::new)
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.remote)?;
        match self.vrf {
            Some(index) => write!(f, " in VRF {index}"),
            None => Ok(()),
        }
    }
}

/// Counts the changes of a [`KeyManager`](crate::KeyManager)'s peers, from 0 for a new manager. A later change has a higher one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Generation(pub(crate) u64);

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

    #[cfg(feature = "serde")]
    #[test]
    fn peers_are_texts() {
        let peer = PeerName::new("192.0.2.0/24".parse().unwrap());
        let in_vrf = PeerName { vrf: Some(5), ..peer };
        let text = serde_json::to_string(&in_vrf).unwrap();
        assert_eq!(text, r#"{"remote":"192.0.2.0/24","vrf":5}"#);
        assert_eq!(serde_json::from_str::<PeerName>(&text).unwrap(), in_vrf);
        assert_eq!(serde_json::from_str::<PeerName>(&text.replace(",\"vrf\":5", "")).unwrap(), peer);
    }
}
