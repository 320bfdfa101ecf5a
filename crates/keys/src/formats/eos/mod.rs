//! Arista EOS configuration: `session shared-secret profile`, and BGP's `password shared-secret profile` (Arista, BGP TCP Authentication
//! Option, EOS 4.28.2F and later). A profile has secrets with ids and lifetimes; the algorithm stands at the neighbor.

mod keys;

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use wireseal_algorithms::TcpAoAlgorithm;

use self::keys::{FIRST_MOMENT, MAC_LENGTH, key};
use super::file::{Chain, ChainKey, Content, LINK_LOCAL, Neighbor, Remark, Skipped};
use super::table::{Limits, SendingRule, Shows, Table, begins, first_line};
use super::tree::{Blocks, Dialect, Tree, Word, starts, without_prompt};
use super::write::{Names, lose_ranks, written};
use crate::{Error, Position, Timestamp};

pub(super) const TABLE: Table = Table {
    name: "eos",
    about: "Arista EOS configuration",
    extension: None,
    shows: |text| {
        let line = first_line(without_prompt(text));
        match begins(line, &["session shared-secret profile", "service routing protocols model"]) {
            false if line.contains(" password shared-secret profile ") => Shows::Certainly,
            false if begins(line, &["management security"]) => Shows::Perhaps,
            is_certain => Shows::if_(is_certain),
        }
    },
    read: |text, _| read(text),
    fit: |chain, _, losses| that_can_be(chain, losses),
    write: Some(|chains, losses| Ok(written(chains, |text| write(text, chains, losses)))),
    change: None,
    limits: Limits {
        name: "eos",
        about: "Arista EOS",
        title: "EOS",
        algorithm: name_of,
        mac_lengths: [MAC_LENGTH, MAC_LENGTH],
        covers_options: true,
        obscured: Some("type 7 or 8a"),
        has_one_id: true,
        sending: SendingRule::Unspecified,
        ..Limits::NONE
    },
};

const DIALECT: Dialect =
    Dialect { blocks: Blocks::Ranks { rank, has_quotes: false }, depth: 64, block: |_| "mode" };

/// How deep a command is in a text without indentation.
fn rank(command: &[Word<'_>]) -> Option<usize> {
    let is = |names| starts(command, names);
    match command {
        _ if is(&["management", "security"]) || is(&["router", "bgp"]) => Some(1),
        _ if is(&["session", "shared-secret"]) || is(&["exit"]) => Some(2),
        [vrf, _] if vrf.is("vrf") => Some(2),
        _ if is(&["secret"]) || is(&["neighbor"]) || is(&["address-family"]) => Some(3),
        _ => None,
    }
}

const ALGORITHMS: [(TcpAoAlgorithm, &str); 2] =
    [(TcpAoAlgorithm::HmacSha1, "hmac-sha1-96"), (TcpAoAlgorithm::Aes128Cmac, "aes-128-cmac-96")];

fn name_of(algorithm: TcpAoAlgorithm) -> Option<&'static str> {
    ALGORITHMS.iter().find(|(known, _)| *known == algorithm).map(|(_, name)| *name)
}

/// The profiles that BGP uses, with the neighbors that use them.
///
/// A profile that neighbors use with both algorithms becomes two chains.
fn read(text: &str) -> Result<Content, Error> {
    let mut drafts = Drafts::default();
    Tree::read(text, &DIALECT)?.each(|path, own, _| drafts.take(&path[..own], &path[own..]))?;
    drafts.finish()
}

#[derive(Default)]
struct Drafts<'a> {
    profiles: Vec<Profile<'a>>,
    by_name: HashMap<&'a str, usize>,
    /// Neighbors and peer groups, in order.
    subjects: Vec<Subject<'a>>,
    by_subject: HashMap<(Option<&'a str>, &'a str), usize>,
    /// The profiles that other protocols use.
    of_others: HashSet<&'a str>,
    remarks: Vec<Remark>,
    /// Whether it is a router's whole configuration.
    is_whole: bool,
    /// The value of `service routing protocols model`.
    model: Option<Word<'a>>,
}

struct Profile<'a> {
    at: Word<'a>,
    name: &'a str,
    /// The words after `secret`. They are read only once the profile is known to be for TCP-AO.
    secrets: Vec<(Word<'a>, Vec<Word<'a>>)>,
    remarks: Vec<Remark>,
}

