//! Junos's `key-chain`: keys with ids, and a start each.

use std::collections::HashMap;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, OptionCoverage};

use super::super::file::{
    Chain, ChainKey, Clock, Content, Notation, Preference, Remark, Secret, Skipped, several,
};
use super::super::obscured::{JUNOS_NINE, junos_nine};
use super::super::tree::{self, Kind, Word, moment, once, unescaped};
use super::groups::Statement;
use super::users::Users;
use crate::{Error, Lifetime, Position, Timestamp};

/// The largest number of a key in a chain.
pub(super) const MAX_KEY_ID: u64 = 63;
/// Octets of the MAC of both algorithms.
pub(super) const MAC_LENGTH: usize = 12;
/// The default tolerance for clock skew, in seconds.
const TOLERANCE: u32 = 3600;
/// A start before this, in 1970, stands for none: Junos requires a start for every key, and that those of a chain differ.
pub(super) const NO_START_BEFORE: Timestamp = Timestamp::from_unix_seconds(31_536_000);
/// The largest tolerance in seconds.
pub(super) const MAX_TOLERANCE: u32 = 999_999_999;
/// The start of a secret that is encrypted with the router's master password.
const JUNOS_EIGHT: &str = "$8$";
/// Properties of a key that are for other protocols, and those that every statement may have.
const OTHER_PROPERTIES: [&str; 4] = ["key-name", "options", "apply-macro", "apply-flags"];

/// Name and rest of `... authentication-key-chains key-chain NAME ...`, or of a part that begins below; `key N ...` has no name.
pub(super) fn chain_of<'s, 'a>(words: &'s [Word<'a>]) -> Option<(&'a str, &'s [Word<'a>])> {
    let above = words.iter().position(|word| word.is("authentication-key-chains"));
    match &words[above.map_or(0, |at| at + 1)..] {
        [first, name, rest @ ..] if first.is("key-chain") => Some((name.text(), rest)),
        rest @ [first, ..] if first.is("key") && above.is_none() => Some(("", rest)),
        _ => None,
    }
}

/// The key chains of a text, as far as they have been read.
#[derive(Default)]
pub(super) struct Drafts<'a> {
    chains: Vec<ChainDraft<'a>>,
    by_name: HashMap<&'a str, usize>,
}

#[derive(Default)]
struct ChainDraft<'a> {
    name: &'a str,
    description: Option<String>,
    tolerance: Option<u32>,
    keys: Vec<KeyDraft<'a>>,
    by_id: HashMap<u64, usize>,
    not_understood: Vec<Position>,
}

struct KeyDraft<'a> {
    at: Word<'a>,
    key_id: u64,
    is_for_ao: Option<bool>,
    send_id: Option<KeyId>,
    recv_id: Option<KeyId>,
    algorithm: Option<TcpAoAlgorithm>,
    secret: Option<Word<'a>>,
    options: Option<OptionCoverage>,
    start: Option<Vec<Word<'a>>>,
    not_understood: Vec<Position>,
    /// That it is left out, because TCP-AO does not have its algorithm.
    left_out: Option<Remark>,
}

impl<'a> Drafts<'a> {
    pub(super) fn take(&mut self, statement: &Statement<'a>) -> Result<(), Error> {
        let Some((name, rest)) = chain_of(&statement.words) else { return Ok(()) };
        let index = *self.by_name.entry(name).or_insert_with(|| {
            self.chains.push(ChainDraft { name, ..ChainDraft::default() });
            self.chains.len() - 1
        });
        let chain = &mut self.chains[index];
        let is_inherited = statement.is_inherited;
        match rest {
            [first, value] if first.is("tolerance") => {
                let seconds = value.number("tolerance", MAX_TOLERANCE.into())?;
                set(&mut chain.tolerance, seconds as u32, first, "tolerance", is_inherited)
            }
            [first, value] if first.is("description") => {
                if !is_inherited || chain.description.is_none() {
                    chain.description = Some(unescaped(value).as_str().to_owned());
                }
                Ok(())
            }
            [first, id, property @ ..] if first.is("key") => {
                let key_id = id.number("key", u64::MAX)?;
                chain.key(key_id, first).take(property, is_inherited)
            }
            [] => Ok(()),
            [first, ..] if is_other(first) => Ok(()),
            [first, ..] => {
                chain.not_understood.push(first.position());
                Ok(())
            }
        }
    }

