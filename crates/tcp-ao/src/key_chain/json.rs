//! Key chains in the JSON encoding (RFC 7951) of RFC 8177's YANG module with RFC 9648's additions for TCP-AO.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::{Zeroize, Zeroizing};

use crate::OptionCoverage;
use crate::key_chain::text::{
    self, FieldNames, KeyDraft, SecretText, has_short_secret, in_field, invalid, own_mac_length,
};
use crate::key_chain::{Key, KeyChain, KeyChainError, KeyChains, Lifetime, Position, Problem};

const NAMES: FieldNames = FieldNames {
    algorithm: "crypto-algorithm",
    secret: "keystring",
    hexadecimal_secret: "hexadecimal-string",
    mac_length: "wireseal:mac-length",
    accept: "accept-lifetime",
};

/// A leaf of YANG's type `empty`: `[null]` (RFC 7951 §6.9).
type Empty = [(); 1];

/// A member that may be left out. Unlike an `Option` it refuses null, which is not the value of any leaf (RFC 7951 §6): a
/// lifetime with an end of null would never end.
struct Member<T>(Option<T>);

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with ietf-key-chain:key-chains")]
struct Document {
    #[serde(rename = "ietf-key-chain:key-chains")]
    key_chains: Container,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case", expecting = "an object of key chains")]
struct Container {
    key_chain: Vec<JsonChain>,
    aes_key_wrap: Member<AesKeyWrap>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct AesKeyWrap {
    enable: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object that is a key chain")]
struct JsonChain {
    name: String,
    #[serde(default)]
    description: Member<String>,
    #[serde(default)]
    accept_tolerance: Member<AcceptTolerance>,
    #[serde(default)]
    key: Vec<JsonKey>,
    #[serde(rename = "last-modified-timestamp")]
    _last_modified_timestamp: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, expecting = "an object with a duration")]
struct AcceptTolerance {
    duration: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object that is a key")]
struct JsonKey {
    key_id: String,
    #[serde(default)]
    lifetime: JsonLifetimes,
    crypto_algorithm: String,
    key_string: KeyString,
    #[serde(rename = "ietf-tcp:authentication")]
    authentication: Authentication,
    #[serde(default, rename = "wireseal:mac-length")]
    mac_length: Member<i64>,
    #[serde(default, rename = "wireseal:allow-short-secret")]
    allow_short_secret: bool,
    #[serde(rename = "send-lifetime-active")]
    _send_lifetime_active: Option<IgnoredAny>,
    #[serde(rename = "accept-lifetime-active")]
    _accept_lifetime_active: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case", expecting = "an object with a key string")]
struct KeyString {
    keystring: Member<SecretText>,
    hexadecimal_string: Member<SecretText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with ao")]
struct Authentication {
    #[serde(default)]
    keychain: Member<String>,
    ao: Ao,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object with send-id and recv-id")]
struct Ao {
    send_id: i64,
    recv_id: i64,
    #[serde(default)]
    include_tcp_options: Member<bool>,
    #[serde(default)]
    accept_key_mismatch: bool,
    #[serde(rename = "r-next-key-id")]
    _r_next_key_id: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case", expecting = "an object of lifetimes")]
struct JsonLifetimes {
    send_accept_lifetime: Member<JsonLifetime>,
    send_lifetime: Member<JsonLifetime>,
    accept_lifetime: Member<JsonLifetime>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case", expecting = "an object that is a lifetime")]
struct JsonLifetime {
    always: Member<Empty>,
    start_date_time: Member<String>,
    no_end_time: Member<Empty>,
    duration: Member<u32>,
    end_date_time: Member<String>,
}

/// What is wrong with a lifetime that has, for instance, two ends, or a duration but no start.
const CONTRADICTORY: &str = "say once when it starts and once when it ends";

impl JsonLifetime {
    fn lifetime(&self) -> Result<Lifetime, Problem> {
        let timestamp = |Member(text): &Member<String>| {
            text.as_ref().map(|text| text.parse().map_err(Problem::Timestamp)).transpose()
        };
        let (from, until) = (timestamp(&self.start_date_time)?, timestamp(&self.end_date_time)?);
        match (self.always.0, from, self.no_end_time.0, self.duration.0, until) {
            (Some(_), None, None, None, None) => Ok(Lifetime::ALWAYS),
            (None, from, None, None, until) => Lifetime::new(from, until),
            (None, from, Some(_), None, None) => Lifetime::new(from, None),
            (None, Some(from), None, Some(seconds), None) => {
                Lifetime::new(Some(from), Some(from.later_by(seconds)))
            }
            _ => invalid(CONTRADICTORY),
        }
    }
}

impl JsonLifetimes {
    /// Send and accept lifetime. As in the YANG module, one that is left out is "always".
    fn lifetimes(&self) -> Result<(Lifetime, Lifetime), KeyChainError> {
        let read = |Member(lifetime): &Member<JsonLifetime>, field| {
            lifetime.as_ref().map_or(Ok(Lifetime::ALWAYS), JsonLifetime::lifetime).map_err(in_field(field))
        };
        let Self { send_accept_lifetime: both, send_lifetime: send, accept_lifetime: accept } = self;
        if both.0.is_none() {
            return Ok((read(send, "send-lifetime")?, read(accept, "accept-lifetime")?));
        }
        if send.0.is_some() || accept.0.is_some() {
            return invalid(CONTRADICTORY).map_err(in_field("lifetime"));
        }
        let both = read(both, "send-accept-lifetime")?;
        Ok((both, both))
    }
}

/// The YANG identity of an algorithm; those without one are in Wireseal's own module.
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
    own.map_or_else(|| text::parse_algorithm(text), Ok)
}

impl JsonKey {
    fn key(&self, chain: &str) -> Result<Key, KeyChainError> {
        let Ok(key_id) = self.key_id.parse() else {
            return invalid("not a number between 0 and 18446744073709551615").map_err(in_field("key-id"));
        };
        self.key_with_id(key_id, chain).map_err(|error| error.in_key(key_id))
    }