/// A neighbor, a range of neighbors or a peer group.
struct Subject<'a> {
    at: Word<'a>,
    vrf: Option<&'a str>,
    /// `None` for a peer group.
    neighbor: Option<Neighbor>,
    uses: Option<Use<'a>>,
    /// Where it has a password for TCP MD5.
    password: Option<Position>,
    group: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Use<'a> {
    profile: &'a str,
    /// `None` for `hmac-sha-256`.
    algorithm: Option<TcpAoAlgorithm>,
}

impl<'a> Drafts<'a> {
    /// Takes a command; `around` are the words of the commands whose modes it is in.
    fn take(&mut self, around: &[Word<'a>], own: &[Word<'a>]) -> Result<(), Error> {
        let begins = |names| starts(own, names);
        let profile =
            around.len().checked_sub(4).map(|at| &around[at..]).filter(|last| starts(last, PROFILE));
        let profile = profile.and_then(|last| self.by_name.get(last[3].text()).copied());
        let inside = match around {
            [_, _, _, inside @ ..] if starts(around, &["router", "bgp"]) => inside,
            // A VRF without the lines above it.
            [vrf, _] if vrf.is("vrf") => around,
            _ => &[],
        };
        let vrf =
            inside.iter().position(|word| word.is("vrf")).and_then(|at| inside.get(at + 1)).map(Word::text);
        match own {
            [first, _, _, name] if begins(PROFILE) => {
                let index = *self.by_name.entry(name.text()).or_insert(self.profiles.len());
                if index == self.profiles.len() {
                    let (secrets, remarks) = (Vec::new(), Vec::new());
                    self.profiles.push(Profile { at: *first, name: name.text(), secrets, remarks });
                }
            }
            [_, .., model] if begins(&["service", "routing", "protocols", "model"]) => {
                self.model = Some(*model);
            }
            [_, ..] if begins(&["hostname"]) => self.is_whole = true,
            [_, _, name, rest @ ..] if begins(&["neighbor", "interface"]) => {
                let neighbor = neighbor(vrf, LINK_LOCAL);
                let interface = Some(name.text().to_owned());
                let subject = self.subject(vrf, name, neighbor.map(|any| Neighbor { interface, ..any }));
                subject.group = group(rest).or(subject.group);
            }
            [_, _, _, range, rest @ ..] if begins(&["bgp", "listen", "range"]) => {
                let subject = self.subject(vrf, range, neighbor(vrf, range.text()));
                subject.group = group(rest).or(subject.group);
            }
            [first, name, command @ ..] if begins(&["neighbor"]) => {
                // What is above may be of another mode, if the line with `router bgp` was cut off.
                if inside.is_empty()
                    && around.iter().any(|word| word.is("vrf"))
                    && starts(command, &["password", "shared-secret"])
                {
                    let sentence = "this neighbor is not below \"router bgp\", so its VRF is not known";
                    self.remarks.push(Remark::warning("not-understood", Some(first.position()), sentence));
                }
                self.take_neighbor(vrf, name, command)?;
            }
            [no, _, _, password, ..] if begins(&["no", "neighbor"]) && password.is("password") => {
                self.remarks.push(Remark::not_understood(no.position()));
            }
            [no, ..] if begins(&["no", "session", "shared-secret"]) => {
                self.remarks.push(Remark::not_understood(no.position()));
            }
            [first, values @ ..] => match profile.map(|index| &mut self.profiles[index]) {
                Some(profile) if first.is("secret") => profile.secrets.push((*first, values.to_vec())),
                Some(_) if first.is("exit") => {}
                Some(profile) => profile.remarks.push(Remark::not_understood(first.position())),
                // The line with its profile is missing.
                None if first.is("secret") => self.remarks.push(Remark::not_understood(first.position())),
                // Such as one with a mistyped word before it.
                None if own
                    .windows(3)
                    .any(|three| starts(three, &["password", "shared-secret", "profile"])) =>
                {
                    self.remarks.push(Remark::not_understood(first.position()));
                }
                None => {
                    let at = own.windows(2).position(|two| starts(two, &PROFILE[1..]));
                    self.of_others.extend(at.and_then(|at| own.get(at + 2)).map(Word::text));
                }
            },
            [] => {}
        }
        Ok(())
    }

