//! IOS XR configuration: `key chain` for secrets and lifetimes, `tcp ao` for ids, and BGP's `ao` for neighbors (Cisco, BGP Session
//! Authentication and Integrity using TCP Authentication Option, and Keychain Management Commands).

mod bgp;
mod change;
mod commands;
mod write;

use std::collections::{HashMap, HashSet};

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, OptionCoverage};

use self::bgp::{Bgp, Use, Users};
use self::write::{MAX_KEY_ID, MAX_TOLERANCE, is_bounded};
use super::cisco::{key_string, lifetime};
use super::file::{
    Chain, ChainKey, Clock, Content, Neighbor, Preference, Remark, Skipped, is_link_local, several,
};
use super::table::{Limits, SendingRule, Shows, Table, begins, first_line};
use super::tree::{Word, digits, once, place, without_prompt};
use super::write::written;
use crate::{Error, Lifetime, Position, Timestamp};

pub(super) const TABLE: Table = Table {
    name: "ios-xr",
    about: "Cisco IOS XR configuration",
    extension: None,
    shows,
    read: |text, _| read(text),
    fit: write::that_can_be,
    write: Some(|chains, losses| Ok(written(chains, |text| write::write(text, chains, losses)))),
    change: Some(change::CHANGE),
    limits: Limits {
        name: "ios-xr",
        about: "IOS XR",
        title: "IOS XR",
        options_setting: "include-tcp-options enable",
        algorithm: TcpAoAlgorithm::ios_xr_name,
        mac_lengths: [MAC_LENGTH, MAC_LENGTH],
        max_key_id: MAX_KEY_ID,
        obscured: Some("type 7"),
        has_one_lifetime: true,
        sending: SendingRule::Unspecified,
        ..Limits::NONE
    },
};

/// Octets of the MAC of both algorithms.
const MAC_LENGTH: usize = 12;

fn shows(text: &str) -> Shows {
    let line = without_prompt(first_line(text));
    let word = |index: usize| line.split_whitespace().nth(index);
    let is = |index: usize, name: &str| word(index).is_some_and(|word| word.eq_ignore_ascii_case(name));
    match () {
        // Others have a name after it.
        () if is(0, "tcp") && is(1, "ao") => Shows::if_(word(2).is_none() || is(2, "keychain")),
        () if is(0, "ao") && is(2, "include-tcp-options") => Shows::if_(is(3, "enable") || is(3, "disable")),
        () if begins(line, &["key chain", "router bgp"]) => Shows::Perhaps,
        () => Shows::Nothing,
    }
}

/// The key chains with ids in `tcp ao`, with the BGP neighbors that use them.
///
/// A chain that neighbors use both with and without TCP options becomes two.
fn read(text: &str) -> Result<Content, Error> {
    let mut drafts = Drafts::default();
    commands::each(text, |command, outer| drafts.take(command, outer))?;
    drafts.finish()
}

#[derive(Default)]
struct Drafts<'a> {
    chains: Vec<ChainDraft<'a>>,
    by_name: HashMap<&'a str, usize>,
    /// The keys with ids in `tcp ao`, by chain and number, in order.
    ids: Vec<(&'a str, u64, Word<'a>)>,
    ids_of: HashMap<&'a str, HashMap<u64, [KeyId; 2]>>,
    bgp: Bgp<'a>,
    clock: RouterClock,
    remarks: Vec<Remark>,
}

/// The router's local time.
#[derive(Clone, Copy, Default)]
enum RouterClock {
    /// The text does not say.
    #[default]
    Unsaid,
    /// So many seconds are added to universal time.
    Offset(i64),
    /// A region or summer time, whose offset changes.
    Unknown,
}

struct ChainDraft<'a> {
    name: &'a str,
    tolerance: Option<u32>,
    /// Whether `timezone` says that its lifetimes are in local time.
    is_local: Option<bool>,
    keys: Vec<KeyDraft<'a>>,
    by_id: HashMap<&'a str, usize>,
    /// Lines that are not understood, which matter if the chain is for TCP-AO.
    odd: Vec<Position>,
}

