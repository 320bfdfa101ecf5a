//! Key chains as text, in any format that serde reads: secrets, numbers in their range, moments, keys and chains from their parts, and
//! Wireseal's own fields.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;

use base16ct::mixed;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::Zeroizing;

use crate::error::{Error, Fault, Problem};
use crate::{Key, KeyChain, KeyChains, Lifetime, ParseTimestampError, Timestamp};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, MktError, OptionCoverage};

/// An optional field. Unlike an `Option` it refuses null, which no field can have (RFC 7951 §6): a lifetime with an end of null would never
/// end.
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

/// A whole number of any size, so that an error can name one that is too large.
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

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Whole, E> {
                Ok(Whole(number.into()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number.into()))
            }

            fn visit_i128<E: de::Error>(self, number: i128) -> Result<Whole, E> {
                Ok(Whole(number))
            }
        }

        deserializer.deserialize_i64(Number)
    }
}

impl Whole {
    /// The number, if it is in this range, all of which `T` can hold.
    pub(super) fn within<T: TryFrom<u64>>(self, range: RangeInclusive<u64>) -> Result<T, Error> {
        let number = u64::try_from(self.0).ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or(Problem::OutOfRange { min: *range.start(), max: *range.end() }.into())
    }
}

/// The name that the `toml` crate gives to a date and time.
pub(super) const TOML_DATE_AND_TIME: &str = "$__toml_private_datetime";
const DATE_AND_TIME: &str = "a date and time such as 2026-11-20T10:00:00Z";

/// A moment: text as in RFC 3339, or what the `toml` crate gives for a date and time.
#[derive(Clone, Copy)]
pub(super) struct Moment(Option<Timestamp>);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DateAndTime;

        impl<'de> Visitor<'de> for DateAndTime {
            type Value = Moment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(DATE_AND_TIME)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
                // In TOML, seconds are optional.
                let whole = || text.split_at_checked("2026-11-20T10:00".len());
                let with_seconds = || whole().map(|(minutes, offset)| format!("{minutes}:00{offset}"));
                let parsed = text.parse().ok();
                Ok(Moment(parsed.or_else(|| with_seconds()?.parse().ok())))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Moment, A::Error> {
                match map.next_key::<String>()?.as_deref() {
                    Some(TOML_DATE_AND_TIME) => self.visit_str(&map.next_value::<String>()?),
                    _ => Err(de::Error::custom(format_args!("expected {DATE_AND_TIME}"))),
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
        // A value of another type may be a secret, too, so the error does not show it.
        let text = String::deserialize(deserializer).map_err(|_| de::Error::custom("expected a string"))?;
        Ok(Self(Zeroizing::new(text)))
    }
}

impl SecretText {
    /// Reads the octets of ASCII text.
    fn ascii(&self) -> Result<MasterKey, Error> {
        if !self.0.is_ascii() {
            return invalid("the secret has characters outside ASCII; give its octets as hexadecimal digits");
        }
        MasterKey::new(self.0.as_bytes()).map_err(unusable)
    }

    /// Reads hexadecimal digits, with or without a colon after each pair as in YANG's `hex-string` (RFC 6991).
    fn hexadecimal(&self) -> Result<MasterKey, Error> {
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
            Ok(octets) => MasterKey::new(octets).map_err(unusable),
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
    /// The field that permits a short secret.
    pub(super) allow_short_secret: &'static str,
}

/// A key as read, not yet checked.
pub(super) struct KeyDraft<'a> {
    pub(super) key_id: u64,
    pub(super) send_id: Whole,
    pub(super) recv_id: Whole,
    pub(super) algorithm: Result<TcpAoAlgorithm, Error>,
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
    pub(super) fn into_key(self, names: &FieldNames) -> Result<Key, Error> {
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
                return Err(Error::text(names));
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
                Error::from(Problem::SecretTooShort { error, accepted_by }).field(field)
            }
            // The algorithm is not built in.
            _ => unusable(error).field(names.algorithm),
        })?;
        if let Some(length) = self.mac_length {
            const LENGTHS: RangeInclusive<u64> =
                TcpAoAlgorithm::MIN_MAC_LENGTH as u64..=TcpAoAlgorithm::MAX_MAC_LENGTH as u64;
            mkt = length
                .within(LENGTHS)
                .and_then(|length| mkt.with_mac_length(length).map_err(unusable))
                .map_err(in_field(names.mac_length))?;
        }
        Key::new(self.key_id, mkt.with_options(self.options))
            .with_lifetimes(self.send, self.accept)
            .map_err(in_field(names.accept))
    }
}

