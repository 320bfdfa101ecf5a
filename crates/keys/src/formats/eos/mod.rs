//! Arista EOS configuration: `session shared-secret profile`, and BGP's `password shared-secret profile` (Arista, BGP TCP Authentication
//! Option, EOS 4.28.2F and later). A profile has secrets with ids and lifetimes; the algorithm stands at the neighbor.

mod change;
mod keys;
mod write;

use std::collections::{HashMap, HashSet};

use wireseal_algorithms::TcpAoAlgorithm;

use self::keys::{MAC_LENGTH, key};
use self::write::{ALGORITHMS, name_of};
use super::file::{Chain, ChainKey, Content, LINK_LOCAL, Neighbor, Remark, Skipped};
use super::table::{Change, Limits, SendingRule, Shows, Table, Written, begins, first_line};
use super::tree::{Blocks, Dialect, Tree, Word, starts, without_prompt};
use super::write::written;
use crate::{Error, Position};

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
    fit: |chain, _, losses| write::that_can_be(chain, losses),
    write: Some(|chains, losses| Ok(written(chains, |text| write::write(text, chains, losses)))),
    change: Some(Change {
        written: Written::Commands(|text, before, after| {
            change::commands(&Tree::read(text, &DIALECT)?, before, after)
        }),
        apply: change::APPLY,
        show: change::SHOW,
    }),
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
