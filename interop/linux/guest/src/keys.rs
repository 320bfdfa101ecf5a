//! Keys as they travel between the driver and a guest.

use std::net::IpAddr;

use anyhow::{Context, Result};
use cidr::IpCidr;
use serde::{Deserialize, Serialize};
use wireseal_keys::{KeyChain, KeyChains};
use wireseal_tcp_ao::Mkt;

use crate::Counted;

/// A key chain, as TOML.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(transparent)]
pub struct Chain(String);

impl Chain {
    /// # Errors
    /// As [`KeyChains::new`].
    pub fn new(chain: KeyChain) -> Result<Self, wireseal_keys::Error> {
        Ok(Self(KeyChains::new(vec![chain])?.to_toml().to_string()))
    }

    /// The chain.
    ///
    /// # Errors
    /// The text is not a key chain.
    pub fn key_chain(&self) -> Result<KeyChain> {
        let chains = KeyChains::from_toml(&self.0)?;
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
    /// Whether it becomes current and rnext key.
    pub is_preferred: bool,
}

impl Key {
    /// A key with the guest's ids, for one peer and no VRF.
    ///
    /// # Errors
    /// As [`Chain::new`].
    pub fn new(remote: IpAddr, mkt: &Mkt) -> Result<Self, wireseal_keys::Error> {
        let chain = Chain::new(KeyChain::new("lab", vec![wireseal_keys::Key::new(0, mkt.clone())])?)?;
        Ok(Self { remote: remote.into(), vrf: None, chain, is_preferred: false })
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
