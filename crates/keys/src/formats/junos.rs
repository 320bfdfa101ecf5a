//! Junos configuration, with braces or as `set` commands: `authentication-key-chains` with `algorithm ao`, and the peers that use them
//! (Juniper, TCP-AO for BGP and LDP Sessions, Junos 20.3R1 and later).

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, OptionCoverage};
use zeroize::Zeroizing;

use super::file::{Chain, ChainKey, Clock, Content, Neighbor, Notation, Preference, Secret, Skipped};
use super::obscured::{JUNOS_NINE, junos_nine, to_junos_nine};
use super::table::{Change, Limits, Shows, Table, Written, begins, first_line};
use super::tree::{Blocks, Dialect, Kind, Tree, Word, digits, moment, once};
use super::write::{Names, key_ids, lose_what_bird_has, written};
use crate::{Error, Lifetime, Timestamp};

pub(super) const TABLE: Table = Table {
    name: "junos",
    about: "Junos configuration, with braces or as `set` commands",
    extension: None,
    shows: |text| {
        Shows::if_(
            begins(text, &["set security", "security", "authentication-key-chains"])
                || begins(text, &["key-chain"]) && !first_line(text).contains('=')
                || first_line(text).contains("authentication-key-chain")
                || first_line(text).contains("ao-attribute"),
        )
    },
    read: |text, _| read(text),
    fit: |chain, _, _| Some(chain),
    write: Some(|chains, losses| Ok(written(chains, |text| write(text, chains, losses)))),
    change: Some(Change {
        written: Written::Commands(change),
        apply: "configure exclusive\nload set {file}\ncommit check\ncommit and-quit",
        show: "show security keychain detail\nshow bgp neighbor | match \"Peer|Authentication key\"",
    }),
    limits: Limits {
        name: "junos",
        about: "Junos",
        title: "Junos",
        algorithm: TcpAoAlgorithm::junos_name,
        mac_lengths: [MAC_LENGTH, MAC_LENGTH],
        max_key_id: MAX_KEY_ID,
        options_setting: "tcp-ao-option enabled",
        obscured: Some("$9$"),
        ..Limits::NONE
    },
};

const SET: &str = "set";
const DEACTIVATE: &str = "deactivate";
const DIALECT: Dialect = Dialect {
    blocks: Blocks::Braces { ends: "{};\"#", escapes: true, commands: &[SET, DEACTIVATE], is_balanced: true },
    depth: 64,
    block: |_| "block",
};

/// The largest number of a key in a chain.
const MAX_KEY_ID: u64 = 63;
/// Octets of the MAC of both algorithms.
const MAC_LENGTH: usize = 12;
/// The default tolerance for clock skew, in seconds.
const TOLERANCE: u32 = 3600;
/// Keys that start before this, in 1970, have no start: Junos requires a start for every key, and each a different one.
const NO_START_BEFORE: Timestamp = Timestamp::from_unix_seconds(31_536_000);
/// The largest tolerance in seconds.
const MAX_TOLERANCE: u32 = 999_999_999;

