//! Key chains in the JSON encoding (RFC 7951) of RFC 8177's YANG module with RFC 9648's additions for TCP-AO.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::{Zeroize, Zeroizing};

use crate::key_chain::text::{
    FieldNames, KeyDraft, SecretStyle, SecretText, has_short_secret, in_field, own_mac_length,
    parse_algorithm, refused, text_capacity,
};
use crate::key_chain::{Key, KeyChain, KeyChainError, KeyChains, Lifetime, Position, Problem, Timestamp};
use crate::{Mkt, OptionCoverage};

const NAMES: FieldNames = FieldNames {
    algorithm: "crypto-algorithm",
    text_secret: "keystring",
    hexadecimal_secret: "hexadecimal-string",
    mac_length: "wireseal:mac-length",
    accept: "accept-lifetime",
};

/// A leaf of YANG's type `empty`: `[null]` (RFC 7951 §6.9).
type Empty = [(); 1];

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "an object with ietf-key-chain:key-chains")]
struct Document {
    #[serde(rename = "ietf-key-chain:key-chains")]
    key_chains: Container,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object of key chains")]
struct Container {
    #[serde(default)]
    key_chain: Vec<JsonChain>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    aes_key_wrap: Option<AesKeyWrap>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct AesKeyWrap {
    #[serde(default)]
    enable: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object that is a key chain")]
struct JsonChain {
    name: String,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    accept_tolerance: Option<AcceptTolerance>,
    #[serde(default)]
    key: Vec<JsonKey>,
    #[serde(skip_serializing, rename = "last-modified-timestamp")]
    _last_modified_timestamp: Option<IgnoredAny>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "an object with a duration")]
struct AcceptTolerance {
    #[serde(default)]
    duration: u32,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object that is a key")]
struct JsonKey {
    key_id: String,
    #[serde(default)]
    lifetime: JsonLifetimes,
    crypto_algorithm: String,
    key_string: KeyString,
    #[serde(rename = "ietf-tcp:authentication")]
    authentication: Authentication,
    #[serde(
        default,
        deserialize_with = "present",
        rename = "wireseal:mac-length",
        skip_serializing_if = "Option::is_none"
    )]
    mac_length: Option<i64>,
    #[serde(
        default,
        deserialize_with = "present",
        rename = "wireseal:allow-short-secret",
        skip_serializing_if = "Option::is_none"
    )]
    allow_short_secret: Option<bool>,
    #[serde(skip_serializing, rename = "send-lifetime-active")]
    _send_lifetime_active: Option<IgnoredAny>,
    #[serde(skip_serializing, rename = "accept-lifetime-active")]
    _accept_lifetime_active: Option<IgnoredAny>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object with a key string")]
