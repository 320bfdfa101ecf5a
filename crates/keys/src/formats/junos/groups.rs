//! Configuration groups: the statements under `groups`, which are configuration only where `apply-groups` names them (Juniper, CLI User
//! Guide, "Use Configuration Groups to Quickly Configure Devices").

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::super::file::{Content, Remark, Skipped};
use super::super::tree::Word;
use crate::{Error, Position};

pub(super) const APPLY: &str = "apply-groups";
pub(super) const EXCEPT: &str = "apply-groups-except";

/// How many statements may be compared for inheritance, so that a small file cannot take long.
const COMPARISONS: usize = 1 << 22;

/// Words that lead to a level: no level of Junos has as many.
pub(super) const LONGEST_LEVEL: usize = 64;

/// A statement in effect.
pub(super) struct Statement<'a> {
    /// The words that lead to it, and its own.
    pub(super) words: Vec<Word<'a>>,
    /// Whether it comes from a group, so that the configuration's own value goes before it.
    pub(super) is_inherited: bool,
}

/// A statement of a group.
struct Contributed<'s, 'a> {
    words: &'s [Word<'a>],
    /// Whether it is for every object that a pattern matches.
    has_pattern: bool,
    /// The `apply-groups` or the condition in it, which is not evaluated.
    nested: Option<Word<'a>>,
}

/// `apply-groups` at some level, for one group.
struct Applied<'s, 'a> {
    level: &'s [Word<'a>],
    group: Word<'a>,
}

/// Statements, with groups apart.
#[derive(Default)]
struct Parts<'s, 'a> {
    own: Vec<&'s [Word<'a>]>,
    groups: HashMap<&'a str, Vec<Contributed<'s, 'a>>>,
    applied: Vec<Applied<'s, 'a>>,
    /// Levels of `apply-groups-except`, with the group.
    excepted: HashSet<(Vec<&'a str>, &'a str)>,
}

impl<'s, 'a> Parts<'s, 'a> {
    fn of(statements: &'s [Vec<Word<'a>>]) -> Self {
        let mut parts = Self::default();
        for words in statements {
            let applies = words.iter().position(|word| word.is(APPLY) || word.is(EXCEPT));
            match (words.as_slice(), applies.map(|at| words.split_at(at))) {
                ([first, name, words @ ..], _) if first.is("groups") => {
                    let is_nested = |word: &&Word<'a>| word.is(APPLY) || word.is(EXCEPT) || word.is("when");
                    let group = parts.groups.entry(name.text()).or_default();
                    // A group without a statement that concerns keys is there all the same.
                    if !words.is_empty() {
                        let (nested, has_pattern) =
                            (words.iter().find(is_nested).copied(), words.iter().any(is_pattern));
                        group.push(Contributed { words, has_pattern, nested });
                    }
                }
                (_, Some((level, [keyword, named @ ..]))) => {
                    // An object that only groups fill exists all the same: `neighbor 192.0.2.1 { apply-groups g; }`.
                    parts.own.push(level);
                    if keyword.is(EXCEPT) {
                        let level: Vec<_> = level.iter().map(Word::text).collect();
                        parts.excepted.extend(list(named).map(|group| (level.clone(), group)));
                    } else {
                        let named = named.iter().filter(|word| !trimmed(word).is_empty());
                        parts.applied.extend(named.map(|group| Applied { level, group: *group }));
                    }
                }
                _ => parts.own.push(words),
            }
        }
        // Groups of lower levels go before those of higher ones.
        parts.applied.sort_by_key(|applied| Reverse(applied.level.len()));
        parts
    }

    /// Whether `apply-groups-except` keeps this group's statement out.
    fn is_excepted(&self, words: &[Word<'a>], group: &'a str) -> bool {
        let level = |length: usize| words[..length].iter().map(Word::text).collect();
        !self.excepted.is_empty()
            && (0..words.len().min(LONGEST_LEVEL))
                .any(|length| self.excepted.contains(&(level(length), group)))
    }

    /// The places of groups that are applied nowhere and may have keys.
    fn unused(&self, used: &HashSet<&'a str>) -> Vec<Position> {
        let unused = self.groups.iter().filter(|(name, _)| !used.contains(*name));
        let places = unused.filter_map(|(_, inside)| {
            let keys = inside.iter().find(|inside| inside.words[0].is("security"));
            keys.map(|inside| inside.words[0].position())
        });
        let mut places: Vec<_> = places.collect();
        places.sort_unstable_by_key(|at| (at.line, at.column));
        places
    }
}

