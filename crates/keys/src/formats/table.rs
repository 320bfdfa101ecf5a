//! The properties of a format, and of the implementation that reads it.

use std::collections::HashSet;

use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::Zeroizing;

use super::file::{Chain, Content, Neighbor};
use crate::Error;
use crate::text::Collide;

/// Writes chains as text. What the format cannot express is added to the losses.
type Write = fn(&[Chain], &mut Vec<String>) -> Result<Zeroizing<String>, Error>;

/// The properties of a format.
pub(super) struct Table {
    /// Its name in `--format` and `--to`.
    pub(super) name: &'static str,
    /// A short description.
    pub(super) about: &'static str,
    /// The extensions of its files, if they have any of their own. Several formats may share one: then the text decides.
    pub(super) extension: Option<&'static [&'static str]>,
    /// Whether the first line of this text shows this format. The text starts at the beginning of a line of the file, and runs to the
    /// file's end.
    pub(super) shows: fn(&str) -> Shows,
    /// Reads its chains and what was skipped, for the end that has the file. Refuses colliding keys only if it has no room for them.
    pub(super) read: fn(&str, Collide) -> Result<Content, Error>,
    /// The part of a chain that can be written, without the neighbors of chains before it.
    pub(super) fit: fn(Chain, &mut HashSet<Neighbor>, &mut Vec<String>) -> Option<Chain>,
    /// Writes such chains; `None` for a format that is only read, because its syntax is not certain.
    pub(super) write: Option<Write>,
    /// How the keys of a running implementation are changed; `None` if commands for that are not certain.
    pub(super) change: Option<Change>,
    /// The implementation that reads it.
    pub(super) limits: Limits,
}

/// How the keys of a running implementation are changed.
pub(super) struct Change {
    pub(super) written: Written,
    /// The commands that carry out a file of changes. `{file}` is that file, `{target}` the one that the implementation reads.
    pub(super) apply: &'static str,
    /// The commands that show which keys are in use. `{chain}` is the chain's name.
    pub(super) show: &'static str,
}

/// How a change from one chain to another is written. Two keys are the same key if they have the same number.
#[derive(Clone, Copy)]
pub(super) enum Written {
    /// The format's writer writes the whole file again.
    Anew,
    /// Edits the text of the first chain's file where its keys are, and nowhere else.
    Edited(fn(&str, &Chain, &Chain) -> Result<Zeroizing<String>, Error>),
    /// Writes commands for a router that has the first chain; today's text is given, too.
    Commands(fn(&str, &Chain, &Chain) -> Result<Zeroizing<String>, Error>),
}

/// What an implementation of TCP-AO can be configured with.
pub(super) struct Limits {
    /// Its name in `--for`.
    pub(super) name: &'static str,
    /// A short description.
    pub(super) about: &'static str,
    /// Its name in sentences.
    pub(super) title: &'static str,
    /// Its name for an algorithm; `None` if it does not support it.
    pub(super) algorithm: fn(TcpAoAlgorithm) -> Option<&'static str>,
    /// The lengths of the shortest and the longest MAC, in octets.
    pub(super) mac_lengths: [usize; 2],
    /// Whether it supports this algorithm with a MAC of this length, which is within those limits.
    pub(super) has_mac: fn(TcpAoAlgorithm, usize) -> bool,
    /// The largest number of a key in a chain.
    pub(super) max_key_id: u64,
    /// The length of the longest secret in octets, if that is known.
    pub(super) max_secret: Option<usize>,
    /// Whether MACs always cover the TCP options.
    pub(super) covers_options: bool,
    /// The setting that makes MACs cover them; empty if they always do.
    pub(super) options_setting: &'static str,
    /// How it obscures secrets; `None` if plain secrets may have any characters.
    pub(super) obscured: Option<&'static str>,
    /// Whether it has no notation for secrets that are not printable ASCII characters.
    pub(super) has_only_text: bool,
    /// Whether the send and the accept lifetime must be equal.
    pub(super) has_one_lifetime: bool,
    /// Whether a key may have one start for both directions, so that only the chain's tolerance lets it be accepted earlier.
    pub(super) has_one_start: bool,
    /// The largest SendID and RecvID.
    pub(super) max_id: u8,
    /// Whether a key's SendID is also its RecvID.
    pub(super) has_one_id: bool,
    /// Whether lifetimes can be written in the router's local time.
    pub(super) has_local_time: bool,
    /// Which of several valid keys it signs with.
    pub(super) sending: SendingRule,
    /// Why its keys cannot be changed without losing segments, in words that follow its name; `None` if they can.
    pub(super) not_hitless: Option<&'static str>,
}

/// Which key an implementation signs with if several are valid, and the peer has not asked for one (RFC 5925 §7.3 leaves it open).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendingRule {
    /// The preferred one, or else the one whose send lifetime started last, or the first of several that started together.
    LatestStart,
    /// The one with the longest send lifetime; of equal ones, the first.
    LongestLifetime,
    /// By rank, then in order; lifetimes do not exist.
    Rank,
    /// Not documented: any valid key.
    Unspecified,
}

/// What a line says about the format of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shows {
    /// Nothing.
    Nothing,
    /// Several formats have such a line; this is the likeliest of them, unless another line is certain.
    Perhaps,
    /// Only this format has such a line.
    Certainly,
}

impl Shows {
    /// `Certainly` if `holds`, or else `Nothing`.
    pub(super) const fn if_(holds: bool) -> Self {
        if holds { Self::Certainly } else { Self::Nothing }
    }
}

impl Limits {
    /// An implementation without limits.
    pub(super) const NONE: Self = Self {
        name: "",
        about: "",
        title: "",
        algorithm: |algorithm| Some(algorithm.name()),
        mac_lengths: [TcpAoAlgorithm::MIN_MAC_LENGTH, TcpAoAlgorithm::MAX_MAC_LENGTH],
        has_mac: |_, _| true,
        max_key_id: u64::MAX,
        max_secret: None,
        covers_options: false,
        options_setting: "",
        obscured: None,
        has_only_text: false,
        has_one_lifetime: false,
        has_one_start: false,
        max_id: u8::MAX,
        has_one_id: false,
        has_local_time: false,
        sending: SendingRule::LatestStart,
        not_hitless: None,
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