struct KeyString {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    keystring: Option<SecretText>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    hexadecimal_string: Option<SecretText>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "an object with ao")]
struct Authentication {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    keychain: Option<String>,
    ao: Ao,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object with send-id and recv-id")]
struct Ao {
    send_id: i64,
    recv_id: i64,
    #[serde(default = "included")]
    include_tcp_options: bool,
    #[serde(default, deserialize_with = "present", skip_serializing)]
    accept_key_mismatch: Option<bool>,
    #[serde(skip_serializing, rename = "r-next-key-id")]
    _r_next_key_id: Option<IgnoredAny>,
}

/// A member that is there; `null` is no value of a leaf (RFC 7951 §6), and must not pass for a member left out: a key
/// would live for ever for want of an end.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

const fn included() -> bool {
    true
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object of lifetimes")]
struct JsonLifetimes {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    send_accept_lifetime: Option<JsonLifetime>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    send_lifetime: Option<JsonLifetime>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    accept_lifetime: Option<JsonLifetime>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object that is a lifetime")]
struct JsonLifetime {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    always: Option<Empty>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    start_date_time: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    no_end_time: Option<Empty>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    duration: Option<u32>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    end_date_time: Option<String>,
}

impl JsonLifetime {
    fn lifetime(&self) -> Result<Lifetime, Problem> {
        let timestamp = |text: &String| text.parse::<Timestamp>().map_err(Problem::Timestamp);
        let from = self.start_date_time.as_ref().map(timestamp).transpose()?;
        let until = self.end_date_time.as_ref().map(timestamp).transpose()?;
        match (self.always, from, self.no_end_time, self.duration, until) {
            (Some(_), None, None, None, None) => Ok(Lifetime::ALWAYS),
            (None, from, None, None, until) => Lifetime::new(from, until),
            (None, from, Some(_), None, None) => Lifetime::new(from, None),
            (None, Some(from), None, Some(seconds), None) => {
                Lifetime::new(Some(from), Some(from.later_by(seconds)))
            }
            _ => Err(Problem::LifetimeContradictory),
        }
    }

    fn of(lifetime: &Lifetime) -> Self {
        if *lifetime == Lifetime::ALWAYS {
            return Self { always: Some([()]), ..Self::default() };
        }
        let end_date_time = lifetime.until().map(|until| until.to_string());
        Self {
            start_date_time: lifetime.from().map(|from| from.to_string()),
            no_end_time: end_date_time.is_none().then_some([()]),
            end_date_time,
            ..Self::default()
        }
    }
}

impl JsonLifetimes {
    /// Send and accept lifetime; either is "always" when it is absent, as in the YANG module.
    fn lifetimes(&self) -> Result<(Lifetime, Lifetime), KeyChainError> {
        let read = |lifetime: &Option<JsonLifetime>, field| {
            lifetime.as_ref().map_or(Ok(Lifetime::ALWAYS), JsonLifetime::lifetime).map_err(in_field(field))
        };
        if self.send_accept_lifetime.is_none() {
            return Ok((
                read(&self.send_lifetime, "send-lifetime")?,
                read(&self.accept_lifetime, "accept-lifetime")?,
            ));
        }
        if self.send_lifetime.is_some() || self.accept_lifetime.is_some() {
            return Err(in_field("lifetime")(Problem::LifetimeContradictory));
        }
        let both = read(&self.send_accept_lifetime, "send-accept-lifetime")?;
        Ok((both, both))
    }

    fn of(key: &Key) -> Self {
        let (send, accept) = (key.send_lifetime(), key.accept_lifetime());
        if send == accept {
            return Self { send_accept_lifetime: Some(JsonLifetime::of(send)), ..Self::default() };
        }
        Self {
            send_lifetime: Some(JsonLifetime::of(send)),
            accept_lifetime: Some(JsonLifetime::of(accept)),
            ..Self::default()
        }
    }
}

/// The YANG identity of an algorithm; those without one are in a module of Wireseal's own.
const fn identity(algorithm: TcpAoAlgorithm) -> &'static str {
    match algorithm {
        TcpAoAlgorithm::HmacSha1 => "ietf-key-chain:hmac-sha-1",
        TcpAoAlgorithm::Aes128Cmac => "ietf-tcp:aes-128",
        TcpAoAlgorithm::LinuxHmacSha256 => "wireseal:linux-hmac-sha-256",
        TcpAoAlgorithm::HmacSha256_128 => "wireseal:hmac-sha256-128",
        TcpAoAlgorithm::Kmac256_128 => "wireseal:kmac256-128",
    }
}

fn parse_identity(text: &str) -> Result<TcpAoAlgorithm, Problem> {
    let own = TcpAoAlgorithm::ALL.into_iter().find(|algorithm| identity(*algorithm) == text);
    own.map_or_else(|| parse_algorithm(text), Ok)
}

impl JsonKey {
    fn key(&self, chain: &str) -> Result<Key, KeyChainError> {
        let key_id = self.key_id.parse().map_err(|_| in_field("key-id")(Problem::KeyIdNotANumber))?;
        self.key_with_id(key_id, chain).map_err(|error| error.in_key(key_id))
    }

    fn key_with_id(&self, key_id: u64, chain: &str) -> Result<Key, KeyChainError> {
        let Authentication { keychain, ao } = &self.authentication;
        if keychain.as_ref().is_some_and(|name| name != chain) {
            return Err(in_field("keychain")(Problem::Refused("a key cannot refer to another key chain")));
        }
        if ao.accept_key_mismatch == Some(true) {
            let reason = "a protected peer's segments are never accepted without a matching key";
            return Err(in_field("accept-key-mismatch")(Problem::Refused(reason)));
        }
        let (send, accept) = self.lifetime.lifetimes()?;
        let draft = KeyDraft {
            key_id,
            send_id: ao.send_id,
            recv_id: ao.recv_id,
            algorithm: &self.crypto_algorithm,
            text_secret: self.key_string.keystring.as_ref(),
            hexadecimal_secret: self.key_string.hexadecimal_string.as_ref(),
            mac_length: self.mac_length,
            options: if ao.include_tcp_options { OptionCoverage::Covered } else { OptionCoverage::Excluded },
            send,
            accept,
            allow_short_secret: self.allow_short_secret == Some(true),
        };
        draft.into_key(parse_identity, &NAMES)
    }

    fn of(key: &Key) -> Self {
        let (mkt, parameters) = (key.mkt(), key.mkt().parameters());
        Self {
            key_id: key.key_id().to_string(),
            lifetime: JsonLifetimes::of(key),
            crypto_algorithm: identity(parameters.algorithm).to_owned(),
            key_string: KeyString::of(mkt),
            authentication: Authentication {
                keychain: None,
                ao: Ao {
                    send_id: mkt.send_id().0.into(),
                    recv_id: mkt.recv_id().0.into(),
                    include_tcp_options: parameters.options == OptionCoverage::Covered,
                    accept_key_mismatch: None,
                    _r_next_key_id: None,
                },
            },
            mac_length: own_mac_length(mkt).map(|length| length as i64),
            allow_short_secret: has_short_secret(mkt).then_some(true),
            _send_lifetime_active: None,
            _accept_lifetime_active: None,
        }
    }
}

impl KeyString {
    fn of(mkt: &Mkt) -> Self {
        match SecretStyle::of(mkt.master_key(), ":") {
            SecretStyle::Text(text) => Self { keystring: Some(text), hexadecimal_string: None },
            SecretStyle::Hexadecimal(digits) => Self { keystring: None, hexadecimal_string: Some(digits) },
        }
    }
}

impl JsonChain {
    fn chain(self) -> Result<KeyChain, KeyChainError> {
        let in_chain = |error: KeyChainError| error.in_chain(&self.name);
        let keys = self.key.iter().map(|key| key.key(&self.name)).collect::<Result<_, _>>();
        let chain = KeyChain::new(self.name.as_str(), keys.map_err(in_chain)?)?;
        let chain = chain.with_accept_tolerance(self.accept_tolerance.map_or(0, |it| it.duration))?;
        Ok(match self.description {
            Some(description) => chain.with_description(description),
            None => chain,
        })
    }

    fn of(chain: &KeyChain) -> Self {
        let tolerance = chain.accept_tolerance();
        Self {
            name: chain.name().to_owned(),
            description: chain.description().map(ToOwned::to_owned),
            accept_tolerance: (tolerance != 0).then_some(AcceptTolerance { duration: tolerance }),
            key: chain.keys().iter().map(JsonKey::of).collect(),
            _last_modified_timestamp: None,
        }
    }
}

impl KeyChains {
    /// Reads key chains in the JSON encoding (RFC 7951) of the YANG modules `ietf-key-chain` (RFC 8177) and `ietf-tcp`
    /// (RFC 9648) (feature `json`).
    ///
    /// Two members of a key are Wireseal's own, for what the modules lack: `wireseal:mac-length` (octets; default: the
    /// algorithm's) and `wireseal:allow-short-secret` (`true` takes a secret shorter than the algorithm asks for). So
    /// are the identities `wireseal:linux-hmac-sha-256`, `wireseal:hmac-sha256-128` and `wireseal:kmac256-128`;
    /// `crypto-algorithm` is read in any spelling of [`TcpAoAlgorithm`]. State that a device may have put into the text
    /// (`last-modified-timestamp`, `send-lifetime-active`, `accept-lifetime-active`, `r-next-key-id`) is passed over; any
    /// other member that is not in the modules, `md5`, AES key wrap and `accept-key-mismatch` are refused.
    ///
    /// Every chain of the text must be one for TCP-AO, each key with a `key-string` and an
    /// `ietf-tcp:authentication` with `ao`: of a router's whole configuration, take the chains that TCP sessions use.
    ///
    /// # Errors
    /// [`KeyChainError`] for the first thing that is wrong.
    pub fn from_json(text: &str) -> Result<Self, KeyChainError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let document: Document = serde_path_to_error::deserialize(&mut deserializer)
            .map_err(|error| refuse(error.inner(), Some(error.path().to_string())))?;
        deserializer.end().map_err(|error| refuse(&error, None))?;
        let Container { key_chain, aes_key_wrap } = document.key_chains;
        if aes_key_wrap.is_some_and(|it| it.enable) {
            let reason = "key strings wrapped with AES Key Wrap cannot be read";
            return Err(in_field("aes-key-wrap")(Problem::Refused(reason)));
        }
        Self::new(key_chain.into_iter().map(JsonChain::chain).collect::<Result<_, _>>()?)
    }

    /// Writes the key chains as [`Self::from_json`] reads them, secrets and all.
    #[must_use]
    pub fn to_json(&self) -> Zeroizing<String> {
        let key_chain = self.chains().iter().map(JsonChain::of).collect();
        let document = Document { key_chains: Container { key_chain, aes_key_wrap: None } };
        let mut value =
            serde_json::to_value(&document).expect("strings, numbers and objects have a JSON form");
        let mut text = Zeroizing::new(String::with_capacity(text_capacity(self)));
        let capacity = text.capacity();
        write!(text, "{value:#}").expect("a String takes every write");
        debug_assert_eq!(text.capacity(), capacity, "the buffer has moved and left secrets behind");
        wipe(&mut value);
        text
    }
}

fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(elements) => elements.iter_mut().for_each(wipe),
        Value::Object(members) => members.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn refuse(error: &serde_json::Error, path: Option<String>) -> KeyChainError {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let position =
        (error.line() > 0).then_some(Position { line: error.line(), column: error.column().max(1) });
    refused(message, path, position)
}
