//! Junos configuration, with braces or as `set` commands: `authentication-key-chains` with `algorithm ao`, and who uses them
//! (Juniper, TCP-AO for BGP and LDP Sessions, Junos 20.3R1 and later).

use std::collections::{HashMap, HashSet};

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Lifetime, Timestamp};
use wireseal_tcp_ao::{KeyId, OptionCoverage};
use zeroize::Zeroizing;

use super::obscured::{JUNOS_NINE, junos_nine};
use super::words::{Dialect, Kind, Word, Words, digits, moment, once};
use super::{Chain, ChainKey, Notation, Preference, Secret, TextError, TextProblem};

/// Octets of MAC of both algorithms.
const MAC_LENGTH: usize = 12;
/// The default tolerance for clock skew, in seconds.
const TOLERANCE: u32 = 3600;
/// A key that starts before this, in 1970, has no start: Junos requires a different one for every key.
pub(super) const NO_START_BEFORE: Timestamp = Timestamp::from_unix_seconds(31_536_000);
/// The largest tolerance in seconds.
pub(super) const MAX_TOLERANCE: u32 = 999_999_999;
/// How deep blocks may be nested.
const DEPTH: usize = 64;

/// The key chains with keys for TCP-AO, with the BGP and LDP peers that use them.
pub(super) fn read(text: &str) -> Result<Vec<Chain>, TextError> {
    let mut statements = Vec::new();
    let mut deactivated: HashSet<Vec<&str>> = HashSet::new();
    statements_of(text, |statement| match statement {
        Statement::Set(path) => statements.extend(relevant(path).map(<[Word<'_>]>::to_vec)),
        Statement::Deactivate(path) => {
            deactivated.insert(path.iter().map(Word::text).collect());
        }
    })?;
    let longest = deactivated.iter().map(Vec::len).max();
    statements.retain(|statement| {
        let words: Vec<&str> = statement.iter().map(Word::text).collect();
        let begins = |length: usize| words.get(..length).is_some_and(|words| deactivated.contains(words));
        !longest.is_some_and(|longest| (0..=longest).any(begins))
    });
    let mut chains = Drafts::default();
    let mut users = Users::default();
    for statement in &statements {
        chains.take(statement)?;
        users.take(statement);
    }
    chains.finish(&users)
}

enum Statement<'s, 'a> {
    Set(&'s [Word<'a>]),
    Deactivate(&'s [Word<'a>]),
}

/// Calls `give` for every statement, with all the words that lead to it.
fn statements_of<'a>(text: &'a str, mut give: impl FnMut(Statement<'_, 'a>)) -> Result<(), TextError> {
    let mut words = Words::new(text, Dialect::Junos);
    let mut path: Vec<Word<'a>> = Vec::new();
    let mut blocks: Vec<usize> = Vec::new();
    while let Some(word) = words.next()? {
        let start = blocks.last().copied().unwrap_or(0);
        match word.kind {
            Kind::Open if blocks.len() == DEPTH => {
                return Err(word.error("block", TextProblem::Refused("blocks are nested too deeply")));
            }
            Kind::Open => blocks.push(path.len()),
            Kind::Close => {
                if blocks.pop().is_none() {
                    return Err(word.error("block", TextProblem::Expected("a statement")));
                }
                path.truncate(blocks.last().copied().unwrap_or(0));
            }
            Kind::End => {
                give(Statement::Set(&path));
                path.truncate(start);
            }
            Kind::Line => {
                let command = path.first().filter(|_| blocks.is_empty());
                if command.is_some_and(|first| first.is("set")) {
                    give(Statement::Set(&path[1..]));
                    path.clear();
                } else if command.is_some_and(|first| first.is("deactivate")) {
                    give(Statement::Deactivate(&path[1..]));
                    path.clear();
                }
            }
            Kind::Plain(_) | Kind::Quoted(_) => path.push(word),
        }
    }
    match path.first().filter(|_| blocks.is_empty()) {
        Some(first) if first.is("set") => give(Statement::Set(&path[1..])),
        Some(first) if first.is("deactivate") => give(Statement::Deactivate(&path[1..])),
        _ => {}
    }
    match blocks.is_empty() {
        true => Ok(()),
        false => words.expect("block").map(|_| ()),
    }
}

/// The part of a statement about key chains or who uses them.
fn relevant<'s, 'a>(path: &'s [Word<'a>]) -> Option<&'s [Word<'a>]> {
    if path.iter().any(|word| word.is("inactive:")) {
        return None;
    }
    if chain_statement(path).is_some() || place(path, "authentication-key-chain").is_some() {
        return Some(path);
    }
    let protocol = place(path, "bgp").or_else(|| place(path, "ldp"))?;
    let peer = path[protocol..].iter().position(|word| word.is("neighbor") || word.is("allow"))?;
    if path[protocol + peer].is("allow") {
        return Some(path);
    }
    path.get(..protocol + peer + 2)
}

