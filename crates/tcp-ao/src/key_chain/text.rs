//! What the formats share: secrets as text, numbers in their range, the parser's words without the values.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use base16ct::{lower, mixed};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::Zeroizing;

use crate::key_chain::{Key, KeyChainError, KeyChains, Lifetime, Position, Problem};
use crate::{KeyId, MasterKey, Mkt, OptionCoverage};

/// A secret as it stands in the text, wiped on drop.
pub(super) struct SecretText(pub(super) Zeroizing<String>);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SecretVisitor;

        impl Visitor<'_> for SecretVisitor {
            type Value = SecretText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SecretText, E> {
                self.visit_string(text.into())
            }

            fn visit_string<E: Error>(self, text: String) -> Result<SecretText, E> {
                Ok(SecretText(Zeroizing::new(text)))
            }
        }
        deserializer.deserialize_string(SecretVisitor)
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A secret in the style in which it is written: as text if its octets are printable ASCII without white space at
/// either end, otherwise in hexadecimal.
pub(super) enum SecretStyle {
    Text(SecretText),
    Hexadecimal(SecretText),
}

impl SecretStyle {
    /// The style of these octets; pairs of hexadecimal digits have `separator` between them.
    pub(super) fn of(master_key: &MasterKey, separator: &str) -> Self {
        let octets = master_key.expose_secret();
        let mut text = Zeroizing::new(String::with_capacity(octets.len() * (2 + separator.len())));
        let printable = octets.iter().all(|octet| matches!(octet, b' '..=b'~'));
        if printable && octets.first() != Some(&b' ') && octets.last() != Some(&b' ') {
            text.extend(octets.iter().map(|octet| char::from(*octet)));
            return Self::Text(SecretText(text));
        }
        let mut digits = Zeroizing::new([0; 2]);
        for (index, octet) in octets.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { separator });
            text.push_str(lower::encode_str(&[*octet], &mut *digits).expect("an octet has two digits"));
        }
        Self::Hexadecimal(SecretText(text))
    }
}

/// What a format calls the fields that formats name differently.
pub(super) struct FieldNames {
    pub(super) algorithm: &'static str,
    pub(super) text_secret: &'static str,
    pub(super) hexadecimal_secret: &'static str,
    pub(super) mac_length: &'static str,
    pub(super) accept: &'static str,
}

/// A key as read, before it has been checked.
pub(super) struct KeyDraft<'a> {
    pub(super) key_id: u64,
    pub(super) send_id: i64,
    pub(super) recv_id: i64,
    pub(super) algorithm: &'a str,
    pub(super) text_secret: Option<&'a SecretText>,
    pub(super) hexadecimal_secret: Option<&'a SecretText>,
    pub(super) mac_length: Option<i64>,
    pub(super) options: OptionCoverage,
    pub(super) send: Lifetime,
    pub(super) accept: Lifetime,
    pub(super) allow_short_secret: bool,
}

impl KeyDraft<'_> {
    /// The key, or an error that names its field.
    pub(super) fn into_key(
        self,
        parse_algorithm: impl Fn(&str) -> Result<TcpAoAlgorithm, Problem>,
        names: &FieldNames,
    ) -> Result<Key, KeyChainError> {
        let send_id = KeyId(octet(self.send_id).map_err(in_field("send-id"))?);
        let recv_id = KeyId(octet(self.recv_id).map_err(in_field("recv-id"))?);
        let algorithm = parse_algorithm(self.algorithm).map_err(in_field(names.algorithm))?;
        let (field, master_key) = self.master_key(names)?;
        let mkt = if self.allow_short_secret {
            Mkt::with_short_master_key(send_id, recv_id, algorithm, master_key)
        } else {
            Mkt::new(send_id, recv_id, algorithm, master_key)
                .map_err(Problem::Mkt)
                .map_err(in_field(field))?
        };
        let mkt = match self.mac_length {
            None => mkt,
            Some(length) => octet(length)
                .and_then(|length| mkt.with_mac_length(length.into()).map_err(Problem::Mkt))
                .map_err(in_field(names.mac_length))?,
        };
        Key::new(self.key_id, mkt.with_options(self.options))
            .with_lifetimes(self.send, self.accept)
            .map_err(in_field(names.accept))
    }

    fn master_key(&self, names: &FieldNames) -> Result<(&'static str, MasterKey), KeyChainError> {
        let (field, master_key) = match (self.text_secret, self.hexadecimal_secret) {
            (Some(secret), None) => (names.text_secret, text_secret(secret)),
            (None, Some(secret)) => (names.hexadecimal_secret, hexadecimal_secret(secret)),
            _ => (names.text_secret, Err(Problem::NotOneSecret)),
        };
        Ok((field, master_key.map_err(in_field(field))?))
    }
}