/// The configuration itself, then what it inherits: the values of lower levels before those of higher ones, and of one level in the order
/// of the list. The first value of a setting counts.
pub(super) fn inherit<'a>(
    statements: &[Vec<Word<'a>>],
    content: &mut Content,
) -> Result<Vec<Statement<'a>>, Error> {
    let parts = Parts::of(statements);
    let mut not_understood = |at: &Word<'a>, sentence: &'static str| {
        content.remarks.push(Remark::warning("not-understood", Some(at.position()), sentence));
    };
    let mut used = HashSet::new();
    // What is inherited, after the order in which it counts, and whether a pattern matched.
    let mut found: Vec<(usize, bool, Vec<Word<'a>>)> = Vec::new();
    let mut patterns = Vec::new();
    let mut left = COMPARISONS;
    for (order, Applied { level, group }) in parts.applied.iter().enumerate() {
        let name = trimmed(group);
        let is_first = used.insert(name);
        let Some(inside) = parts.groups.get(name) else {
            if is_first {
                let sentence =
                    "a group that is applied here is not in this text, so what it contributes is not known";
                not_understood(group, sentence);
            }
            continue;
        };
        left = left.checked_sub(inside.len()).ok_or_else(|| too_much(group))?;
        for Contributed { words, has_pattern, nested } in inside {
            if let Some(nested) = nested {
                if is_first {
                    not_understood(nested, "a condition or a group inside of a group is not evaluated");
                }
            } else if *has_pattern {
                patterns.push((order, level, group, *words));
            } else if is_at(words, level, |word, name| word.text() == name) && !parts.is_excepted(words, name)
            {
                found.push((order, false, words.to_vec()));
            }
        }
    }
    if !patterns.is_empty() {
        let inherited = found.iter().map(|(.., words)| words.as_slice());
        let objects = Objects::of(parts.own.iter().copied().chain(inherited));
        for (order, level, group, words) in patterns {
            let matches = objects.matches(words, level, &mut left).ok_or_else(|| too_much(group))?;
            let kept = matches.into_iter().filter(|words| !parts.is_excepted(words, trimmed(group)));
            found.extend(kept.map(|words| (order, true, words)));
        }
    }
    found.sort_by_key(|(order, is_matched, _)| (*order, *is_matched));
    let what = "the keys of a configuration group that is applied nowhere";
    content.skipped.extend(parts.unused(&used).into_iter().map(|position| Skipped { position, what }));
    let own = parts.own.iter().map(|words| Statement { words: words.to_vec(), is_inherited: false });
    let inherited = found.into_iter().map(|(.., words)| Statement { words, is_inherited: true });
    Ok(own.chain(inherited).collect())
}

fn too_much(at: &Word<'_>) -> Error {
    at.refused("apply-groups", "the groups contribute too many statements to be read")
}

/// The words of a list: one word, or several in brackets.
pub(super) fn list<'s, 'a>(words: &'s [Word<'a>]) -> impl Iterator<Item = &'a str> + use<'s, 'a> {
    words.iter().map(trimmed).filter(|name| !name.is_empty())
}

/// A word without the brackets of a list.
fn trimmed<'a>(word: &Word<'a>) -> &'a str {
    word.text().trim_matches(['[', ']'])
}

/// Whether a statement belongs to a level: it begins with words that match the level's, as `is` compares them.
fn is_at(words: &[Word<'_>], level: &[Word<'_>], is: fn(&Word<'_>, &str) -> bool) -> bool {
    let start = words.get(..level.len());
    start.is_some_and(|start| start.iter().zip(level).all(|(word, other)| is(word, other.text())))
}

/// The pattern inside of `<*>` and the like; such a word stands for every object whose name matches it.
fn pattern<'a>(word: &Word<'a>) -> Option<&'a str> {
    word.text().strip_prefix('<')?.strip_suffix('>')
}

fn is_pattern(word: &Word<'_>) -> bool {
    pattern(word).is_some()
}

/// Whether a name matches a word of a group: the same, or a pattern with `*` for any characters and `?` for one.
fn does_match(word: &Word<'_>, name: &str) -> bool {
    let Some(pattern) = pattern(word) else { return word.text() == name };
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut from) = (0, 0);
    // What follows the last star, and where the star's match ends so far.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                star = Some((at, from));
            }
            Some(c) if *c == '?' || *c == name[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((after, end)) = &mut star else { return false };
                *end += 1;
                (at, from) = (*after, *end);
            }
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

/// What statements there are, word by word.
struct Objects<'a> {
    /// For each start of a statement, the words that may follow and the start with that word; the first is empty.
    nodes: Vec<Vec<(Word<'a>, usize)>>,
    /// The same, by the start and the word.
    known: HashMap<(usize, &'a str), usize>,
}

impl<'a> Objects<'a> {
    fn of<'s>(statements: impl Iterator<Item = &'s [Word<'a>]>) -> Self
    where
        'a: 's,
    {
        let (mut nodes, mut known) = (vec![Vec::new()], HashMap::new());
        for words in statements {
            let mut at = 0;
            for word in words {
                let next = *known.entry((at, word.text())).or_insert(nodes.len());
                if next == nodes.len() {
                    nodes.push(Vec::new());
                    nodes[at].push((*word, next));
                }
                at = next;
            }
        }
        Self { nodes, known }
    }

    /// A group's statement for every object that its patterns match at a level; `None` if that takes too many comparisons.
    fn matches(
        &self,
        words: &[Word<'a>],
        level: &[Word<'a>],
        left: &mut usize,
    ) -> Option<Vec<Vec<Word<'a>>>> {
        if !is_at(words, level, does_match) {
            return Some(Vec::new());
        }
        let patterns = words.iter().rposition(is_pattern).map_or(0, |last| last + 1);
        if patterns <= level.len() {
            return Some(vec![[level, &words[level.len()..]].concat()]);
        }
        let mut found = vec![(0, Vec::new())];
        for (index, word) in words[..patterns].iter().enumerate() {
            let mut next = Vec::new();
            let name = level.get(index).or(Some(word).filter(|word| !is_pattern(word)));
            for (node, start) in found {
                let with = |name: &Word<'a>| [start.as_slice(), &[*name]].concat();
                *left = left.checked_sub(if name.is_some() { 1 } else { self.nodes[node].len() })?;
                if let Some(name) = name {
                    next.extend(self.known.get(&(node, name.text())).map(|child| (*child, with(name))));
                    continue;
                }
                let children = self.nodes[node].iter().filter(|(name, _)| does_match(word, name.text()));
                next.extend(children.map(|(name, child)| (*child, with(name))));
            }
            found = next;
        }
        let rest = &words[patterns..];
        Some(found.into_iter().map(|(_, start)| [start.as_slice(), rest].concat()).collect())
    }
}
