//! The configuration: who may connect with which keys, and what is served.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use rpki::rtr::payload::RouteOrigin;
use serde::Deserialize;
use wireseal_linux::key_chain::{KeyChain, KeyChains};
use wireseal_linux::{KeyManager, PeerName};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The file with the key chains, in this file's folder.
    key_chains: PathBuf,
    /// The name of each peer's key chain; a peer is an address or a network.
    peers: BTreeMap<String, String>,
    /// The addresses that a server listens on.
    #[serde(default)]
    pub listen: Vec<SocketAddr>,
    /// What a server serves: "203.0.113.0/24-24 AS64496" is a prefix, its longest subnet, and who may announce it.
    #[serde(default)]
    origins: Vec<String>,
}

impl Config {
    /// Reads the files, and gives the peers to a manager. On an error the manager is unchanged.
    pub fn load(path: &Path, manager: &KeyManager) -> Result<Self> {
        let in_file = || path.display().to_string();
        let config: Self =
            toml::from_str(&read(path)?).map_err(|error| anyhow!("{}: {}", in_file(), error.message()))?;
        let keys = path.with_file_name(&config.key_chains);
        let chains = KeyChains::from_toml(&read(&keys)?).with_context(|| keys.display().to_string())?;
        let peers = config.peers(&chains).with_context(in_file)?;
        config.origins().with_context(in_file)?;
        manager.set_peers(peers).with_context(in_file)?;
        Ok(config)
    }

    fn peers(&self, chains: &KeyChains) -> Result<Vec<(PeerName, KeyChain)>> {
        let peer = |(network, chain): (&String, &String)| match (network.parse(), chains.get(chain)) {
            (Ok(network), Some(chain)) => Ok((PeerName::new(network), chain.clone())),
            (Err(error), _) => bail!("peers: {network:?}: {error}"),
            (_, None) => bail!("peers: {network:?}: there is no key chain {chain:?}"),
        };
        self.peers.iter().map(peer).collect()
    }

    pub fn origins(&self) -> Result<Vec<RouteOrigin>> {
        let origin = |text: &String| {
            let (prefix, asn) = text.split_once(' ')?;
            Some(RouteOrigin::new(prefix.parse().ok()?, asn.parse().ok()?))
        };
        self.origins.iter().map(|text| origin(text).with_context(|| format!("origins: {text:?}"))).collect()
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}
