//! Reading IOS XE configuration: `key chain NAME tcp` and BGP's `neighbor ... ao` (Cisco, BGP Support for TCP AO, IOS XE 16.12, and IP
//! Routing Protocol-Independent Command Reference). NX-OS has such commands too, with neighbors as modes.

use std::collections::{HashMap, HashSet};

use cidr::IpCidr;

use super::super::file::{Content, Neighbor, Remark, Skipped, is_link_local};
use super::super::peers::inherited;
use super::super::tree::{Blocks, Dialect, Tree, Word};
use super::keys::{Ao, ChainDraft, KeyDraft, MISMATCH};
use crate::{Error, Position};

const DIALECT: Dialect =
    Dialect { blocks: Blocks::Indentation { has_prompts: true }, depth: 64, block: |_| "mode" };

/// The first words of the commands of a key.
const PROPERTIES: [&str; 8] = [
    "send-id",
    "recv-id",
    "cryptographic-algorithm",
    "key-string",
    "send-lifetime",
    "accept-lifetime",
    "include-tcp-options",
    MISMATCH,
];
const EXITS: [&str; 3] = ["exit-address-family", "exit-peer-session", "exit-peer-policy"];
/// The first words of other modes that have commands named as those of a chain or a neighbor, such as `key-string` and `password`.
const OTHERS: [&str; 7] = ["aaa", "crypto", "interface", "ip", "line", "radius", "tacacs"];

/// The chains with `tcp`, with the BGP neighbors that use them.
///
/// A chain that neighbors use both with and without TCP options becomes two.
pub(super) fn read(text: &str) -> Result<Content, Error> {
    let mut drafts = Drafts::default();
    Tree::read(text, &DIALECT)?.each(|_, _, command| drafts.take(command.words()))?;
    drafts.finish(&text.split('\n').collect::<Vec<_>>())
}

#[derive(Default)]
struct Drafts<'a> {
    modes: Vec<Mode<'a>>,
    chains: Vec<ChainDraft<'a>>,
    by_name: HashMap<&'a str, usize>,
    /// Lines without indentation that may be inside the open chain or after it.
    unclear: Vec<Position>,
    /// The subject of the last line that began with `neighbor` or `template`, and that line's indentation.
    subject: Option<(Subject<'a>, usize)>,
    settings: HashMap<Subject<'a>, Settings<'a>>,
    /// The keys of `settings`, in order.
    subjects: Vec<Subject<'a>>,
    remarks: Vec<Remark>,
}

/// A mode of the command line: the lines that follow are inside it.
struct Mode<'a> {
    kind: Kind<'a>,
    column: usize,
    /// Whether lines inside it are indented, so that one that is not is outside. Without indentation, only the commands tell.
    is_indented: bool,
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    Chain(usize),
    Key(usize),
    Bgp,
    /// `address-family ... vrf NAME`, or NX-OS's `vrf NAME`.
    Vrf(Option<&'a str>),
    /// NX-OS's `neighbor A`, or a template.
    Subject,
}

/// What has settings of a session. Neighbors and groups are those of a VRF.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Subject<'a> {
    Neighbor(Option<&'a str>, IpCidr, Option<&'a str>),
    Group(Option<&'a str>, &'a str),
    Template(&'a str),
}

#[derive(Default)]
struct Settings<'a> {
    /// The first of them.
    at: Option<Position>,
    ao: Option<Ao<'a>>,
    template: Option<Subject<'a>>,
    group: Option<Subject<'a>>,
    password: Option<Word<'a>>,
    interface: Option<String>,
}