fn text_secret(SecretText(text): &SecretText) -> Result<MasterKey, Problem> {
    if !text.is_ascii() {
        return Err(Problem::SecretNotAscii);
    }
    MasterKey::new(text.as_bytes()).map_err(Problem::Mkt)
}

/// Digits with a colon after each pair, as YANG's `hex-string` (RFC 6991) has them, or without.
fn hexadecimal_secret(SecretText(text): &SecretText) -> Result<MasterKey, Problem> {
    let mut digits = Zeroizing::new(Vec::with_capacity(text.len()));
    if text.contains(':') {
        for pair in text.split(':') {
            if pair.len() != 2 {
                return Err(Problem::SecretNotHexadecimal);
            }
            digits.extend_from_slice(pair.as_bytes());
        }
    } else {
        digits.extend_from_slice(text.as_bytes());
    }
    let mut octets = Zeroizing::new(alloc::vec![0; digits.len() / 2]);
    let octets = mixed::decode(digits.as_slice(), &mut octets).map_err(|_| Problem::SecretNotHexadecimal)?;
    MasterKey::new(octets).map_err(Problem::Mkt)
}

/// A number between 0 and 255.
fn octet(value: i64) -> Result<u8, Problem> {
    u8::try_from(value).map_err(|_| Problem::OutOfRange { value, max: u8::MAX.into() })
}

/// A `map_err` that names the field of a problem.
pub(super) fn in_field(field: &'static str) -> impl Fn(Problem) -> KeyChainError {
    move |problem| KeyChainError::new(problem).field(field)
}

/// Whether the short secret of an MKT has to be asked for by name when it is read again.
pub(super) fn has_short_secret(mkt: &Mkt) -> bool {
    mkt.master_key().len() < mkt.parameters().algorithm.min_master_key_length()
}

/// The MAC length, unless it is the algorithm's default.
pub(super) fn own_mac_length(mkt: &Mkt) -> Option<usize> {
    let parameters = mkt.parameters();
    (parameters.mac_length != parameters.algorithm.default_mac_length()).then_some(parameters.mac_length)
}

/// An algorithm in any spelling of [`TcpAoAlgorithm`].
pub(super) fn parse_algorithm(text: &str) -> Result<TcpAoAlgorithm, Problem> {
    TcpAoAlgorithm::from_str(text).map_err(Problem::Algorithm)
}

/// More octets than the text of these chains takes, so that a buffer of that size never moves and leaves secrets behind.
pub(super) fn text_capacity(chains: &KeyChains) -> usize {
    const ESCAPED: usize = 6;
    const CHAIN_WITHOUT_WORDS: usize = 512;
    const KEY: usize = 3072;
    let of_chain = |chain: &crate::key_chain::KeyChain| {
        let words = chain.name().len() + chain.description().map_or(0, str::len);
        words * ESCAPED + CHAIN_WITHOUT_WORDS + chain.keys().len() * KEY
    };
    CHAIN_WITHOUT_WORDS + chains.chains().iter().map(of_chain).sum::<usize>()
}

/// The error for what a parser refused at `path`, in its words less the values it met.
pub(super) fn refused(message: &str, path: Option<String>, position: Option<Position>) -> KeyChainError {
    let error = KeyChainError::new(Problem::Text(one_line(&without_value(message)))).at(position);
    match path {
        Some(path) if path != "." => error.field(one_line(&path)),
        _ => error,
    }
}

/// A control character would break the promise that an error is one line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Of serde's "invalid type: string "hunter2", expected a sequence", only what was expected and of what kind the value was.
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
