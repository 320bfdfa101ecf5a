//! What the formats share in reading: secrets as text, numbers in their range, moments, keys and chains from their parts.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;

use base16ct::mixed;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::Zeroizing;

use crate::error::Fault;
use crate::{Key, KeyChain, KeyChainError, Lifetime, ParseTimestampError, Problem, Timestamp};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, MktError, OptionCoverage};

/// A field that may be left out. Unlike an `Option` it refuses null, which is not the value of any field (RFC 7951 §6): a
/// lifetime with an end of null would never end.
pub(super) struct Member<T>(pub(super) Option<T>);

impl<T> Default for Member<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Member<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

/// A whole number of any size, so that one that is too large is named as such.
#[derive(Clone, Copy)]
pub(super) struct Whole(i128);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Whole, E> {
                Ok(Whole(number.into()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number.into()))
            }

            fn visit_i128<E: Error>(self, number: i128) -> Result<Whole, E> {
                Ok(Whole(number))
            }
        }

        deserializer.deserialize_i64(Number)
    }
}

impl Whole {
    /// The number if it is in this range, which its type holds.
    pub(super) fn within<T: TryFrom<u64>>(self, range: RangeInclusive<u64>) -> Result<T, Problem> {
        let number = u64::try_from(self.0).ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or(Problem::OutOfRange { min: *range.start(), max: *range.end() })
    }
}

/// The name under which the `toml` crate gives a date and time.
pub(super) const TOML_DATE_AND_TIME: &str = "$__toml_private_datetime";
const DATE_AND_TIME: &str = "a date and time such as 2026-11-20T10:00:00Z";

/// A moment: text as in RFC 3339, or what the `toml` crate gives for a date and time.
#[derive(Clone, Copy)]
pub(super) struct Moment(pub(super) Result<Timestamp, ParseTimestampError>);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DateAndTime;

        impl<'de> Visitor<'de> for DateAndTime {
            type Value = Moment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(DATE_AND_TIME)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Moment, E> {
                // TOML lets seconds be left out.
                let whole = || text.split_at_checked("2026-11-20T10:00".len());
                let with_seconds = || whole().map(|(minutes, offset)| format!("{minutes}:00{offset}"));
                Ok(Moment(
                    text.parse()
                        .or_else(|error| with_seconds().unwrap_or_default().parse().map_err(|_| error)),
                ))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Moment, A::Error> {
                match map.next_key::<String>()?.as_deref() {
                    Some(TOML_DATE_AND_TIME) => self.visit_str(&map.next_value::<String>()?),
                    _ => Err(A::Error::custom(format_args!("expected {DATE_AND_TIME}"))),
                }
            }
        }

        deserializer.deserialize_any(DateAndTime)
    }
}

/// A secret from the text, wiped on drop.
pub(super) struct SecretText(Zeroizing<String>);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // What stands in place of a text may be a secret, too.
        let text = String::deserialize(deserializer).map_err(|_| D::Error::custom("expected a string"))?;
        Ok(Self(Zeroizing::new(text)))
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
        if self.0.bytes().any(|octet| octet != b':' && !octet.is_ascii_hexdigit()) {
            return invalid(
                "has characters that are not hexadecimal digits; write the octets as \"6669\" or \"66:69\"",
            );
        }
        if self.0.contains(':') && self.0.split(':').any(|pair| pair.len() != 2) {
            return invalid(
                "has a colon within a pair of digits; write the octets as \"66:69\", or without colons",
            );
        }
        let mut digits = Zeroizing::new(Vec::with_capacity(self.0.len()));
        digits.extend(self.0.bytes().filter(|octet| *octet != b':'));
        let mut octets = Zeroizing::new(alloc::vec![0; digits.len() / 2]);
        match mixed::decode(digits.as_slice(), &mut octets) {
            Ok(octets) => MasterKey::new(octets).map_err(Problem::Mkt),
            Err(_) => invalid("has an odd number of hexadecimal digits; write two for each octet"),
        }
    }
}

/// The names of fields that differ between the formats.
pub(super) struct FieldNames {
    pub(super) algorithm: &'static str,
    pub(super) secret: &'static str,
    pub(super) hexadecimal_secret: &'static str,
    pub(super) mac_length: &'static str,
    pub(super) accept: &'static str,
    /// What lets a secret be short.
    pub(super) allow_short_secret: &'static str,
}

/// A key as read, not yet checked.
pub(super) struct KeyDraft<'a> {
    pub(super) key_id: u64,
    pub(super) send_id: Whole,
    pub(super) recv_id: Whole,
    pub(super) algorithm: Result<TcpAoAlgorithm, Problem>,
    pub(super) secret: Option<&'a SecretText>,
    pub(super) hexadecimal_secret: Option<&'a SecretText>,
    pub(super) mac_length: Option<Whole>,
    pub(super) options: OptionCoverage,
    pub(super) send: Lifetime,
    pub(super) accept: Lifetime,
    pub(super) allow_short_secret: bool,
}

