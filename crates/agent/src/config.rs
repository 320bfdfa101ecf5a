//! The configuration as it is carried out.

use wireseal_linux::{KeyManager, PeerName};
use wireseal_tcp_ao::key_chain::KeyChain;

use crate::ConfigError;

/// What happens when the program sets TCP-MD5 keys (RFC 2385) itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Md5 {
    /// The call fails with ENOPROTOOPT, as on a kernel without TCP-MD5.
    #[default]
    Refuse,
    /// The kernel decides. It refuses TCP-MD5 for peers that have TCP-AO keys.
    Leave,
}

/// Which peers have which keys, at which ports. Its `Display` shows what would be set on what, without secrets.
#[derive(Clone, Debug)]
pub struct Config {
    /// The peers, each with its key chain. Where networks overlap, the longest prefix decides.
    pub peers: Vec<(PeerName, KeyChain)>,
    /// The TCP ports that are protected: those that the program connects to and listens on. All others are left alone.
    pub ports: Vec<u16>,
    /// Whether listeners on these ports refuse all callers that have no keys. Otherwise only those that have keys must sign.
    pub refuse_others: bool,
    /// What happens to TCP-MD5.
    pub md5: Md5,
}

impl Config {
    /// Whether the kernel can carry it out, as far as can be known beforehand.
    ///
    /// # Errors
    /// [`ConfigError::Peers`] if peers overlap and share ids, or have an algorithm that Linux lacks.
    pub fn check_for_kernel(&self) -> Result<(), ConfigError> {
        Ok(KeyManager::default().set_peers(self.peers.iter().cloned())?)
    }
}
