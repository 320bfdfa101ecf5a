//! IOS XR configuration, indented or formal: `key chain`, `tcp ao` and BGP's `ao` (Cisco, BGP Session Authentication and
//! Integrity using TCP Authentication Option, and Keychain Management Commands).

use std::collections::{HashMap, HashSet};

use cidr::IpCidr;
use wireseal_keys::{Lifetime, Timestamp};
use wireseal_tcp_ao::{KeyId, OptionCoverage};
use zeroize::Zeroizing;

use super::obscured::cisco_seven;
use super::words::{self, Dialect, Kind, Word, Words, digits, once};
use super::{Chain, ChainKey, Notation, Preference, Secret, TextError, TextProblem};

/// Octets of MAC of both algorithms.
const MAC_LENGTH: usize = 12;
/// The largest number of a key in a chain: six octets.
pub(super) const MAX_KEY_ID: u64 = (1 << 48) - 1;
/// The earliest moment; a key that starts then has no start.
pub(super) const FIRST_MOMENT: Timestamp = Timestamp::from_unix_seconds(725_846_400);
/// The last year.
pub(super) const LAST_YEAR: u16 = 2035;
/// The names of the months.
pub(super) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// How deep modes may be nested.
const DEPTH: usize = 64;
/// How many groups may refer to each other.
const GROUPS: usize = 16;

/// The key chains with ids in `tcp ao`, with the BGP neighbors that use them.
///
/// A chain that neighbors use both with and without TCP options becomes two.
pub(super) fn read(text: &str) -> Result<Vec<Chain>, TextError> {
    let mut drafts = Drafts::default();
    commands_of(text, |command| drafts.take(command))?;
    drafts.finish()
}

/// Calls `give` for every command, with the words of the modes around it.
fn commands_of<'a>(
    text: &'a str,
    mut give: impl FnMut(&[Word<'a>]) -> Result<(), TextError>,
) -> Result<(), TextError> {
    let mut words = Words::new(text, Dialect::IosXr);
    let mut path: Vec<Word<'a>> = Vec::new();
    // For each mode, its indentation and where its words end in the path.
    let mut modes: Vec<(usize, usize)> = Vec::new();
    let mut line: Vec<Word<'a>> = Vec::new();
    loop {
        let word = words.next()?;
        match word {
            Some(word) if word.kind != Kind::Line => line.push(word),
            _ => {
                if let Some(first) = line.first() {
                    let indentation = first.indentation();
                    while modes.last().is_some_and(|(outer, _)| *outer >= indentation) {
                        modes.pop();
                    }
                    if modes.len() == DEPTH {
                        return Err(first.error("mode", TextProblem::Refused("modes are nested too deeply")));
                    }
                    path.truncate(modes.last().map_or(0, |(_, end)| *end));
                    path.append(&mut line);
                    modes.push((indentation, path.len()));
                    give(&path)?;
                }
                if word.is_none() {
                    return Ok(());
                }
            }
        }
    }
}

#[derive(Default)]
struct Drafts<'a> {
    chains: Vec<ChainDraft<'a>>,
    by_name: HashMap<&'a str, usize>,
    /// The ids in `tcp ao`, by chain and key number, in order.
    ids: Vec<(&'a str, u64, Word<'a>, [KeyId; 2])>,
    has_ids: HashSet<(&'a str, u64)>,
    /// Neighbors and groups, by kind and name.
    subjects: HashMap<(&'a str, &'a str), Subject<'a>>,
    /// The neighbors, in order.
    neighbors: Vec<(&'a str, IpCidr)>,
}

#[derive(Default)]
struct Subject<'a> {
    ao: Option<(&'a str, OptionCoverage)>,
    groups: Vec<(&'a str, &'a str)>,
}

struct ChainDraft<'a> {
    name: &'a str,
    tolerance: Option<u32>,
    keys: Vec<KeyDraft<'a>>,
    by_id: HashMap<&'a str, usize>,
}

/// The commands of a key; they are read only if the key turns out to be for TCP-AO.
struct KeyDraft<'a> {
    at: Word<'a>,
    /// As written: in a chain for MACsec it is no number.
    key_id: &'a str,
    commands: Vec<Vec<Word<'a>>>,
}

