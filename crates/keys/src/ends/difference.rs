//! How the two ends' versions of a key differ.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::OptionCoverage;

use crate::ChainKey;

/// A field that changes the MAC, so both ends must agree on it (RFC 5925 §3.1), with the two ends' values.
///
/// Ids and lifetimes are not included: an id selects a key, and a lifetime says when it is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Difference {
    /// The algorithm: KDF and MAC.
    Algorithm([TcpAoAlgorithm; 2]),
    /// The length of the MAC in octets.
    MacLength([usize; 2]),
    /// Whether the MAC covers the other TCP options.
    Options([OptionCoverage; 2]),
    /// The secret, which is never shown.
    Secret,
}

impl Difference {
    /// Every difference between the keys of two ends. Secrets of which one is [encrypted](crate::Secret::encryption) are not compared.
    #[must_use]
    pub fn between(one: &ChainKey, other: &ChainKey) -> Vec<Self> {
        let mut found = Vec::new();
        if one.algorithm != other.algorithm {
            found.push(Self::Algorithm([one.algorithm, other.algorithm]));
        }
        if one.mac_length != other.mac_length {
            found.push(Self::MacLength([one.mac_length, other.mac_length]));
        }
        if one.options != other.options {
            found.push(Self::Options([one.options, other.options]));
        }
        if Self::can_compare_secrets(one, other) && one.secret.expose() != other.secret.expose() {
            found.push(Self::Secret);
        }
        found
    }

    /// Whether both secrets are known.
    #[must_use]
    pub const fn can_compare_secrets(one: &ChainKey, other: &ChainKey) -> bool {
        one.secret.encryption().is_none() && other.secret.encryption().is_none()
    }

    /// Its kind in reports, such as `mac-length`.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Algorithm(_) => "algorithm",
            Self::MacLength(_) => "mac-length",
            Self::Options(_) => "options",
            Self::Secret => "secret",
        }
    }
}
