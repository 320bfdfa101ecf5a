//! The keys that several subcommands take.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use wireseal_keys::{Format, KeyFile, Timestamp};
use zeroize::Zeroizing;

use super::say::warn;
use crate::keys::{self, Keys};
use crate::output::Place;
use crate::text::Printable;

/// An argument that may contain a secret, so it is wiped and never shown.
#[derive(Clone)]
pub(super) struct KeyText(pub(super) Zeroizing<String>);

impl From<&str> for KeyText {
    fn from(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(..)")
    }
}

/// Reads the name of a format of keys.
pub(super) fn format() -> impl TypedValueParser<Value = Format> {
    of(Format::ALL.iter())
}

/// Reads the name of a format that can be written.
pub(super) fn written_format() -> impl TypedValueParser<Value = Format> {
    of(Format::ALL.iter().filter(|format| format.is_written()))
}

fn of(formats: impl Iterator<Item = &'static Format>) -> impl TypedValueParser<Value = Format> {
    let values = formats.map(|format| PossibleValue::new(format.name()).help(format.about()));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Format>())
}

/// A router's offset from universal time.
#[derive(Clone, Copy, Debug)]
pub(super) struct UtcOffset(i32);

impl UtcOffset {
    /// Makes a file's lifetimes in local time universal, if the offset is given.
    pub(super) fn apply(offset: Option<Self>, file: &mut KeyFile) {
        if let Some(Self(seconds)) = offset {
            file.set_utc_offset(seconds);
        }
    }
}

/// Reads `+02:00`, `-05:30` or `Z`.
impl FromStr for UtcOffset {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "expected hours and minutes ahead of UTC, such as +02:00 or -05:00";
        let Ok(moment) = format!("2000-01-01T00:00:00{text}").parse::<Timestamp>() else {
            return Err(expected);
        };
        let midnight = Timestamp::from_unix_seconds(946_684_800);
        i32::try_from(midnight.unix_seconds() - moment.unix_seconds()).map(Self).map_err(|_| expected)
    }
}

/// Where keys come from.
#[derive(Debug, clap::Args)]
pub(super) struct KeyArguments {
    /// A key file: TOML, RFC 8177 JSON, or a router's configuration; - for standard input [repeatable]
    #[arg(long = "keys", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A key, such as send=100,recv=100,alg=aes-128-cmac-96,secret-file=PATH[,mac=12][,options=excluded][,peer=PREFIX];
    /// instead of secret-file= also secret-env=NAME, secret-keyring=DESCRIPTION, or secret= or secret-hex=, which every
    /// user of the machine can see in the process list [repeatable]
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<KeyText>,
    /// The format of the key files, if their names and contents do not show it
    #[arg(long = "keys-format", value_name = "FORMAT", requires = "files", value_parser = format())]
    format: Option<Format>,
}

impl KeyArguments {
    /// The keys of one file.
    pub(super) fn of_file(path: PathBuf, format: Option<Format>) -> Self {
        Self { files: vec![path], keys: Vec::new(), format }
    }

    /// Whether there are any.
    pub(super) fn are_given(&self) -> bool {
        !self.files.is_empty() || !self.keys.is_empty()
    }

    /// Checks that a file that is to be written, which `option` names, is none of those with keys.
    pub(super) fn check_output(&self, option: &str, output: &Path) -> Result<(), String> {
        let Some(written) = Place::of(output) else { return Ok(()) };
        let secrets = self.keys.iter().flat_map(|KeyText(text)| text.split(','));
        let secrets = secrets.filter_map(|part| part.trim().strip_prefix("secret-file=").map(Path::new));
        if self
            .files
            .iter()
            .map(PathBuf::as_path)
            .chain(secrets)
            .any(|path| Place::of(path).as_ref() == Some(&written))
        {
            return Err(format!("{option} {}: this is a key file; name another file", output.display()));
        }
        Ok(())
    }

    /// Checks that not both another input, which is called so, and the keys come from standard input.
    pub(super) fn check_input(&self, name: &str, input: &Path) -> Result<(), String> {
        let is_standard_input = |path: &Path| path == Path::new("-");
        if is_standard_input(input) && self.files.iter().any(|path| is_standard_input(path)) {
            return Err(format!("the {name} and the keys cannot both come from standard input"));
        }
        Ok(())
    }

    /// All keys, those of the files first. Warnings go to standard error.
    ///
    /// # Errors
    /// The first file or key that cannot be used, or that there is no key.
    pub(super) fn keys(&self) -> Result<Keys, Box<dyn Error>> {
        let mut read = Vec::new();
        for path in &self.files {
            read.push((path.display().to_string(), wireseal_keys::load(path, self.format)?));
        }
        for KeyText(text) in &self.keys {
            read.push(("--key".to_owned(), keys::from_argument(text)?));
        }
        let mut all = Keys::default();
        for (from, read) in &read {
            warn_of(read);
            for chain in &read.chains {
                for key in chain.keys.iter().filter(|key| key.secret.encryption().is_some()) {
                    let name = chain.name_of(key);
                    warn(format!(
                        "{from}: {}: its secret is encrypted, so this key is not used",
                        Printable(&name)
                    ));
                }
            }
            all.keys.extend(read.keys().map_err(|error| format!("{from}: {error}"))?.keys);
        }
        if all.keys.is_empty() {
            return Err("no keys: give a file with --keys, or a key with --key".into());
        }
        Ok(all)
    }
}

/// Warns on standard error that others can read the secrets.
pub(super) fn warn_of(read: &KeyFile) {
    read.warnings.iter().for_each(warn);
}