    fn subject(
        &mut self,
        vrf: Option<&'a str>,
        name: &Word<'a>,
        neighbor: Option<Neighbor>,
    ) -> &mut Subject<'a> {
        let index = *self.by_subject.entry((vrf, name.text())).or_insert(self.subjects.len());
        if index == self.subjects.len() {
            self.subjects.push(Subject { at: *name, vrf, neighbor, uses: None, password: None, group: None });
        }
        &mut self.subjects[index]
    }

    fn take_neighbor(
        &mut self,
        vrf: Option<&'a str>,
        name: &Word<'a>,
        command: &[Word<'a>],
    ) -> Result<(), Error> {
        let subject = self.subject(vrf, name, neighbor(vrf, name.text()));
        match command {
            [_, _, _, name, algorithm, value]
                if starts(command, &["password", "shared-secret", "profile"])
                    && algorithm.is("algorithm") =>
            {
                let known = ALGORITHMS.iter().find(|(_, known)| value.is(known));
                if known.is_none() && !value.is("hmac-sha-256") {
                    return Err(value.expected("algorithm", "hmac-sha1-96 or aes-128-cmac-96"));
                }
                let algorithm = known.map(|(algorithm, _)| *algorithm);
                subject.uses = Some(Use { profile: name.text(), algorithm });
            }
            [password, ..] if starts(command, &["password", "shared-secret"]) => {
                self.remarks.push(Remark::not_understood(password.position()));
            }
            [password, _, ..] if password.is("password") => subject.password = Some(password.position()),
            _ => subject.group = group(command).or(subject.group),
        }
        Ok(())
    }

    /// What a neighbor uses: its own profile or, if it has no password of its own either, that of its group.
    fn use_of(&self, subject: &Subject<'a>) -> Option<Use<'a>> {
        let group = || {
            // Groups are defined outside of VRFs.
            let group = [subject.vrf, None].map(|vrf| Some((vrf, subject.group?)));
            let mut found = group.into_iter().flatten().filter_map(|key| self.by_subject.get(&key));
            found.next().and_then(|index| self.subjects[*index].uses)
        };
        subject.uses.or_else(|| group().filter(|_| subject.password.is_none()))
    }

    fn finish(mut self) -> Result<Content, Error> {
        let mut content = Content::default();
        let mut users: HashMap<Use<'_>, Vec<Neighbor>> = HashMap::new();
        let mut undocumented: HashMap<&str, Position> = HashMap::new();
        for subject in &self.subjects {
            let Some(uses) = self.use_of(subject) else { continue };
            let at = subject.at.position();
            if !self.by_name.contains_key(uses.profile) {
                content
                    .remarks
                    .push(Remark::missing(at, format_args!("profile {:?} of this neighbor", uses.profile)));
            }
            if subject.uses.is_some() && subject.password.is_some() {
                let sentence = "the neighbor has a password for TCP MD5 and a profile for TCP-AO, and EOS uses one of them";
                content.remarks.push(Remark::warning("refused", subject.password, sentence));
            }
            if uses.algorithm.is_none() {
                undocumented.entry(uses.profile).or_insert(at);
            }
            users.entry(uses).or_default().extend(subject.neighbor.clone());
        }
        for profile in &mut self.profiles {
            let mut remarks = std::mem::take(&mut profile.remarks);
            let used = ALGORITHMS.map(|(algorithm, _)| {
                let uses = Use { profile: profile.name, algorithm: Some(algorithm) };
                users.remove(&uses).map(|neighbors| (algorithm, neighbors))
            });
            let mut used = used.into_iter().flatten().peekable();
            let (name, position) = (profile.name, profile.at.position());
            if let Some(at) = undocumented.get(name) {
                let remark = Remark::unknown_kdf(*at, "hmac-sha-256", "Arista");
                content.remarks.push(remark.about(format_args!("profile {name:?} of this neighbor")));
            } else if used.peek().is_none() && self.of_others.contains(name) {
                content
                    .skipped
                    .push(Skipped { position, what: "a shared-secret profile for another protocol" });
                continue;
            } else if used.peek().is_none() {
                let why = "no BGP neighbor in the file uses it, and the algorithm is given at the neighbor";
                content.remarks.push(Remark::left_out(position, why).about(format_args!("profile {name:?}")));
            }
            // Allocate for all keys: a list that grew would leave secrets behind.
            let mut keys = Vec::with_capacity(profile.secrets.len());
            if used.peek().is_some() {
                for (at, values) in &profile.secrets {
                    keys.extend(key(at, values, &mut remarks)?);
                }
            }
            if keys.is_empty() {
                content.keep_remarks(name, remarks);
                continue;
            }
            for (algorithm, neighbors) in used {
                content.chains.push(Chain {
                    name: profile.name.to_owned(),
                    neighbors,
                    keys: keys.iter().map(|key| ChainKey { algorithm, ..key.clone() }).collect(),
                    remarks: remarks.clone(),
                    ..Chain::default()
                });
            }
        }
        content.remarks.append(&mut self.remarks);
        let sentence = "EOS has TCP-AO only with \"service routing protocols model multi-agent\"";
        match self.model {
            Some(model) if !model.is("multi-agent") => {
                content.remarks.push(Remark::warning("refused", Some(model.position()), sentence));
            }
            None if self.is_whole && !content.chains.is_empty() => {
                let sentence = format!("{sentence}, which is not in this file");
                content.remarks.push(Remark::warning("refused", None, sentence).into_note());
            }
            _ => {}
        }
        Ok(content)
    }
}

const PROFILE: &[&str] = &["session", "shared-secret", "profile"];

/// `ADDRESS`, `ADDRESS%INTERFACE` or a prefix; `None` for the name of a group.
fn neighbor(vrf: Option<&str>, name: &str) -> Option<Neighbor> {
    let (address, interface) = match name.split_once('%') {
        Some((address, interface)) => (address, Some(interface.to_owned())),
        None => (name, None),
    };
    Some(Neighbor { vrf: vrf.map(str::to_owned), address: address.parse().ok()?, interface })
}

/// The group in `peer group NAME ...` or `peer-group NAME ...`.
fn group<'a>(command: &[Word<'a>]) -> Option<&'a str> {
    match command {
        [peer, group, name, ..] if peer.is("peer") && group.is("group") => Some(name.text()),
        [group, name, ..] if group.is("peer-group") => Some(name.text()),
        _ => None,
    }
}

