//! The content of a file of keys, whether or not it makes sense.

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Key, Lifetime, Position, Problem};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, OptionCoverage};

use super::{ConfiguredKey, Format, Keys, KeysError, Secret};

/// Everything read from one file or one `--key`.
///
/// The keys may contradict each other; `wireseal keys check` reports that.
#[derive(Clone, Debug)]
pub struct KeyFile {
    /// The format of the file; `None` for a `--key`.
    pub format: Option<Format>,
    /// Its chains, in order.
    pub chains: Vec<Chain>,
    /// Warnings for standard error: who else can read the secrets.
    pub warnings: Vec<String>,
}

/// A list of keys for some peers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chain {
    /// Its name, for BIRD that of the protocol; empty if the text has none.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// By how many seconds every accept lifetime is extended at each end.
    pub accept_tolerance: u32,
    /// The peers that use it; empty if the text does not say.
    pub peers: Vec<IpCidr>,
    /// Its keys, in order.
    pub keys: Vec<ChainKey>,
    /// Whether it belongs to a BIRD protocol without `authentication ao`, where BIRD refuses keys.
    pub lacks_authentication: bool,
}

/// A key of a chain.
#[derive(Clone, PartialEq, Debug)]
pub struct ChainKey {
    /// Where it begins in the text, if known.
    pub position: Option<Position>,
    /// Its number in the chain.
    pub key_id: u64,
    /// The KeyID in segments that the configured end sends.
    pub send_id: KeyId,
    /// The KeyID in segments that the configured end accepts.
    pub recv_id: KeyId,
    /// KDF and MAC.
    pub algorithm: TcpAoAlgorithm,
    /// Octets of MAC, possibly an impossible number.
    pub mac_length: usize,
    /// Whether the MAC covers the other TCP options.
    pub options: OptionCoverage,
    /// The secret, of any length.
    pub secret: Secret,
    /// When the configured end may send with it.
    pub send: Lifetime,
    /// When the peer may send with it, before the chain's tolerance.
    pub accept: Lifetime,
    /// Its rank for sending, if the format has one.
    pub preference: Preference,
}

/// BIRD's rank of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preference {
    /// To send with, and to request from the peer.
    Preferred,
    /// Neither.
    #[default]
    Ordinary,
    /// Accepted, but not to send with.
    Deprecated,
}

impl KeyFile {
    /// The keys to check a capture against, each once for every peer of its chain. They may share ids.
    ///
    /// A send lifetime is cut to the accept lifetime if that does not cover it.
    ///
    /// # Errors
    /// [`KeysError::Unusable`] for a key that cannot be an MKT: its secret is empty or longer than 80 octets, or its MAC does not
    /// have 4 to 16 octets.
    pub fn keys(&self) -> Result<Keys, KeysError> {
        // Room for all: a list that grew would leave secrets behind.
        let count = self.chains.iter().map(|chain| chain.keys.len() * chain.peers.len().max(1)).sum();
        let mut keys = Vec::with_capacity(count);
        for chain in &self.chains {
            for chain_key in &chain.keys {
                let name = chain.name_of(chain_key);
                let key = chain_key.key().map_err(|(field, problem)| KeysError::Unusable {
                    name: name.clone(),
                    position: chain_key.position,
                    field,
                    problem,
                })?;
                let peers = chain.peers.iter().copied().map(Some);
                let anyone = chain.peers.is_empty().then_some(None);
                keys.extend(peers.chain(anyone).map(|peer| ConfiguredKey {
                    name: name.clone(),
                    key: key.clone(),
                    accept_tolerance: chain.accept_tolerance,
                    peer,
                }));
            }
        }
        Ok(Keys { keys })
    }
}

impl Chain {
    /// The name of one of its keys in reports.
    #[must_use]
    pub fn name_of(&self, key: &ChainKey) -> String {
        if self.name.is_empty() { key.key_id.to_string() } else { format!("{}/{}", self.name, key.key_id) }
    }

    /// When segments under one of its keys are accepted: the accept lifetime with tolerance.
    #[must_use]
    pub fn acceptance(&self, key: &ChainKey) -> Lifetime {
        key.accept.widened_by(self.accept_tolerance)
    }
}

impl ChainKey {
    /// Whether it is the same key, however written.
    #[must_use]
    pub fn is_same_key(&self, other: &Self) -> bool {
        let rest = |key: &Self| {
            let ids = (key.key_id, key.send_id, key.recv_id);
            (ids, key.algorithm, key.mac_length, key.options, key.send, key.accept, key.preference)
        };
        rest(self) == rest(other) && self.secret.expose() == other.secret.expose()
    }

    /// The key as an MKT with lifetimes, or the field that makes that impossible.
    pub(super) fn key(&self) -> Result<Key, (&'static str, Problem)> {
        let master_key =
            MasterKey::new(self.secret.expose()).map_err(|error| ("secret", Problem::Mkt(error)))?;
        let mkt = Mkt::with_short_master_key(self.send_id, self.recv_id, self.algorithm, master_key)
            .map_err(|error| ("algorithm", Problem::Mkt(error)))?
            .with_mac_length(self.mac_length)
            .map_err(|error| ("MAC length", Problem::Mkt(error)))?
            .with_options(self.options);
        Key::new(self.key_id, mkt)
            .with_lifetimes(common(self.send, self.accept).unwrap_or(self.accept), self.accept)
            .map_err(|problem| ("accept lifetime", problem))
    }
}

/// The overlap of two lifetimes.
fn common(one: Lifetime, other: Lifetime) -> Option<Lifetime> {
    let until = match (one.until(), other.until()) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    Lifetime::new(one.from().max(other.from()), until).ok()
}
