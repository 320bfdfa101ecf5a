//! The properties of a format, and of the implementation that reads it.

use std::collections::HashSet;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::Zeroizing;

use super::file::{Chain, Content};
use crate::Error;
use crate::text::Collide;

/// Writes chains as text. What the format cannot express is added to the losses.
type Write = fn(&[Chain], &mut Vec<String>) -> Result<Zeroizing<String>, Error>;

/// The properties of a format.
pub(super) struct Table {
    /// As `--format` and `--to` spell it.
    pub(super) name: &'static str,
    /// A description of it.
    pub(super) about: &'static str,
    /// The extension of its files, if no other format uses it.
    pub(super) extension: Option<&'static str>,
    /// Whether only this format has a line such as the first one of this text, which starts at the beginning of some line.
    pub(super) starts: fn(&str) -> bool,
    /// Reads its chains and what was skipped, for the end that has the file. Refuses colliding keys only if it has no room for them.
    pub(super) read: fn(&str, Collide) -> Result<Content, Error>,
    /// The part of a chain that can be written, without the neighbors' addresses of chains before it.
    pub(super) fit: fn(Chain, &mut HashSet<IpCidr>, &mut Vec<String>) -> Option<Chain>,
    /// Writes such chains.
    pub(super) write: Write,
    /// The implementation that reads it.
    pub(super) limits: Limits,
}

/// What an implementation of TCP-AO can be configured with.
pub(super) struct Limits {
    /// As `--for` spells it.
    pub(super) name: &'static str,
    /// A description of it.
    pub(super) about: &'static str,
    /// Its name in sentences.
    pub(super) title: &'static str,
    /// Its name of an algorithm, if it has it.
    pub(super) algorithm: fn(TcpAoAlgorithm) -> Option<&'static str>,
    /// Octets of the shortest and the longest MAC.
    pub(super) mac_lengths: [usize; 2],
    /// The largest number of a key in a chain.
    pub(super) max_key_id: u64,
    /// Octets of the longest secret, if that is known.
    pub(super) max_secret: Option<usize>,
    /// Whether MACs always cover the TCP options.
    pub(super) covers_options: bool,
    /// How it obscures secrets; `None` if plain secrets may have any characters.
    pub(super) obscured: Option<&'static str>,
    /// Whether the send and the accept lifetime must be equal.
    pub(super) has_one_lifetime: bool,
}

impl Limits {
    /// An implementation without limits.
    pub(super) const NONE: Self = Self {
        name: "",
        about: "",
        title: "",
        algorithm: |algorithm| Some(algorithm.name()),
        mac_lengths: [TcpAoAlgorithm::MIN_MAC_LENGTH, TcpAoAlgorithm::MAX_MAC_LENGTH],
        max_key_id: u64::MAX,
        max_secret: None,
        covers_options: false,
        obscured: None,
        has_one_lifetime: false,
    };
}

/// The first line of a text.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Whether a text begins with one of these words, in upper or lower case.
pub(super) fn begins(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| {
        let start = text.get(..word.len()).filter(|start| start.eq_ignore_ascii_case(word));
        let next = text.get(word.len()..).and_then(|rest| rest.chars().next());
        start.is_some() && next.is_none_or(|c| !c.is_alphanumeric() && c != '-' && c != '_')
    })
}
