//! Shared by all formats' writers: a buffer that leaves no secrets behind, names and numbers.

use std::collections::HashSet;
use std::ops::Range;

use zeroize::Zeroizing;

use super::file::{Chain, ChainKey, Neighbor, Preference};
use crate::write::filled;

/// Writes chains into a buffer that is large enough from the start.
pub(super) fn written(chains: &[Chain], write: impl FnOnce(&mut String)) -> Zeroizing<String> {
    const KEY: usize = 1024;
    let of_key = |key: &ChainKey| KEY + 8 * key.secret.expose().len();
    let of_link = |Neighbor { vrf, interface, .. }: &Neighbor| {
        // Each character may have an escape.
        2 * (vrf.as_ref().map_or(0, String::len) + interface.as_ref().map_or(0, String::len))
    };
    let of_chain = |chain: &Chain| {
        let words = 8 * (chain.name.len() + chain.description.as_ref().map_or(0, String::len)) + KEY;
        let keys: usize = chain.keys.iter().map(of_key).sum();
        // BIRD repeats the keys for every neighbor; `KEY` also has room for the neighbor's own line.
        let links: usize = chain.neighbors.iter().map(of_link).sum();
        (words + keys) * chain.neighbors.len().max(1) + links
    };
    filled(KEY + chains.iter().map(of_chain).sum::<usize>(), write)
}

/// The text with parts of it replaced, which do not overlap.
pub(super) fn spliced(text: &str, mut edits: Vec<(Range<usize>, Zeroizing<String>)>) -> Zeroizing<String> {
    // What is put in comes before what is taken out at the same place.
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let room = text.len() + edits.iter().map(|(_, new)| new.len()).sum::<usize>();
    filled(room, |edited| {
        let mut from = 0;
        for (range, new) in &edits {
            edited.push_str(&text[from..range.start]);
            edited.push_str(new);
            from = range.end;
        }
        edited.push_str(&text[from..]);
    })
}

/// The range with its indentation and line end, if nothing else is on its lines.
pub(super) fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |line| line + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |line| range.end + line + 1);
    let is_blank = |part: &str| part.trim().is_empty();
    if is_blank(&text[start..range.start]) && is_blank(&text[range.end..end]) { start..end } else { range }
}

/// Writes statements in braces, each on a line of its own, as commands of one line that begin with this path.
pub(super) fn write_flat(text: &mut String, path: &str, braces: &str) {
    let mut path = vec![path];
    for line in braces.lines().map(str::trim) {
        if let Some(block) = line.strip_suffix(" {") {
            path.push(block);
        } else if line == "}" {
            path.pop();
        } else {
            for word in &path {
                text.push_str(word);
                text.push(' ');
            }
            text.push_str(line.strip_suffix(';').unwrap_or(line));
            text.push('\n');
        }
    }
}

/// The inside of a string, with a backslash before each quote and backslash.
pub(super) fn push_escaped(text: &mut String, characters: impl Iterator<Item = char>) {
    for c in characters {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
}

/// Names for chains, each used once and only with characters for which `is_kept` is true.
pub(super) struct Names {
    used: HashSet<String>,
    is_kept: fn(char) -> bool,
    longest: usize,
}

impl Names {
    pub(super) fn new(is_kept: fn(char) -> bool) -> Self {
        Self { used: HashSet::new(), is_kept, longest: usize::MAX }
    }

    /// The same, with names of at most `longest` characters, a number after them not counted, and without these words.
    pub(super) fn limited(self, longest: usize, without: &[&str]) -> Self {
        Self { used: without.iter().map(|word| (*word).to_owned()).collect(), longest, ..self }
    }

    pub(super) fn name(&mut self, chain: &Chain, losses: &mut Vec<String>) -> String {
        let base = match chain.name.as_str() {
            "" => "keys".to_owned(),
            name => {
                name.chars().take(self.longest).map(|c| if (self.is_kept)(c) { c } else { '_' }).collect()
            }
        };
        let mut name = base.clone();
        let mut number = 1;
        while !self.used.insert(name.clone()) {
            number += 1;
            name = format!("{base}_{number}");
        }
        if name != chain.name && !chain.name.is_empty() {
            losses.push(format!("chain {:?} is named {name}", chain.name));
        }
        name
    }
}

/// Numbers for the keys of a chain: their own, unless above `max` or used before.
pub(super) fn key_ids(chain: &Chain, max: u64, losses: &mut Vec<String>) -> Vec<u64> {
    let mut used: HashSet<u64> = HashSet::new();
    let own: Vec<_> = chain
        .keys
        .iter()
        .map(|key| (key.key_id <= max && used.insert(key.key_id)).then_some(key.key_id))
        .collect();
    let mut free = (0..=max).filter(|id| !used.contains(id));
    let ids = own.iter().zip(&chain.keys).map(|(own, key)| match own {
        Some(id) => *id,
        None => {
            let id = free.next().unwrap_or(max);
            losses.push(format!("key {} is number {id} of its chain", chain.name_of(key)));
            id
        }
    });
    ids.collect()
}

/// Records as losses the ranks of keys: preferred and deprecated.
pub(super) fn lose_ranks(chain: &Chain, losses: &mut Vec<String>) {
    lose_some_ranks(chain, losses, None);
}

/// The same for a format that keeps the first of the preferred keys.
pub(super) fn lose_ranks_but_first(chain: &Chain, losses: &mut Vec<String>) {
    lose_some_ranks(chain, losses, chain.preferred());
}

fn lose_some_ranks(chain: &Chain, losses: &mut Vec<String>, kept: Option<&ChainKey>) {
    let is_lost = |key: &&ChainKey| {
        key.preference != Preference::Ordinary && !kept.is_some_and(|kept| std::ptr::eq(kept, *key))
    };
    for key in chain.keys.iter().filter(is_lost) {
        losses.push(format!("key {}: its being preferred or deprecated", chain.name_of(key)));
    }
}

/// Records as losses the interfaces and VRFs of neighbors.
pub(super) fn lose_links(chain: &Chain, losses: &mut Vec<String>) {
    for Neighbor { vrf, address, interface } in &chain.neighbors {
        if let Some(interface) = interface {
            losses.push(format!("chain {:?}: the interface {interface} of {address}", chain.name));
        }
        if let Some(vrf) = vrf {
            losses.push(format!("chain {:?}: the VRF {vrf} of {address}", chain.name));
        }
    }
}
