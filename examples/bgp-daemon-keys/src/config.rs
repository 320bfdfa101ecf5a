//! The configuration: the peers, how each is protected, and what its sockets are like.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::{fs, path::Path};

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use wireseal_linux::{IpCidr, PeerName, Policy, key_chain::KeyChains};

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The addresses that are listened on; `[::]` serves IPv4 peers, too.
    pub listen: Vec<SocketAddr>,
    pub local_as: u32,
    pub router_id: Ipv4Addr,
    pub hold_time: u16,
    #[serde(default)]
    pub key_chain: KeyChains,
    #[serde(default)]
    pub peer: Vec<Peer>,
}

/// With neither `key_chain` nor `md5_secret` it is unprotected, on purpose.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Peer {
    pub address: IpAddr,
    pub remote_as: u32,
    /// The peer opens the session.
    pub passive: bool,
    pub key_chain: Option<String>,
    pub md5_secret: Option<String>,
    pub ttl: u32,
    pub mss: u32,
    pub dscp: u32,
    /// What to do if this peer does not get, or does not use, a new key.
    #[serde(default)]
    pub policy: Policy,
}

impl Config {
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        // Not the error's Display, which quotes the line, and so perhaps a secret.
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        let place = |error: &toml::de::Error| error.span().map_or(0, |span| line(span.start));
        toml::from_str(&text)
            .map_err(|error| anyhow!("{}, line {}: {}", path.display(), place(&error), error.message()))
    }
}

impl Peer {
    pub fn name(&self) -> PeerName {
        PeerName::new(IpCidr::new_host(self.address))
    }
}