    /// The chains with keys for TCP-AO, and what else there is.
    pub(super) fn finish(self, users: &Users<'_>, content: &mut Content) -> Result<(), Error> {
        let mut used = users.by_chain();
        let mut missing: Vec<_> =
            users.chains().filter(|chain| !self.by_name.contains_key(chain.text())).collect();
        missing.sort_unstable_by_key(|chain| (chain.position().line, chain.position().column));
        content.remarks.extend(
            missing
                .into_iter()
                .map(|chain| Remark::missing(chain.position(), format_args!("key chain {:?}", chain.text()))),
        );
        for draft in self.chains {
            let (keys, others): (Vec<_>, Vec<_>) =
                draft.keys.iter().partition(|key| key.is_for_ao == Some(true));
            for key in others {
                let position = key.at.position();
                if key.is_for_ao.is_none() && (key.send_id.is_some() || key.recv_id.is_some()) {
                    let sentence = format!(
                        "key {} of chain {:?} has ids for TCP-AO but not \"algorithm ao\", so Junos uses it for another option: it \
                         is left out",
                        key.key_id, draft.name
                    );
                    content.remarks.push(Remark::warning("left-out", Some(position), sentence));
                } else {
                    content.skipped.push(Skipped { position, what: "a key without algorithm ao" });
                }
            }
            let keys: Vec<_> =
                keys.into_iter().map(|key| Ok((key, key.start()?))).collect::<Result<_, Error>>()?;
            let mut starts: Vec<_> = keys
                .iter()
                .filter_map(|(_, start)| start.filter(|start| *start >= NO_START_BEFORE))
                .collect();
            starts.sort_unstable();
            let mut remarks: Vec<_> =
                draft.not_understood.iter().map(|at| Remark::not_understood(*at)).collect();
            remarks.extend(refusals(&keys));
            remarks.extend(keys.iter().filter_map(|(key, _)| key.left_out.clone()));
            let keys = keys.iter().filter(|(key, _)| key.left_out.is_none());
            let keys = keys.map(|(key, start)| key.finish(*start, &starts)).collect::<Result<Vec<_>, _>>()?;
            if keys.is_empty() {
                content.keep_remarks(draft.name, remarks);
                continue;
            }
            let used = used.remove(draft.name).unwrap_or_default();
            if !used.without_ao.is_empty() {
                let neighbors = several(used.without_ao.iter());
                let setting = "no authentication-algorithm ao";
                remarks.push(Remark::older_option(None, neighbors, setting).lost());
            }
            content.chains.push(Chain {
                name: draft.name.to_owned(),
                description: draft.description,
                accept_tolerance: draft.tolerance.unwrap_or(TOLERANCE),
                neighbors: used.neighbors,
                keys,
                remarks,
            });
        }
        Ok(())
    }
}

