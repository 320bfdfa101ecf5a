//! What identifies a peer of a key manager.

use std::cmp::Ordering;
use std::fmt;

use cidr::IpCidr;
use wireseal_tcp_ao::Mkt;

use crate::key_name::KeyName;
use crate::network::canonical;

/// Identifies a peer of a [`KeyManager`](crate::KeyManager): the addresses and the VRF that its key chain is for.
///
/// Sorts by address, then networks before their subnets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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

    /// The same with the network in the form in which the kernel reports it.
    pub(crate) fn canonical(self) -> Self {
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

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.remote)?;
        match self.vrf {
            Some(index) => write!(f, " in VRF {index}"),
            None => Ok(()),
        }
    }
}
