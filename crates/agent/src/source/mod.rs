//! Where a configuration comes from: the command line, and a file.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cidr::{IpCidr, IpInet};
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use serde::Deserialize;
use wireseal_keys::KeyChains;
use wireseal_linux::PeerName;
use zeroize::Zeroizing;

use crate::config::{Config, Md5};
use crate::error::{ConfigError, PeerArgumentError};

/// BGP's port (RFC 4271).
const BGP: u16 = 179;

/// A peer as text: `192.0.2.1`, `2001:db8::/32=edge`, `192.0.2.1%vrf-blue=core`. An address or a network, the device of a VRF, and the name
/// of a key chain; without device the peer is in no VRF or in any, and without name it has the only key chain there is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerArgument {
    /// The address or network.
    pub network: IpCidr,
    /// The device of its VRF.
    pub device: Option<String>,
    /// Its key chain.
    pub chain: Option<String>,
}

impl FromStr for PeerArgument {
    type Err = PeerArgumentError;

    fn from_str(text: &str) -> Result<Self, PeerArgumentError> {
        let (peer, chain) = text.split_once('=').map_or((text, None), |(peer, chain)| (peer, Some(chain)));
        let (network, device) =
            peer.split_once('%').map_or((peer, None), |(network, device)| (network, Some(device)));
        let network = network.parse().map_err(|_| PeerArgumentError::Network(no_network(network)))?;
        if device.is_some_and(str::is_empty) {
            return Err(PeerArgumentError::NoDevice);
        }
        if chain.is_some_and(str::is_empty) {
            return Err(PeerArgumentError::NoChain);
        }
        Ok(Self { network, device: device.map(Into::into), chain: chain.map(Into::into) })
    }
}

/// Why a text is neither an address nor a network, and what to write.
fn no_network(text: &str) -> String {
    if let Ok(address) = text.parse::<IpInet>() {
        let (network, host) = (address.network(), address.address());
        format!("write {network} for the network, or {host} for the host, in place of {text}")
    } else if let Ok(address) = text.parse::<SocketAddr>() {
        format!("write {} in place of {text}; ports are given by themselves", address.ip())
    } else {
        format!("{text:?} is neither")
    }
}

impl PeerArgument {
    /// As the user wrote it, without the key chain.
    fn text(&self) -> String {
        match &self.device {
            Some(device) => format!("{}%{device}", self.network),
            None => self.network.to_string(),
        }
    }

    fn name(&self) -> Result<PeerName, ConfigError> {
        let Some(device) = &self.device else { return Ok(PeerName::new(self.network)) };
        let index = socket(AddressFamily::INET, SocketType::DGRAM, None)
            .and_then(|socket| netdevice::name_to_index(socket, device));
        let index = index.map_err(|error| ConfigError::NoDevice {
            peer: self.text(),
            device: device.clone(),
            error: error.into(),
        })?;
        Ok(PeerName { remote: self.network, vrf: Some(index) })
    }
}

/// The parts of a configuration as given; [`read`](Self::read) reads their files, each time anew.
///
/// The configuration file is TOML:
///
/// ```toml
/// key-chains = "keys.toml"   # TOML, or RFC 8177's JSON; beside this file unless absolute
/// ports = [179]              # the default
/// refuse-others = false      # the default: peers not listed are accepted without TCP-AO
/// md5 = "refuse"             # the default, or "leave"
///
/// [peers]
/// "192.0.2.1" = "core"
/// "2001:db8::/32" = "edge"
/// "198.51.100.7%vrf-blue" = "core"
/// ```
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The file of key chains. It takes the place of the configuration file's.
    pub keys: Option<PathBuf>,
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Peers, in addition to the configuration file's.
    pub peers: Vec<PeerArgument>,
    /// Ports, in place of the configuration file's; 179 if there are none at all.
    pub ports: Vec<u16>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    key_chains: Option<PathBuf>,
    ports: Option<Vec<u16>>,
    #[serde(default)]
    refuse_others: bool,
    #[serde(default)]
    md5: Md5,
    #[serde(default)]
    peers: BTreeMap<String, String>,
}

impl Source {
    /// Reads the files and looks up the devices.
    ///
    /// # Errors
    /// [`ConfigError`] for the first thing that is wrong: a file, a peer, a key chain, or peers that contradict each other.
    pub fn read(&self) -> Result<Config, ConfigError> {
        let (file, mut peers) = match &self.config {
            Some(path) => read_file(path)?,
            None => (File::default(), Vec::new()),
        };
        peers.extend_from_slice(&self.peers);
        let beside = |path: &PathBuf| match self.config.as_ref().and_then(|config| config.parent()) {
            Some(folder) => folder.join(path),
            None => path.clone(),
        };
        let keys = self.keys.clone().or_else(|| file.key_chains.as_ref().map(beside));
        let chains = read_key_chains(&keys.ok_or(ConfigError::NoKeyChains)?)?;
        let mut chosen: Vec<(PeerName, _)> = Vec::new();
        let mut taken = HashSet::new();
        for peer in &peers {
            let name = peer.name()?;
            if !taken.insert(name.canonical()) {
                let network = name.canonical().remote;
                return Err(ConfigError::PeerTwice(PeerArgument { network, ..peer.clone() }.text()));
            }
            chosen.push((name, chain_of(&chains, peer)?));
        }
        if chosen.is_empty() {
            return Err(ConfigError::NoPeers);
        }
        let ports =
            if self.ports.is_empty() { file.ports.unwrap_or_else(|| vec![BGP]) } else { self.ports.clone() };
        if ports.is_empty() || ports.contains(&0) {
            return Err(ConfigError::NoPorts);
        }
        Ok(Config { peers: chosen, ports, refuse_others: file.refuse_others, md5: file.md5 })
    }
}

