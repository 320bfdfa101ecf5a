//! Keys as they travel between the driver and a guest.

use std::fmt;
use std::net::IpAddr;

use cidr::IpCidr;
use serde::{Deserialize, Serialize};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::key_chain::{self, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, OptionCoverage};
use zeroize::Zeroizing;

use crate::Counted;

/// A master key, not shown by Debug.
#[derive(Serialize, Deserialize, Clone)]
#[serde(transparent)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes a copy of the octets.
    #[must_use]
    pub fn new(octets: &[u8]) -> Self {
        Self(Zeroizing::new(octets.to_vec()))
    }

    /// The master key.
    ///
    /// # Errors
    /// A sentence, when it is empty or too long.
    pub fn master_key(&self) -> Result<MasterKey, String> {
        MasterKey::new(&self.0).map_err(|error| error.to_string())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} octets)", self.0.len())
    }
}

/// A key for a socket: `wireseal_linux::SocketKey` with its MKT, as plain values.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Key {
    /// The peers that the key is for.
    pub remote: IpCidr,
    /// The interface index of a VRF device that the key is for, or none.
    pub vrf: Option<u32>,
    pub send_id: u8,
    pub recv_id: u8,
    pub algorithm: String,
    pub mac_length: usize,
    pub covers_options: bool,
    pub secret: Secret,
    pub set_current: bool,
    pub set_rnext: bool,
}

impl Key {
    /// The key of an MKT that is written down as the guest has it, for one peer, on no VRF.
    #[must_use]
    pub fn new(remote: IpAddr, mkt: &Mkt) -> Self {
        let parameters = mkt.parameters();
        Self {
            remote: remote.into(),
            vrf: None,
            send_id: parameters.send_id.0,
            recv_id: parameters.recv_id.0,
            algorithm: parameters.algorithm.name().to_owned(),
            mac_length: parameters.mac_length(),
            covers_options: parameters.options == OptionCoverage::Covered,
            secret: Secret::new(mkt.master_key().expose_secret()),
            set_current: false,
            set_rnext: false,
        }
    }

    /// The MKT.
    ///
    /// # Errors
    /// A sentence, when a field is none that an MKT can have.
    pub fn mkt(&self) -> Result<Mkt, String> {
        let algorithm: TcpAoAlgorithm = self.algorithm.parse().map_err(|error| format!("{error}"))?;
        let options = if self.covers_options { OptionCoverage::Covered } else { OptionCoverage::Excluded };
        Mkt::with_short_master_key(
            KeyId(self.send_id),
            KeyId(self.recv_id),
            algorithm,
            self.secret.master_key()?,
        )
        .with_mac_length(self.mac_length)
        .map(|mkt| mkt.with_options(options))
        .map_err(|error| error.to_string())
    }

    /// What names the key on a socket.
    #[must_use]
    pub const fn name(&self) -> KeyName {
        KeyName { remote: self.remote, vrf: self.vrf, send_id: self.send_id, recv_id: self.recv_id }
    }
}

/// What names a key on a socket: `wireseal_linux::KeyName`.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyName {
    /// The peers that the key is for.
    pub remote: IpCidr,
    /// The interface index of a VRF device, or none.
    pub vrf: Option<u32>,
    pub send_id: u8,
    pub recv_id: u8,
}

/// A key as the kernel lists it.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct InstalledKey {
    pub name: KeyName,
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

/// From when until when, in seconds since 1970; nothing leaves an end open.
pub type Span = (Option<i64>, Option<i64>);

/// A key chain.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Chain {
    pub keys: Vec<ChainKey>,
}

/// A key and its lifetimes. The manager chooses its peer, and whether it is current or rnext key.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ChainKey {
    pub key: Key,
    pub send: Span,
    pub accept: Span,
}

impl Chain {
    /// The chain.
    ///
    /// # Errors
    /// A sentence, when a key or a lifetime is impossible.
    pub fn key_chain(&self) -> Result<KeyChain, String> {
        let lifetime = |(from, until): Span| {
            let timestamp = Timestamp::from_unix_seconds;
            Lifetime::new(from.map(timestamp), until.map(timestamp)).map_err(|error| error.to_string())
        };
        let key = |(number, key): (usize, &ChainKey)| {
            let (send, accept) = (lifetime(key.send)?, lifetime(key.accept)?);
            let key = key_chain::Key::new(number as u64, key.key.mkt()?).with_lifetimes(send, accept);
            key.map_err(|error| error.to_string())
        };
        let keys = self.keys.iter().enumerate().map(key).collect::<Result<Vec<_>, String>>()?;
        KeyChain::new("lab", keys).map_err(|error| error.to_string())
    }
}
