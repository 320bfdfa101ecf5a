//! The keychains of a configuration, and which send entries and receive entries are one key.

use std::collections::HashMap;

use wireseal_tcp_ao::{KeyId, OptionCoverage};

use super::super::file::{Chain, ChainKey, Clock, Content, Neighbor, Preference, Remark, Skipped};
use super::super::tree::{Word, place, unescaped};
use super::entry::{Direction, Draft, Entry, MAC_LENGTH, MAX_ID, Reading};
use crate::{Error, Lifetime, Timestamp};

/// The number of the null key.
const NULL_KEY: u8 = 255;
const TCP_AO: &str = "tcp-ao";

#[derive(Default)]
pub(super) struct Keychains<'a> {
    keychains: Vec<Keychain<'a>>,
    by_name: HashMap<&'a str, usize>,
    remarks: Vec<Remark>,
}

struct Keychain<'a> {
    name: String,
    /// The word `keychain`, or the first one of its content.
    at: Word<'a>,
    description: Option<String>,
    is_disabled: bool,
    /// The TCP options that it sends and expects.
    options: [Option<Word<'a>>; 2],
    entries: Vec<Draft<'a>>,
    by_id: HashMap<(Direction, u8), usize>,
    remarks: Vec<Remark>,
}

impl<'a> Keychains<'a> {
    /// Takes a statement, if it belongs to a keychain. The words of the path from `own` on are its own, those before lead to it.
    pub(super) fn take(&mut self, path: &[Word<'a>], own: usize) -> Result<(), Error> {
        const PARTS: [&str; 5] = ["tcp-option-number", "direction", "bidirectional", "receive", "send"];
        let (name, start) = match place(path, "keychain") {
            Some(at) => match path.get(at + 1) {
                Some(name) => (Some(name), at + 2),
                None => return Ok(()),
            },
            // The content of a keychain alone.
            None if path.first().is_some_and(|first| PARTS.iter().any(|part| first.is(part))) => (None, 0),
            None => match path {
                [entry, _, key, ..]
                    if entry.is("entry") && (key.is("key") || key.is("authentication-key")) =>
                {
                    let reason =
                        "is in no keychain: give the whole keychain, with its braces or its indentation";
                    return Err(entry.refused("entry", reason));
                }
                _ => {
                    let is_part = ["keychains", "bidirectional", "direction"]
                        .iter()
                        .any(|part| place(path, part).is_some());
                    if is_part && path.get(own).is_some_and(|first| first.is("entry")) {
                        self.remarks.push(Remark::not_understood(path[own].position()));
                    }
                    return Ok(());
                }
            },
        };
        // Groups apply only where `apply-groups` says so, and what is deleted was there before.
        if ["groups", "delete", "no"]
            .iter()
            .any(|word| place(&path[..start.saturating_sub(2)], word).is_some())
        {
            self.remarks.push(Remark::not_understood(path[own].position()));
            return Ok(());
        }
        let index = *self.by_name.entry(name.map_or("", Word::text)).or_insert_with(|| {
            self.keychains.push(Keychain {
                name: name.map_or_else(String::new, |name| unescaped(name).as_str().to_owned()),
                at: path[start.saturating_sub(2)],
                description: None,
                is_disabled: false,
                options: [None; 2],
                entries: Vec::new(),
                by_id: HashMap::new(),
                remarks: Vec::new(),
            });
            self.keychains.len() - 1
        });
        self.keychains[index].take(path, start, own)
    }

    /// The chains, with the neighbors of each, and what else there is to say.
    pub(super) fn finish(
        self,
        mut neighbors: HashMap<String, Vec<Neighbor>>,
        remarks: Vec<Remark>,
    ) -> Result<Content, Error> {
        let mut content = Content { remarks: self.remarks, ..Content::default() };
        content.remarks.extend(remarks);
        for keychain in self.keychains {
            let neighbors = neighbors.remove(&keychain.name).unwrap_or_default();
            keychain.finish(neighbors, &mut content)?;
        }
        let mut missing: Vec<_> = neighbors.into_iter().collect();
        missing.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (_, neighbors) in missing {
            let sentence = format!("the keychain of neighbor {} is not in this file", neighbors[0]);
            content.remarks.push(Remark::warning("missing", None, sentence));
        }
        Ok(content)
    }
}

impl<'a> Keychain<'a> {
    /// Takes a statement whose words from `start` on are about this keychain.
    fn take(&mut self, path: &[Word<'a>], start: usize, own: usize) -> Result<(), Error> {
        let mut at = start;
        let mut pass = |word: &str| {
            let is_there = path.get(at).is_some_and(|has| has.is(word));
            at += usize::from(is_there);
            is_there
        };
        pass("direction");
        let direction = if pass("bidirectional") || pass("bi") {
            Some(Direction::Both)
        } else {
            pass("uni");
            if pass("send") { Some(Direction::Send) } else { pass("receive").then_some(Direction::Receive) }
        };
        let from = |at: usize| &path[at.max(own).min(path.len())..];
        match (direction, path.get(at)) {
            (_, None) => {}
            (Some(direction), Some(entry)) if entry.is("entry") => {
                let id = path.get(at + 1).ok_or_else(|| entry.missing("entry"))?;
                let number = match id.is("null-key") || id.text() == "255" {
                    true => NULL_KEY,
                    false => id.number("entry", MAX_ID.into())? as u8,
                };
                let index = *self.by_id.entry((direction, number)).or_insert(self.entries.len());
                if index == self.entries.len() {
                    self.entries.push(Draft { at: *entry, direction, number, commands: Vec::new() });
                }
                self.entries[index].commands.push(from(at + 2).to_vec());
            }
            (None, Some(first)) if first.is("tcp-option-number") => self.take_options(from(at + 1)),
            (None, Some(_)) => self.take_property(from(at)),
            (Some(_), Some(other)) => self.remarks.push(Remark::not_understood(other.position())),
        }
        Ok(())
    }

    fn take_options(&mut self, words: &[Word<'a>]) {
        for pair in words.chunks(2) {
            match pair {
                [direction, option] if direction.is("send") => self.options[0] = Some(*option),
                [direction, option] if direction.is("receive") => self.options[1] = Some(*option),
                _ => self.remarks.push(Remark::not_understood(pair[0].position())),
            }
        }
    }

    fn take_property(&mut self, words: &[Word<'a>]) {
        match words {
            [name, text] if name.is("description") => {
                self.description = Some(unescaped(text).as_str().to_owned());
            }
            [name, state] if name.is("admin-state") => self.is_disabled = state.is("disable"),
            [word] if word.is("shutdown") => self.is_disabled = true,
            [no, word] if no.is("no") && word.is("shutdown") => self.is_disabled = false,
            [no, word] if no.is("no") && word.is("description") => {}
            [word] if word.is("create") => {}
            _ => self.remarks.extend(words.first().map(|first| Remark::not_understood(first.position()))),
        }
    }

    /// Adds its chain to the content, or what there is to say instead.
    fn finish(self, neighbors: Vec<Neighbor>, content: &mut Content) -> Result<(), Error> {
        let is_ao = self.options.map(|option| option.is_some_and(|option| option.is(TCP_AO)));
        if is_ao != [true; 2] {
            let what = "a key of a keychain that is not for TCP-AO";
            content
                .skipped
                .extend(self.entries.iter().map(|entry| Skipped { position: entry.at.position(), what }));
            let is_for_tcp = !neighbors.is_empty() || self.entries.iter().any(Draft::is_for_ao);
            if is_for_tcp || is_ao != [false; 2] {
                content.remarks.extend(self.without_ao());
            }
            return Ok(());
        }
        let name = self.name;
        if self.is_disabled {
            let sentence = "it is disabled, so its keys are left out";
            content.keep_remarks(&name, [Remark::warning("not-in-use", Some(self.at.position()), sentence)]);
            return Ok(());
        }
        let mut remarks = self.remarks;
        let keys = keys(&self.entries, &mut remarks)?;
        let tolerance = keys.iter().map(|(_, tolerance)| *tolerance).min();
        let Some(accept_tolerance) = tolerance else {
            content.keep_remarks(&name, remarks);
            return Ok(());
        };
        // Each entry has a tolerance and a chain has one: what an entry has more is added to its accept lifetime.
        let keys = keys.into_iter().map(|(key, tolerance)| ChainKey {
            accept: key.accept.widened_by(tolerance - accept_tolerance),
            ..key
        });
        let keys = keys.collect();
        content.chains.push(Chain {
            name,
            description: self.description,
            accept_tolerance,
            neighbors,
            keys,
            remarks,
        });
        Ok(())
    }

    /// For each direction without TCP-AO, what it has instead.
    fn without_ao(&self) -> impl Iterator<Item = Remark> {
        let directions = ["send", "receive"].into_iter().zip(self.options);
        let other = directions.filter(|(_, option)| !option.is_some_and(|option| option.is(TCP_AO)));
        other.map(|(direction, option)| {
            let verb = if direction == "send" { "sends" } else { "expects" };
            let position = option.as_ref().unwrap_or(&self.at).position();
            let default = if option.is_none() { " by default" } else { "" };
            let sentence = format!(
                "keychain {:?} {verb} the older TCP option{default} (kind 253 or 254), which is not TCP-AO: write \
                 \"tcp-option-number {direction} tcp-ao\"",
                self.name
            );
            Remark::warning("older-option", Some(position), sentence)
        })
    }
}

/// The keys of entries, each with its tolerance.
fn keys(drafts: &[Draft<'_>], remarks: &mut Vec<Remark>) -> Result<Vec<(ChainKey, u32)>, Error> {
    let (mut both, mut send, mut receive) = (Vec::new(), Vec::new(), Vec::new());
    // When each key that is in use for sending begins.
    let mut begins = Vec::new();
    for draft in drafts {
        let begin = match draft.read(remarks)? {
            Reading::Disabled => None,
            Reading::LeftOut(begin) => begin,
            Reading::Key(entry) => {
                let begin = entry.begin;
                match draft.direction {
                    Direction::Both => both.push(entry),
                    Direction::Send => send.push(entry),
                    Direction::Receive => receive.push(entry),
                }
                begin
            }
        };
        begins.extend(begin.filter(|_| draft.direction != Direction::Receive));
    }
    begins.sort_unstable();
    let (pairs, alone) = pair(send, receive);
    for entry in alone {
        let other = if entry.direction == Direction::Send { "receive" } else { "send" };
        let sentence = format!(
            "{} has no {other} entry with its secret and algorithm, so its key is left out: an MKT is for both directions",
            entry.name()
        );
        remarks.push(Remark::warning("pairing", Some(entry.at.position()), sentence));
    }
    let mut keys = Vec::with_capacity(both.len() + pairs.len());
    keys.extend(both.iter().map(|entry| (key(entry, entry, &begins), entry.tolerance)));
    for pair in &pairs {
        if !pair.is_certain {
            let sentence = format!(
                "{} and {} are taken as one key, but their secrets are encrypted and cannot be compared",
                pair.send.name(),
                pair.receive.name()
            );
            let remark = Remark::warning("pairing", Some(pair.send.at.position()), sentence);
            remarks.push(remark.into_note().of_key(pair.send.number.into()));
        }
        keys.push((key(&pair.send, &pair.receive, &begins), pair.receive.tolerance));
    }
    Ok(keys)
}

/// The key of two entries, or of one for both directions. It is used for sending until the next of all keys begins.
fn key(send: &Entry<'_>, receive: &Entry<'_>, begins: &[Timestamp]) -> ChainKey {
    let next = send.begin.and_then(|begin| begins.get(begins.partition_point(|other| *other <= begin)));
    // Of two secrets, one may be encrypted and the other readable.
    let known = if send.secret.encryption().is_some() { receive } else { send };
    ChainKey {
        position: Some(send.at.position()),
        key_id: send.number.into(),
        send_id: KeyId(send.number),
        recv_id: KeyId(receive.number),
        algorithm: send.algorithm,
        mac_length: MAC_LENGTH,
        options: OptionCoverage::Covered,
        secret: known.secret.clone(),
        send: Lifetime::new(send.begin, next.copied()).unwrap_or_default(),
        accept: Lifetime::new(receive.begin, receive.end).unwrap_or_default(),
        clock: if send.clock == Clock::Local { send.clock } else { receive.clock },
        preference: Preference::Ordinary,
    }
}

/// A key, and how certain it is that both entries are one.
struct Pair<'a> {
    send: Entry<'a>,
    receive: Entry<'a>,
    /// Whether the secrets could be compared.
    is_certain: bool,
}

/// Whether two entries may be one key.
type Rule = fn(&Entry<'_>, &Entry<'_>) -> bool;

/// The rules in order of strength; an entry is taken by the first rule that has another for it.
const RULES: [(Rule, bool); 4] = [
    (|send, receive| has_same_secret(send, receive) && send.begin == receive.begin, true),
    (has_same_secret, true),
    (|send, receive| has_unknown_secret(send, receive) && send.begin == receive.begin, false),
    (has_unknown_secret, false),
];

/// Pairs entries. An MKT has both directions, so those that are left are no keys.
fn pair<'a>(send: Vec<Entry<'a>>, mut receive: Vec<Entry<'a>>) -> (Vec<Pair<'a>>, Vec<Entry<'a>>) {
    let mut found: Vec<_> = send.iter().map(|_| None).collect();
    for (rule, is_certain) in RULES {
        for (send, found) in send.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            let at =
                receive.iter().position(|receive| send.algorithm == receive.algorithm && rule(send, receive));
            *found = at.map(|at| (receive.remove(at), is_certain));
        }
    }
    let mut pairs = Vec::with_capacity(send.len());
    let mut alone = Vec::new();
    for (send, found) in send.into_iter().zip(found) {
        match found {
            Some((receive, is_certain)) => pairs.push(Pair { send, receive, is_certain }),
            None => alone.push(send),
        }
    }
    alone.extend(receive);
    (pairs, alone)
}

fn has_same_secret(send: &Entry<'_>, receive: &Entry<'_>) -> bool {
    match (send.secret.encryption(), receive.secret.encryption()) {
        (None, None) => send.secret.expose() == receive.secret.expose(),
        (one, other) => one == other && send.written.text() == receive.written.text(),
    }
}

fn has_unknown_secret(send: &Entry<'_>, receive: &Entry<'_>) -> bool {
    send.secret.encryption().is_some() || receive.secret.encryption().is_some()
}
