//! Keys as they travel between the driver and a guest.

use std::fmt;
use std::net::IpAddr;

use cidr::IpCidr;
use serde::{Deserialize, Serialize};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, OptionCoverage};
use zeroize::Zeroizing;

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
    /// SendID, as the guest has it.
    pub send_id: u8,
    /// RecvID, as the guest has it.
    pub recv_id: u8,
    /// The algorithm's name, as `TcpAoAlgorithm::name` gives it.
    pub algorithm: String,
    /// Octets of the MAC.
    pub mac_length: usize,
    /// Whether the MAC covers the other TCP options.
    pub covers_options: bool,
    /// The master key.
    pub secret: Secret,
    /// Whether the key becomes the current key of a connection.
    pub set_current: bool,
    /// Whether the key becomes the rnext key of a connection.
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
    /// SendID.
    pub send_id: u8,
    /// RecvID.
    pub recv_id: u8,
}

/// Deletes a key from a socket.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct DeleteKey {
    /// The socket.
    pub socket: u64,
    /// The key.
    pub name: KeyName,
    /// The SendID of the key that becomes the current key.
    pub current: Option<u8>,
    /// The RecvID of the key that becomes the rnext key.
    pub rnext: Option<u8>,
}

/// A key as the kernel lists it: `wireseal_linux::InstalledKey`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct InstalledKey {
    /// What names it.
    pub name: KeyName,
    /// The algorithm's name.
    pub algorithm: String,
    /// Octets of the MAC.
    pub mac_length: usize,
    /// Whether the MAC covers the other TCP options.
    pub covers_options: bool,
    /// Whether it is the connection's current key.
    pub is_current: bool,
    /// Whether it is the connection's rnext key.
    pub is_rnext: bool,
    /// Segments that verified under it.
    pub good: u64,
    /// Segments that did not.
    pub bad: u64,
}

/// What the kernel says of a socket: `wireseal_linux::Info`.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct SocketInfo {
    /// The current key's SendID.
    pub current_key: Option<u8>,
    /// The rnext key's RecvID.
    pub rnext_key: Option<u8>,
    /// Whether unsigned segments are refused.
    pub required: bool,
    /// Whether hard ICMP errors are taken.
    pub accept_icmps: bool,
    /// Segments that verified.
    pub good: u64,
    /// Segments that did not.
    pub bad: u64,
    /// Segments of a KeyID that no key has.
    pub key_not_found: u64,
    /// Unsigned segments.
    pub ao_required: u64,
    /// ICMP errors that were ignored.
    pub dropped_icmps: u64,
}
