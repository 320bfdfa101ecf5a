//! What identifies a peer of a key manager.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use cidr::IpCidr;
use cidr::errors::NetworkParseError;
use wireseal_tcp_ao::Mkt;

use crate::key_name::KeyName;
use crate::network::canonical;

/// Identifies a peer of a [`KeyManager`](crate::KeyManager): the addresses and the VRF that its key chain is for.
///
/// A link-local address is one peer on all interfaces of its VRF: Linux takes keys for an address and a VRF, and none for an interface.
/// If two routers have the same link-local address on two links, give each link a manager and a listener of its own, bound to the interface
/// (`SO_BINDTODEVICE`, then [`TcpAoListener::from_socket`](crate::TcpAoListener::from_socket)); connections name their interface anyway.
///
/// Sorts by address, then networks before their subnets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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

    /// The same with the network in the form in which the kernel reports it: IPv4 if it is one of IPv4-mapped IPv6 addresses.
    #[must_use]
    pub fn canonical(self) -> Self {
        Self { remote: canonical(self.remote), ..self }
    }

    /// The name of an MKT for this peer on a socket.
    pub(crate) fn key(self, mkt: &Mkt) -> KeyName {
        let Self { remote, vrf } = self;
        KeyName { remote, vrf, send_id: mkt.send_id(), recv_id: mkt.recv_id() }
    }
}

impl KeyName {
    /// The peer that the key is for.
    #[must_use]
    pub const fn peer(&self) -> PeerName {
        PeerName { remote: self.remote, vrf: self.vrf }
    }
}

impl Ord for PeerName {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |peer: &Self| (peer.remote.first_address(), peer.remote.network_length(), peer.vrf);
        place(self).cmp(&place(other))
    }
}

impl PartialOrd for PeerName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// These peers, in any VRF.
impl From<IpCidr> for PeerName {
    fn from(remote: IpCidr) -> Self {
        Self::new(remote)
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

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn peers_are_texts() {
        let peer: PeerName = "192.0.2.0/24".parse().unwrap();
        assert_eq!(peer.to_string().parse(), Ok(peer));
        let in_vrf = PeerName { vrf: Some(5), ..peer };
        let text = serde_json::to_string(&in_vrf).unwrap();
        assert_eq!(text, r#"{"remote":"192.0.2.0/24","vrf":5}"#);
        assert_eq!(serde_json::from_str::<PeerName>(&text).unwrap(), in_vrf);
        assert_eq!(serde_json::from_str::<PeerName>(&text.replace(",\"vrf\":5", "")).unwrap(), peer);
    }
}