    fn key_with_id(&self, key_id: u64, chain: &str) -> Result<Key, KeyChainError> {
        let Authentication { keychain, ao } = &self.authentication;
        if keychain.0.as_ref().is_some_and(|name| name != chain) {
            return invalid("a key cannot refer to another key chain").map_err(in_field("keychain"));
        }
        if ao.accept_key_mismatch {
            return invalid("a protected peer's segments are never accepted without a matching key")
                .map_err(in_field("accept-key-mismatch"));
        }
        let (send, accept) = self.lifetime.lifetimes()?;
        let draft = KeyDraft {
            key_id,
            send_id: ao.send_id,
            recv_id: ao.recv_id,
            algorithm: parse_identity(&self.crypto_algorithm),
            secret: self.key_string.keystring.0.as_ref(),
            hexadecimal_secret: self.key_string.hexadecimal_string.0.as_ref(),
            mac_length: self.mac_length.0,
            options: match ao.include_tcp_options.0 {
                Some(false) => OptionCoverage::Excluded,
                Some(true) | None => OptionCoverage::Covered,
            },
            send,
            accept,
            allow_short_secret: self.allow_short_secret,
        };
        draft.into_key(&NAMES)
    }
}

impl KeyChains {
    /// Reads key chains in the JSON encoding (RFC 7951) of the YANG modules `ietf-key-chain` (RFC 8177) and `ietf-tcp`
    /// (RFC 9648) (feature `json`).
    ///
    /// Two members of a key are Wireseal's own, because the modules lack them: `wireseal:mac-length` (octets; default: the
    /// algorithm's) and `wireseal:allow-short-secret` (`true` accepts a secret shorter than the algorithm asks for). So are
    /// the identities `wireseal:linux-hmac-sha-256`, `wireseal:hmac-sha256-128` and `wireseal:kmac256-128`;
    /// `crypto-algorithm` takes any spelling of [`TcpAoAlgorithm`]. State that a device may add
    /// (`last-modified-timestamp`, `send-lifetime-active`, `accept-lifetime-active`, `r-next-key-id`) is ignored. Members
    /// that are not in the modules, `md5`, AES key wrap and `accept-key-mismatch` are refused.
    ///
    /// Every chain of the text must be for TCP-AO: each key needs a `key-string` and an `ietf-tcp:authentication` with
    /// `ao`. From a router's whole configuration, take only the chains that TCP sessions use.
    ///
    /// # Errors
    /// [`KeyChainError`] for the first thing that is wrong.
    pub fn from_json(text: &str) -> Result<Self, KeyChainError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let document: Document = serde_path_to_error::deserialize(&mut deserializer)
            .map_err(|error| refuse(error.inner(), Some(error.path().to_string())))?;
        deserializer.end().map_err(|error| refuse(&error, None))?;
        let Container { key_chain, aes_key_wrap } = document.key_chains;
        if aes_key_wrap.0.is_some_and(|wrap| wrap.enable) {
            return invalid("key strings wrapped with AES Key Wrap cannot be read")
                .map_err(in_field("aes-key-wrap"));
        }
        let chain = |JsonChain { name, description, accept_tolerance, key, .. }: JsonChain| {
            let tolerance = accept_tolerance.0.unwrap_or_default().duration;
            text::chain(&name, description.0, tolerance, key.iter().map(|key| key.key(&name)))
        };
        Self::new(key_chain.into_iter().map(chain).collect::<Result<_, _>>()?)
    }

