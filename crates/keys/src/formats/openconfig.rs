//! OpenConfig's key chains in JSON (RFC 7951): the module openconfig-keychain, with or without the names of modules.
//!
//! The module is for every protocol and knows no TCP-AO: it has neither SendID and RecvID nor a setting for TCP options. So it is not
//! written.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, OptionCoverage};

use super::chains;
use super::file::{Chain, ChainKey, Clock, Content, Preference, Remark, Secret, Skipped};
use super::table::{Shows, Table};
use super::values::{Value, has_member};
use crate::{Error, Lifetime, ParseTimestampError, Problem, Timestamp};

pub(super) const TABLE: Table = Table {
    name: "openconfig",
    about: "OpenConfig key chains in JSON",
    extension: Some(&["json"]),
    shows: |text| {
        let is_prefixed = ['{', '['].into_iter().any(|opening| {
            has_member(text, "openconfig-keychain:keychains", opening)
                || has_member(text, "openconfig-keychain:keychain", opening)
        });
        // GoBGP's chains are a list, these are in a table.
        Shows::if_(is_prefixed || has_member(text, "keychains", '{'))
    },
    read: |text, _| read(text),
    write: None,
    change: None,
    ..chains::TOML
};

/// The names of this module, in which members that others add are not understood.
const MODULE: &str = "openconfig-keychain:";

/// The identities of algorithms that TCP-AO can use, under the names of openconfig-keychain-types, which misspells one. A MAC of TCP-AO has 12
/// octets with any of them (RFC 5926).
const ALGORITHMS: [(&str, TcpAoAlgorithm); 6] = [
    ("HMAC_SHA_1", TcpAoAlgorithm::HmacSha1),
    ("HMAC_SHA_1_12", TcpAoAlgorithm::HmacSha1),
    ("HMAC_SHA_1_96", TcpAoAlgorithm::HmacSha1),
    ("AES_28_CMAC_96", TcpAoAlgorithm::Aes128Cmac),
    ("AES_128_CMAC_96", TcpAoAlgorithm::Aes128Cmac),
    ("AES_128_CMAC", TcpAoAlgorithm::Aes128Cmac),
];
/// Those of other protocols.
const OTHERS: [&str; 6] = ["CRYPTO_NONE", "MD5", "HMAC_MD5", "SHA_1", "HMAC_SHA_1_20", "AES_256_CMAC"];
const MAC_LENGTH: usize = 12;

fn read(text: &str) -> Result<Content, Error> {
    let root = Value::from_json(text)?;
    let data = root.get("data").or_else(|| root.get("ietf-restconf:data")).unwrap_or(&root);
    let list = match member(data, "keychains") {
        Some(keychains) => member(keychains, "keychain"),
        None => member(data, "keychain"),
    };
    let mut content = Content::default();
    for value in list.map_or(Ok(&[][..]), |list| list.list("keychain"))? {
        let chain = chain(value, &mut content.skipped)?;
        match chain.keys.is_empty() {
            true => content.remarks.extend(chain.remarks),
            false => content.chains.push(chain),
        }
    }
    Ok(content)
}

/// The member with this name of the module, with or without the module's name.
fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let mut members = value.members().iter();
    members.find_map(|(other, value)| (other.strip_prefix(MODULE).unwrap_or(other) == name).then_some(value))
}

/// A member of the inner table `config`.
fn configured<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    member(value, "config").and_then(|config| member(config, name))
}

/// Remarks on the members that are neither state nor among the known ones.
fn unknown(value: &Value, known: &[&str], remarks: &mut Vec<Remark>) {
    let is_known = |name: &str| name == "state" || known.contains(&name.strip_prefix(MODULE).unwrap_or(name));
    let unknown = value.members().iter().filter(|(name, _)| !is_known(name));
    remarks.extend(unknown.map(|(_, value)| Remark::not_understood(value.position)));
}

