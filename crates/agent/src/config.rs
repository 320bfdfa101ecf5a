//! A checked configuration, and its summary for people.

use std::fmt;
use std::net::IpAddr;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use wireseal_keys::{KeyChain, Timestamp};
use wireseal_linux::{KeyManager, PeerName};
use wireseal_tcp_ao::MKTS_PER_PEER;

use crate::error::Error;

/// What happens when the program sets TCP-MD5 keys (RFC 2385) itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Md5 {
    /// The call fails with ENOPROTOOPT, as on a kernel without TCP-MD5, if the key's network overlaps with a peer's; with
    /// [`Config::refuse_others`], always.
    #[default]
    Refuse,
    /// The kernel decides. It refuses TCP-MD5 for an address that has TCP-AO keys on the socket, and TCP-AO keys for one that has TCP-MD5:
    /// the peer's session does not open then.
    Leave,
}

/// Which peers have which keys, at which ports. Its `Display` shows them without secrets.
#[derive(Clone, Debug)]
pub struct Config {
    /// The peers, each with its key chain. Where networks overlap, the longest prefix decides.
    pub peers: Vec<(PeerName, KeyChain)>,
    /// The TCP ports that are protected: the peer's where the program connects, and the program's own where it listens.
    pub ports: Vec<u16>,
    /// Whether listeners on these ports refuse callers that are no peers. Otherwise those are accepted without TCP-AO.
    pub refuse_others: bool,
    /// What happens when the program sets TCP-MD5 keys.
    pub md5: Md5,
}

impl Config {
    /// Checks whether Linux's TCP-AO supports it, as far as can be known beforehand. A gateway supports more.
    ///
    /// # Errors
    /// [`Error::Overlap`] if there are keys both for a host and for a network around it: whoever has the network's key could pose as the
    /// host. [`Error::Keys`] if a chain has an algorithm that Linux lacks.
    pub fn check_for_kernel(&self) -> Result<(), Error> {
        let mut peers: Vec<_> = self.peers.iter().map(|(peer, _)| peer.canonical()).collect();
        // Sorted, so that networks come before the hosts in them.
        peers.sort();
        let mut around: Vec<PeerName> = Vec::new();
        for peer in peers {
            around.retain(|network| network.remote.contains(&peer.remote.first_address()));
            if let Some(network) = around.iter().find(|network| network.overlaps(&peer)) {
                return Err(Error::Overlap(peer, *network));
            }
            around.push(peer);
        }
        KeyManager::default().set_peers(self.peers.iter().cloned())?;
        Ok(())
    }

    /// Checks whether a gateway supports it, as far as can be known beforehand.
    ///
    /// # Errors
    /// [`Error::Peer`] if a peer has a device, or more keys of its chain are valid at once than a gateway has room for.
    /// [`Error::NotInGateway`] if it asks for what only a supervisor can do.
    pub fn check_for_gateway(&self) -> Result<(), Error> {
        if let Some((peer, _)) = self.peers.iter().find(|(peer, _)| peer.vrf.is_some()) {
            let is_link_local =
                matches!(peer.remote.first_address(), IpAddr::V6(address) if address.is_unicast_link_local());
            let problem = match is_link_local {
                true => {
                    "a gateway cannot tell links apart: write a link-local peer without %; the same address on two links is one peer"
                }
                false => {
                    "a gateway cannot tell VRFs apart: use `wireseal run`, or a network namespace for each"
                }
            };
            return Err(Error::peer(with_device(peer), problem));
        }
        for (peer, chain) in &self.peers {
            chain.check_room(MKTS_PER_PEER).map_err(|error| {
                Error::peer(peer, format!("{error} that are valid at the same time in a gateway"))
            })?;
        }
        if self.refuse_others {
            return Err(Error::NotInGateway("refuse-others"));
        }
        if self.md5 == Md5::Leave {
            return Err(Error::NotInGateway("md5"));
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

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<_> = self.ports.iter().map(ToString::to_string).collect();
        writeln!(f, "ports: {}", ports.join(", "))?;
        let others = if self.refuse_others { "refused" } else { "accepted without TCP-AO" };
        writeln!(f, "peers not listed here: {others}")?;
        let now = Timestamp::now();
        for (peer, chain) in &self.peers {
            writeln!(f, "peer {peer}: key chain {}", chain.name())?;
            keys(f, chain, now)?;
        }
        Ok(())
    }
}

/// A line for each key of a chain, and one for the next change.
fn keys(f: &mut fmt::Formatter<'_>, chain: &KeyChain, now: Timestamp) -> fmt::Result {
    let active = chain.at(now);
    let preferred = active.preferred().map(|key| key.key_id());
    for key in chain.keys() {
        let (mkt, parameters) = (key.mkt(), key.mkt().parameters());
        let is_active = active.iter().any(|other| other.key_id() == key.key_id());
        let state = match (preferred == Some(key.key_id()), is_active) {
            (true, _) => "sent with now",
            (false, true) => "accepted now",
            (false, false) => "not valid now",
        };
        let (key_id, algorithm) = (key.key_id(), parameters.algorithm.name());
        let (send_id, recv_id) = (mkt.send_id(), mkt.recv_id());
        writeln!(f, "  key {key_id}: SendID {send_id}, RecvID {recv_id}, {algorithm}, {state}")?;
    }
    match (preferred, chain.next_change(now)) {
        (None, Some(moment)) => writeln!(f, "  no key is valid for sending until {moment} at the earliest"),
        (None, None) => writeln!(f, "  no key is valid for sending any more: no session can be opened"),
        (Some(_), Some(moment)) => writeln!(f, "  next change: {moment}"),
        (Some(_), None) => Ok(()),
    }
}
