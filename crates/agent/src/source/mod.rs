//! Reading a configuration from the command line and from files.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cidr::{IpCidr, IpInet};
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use serde::Deserialize;
use wireseal_keys::{End, KeyChain, KeyChains, KeyFile};
use wireseal_linux::PeerName;

use crate::config::{Config, Md5};
use crate::error::Error;

/// BGP's port (RFC 4271).
const BGP: u16 = 179;

const NO_KEY_CHAINS: Error =
    Error::Missing("no key chains: give a file with --keys, or with key-chains in the configuration file");
const NO_PEERS: Error = Error::Missing(
    "no peers: give one with --peer, such as --peer 192.0.2.1=core, or [peers] in the configuration file",
);
const NO_PORTS: Error = Error::Missing("ports: name at least one TCP port, from 1 to 65535");

/// A peer as text: `192.0.2.1`, `2001:db8::/32=edge`, `192.0.2.1%vrf-blue=core`. An address or a network, the device of a VRF, and the name
/// of a key chain. Without a device the peer is in no VRF or in any; without a name it has the only key chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerArgument {
    network: IpCidr,
    /// The device of its VRF.
    device: Option<String>,
    /// The name of its key chain.
    chain: Option<String>,
}

impl FromStr for PeerArgument {
    type Err = Error;

    /// # Errors
    /// [`Error::Argument`].
    fn from_str(text: &str) -> Result<Self, Error> {
        let (peer, chain) = text.split_once('=').map_or((text, None), |(peer, chain)| (peer, Some(chain)));
        let (network, device) =
            peer.split_once('%').map_or((peer, None), |(network, device)| (network, Some(device)));
        let network = network.parse().map_err(|_| Error::Argument(no_network(network)))?;
        for (part, missing) in
            [(device, "a device is missing behind %"), (chain, "a key chain is missing behind =")]
        {
            if part.is_some_and(str::is_empty) {
                return Err(Error::Argument(missing.to_owned()));
            }
        }
        Ok(Self { network, device: device.map(Into::into), chain: chain.map(Into::into) })
    }
}

/// Why a text is neither an address nor a network, and what to write.
fn no_network(text: &str) -> String {
    let instead = if let Ok(address) = text.parse::<IpInet>() {
        let (network, host) = (address.network(), address.address());
        format!("write {network} for the network, or {host} for the host, in place of {text}")
    } else if let Ok(address) = text.parse::<SocketAddr>() {
        format!("write {} in place of {text}; ports are given by themselves", address.ip())
    } else {
        format!("{text:?} is neither")
    };
    format!("expected an address or a network, such as 192.0.2.1 or 2001:db8::/32: {instead}")
}

impl PeerArgument {
    /// As the user wrote it, without the key chain.
    fn text(&self) -> String {
        match &self.device {
            Some(device) => format!("{}%{device}", self.network),
            None => self.network.to_string(),
        }
    }

    fn name(&self) -> Result<PeerName, Error> {
        let Some(device) = &self.device else { return Ok(PeerName::new(self.network)) };
        let index = socket(AddressFamily::INET, SocketType::DGRAM, None)
            .and_then(|socket| netdevice::name_to_index(socket, device))
            .map_err(io::Error::from)
            .map_err(|error| Error::peer(self.text(), format!("there is no device {device:?}: {error}")))?;
        Ok(PeerName { vrf: Some(index), ..PeerName::new(self.network) })
    }
}

/// Where a configuration comes from; each [`read`](Self::read) reads the files anew.
///
/// The configuration file is TOML:
///
/// ```toml
/// key-chains = "keys.toml"   # TOML, RFC 8177's JSON, or a router's configuration; beside this file unless absolute
/// key-chains-of = "this-end" # the default; "peer": the file is of the router at the other end, which sends with the SendIDs in it
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
    /// The file of key chains, in place of the configuration file's.
    pub keys: Option<PathBuf>,
    /// The end that the file of key chains is of: this one, unless the configuration file names the file and says otherwise.
    pub keys_of: Option<End>,
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Peers, in addition to the configuration file's.
    pub peers: Vec<PeerArgument>,
    /// Ports, in place of the configuration file's; 179 if neither has any.
    pub ports: Vec<u16>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    key_chains: Option<PathBuf>,
    #[serde(default)]
    key_chains_of: End,
    ports: Option<Vec<u16>>,
    #[serde(default)]
    refuse_others: bool,
    #[serde(default)]
    md5: Md5,
    #[serde(default)]
    peers: BTreeMap<String, String>,
}

