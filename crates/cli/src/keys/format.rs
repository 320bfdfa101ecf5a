//! The formats of keys, and how to recognize them.

use std::fmt;
use std::path::Path;

use clap::ValueEnum;
use clap::builder::PossibleValue;

/// A format of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// Key chains in TOML.
    Toml,
    /// Key chains in JSON (RFC 8177 with RFC 9648).
    Json,
    /// BIRD configuration.
    Bird,
    /// Junos configuration, with braces or as `set` commands.
    Junos,
    /// Cisco IOS XR configuration.
    #[value(name = "ios-xr")]
    IosXr,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 5] = [Self::Toml, Self::Json, Self::Bird, Self::Junos, Self::IosXr];

    /// The format that a file's name or text shows.
    #[must_use]
    pub fn of(path: &Path, text: &str) -> Option<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(extension) if extension.eq_ignore_ascii_case("toml") => Some(Self::Toml),
            Some(extension) if extension.eq_ignore_ascii_case("json") => Some(Self::Json),
            _ => Self::of_text(text),
        }
    }

    /// The format by the first line that only one format has.
    fn of_text(text: &str) -> Option<Self> {
        if text.trim_start().strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with('"')) {
            return Some(Self::Json);
        }
        text.lines().find_map(|line| {
            let line = line.trim();
            let begins = |words: &[&str]| {
                words.iter().any(|word| {
                    let rest = line.get(..word.len()).filter(|start| start.eq_ignore_ascii_case(word));
                    let next = line.get(word.len()..).and_then(|rest| rest.chars().next());
                    rest.is_some() && next.is_none_or(|c| !c.is_alphanumeric() && c != '-' && c != '_')
                })
            };
            if begins(&["[[key-chain]]", "[[key-chain.key]]"]) {
                Some(Self::Toml)
            } else if begins(&["key chain", "tcp ao", "router bgp"]) {
                Some(Self::IosXr)
            } else if begins(&["set security", "security", "authentication-key-chains", "key-chain"])
                || line.contains("authentication-key-chain")
                || line.contains("ao-attribute")
            {
                Some(Self::Junos)
            } else if begins(&[
                "protocol",
                "template",
                "keys",
                "define",
                "router id",
                "neighbor",
                "authentication ao",
            ]) {
                Some(Self::Bird)
            } else {
                None
            }
        })
    }
}

/// As `--format` and `--to` spell it.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("", PossibleValue::get_name))
    }
}
