//! Key chains in TOML, the format for people.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write};

use chrono::NaiveDate;
use serde::Deserialize;
use toml::de::{DeTable, Deserializer};
use toml::value::{Datetime, Offset};
use toml_writer::{TomlStringBuilder, TomlWrite};
use zeroize::Zeroizing;

use crate::OptionCoverage;
use crate::key_chain::text::{self, FieldNames, KeyDraft, SecretText, in_field, invalid};
use crate::key_chain::{Key, KeyChain, KeyChainError, KeyChains, Lifetime, Position, Problem, Timestamp};

const NAMES: FieldNames = FieldNames {
    algorithm: "algorithm",
    secret: "secret",
    hexadecimal_secret: "secret-hex",
    mac_length: "mac-length",
    accept: "accept",
};

const NOT_A_TIMESTAMP: &str = "not a date and time with offset, such as the Z of UTC";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table of key chains")]
struct TomlDocument {
    #[serde(default)]
    key_chain: Vec<TomlChain>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table that is a key chain")]
struct TomlChain {
    name: String,
    description: Option<String>,
    #[serde(default)]
    accept_tolerance: u32,
    #[serde(default)]
    key: Vec<TomlKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table that is a key")]
struct TomlKey {
    key_id: Option<u64>,
    send_id: i64,
    recv_id: Option<i64>,
    algorithm: String,
    secret: Option<SecretText>,
    secret_hex: Option<SecretText>,
    mac_length: Option<i64>,
    options: Option<String>,
    send: Option<TomlLifetime>,
    accept: Option<TomlLifetime>,
    #[serde(default)]
    allow_short_secret: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { from = 2026-01-01T00:00:00Z }")]
struct TomlLifetime {
    from: Option<Datetime>,
    until: Option<Datetime>,
}

impl TomlLifetime {
    fn lifetime(&self) -> Result<Lifetime, Problem> {
        Lifetime::new(self.from.map(timestamp).transpose()?, self.until.map(timestamp).transpose()?)
    }
}

fn timestamp(datetime: Datetime) -> Result<Timestamp, Problem> {
    let (Some(date), Some(time), Some(offset)) = (datetime.date, datetime.time, datetime.offset) else {
        return invalid(NOT_A_TIMESTAMP);
    };
    let minutes = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    // A leap second counts as the second before it.
    let second = time.second.unwrap_or(0).min(59);
    NaiveDate::from_ymd_opt(date.year.into(), date.month.into(), date.day.into())
        .and_then(|date| date.and_hms_opt(time.hour.into(), time.minute.into(), second.into()))
        .map(|moment| Timestamp::from_unix_seconds(moment.and_utc().timestamp() - minutes * 60))
        .map_or_else(|| invalid(NOT_A_TIMESTAMP), Ok)
}

impl TomlKey {
    /// RFC 8177's key id; the SendID if it is left out.
    fn key_id(&self) -> Option<u64> {
        self.key_id.or_else(|| u64::try_from(self.send_id).ok())
    }

    fn key(&self) -> Result<Key, KeyChainError> {
        let options = match self.options.as_deref() {
            None | Some("covered") => OptionCoverage::Covered,
            Some("excluded") => OptionCoverage::Excluded,
            Some(_) => return invalid("neither \"covered\" nor \"excluded\"").map_err(in_field("options")),
        };
        let lifetime = |table: &Option<TomlLifetime>, default: Lifetime| {
            table.as_ref().map_or(Ok(default), TomlLifetime::lifetime)
        };
        let send = lifetime(&self.send, Lifetime::ALWAYS).map_err(in_field("send"))?;
        let accept = lifetime(&self.accept, send).map_err(in_field("accept"))?;
        let draft = KeyDraft {
            key_id: self.key_id().unwrap_or_default(),
            send_id: self.send_id,
            recv_id: self.recv_id.unwrap_or(self.send_id),
            algorithm: text::parse_algorithm(&self.algorithm),
            secret: self.secret.as_ref(),
            hexadecimal_secret: self.secret_hex.as_ref(),
            mac_length: self.mac_length,
            options,
            send,
            accept,
            allow_short_secret: self.allow_short_secret,
        };
        draft.into_key(&NAMES)
    }
}

impl KeyChains {
    /// Reads key chains in TOML (feature `toml`).
    ///
    /// ```toml
    /// [[key-chain]]
    /// name = "core"
    /// description = "BGP in the core"   # optional
    /// accept-tolerance = 300            # seconds; default: 0
    ///
    /// [[key-chain.key]]
    /// key-id = 1                        # default: send-id
    /// send-id = 100
    /// recv-id = 100                     # default: send-id
    /// algorithm = "AES-128-CMAC-96"     # any spelling that TcpAoAlgorithm reads
    /// secret = "first-secret"           # ASCII; or secret-hex = "66:69:..." or "6669..."
    /// mac-length = 12                   # octets; default: the algorithm's
    /// options = "covered"               # the default, or "excluded"
    /// send = { from = 2026-01-01T00:00:00Z, until = 2026-07-01T00:00:00Z }    # default: always
    /// accept = { from = 2025-12-31T23:00:00Z, until = 2026-07-01T01:00:00Z }  # default: as send
    /// allow-short-secret = false        # true accepts a secret shorter than the algorithm asks for
    /// ```
    ///
    /// # Errors
    /// [`KeyChainError`] for the first thing that is wrong.
    pub fn from_toml(text: &str) -> Result<Self, KeyChainError> {
        let refuse = |error: &toml::de::Error, path: Option<String>| {
            text::refused(error.message(), path, error.span().map(|span| position(text, span.start)))
        };
        let table = DeTable::parse(text).map_err(|error| refuse(&error, None))?;
        let document: TomlDocument = serde_path_to_error::deserialize(Deserializer::from(table))
            .map_err(|error| refuse(error.inner(), Some(error.path().to_string())))?;
        let chain = |TomlChain { name, description, accept_tolerance, key }: TomlChain| {
            let keys = key.iter().map(|key| key.key().map_err(|error| error.in_key(key.key_id())));
            text::chain(&name, description, accept_tolerance, keys)
        };
        Self::new(document.key_chain.into_iter().map(chain).collect::<Result<_, _>>()?)
    }

