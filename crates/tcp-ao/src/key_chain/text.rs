//! What the formats share: secrets as text, numbers in their range, chains from their parts, the parser's messages.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use base16ct::{lower, mixed};
use serde::de::{Deserialize, Deserializer};
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::Zeroizing;

use crate::key_chain::{Key, KeyChain, KeyChainError, KeyChains, Lifetime, Position, Problem};
use crate::{KeyId, MasterKey, Mkt, OptionCoverage};

/// A secret from the text, wiped on drop.
pub(super) struct SecretText(Zeroizing<String>);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

impl SecretText {
    /// Reads the octets of ASCII text.
    fn ascii(&self) -> Result<MasterKey, Problem> {
        if !self.0.is_ascii() {
            return invalid("the secret has characters outside ASCII; give its octets as hexadecimal digits");
        }
        MasterKey::new(self.0.as_bytes()).map_err(Problem::Mkt)
    }

    /// Reads hexadecimal digits, with or without a colon after each pair as in YANG's `hex-string` (RFC 6991).
    fn hexadecimal(&self) -> Result<MasterKey, Problem> {
        let has_odd_part = self.0.contains(':') && self.0.split(':').any(|pair| pair.len() != 2);
        let mut digits = Zeroizing::new(Vec::with_capacity(self.0.len()));
        digits.extend(self.0.bytes().filter(|octet| *octet != b':'));
        let mut octets = Zeroizing::new(alloc::vec![0; digits.len() / 2]);
        match mixed::decode(digits.as_slice(), &mut octets) {
            Ok(octets) if !has_odd_part => MasterKey::new(octets).map_err(Problem::Mkt),
            _ => invalid("not an even number of hexadecimal digits"),
        }
    }
}

/// A secret to write as text: printable ASCII without white space at either end.
pub(super) fn printable(master_key: &MasterKey) -> Option<&str> {
    let text = str::from_utf8(master_key.expose_secret()).ok()?;
    (text.bytes().all(|octet| matches!(octet, b' '..=b'~')) && text.trim() == text).then_some(text)
}

/// The hexadecimal digits of a secret, with a separator between the octets.
pub(super) fn hexadecimal(master_key: &MasterKey, separator: &str) -> Zeroizing<String> {
    let octets = master_key.expose_secret();
    let mut text = Zeroizing::new(String::with_capacity(octets.len() * (2 + separator.len())));
    let mut digits = Zeroizing::new([0; 2]);
    for (index, octet) in octets.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { separator });
        text.push_str(lower::encode_str(&[*octet], &mut *digits).expect("an octet has two digits"));
    }
    text
}

/// The names of fields that differ between the formats.
pub(super) struct FieldNames {
    pub(super) algorithm: &'static str,
    pub(super) secret: &'static str,
    pub(super) hexadecimal_secret: &'static str,
    pub(super) mac_length: &'static str,
    pub(super) accept: &'static str,
}

/// A key as read, not yet checked.
pub(super) struct KeyDraft<'a> {
    pub(super) key_id: u64,
    pub(super) send_id: i64,
    pub(super) recv_id: i64,
    pub(super) algorithm: Result<TcpAoAlgorithm, Problem>,
    pub(super) secret: Option<&'a SecretText>,
    pub(super) hexadecimal_secret: Option<&'a SecretText>,
    pub(super) mac_length: Option<i64>,
    pub(super) options: OptionCoverage,
    pub(super) send: Lifetime,
    pub(super) accept: Lifetime,
    pub(super) allow_short_secret: bool,
}

impl KeyDraft<'_> {
    /// The key, or an error that names the field.
    pub(super) fn into_key(self, names: &FieldNames) -> Result<Key, KeyChainError> {
        let send_id = KeyId(octet(self.send_id).map_err(in_field("send-id"))?);
        let recv_id = KeyId(octet(self.recv_id).map_err(in_field("recv-id"))?);
        let algorithm = self.algorithm.map_err(in_field(names.algorithm))?;
        let (field, master_key) = match (self.secret, self.hexadecimal_secret) {
            (Some(secret), None) => (names.secret, secret.ascii()),
            (None, Some(secret)) => (names.hexadecimal_secret, secret.hexadecimal()),
            _ => (names.secret, invalid("give one secret, either as text or as hexadecimal digits")),
        };
        let master_key = master_key.map_err(in_field(field))?;
        let mkt = if self.allow_short_secret {
            Ok(Mkt::with_short_master_key(send_id, recv_id, algorithm, master_key))
        } else {
            Mkt::new(send_id, recv_id, algorithm, master_key).map_err(Problem::Mkt)
        };
        let mut mkt = mkt.map_err(in_field(field))?;
        if let Some(length) = self.mac_length {
            mkt = octet(length)
                .and_then(|length| mkt.with_mac_length(length.into()).map_err(Problem::Mkt))
                .map_err(in_field(names.mac_length))?;
        }
        Key::new(self.key_id, mkt.with_options(self.options))
            .with_lifetimes(self.send, self.accept)
            .map_err(in_field(names.accept))
    }
}

