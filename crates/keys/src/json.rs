//! Key chains in the JSON encoding (RFC 7951) of RFC 8177's YANG module with RFC 9648's additions for TCP-AO.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use serde::Deserialize;
#[cfg(feature = "formats")]
use serde::Deserializer;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, Fault, Problem};
use crate::text::{
    self, Collide, FieldNames, KeyDraft, Member, Moment, ReadKey, SecretText, Whole, in_field, invalid,
};
use crate::{Key, KeyChain, KeyChains, Lifetime, Position, place, write};
use wireseal_tcp_ao::OptionCoverage;

const NAMES: FieldNames = FieldNames {
    algorithm: "crypto-algorithm",
    secret: "keystring",
    hexadecimal_secret: "hexadecimal-string",
    mac_length: "wireseal:mac-length",
    accept: "accept-lifetime",
    allow_short_secret: "\"wireseal:allow-short-secret\": true",
};

/// A leaf of YANG's type `empty`: `[null]` (RFC 7951 §6.9).
type Empty = [(); 1];

/// A file, or what RESTCONF returns for a resource (RFC 8040 §4.3): the container, the list in it, or the whole datastore.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with ietf-key-chain:key-chains")]
struct Document {
    #[serde(default, rename = "ietf-key-chain:key-chains")]
    key_chains: Member<Container>,
    #[serde(default, rename = "ietf-key-chain:key-chain")]
    key_chain: Member<Vec<JsonChain>>,
    #[serde(default, alias = "ietf-restconf:data")]
    data: Member<Datastore>,
}

/// A datastore, with the data of other modules.
#[derive(Deserialize)]
#[serde(expecting = "an object with ietf-key-chain:key-chains")]
struct Datastore {
    #[serde(rename = "ietf-key-chain:key-chains")]
    key_chains: Container,
}

/// Key chains, and what is to be said of them.
#[cfg_attr(not(feature = "formats"), allow(dead_code, reason = "only what reads files says more"))]
pub(crate) struct Read {
    pub(crate) chains: KeyChains,
    /// The keys with `accept-key-mismatch`: which of the chains, and the key id.
    pub(crate) mismatched: Vec<(usize, u64)>,
    /// The keys that are not for TCP: which of the text's chains, and which of its keys. Only if keys may collide.
    pub(crate) skipped: Vec<(usize, usize)>,
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
    duration: Member<Whole>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "an object that is a key")]
struct JsonKey {
    key_id: String,
    #[serde(default)]
    lifetime: JsonLifetimes,
    crypto_algorithm: String,
    #[serde(default)]
    key_string: KeyString,
    #[serde(default, rename = "ietf-tcp:authentication")]
    authentication: Member<Authentication>,
    #[serde(default, rename = "wireseal:mac-length")]
    mac_length: Member<Whole>,
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
    send_id: Whole,
    recv_id: Whole,
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
    start_date_time: Member<Moment>,
    no_end_time: Member<Empty>,
    duration: Member<Whole>,
    end_date_time: Member<Moment>,
}

/// The fault of a lifetime that has, for instance, two ends, or a duration but no start.
const CONTRADICTORY: &str = "say once when it starts and once when it ends";

impl JsonLifetime {
    /// Errors name the field within `name`.
    fn lifetime(&self, name: &'static str) -> Result<Lifetime, Error> {
        let read = || {
            let seconds = self.duration.0.map(|duration| duration.within(0..=u32::MAX.into()));
            let seconds = seconds.transpose().map_err(in_field("duration"))?;
            let (from, until) = (self.start_date_time.0, self.end_date_time.0);
            let read = |until| text::lifetime([(from, "start-date-time"), (until, "end-date-time")]);
            match (self.always.0, from, self.no_end_time.0, seconds, until) {
                (Some(_), None, None, None, None) => Ok(Lifetime::ALWAYS),
                (None, _, None, None, until) => read(until),
                (None, _, Some(_), None, None) => read(None),
                (None, Some(_), None, Some(seconds), None) => {
                    let from = read(None)?.from();
                    Lifetime::new(from, from.map(|from| from.later_by(seconds))).map_err(in_field("duration"))
                }
                _ => invalid(CONTRADICTORY),
            }
        };
        read().map_err(|error: Error| error.within(name))
    }
}

