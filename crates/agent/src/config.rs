//! The configuration as it is carried out.

use std::net::IpAddr;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use wireseal_keys::KeyChain;
use wireseal_linux::{KeyManager, PeerName};
use wireseal_tcp_ao::MKTS_PER_PEER;

use crate::ConfigError;

/// What happens when the program sets TCP-MD5 keys (RFC 2385) itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Md5 {
    /// The call fails with ENOPROTOOPT, as on a kernel without TCP-MD5, if the key is for a peer, for a part of its network or for a network
    /// around it; with [`Config::refuse_others`], for any address. Others are left alone.
    #[default]
    Refuse,
    /// The kernel decides. It refuses TCP-MD5 for an address that has TCP-AO keys on the socket, and TCP-AO keys for one that has TCP-MD5:
    /// the peer's session does not open then.
    Leave,
}

/// Which peers have which keys, at which ports. Its `Display` shows what would be set on what, without secrets.
#[derive(Clone, Debug)]
pub struct Config {
    /// The peers, each with its key chain. Where networks overlap, the longest prefix decides.
    pub peers: Vec<(PeerName, KeyChain)>,
    /// The TCP ports that are protected: those that the program connects to and those that it listens on. All others are left alone, also
    /// connections from one of these to another.
    pub ports: Vec<u16>,
    /// Whether listeners on these ports refuse all callers that have no keys. Otherwise only those that have keys must sign.
    pub refuse_others: bool,
    /// What happens to TCP-MD5.
    pub md5: Md5,
}

impl Config {
    /// Whether the kernel can carry it out, as far as can be known beforehand. A gateway can also carry out what it cannot.
    ///
    /// # Errors
    /// [`ConfigError::Overlap`] if there are keys both for a host and for a network around it: whoever has the network's could call in the
    /// host's name. [`ConfigError::Peers`] if a chain has an algorithm that Linux lacks.
    pub fn check_for_kernel(&self) -> Result<(), ConfigError> {
        let mut peers: Vec<_> = self.peers.iter().map(|(peer, _)| peer.canonical()).collect();
        // Networks come before the hosts in them.
        peers.sort();
        let mut around: Vec<PeerName> = Vec::new();
        for peer in peers {
            around.retain(|network| network.remote.contains(&peer.remote.first_address()));
            let is_same_vrf =
                |network: &&PeerName| network.vrf.zip(peer.vrf).is_none_or(|(network, peer)| network == peer);
            if let Some(network) = around.iter().find(is_same_vrf) {
                return Err(ConfigError::Overlap(peer, *network));
            }
            around.push(peer);
        }
        Ok(KeyManager::default().set_peers(self.peers.iter().cloned())?)
    }

    /// Whether a gateway can carry it out, as far as can be known beforehand.
    ///
    /// # Errors
    /// [`ConfigError::GatewayVrf`] and [`ConfigError::GatewayLink`] if a peer has a device. [`ConfigError::GatewayKeys`] if more keys of a
    /// chain are valid at once than a gateway has room for. [`ConfigError::NotInGateway`] if it asks for what only a supervisor can do.
    pub fn check_for_gateway(&self) -> Result<(), ConfigError> {
        if let Some((peer, _)) = self.peers.iter().find(|(peer, _)| peer.vrf.is_some()) {
            let is_link_local =
                matches!(peer.remote.first_address(), IpAddr::V6(address) if address.is_unicast_link_local());
            let error = if is_link_local { ConfigError::GatewayLink } else { ConfigError::GatewayVrf };
            return Err(error(with_device(peer)));
        }
        for (peer, chain) in &self.peers {
            chain
                .check_room(MKTS_PER_PEER)
                .map_err(|error| ConfigError::GatewayKeys { peer: *peer, error: Box::new(error) })?;
        }
        if self.refuse_others {
            return Err(ConfigError::NotInGateway("refuse-others"));
        }
        if self.md5 == Md5::Leave {
            return Err(ConfigError::NotInGateway("md5"));
        }
        Ok(())
    }
}

/// A peer with the name of its device, as a user writes it.
fn with_device(peer: &PeerName) -> String {
    let name = |index| {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        netdevice::index_to_name(socket, index)
    };
    match peer.vrf.and_then(|index| name(index).ok()) {
        Some(device) => format!("{}%{device}", peer.remote),
        None => peer.to_string(),
    }
}