fn chain_of(chains: &KeyChains, peer: &PeerArgument) -> Result<wireseal_keys::KeyChain, ConfigError> {
    let known = || chains.chains().iter().map(|chain| chain.name().to_owned()).collect();
    match (&peer.chain, chains.chains()) {
        (Some(name), _) => chains
            .get(name)
            .cloned()
            .ok_or_else(|| ConfigError::UnknownChain { peer: peer.text(), known: known() }),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(ConfigError::WhichChain { peer: peer.text(), known: known() }),
    }
}

fn read_file(path: &Path) -> Result<(File, Vec<PeerArgument>), ConfigError> {
    let text =
        fs::read_to_string(path).map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
    let file: File = toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count();
        let written = text.lines().nth(line).unwrap_or_default().trim();
        let message = problem(written, &error.message().replace('\n', " "));
        ConfigError::File { path: path.to_owned(), line: line + 1, message }
    })?;
    let peers = file.peers.iter().map(|(peer, chain)| {
        let argument = format!("{peer}={chain}").parse();
        argument.map_err(|error| ConfigError::Peer { path: path.to_owned(), peer: peer.clone(), error })
    });
    let peers = peers.collect::<Result<_, _>>()?;
    Ok((file, peers))
}

/// What is wrong with a line of a configuration file, by what the parser says of it. Of the line only what stands before `=` is repeated:
/// the value may be a secret in the wrong file.
fn problem(written: &str, said: &str) -> String {
    if written.starts_with("[[key-chain") {
        return "this is a file of key chains: give it with --keys, or name it with key-chains".to_owned();
    }
    let key = written.split_once('=').map(|(key, _)| key.trim());
    // In TOML a dot makes tables of a key, and other signs of addresses are no part of one.
    if let Some(key) = key.filter(|key| key.parse::<PeerArgument>().is_ok()) {
        return format!("an address needs quotation marks: \"{key}\"");
    }
    let repeats_value = ["invalid type: ", "invalid value: ", "unknown variant "];
    if !repeats_value.iter().any(|begins| said.starts_with(begins)) {
        return said.to_owned();
    }
    let expected = said.rsplit_once(", expected ").map_or("another value", |(_, expected)| expected);
    let expected = match expected {
        "a sequence" => "a list, such as [179]",
        "u16" => "numbers from 1 to 65535, such as [179]",
        "a boolean" => "true or false",
        "a string" | "path string" => "a name in quotation marks",
        "a map" => "a table: [peers], and below it lines such as \"192.0.2.1\" = \"core\"",
        expected => expected,
    };
    match key {
        Some(key) => format!("{key}: expected {expected}"),
        None => format!("expected {expected}"),
    }
}

fn read_key_chains(path: &Path) -> Result<KeyChains, ConfigError> {
    let text = fs::read_to_string(path).map(Zeroizing::new);
    let text = text.map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
    #[cfg(any(feature = "run", feature = "gateway"))]
    warn_of_others(path);
    let chains = if text.trim_start().starts_with('{') {
        KeyChains::from_json(&text)
    } else {
        KeyChains::from_toml(&text)
    };
    chains.map_err(|error| match is_router_configuration(&text) {
        true => ConfigError::RouterConfiguration { path: path.to_owned() },
        false => ConfigError::KeyChains { path: path.to_owned(), error: Box::new(error) },
    })
}

/// Whether a text has a line that begins as in configurations of BIRD, Junos or IOS XR, and as none does in TOML or JSON.
fn is_router_configuration(text: &str) -> bool {
    const BEGINNINGS: [&str; 8] = [
        "protocol ",
        "template ",
        "router ",
        "key chain ",
        "tcp ao",
        "set security",
        "security {",
        "authentication-key-chains",
    ];
    text.lines().any(|line| BEGINNINGS.iter().any(|begins| line.trim_start().starts_with(begins)))
}

/// From now on nobody but root may read this process's memory, where the keys will be, and no core dump contains them.
#[cfg(any(feature = "run", feature = "gateway"))]
pub(crate) fn keep_memory_private() -> std::io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Into::into)
}

/// Logs that everybody can read or write this file of secrets, if so.
#[cfg(any(feature = "run", feature = "gateway"))]
fn warn_of_others(path: &Path) {
    use std::os::unix::fs::MetadataExt;

    let Ok(metadata) = fs::metadata(path) else { return };
    let (can, change) = match metadata.mode() & 0o006 {
        0o004 => ("read", "o-r"),
        0o002 => ("write", "o-w"),
        0o006 => ("read and write", "o-rw"),
        _ => return,
    };
    if metadata.is_file() {
        tracing::warn!(
            "{}: every user of this machine can {can} it; \"chmod {change}\" prevents that",
            path.display()
        );
    }
}

#[cfg(test)]
mod tests;