/// What Junos refuses in the keys of a chain, and what is not understood there.
fn refusals(keys: &[(&KeyDraft<'_>, Option<Timestamp>)]) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let (mut starts, mut send_ids, mut recv_ids) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (key, start) in keys {
        let about = |remark: Remark| remark.of_key(key.key_id);
        let refused = |sentence| about(Remark::warning("refused", None, sentence));
        remarks.extend(key.not_understood.iter().map(|at| about(Remark::not_understood(*at))));
        match start {
            None => remarks.push(refused("Junos requires a start-time for every key".to_owned())),
            Some(start) => {
                if let Some(other) = starts.insert(start, key.key_id) {
                    remarks.push(refused(format!(
                        "Junos requires different start-times: key {other} has the same"
                    )));
                }
            }
        }
        // The same id in the same direction is reported for every implementation.
        let of_other = [(key.send_id, &recv_ids), (key.recv_id, &send_ids)];
        let of_other =
            of_other.into_iter().find_map(|(id, others)| id.and_then(|id| Some((id, others.get(&id)?))));
        if let Some((id, other)) = of_other {
            remarks.push(refused(format!(
                "Junos requires ids that no other key of the chain has: {id} is also an id of key {other}"
            )));
        }
        send_ids.extend(key.send_id.map(|id| (id, key.key_id)));
        recv_ids.extend(key.recv_id.map(|id| (id, key.key_id)));
    }
    remarks
}

impl<'a> ChainDraft<'a> {
    fn key(&mut self, key_id: u64, at: &Word<'a>) -> &mut KeyDraft<'a> {
        let index = *self.by_id.entry(key_id).or_insert(self.keys.len());
        if index == self.keys.len() {
            self.keys.push(KeyDraft {
                at: *at,
                key_id,
                is_for_ao: None,
                send_id: None,
                recv_id: None,
                algorithm: None,
                secret: None,
                options: None,
                start: None,
                not_understood: Vec::new(),
                left_out: None,
            });
        }
        &mut self.keys[index]
    }
}

impl<'a> KeyDraft<'a> {
    fn take(&mut self, property: &[Word<'a>], is_inherited: bool) -> Result<(), Error> {
        match property {
            [name, attribute @ ..] if name.is("ao-attribute") => self.take_attribute(attribute, is_inherited),
            [name, value] if name.is("secret") => set(&mut self.secret, *value, name, "secret", is_inherited),
            [name, value] if name.is("algorithm") => {
                if !is_inherited || self.is_for_ao.is_none() {
                    self.is_for_ao = Some(value.is("ao"));
                }
                Ok(())
            }
            [name, value @ ..] if name.is("start-time") => {
                set(&mut self.start, value.to_vec(), name, "start-time", is_inherited)
            }
            [] => Ok(()),
            [name, ..] if is_other(name) => Ok(()),
            [name, ..] => {
                self.not_understood.push(name.position());
                Ok(())
            }
        }
    }

    fn take_attribute(&mut self, attribute: &[Word<'a>], is_inherited: bool) -> Result<(), Error> {
        match attribute {
            [name, value] if name.is("send-id") => {
                set(&mut self.send_id, value.key_id("send-id")?, name, "send-id", is_inherited)
            }
            [name, value] if name.is("recv-id") => {
                set(&mut self.recv_id, value.key_id("recv-id")?, name, "recv-id", is_inherited)
            }
            [name, value] if name.is("tcp-ao-option") => {
                let coverage = match () {
                    () if value.is("enabled") => OptionCoverage::Covered,
                    () if value.is("disabled") => OptionCoverage::Excluded,
                    () => return Err(value.expected("tcp-ao-option", "enabled or disabled")),
                };
                set(&mut self.options, coverage, name, "tcp-ao-option", is_inherited)
            }
            [name, value] if name.is("cryptographic-algorithm") => {
                let field = "cryptographic-algorithm";
                match value.algorithm(field) {
                    Err(error) if error.is_of_other_algorithm() => {
                        let remark = Remark::left_out(value.position(), error.problem());
                        self.left_out = Some(remark.of_key(self.key_id));
                        Ok(())
                    }
                    algorithm => set(&mut self.algorithm, algorithm?, name, field, is_inherited),
                }
            }
            [] => Ok(()),
            [name, ..] if is_other(name) => Ok(()),
            [name, ..] => {
                self.not_understood.push(name.position());
                Ok(())
            }
        }
    }

    /// Its start, if it has one.
    fn start(&self) -> Result<Option<Timestamp>, Error> {
        let Some(words) = &self.start else { return Ok(None) };
        let expected = "a start time such as \"2026-01-31.00:00:00 +0000\"";
        let at = words.first().unwrap_or(&self.at);
        start_time(words).map(Some).ok_or_else(|| at.expected("start-time", expected))
    }

    /// The finished key with its start; `starts` are those of all keys of its chain, in order.
    fn finish(&self, start: Option<Timestamp>, starts: &[Timestamp]) -> Result<ChainKey, Error> {
        let missing = |field| self.at.missing(field);
        let start = start.filter(|start| *start >= NO_START_BEFORE);
        let next =
            start.and_then(|start| starts.get(starts.partition_point(|other| *other <= start))).copied();
        Ok(ChainKey {
            position: Some(self.at.position()),
            key_id: self.key_id,
            send_id: self.send_id.ok_or_else(|| missing("send-id"))?,
            recv_id: self.recv_id.ok_or_else(|| missing("recv-id"))?,
            algorithm: self.algorithm.unwrap_or(TcpAoAlgorithm::HmacSha1),
            mac_length: MAC_LENGTH,
            options: self.options.unwrap_or(OptionCoverage::Excluded),
            secret: secret(self.secret.as_ref().ok_or_else(|| missing("secret"))?)?,
            send: Lifetime::new(start, next).unwrap_or_default(),
            accept: start.map_or(Lifetime::ALWAYS, Lifetime::starting),
            clock: Clock::Utc,
            preference: Preference::Ordinary,
        })
    }
}

/// Whether a property is for another protocol, or changes nothing.
fn is_other(name: &Word<'_>) -> bool {
    OTHER_PROPERTIES.iter().any(|other| name.is(other))
}

/// Sets a value that may be given once. One from a group gives way to one that is there.
fn set<T>(
    slot: &mut Option<T>,
    value: T,
    at: &Word<'_>,
    field: &'static str,
    is_inherited: bool,
) -> Result<(), Error> {
    if is_inherited {
        slot.get_or_insert(value);
        return Ok(());
    }
    once(slot, value, at, field)
}

fn secret(word: &Word<'_>) -> Result<Secret, Error> {
    let text = unescaped(word);
    let refused = |reason: &'static str| Err(word.refused("secret", reason));
    if text.starts_with(JUNOS_NINE) {
        return match junos_nine(&text) {
            Some(octets) => Ok(Secret::new(octets, Notation::JunosNine)),
            None => refused("is a damaged $9$ secret"),
        };
    }
    if text.starts_with(JUNOS_EIGHT) {
        return Ok(Secret::encrypted(JUNOS_EIGHT));
    }
    if matches!(word.kind, Kind::Plain(_)) && text.contains('#') {
        return refused("has a # outside of quotes, which may begin a comment: write the secret in quotes");
    }
    Ok(Secret::text(&text))
}

/// `2016-12-31.16:00:00 -0800`, in one string or as words; seconds and offset (UTC by default) are optional.
fn start_time(words: &[Word<'_>]) -> Option<Timestamp> {
    let mut parts = words.iter().flat_map(|word| word.text().split(' ')).filter(|part| !part.is_empty());
    let (date, time) = parts.next()?.split_once('.')?;
    let offset = parts.next().unwrap_or("+0000");
    if parts.next().is_some() || !offset.is_ascii() || offset.len() != 5 {
        return None;
    }
    let (hours, minutes) = offset.split_at(3);
    moment(tree::date(date, '-')?, time, &format!("{hours}:{minutes}"))
}
