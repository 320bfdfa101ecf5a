//! IOS XR configuration, indented or formal: `key chain`, `tcp ao` and BGP's `ao` (Cisco, BGP Session Authentication and
//! Integrity using TCP Authentication Option, and Keychain Management Commands).

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, OptionCoverage};

use super::cisco::{FIRST_MOMENT, LAST_YEAR, key_string, lifetime, write_moment, year};
use super::file::{Chain, ChainKey, Clock, Content, Neighbor, Preference, Skipped};
use super::obscured::to_cisco_seven;
use super::table::{Limits, SendingRule, Shows, Table, begins};
use super::tree::{Blocks, Dialect, Tree, Word, once};
use super::write::{Names, key_ids, lose_what_bird_has, written};
use crate::{Error, Lifetime, Timestamp};

pub(super) const TABLE: Table = Table {
    name: "ios-xr",
    about: "Cisco IOS XR configuration",
    extension: None,
    shows: |text| match () {
        () if begins(text, &["tcp ao"]) => Shows::Certainly,
        () if begins(text, &["key chain", "router bgp"]) => Shows::Perhaps,
        () => Shows::Nothing,
    },
    read: |text, _| read(text),
    fit: that_can_be,
    write: Some(|chains, losses| Ok(written(chains, |text| write(text, chains, losses)))),
    limits: Limits {
        name: "ios-xr",
        about: "IOS XR",
        title: "IOS XR",
        algorithm: TcpAoAlgorithm::ios_xr_name,
        mac_lengths: [MAC_LENGTH, MAC_LENGTH],
        max_key_id: MAX_KEY_ID,
        options_setting: "include-tcp-options enable",
        obscured: Some("type 7"),
        has_one_lifetime: true,
        sending: SendingRule::Unspecified,
        ..Limits::NONE
    },
};

const DIALECT: Dialect = Dialect { blocks: Blocks::Indentation, depth: 64, block: |_| "mode" };

/// Octets of the MAC of both algorithms.
const MAC_LENGTH: usize = 12;
/// The largest number of a key in a chain: six octets.
const MAX_KEY_ID: u64 = (1 << 48) - 1;
/// How many groups may refer to each other.
const GROUPS: usize = 16;

/// The key chains with ids in `tcp ao`, with the BGP neighbors that use them.
///
/// A chain that neighbors use both with and without TCP options becomes two.
fn read(text: &str) -> Result<Content, Error> {
    let mut drafts = Drafts::default();
    Tree::read(text, &DIALECT)?.each(|command, _| drafts.take(command))?;
    drafts.finish()
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

/// The commands of a key. They are read only once the key is known to be for TCP-AO.
struct KeyDraft<'a> {
    at: Word<'a>,
    /// As written, because in a chain for MACsec it is not a number.
    key_id: &'a str,
    commands: Vec<Vec<Word<'a>>>,
}