    /// Writes the key chains, secrets included, as [`Self::from_toml`] reads them. Fields with default values are left out.
    #[must_use]
    pub fn to_toml(&self) -> Zeroizing<String> {
        text::written(self, |text| write_chains(text, self.chains()))
    }
}

/// Line and column of an octet of the text.
fn position(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Position { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
}

fn write_chains(text: &mut String, chains: &[KeyChain]) -> fmt::Result {
    for (index, chain) in chains.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "\n" });
        text.push_str("[[key-chain]]\n");
        write_string(text, "name", chain.name())?;
        if let Some(description) = chain.description() {
            write_string(text, "description", description)?;
        }
        if chain.accept_tolerance() != 0 {
            writeln!(text, "accept-tolerance = {}", chain.accept_tolerance())?;
        }
        chain.keys().iter().try_for_each(|key| write_key(text, key))?;
    }
    Ok(())
}

fn write_key(text: &mut String, key: &Key) -> fmt::Result {
    let (mkt, parameters) = (key.mkt(), key.mkt().parameters());
    text.push_str("\n[[key-chain.key]]\n");
    if key.key_id() != u64::from(mkt.send_id().0) {
        writeln!(text, "key-id = {}", key.key_id())?;
    }
    writeln!(text, "send-id = {}", mkt.send_id())?;
    if mkt.recv_id() != mkt.send_id() {
        writeln!(text, "recv-id = {}", mkt.recv_id())?;
    }
    write_string(text, "algorithm", parameters.algorithm.name())?;
    match text::printable(mkt.master_key()) {
        Some(secret) => write_string(text, "secret", secret)?,
        None => write_string(text, "secret-hex", &text::hexadecimal(mkt.master_key(), ""))?,
    }
    if text::has_short_secret(mkt) {
        text.push_str("allow-short-secret = true\n");
    }
    if let Some(length) = text::own_mac_length(mkt) {
        writeln!(text, "mac-length = {length}")?;
    }
    if parameters.options == OptionCoverage::Excluded {
        text.push_str("options = \"excluded\"\n");
    }
    if *key.send_lifetime() != Lifetime::ALWAYS {
        write_lifetime(text, "send", key.send_lifetime())?;
    }
    if key.accept_lifetime() != key.send_lifetime() {
        write_lifetime(text, "accept", key.accept_lifetime())?;
    }
    Ok(())
}

fn write_string(text: &mut String, field: &str, value: &str) -> fmt::Result {
    write!(text, "{field} = ")?;
    text.value(TomlStringBuilder::new(value).as_basic())?;
    text.newline()
}

fn write_lifetime(text: &mut String, field: &str, lifetime: &Lifetime) -> fmt::Result {
    let ends = [("from", lifetime.from()), ("until", lifetime.until())];
    let ends = ends.into_iter().filter_map(|(word, moment)| Some(alloc::format!(" {word} = {}", moment?)));
    let ends = ends.collect::<Vec<_>>().join(",");
    writeln!(text, "{field} = {{{ends}{}}}", if ends.is_empty() { "" } else { " " })
}