/// The chain with the keys of its first algorithm, each id once, without secrets that EOS takes only encrypted and without keys that
/// expired before 1970.
fn that_can_be(mut chain: Chain, losses: &mut Vec<String>) -> Option<Chain> {
    let algorithm = chain.keys.first()?.algorithm;
    let mut ids = HashSet::new();
    let names: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
    let mut names = names.iter();
    chain.keys.retain(|key| {
        let is_plain = |octet: &u8| octet.is_ascii_graphic() && *octet != b'?';
        let is_over = [key.send, key.accept].iter().any(|lifetime| lifetime.is_over(FIRST_MOMENT));
        let reason = match () {
            () if key.algorithm != algorithm => {
                Some("EOS has one algorithm for all keys of a neighbor".to_owned())
            }
            () if !key.secret.expose().iter().all(is_plain) => Some(
                "EOS accepts only printable ASCII characters without blanks and question marks".to_owned(),
            ),
            () if is_over => Some("it expired before 1970".to_owned()),
            () if !ids.insert(key.send_id) => Some(format!("EOS has one key with id {}", key.send_id)),
            () => None,
        };
        let name = names.next().map_or("", String::as_str);
        losses.extend(reason.iter().map(|reason| format!("key {name} is left out: {reason}")));
        reason.is_none()
    });
    let mut own = HashSet::new();
    chain.neighbors.retain(|neighbor| own.insert(neighbor.clone()));
    (!chain.keys.is_empty()).then_some(chain)
}