    /// Writes the key chains, secrets included, as [`Self::from_json`] reads them.
    #[must_use]
    pub fn to_json(&self) -> Zeroizing<String> {
        let mut document = Value::Null;
        document["ietf-key-chain:key-chains"]["key-chain"] = self.chains().iter().map(chain_value).collect();
        let text = text::written(self, |text| write!(text, "{document:#}"));
        wipe(&mut document);
        text
    }
}

// `json!` clones the values in it, so no secret passes through it: only the document is wiped.
fn chain_value(chain: &KeyChain) -> Value {
    let mut value = json!({"name": chain.name()});
    if let Some(description) = chain.description() {
        value["description"] = description.into();
    }
    if chain.accept_tolerance() != 0 {
        value["accept-tolerance"] = json!({"duration": chain.accept_tolerance()});
    }
    value["key"] = chain.keys().iter().map(key_value).collect();
    value
}

fn key_value(key: &Key) -> Value {
    let (mkt, parameters) = (key.mkt(), key.mkt().parameters());
    let (send, accept) = (key.send_lifetime(), key.accept_lifetime());
    let mut value = json!({
        "key-id": key.key_id().to_string(),
        "lifetime": if send == accept {
            json!({"send-accept-lifetime": lifetime_value(send)})
        } else {
            json!({"send-lifetime": lifetime_value(send), "accept-lifetime": lifetime_value(accept)})
        },
        "crypto-algorithm": identity(parameters.algorithm),
        "ietf-tcp:authentication": {"ao": {
            "send-id": mkt.send_id().0,
            "recv-id": mkt.recv_id().0,
            "include-tcp-options": parameters.options == OptionCoverage::Covered,
        }},
    });
    let secret = &mut value["key-string"];
    match text::printable(mkt.master_key()) {
        Some(text) => secret["keystring"] = text.into(),
        None => secret["hexadecimal-string"] = text::hexadecimal(mkt.master_key(), ":").as_str().into(),
    }
    if let Some(length) = own_mac_length(mkt) {
        value["wireseal:mac-length"] = length.into();
    }
    if has_short_secret(mkt) {
        value["wireseal:allow-short-secret"] = true.into();
    }
    value
}

fn lifetime_value(lifetime: &Lifetime) -> Value {
    let (from, until) = (lifetime.from(), lifetime.until());
    if from.is_none() && until.is_none() {
        return json!({"always": [null]});
    }
    let mut value = json!({});
    if let Some(from) = from {
        value["start-date-time"] = from.to_string().into();
    }
    match until {
        Some(until) => value["end-date-time"] = until.to_string().into(),
        None => value["no-end-time"] = json!([null]),
    }
    value
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
    text::refused(message, path, position)
}