/// The key chains with keys for TCP-AO, with the BGP and LDP peers that use them.
fn read(text: &str) -> Result<Content, Error> {
    let mut statements = Vec::new();
    let mut deactivated: HashSet<Vec<&str>> = HashSet::new();
    Tree::read(text, &DIALECT)?.each(|path, statement| {
        let set = match (statement.end().kind, path) {
            _ if statement.block().is_some() => None,
            (Kind::End, path) => Some(path),
            (Kind::Line, [command, path @ ..]) if command.is(SET) => Some(path),
            (Kind::Line, [command, path @ ..]) if command.is(DEACTIVATE) => {
                deactivated.insert(path.iter().map(Word::text).collect());
                None
            }
            _ => None,
        };
        statements.extend(set.and_then(relevant).map(<[Word<'_>]>::to_vec));
        Ok(())
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

/// The part of a statement that concerns key chains or their users.
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

/// Name and rest of `... key-chain NAME ...`; for `key N ...` the whole of it, without a name.
fn chain_statement<'s, 'a>(path: &'s [Word<'a>]) -> Option<(&'a str, &'s [Word<'a>])> {
    match place(path, "key-chain") {
        Some(at) => Some((path.get(at + 1)?.text(), &path[at + 2..])),
        None => path.first().filter(|word| word.is("key")).map(|_| ("", path)),
    }
}

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
    fn take(&mut self, statement: &[Word<'a>]) -> Result<(), Error> {
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

    fn finish(self, users: &Users<'_>) -> Result<Content, Error> {
        let mut content = Content::default();
        let mut peers = users.by_chain();
        for draft in self.chains {
            let (keys, others): (Vec<_>, Vec<_>) = draft.keys.iter().partition(|key| key.is_for_ao);
            let what = "a key without algorithm ao";
            content.skipped.extend(others.iter().map(|key| Skipped { position: key.at.position(), what }));
            let mut starts = Vec::with_capacity(keys.len());
            for key in &keys {
                starts.extend(key.start()?);
            }
            starts.sort_unstable();
            let keys = keys.iter().map(|key| key.finish(&starts)).collect::<Result<Vec<_>, _>>()?;
            if !keys.is_empty() {
                content.chains.push(Chain {
                    name: draft.name.to_owned(),
                    description: draft.description,
                    accept_tolerance: draft.tolerance.unwrap_or(TOLERANCE),
                    neighbors: peers.remove(draft.name).unwrap_or_default(),
                    keys,
                    ..Chain::default()
                });
            }
        }
        Ok(content)
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
    fn take(&mut self, property: &[Word<'a>]) -> Result<(), Error> {
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

    fn take_attribute(&mut self, attribute: &[Word<'a>]) -> Result<(), Error> {
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
                    return Err(value.expected("tcp-ao-option", "enabled or disabled"));
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
    fn start(&self) -> Result<Option<Timestamp>, Error> {
        let Some(words) = &self.start else { return Ok(None) };
        let expected = "a start time such as \"2026-01-31.00:00:00 +0000\"";
        let at = words.first().unwrap_or(&self.at);
        let start = start_time(words).ok_or_else(|| at.expected("start-time", expected))?;
        Ok(Some(start).filter(|start| *start >= NO_START_BEFORE))
    }

    /// The finished key; `starts` are the starts of all keys of its chain, in order.
    fn finish(&self, starts: &[Timestamp]) -> Result<ChainKey, Error> {
        let missing = |field| self.at.missing(field);
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
            clock: Clock::Utc,
            preference: Preference::Ordinary,
        })
    }
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
    if text.starts_with("$8$") {
        return refused(
            "is encrypted with the router's master password ($8$), and only the router can decrypt it: write it in plain text",
        );
    }
    Ok(Secret::text(&text))
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

/// The users of key chains.
#[derive(Default)]
struct Users<'a> {
    /// Peers, each with the words that lead to it.
    peers: Vec<(Vec<&'a str>, IpCidr)>,
    /// Chains, by the words that lead to the statement that uses them.
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

    /// The peers of each chain: those that name it themselves, or inherit it from their group or the protocol.
    fn by_chain(&self) -> HashMap<&'a str, Vec<Neighbor>> {
        let (mut users, mut known) = (HashMap::<_, Vec<_>>::new(), HashSet::new());
        for (level, peer) in &self.peers {
            let nearest = (0..=level.len()).rev().find_map(|length| self.chains.get(&level[..length]));
            if let Some(chain) = nearest.copied().filter(|chain| known.insert((*chain, *peer))) {
                users.entry(chain).or_default().push(Neighbor::from(*peer));
            }
        }
        users
    }
}

/// Writes key chains, and a BGP group for each chain with peers.
fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let named: Vec<_> = chains.iter().map(|chain| (names.name(chain, losses), chain)).collect();
    text.push_str("security {\n    authentication-key-chains {\n");
    for (name, chain) in &named {
        write_chain(text, name, chain, losses);
    }
    text.push_str("    }\n}\n");
    if chains.iter().all(|chain| chain.neighbors.is_empty()) {
        return;
    }
    text.push_str("protocols {\n    bgp {\n");
    for (name, chain) in named.iter().filter(|(_, chain)| !chain.neighbors.is_empty()) {
        let _ = writeln!(
            text,
            "        group \"{name}\" {{\n            authentication-algorithm ao;\n            authentication-key-chain \
             \"{name}\";"
        );
        for Neighbor { address: peer, .. } in &chain.neighbors {
            let _ = match peer.is_host_address() {
                true => writeln!(text, "            neighbor {};", peer.first_address()),
                false => writeln!(text, "            allow {peer};"),
            };
        }
        text.push_str("        }\n");
    }
    text.push_str("    }\n}\n");
}

fn write_chain(text: &mut String, name: &str, chain: &Chain, losses: &mut Vec<String>) {
    lose_what_bird_has(chain, losses);
    let _ = writeln!(text, "        key-chain \"{name}\" {{");
    if let Some(description) = &chain.description {
        text.push_str("            description \"");
        push_escaped(text, description.chars());
        text.push_str("\";\n");
    }
    let tolerance = chain.accept_tolerance.min(MAX_TOLERANCE);
    if tolerance != chain.accept_tolerance {
        losses.push(format!("chain {:?}: its tolerance above {MAX_TOLERANCE} seconds", chain.name));
    }
    let _ = writeln!(text, "            tolerance {tolerance};");
    let mut starts: Vec<_> = chain.keys.iter().filter_map(|key| key.send.from()).collect();
    starts.sort_unstable();
    for (index, (key, id)) in chain.keys.iter().zip(key_ids(chain, MAX_KEY_ID, losses)).enumerate() {
        let next = key.send.from().and_then(|from| starts.iter().find(|start| **start > from)).copied();
        let accept = key.send.from().map_or(Lifetime::ALWAYS, Lifetime::starting);
        if key.send.from().is_some_and(|from| from < NO_START_BEFORE) {
            losses.push(format!("key {}: a start before 1971", chain.name_of(key)));
        }
        if key.send.until() != next || key.accept != accept {
            losses.push(format!(
                "key {}: its lifetimes except for the start; in Junos a key is used for sending until the next one starts and \
                 accepted from its start on",
                chain.name_of(key)
            ));
        }
        write_key(text, id, key, start_of(key, index));
    }
    text.push_str("        }\n");
}

/// Keys without a start get different ones in 1970, because Junos requires that.
fn start_of(key: &ChainKey, index: usize) -> Timestamp {
    key.send.from().unwrap_or(Timestamp::from_unix_seconds(60 * index as i64))
}

fn write_key(text: &mut String, id: u64, key: &ChainKey, start: Timestamp) {
    let _ = writeln!(text, "            key {id} {{");
    text.push_str("                secret ");
    push_secret(text, key.secret.expose());
    let _ = writeln!(text, ";\n                start-time {};", written_start(start));
    let _ = write!(
        text,
        "                algorithm ao;\n                ao-attribute {{\n                    send-id {};\n                    \
         recv-id {};\n                    tcp-ao-option {};\n                    cryptographic-algorithm {};\n                \
         }}\n            }}\n",
        key.send_id,
        key.recv_id,
        option(key),
        key.algorithm.junos_name().unwrap_or_default()
    );
}

/// The secret in quotes.
fn push_secret(text: &mut String, octets: &[u8]) {
    text.push('"');
    if octets.iter().all(u8::is_ascii_graphic) && !octets.starts_with(b"$") {
        push_escaped(text, octets.iter().map(|octet| char::from(*octet)));
    } else {
        text.push_str(&to_junos_nine(octets));
    }
    text.push('"');
}

/// `"2026-01-31.00:00:00 +0000"`
fn written_start(start: Timestamp) -> String {
    // 2026-01-31T00:00:00Z
    let written = start.to_string();
    let (date, time) = written.trim_end_matches('Z').split_once('T').unwrap_or_default();
    format!("\"{date}.{time} +0000\"")
}

const fn option(key: &ChainKey) -> &'static str {
    match key.options {
        OptionCoverage::Covered => "enabled",
        OptionCoverage::Excluded => "disabled",
    }
}

/// The `set` and `delete` commands that make the chain `after` of `before`. A key has no end here, so only whole keys change.
fn change(before: &Chain, after: &Chain) -> Zeroizing<String> {
    written(std::slice::from_ref(after), |text| {
        let mut name = String::from('"');
        push_escaped(&mut name, after.name.chars());
        let chain = format!("security authentication-key-chains key-chain {name}\"");
        if before.accept_tolerance != after.accept_tolerance {
            let _ = writeln!(text, "set {chain} tolerance {}", after.accept_tolerance);
        }
        for (index, key) in after.keys.iter().enumerate().filter(|(_, key)| !before.has_number(key.key_id)) {
            let key_path = format!("set {chain} key {}", key.key_id);
            let _ = write!(text, "{key_path} secret ");
            push_secret(text, key.secret.expose());
            let start = written_start(start_of(key, index));
            let _ = writeln!(text, "\n{key_path} start-time {start}\n{key_path} algorithm ao");
            for (field, value) in [
                ("send-id", key.send_id.to_string()),
                ("recv-id", key.recv_id.to_string()),
                ("tcp-ao-option", option(key).to_owned()),
                ("cryptographic-algorithm", key.algorithm.junos_name().unwrap_or_default().to_owned()),
            ] {
                let _ = writeln!(text, "{key_path} ao-attribute {field} {value}");
            }
        }
        for key in before.keys.iter().filter(|key| !after.has_number(key.key_id)) {
            let _ = writeln!(text, "delete {chain} key {}", key.key_id);
        }
    })
}

/// The inside of a string, with a backslash before each quote and backslash.
fn push_escaped(text: &mut String, characters: impl Iterator<Item = char>) {
    for c in characters {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
}