impl<'a> Drafts<'a> {
    fn take(&mut self, command: &[Word<'a>]) -> Result<(), Error> {
        let Some(first) = command.first() else { return Ok(()) };
        let column = first.position().column;
        let outside = self.modes.iter().position(|mode| mode.is_indented && column <= mode.column);
        self.modes.truncate(outside.unwrap_or(self.modes.len()));
        for mode in &mut self.modes {
            mode.is_indented |= column > mode.column;
        }
        match (command, self.modes.first()) {
            ([key, chain, name, rest @ ..], _) if key.is("key") && chain.is("chain") => {
                self.take_chain(key, name, rest);
            }
            ([no, key, chain, ..], _) if no.is("no") && key.is("key") && chain.is("chain") => {
                self.remarks.push(Remark::not_understood(no.position()));
            }
            ([key, _, dashes, ..], _) if key.is("key") && dashes.is("--") => {
                let reason = "this is the output of \"show key chain\", which has no neighbors: give that of \"show \
                              running-config\"";
                return Err(key.refused("key chain", reason));
            }
            ([router, bgp, ..], _) if router.is("router") && bgp.is("bgp") => {
                self.enter(0, Kind::Bgp, column);
            }
            ([first, ..], _) if first.is("router") || first.is("end") => self.modes.clear(),
            ([exit], _) if exit.is("exit") => {
                // An `exit` whose indentation has closed the mode already closes no other.
                self.modes
                    .truncate(self.modes.len() - usize::from(outside.is_none() && !self.modes.is_empty()));
            }
            ([first, ..], Some(mode))
                if column <= mode.column && OTHERS.iter().any(|other| first.is(other)) =>
            {
                self.modes.clear();
            }
            (_, Some(Mode { kind: Kind::Chain(chain), column: outer, .. })) => {
                let (chain, is_inside) = (*chain, column > *outer);
                self.take_in_chain(chain, first, command, is_inside);
            }
            (_, Some(_)) => self.take_in_bgp(first, command),
            // A line without the lines above it that it belongs to.
            ([neighbor, _, ao, ..], None) if neighbor.is("neighbor") && ao.is("ao") => {
                self.take_in_bgp(first, command);
            }
            ([family, rest @ ..], None)
                if family.is("address-family") && rest.iter().any(|word| word.is("vrf")) =>
            {
                self.enter(0, Kind::Bgp, column);
                self.take_in_bgp(first, command);
            }
            ([property, ..], None) if ["send-id", "recv-id", "ao"].iter().any(|known| property.is(known)) => {
                self.remarks.push(Remark::not_understood(property.position()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Opens a mode inside the first `depth` that are open.
    fn enter(&mut self, depth: usize, kind: Kind<'a>, column: usize) {
        self.modes.truncate(depth);
        self.modes.push(Mode { kind, column, is_indented: false });
        self.subject = None;
        self.unclear.clear();
    }

    fn take_chain(&mut self, at: &Word<'a>, name: &Word<'a>, rest: &[Word<'a>]) {
        let index = *self.by_name.entry(name.text()).or_insert(self.chains.len());
        if index == self.chains.len() {
            let (keys, by_id, remarks) = (Vec::new(), HashMap::new(), Vec::new());
            self.chains.push(ChainDraft { at: *at, name: name.text(), is_tcp: false, keys, by_id, remarks });
        }
        // Chains are next to each other in a configuration, so the unclear lines were inside the one before.
        if let Some(Mode { kind: Kind::Chain(before), .. }) = self.modes.first() {
            let remarks = &mut self.chains[*before].remarks;
            remarks.extend(self.unclear.drain(..).map(Remark::not_understood));
        }
        self.chains[index].is_tcp |= rest.first().is_some_and(|kind| kind.is("tcp"));
        self.enter(0, Kind::Chain(index), at.position().column);
    }

    /// A line after `key chain`: certainly inside it, or perhaps.
    fn take_in_chain(&mut self, chain: usize, first: &Word<'a>, command: &[Word<'a>], is_inside: bool) {
        let draft = &mut self.chains[chain];
        let is_property = command
            .iter()
            .take(2)
            .find(|word| !word.is("no"))
            .is_some_and(|word| PROPERTIES.iter().any(|property| word.is(property)));
        let open = match self.modes.get(1) {
            Some(Mode { kind: Kind::Key(index), .. }) if is_property || is_inside => Some(*index),
            _ => None,
        };
        match (command, open) {
            ([key, id], _) if key.is("key") => {
                let index = *draft.by_id.entry(id.text()).or_insert(draft.keys.len());
                if index == draft.keys.len() {
                    draft.keys.push(KeyDraft { at: *key, id: *id, commands: Vec::new() });
                }
                draft.remarks.extend(self.unclear.drain(..).map(Remark::not_understood));
                self.enter(1, Kind::Key(index), key.position().column);
            }
            (_, Some(key)) => {
                draft.keys[key].commands.push(command.to_vec());
                // Another command of the key follows, so the unclear lines were inside the key.
                draft.remarks.extend(self.unclear.drain(..).map(Remark::not_understood));
            }
            _ if first.is("description") => {}
            _ if is_inside || is_property => draft.remarks.push(Remark::not_understood(first.position())),
            _ => self.unclear.push(first.position()),
        }
    }

    /// The VRF of the mode that is open.
    fn vrf(&self) -> Option<&'a str> {
        self.modes.iter().find_map(|mode| match mode.kind {
            Kind::Vrf(vrf) => Some(vrf),
            _ => None,
        })?
    }

    fn take_in_bgp(&mut self, first: &Word<'a>, command: &[Word<'a>]) {
        let column = first.position().column;
        // In NX-OS, a neighbor has address families inside it, and a VRF too.
        let is_in_subject = self.subject.is_some_and(|(_, outer)| column > outer);
        let is_vrf = |mode: &Mode<'_>| matches!(mode.kind, Kind::Vrf(_));
        let in_vrf = self.modes.iter().position(is_vrf).unwrap_or(0) + 1;
        match command {
            [family, rest @ ..] if family.is("address-family") => {
                let vrf = rest.iter().position(|word| word.is("vrf")).and_then(|vrf| rest.get(vrf + 1));
                let is_in_vrf = self.modes.get(1).is_some_and(|mode| column > mode.column);
                if !is_in_subject && (vrf.is_some() || !is_in_vrf) {
                    self.enter(1, Kind::Vrf(vrf.map(Word::text)), column);
                }
            }
            [vrf, name] if vrf.is("vrf") => self.enter(1, Kind::Vrf(Some(name.text())), column),
            [exit] if EXITS.iter().any(|known| exit.is(known)) => {
                self.modes.truncate(1);
                self.subject = None;
            }
            [template, kind, name, ..] if template.is("template") => {
                self.enter(1, Kind::Subject, column);
                self.subject = is_session(kind).then_some((Subject::Template(name.text()), column));
            }
            [neighbor, name, rest @ ..] if neighbor.is("neighbor") => {
                self.modes.truncate(in_vrf);
                if rest.is_empty() {
                    self.enter(in_vrf, Kind::Subject, column);
                }
                self.subject = Some((subject(self.vrf(), name.text()), column));
                self.take_setting(rest);
            }
            [bgp, listen, range, prefix, group, name, ..]
                if bgp.is("bgp") && listen.is("listen") && range.is("range") && group.is("peer-group") =>
            {
                match subject(self.vrf(), prefix.text()) {
                    peers @ Subject::Neighbor(..) => {
                        self.subject = Some((peers, column));
                        self.take_setting(&[*group, *name]);
                        self.subject = None;
                    }
                    _ => self.remarks.push(Remark::not_understood(prefix.position())),
                }
            }
            [no, neighbor, _] if no.is("no") && neighbor.is("neighbor") => {
                self.remarks.push(Remark::not_understood(no.position()));
            }
            // Such as `no neighbor A ao NAME`, or a mistyped word before it.
            [first, rest @ ..] if !first.is("description") && rest.iter().any(|word| word.is("ao")) => {
                self.remarks.push(Remark::not_understood(first.position()));
            }
            _ => self.take_setting(command),
        }
    }

    /// A setting of the subject that is open.
    fn take_setting(&mut self, command: &[Word<'a>]) {
        let Some((subject, _)) = self.subject else {
            let orphan = command.first().filter(|word| word.is("ao"));
            self.remarks.extend(orphan.map(|word| Remark::not_understood(word.position())));
            return;
        };
        let vrf = self.vrf();
        let settings = self.settings.entry(subject).or_insert_with(|| {
            self.subjects.push(subject);
            let at = command.first().map(Word::position);
            Settings { at, ..Settings::default() }
        });
        match command {
            [ao, chain, options @ ..] if ao.is("ao") => {
                let includes = |word: &Word<'_>| word.is("include-tcp-options");
                let accepts = |word: &Word<'_>| {
                    word.text()
                        .get(..MISMATCH.len())
                        .is_some_and(|start| start.eq_ignore_ascii_case(MISMATCH))
                };
                let unknown = options.iter().find(|word| !includes(word) && !accepts(word));
                self.remarks.extend(unknown.map(|word| Remark::not_understood(word.position())));
                settings.ao = Some(Ao {
                    at: *ao,
                    chain: chain.text(),
                    includes_options: options.iter().any(includes),
                    accepts_mismatch: options.iter().any(accepts),
                });
            }
            [ao] if ao.is("ao") => self.remarks.push(Remark::not_understood(ao.position())),
            [inherit, kind, name] if inherit.is("inherit") && is_session(kind) => {
                settings.template = Some(Subject::Template(name.text()));
            }
            [group, name] if group.is("peer-group") => {
                settings.group = Some(Subject::Group(vrf, name.text()));
            }
            [password, ..] if password.is("password") => settings.password = Some(*password),
            [source, interface @ ..] if source.is("update-source") => {
                settings.interface = Some(interface.iter().map(Word::text).collect());
            }
            _ => {}
        }
    }

    /// What a neighbor uses: its own setting, or else that of its template, or else that of its group.
    fn ao_of(&self, subject: Subject<'a>) -> Result<Option<Ao<'a>>, String> {
        let settings = |subject: &Subject<'a>| {
            self.settings.get(subject).or_else(|| match subject {
                Subject::Group(Some(_), name) => self.settings.get(&Subject::Group(None, name)),
                _ => None,
            })
        };
        let groups =
            |subject: &Subject<'a>| settings(subject).map_or([None; 2], |it| [it.template, it.group]);
        inherited(subject, |subject| settings(subject)?.ao, groups)
    }

    fn finish(mut self, lines: &[&str]) -> Result<Content, Error> {
        let mut users: HashMap<&str, Vec<(Option<Neighbor>, Ao<'_>)>> = HashMap::new();
        let mut missing = HashSet::new();
        for subject in &self.subjects {
            let Some(settings) = self.settings.get(subject) else { continue };
            let is_there = |name: &Subject<'_>| {
                let is_global = |name| matches!(name, Subject::Group(_, name) if self.settings.contains_key(&Subject::Group(None, name)));
                self.settings.contains_key(name) || is_global(*name)
            };
            let named = settings.group.iter().chain(&settings.template);
            if settings.ao.is_none() && named.clone().any(|name| !is_there(name)) {
                let who = match subject {
                    Subject::Neighbor(_, address, _) => format!("neighbor {address}"),
                    Subject::Group(_, name) | Subject::Template(name) => format!("{name:?}"),
                };
                let sentence = format!(
                    "the group or template of {who} is not in the file: whether it uses TCP-AO is not known"
                );
                self.remarks.push(Remark::warning("missing", None, sentence).into_note());
            }
            let ao = match subject {
                Subject::Neighbor(..) => self.ao_of(*subject).unwrap_or_else(|sentence| {
                    self.remarks.push(Remark::warning("not-understood", settings.at, sentence));
                    None
                }),
                _ => settings.ao,
            };
            let Some(ao) = ao else { continue };
            if let Some(password) = settings.password {
                let sentence = "IOS XE refuses a neighbor with both password and ao";
                self.remarks.push(Remark::warning("refused", Some(password.position()), sentence));
            }
            let is_there = self.by_name.get(ao.chain).is_some_and(|chain| self.chains[*chain].is_tcp);
            if !is_there && missing.insert(ao.chain) {
                let chain = format_args!("\"key chain ... tcp\" with the name {:?}", ao.chain);
                self.remarks.push(Remark::missing(ao.at.position(), chain));
            }
            users.entry(ao.chain).or_default().push((neighbor(*subject, settings), ao));
        }
        let mut content = Content { remarks: self.remarks, ..Content::default() };
        for draft in self.chains {
            if draft.is_tcp {
                let users = users.remove(draft.name).unwrap_or_default();
                draft.finish(&users, lines, &mut content.chains)?;
            } else {
                let what = "a key chain without \"tcp\"";
                content.skipped.push(Skipped { position: draft.at.position(), what });
            }
        }
        Ok(content)
    }
}

/// Whether a template of this kind, IOS XE's or NX-OS's, has the settings of a session.
fn is_session(kind: &Word<'_>) -> bool {
    ["peer-session", "peer"].iter().any(|known| kind.is(known))
}

/// A neighbor by its address, with IPv6 perhaps `%INTERFACE`, or a group.
fn subject<'a>(vrf: Option<&'a str>, name: &'a str) -> Subject<'a> {
    let (address, interface) = name.split_once('%').unwrap_or((name, ""));
    match address.parse() {
        Ok(address) => Subject::Neighbor(vrf, address, Some(interface).filter(|name| !name.is_empty())),
        Err(_) => Subject::Group(vrf, name),
    }
}

/// The neighbor that a subject is, if it is one. A link-local address is on the interface that its sessions come from.
fn neighbor(subject: Subject<'_>, settings: &Settings<'_>) -> Option<Neighbor> {
    let Subject::Neighbor(vrf, address, interface) = subject else { return None };
    let source = settings.interface.clone().filter(|_| address.is_host_address() && is_link_local(&address));
    let interface = interface.map(ToOwned::to_owned).or(source);
    Some(Neighbor { vrf: vrf.map(ToOwned::to_owned), address, interface })
}