fn place(path: &[Word<'_>], word: &str) -> Option<usize> {
    path.iter().position(|has| has.is(word))
}

/// Name and rest of `... key-chain NAME ...`; of `key N ...` all of it, without a name.
fn chain_statement<'s, 'a>(path: &'s [Word<'a>]) -> Option<(&'a str, &'s [Word<'a>])> {
    match place(path, "key-chain") {
        Some(at) => Some((path.get(at + 1)?.text(), &path[at + 2..])),
        None => path.first().filter(|word| word.is("key")).map(|_| ("", path)),
    }
}

/// The chains read so far.
#[derive(Default)]
struct Drafts<'a> {
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
}

struct KeyDraft<'a> {
    at: Word<'a>,
    key_id: u64,
    is_for_ao: bool,
    send_id: Option<KeyId>,
    recv_id: Option<KeyId>,
    algorithm: Option<TcpAoAlgorithm>,
    secret: Option<Word<'a>>,
    options: Option<OptionCoverage>,
    start: Option<Vec<Word<'a>>>,
}

impl<'a> Drafts<'a> {
    fn take(&mut self, statement: &[Word<'a>]) -> Result<(), TextError> {
        let Some((name, rest)) = chain_statement(statement) else { return Ok(()) };
        let index = *self.by_name.entry(name).or_insert_with(|| {
            self.chains.push(ChainDraft { name, ..ChainDraft::default() });
            self.chains.len() - 1
        });
        let chain = &mut self.chains[index];
        match rest {
            [first, value] if first.is("tolerance") => {
                let seconds = value.number("tolerance", MAX_TOLERANCE.into())?;
                once(&mut chain.tolerance, seconds as u32, first, "tolerance")
            }
            [first, value] if first.is("description") => {
                chain.description = Some(unescaped(value).as_str().to_owned());
                Ok(())
            }
            [first, id, property @ ..] if first.is("key") => {
                let key_id = id.number("key", u64::MAX)?;
                chain.key(key_id, first).take(property)
            }
            _ => Ok(()),
        }
    }

    fn finish(self, users: &Users<'_>) -> Result<Vec<Chain>, TextError> {
        let mut chains = Vec::new();
        let mut peers = users.by_chain();
        for draft in self.chains {
            let keys: Vec<_> = draft.keys.iter().filter(|key| key.is_for_ao).collect();
            let mut starts = Vec::with_capacity(keys.len());
            for key in &keys {
                starts.extend(key.start()?);
            }
            starts.sort_unstable();
            let keys = keys.iter().map(|key| key.finish(&starts)).collect::<Result<Vec<_>, _>>()?;
            if !keys.is_empty() {
                chains.push(Chain {
                    name: draft.name.to_owned(),
                    description: draft.description,
                    accept_tolerance: draft.tolerance.unwrap_or(TOLERANCE),
                    peers: peers.remove(draft.name).unwrap_or_default(),
                    keys,
                    ..Chain::default()
                });
            }
        }
        Ok(chains)
    }
}

impl<'a> ChainDraft<'a> {
    fn key(&mut self, key_id: u64, at: &Word<'a>) -> &mut KeyDraft<'a> {
        let index = *self.by_id.entry(key_id).or_insert(self.keys.len());
        if index == self.keys.len() {
            self.keys.push(KeyDraft {
                at: *at,
                key_id,
                is_for_ao: false,
                send_id: None,
                recv_id: None,
                algorithm: None,
                secret: None,
                options: None,
                start: None,
            });
        }
        &mut self.keys[index]
    }
}

impl<'a> KeyDraft<'a> {
    fn take(&mut self, property: &[Word<'a>]) -> Result<(), TextError> {
        match property {
            [name, attribute @ ..] if name.is("ao-attribute") => self.take_attribute(attribute),
            [name, value] if name.is("secret") => once(&mut self.secret, *value, name, "secret"),
            [name, value] if name.is("algorithm") => {
                self.is_for_ao = value.is("ao");
                Ok(())
            }
            [name, value @ ..] if name.is("start-time") => {
                once(&mut self.start, value.to_vec(), name, "start-time")
            }
            _ => Ok(()),
        }
    }

    fn take_attribute(&mut self, attribute: &[Word<'a>]) -> Result<(), TextError> {
        let [name, value] = attribute else { return Ok(()) };
        if name.is("send-id") {
            once(&mut self.send_id, value.key_id("send-id")?, name, "send-id")
        } else if name.is("recv-id") {
            once(&mut self.recv_id, value.key_id("recv-id")?, name, "recv-id")
        } else if name.is("tcp-ao-option") {
            let coverage = match () {
                () if value.is("enabled") => OptionCoverage::Covered,
                () if value.is("disabled") => OptionCoverage::Excluded,
                () => {
                    return Err(value.error("tcp-ao-option", TextProblem::Expected("enabled or disabled")));
                }
            };
            once(&mut self.options, coverage, name, "tcp-ao-option")
        } else if name.is("cryptographic-algorithm") {
            let field = "cryptographic-algorithm";
            once(&mut self.algorithm, value.algorithm(field)?, name, field)
        } else {
            Ok(())
        }
    }

    /// Its start, if it has one.
    fn start(&self) -> Result<Option<Timestamp>, TextError> {
        let Some(words) = &self.start else { return Ok(None) };
        let expected = TextProblem::Expected("a start time such as \"2026-01-31.00:00:00 +0000\"");
        let at = words.first().unwrap_or(&self.at);
        let start = start_time(words).ok_or_else(|| at.error("start-time", expected))?;
        Ok(Some(start).filter(|start| *start >= NO_START_BEFORE))
    }

    /// The key; `starts` are those of all keys of its chain, in order.
    fn finish(&self, starts: &[Timestamp]) -> Result<ChainKey, TextError> {
        let missing = |field| self.at.error(field, TextProblem::Missing);
        let start = self.start()?;
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
            preference: Preference::Ordinary,
        })
    }
}

fn secret(word: &Word<'_>) -> Result<Secret, TextError> {
    let text = unescaped(word);
    let refused = |reason| Err(word.error("secret", TextProblem::Refused(reason)));
    if text.starts_with(JUNOS_NINE) {
        return match junos_nine(&text) {
            Some(octets) => Ok(Secret::new(octets, Notation::JunosNine)),
            None => refused("is a damaged $9$ secret"),
        };
    }
    if text.starts_with("$8$") {
        return refused(
            "is encrypted with the router's master password ($8$), and only the router can decrypt it: write it in plain text",
        );
    }
    Ok(Secret::new(Zeroizing::new(text.as_bytes().to_vec()), Notation::Text))
}

/// A word, or a string without the backslashes of its escapes.
fn unescaped(word: &Word<'_>) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(word.text().len()));
    let mut characters = word.text().chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' if matches!(word.kind, Kind::Quoted(_)) => text.extend(characters.next()),
            _ => text.push(c),
        }
    }
    text
}