fn chain(value: &Value, skipped: &mut Vec<Skipped>) -> Result<Chain, Error> {
    let name =
        member(value, "name").or_else(|| configured(value, "name")).ok_or_else(|| value.missing("name"))?;
    let mut chain = Chain { name: name.text("name")?.to_owned(), ..Chain::default() };
    unknown(value, &["name", "config", "keys"], &mut chain.remarks);
    if let Some(config) = member(value, "config") {
        unknown(config, &["name", "tolerance"], &mut chain.remarks);
    }
    let keys = member(value, "keys").and_then(|keys| member(keys, "key"));
    let mut read = |chain: &mut Chain| {
        if let Some(tolerance) = configured(value, "tolerance") {
            chain.accept_tolerance = match tolerance.text("tolerance")? {
                "FOREVER" => u32::MAX,
                _ => u32::try_from(tolerance.number("tolerance", u32::MAX.into())?).unwrap_or(u32::MAX),
            };
        }
        let keys = keys.map_or(Ok(&[][..]), |keys| keys.list("key"))?;
        // Allocate for all keys: a list that grew would leave secrets behind.
        chain.keys.reserve_exact(keys.len());
        for value in keys {
            let key = key(value, &mut chain.remarks, skipped)?;
            chain.keys.extend(key);
        }
        Ok(())
    };
    read(&mut chain).map_err(|error: Error| error.in_chain(&chain.name))?;
    if !chain.keys.is_empty() {
        let sentence = "OpenConfig has no SendID, RecvID or TCP options: both ids are taken to be the key's number, and the options to be \
                        covered";
        chain.remarks.push(Remark::warning("assumed", Some(value.position), sentence).into_note());
    }
    Ok(chain)
}

/// A key; `None` for one that TCP-AO cannot use, which is skipped or remarked on.
fn key(
    value: &Value,
    remarks: &mut Vec<Remark>,
    skipped: &mut Vec<Skipped>,
) -> Result<Option<ChainKey>, Error> {
    let id = member(value, "key-id")
        .or_else(|| configured(value, "key-id"))
        .ok_or_else(|| value.missing("key-id"))?;
    let key_id = key_id(id)?;
    let mut read = || {
        let config = member(value, "config").ok_or_else(|| value.missing("config"))?;
        let leaf = |name| member(config, name).ok_or_else(|| config.missing(name));
        unknown(value, &["key-id", "config", "send-lifetime", "receive-lifetime"], remarks);
        unknown(config, &["key-id", "secret-key", "crypto-algorithm"], remarks);
        let identity = leaf("crypto-algorithm")?;
        let name = identity.text("crypto-algorithm")?;
        let name = name.split_once(':').map_or(name, |(_, name)| name);
        if OTHERS.contains(&name) {
            let what = "a key with an algorithm that TCP-AO does not have";
            skipped.push(Skipped { position: value.position, what });
            return Ok(None);
        }
        let mut left_out = |reason: &str| {
            remarks.push(Remark::left_out(value.position, reason).of_key(key_id));
            Ok(None)
        };
        if name == "HMAC_SHA_256" {
            return left_out("HMAC_SHA_256 says neither which KDF it has nor how long its MAC is");
        }
        let Some((_, algorithm)) = ALGORITHMS.into_iter().find(|(known, _)| *known == name) else {
            let expected = "expected an algorithm of openconfig-keychain-types, such as HMAC_SHA_1_96";
            return Err(identity.error("crypto-algorithm", Error::text(expected)));
        };
        let Ok(id) = u8::try_from(key_id) else {
            return left_out("its number is above 255, so it cannot be a SendID");
        };
        let (send, accept) = lifetimes(value, remarks)?;
        Ok(Some(ChainKey {
            position: Some(value.position),
            key_id,
            send_id: KeyId(id),
            recv_id: KeyId(id),
            algorithm,
            mac_length: MAC_LENGTH,
            options: OptionCoverage::Covered,
            secret: secret(leaf("secret-key")?.text("secret-key")?),
            send,
            accept,
            clock: Clock::Utc,
            preference: Preference::Ordinary,
        }))
    };
    read().map_err(|error: Error| error.in_key(key_id))
}