/// A chain from its parts, or an error that names the chain.
pub(super) fn chain(
    name: &str,
    description: Option<String>,
    accept_tolerance: u32,
    keys: impl Iterator<Item = Result<Key, KeyChainError>>,
) -> Result<KeyChain, KeyChainError> {
    let keys = keys.collect::<Result<_, _>>().map_err(|error: KeyChainError| error.in_chain(name))?;
    let chain = KeyChain::new(name, keys)?.with_accept_tolerance(accept_tolerance)?;
    Ok(match description {
        Some(description) => chain.with_description(description),
        None => chain,
    })
}

/// A number between 0 and 255.
fn octet(got: i64) -> Result<u8, Problem> {
    u8::try_from(got).map_err(|_| Problem::OutOfRange { got, max: u8::MAX.into() })
}

/// An error about a value of the text.
pub(super) fn invalid<T>(message: &'static str) -> Result<T, Problem> {
    Err(Problem::Text(message.into()))
}

/// A `map_err` that names the field of a problem.
pub(super) fn in_field(field: &'static str) -> impl Fn(Problem) -> KeyChainError {
    move |problem| KeyChainError::new(problem).field(field)
}

/// Whether the secret is so short that it must be written with `allow-short-secret`.
pub(super) fn has_short_secret(mkt: &Mkt) -> bool {
    mkt.master_key().len() < mkt.parameters().algorithm.min_master_key_length()
}

/// The MAC length, unless it is the algorithm's default.
pub(super) fn own_mac_length(mkt: &Mkt) -> Option<usize> {
    let parameters = mkt.parameters();
    (parameters.mac_length() != parameters.algorithm.default_mac_length()).then_some(parameters.mac_length())
}

/// An algorithm in any spelling of [`TcpAoAlgorithm`].
pub(super) fn parse_algorithm(text: &str) -> Result<TcpAoAlgorithm, Problem> {
    TcpAoAlgorithm::from_str(text).map_err(Problem::Algorithm)
}

/// Writes chains into a buffer that is large enough from the start: one that grew would leave secrets behind.
pub(super) fn written(
    chains: &KeyChains,
    write: impl FnOnce(&mut String) -> fmt::Result,
) -> Zeroizing<String> {
    // The most octets that a character is escaped to, and more than a key and the rest of a chain need.
    const ESCAPED: usize = 6;
    const KEY: usize = 3072;
    const CHAIN: usize = 512;
    let of_chain = |chain: &KeyChain| {
        let words = chain.name().len() + chain.description().map_or(0, str::len);
        words * ESCAPED + CHAIN + chain.keys().len() * KEY
    };
    let capacity = CHAIN + chains.chains().iter().map(of_chain).sum::<usize>();
    let mut text = Zeroizing::new(String::with_capacity(capacity));
    let capacity = text.capacity();
    write(&mut text).expect("a String takes every write");
    debug_assert_eq!(text.capacity(), capacity, "the buffer has moved and left secrets behind");
    text
}

/// The error for what a parser refused at `path`: its message without the values it met.
pub(super) fn refused(message: &str, path: Option<String>, position: Option<Position>) -> KeyChainError {
    let error = KeyChainError::new(Problem::Text(one_line(&without_value(message)).into())).at(position);
    match path {
        Some(path) if path != "." => error.field(one_line(&path)),
        _ => error,
    }
}

/// Replaces control characters, since an error is one line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Keeps of serde's `invalid type: string "hunter2", expected a sequence` only what was expected and the kind of the value.
fn without_value(message: &str) -> String {
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match rest.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            let expected = match expected {
                "i64" => "a whole number",
                "u32" => "a whole number between 0 and 4294967295",
                "u64" => "a whole number of 0 or more",
                other => other,
            };
            let kind = found.split(['`', '"']).next().unwrap_or_default().trim_end();
            format!("expected {expected}, found {kind}")
        }
        None => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_out_of_what_serde_says() {
        let said = r#"invalid type: string "a`b", expected c", expected a sequence"#;
        assert_eq!(without_value(said), "expected a sequence, found string");
        assert_eq!(
            without_value("invalid value: integer `-1`, expected u64"),
            "expected a whole number of 0 or more, found integer"
        );
        assert_eq!(without_value("missing field `name`"), "missing field `name`");
    }
}
