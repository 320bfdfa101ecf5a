//! Key chains in Wireseal's own words, in any format that serde reads: a file in TOML, or a part of another file.

use alloc::string::String;
use alloc::vec::Vec;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::error::Fault;
use crate::text::{
    self, FieldNames, KeyDraft, Member, Moment, ReadKey, SecretText, Whole, in_field, invalid,
};
use crate::{Key, KeyChain, KeyChainError, KeyChains, Lifetime};
use wireseal_tcp_ao::OptionCoverage;

const NAMES: FieldNames = FieldNames {
    algorithm: "algorithm",
    secret: "secret",
    hexadecimal_secret: "secret-hex",
    mac_length: "mac-length",
    accept: "accept",
    allow_short_secret: "allow-short-secret = true",
};

/// A chain with keys that are checked together with it, or were before.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table that is a key chain")]
pub(super) struct ChainFields<K> {
    name: String,
    #[serde(default)]
    description: Member<String>,
    #[serde(default)]
    accept_tolerance: Member<Whole>,
    #[serde(default = "Vec::new")]
    key: Vec<K>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table that is a key")]
pub(super) struct KeyFields {
    #[serde(default)]
    key_id: Member<Whole>,
    send_id: Whole,
    #[serde(default)]
    recv_id: Member<Whole>,
    algorithm: String,
    #[serde(default)]
    secret: Member<SecretText>,
    #[serde(default)]
    secret_hex: Member<SecretText>,
    #[serde(default)]
    mac_length: Member<Whole>,
    #[serde(default)]
    options: Member<String>,
    #[serde(default)]
    send: Member<LifetimeFields>,
    #[serde(default)]
    accept: Member<LifetimeFields>,
    #[serde(default)]
    allow_short_secret: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { from = 2026-01-01T00:00:00Z }")]
struct LifetimeFields {
    #[serde(default)]
    from: Member<Moment>,
    #[serde(default)]
    until: Member<Moment>,
}

impl KeyFields {
    /// The key, or an error that names it and the field.
    pub(super) fn read(&self) -> Result<ReadKey, KeyChainError> {
        // RFC 8177's key id is the SendID if it is left out.
        let key_id = match self.key_id.0 {
            Some(key_id) => key_id.within(0..=u64::MAX).map_err(in_field("key-id"))?,
            None => self.send_id.within(0..=u64::MAX).unwrap_or_default(),
        };
        let key = self.key(key_id).map_err(|error| error.in_key(key_id))?;
        Ok(ReadKey { key, has_key_id: self.key_id.0.is_some(), has_recv_id: self.recv_id.0.is_some() })
    }

    fn key(&self, key_id: u64) -> Result<Key, KeyChainError> {
        let options = match self.options.0.as_deref() {
            None | Some("covered") => OptionCoverage::Covered,
            Some("excluded") => OptionCoverage::Excluded,
            Some(_) => return invalid("neither \"covered\" nor \"excluded\"").map_err(in_field("options")),
        };
        let lifetime = |table: &Member<LifetimeFields>, name, default: Lifetime| match &table.0 {
            Some(LifetimeFields { from, until }) => {
                text::lifetime([(from.0, "from"), (until.0, "until")]).map_err(|error| error.within(name))
            }
            None => Ok(default),
        };
        let send = lifetime(&self.send, "send", Lifetime::ALWAYS)?;
        let accept = lifetime(&self.accept, "accept", send)?;
        let draft = KeyDraft {
            key_id,
            send_id: self.send_id,
            recv_id: self.recv_id.0.unwrap_or(self.send_id),
            algorithm: text::parse_algorithm(&self.algorithm),
            secret: self.secret.0.as_ref(),
            hexadecimal_secret: self.secret_hex.0.as_ref(),
            mac_length: self.mac_length.0,
            options,
            send,
            accept,
            allow_short_secret: self.allow_short_secret,
        };
        draft.into_key(&NAMES)
    }
}

impl<K> ChainFields<K> {
    /// The chain, or an error that names it and says which key it is about.
    pub(super) fn read(self, key: impl Fn(&K) -> Result<ReadKey, KeyChainError>) -> Result<KeyChain, Fault> {
        let tolerance = self.accept_tolerance.0.map_or(Ok(0), |seconds| seconds.within(0..=u32::MAX.into()));
        let tolerance = tolerance.map_err(in_field("accept-tolerance"));
        text::chain(self.name, self.description.0, tolerance, self.key.iter().map(key))
    }
}

/// The fields of a key that can be read, so that the place of an error is the key's. A list of keys themselves would leave secrets
/// behind as it grows.
struct CheckedFields(KeyFields);

impl<'de> Deserialize<'de> for CheckedFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = KeyFields::deserialize(deserializer)?;
        fields.read().map_err(D::Error::custom)?;
        Ok(Self(fields))
    }
}

/// Reads a key of [`KeyChains::from_toml`]'s fields from any format (feature `serde`).
impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        KeyFields::deserialize(deserializer)?.read().map(|read| read.key).map_err(D::Error::custom)
    }
}

/// Reads a key chain of [`KeyChains::from_toml`]'s fields from any format (feature `serde`).
impl<'de> Deserialize<'de> for KeyChain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = ChainFields::<CheckedFields>::deserialize(deserializer)?;
        fields.read(|CheckedFields(key)| key.read()).map_err(|fault| D::Error::custom(fault.error))
    }
}

/// Reads an array of key chains, of [`KeyChains::from_toml`]'s fields, from any format (feature `serde`): see
/// [In a configuration file of your own](crate#in-a-configuration-file-of-your-own).
impl<'de> Deserialize<'de> for KeyChains {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Vec::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