/// The commands of a key. They are read only once the key is known to be for TCP-AO.
struct KeyDraft<'a> {
    at: Word<'a>,
    /// As written, because in a chain for MACsec it is not a number.
    key_id: &'a str,
    commands: Vec<Vec<Word<'a>>>,
}

impl<'a> Drafts<'a> {
    /// Takes a command, of whose words the first `outer` are those of its modes.
    fn take(&mut self, command: &[Word<'a>], outer: usize) -> Result<(), Error> {
        let own = &command[outer];
        match command {
            [key, chain, name, rest @ ..] if key.is("key") && chain.is("chain") => {
                self.take_chain(name, rest, own)
            }
            [tcp, ao, rest @ ..] if tcp.is("tcp") && ao.is("ao") => self.take_ids(rest, own),
            [router, bgp, _, rest @ ..] if router.is("router") && bgp.is("bgp") => self.bgp.take(rest, own),
            [clock, zone, _, offset @ ..] if clock.is("clock") && zone.is("timezone") => {
                self.clock = match (self.clock, offset_of(offset)) {
                    (RouterClock::Unsaid, Some(seconds)) => RouterClock::Offset(seconds),
                    (RouterClock::Offset(before), Some(seconds)) if before == seconds => self.clock,
                    _ => RouterClock::Unknown,
                };
                Ok(())
            }
            [clock, summer, ..] if clock.is("clock") && summer.is("summer-time") => {
                self.clock = RouterClock::Unknown;
                Ok(())
            }
            // Without indentation, the line does not show that it is about PCEP.
            [top, ..]
                if own.is("tcp-ao")
                    || (top.is("segment-routing") || top.is("pce")) && place(command, "tcp-ao").is_some() =>
            {
                let sentence = "`tcp-ao` of PCEP is not read: its peers are not among those of the chain";
                self.remarks
                    .push(Remark::warning("not-understood", Some(own.position()), sentence).into_note());
                Ok(())
            }
            _ => {
                if is_stray(&command[outer..]) {
                    self.remarks.push(Remark::not_understood(own.position()));
                }
                Ok(())
            }
        }
    }

    fn take_chain(&mut self, name: &Word<'a>, rest: &[Word<'a>], own: &Word<'a>) -> Result<(), Error> {
        let text = name.text();
        let index = *self.by_name.entry(text).or_insert(self.chains.len());
        if index == self.chains.len() {
            self.chains.push(ChainDraft {
                name: text,
                tolerance: None,
                is_local: None,
                keys: Vec::new(),
                by_id: HashMap::new(),
                odd: Vec::new(),
            });
        }
        let chain = &mut self.chains[index];
        match rest {
            [] => Ok(()),
            [first, ..] if first.is("tcp") => {
                let reason = "\"key chain NAME tcp\" is IOS XE or NX-OS, which are formats of their own";
                Err(first.refused("key chain", reason))
            }
            [first, value] if first.is("accept-tolerance") => {
                let seconds = match value.is("infinite") {
                    true => u32::MAX,
                    false => value.number("accept-tolerance", u32::MAX.into())? as u32,
                };
                once(&mut chain.tolerance, seconds, first, "accept-tolerance")
            }
            [first, zone] if first.is("timezone") && (zone.is("local") || zone.is("gmt")) => {
                once(&mut chain.is_local, zone.is("local"), first, "timezone")
            }
            [first, id, property @ ..] if first.is("key") => {
                // `key 01` is key 1.
                let zeros = id.text().bytes().take_while(|c| *c == b'0').count();
                let key_id = &id.text()[zeros.min(id.text().len() - 1)..];
                let index = *chain.by_id.entry(key_id).or_insert(chain.keys.len());
                if index == chain.keys.len() {
                    chain.keys.push(KeyDraft { at: *first, key_id, commands: Vec::new() });
                }
                chain.keys[index].commands.push(property.to_vec());
                Ok(())
            }
            _ => {
                chain.odd.push(own.position());
                Ok(())
            }
        }
    }