impl<'a> Drafts<'a> {
    fn take(&mut self, command: &[Word<'a>]) -> Result<(), Error> {
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

    fn take_chain(&mut self, name: &Word<'a>, rest: &[Word<'a>]) -> Result<(), Error> {
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
                Err(first.refused("key chain", reason))
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
    ) -> Result<(), Error> {
        let key_id = id.number("key", MAX_KEY_ID)?;
        let ids = match rest {
            [send, send_id, receive, receive_id] if send.is("SendID") && receive.is("ReceiveID") => {
                [send_id.key_id("SendID")?, receive_id.key_id("ReceiveID")?]
            }
            _ => return Err(key.expected("tcp ao", "key ID SendID ID ReceiveID ID")),
        };
        if !self.has_ids.insert((name.text(), key_id)) {
            return Err(key.refused("tcp ao", "is given twice"));
        }
        self.ids.push((name.text(), key_id, *key, ids));
        Ok(())
    }

    fn take_bgp(&mut self, rest: &[Word<'a>]) -> Result<(), Error> {
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
                        return Err(coverage.expected("include-tcp-options", "enable or disable"));
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

    fn finish(self) -> Result<Content, Error> {
        let mut users: HashMap<_, Vec<Neighbor>> = HashMap::new();
        for (name, address) in &self.neighbors {
            if let Some(chain) = self.chain_of(name) {
                users.entry(chain).or_default().push(Neighbor::from(*address));
            }
        }
        let mut ids_of: HashMap<_, HashMap<u64, [KeyId; 2]>> = HashMap::new();
        for (chain, key_id, _, ids) in &self.ids {
            ids_of.entry(*chain).or_default().insert(*key_id, *ids);
        }
        let (mut chains, mut skipped) = (Vec::new(), Vec::new());
        for draft in &self.chains {
            let ids = ids_of.remove(draft.name).unwrap_or_default();
            let mut keys = Vec::with_capacity(draft.keys.len());
            for key in &draft.keys {
                let ids = key.key_id.parse().ok().and_then(|key_id| Some((key_id, *ids.get(&key_id)?)));
                match ids {
                    Some((key_id, ids)) => keys.push(key.finish(key_id, ids)?),
                    None => skipped.push(Skipped {
                        position: key.at.position(),
                        what: "a key without ids in \"tcp ao\"",
                    }),
                }
            }
            if keys.is_empty() {
                continue;
            }
            let chain = |coverage: OptionCoverage, neighbors: Vec<Neighbor>| Chain {
                name: draft.name.to_owned(),
                accept_tolerance: draft.tolerance.unwrap_or(0),
                neighbors,
                keys: keys.iter().map(|key| ChainKey { options: coverage, ..key.clone() }).collect(),
                ..Chain::default()
            };
            let before = chains.len();
            for coverage in [OptionCoverage::Covered, OptionCoverage::Excluded] {
                if let Some(neighbors) = users.remove(&(draft.name, coverage)) {
                    chains.push(chain(coverage, neighbors));
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
            Some((_, _, at, _)) => Err(at.missing("key chain ... key")),
            None => Ok(Content { chains, skipped, ..Content::default() }),
        }
    }
}

impl KeyDraft<'_> {
    fn finish(&self, key_id: u64, [send_id, recv_id]: [KeyId; 2]) -> Result<ChainKey, Error> {
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
            }
        }
        let missing = |field| self.at.missing(field);
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
            clock: Clock::Utc,
            preference: Preference::Ordinary,
        })
    }
}

/// Writes key chains from [`that_can_be`], their ids, and the neighbors that use them.
fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_graphic());
    let mut written: Vec<(String, &Chain, Vec<u64>)> = Vec::new();
    for chain in chains {
        // If neighbors use a chain both with and without TCP options, IOS XR still has one chain.
        let same = written.iter().find(|(_, other, _)| is_same_chain(other, chain));
        if let Some((name, _, ids)) = same.map(|(name, _, ids)| (name.clone(), (), ids.clone())) {
            written.push((name, chain, ids));
            continue;
        }
        lose_what_bird_has(chain, losses);
        if chain.description.is_some() {
            losses.push(format!("chain {:?}: its description, which IOS XR does not have", chain.name));
        }
        let name = names.name(chain, losses);
        let ids = key_ids(chain, MAX_KEY_ID, losses);
        write_chain(text, &name, chain, &ids, losses);
        written.push((name, chain, ids));
    }
    text.push_str("tcp ao\n");
    for (index, (name, chain, ids)) in written.iter().enumerate() {
        if written[..index].iter().any(|(other, ..)| other == name) {
            continue;
        }
        let _ = writeln!(text, " keychain {name}");
        for (key, id) in chain.keys.iter().zip(ids) {
            let _ = writeln!(text, "  key {id} SendID {} ReceiveID {}", key.send_id, key.recv_id);
        }
        text.push_str(" !\n");
    }
    text.push_str("!\n");
    if chains.iter().any(|chain| !chain.neighbors.is_empty()) {
        text.push_str("! Replace AS with the AS number.\nrouter bgp AS\n");
        for (name, chain, _) in &written {
            let include = match coverage(chain) {
                OptionCoverage::Covered => "enable",
                OptionCoverage::Excluded => "disable",
            };
            for Neighbor { address: peer, .. } in &chain.neighbors {
                let _ = writeln!(text, " neighbor {peer}\n  ao {name} include-tcp-options {include}\n !");
            }
        }
        text.push_str("!\n");
    }
}

fn coverage(chain: &Chain) -> OptionCoverage {
    chain.keys.first().map_or(OptionCoverage::Covered, |key| key.options)
}