/// A number, or hexadecimal digits after `0x`.
fn key_id(value: &Value) -> Result<u64, Error> {
    match value.text("key-id")?.strip_prefix("0x") {
        Some(digits) => {
            // Longer ones are identifiers of MACsec.
            let is_hexadecimal = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let number = is_hexadecimal.then(|| u64::from_str_radix(digits, 16).unwrap_or(u64::MAX));
            number.ok_or_else(|| value.error("key-id", Error::text("expected hexadecimal digits after 0x")))
        }
        None => value.number("key-id", u64::MAX),
    }
}

/// A secret as it is, unless it looks like one that the device returns encrypted or hashed.
fn secret(text: &str) -> Secret {
    let is = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    match () {
        () if is(&["$8$"]) => Secret::encrypted("$8$"),
        () if is(&["$1$", "$2a$", "$2y$", "$5$", "$6$"]) => {
            Secret::encrypted("hashed, as crypt-password-type")
        }
        () => Secret::text(text),
    }
}

/// When a key is sent with and when it is accepted.
fn lifetimes(key: &Value, remarks: &mut Vec<Remark>) -> Result<(Lifetime, Lifetime), Error> {
    let (send, accept) =
        (lifetime(key, "send-lifetime", remarks)?, lifetime(key, "receive-lifetime", remarks)?);
    let is_both = send.and_then(|(_, config)| member(config, "send-and-receive"));
    let is_both = is_both.map_or(Ok(true), |value| value.flag("send-and-receive"))?;
    let send = send.map(|(lifetime, _)| lifetime);
    match (send, accept) {
        (Some(send), Some((accept, config))) if is_both && send != accept => {
            let sentence =
                "its receive-lifetime is ignored, because send-and-receive is true, which is the default";
            remarks.push(Remark::warning("not-understood", Some(config.position), sentence));
            Ok((send, send))
        }
        (Some(send), _) if is_both => Ok((send, send)),
        (send, accept) => {
            Ok((send.unwrap_or(Lifetime::ALWAYS), accept.map_or(Lifetime::ALWAYS, |(accept, _)| accept)))
        }
    }
}

/// One of a key's lifetimes, and the table that has it.
fn lifetime<'a>(
    key: &'a Value,
    name: &'static str,
    remarks: &mut Vec<Remark>,
) -> Result<Option<(Lifetime, &'a Value)>, Error> {
    let Some(table) = member(key, name) else { return Ok(None) };
    unknown(table, &["config"], remarks);
    let Some(config) = member(table, "config") else { return Ok(None) };
    unknown(config, &["start-time", "end-time", "send-and-receive"], remarks);
    let end = |field, value: Option<&Value>| {
        value.map(|value| moment(value, field).map_err(|error| error.within(name))).transpose()
    };
    let from = end("start-time", member(config, "start-time"))?;
    // An end of 0 is none.
    let until = member(config, "end-time").filter(|value| value.text("end-time") != Ok("0"));
    let until = end("end-time", until)?;
    let ended = member(config, "end-time").unwrap_or(config);
    let lifetime = Lifetime::new(from, until).map_err(|error| ended.error("end-time", error).within(name))?;
    Ok(Some((lifetime, config)))
}

/// Nanoseconds since 1970, or a date and time as some devices print it.
fn moment(value: &Value, field: &'static str) -> Result<Timestamp, Error> {
    let text = value.text(field)?;
    let seconds = text.parse::<u64>().ok().map(|nanoseconds| (nanoseconds / 1_000_000_000).cast_signed());
    let moment = seconds.map(Timestamp::from_unix_seconds).or_else(|| text.parse().ok());
    moment.ok_or_else(|| value.error(field, Problem::Timestamp(ParseTimestampError).into()))
}