    /// Takes what follows `tcp ao`.
    fn take_ids(&mut self, rest: &[Word<'a>], own: &Word<'a>) -> Result<(), Error> {
        let (name, key, id, rest) = match rest {
            [] => return Ok(()),
            [keychain, _] if keychain.is("keychain") => return Ok(()),
            [keychain, name, key, id, rest @ ..] if keychain.is("keychain") && key.is("key") => {
                (name.text(), key, id, rest)
            }
            _ => {
                self.remarks.push(Remark::not_understood(own.position()));
                return Ok(());
            }
        };
        let key_id = id.number("key", MAX_KEY_ID)?;
        let ids = match rest {
            [send, send_id, receive, receive_id] if send.is("SendID") && receive.is("ReceiveID") => {
                [send_id.key_id("SendID")?, receive_id.key_id("ReceiveID")?]
            }
            _ => return Err(key.expected("tcp ao", "key ID SendID ID ReceiveID ID")),
        };
        match self.ids_of.entry(name).or_default().insert(key_id, ids) {
            None => self.ids.push((name, key_id, *key)),
            Some(_) => return Err(key.refused("tcp ao", "is given twice")),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Content, Error> {
        let Users { users, remarks } = std::mem::take(&mut self.bgp).finish();
        let mut content = Content { remarks: std::mem::take(&mut self.remarks), ..Content::default() };
        content.remarks.extend(remarks);
        // Why a key is left out: an error if no other key is left.
        let mut left_out = self.say_missing_keys(&mut content.remarks);
        let mut users_of = self.by_chain(users, &mut content.remarks);
        let mut is_assumed = None;
        for draft in &self.chains {
            let ids = self.ids_of.get(draft.name);
            let mut parts =
                Vec::from([OptionCoverage::Covered, OptionCoverage::Excluded].map(|coverage| {
                    (coverage, users_of.remove(&(draft.name, coverage)).unwrap_or_default())
                }));
            let mut remarks = Vec::new();
            let mut keys = Vec::with_capacity(draft.keys.len());
            for key in &draft.keys {
                let ids = key.number().and_then(|key_id| Some((key_id, *ids?.get(&key_id)?)));
                let Some((key_id, ids)) = ids else {
                    let what = "a key without ids in \"tcp ao\"";
                    content.skipped.push(Skipped { position: key.at.position(), what });
                    continue;
                };
                match key.finish(key_id, ids, draft.time(self.clock), &mut remarks) {
                    Ok(key) => keys.push(key),
                    Err(error) if error.is_of_other_algorithm() => {
                        remarks.push(Remark::left_out(key.at.position(), error.problem()).of_key(key_id));
                        left_out.get_or_insert(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            if keys.is_empty() {
                let used: Vec<_> = parts.iter().flat_map(|(_, users)| users).collect();
                if let (Some((_, usage)), None) = (used.first(), ids) {
                    let neighbors = several(used.iter().map(|(neighbor, _)| neighbor));
                    let sentence = format!("is used by {neighbors} and has no ids in `tcp ao`");
                    remarks.push(Remark::warning("missing", Some(usage.position), sentence));
                }
                content.keep_remarks(draft.name, remarks);
                continue;
            }
            remarks.extend(draft.odd.iter().copied().map(Remark::not_understood));
            if draft.tolerance.is_some_and(|seconds| seconds > MAX_TOLERANCE && seconds < u32::MAX) {
                let sentence =
                    format!("IOS XR has tolerances of at most {MAX_TOLERANCE} s, or infinite ones");
                remarks.push(Remark::warning("refused", None, sentence));
            }
            if let (None, RouterClock::Unsaid, Some(key)) =
                (draft.is_local, self.clock, keys.iter().find(|key| is_bounded(key)))
            {
                is_assumed = is_assumed.or(key.position);
            }
            match parts.iter().any(|(_, users)| !users.is_empty()) {
                true => parts.retain(|(_, users)| !users.is_empty()),
                false => parts.truncate(1),
            }
            for (coverage, users) in parts {
                let mut remarks = remarks.clone();
                remarks.extend(remarks_of(&users));
                content.chains.push(Chain {
                    name: draft.name.to_owned(),
                    accept_tolerance: draft.tolerance.unwrap_or(0),
                    neighbors: users.into_iter().map(|(neighbor, _)| neighbor).collect(),
                    keys: keys.iter().map(|key| ChainKey { options: coverage, ..key.clone() }).collect(),
                    remarks,
                    ..Chain::default()
                });
            }
        }
        if is_assumed.is_some() {
            let sentence = "lifetimes are read as UTC: a chain without `timezone` has them in the router's local time, and no `clock \
                            timezone` is in the file";
            content.remarks.push(Remark::warning("assumed", is_assumed, sentence).into_note());
        }
        match left_out {
            Some(error) if content.chains.is_empty() => Err(error),
            _ => Ok(content),
        }
    }
    /// Names the keys that have ids and are not there, and returns an error about the first.
    fn say_missing_keys(&self, remarks: &mut Vec<Remark>) -> Option<Error> {
        let numbers = |chain: &ChainDraft<'a>| {
            let name = chain.name;
            chain.keys.iter().filter_map(move |key| Some((name, key.number()?))).collect::<Vec<_>>()
        };
        let there: HashSet<_> = self.chains.iter().flat_map(numbers).collect();
        let missing = self.ids.iter().filter(|(name, key_id, _)| !there.contains(&(*name, *key_id)));
        remarks.extend(missing.clone().map(|(name, key_id, at)| {
            let what = format_args!("key {key_id} of chain {name:?}, which has ids in `tcp ao`,");
            Remark::missing(at.position(), what)
        }));
        missing.map(|(_, _, at)| at.missing("key chain ... key")).next()
    }

    /// The neighbors by the chain that they use and by its coverage of TCP options. Names the chains that are not there.
    fn by_chain(
        &self,
        users: Vec<(Neighbor, Use<'a>)>,
        remarks: &mut Vec<Remark>,
    ) -> HashMap<(&'a str, OptionCoverage), Vec<(Neighbor, Use<'a>)>> {
        let mut users_of: HashMap<_, Vec<_>> = HashMap::new();
        let mut missing: Vec<(Use<'a>, Vec<Neighbor>)> = Vec::new();
        let mut missing_by_name = HashMap::new();
        for (neighbor, usage) in users {
            if self.by_name.contains_key(usage.chain) {
                users_of.entry((usage.chain, usage.coverage)).or_default().push((neighbor, usage));
                continue;
            }
            let index = *missing_by_name.entry(usage.chain).or_insert(missing.len());
            if index == missing.len() {
                missing.push((usage, Vec::new()));
            }
            missing[index].1.push(neighbor);
        }
        remarks.extend(missing.iter().map(|(usage, neighbors)| {
            let what = format_args!("key chain {:?} of {}", usage.chain, several(neighbors.iter()));
            Remark::missing(usage.position, what)
        }));
        users_of
    }
}

impl ChainDraft<'_> {
    /// The clock of its lifetimes, and the seconds by which that is ahead of what they are converted to.
    fn time(&self, clock: RouterClock) -> (Clock, i64) {
        match (self.is_local, clock) {
            (Some(false), _) | (None, RouterClock::Unsaid) => (Clock::Utc, 0),
            (_, RouterClock::Offset(seconds)) => (Clock::Utc, seconds),
            (_, RouterClock::Unknown) | (Some(true), RouterClock::Unsaid) => (Clock::Local, 0),
        }
    }
}

impl KeyDraft<'_> {
    fn number(&self) -> Option<u64> {
        self.key_id.parse().ok()
    }

    fn finish(
        &self,
        key_id: u64,
        [send_id, recv_id]: [KeyId; 2],
        (clock, ahead): (Clock, i64),
        remarks: &mut Vec<Remark>,
    ) -> Result<ChainKey, Error> {
        let (mut secret, mut algorithm, mut send, mut accept) = (None, None, None, None);
        for command in &self.commands {
            let Some((name, values)) = command.split_first() else { continue };
            if name.is("key-string") {
                once(&mut secret, key_string(name, values)?, name, "key-string")?;
            } else if name.is("cryptographic-algorithm") {
                let field = "cryptographic-algorithm";
                let [value] = values else {
                    return Err(name.expected(field, "an algorithm"));
                };
                once(&mut algorithm, value.algorithm(field)?, name, field)?;
            } else if name.is("send-lifetime") {
                once(&mut send, lifetime(name, values, "send-lifetime")?, name, "send-lifetime")?;
            } else if name.is("accept-lifetime") {
                once(&mut accept, lifetime(name, values, "accept-lifetime")?, name, "accept-lifetime")?;
            } else {
                remarks.push(Remark::not_understood(name.position()).of_key(key_id));
            }
        }
        let missing = |field| self.at.missing(field);
        let lacks = match (send, accept) {
            (Some(_), Some(_)) => None,
            (None, Some(_)) => Some("IOS XR does not use a key without send-lifetime"),
            (Some(_), None) => Some("IOS XR does not use a key without accept-lifetime"),
            (None, None) => Some("IOS XR does not use a key without send-lifetime and accept-lifetime"),
        };
        remarks.extend(lacks.map(|lacks| Remark::warning("refused", None, lacks).of_key(key_id)));
        let universal = |lifetime: Lifetime| {
            let earlier = |moment: Timestamp| Timestamp::from_unix_seconds(moment.unix_seconds() - ahead);
            Lifetime::new(lifetime.from().map(earlier), lifetime.until().map(earlier)).unwrap_or(lifetime)
        };
        let [send, accept] = [send, accept].map(|lifetime| universal(lifetime.unwrap_or_default()));
        Ok(ChainKey {
            position: Some(self.at.position()),
            key_id,
            send_id,
            recv_id,
            algorithm: algorithm.ok_or_else(|| missing("cryptographic-algorithm"))?,
            mac_length: MAC_LENGTH,
            options: OptionCoverage::Covered,
            secret: secret.ok_or_else(|| missing("key-string"))?,
            send,
            accept,
            clock,
            preference: Preference::Ordinary,
        })
    }
}

/// What is to be said about the neighbors of a chain.
fn remarks_of(users: &[(Neighbor, Use<'_>)]) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let lax: Vec<_> = users.iter().filter(|(_, usage)| usage.accepts_mismatch).collect();
    if let Some((_, usage)) = lax.first() {
        let neighbors = several(lax.iter().map(|(neighbor, _)| neighbor));
        let setting = "accept-ao-mismatch-connection";
        remarks.push(Remark::accepts_mismatch(Some(usage.position), neighbors, setting));
    }
    let is_nowhere = |neighbor: &Neighbor| is_link_local(&neighbor.address) && neighbor.interface.is_none();
    let nowhere: Vec<_> = users.iter().filter(|(neighbor, _)| is_nowhere(neighbor)).collect();
    if let Some((_, usage)) = nowhere.first() {
        let neighbors = several(nowhere.iter().map(|(neighbor, _)| neighbor));
        let sentence =
            format!("the interface of {neighbors}, which is link-local, is not given by `update-source`");
        remarks.push(Remark::warning("missing", Some(usage.position), sentence).into_note().lost());
    }
    remarks
}

/// Seconds from `HOURS [MINUTES]`, or from a name of universal time; `None` for other regions.
fn offset_of(words: &[Word<'_>]) -> Option<i64> {
    let (hours, minutes) = match words {
        [zone] if ["UTC", "GMT", "Etc/UTC", "Etc/GMT"].iter().any(|name| zone.is(name)) => return Some(0),
        [hours] => (hours, 0),
        [hours, minutes] => (hours, digits(minutes.text()).filter(|minutes| *minutes < 60)?),
        _ => return None,
    };
    let text = hours.text();
    let (is_west, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hours = digits(text).filter(|hours| *hours < 24)?;
    let seconds = i64::from(hours) * 3600 + i64::from(minutes) * 60;
    Some(if is_west { -seconds } else { seconds })
}

/// Whether a command belongs in a mode that matters here, and is not in it, or removes one.
fn is_stray(command: &[Word<'_>]) -> bool {
    const INSIDE: [&str; 5] =
        ["ao", "key-string", "cryptographic-algorithm", "send-lifetime", "accept-lifetime"];
    match command {
        [no, first, second, ..] if no.is("no") => [("key", "chain"), ("tcp", "ao"), ("router", "bgp")]
            .iter()
            .any(|(one, other)| first.is(one) && second.is(other)),
        [key, _, send, ..] if key.is("key") && send.is("SendID") => true,
        // At a prompt, beside text that is indented.
        [first, ..] if first.text().contains("(config") => true,
        [first, ..] => INSIDE.iter().any(|word| first.is(word)),
        [] => false,
    }
}
