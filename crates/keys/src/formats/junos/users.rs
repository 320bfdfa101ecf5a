//! The users of key chains: BGP neighbors, LDP sessions and BMP stations, in any routing instance.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use cidr::IpCidr;

use super::super::file::{Content, Neighbor, Remark};
use super::super::tree::Word;
use super::groups::{Statement, list};

/// Statements with a name that contain others, down to the neighbor.
const OBJECTS: [&str; 6] = ["group", "dynamic-neighbor", "neighbor", "session", "session-group", "station"];
/// The objects whose name is the peer's address.
const PEERS: [&str; 3] = ["neighbor", "session", "session-group"];
/// What concerns keys and peers at any level.
const SETTINGS: [&str; 5] =
    ["authentication-key-chain", "authentication-algorithm", "local-interface", "allow", "station-address"];

/// The level of a statement of BGP, LDP or BMP.
pub(super) struct Level {
    /// How many words lead to it.
    pub(super) length: usize,
    /// Whether a setting of keys or peers follows.
    pub(super) has_setting: bool,
}

/// The level of a statement below `protocols bgp`, `protocols ldp` or `routing-options bmp`, or of a part that begins below them.
pub(super) fn level_of(words: &[Word<'_>]) -> Option<Level> {
    let is_protocol = |at: usize| {
        let is_bmp = words[at].is("bmp");
        let above = if is_bmp { "routing-options" } else { "protocols" };
        (is_bmp || words[at].is("bgp") || words[at].is("ldp")) && (at == 0 || words[at - 1].is(above))
    };
    let is_object = |at: usize| words.get(at).is_some_and(|word| OBJECTS.iter().any(|name| word.is(name)));
    let is_setting = |at: usize| words.get(at).is_some_and(|word| SETTINGS.iter().any(|name| word.is(name)));
    let protocol = (0..words.len()).find(|at| is_protocol(*at));
    let mut length = protocol.map_or(0, |at| at + 1);
    while is_object(length) && length + 1 < words.len() {
        length += 2;
    }
    let has_setting = is_setting(length);
    (length != 0 || has_setting).then_some(Level { length, has_setting })
}

/// The peers, and what is set at each level, by the words that lead to it.
#[derive(Default)]
pub(super) struct Users<'a> {
    peers: Vec<(Vec<&'a str>, IpCidr)>,
    known: HashSet<(Vec<&'a str>, IpCidr)>,
    chains: HashMap<Vec<&'a str>, Word<'a>>,
    algorithms: HashMap<Vec<&'a str>, Word<'a>>,
    interfaces: HashMap<Vec<&'a str>, Word<'a>>,
}

/// The neighbors of a chain, and those of them that use it for something else than TCP-AO.
#[derive(Default)]
pub(super) struct Used {
    pub(super) neighbors: Vec<Neighbor>,
    pub(super) without_ao: Vec<Neighbor>,
}

impl<'a> Users<'a> {
    pub(super) fn take(&mut self, statement: &Statement<'a>, content: &mut Content) {
        let words = &statement.words;
        let Some(Level { length, has_setting }) = level_of(words) else { return };
        let level: Vec<_> = words[..length].iter().map(Word::text).collect();
        let mut not_understood = |at: &Word<'a>| {
            content.remarks.push(Remark::not_understood(at.position()));
        };
        if let [.., object, name] = &words[..length]
            && PEERS.iter().any(|peer| object.is(peer))
        {
            match name.text().parse() {
                Ok(address) => self.add_peer(&level, address),
                Err(_) if has_setting => not_understood(name),
                Err(_) => {}
            }
        }
        if !has_setting {
            return;
        }
        let setting = &words[length];
        let values = &words[length + 1..];
        if setting.is("allow") {
            for prefix in list(values) {
                match prefix.parse() {
                    Ok(prefix) => self.add_peer(&level, prefix),
                    Err(_) if prefix == "all" => {
                        for everyone in [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()] {
                            self.add_peer(&level, IpCidr::new(everyone, 0).expect("no bit is set"));
                        }
                    }
                    Err(_) => not_understood(setting),
                }
            }
            return;
        }
        let [value] = values else { return not_understood(setting) };
        if value.text().contains(char::is_control) {
            return not_understood(setting);
        }
        if setting.is("station-address") {
            match value.text().parse() {
                Ok(address) => self.add_peer(&level, address),
                Err(_) => not_understood(value),
            }
            return;
        }
        let settings = match () {
            () if setting.is("authentication-key-chain") => &mut self.chains,
            () if setting.is("authentication-algorithm") => &mut self.algorithms,
            () => &mut self.interfaces,
        };
        match statement.is_inherited {
            true => _ = settings.entry(level).or_insert(*value),
            false => _ = settings.insert(level, *value),
        }
    }

    fn add_peer(&mut self, level: &[&'a str], peer: IpCidr) {
        let peer = (level.to_vec(), peer);
        if self.known.insert(peer.clone()) {
            self.peers.push(peer);
        }
    }

    /// The peers of each chain: those that name it themselves, or inherit it from their group or the protocol.
    pub(super) fn by_chain(&self) -> HashMap<&'a str, Used> {
        let (mut users, mut known) = (HashMap::<_, Used>::new(), HashSet::new());
        for (level, address) in &self.peers {
            let Some(chain) = nearest(&self.chains, level) else { continue };
            let interface = nearest(&self.interfaces, level).map(|word| word.text().to_owned());
            let neighbor = Neighbor { vrf: routing_instance(level), address: *address, interface };
            if !known.insert((chain.text(), neighbor.clone())) {
                continue;
            }
            let used = users.entry(chain.text()).or_default();
            if !nearest(&self.algorithms, level).is_some_and(|algorithm| algorithm.is("ao")) {
                used.without_ao.push(neighbor.clone());
            }
            used.neighbors.push(neighbor);
        }
        users
    }

    /// The places where chains are named, by name.
    pub(super) fn chains(&self) -> impl Iterator<Item = &Word<'a>> {
        self.chains.values()
    }
}

/// What is set at this level or the nearest one above.
fn nearest<'s, 'a>(settings: &'s HashMap<Vec<&'a str>, Word<'a>>, level: &[&'a str]) -> Option<&'s Word<'a>> {
    (0..=level.len()).rev().find_map(|length| settings.get(&level[..length]))
}

/// The routing instance that a level is in, after the name of its logical system if it is in one.
fn routing_instance(level: &[&str]) -> Option<String> {
    let names: Vec<_> = level
        .windows(2)
        .take_while(|words| words[0] != "protocols")
        .filter(|words| matches!(words[0], "routing-instances" | "logical-systems"))
        .map(|words| words[1])
        .collect();
    (!names.is_empty()).then(|| names.join("/").replace(char::is_control, "_"))
}