impl Source {
    /// Reads the files and looks up the devices. Logs warnings: who else can use the file of key chains, peers that its chains are not for,
    /// and chains of a router's configuration that cannot be used and that no peer has.
    ///
    /// # Errors
    /// [`Error`] for the first thing that is wrong: a file, a peer, its key chain, or a peer that is named twice.
    pub fn read(&self) -> Result<Config, Error> {
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
        // What the configuration says is of the file that it names.
        let of_file = if self.keys.is_some() { End::default() } else { file.key_chains_of };
        let end = self.keys_of.unwrap_or(of_file);
        let keys = keys.ok_or(NO_KEY_CHAINS)?;
        let (chains, key_file) = read_key_chains(&keys, end)?;
        let mut chosen: Vec<(PeerName, _)> = Vec::new();
        let mut taken = HashSet::new();
        for peer in &peers {
            let name = peer.name()?;
            if !taken.insert(name.canonical()) {
                let network = name.canonical().remote;
                return Err(Error::PeerTwice(PeerArgument { network, ..peer.clone() }.text()));
            }
            let chain = chain_of(&keys, &chains, peer)?;
            if end == End::ThisEnd {
                warn_of_neighbors(&key_file, chain.name(), peer);
            }
            chosen.push((name, chain));
        }
        if chosen.is_empty() {
            return Err(NO_PEERS);
        }
        for (_, error) in chains.unusable() {
            warn(&format!(
                "{}: {error}; this key chain is left out, because no peer uses it",
                keys.display()
            ));
        }
        let ports =
            if self.ports.is_empty() { file.ports.unwrap_or_else(|| vec![BGP]) } else { self.ports.clone() };
        if ports.is_empty() || ports.contains(&0) {
            return Err(NO_PORTS);
        }
        Ok(Config { peers: chosen, ports, refuse_others: file.refuse_others, md5: file.md5 })
    }
}

fn chain_of(file: &Path, chains: &KeyChains, peer: &PeerArgument) -> Result<KeyChain, Error> {
    let problem = match (&peer.chain, chains.chains(), chains.unusable()) {
        (Some(name), _, unusable) => {
            match (chains.get(name), unusable.iter().find(|(known, _)| known == name)) {
                (Some(chain), _) => return Ok(chain.clone()),
                (None, Some((_, error))) => return Err(Error::contents(file, error.to_string())),
                (None, None) => "there is no key chain of that name",
            }
        }
        (None, [only], []) => return Ok(only.clone()),
        (None, ..) => "which key chain?",
    };
    let unusable = chains.unusable().iter().map(|(name, _)| name.as_str());
    let names: Vec<_> = chains.chains().iter().map(KeyChain::name).chain(unusable).collect();
    let known = match names.is_empty() {
        true => "the file has none".to_owned(),
        false => format!("known: {}", names.join(", ")),
    };
    Err(Error::peer(peer.text(), format!("{problem} ({known})")))
}

fn read_file(path: &Path) -> Result<(File, Vec<PeerArgument>), Error> {
    let text = fs::read_to_string(path).map_err(Error::file(path))?;
    let file: File = toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count();
        let written = text.lines().nth(line).unwrap_or_default().trim();
        let problem = problem(written, &error.message().replace('\n', " "));
        Error::contents(path, format!("line {}: {problem}", line + 1))
    })?;
    let peers = file.peers.iter().map(|(peer, chain)| {
        let argument: Result<_, Error> = format!("{peer}={chain}").parse();
        argument.map_err(|error| Error::contents(path, format!("peer {peer:?}: {error}")))
    });
    let peers = peers.collect::<Result<_, _>>()?;
    Ok((file, peers))
}

/// What is wrong with a line of a configuration file, from the parser's message. Repeats only what stands before `=`, because the value may
/// be a secret in the wrong file.
fn problem(written: &str, said: &str) -> String {
    if written.starts_with("[[key-chain") {
        return "this is a file of key chains: give it with --keys, or name it with key-chains".to_owned();
    }
    let key = written.split_once('=').map(|(key, _)| key.trim());
    // TOML splits a key at its dots into tables, and refuses colons in it.
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

/// Reads the key chains. Logs warnings about who else can use the file, and peers that its chains are not for.
fn read_key_chains(path: &Path, end: End) -> Result<(KeyChains, KeyFile), Error> {
    let (chains, file) = wireseal_keys::load_key_chains(path, end)?;
    file.warnings.iter().for_each(|warning| warn(warning));
    for skipped in &file.skipped {
        tracing::info!("{}: line {}: skipped: {}", path.display(), skipped.position.line, skipped.what);
    }
    Ok((chains, file))
}

/// Logs that a router's configuration has a chain for other neighbors than this peer, if so: the file may be the peer's own.
fn warn_of_neighbors(file: &KeyFile, chain: &str, peer: &PeerArgument) {
    let Some(chain) = file.chains.iter().find(|known| known.name == chain) else { return };
    let neighbors = &chain.neighbors;
    let is_for = |neighbor: IpCidr| PeerName::new(neighbor).overlaps(&PeerName::new(peer.network));
    if !neighbors.is_empty() && !neighbors.iter().any(|known| is_for(known.address)) {
        warn(&format!(
            "key chain {:?} is not for {} in the file it is from: if the file is the peer's, say --keys-of peer or key-chains-of = \"peer\"",
            chain.name,
            peer.text()
        ));
    }
}

fn warn(warning: &str) {
    tracing::warn!("{warning}");
}

#[cfg(test)]
mod tests;