/// A lifetime from its ends; errors name the fields.
pub(super) fn lifetime([from, until]: [(Option<Moment>, &'static str); 2]) -> Result<Lifetime, Error> {
    let read = |(moment, field): (Option<Moment>, &'static str)| {
        let checked = |Moment(moment)| {
            Some(moment.ok_or_else(|| Error::from(Problem::Timestamp(ParseTimestampError)).field(field)))
        };
        moment.and_then(checked).transpose()
    };
    Lifetime::new(read(from)?, read(until)?).map_err(in_field(until.1))
}

/// A key, and whether the text gives its key id and its RecvID. Both may be its SendID by default.
pub(super) struct ReadKey {
    pub(super) key: Key,
    pub(super) has_key_id: bool,
    pub(super) has_recv_id: bool,
}

/// Whether keys of a chain may share ids. [`KeyChains`] refuses that; `wireseal keys check` reports each case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Collide {
    #[cfg(feature = "formats")]
    Yes,
    No,
}

/// A chain from its parts, or an error that names the chain and, if a key is at fault, the key.
pub(super) fn chain(
    name: String,
    description: Option<String>,
    accept_tolerance: Result<u32, Error>,
    preferred: Option<Whole>,
    keys: impl ExactSizeIterator<Item = Result<ReadKey, Error>>,
    may: Collide,
) -> Result<KeyChain, Fault> {
    let in_chain = |error: Error, key| error.in_chain(&name).of(None, key);
    let accept_tolerance = accept_tolerance.map_err(|error| in_chain(error, None))?;
    let preferred = preferred.map(|key_id| key_id.within(0..=u64::MAX)).transpose();
    let preferred = preferred.map_err(|error| in_chain(error.field("preferred"), None))?;
    // Allocate for all keys: a list that grew, or was emptied into another, would leave secrets behind.
    let (mut read, mut given) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
    for (index, key) in keys.enumerate() {
        let ReadKey { key, has_key_id, has_recv_id } = key.map_err(|error| in_chain(error, Some(index)))?;
        read.push(key);
        given.push((has_key_id, has_recv_id));
    }
    let chain = KeyChain::unchecked(name, description, accept_tolerance, preferred, read);
    if may != Collide::No && !chain.keys().is_empty() {
        return chain.with_known_preferred();
    }
    chain.checked().map_err(|mut fault| {
        let (has_key_id, has_recv_id) = fault.key.map_or((true, true), |index| given[index]);
        let field = &mut fault.error.0.field;
        match field.as_deref() {
            Some("key-id") if !has_key_id => *field = Some("send-id".into()),
            Some("recv-id") if !has_recv_id => *field = Some("send-id".into()),
            _ => {}
        }
        fault
    })
}

/// An error about a value of the text.
pub(super) fn invalid<T>(message: &'static str) -> Result<T, Error> {
    Err(Error::text(message))
}

/// A `map_err` that names the field of a problem.
pub(super) fn in_field(field: &'static str) -> impl Fn(Error) -> Error {
    move |error| error.field(field)
}

fn unusable(error: MktError) -> Error {
    Problem::Mkt(error).into()
}

/// An algorithm in any spelling of [`TcpAoAlgorithm`].
pub(super) fn parse_algorithm(text: &str) -> Result<TcpAoAlgorithm, Error> {
    TcpAoAlgorithm::from_str(text).map_err(|error| Problem::Algorithm(error).into())
}

/// The field names of Wireseal's own format.
const NAMES: FieldNames = FieldNames {
    algorithm: "algorithm",
    secret: "secret",
    hexadecimal_secret: "secret-hex",
    mac_length: "mac-length",
    accept: "accept",
    allow_short_secret: "allow-short-secret = true",
};

/// A chain whose keys are checked together with it, or were checked before.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table that is a key chain")]
pub(super) struct ChainFields<K> {
    name: String,
    #[serde(default)]
    description: Member<String>,
    #[serde(default)]
    accept_tolerance: Member<Whole>,
    #[serde(default)]
    preferred: Member<Whole>,
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
    pub(super) fn read(&self) -> Result<ReadKey, Error> {
        // Without a key id (RFC 8177), the SendID is the key id.
        let key_id = match self.key_id.0 {
            Some(key_id) => key_id.within(0..=u64::MAX).map_err(in_field("key-id"))?,
            None => self.send_id.within(0..=u64::MAX).unwrap_or_default(),
        };
        let key = self.key(key_id).map_err(|error| error.in_key(key_id))?;
        Ok(ReadKey { key, has_key_id: self.key_id.0.is_some(), has_recv_id: self.recv_id.0.is_some() })
    }

    fn key(&self, key_id: u64) -> Result<Key, Error> {
        let options = match self.options.0.as_deref() {
            None | Some("covered") => OptionCoverage::Covered,
            Some("excluded") => OptionCoverage::Excluded,
            Some(_) => return invalid("neither \"covered\" nor \"excluded\"").map_err(in_field("options")),
        };
        let end = |table: &Member<LifetimeFields>, name, default: Lifetime| match &table.0 {
            Some(LifetimeFields { from, until }) => {
                lifetime([(from.0, "from"), (until.0, "until")]).map_err(|error| error.within(name))
            }
            None => Ok(default),
        };
        let send = end(&self.send, "send", Lifetime::ALWAYS)?;
        let accept = end(&self.accept, "accept", send)?;
        let draft = KeyDraft {
            key_id,
            send_id: self.send_id,
            recv_id: self.recv_id.0.unwrap_or(self.send_id),
            algorithm: parse_algorithm(&self.algorithm),
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
    /// The chain, or an error that names it and, if a key is at fault, the key.
    pub(super) fn read(
        self,
        key: impl Fn(&K) -> Result<ReadKey, Error>,
        may: Collide,
    ) -> Result<KeyChain, Fault> {
        let tolerance = self.accept_tolerance.0.map_or(Ok(0), |seconds| seconds.within(0..=u32::MAX.into()));
        let tolerance = tolerance.map_err(in_field("accept-tolerance"));
        chain(self.name, self.description.0, tolerance, self.preferred.0, self.key.iter().map(key), may)
    }
}

/// The fields of a key, checked when it is read, so that an error has the key's place. A list of the keys themselves would leave secrets
/// behind as it grows.
struct CheckedFields(KeyFields);

impl<'de> Deserialize<'de> for CheckedFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = KeyFields::deserialize(deserializer)?;
        fields.read().map_err(de::Error::custom)?;
        Ok(Self(fields))
    }
}

/// Reads a key of [`KeyChains::from_toml`]'s fields from any format (feature `serde`).
impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        KeyFields::deserialize(deserializer)?.read().map(|read| read.key).map_err(de::Error::custom)
    }
}

/// Reads a key chain of [`KeyChains::from_toml`]'s fields from any format (feature `serde`).
impl<'de> Deserialize<'de> for KeyChain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = ChainFields::<CheckedFields>::deserialize(deserializer)?;
        fields
            .read(|CheckedFields(key)| key.read(), Collide::No)
            .map_err(|fault| de::Error::custom(fault.error))
    }
}

/// Reads an array of key chains, of [`KeyChains::from_toml`]'s fields, from any format (feature `serde`): see
/// [In a configuration file of your own](crate#in-a-configuration-file-of-your-own).
impl<'de> Deserialize<'de> for KeyChains {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Vec::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
