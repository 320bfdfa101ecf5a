//! Keys as they travel between the driver and a guest.

use std::fmt;
use std::net::IpAddr;

use anyhow::{Context, Result};
use cidr::IpCidr;
use serde::{Deserialize, Serialize};
use wireseal_tcp_ao::Mkt;
use wireseal_tcp_ao::key_chain::{self, KeyChain, KeyChainError, KeyChains};
use zeroize::Zeroizing;

use crate::Counted;

/// Text with a master key in it, not shown by Debug.
#[derive(Serialize, Deserialize, Clone)]
#[serde(transparent)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }

    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} octets)", self.0.len())
    }
}

/// A key chain, as TOML.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Chain(Secret);

impl Chain {
    /// The keys in their order.
    ///
    /// # Errors
    /// Two keys have an id in common.
    pub fn new(keys: Vec<key_chain::Key>) -> Result<Self, KeyChainError> {
        let chains = KeyChains::new(vec![KeyChain::new("lab", keys)?])?;
        Ok(Self(Secret::new(&chains.to_toml())))
    }

    /// The chain.
    ///
    /// # Errors
    /// The text is not a key chain.
    pub fn key_chain(&self) -> Result<KeyChain> {
        let chains = KeyChains::from_toml(self.0.expose())?;
        chains.chains().first().cloned().context("there is no key chain")
    }
}

/// A key for a socket: `wireseal_linux::SocketKey` with its MKT.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Key {
    /// The peers that the key is for.
    pub remote: IpCidr,
    /// The interface index of a VRF device that the key is for, or none.
    pub vrf: Option<u32>,
    /// A chain of its MKT alone.
    pub chain: Chain,
    pub set_current: bool,
    pub set_rnext: bool,
}

impl Key {
    /// A key with the guest's ids, for one peer and no VRF.
    ///
    /// # Errors
    /// As [`Chain::new`].
    pub fn new(remote: IpAddr, mkt: &Mkt) -> Result<Self, KeyChainError> {
        let chain = Chain::new(vec![key_chain::Key::new(0, mkt.clone())])?;
        Ok(Self { remote: remote.into(), vrf: None, chain, set_current: false, set_rnext: false })
    }

    /// The MKT.
    ///
    /// # Errors
    /// As [`Chain::key_chain`].
    pub fn mkt(&self) -> Result<Mkt> {
        let chain = self.chain.key_chain()?;
        chain.keys().first().map(|key| key.mkt().clone()).context("there is no key")
    }
}

/// What the kernel says of a socket: `wireseal_linux::Info`.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct SocketInfo {
    /// Its SendID.
    pub current_key: Option<u8>,
    /// Its RecvID.
    pub rnext_key: Option<u8>,
    pub required: bool,
    pub accept_icmps: bool,
    pub counted: Counted,
}