impl<'a> Drafts<'a> {
    fn take(&mut self, command: &[Word<'a>]) -> Result<(), TextError> {
        match command {
            [key, chain, name, rest @ ..] if key.is("key") && chain.is("chain") => {
                self.take_chain(name, rest)
            }
            [tcp, ao, keychain, name, key, id, rest @ ..]
                if tcp.is("tcp") && ao.is("ao") && keychain.is("keychain") && key.is("key") =>
            {
                self.take_ids(name, key, id, rest)
            }
            [router, bgp, _, rest @ ..] if router.is("router") && bgp.is("bgp") => self.take_bgp(rest),
            _ => Ok(()),
        }
    }

    fn take_chain(&mut self, name: &Word<'a>, rest: &[Word<'a>]) -> Result<(), TextError> {
        let text = name.text();
        let index = *self.by_name.entry(text).or_insert(self.chains.len());
        if index == self.chains.len() {
            let (keys, by_id) = (Vec::new(), HashMap::new());
            self.chains.push(ChainDraft { name: text, tolerance: None, keys, by_id });
        }
        let chain = &mut self.chains[index];
        match rest {
            [first, ..] if first.is("tcp") => {
                let reason = "\"key chain NAME tcp\" is IOS XE, and only IOS XR is supported";
                Err(first.error("key chain", TextProblem::Refused(reason)))
            }
            [first, value] if first.is("accept-tolerance") => {
                let seconds = match value.is("infinite") {
                    true => u32::MAX,
                    false => value.number("accept-tolerance", u32::MAX.into())? as u32,
                };
                once(&mut chain.tolerance, seconds, first, "accept-tolerance")
            }
            [first, id, property @ ..] if first.is("key") => {
                let key_id = id.text();
                let index = *chain.by_id.entry(key_id).or_insert(chain.keys.len());
                if index == chain.keys.len() {
                    chain.keys.push(KeyDraft { at: *first, key_id, commands: Vec::new() });
                }
                chain.keys[index].commands.push(property.to_vec());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn take_ids(
        &mut self,
        name: &Word<'a>,
        key: &Word<'a>,
        id: &Word<'a>,
        rest: &[Word<'a>],
    ) -> Result<(), TextError> {
        let key_id = id.number("key", MAX_KEY_ID)?;
        let ids = match rest {
            [send, send_id, receive, receive_id] if send.is("SendID") && receive.is("ReceiveID") => {
                [send_id.key_id("SendID")?, receive_id.key_id("ReceiveID")?]
            }
            _ => return Err(key.error("tcp ao", TextProblem::Expected("key ID SendID ID ReceiveID ID"))),
        };
        if !self.has_ids.insert((name.text(), key_id)) {
            return Err(key.error("tcp ao", TextProblem::Twice));
        }
        self.ids.push((name.text(), key_id, *key, ids));
        Ok(())
    }

    fn take_bgp(&mut self, rest: &[Word<'a>]) -> Result<(), TextError> {
        const SUBJECTS: [&str; 3] = ["neighbor", "neighbor-group", "session-group"];
        let Some(at) = rest.iter().position(|word| SUBJECTS.iter().any(|subject| word.is(subject))) else {
            return Ok(());
        };
        let [kind, name, command @ ..] = &rest[at..] else { return Ok(()) };
        let kind = SUBJECTS.into_iter().find(|subject| kind.is(subject)).unwrap_or_default();
        if kind == "neighbor"
            && let Ok(address) = name.text().parse()
            && !self.subjects.contains_key(&(kind, name.text()))
        {
            self.neighbors.push((name.text(), address));
        }
        let subject = self.subjects.entry((kind, name.text())).or_default();
        match command {
            [ao, chain, include, coverage, ..] if ao.is("ao") && include.is("include-tcp-options") => {
                let coverage = match () {
                    () if coverage.is("enable") => OptionCoverage::Covered,
                    () if coverage.is("disable") => OptionCoverage::Excluded,
                    () => {
                        let expected = TextProblem::Expected("enable or disable");
                        return Err(coverage.error("include-tcp-options", expected));
                    }
                };
                subject.ao = Some((chain.text(), coverage));
            }
            [ao, chain] if ao.is("ao") && !chain.is("inheritance-disable") => {
                subject.ao = Some((chain.text(), OptionCoverage::Covered));
            }
            [uses, kind, name] if uses.is("use") => {
                let kind = SUBJECTS.into_iter().find(|subject| kind.is(subject));
                subject.groups.extend(kind.map(|kind| (kind, name.text())));
            }
            _ => {}
        }
        Ok(())
    }

    /// The chain that a neighbor uses: its own, or that of the first group that has one.
    fn chain_of(&self, neighbor: &'a str) -> Option<(&'a str, OptionCoverage)> {
        let mut open = vec![("neighbor", neighbor)];
        for _ in 0..GROUPS {
            let subject = self.subjects.get(&open.pop()?);
            if let Some(ao) = subject.and_then(|subject| subject.ao) {
                return Some(ao);
            }
            open.extend(subject.iter().flat_map(|subject| subject.groups.iter().rev()));
        }
        None
    }

    fn finish(self) -> Result<Vec<Chain>, TextError> {
        let mut users: HashMap<_, Vec<IpCidr>> = HashMap::new();
        for (name, address) in &self.neighbors {
            if let Some(chain) = self.chain_of(name) {
                users.entry(chain).or_default().push(*address);
            }
        }
        let mut ids_of: HashMap<_, HashMap<u64, [KeyId; 2]>> = HashMap::new();
        for (chain, key_id, _, ids) in &self.ids {
            ids_of.entry(*chain).or_default().insert(*key_id, *ids);
        }
        let mut chains = Vec::new();
        for draft in &self.chains {
            let ids = ids_of.remove(draft.name).unwrap_or_default();
            let keys = draft.keys.iter().filter_map(|key| {
                let key_id = key.key_id.parse().ok()?;
                ids.get(&key_id).map(|ids| key.finish(key_id, *ids))
            });
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            if keys.is_empty() {
                continue;
            }
            let chain = |coverage: OptionCoverage, peers: Vec<IpCidr>| Chain {
                name: draft.name.to_owned(),
                accept_tolerance: draft.tolerance.unwrap_or(0),
                peers,
                keys: keys.iter().map(|key| ChainKey { options: coverage, ..key.clone() }).collect(),
                ..Chain::default()
            };
            let before = chains.len();
            for coverage in [OptionCoverage::Covered, OptionCoverage::Excluded] {
                if let Some(peers) = users.remove(&(draft.name, coverage)) {
                    chains.push(chain(coverage, peers));
                }
            }
            if chains.len() == before {
                chains.push(chain(OptionCoverage::Covered, Vec::new()));
            }
        }
        let numbers = |chain: &ChainDraft<'a>| {
            let name = chain.name;
            let numbers = chain.keys.iter().filter_map(move |key| Some((name, key.key_id.parse().ok()?)));
            numbers.collect::<Vec<(&str, u64)>>()
        };
        let there: HashSet<_> = self.chains.iter().flat_map(numbers).collect();
        match self.ids.iter().find(|(name, key_id, ..)| !there.contains(&(*name, *key_id))) {
            Some((_, _, at, _)) => Err(at.error("key chain ... key", TextProblem::Missing)),
            None => Ok(chains),
        }
    }
}

impl KeyDraft<'_> {
    fn finish(&self, key_id: u64, [send_id, recv_id]: [KeyId; 2]) -> Result<ChainKey, TextError> {
        let (mut secret, mut algorithm, mut send, mut accept) = (None, None, None, None);
        for command in &self.commands {
            let Some((name, values)) = command.split_first() else { continue };
            if name.is("key-string") {
                once(&mut secret, key_string(name, values)?, name, "key-string")?;
            } else if name.is("cryptographic-algorithm") {
                let field = "cryptographic-algorithm";
                let [value] = values else {
                    return Err(name.error(field, TextProblem::Expected("an algorithm")));
                };
                once(&mut algorithm, value.algorithm(field)?, name, field)?;
            } else if name.is("send-lifetime") {
                once(&mut send, lifetime(name, values, "send-lifetime")?, name, "send-lifetime")?;
            } else if name.is("accept-lifetime") {
                once(&mut accept, lifetime(name, values, "accept-lifetime")?, name, "accept-lifetime")?;
            }
        }
        let missing = |field| self.at.error(field, TextProblem::Missing);
        Ok(ChainKey {
            position: Some(self.at.position()),
            key_id,
            send_id,
            recv_id,
            algorithm: algorithm.ok_or_else(|| missing("cryptographic-algorithm"))?,
            mac_length: MAC_LENGTH,
            options: OptionCoverage::Covered,
            secret: secret.ok_or_else(|| missing("key-string"))?,
            send: send.unwrap_or_default(),
            accept: accept.unwrap_or_default(),
            preference: Preference::Ordinary,
        })
    }
}

/// `[clear] TEXT`, `password TYPE-7`, or `password6 TYPE-6`, which is refused.
fn key_string(at: &Word<'_>, values: &[Word<'_>]) -> Result<Secret, TextError> {
    let field = "key-string";
    let clear = |text: &str| Secret::new(Zeroizing::new(text.as_bytes().to_vec()), Notation::Text);
    match values {
        [text] => Ok(clear(text.text())),
        [kind, text] if kind.is("clear") || kind.is("0") => Ok(clear(text.text())),
        [kind, text] if kind.is("password") || kind.is("7") => match cisco_seven(text.text()) {
            Some(octets) => Ok(Secret::new(octets, Notation::CiscoSeven)),
            None => Err(text.error(field, TextProblem::Expected("a type 7 password"))),
        },
        [kind, _] if kind.is("password6") || kind.is("6") => {
            let reason = "type 6 is encrypted with a key that only the router has: write \"key-string clear\" and the \
                          secret";
            Err(kind.error(field, TextProblem::Refused(reason)))
        }
        _ => Err(at.error(field, TextProblem::Expected("clear, password or password6, and one word"))),
    }
}

/// `TIME DATE`, followed by nothing, `infinite`, `duration SECONDS` or `TIME DATE`, in UTC.
fn lifetime(at: &Word<'_>, values: &[Word<'_>], field: &'static str) -> Result<Lifetime, TextError> {
    let expected = "HH:MM:SS DAY MONTH YEAR and then infinite, duration SECONDS or HH:MM:SS DAY MONTH YEAR";
    let expected = || at.error(field, TextProblem::Expected(expected));
    let (start, end) = values.split_at_checked(4).ok_or_else(expected)?;
    let start = moment(start).ok_or_else(expected)?;
    let until = match end {
        [] => None,
        [end] if end.is("infinite") => None,
        [duration, seconds] if duration.is("duration") => {
            Some(start.later_by(seconds.number(field, u32::MAX.into())? as u32))
        }
        end => Some(moment(end).ok_or_else(expected)?),
    };
    Lifetime::new(Some(start).filter(|start| *start != FIRST_MOMENT), until)
        .map_err(|_| at.error(field, TextProblem::LifetimeEmpty))
}

/// A time, and a date of three words: the name of the month, a year of four digits and the day in any order.
fn moment(words: &[Word<'_>]) -> Option<Timestamp> {
    let [time, date @ ..] = words else { return None };
    let (mut year, mut month, mut day) = (None, None, None);
    for word in date {
        let text = word.text().to_ascii_lowercase();
        let known = MONTHS.iter().position(|month| text.len() >= 3 && month.starts_with(&text));
        match known {
            Some(index) => month = Some(index as u16 + 1),
            None if text.len() == 4 => year = digits(&text),
            None => day = digits(&text),
        }
    }
    words::moment([year?, month?, day?], time.text(), "Z").filter(|_| date.len() == 3)
}