impl JsonLifetimes {
    /// Send and accept lifetime. As in the YANG module, a missing one is "always".
    fn lifetimes(&self) -> Result<(Lifetime, Lifetime), Error> {
        let read = |Member(lifetime): &Member<JsonLifetime>, name| {
            lifetime.as_ref().map_or(Ok(Lifetime::ALWAYS), |lifetime| lifetime.lifetime(name))
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

/// The YANG identity of an algorithm; those that the standard modules lack are in Wireseal's own.
const fn identity(algorithm: TcpAoAlgorithm) -> &'static str {
    match algorithm {
        TcpAoAlgorithm::HmacSha1 => "ietf-key-chain:hmac-sha-1",
        TcpAoAlgorithm::Aes128Cmac => "ietf-tcp:aes-128",
        TcpAoAlgorithm::LinuxHmacSha256 => "wireseal:linux-hmac-sha-256",
        TcpAoAlgorithm::HmacSha256_128 => "wireseal:hmac-sha256-128",
        TcpAoAlgorithm::Kmac256_128 => "wireseal:kmac256-128",
    }
}

/// Reads an identity, with or without its module.
fn parse_identity(text: &str) -> Result<TcpAoAlgorithm, Error> {
    let is_named = |algorithm: &TcpAoAlgorithm| {
        let identity = identity(*algorithm);
        identity == text || identity.split_once(':').is_some_and(|(_, name)| name == text)
    };
    let own = TcpAoAlgorithm::ALL.into_iter().find(is_named);
    own.map_or_else(|| text::parse_algorithm(text), Ok)
}

impl JsonKey {
    fn key(&self, chain: &str, may: Collide) -> Result<ReadKey, Error> {
        let Ok(key_id) = self.key_id.parse() else {
            let out_of_range = Problem::OutOfRange { min: 0, max: u64::MAX };
            return Err(Error::from(out_of_range).field("key-id"));
        };
        let key = self.key_with_id(key_id, chain, may).map_err(|error| error.in_key(key_id))?;
        Ok(ReadKey { key, has_key_id: true, has_recv_id: true })
    }

    fn key_with_id(&self, key_id: u64, chain: &str, may: Collide) -> Result<Key, Error> {
        let Some(Authentication { keychain, ao }) = &self.authentication.0 else {
            return invalid("missing field `ietf-tcp:authentication`");
        };
        if keychain.0.as_ref().is_some_and(|name| name != chain) {
            return invalid("a key cannot refer to another key chain").map_err(in_field("keychain"));
        }
        if ao.accept_key_mismatch && may == Collide::No {
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

impl Container {
    fn read(self, may: Collide) -> Result<Read, Fault> {
        let Self { key_chain, aes_key_wrap } = self;
        if aes_key_wrap.0.is_some_and(|wrap| wrap.enable) {
            let error = Error::text("key strings wrapped with AES Key Wrap cannot be read");
            return Err(error.field("aes-key-wrap").of(None, None));
        }
        let (mut mismatched, mut skipped, mut indices) = (Vec::new(), Vec::new(), Vec::new());
        let chain = |(index, chain): (usize, JsonChain)| {
            let JsonChain { name, description, accept_tolerance, key: all, .. } = chain;
            let is_read = |key: &JsonKey| may == Collide::No || key.authentication.0.is_some();
            let (keys, others): (Vec<_>, Vec<_>) = (0..all.len()).partition(|key| is_read(&all[*key]));
            skipped.extend(others.iter().map(|key| (index, *key)));
            if keys.is_empty() && !others.is_empty() {
                return None;
            }
            let mismatch =
                |key: &JsonKey| key.authentication.0.as_ref().is_some_and(|tcp| tcp.ao.accept_key_mismatch);
            let with_mismatch = keys.iter().map(|key| &all[*key]).filter(|key| mismatch(key));
            let place = indices.len();
            mismatched.extend(with_mismatch.filter_map(|key| Some((place, key.key_id.parse().ok()?))));
            indices.push(index);
            let tolerance = accept_tolerance.0.unwrap_or_default().duration.0;
            let tolerance = tolerance.map_or(Ok(0), |seconds| seconds.within(0..=u32::MAX.into()));
            let tolerance = tolerance.map_err(in_field("accept-tolerance.duration"));
            let read = keys.iter().map(|key| all[*key].key(&name, may));
            let chain = text::chain(name.clone(), description.0, tolerance, None, read, may);
            Some(chain.map_err(|fault| Fault { key: fault.key.map(|key| keys[key]), ..fault }))
        };
        let chains = place::chains(key_chain.into_iter().enumerate().filter_map(chain));
        let chains =
            chains.map_err(|fault| Fault { chain: fault.chain.map(|chain| indices[chain]), ..fault })?;
        Ok(Read { chains, mismatched, skipped })
    }
}

/// Reads the members of `ietf-key-chain:key-chains` in another encoding. The fault has no place yet.
#[cfg(feature = "formats")]
pub(crate) fn read_container<'de, D: Deserializer<'de>>(
    deserializer: D,
    may: Collide,
) -> Result<Read, Fault> {
    let container: Result<Container, _> = serde_path_to_error::deserialize(deserializer);
    let refused = |error: serde_path_to_error::Error<D::Error>| {
        Fault::refused(&error.inner().to_string(), Some(error.path()))
    };
    container.map_err(refused)?.read(may)
}

impl KeyChains {
    /// Reads key chains in the JSON encoding (RFC 7951) of the YANG modules `ietf-key-chain` (RFC 8177) and `ietf-tcp` (RFC 9648) (feature
    /// `json`).
    ///
    /// Two members of a key are Wireseal's own, because the modules lack them: `wireseal:mac-length` (octets; default: the algorithm's) and
    /// `wireseal:allow-short-secret` (`true` accepts a secret shorter than the algorithm requires). So are the identities
    /// `wireseal:linux-hmac-sha-256`, `wireseal:hmac-sha256-128` and `wireseal:kmac256-128`; `crypto-algorithm` accepts any spelling of
    /// [`TcpAoAlgorithm`]. State that a device may add (`last-modified-timestamp`, `send-lifetime-active`, `accept-lifetime-active`,
    /// `r-next-key-id`) is ignored. Members that are not in the modules, `md5`, AES key wrap and `accept-key-mismatch` are refused.
    ///
    /// The object may also be what RESTCONF returns (RFC 8040 §4.3): a list of `ietf-key-chain:key-chain`, or the container within `data`,
    /// where the members of other modules are ignored.
    ///
    /// Every chain of the text must be for TCP-AO: each key needs a `key-string` and an `ietf-tcp:authentication` with `ao`. From a
    /// router's whole configuration, take only the chains that TCP sessions use.
    ///
    /// # Errors
    /// [`Error`] for the first thing that is wrong.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        Self::read_json(text, Collide::No).map(|read| read.chains)
    }

    pub(crate) fn read_json(text: &str, may: Collide) -> Result<Read, Error> {
        let located = |fault: Fault, position| {
            let root = serde_json::from_str(text).ok();
            fault.located(text, root.map(|root| Located { text, value: root }), position)
        };
        let refused = |error: &serde_json::Error, path: Option<&_>| {
            let message = error.to_string();
            let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
            let position = Position { line: error.line(), column: error.column().max(1) };
            // serde_json reports the end of a misplaced value. Its start is looked up if the whole text can be parsed.
            let is_looked_up = error.is_data() && !message.starts_with("duplicate");
            let is_readable = || serde_json::from_str::<&RawValue>(text).is_ok();
            let position = (!is_looked_up || !is_readable()).then_some(position);
            located(Fault::refused(message, path), position)
        };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let document: Document = serde_path_to_error::deserialize(&mut deserializer)
            .map_err(|error| refused(error.inner(), Some(error.path())))?;
        deserializer.end().map_err(|error| refused(&error, None))?;
        let container = match (document.key_chains.0, document.key_chain.0, document.data.0) {
            (Some(container), None, None) | (None, None, Some(Datastore { key_chains: container })) => {
                Ok(container)
            }
            (None, Some(key_chain), None) => Ok(Container { key_chain, ..Container::default() }),
            (None, None, None) => invalid("missing field `ietf-key-chain:key-chains`"),
            _ => invalid("give the key chains once"),
        };
        let container = container.map_err(|error| located(error.of(None, None), None))?;
        container.read(may).map_err(|fault| located(fault, None))
    }

    /// Writes the key chains, secrets included, as [`Self::from_json`] reads them. Neither module has a leaf for a
    /// [preferred key](KeyChain::with_preferred), so that one is lost; [`Self::to_toml`] keeps it.
    #[must_use]
    pub fn to_json(&self) -> Zeroizing<String> {
        self.written_as(|text, document| _ = write!(text, "{document:#}"))
    }

    /// Writes the document of these key chains in some encoding.
    pub(crate) fn written_as(&self, write: impl FnOnce(&mut String, &Value)) -> Zeroizing<String> {
        let mut document = Value::Null;
        document["ietf-key-chain:key-chains"]["key-chain"] = self.chains().iter().map(chain_value).collect();
        let text = write::written(self, |text| write(text, &document));
        wipe(&mut document);
        text
    }
}

// `json!` clones its values, so secrets must not pass through it: only the document is wiped.
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
    match write::printable(mkt.master_key()) {
        Some(text) => secret["keystring"] = text.into(),
        None => secret["hexadecimal-string"] = write::hexadecimal(mkt.master_key(), ":").as_str().into(),
    }
    if let Some(length) = write::own_mac_length(mkt) {
        value["wireseal:mac-length"] = length.into();
    }
    if write::has_short_secret(mkt) {
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

/// A value of a text, and the text that it is a part of.
struct Located<'a> {
    text: &'a str,
    value: &'a RawValue,
}

impl place::Value for Located<'_> {
    fn member(&self, name: &str) -> Option<Self> {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(self.value.get()).ok()?;
        Some(Self { value: members.get(name)?, ..*self })
    }

    fn members(&self) -> Vec<Self> {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(self.value.get()).unwrap_or_default();
        members.into_values().map(|value| Self { value, ..*self }).collect()
    }

    fn element(&self, index: usize) -> Option<Self> {
        let elements: Vec<&RawValue> = serde_json::from_str(self.value.get()).unwrap_or_default();
        elements.get(index).map(|value| Self { value, ..*self })
    }

    fn position(&self, text: &str) -> Position {
        Position::of(text, self.value.get().as_ptr().addr() - self.text.as_ptr().addr())
    }

    fn kind(&self) -> &'static str {
        match self.value.get().as_bytes()[0] {
            b'"' => "a string",
            b'{' => "an object",
            b'[' => "an array",
            b't' | b'f' => "a boolean",
            b'n' => "null",
            _ => "a number",
        }
    }

    fn word(&self) -> Option<String> {
        serde_json::from_str(self.value.get()).ok()
    }
}