impl KeyDraft<'_> {
    /// The key, or an error that names the field.
    pub(super) fn into_key(self, names: &FieldNames) -> Result<Key, KeyChainError> {
        let octet = |number: Whole, field| number.within(0..=u8::MAX.into()).map_err(in_field(field));
        let send_id = KeyId(octet(self.send_id, "send-id")?);
        let recv_id = KeyId(octet(self.recv_id, "recv-id")?);
        let algorithm = self.algorithm.map_err(in_field(names.algorithm))?;
        let (field, master_key) = match (self.secret, self.hexadecimal_secret) {
            (Some(secret), None) => (names.secret, secret.ascii()),
            (None, Some(secret)) => (names.hexadecimal_secret, secret.hexadecimal()),
            (secret, _) => {
                let both = if secret.is_some() { ", not both" } else { "" };
                let names = format!("give {} or {}{both}", names.secret, names.hexadecimal_secret);
                return Err(KeyChainError::new(Problem::Text(names.into())));
            }
        };
        let master_key = master_key.map_err(in_field(field))?;
        let mkt = if self.allow_short_secret {
            Mkt::with_short_master_key(send_id, recv_id, algorithm, master_key)
        } else {
            Mkt::new(send_id, recv_id, algorithm, master_key)
        };
        let mut mkt = mkt.map_err(|error| match error {
            MktError::MasterKeyTooShort { .. } => {
                let accepted_by = names.allow_short_secret;
                in_field(field)(Problem::SecretTooShort { error, accepted_by })
            }
            MktError::NotBuiltIn { .. } => in_field(names.algorithm)(Problem::Mkt(error)),
            _ => in_field(field)(Problem::Mkt(error)),
        })?;
        if let Some(length) = self.mac_length {
            const LENGTHS: RangeInclusive<u64> =
                TcpAoAlgorithm::MIN_MAC_LENGTH as u64..=TcpAoAlgorithm::MAX_MAC_LENGTH as u64;
            mkt = length
                .within(LENGTHS)
                .and_then(|length| mkt.with_mac_length(length).map_err(Problem::Mkt))
                .map_err(in_field(names.mac_length))?;
        }
        Key::new(self.key_id, mkt.with_options(self.options))
            .with_lifetimes(self.send, self.accept)
            .map_err(in_field(names.accept))
    }
}

/// A lifetime from its ends; errors name the fields.
pub(super) fn lifetime(
    [from, until]: [(Option<Moment>, &'static str); 2],
) -> Result<Lifetime, KeyChainError> {
    let read = |(moment, field): (Option<Moment>, _)| {
        moment.map(|Moment(moment)| moment.map_err(Problem::Timestamp).map_err(in_field(field))).transpose()
    };
    Lifetime::new(read(from)?, read(until)?).map_err(in_field(until.1))
}

/// A key and whether the text gives its key id and its RecvID, which may be its SendID by default.
pub(super) struct ReadKey {
    pub(super) key: Key,
    pub(super) has_key_id: bool,
    pub(super) has_recv_id: bool,
}

/// A chain from its parts, or an error that names the chain and, where it is about one, says which key.
pub(super) fn chain(
    name: String,
    description: Option<String>,
    accept_tolerance: Result<u32, KeyChainError>,
    keys: impl ExactSizeIterator<Item = Result<ReadKey, KeyChainError>>,
) -> Result<KeyChain, Fault> {
    let in_chain = |error: KeyChainError, key| error.in_chain(&name).at(None, key);
    let accept_tolerance = accept_tolerance.map_err(|error| in_chain(error, None))?;
    // Room for all: a list that grew would leave secrets behind, and so would one that was emptied into another.
    let (mut read, mut given) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
    for (index, key) in keys.enumerate() {
        let ReadKey { key, has_key_id, has_recv_id } = key.map_err(|error| in_chain(error, Some(index)))?;
        read.push(key);
        given.push((has_key_id, has_recv_id));
    }
    KeyChain::from_file(name, description, accept_tolerance, read).map_err(|mut fault| {
        let (has_key_id, has_recv_id) = fault.key.map_or((true, true), |index| given[index]);
        match fault.error.field.as_deref() {
            Some("key-id") if !has_key_id => fault.error.field = Some("send-id".into()),
            Some("recv-id") if !has_recv_id => fault.error.field = Some("send-id".into()),
            _ => {}
        }
        fault
    })
}

/// An error about a value of the text.
pub(super) fn invalid<T>(message: &'static str) -> Result<T, Problem> {
    Err(Problem::Text(message.into()))
}

/// A `map_err` that names the field of a problem.
pub(super) fn in_field(field: &'static str) -> impl Fn(Problem) -> KeyChainError {
    move |problem| KeyChainError::new(problem).field(field)
}

/// An algorithm in any spelling of [`TcpAoAlgorithm`].
pub(super) fn parse_algorithm(text: &str) -> Result<TcpAoAlgorithm, Problem> {
    TcpAoAlgorithm::from_str(text).map_err(Problem::Algorithm)
}
