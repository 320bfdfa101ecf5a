//! `router bgp` of IOS XR: which neighbor uses which key chain, itself or through its groups.

use std::collections::{HashMap, HashSet};

use cidr::{IpCidr, IpInet};
use wireseal_tcp_ao::OptionCoverage;

use super::super::file::{Neighbor, Remark, is_link_local};
use super::super::peers::inherited;
use super::super::tree::Word;
use crate::{Error, Position};

/// The chain that a line with `ao` names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Use<'a> {
    pub(super) chain: &'a str,
    pub(super) coverage: OptionCoverage,
    /// Whether connections without TCP-AO are accepted.
    pub(super) accepts_mismatch: bool,
    pub(super) position: Position,
}

/// A neighbor or a group, by the instance of BGP that it is in.
type Id<'a> = (&'a str, Name<'a>);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name<'a> {
    Neighbor(Option<&'a str>, IpCidr),
    NeighborGroup(&'a str),
    SessionGroup(&'a str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ao<'a> {
    /// `ao inheritance-disable`
    None,
    Chain(Use<'a>),
}

/// What a neighbor or a group has of its own.
#[derive(Clone)]
struct Subject<'a> {
    order: usize,
    position: Position,
    ao: Option<Ao<'a>>,
    session_group: Option<(&'a str, Position)>,
    neighbor_group: Option<(&'a str, Position)>,
    update_source: Option<String>,
    password: bool,
    /// `keychain`, which is the option that was there before TCP-AO.
    keychain: Option<Position>,
}

/// The neighbors and groups of a text.
#[derive(Default)]
pub(super) struct Bgp<'a> {
    subjects: HashMap<Id<'a>, Subject<'a>>,
    /// How many lines of neighbors and groups there were.
    lines: usize,
    remarks: Vec<Remark>,
}

/// The neighbors of a text that use chains, in order, and what is to be said about all.
pub(super) struct Users<'a> {
    pub(super) users: Vec<(Neighbor, Use<'a>)>,
    pub(super) remarks: Vec<Remark>,
}

impl<'a> Bgp<'a> {
    /// Takes a command from after `router bgp AS`; `own` is its own first word.
    pub(super) fn take(&mut self, command: &[Word<'a>], own: &Word<'a>) -> Result<(), Error> {
        let (instance, command) = match command {
            [word, name, command @ ..] if word.is("instance") => (name.text(), command),
            _ => ("", command),
        };
        let (vrf, command) = match command {
            [word, name, command @ ..] if word.is("vrf") => (Some(name.text()), command),
            _ => (None, command),
        };
        let (removes, command) = match command {
            [no, command @ ..] if no.is("no") => (true, command),
            _ => (false, command),
        };
        let (name, rest) = match command {
            [kind, name, rest @ ..] if kind.is("neighbor") => {
                (address(name).map(|address| Name::Neighbor(vrf, address)), rest)
            }
            [kind, name, rest @ ..] if kind.is("neighbor-group") => {
                (Some(Name::NeighborGroup(name.text())), rest)
            }
            [kind, name, rest @ ..] if kind.is("session-group") => {
                (Some(Name::SessionGroup(name.text())), rest)
            }
            _ => (None, command),
        };
        let (name, command) = match (name, rest) {
            (Some(name), []) if removes => {
                self.subjects.remove(&(instance, name));
                return Ok(());
            }
            (Some(name), command) if !removes => (name, command),
            // In no neighbor, or in one whose address is not understood.
            (_, command) => {
                // What is removed may also be a neighbor's group, or a VRF with its neighbors.
                let names: &[&str] = if removes { &["ao", "use", "vrf"] } else { &["ao"] };
                let is_one = |word: &Word<'_>| names.iter().any(|name| word.is(name));
                if is_one(own) || command.first().is_some_and(is_one) {
                    self.remarks.push(Remark::not_understood(own.position()));
                }
                return Ok(());
            }
        };
        self.lines += 1;
        let subject = self.subjects.entry((instance, name)).or_insert_with(|| Subject {
            order: self.lines,
            position: own.position(),
            ao: None,
            session_group: None,
            neighbor_group: None,
            update_source: None,
            password: false,
            keychain: None,
        });
        match command {
            [no, ao, ..] if no.is("no") && ao.is("ao") => subject.ao = None,
            [no, uses, kind, ..] if no.is("no") && uses.is("use") => {
                *subject.group(kind).unwrap_or(&mut None) = None;
            }
            [uses, kind, group] if uses.is("use") => {
                *subject.group(kind).unwrap_or(&mut None) = Some((group.text(), own.position()));
            }
            [update, interface @ ..] if update.is("update-source") => {
                subject.update_source = Some(interface.iter().map(Word::text).collect());
            }
            [word, value, ..] if !value.is("inheritance-disable") && word.is("password") => {
                subject.password = true;
            }
            [word, value, ..] if !value.is("inheritance-disable") && word.is("keychain") => {
                subject.keychain = Some(own.position());
            }
            [ao, values @ ..] if ao.is("ao") => {
                let Some(new) = ao_of(ao, values, &mut self.remarks)? else { return Ok(()) };
                let chain = |ao: Ao<'a>| match ao {
                    Ao::None => None,
                    Ao::Chain(usage) => Some(usage.chain),
                };
                if let Some(old) = subject.ao.replace(new)
                    && chain(old) != chain(new)
                {
                    let sentence = "a neighbor or group of IOS XR has one chain, and this is its second: the last one is taken";
                    self.remarks.push(Remark::warning("refused", Some(ao.position()), sentence));
                }
            }
            // Such as one that is indented too deeply.
            _ if own.is("ao") => self.remarks.push(Remark::not_understood(own.position())),
            _ => {}
        }
        Ok(())
    }

    /// What a subject has or inherits: its session group goes before its neighbor group (BGP Configuration Guide for Cisco 8000 Series
    /// Routers, Precedence of configuration template inheritance).
    fn inherited<T>(&self, id: Id<'a>, get: impl Fn(&Subject<'a>) -> Option<T>) -> Result<Option<T>, String> {
        let groups = |id: &Id<'a>| {
            let groups = self.subjects.get(id).map_or([None; 2], Subject::groups);
            groups.map(|group| group.map(|(name, _)| (id.0, name)))
        };
        inherited(id, |id| self.subjects.get(id).and_then(&get), groups)
    }

    /// Who uses which chain.
    pub(super) fn finish(mut self) -> Users<'a> {
        let mut remarks = std::mem::take(&mut self.remarks);
        let mut subjects: Vec<_> = self.subjects.iter().collect();
        subjects.sort_unstable_by_key(|(_, subject)| subject.order);
        let mut users = Vec::new();
        let mut missing = HashSet::new();
        for (id @ (instance, name), subject) in &subjects {
            for (group, position) in subject.groups().into_iter().flatten() {
                if !self.subjects.contains_key(&(*instance, group)) && missing.insert((*instance, group)) {
                    let sentence = "the group that is used here is not in the file: whether its neighbors use TCP-AO is not known";
                    remarks.push(Remark::warning("missing", Some(position), sentence).into_note());
                }
            }
            let has_other = subject.password || subject.keychain.is_some();
            if has_other && matches!(subject.ao, Some(Ao::Chain(_))) {
                let sentence =
                    "IOS XR refuses `ao` beside `password` or `keychain` of the same neighbor or group";
                remarks.push(Remark::warning("refused", Some(subject.position), sentence));
            }
            let Name::Neighbor(vrf, address) = name else { continue };
            let ao = match self.inherited(**id, |subject| subject.ao) {
                Ok(Some(Ao::Chain(usage))) => usage,
                Ok(_) => continue,
                Err(sentence) => {
                    remarks.push(Remark::warning("not-understood", Some(subject.position), sentence));
                    continue;
                }
            };
            let mut neighbor =
                Neighbor { vrf: vrf.map(ToOwned::to_owned), address: *address, interface: None };
            if is_link_local(address) {
                neighbor.interface =
                    self.inherited(**id, |subject| subject.update_source.clone()).unwrap_or(None);
            }
            users.push((neighbor, ao));
        }
        let older: Vec<Position> = subjects.iter().filter_map(|(_, subject)| subject.keychain).collect();
        if let Some(first) = older.first() {
            let who = match older.len() {
                1 => "a neighbor or group".to_owned(),
                count => format!("a neighbor or group and {} more", count - 1),
            };
            remarks.push(Remark::older_option(Some(*first), who, "keychain").into_note());
        }
        Users { users, remarks }
    }
}

impl<'a> Subject<'a> {
    /// The group of this kind that it uses.
    fn group(&mut self, kind: &Word<'_>) -> Option<&mut Option<(&'a str, Position)>> {
        match () {
            () if kind.is("session-group") => Some(&mut self.session_group),
            () if kind.is("neighbor-group") => Some(&mut self.neighbor_group),
            () => None,
        }
    }

    /// The groups that it uses, the one that goes first first.
    fn groups(&self) -> [Option<(Name<'a>, Position)>; 2] {
        let session = self.session_group.map(|(name, position)| (Name::SessionGroup(name), position));
        let neighbor = self.neighbor_group.map(|(name, position)| (Name::NeighborGroup(name), position));
        [session, neighbor]
    }
}

/// The values of `ao`; `None` if there are none.
fn ao_of<'a>(ao: &Word<'a>, values: &[Word<'a>], remarks: &mut Vec<Remark>) -> Result<Option<Ao<'a>>, Error> {
    let (chain, mut values) = match values {
        [] => {
            remarks.push(Remark::not_understood(ao.position()));
            return Ok(None);
        }
        [word] if word.is("inheritance-disable") => return Ok(Some(Ao::None)),
        [chain, values @ ..] => (chain.text(), values),
    };
    let (mut coverage, mut accepts_mismatch) = (None, false);
    loop {
        values = match values {
            [] => break,
            [include, value @ ..] if include.is("include-tcp-options") => {
                let expected =
                    || value.first().unwrap_or(include).expected("include-tcp-options", "enable or disable");
                let (value, rest) = value.split_first().ok_or_else(expected)?;
                coverage = Some(match () {
                    () if value.is("enable") => OptionCoverage::Covered,
                    () if value.is("disable") => OptionCoverage::Excluded,
                    () => return Err(expected()),
                });
                rest
            }
            [mismatch, rest @ ..]
                if mismatch.is("accept-ao-mismatch-connection")
                    || mismatch.is("accept-ao-mismatch-connections") =>
            {
                accepts_mismatch = true;
                rest
            }
            _ => {
                remarks.push(Remark::not_understood(ao.position()));
                break;
            }
        };
    }
    if coverage.is_none() {
        let sentence = "`ao` without include-tcp-options is read as include-tcp-options enable";
        remarks.push(Remark::warning("assumed", Some(ao.position()), sentence).into_note());
    }
    let coverage = coverage.unwrap_or(OptionCoverage::Covered);
    Ok(Some(Ao::Chain(Use { chain, coverage, accepts_mismatch, position: ao.position() })))
}

/// An address or a network, with or without bits of the host.
fn address(word: &Word<'_>) -> Option<IpCidr> {
    let inside = |inet: IpInet| inet.network();
    word.text().parse().ok().or_else(|| word.text().parse().ok().map(inside))
}
