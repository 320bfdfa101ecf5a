//! What is wrong with a configuration.

use std::io;
use std::path::PathBuf;

use wireseal_keys::KeyChainError;
use wireseal_linux::PeerName;

/// Why a configuration cannot be used. Each is one line and has no secret in it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why. It is in the message, and so not the error's source.
        error: io::Error,
    },
    /// The configuration file is not what it should be.
    #[error("{}: line {line}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The file of key chains is something else.
    #[error(
        "{0}: this looks like a router's configuration, not a file of key chains: `wireseal keys convert {0} --to toml` makes one",
        path.display()
    )]
    RouterConfiguration {
        /// The file.
        path: PathBuf,
    },
    /// The key chains cannot be used.
    #[error("{}: {error}", path.display())]
    KeyChains {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where. It is in the message, and so not the error's source.
        error: Box<KeyChainError>,
    },
    /// No key chains were named.
    #[error("no key chains: give a file with --keys, or with key-chains in the configuration file")]
    NoKeyChains,
    /// No peer was named.
    #[error(
        "no peers: give one with --peer, such as --peer 192.0.2.1=core, or [peers] in the configuration file"
    )]
    NoPeers,
    /// No port is protected, or port 0.
    #[error("ports: name at least one TCP port, from 1 to 65535")]
    NoPorts,
    /// A peer has no key chain, and there are several.
    #[error("peer {peer}: which key chain? ({})", known_chains(known))]
    WhichChain {
        /// The peer.
        peer: PeerArgumentText,
        /// The names of the key chains.
        known: Vec<String>,
    },
    /// A peer has a key chain that does not exist. Its name is not in the message: a file may have a secret in its place.
    #[error("peer {peer}: there is no key chain of that name ({})", known_chains(known))]
    UnknownChain {
        /// The peer.
        peer: PeerArgumentText,
        /// The names of the key chains.
        known: Vec<String>,
    },
    /// A peer was named twice, perhaps as an IPv4 address and as the IPv6 address that it is mapped to.
    #[error("peer {0} is named twice")]
    PeerTwice(PeerArgumentText),
    /// A peer of the configuration file cannot be read.
    #[error("{}: peer {peer:?}: {error}", path.display())]
    Peer {
        /// The file.
        path: PathBuf,
        /// The peer as written.
        peer: String,
        /// What is wrong. It is in the message, and so not the error's source.
        error: PeerArgumentError,
    },
    /// There is no such device.
    #[error("peer {peer}: there is no device {device:?}: {error}")]
    NoDevice {
        /// The peer.
        peer: PeerArgumentText,
        /// The device.
        device: String,
        /// Why. It is in the message, and so not the error's source.
        error: io::Error,
    },
    /// There are keys both for a host and for a network around it.
    #[error(
        "peers {0} and {1} overlap, and Linux takes the keys of either from a caller that is in both: name peers that do not, or use \
         `wireseal gateway`, which goes by the longest prefix"
    )]
    Overlap(PeerName, PeerName),
    /// A gateway cannot tell VRFs apart.
    #[error(
        "peer {0}: a gateway cannot tell VRFs apart: use `wireseal run`, or a network namespace for each"
    )]
    GatewayVrf(PeerArgumentText),
    /// A gateway cannot tell links apart.
    #[error(
        "peer {0}: a gateway cannot tell links apart: write a link-local peer without %; the same address on two links is one peer"
    )]
    GatewayLink(PeerArgumentText),
    /// More keys of a peer's chain are valid at once than a gateway has room for.
    #[error("peer {peer}: {error} that are valid at the same time in a gateway")]
    GatewayKeys {
        /// The peer.
        peer: PeerName,
        /// Which chain, and how many. It is in the message, and so not the error's source.
        error: Box<KeyChainError>,
    },
    /// The configuration asks a gateway for what only `run` can do.
    #[error("{0} has no effect in a gateway, which sees the packets of its peers alone: leave it out")]
    NotInGateway(&'static str),
    /// The peers contradict each other, or have an algorithm that Linux lacks.
    #[error("{0}")]
    Peers(Box<wireseal_linux::Error>),
}

fn known_chains(known: &[String]) -> String {
    match known {
        [] => "the file has none".to_owned(),
        known => format!("known: {}", known.join(", ")),
    }
}

/// A peer as the user wrote it, without its key chain.
pub(crate) type PeerArgumentText = String;

/// Why the text of a peer cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PeerArgumentError {
    /// It does not begin with an address or a network.
    #[error("expected an address or a network, such as 192.0.2.1 or 2001:db8::/32: {0}")]
    Network(String),
    /// Nothing follows the sign for the device.
    #[error("a device is missing behind %")]
    NoDevice,
    /// Nothing follows the sign for the key chain.
    #[error("a key chain is missing behind =")]
    NoChain,
}

impl From<wireseal_linux::Error> for ConfigError {
    fn from(error: wireseal_linux::Error) -> Self {
        Self::Peers(Box::new(error))
    }
}