/// The chain without the peers `taken` by chains before it, without keys whose coverage of TCP options differs from the first one's (or
/// that exclude options, if no peer is there to configure that), and without keys that expired before 1993.
fn that_can_be(chain: Chain, taken: &mut HashSet<IpCidr>, losses: &mut Vec<String>) -> Option<Chain> {
    let is_over =
        |key: &ChainKey| [key.send, key.accept].iter().any(|lifetime| lifetime.is_over(FIRST_MOMENT));
    let mut kept = chain.clone();
    let mut own = HashSet::new();
    kept.neighbors.retain(|peer| !taken.contains(&peer.address) && own.insert(peer.address));
    for Neighbor { address, .. } in chain.neighbors.iter().filter(|peer| taken.contains(&peer.address)) {
        losses.push(format!("chain {:?}: {address}, which uses another chain", chain.name));
    }
    // By default, a neighbor's options are covered.
    let is_said = !kept.neighbors.is_empty();
    let options = if is_said { coverage(&chain) } else { OptionCoverage::Covered };
    kept.keys.retain(|key| !is_over(key) && key.options == options);
    for key in &chain.keys {
        let name = chain.name_of(key);
        if is_over(key) {
            losses.push(format!(
                "key {name} is left out: it expired before 1993, where lifetimes of IOS XR begin"
            ));
        } else if key.options != options {
            losses.push(format!(
                "key {name} is left out: {}",
                match is_said {
                    true => "IOS XR covers TCP options for all keys of a neighbor or for none",
                    false => "IOS XR excludes TCP options at the neighbor, and its chain has no neighbor",
                }
            ));
        }
    }
    if kept.keys.is_empty() {
        return None;
    }
    taken.extend(own);
    Some(kept)
}

fn is_same_chain(one: &Chain, other: &Chain) -> bool {
    let keys = || one.keys.iter().zip(&other.keys);
    !one.name.is_empty()
        && one.name == other.name
        && one.accept_tolerance == other.accept_tolerance
        && coverage(one) != coverage(other)
        && !one.neighbors.is_empty()
        && !other.neighbors.is_empty()
        && one.keys.len() == other.keys.len()
        && keys().all(|(one, other)| ChainKey { options: other.options, ..one.clone() }.is_same_key(other))
}

fn write_chain(text: &mut String, name: &str, chain: &Chain, ids: &[u64], losses: &mut Vec<String>) {
    let _ = writeln!(text, "key chain {name}");
    match chain.accept_tolerance {
        0 => {}
        u32::MAX => text.push_str(" accept-tolerance infinite\n"),
        seconds => {
            let _ = writeln!(text, " accept-tolerance {seconds}");
        }
    }
    for (key, id) in chain.keys.iter().zip(ids) {
        let _ = writeln!(text, " key {id}");
        write_lifetime(text, "accept-lifetime", &key.accept);
        text.push_str("  key-string ");
        let octets = key.secret.expose();
        // On the command line a question mark shows help.
        if octets.iter().all(|octet| octet.is_ascii_graphic() && *octet != b'?') {
            text.push_str("clear ");
            text.extend(octets.iter().map(|octet| char::from(*octet)));
        } else {
            text.push_str("password ");
            text.push_str(&to_cisco_seven(octets));
        }
        text.push('\n');
        write_lifetime(text, "send-lifetime", &key.send);
        let _ = writeln!(
            text,
            "  cryptographic-algorithm {}\n !",
            key.algorithm.ios_xr_name().unwrap_or_default()
        );
        let is_outside = |moment: Timestamp| moment <= FIRST_MOMENT || year(moment) > LAST_YEAR;
        let moments = [key.send.from(), key.send.until(), key.accept.from(), key.accept.until()];
        if moments.into_iter().flatten().any(is_outside) {
            losses.push(format!(
                "key {}: IOS XR has no times before 1993-01-01T00:00:01Z or after {LAST_YEAR}",
                chain.name_of(key)
            ));
        }
    }
    text.push_str("!\n");
}

fn write_lifetime(text: &mut String, field: &str, lifetime: &Lifetime) {
    let _ = write!(text, "  {field} ");
    write_moment(text, lifetime.from().unwrap_or(FIRST_MOMENT));
    match lifetime.until() {
        None => text.push_str(" infinite\n"),
        Some(until) => {
            text.push(' ');
            write_moment(text, until);
            text.push('\n');
        }
    }
}
