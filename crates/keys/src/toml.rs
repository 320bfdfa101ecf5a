//! Key chains in TOML, the format for people to write.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};
use toml_writer::{TomlStringBuilder, TomlWrite};
use zeroize::Zeroizing;

use crate::error::{Error, Fault};
use crate::place::{self, Value};
use crate::text::{ChainFields, Collide, KeyFields};
use crate::write;
use crate::{Key, KeyChain, KeyChains, Lifetime, Position};
use wireseal_tcp_ao::OptionCoverage;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table of key chains")]
struct Document {
    #[serde(default)]
    key_chain: Vec<ChainFields<KeyFields>>,
}

impl KeyChains {
    /// Reads key chains in TOML (feature `toml`).
    ///
    /// ```toml
    /// [[key-chain]]
    /// name = "core"
    /// description = "BGP in the core"   # optional
    /// accept-tolerance = 300            # seconds; default: 0
    /// preferred = 1                     # a key-id; default: by lifetimes alone (KeyChain::with_preferred)
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
    /// allow-short-secret = false        # true accepts a secret shorter than the algorithm requires
    /// ```
    ///
    /// # Errors
    /// [`Error`] for the first thing that is wrong.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        Self::read_toml(text, Collide::No)
    }

    pub(crate) fn read_toml(text: &str, may: Collide) -> Result<Self, Error> {
        let position = |error: &toml::de::Error| error.span().map(|span| Position::of(text, span.start));
        let located = |fault: Fault, position| {
            let root = DeTable::parse(text).ok();
            let root = root.map(|root| Spanned::new(root.span(), DeValue::Table(root.into_inner())));
            fault.located(text, root.as_ref(), position)
        };
        let table = DeTable::parse(text)
            .map_err(|error| located(Fault::refused(error.message(), None), position(&error)))?;
        let document: Document =
            serde_path_to_error::deserialize(Deserializer::from(table)).map_err(|error| {
                let (path, error) = (error.path(), error.inner());
                located(Fault::refused(error.message(), Some(path)), position(error))
            })?;
        let chains = document.key_chain.into_iter().map(|chain| chain.read(KeyFields::read, may));
        place::chains(chains).map_err(|fault| located(fault, None))
    }

    /// Writes the key chains, secrets included, as [`Self::from_toml`] reads them. Fields with default values are left out.
    #[must_use]
    pub fn to_toml(&self) -> Zeroizing<String> {
        write::written(self, |text| write_chains(text, self.chains()))
    }
}

impl Value for &Spanned<DeValue<'_>> {
    fn member(&self, name: &str) -> Option<Self> {
        self.get_ref().as_table()?.get(name)
    }

    fn element(&self, index: usize) -> Option<Self> {
        self.get_ref().as_array().and_then(|list| list.get(index))
    }

    fn position(&self, text: &str) -> Position {
        Position::of(text, self.span().start)
    }

    fn kind(&self) -> &'static str {
        match self.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a decimal point",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        }
    }

    fn word(&self) -> Option<String> {
        let value = self.get_ref();
        value.as_str().or_else(|| Some(value.as_integer()?.as_str())).map(ToString::to_string)
    }
}

fn write_chains(text: &mut String, chains: &[KeyChain]) {
    for (index, chain) in chains.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "\n" });
        text.push_str("[[key-chain]]\n");
        write_string(text, "name", chain.name());
        if let Some(description) = chain.description() {
            write_string(text, "description", description);
        }
        if chain.accept_tolerance() != 0 {
            let _ = writeln!(text, "accept-tolerance = {}", chain.accept_tolerance());
        }
        if let Some(key_id) = chain.preferred() {
            let _ = writeln!(text, "preferred = {key_id}");
        }
        chain.keys().iter().for_each(|key| write_key(text, key));
    }
}

fn write_key(text: &mut String, key: &Key) {
    let (mkt, parameters) = (key.mkt(), key.mkt().parameters());
    text.push_str("\n[[key-chain.key]]\n");
    if key.key_id() != u64::from(mkt.send_id().0) {
        let _ = writeln!(text, "key-id = {}", key.key_id());
    }
    let _ = writeln!(text, "send-id = {}", mkt.send_id());
    if mkt.recv_id() != mkt.send_id() {
        let _ = writeln!(text, "recv-id = {}", mkt.recv_id());
    }
    write_string(text, "algorithm", parameters.algorithm.name());
    match write::printable(mkt.master_key()) {
        Some(secret) => write_string(text, "secret", secret),
        None => write_string(text, "secret-hex", &write::hexadecimal(mkt.master_key(), "")),
    }
    if write::has_short_secret(mkt) {
        text.push_str("allow-short-secret = true\n");
    }
    if let Some(length) = write::own_mac_length(mkt) {
        let _ = writeln!(text, "mac-length = {length}");
    }
    if parameters.options == OptionCoverage::Excluded {
        text.push_str("options = \"excluded\"\n");
    }
    if *key.send_lifetime() != Lifetime::ALWAYS {
        write_lifetime(text, "send", key.send_lifetime());
    }
    if key.accept_lifetime() != key.send_lifetime() {
        write_lifetime(text, "accept", key.accept_lifetime());
    }
}

/// Writes `field = "value"` and a line end.
pub(crate) fn write_string(text: &mut String, field: &str, value: &str) {
    let _ = write!(text, "{field} = ");
    let _ = text.value(TomlStringBuilder::new(value).as_basic());
    text.push('\n');
}

fn write_lifetime(text: &mut String, field: &str, lifetime: &Lifetime) {
    let ends = [("from", lifetime.from()), ("until", lifetime.until())];
    let ends = ends.into_iter().filter_map(|(word, moment)| Some(alloc::format!(" {word} = {}", moment?)));
    let ends = ends.collect::<Vec<_>>().join(",");
    let _ = writeln!(text, "{field} = {{{ends}{}}}", if ends.is_empty() { "" } else { " " });
}