/// Writes profiles of chains from [`that_can_be`], and the neighbors that use them.
fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_graphic() && c != '?');
    let mut written: Vec<(String, &Chain)> = Vec::new();
    text.push_str(
        "! EOS needs \"service routing protocols model multi-agent\" for this.\nmanagement security\n",
    );
    for chain in chains {
        if let Some((name, other)) = written.last()
            && is_same_profile(other, chain)
        {
            written.push((name.clone(), chain));
            continue;
        }
        let name = names.name(chain, losses);
        write_profile(text, &name, chain, losses);
        written.push((name, chain));
    }
    text.push_str("!\n! Replace AS with the AS number.\nrouter bgp AS\n");
    let mut vrfs = vec![None];
    // A neighbor has one profile. EOS knows it by its address and VRF.
    let mut taken = HashSet::new();
    let mut lines: Vec<(Option<&str>, String)> = Vec::new();
    for (name, chain) in &written {
        let algorithm = chain.keys.first().and_then(|key| name_of(key.algorithm)).unwrap_or_default();
        let group = format!("{name}-{algorithm}");
        let before = lines.len();
        let mut needs_group = false;
        for Neighbor { vrf, address, interface } in &chain.neighbors {
            let vrf = vrf.as_deref();
            let link = interface.as_ref().filter(|_| address.to_string() == LINK_LOCAL);
            if let (Some(interface), None) = (interface, link) {
                losses.push(format!("chain {:?}: the interface {interface} of {address}", chain.name));
            }
            if !taken.insert((vrf, *address, link)) {
                losses.push(format!("chain {:?}: {address}, which uses another chain", chain.name));
                continue;
            }
            if !vrfs.contains(&vrf) {
                vrfs.push(vrf);
            }
            let line = match link {
                Some(link) => format!("neighbor interface {link} peer-group {group} remote-as AS"),
                None if address.is_host_address() => {
                    format!("neighbor {address} password shared-secret profile {name} algorithm {algorithm}")
                }
                None => format!("bgp listen range {address} peer-group {group} remote-as AS"),
            };
            needs_group |= !address.is_host_address();
            lines.push((vrf, line));
        }
        // The algorithm stands at a neighbor or a group, so without neighbors there is a group.
        if needs_group || lines.len() == before {
            lines.push((None, format!("neighbor {group} peer group")));
            lines.push((
                None,
                format!("neighbor {group} password shared-secret profile {name} algorithm {algorithm}"),
            ));
        }
    }
    for vrf in vrfs {
        let indent = if vrf.is_some() { "      " } else { "   " };
        if let Some(vrf) = vrf {
            let _ = writeln!(text, "   vrf {vrf}");
        }
        for (_, line) in lines.iter().filter(|(of, _)| *of == vrf) {
            let _ = writeln!(text, "{indent}{line}");
        }
    }
    text.push_str("!\n");
}

/// Whether the chains are one profile that neighbors use with both algorithms.
fn is_same_profile(one: &Chain, other: &Chain) -> bool {
    let of = |chain: &Chain| chain.keys.first().map(|key| key.algorithm);
    let keys = || one.keys.iter().zip(&other.keys);
    let in_order = [Some(TcpAoAlgorithm::HmacSha1), Some(TcpAoAlgorithm::Aes128Cmac)];
    !one.name.is_empty()
        && one.name == other.name
        && [of(one), of(other)] == in_order
        && one.keys.len() == other.keys.len()
        && keys()
            .all(|(one, other)| ChainKey { algorithm: other.algorithm, ..one.clone() }.is_same_key(other))
}

fn write_profile(text: &mut String, name: &str, chain: &Chain, losses: &mut Vec<String>) {
    lose_ranks(chain, losses);
    if chain.description.is_some() {
        losses.push(format!("chain {:?}: its description, which EOS does not have", chain.name));
    }
    if chain.accept_tolerance != 0 {
        losses.push(format!("chain {:?}: its tolerance, which EOS does not have", chain.name));
    }
    let _ = writeln!(text, "   session shared-secret profile {name}");
    for key in &chain.keys {
        let name = chain.name_of(key);
        if key.key_id != u64::from(key.send_id.0) {
            losses.push(format!("key {name}: its number, because EOS identifies keys by their ids"));
        }
        if [key.send.from(), key.accept.from()].into_iter().flatten().any(|start| start <= FIRST_MOMENT) {
            losses.push(format!("key {name}: a start before 1970"));
        }
        let _ = write!(text, "      secret {} 0 ", key.send_id);
        text.extend(key.secret.expose().iter().map(|octet| char::from(*octet)));
        for (field, lifetime) in [("receive-lifetime", key.accept), ("transmit-lifetime", key.send)] {
            let _ = write!(text, " {field}");
            let from = lifetime.from().filter(|from| *from > FIRST_MOMENT);
            if from.is_some() || lifetime.until().is_some() {
                write_moment(text, Some(from.unwrap_or(FIRST_MOMENT)));
            }
            write_moment(text, lifetime.until());
        }
        text.push('\n');
    }
    text.push_str("   !\n");
}

/// ` 2026-01-31 00:00:00`, or ` infinite`.
fn write_moment(text: &mut String, moment: Option<Timestamp>) {
    match moment {
        None => text.push_str(" infinite"),
        Some(moment) => {
            // 2026-01-31T00:00:00Z
            let _ = write!(text, " {}", moment.to_string().replace('T', " ").trim_end_matches('Z'));
        }
    }
}