/// `2016-12-31.16:00:00 -0800`, in one string or as words; seconds and offset (UTC by default) are optional.
fn start_time(words: &[Word<'_>]) -> Option<Timestamp> {
    let mut parts = words.iter().flat_map(|word| word.text().split(' ')).filter(|part| !part.is_empty());
    let (date, time) = parts.next()?.split_once('.')?;
    let offset = parts.next().unwrap_or("+0000");
    if parts.next().is_some() || !offset.is_ascii() || offset.len() != 5 {
        return None;
    }
    let date: Vec<_> = date.split('-').map(digits).collect::<Option<_>>()?;
    let (hours, minutes) = offset.split_at(3);
    moment(date.try_into().ok()?, time, &format!("{hours}:{minutes}"))
}

/// Who uses key chains.
#[derive(Default)]
struct Users<'a> {
    /// Peers, each with the words that lead to it.
    peers: Vec<(Vec<&'a str>, IpCidr)>,
    /// Chains, by the words that lead to their use.
    chains: HashMap<Vec<&'a str>, &'a str>,
}

impl<'a> Users<'a> {
    fn take(&mut self, statement: &[Word<'a>]) {
        let level = |words: &[Word<'a>]| words.iter().map(Word::text).collect::<Vec<_>>();
        if place(statement, "key-chain").is_some() {
            return;
        }
        let peer = statement.iter().position(|word| word.is("neighbor") || word.is("session"));
        if let Some((at, address)) =
            peer.and_then(|at| Some((at, statement.get(at + 1)?.text().parse().ok()?)))
        {
            self.add_peer(level(&statement[..at + 2]), address);
        }
        if let Some(at) = place(statement, "allow") {
            let prefixes = statement[at + 1..].iter().map(|word| word.text().trim_matches(['[', ']']));
            for prefix in prefixes.filter_map(|text| text.parse().ok()) {
                self.add_peer(level(&statement[..at]), prefix);
            }
        }
        if let Some(at) = place(statement, "authentication-key-chain")
            && let Some(chain) = statement.get(at + 1)
        {
            self.chains.insert(level(&statement[..at]), chain.text());
        }
    }

    fn add_peer(&mut self, level: Vec<&'a str>, peer: IpCidr) {
        let is_known = self.peers.last().is_some_and(|(last, address)| *last == level && *address == peer);
        if !is_known {
            self.peers.push((level, peer));
        }
    }

    /// The peers of each chain: those that have it of their own, from their group or from the protocol.
    fn by_chain(&self) -> HashMap<&'a str, Vec<IpCidr>> {
        let (mut users, mut known) = (HashMap::<_, Vec<_>>::new(), HashSet::new());
        for (level, peer) in &self.peers {
            let nearest = (0..=level.len()).rev().find_map(|length| self.chains.get(&level[..length]));
            if let Some(chain) = nearest.copied().filter(|chain| known.insert((*chain, *peer))) {
                users.entry(chain).or_default().push(*peer);
            }
        }
        users
    }
}
