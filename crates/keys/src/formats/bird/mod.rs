//! BIRD configuration: the `keys` of `protocol bgp` (BIRD 2.17 and 3.1, "BGP", options `authentication` and `keys`).

mod change;
mod values;
mod write;

use std::collections::HashMap;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::MAX_MASTER_KEY_LENGTH;

use self::values::{Defined, MAC_LENGTH, ended, not_followed, scope, unquoted};
use super::file::{Chain, ChainKey, Content, Neighbor, Remark, Skipped, is_link_local};
use super::table::{Change, Limits, SendingRule, Shows, Table, Written, begins, first_line};
use super::tree::{Blocks, Dialect, Kind, Statement, Tree, Word};
use super::write::written;
use crate::{Error, Position};

pub(super) const TABLE: Table = Table {
    name: "bird",
    about: "BIRD configuration",
    extension: None,
    shows: |text| {
        let is_statement = first_line(text).contains(['{', ';']);
        let certain = ["protocol", "template", "keys", "define", "router id", "include", "authentication ao"];
        match () {
            () if is_statement && begins(text, &certain) => Shows::Certainly,
            () if first_line(text).contains(';') && begins(text, &["neighbor"]) => Shows::Perhaps,
            () if begins(text, &["protocol bgp", "template bgp"]) => Shows::Perhaps,
            () => Shows::Nothing,
        }
    },
    read: |text, _| read(text),
    fit: write::that_can_be,
    write: Some(|chains, losses| Ok(written(chains, |text| write::write(text, chains, losses)))),
    change: Some(Change {
        written: Written::Edited(|text, before, after| {
            change::edited(&Tree::read(text, &DIALECT)?, text, before, after)
        }),
        apply: change::APPLY,
        show: change::SHOW,
    }),
    limits: Limits {
        name: "bird",
        about: "BIRD, which uses Linux's TCP-AO",
        title: "BIRD",
        algorithm: TcpAoAlgorithm::bird_name,
        mac_lengths: [MAC_LENGTH, MAC_LENGTH],
        max_secret: Some(MAX_MASTER_KEY_LENGTH),
        covers_options: true,
        sending: SendingRule::Rank,
        ..Limits::NONE
    },
};

const DIALECT: Dialect = Dialect {
    blocks: Blocks::Braces { ends: "{};\"#=,()[]%", escapes: false, has_commands: false, is_balanced: false },
    depth: usize::MAX,
    block: |first| match () {
        () if first.is("keys") => "keys",
        () if first.is("key") => "key",
        () => "block",
    },
};

/// The protocols with keys for TCP-AO, each with its neighbor, or a bare `keys` block. Protocols without a name get BIRD's:
/// `bgp1`, `bgp2` and so on.
fn read(text: &str) -> Result<Content, Error> {
    let tree = Tree::read(text, &DIALECT)?;
    let mut defined = Defined::default();
    let mut known: HashMap<String, Protocol> = HashMap::new();
    // Templates with keys, until a protocol is made from them.
    let mut unused: Vec<(String, Position)> = Vec::new();
    let mut content = Content::default();
    let mut unnamed = 0;
    for statement in tree.top() {
        let word = statement.word(0);
        if word.is("define") {
            defined.take(statement);
        } else if word.is("include") {
            content.remarks.push(not_followed(&word));
        } else if word.is("protocol") || word.is("template") {
            let Some(Header { name, from }) = Header::of(statement) else {
                content.remarks.extend(statement.inside().filter_map(stray_keys));
                continue;
            };
            let mut protocol = match from.map(|from| (from, known.get(unquoted(from.text())))) {
                Some((_, Some(parent))) => parent.clone(),
                Some((from, None)) => {
                    let sentence = "the template that is named here is not above, so its keys are not known";
                    let remark = Remark::warning("missing", Some(from.position()), sentence);
                    Protocol { remarks: vec![remark], ..Protocol::default() }
                }
                None => Protocol::default(),
            };
            let has_inherited_keys = !protocol.keys.is_empty();
            protocol.take(statement, &defined)?;
            if has_inherited_keys {
                unused.retain(|(template, _)| from.is_none_or(|from| unquoted(from.text()) != template));
            }
            let name = match name {
                Some(name) => name.to_owned(),
                // BIRD takes the next number whose name is not taken.
                None => loop {
                    unnamed += 1;
                    let name = format!("bgp{unnamed}");
                    if !known.contains_key(&name) {
                        break name;
                    }
                },
            };
            if word.is("protocol") {
                protocol.clone().finish(name.clone(), &word, &mut content);
            } else if !protocol.keys.is_empty() {
                unused.push((name.clone(), word.position()));
            }
            known.insert(name, protocol);
        } else if word.is("keys") {
            let (mut keys, mut remarks) = (Vec::new(), Vec::new());
            defined.keys(statement, &mut keys, &mut remarks)?;
            match keys.is_empty() {
                true => content.remarks.extend(remarks),
                false => content.chains.push(Chain { keys, remarks, ..Chain::default() }),
            }
        } else {
            content.remarks.extend(stray_keys(statement));
            content.remarks.extend(statement.inside().filter_map(stray_keys));
        }
    }
    let what = "the keys of a template that no protocol is made from";
    content.skipped.extend(unused.into_iter().map(|(_, position)| Skipped { position, what }));
    Ok(content)
}

/// For a block of keys in a statement that has none, such as one whose first word is mistyped.
fn stray_keys(statement: Statement<'_, '_>) -> Option<Remark> {
    let word = statement.word(0);
    let is_block = statement.block().is_some() && (word.is("keys") || word.is("key"));
    is_block.then(|| Remark::not_understood(word.position()))
}

/// `protocol bgp NAME from TEMPLATE {`; name and template are optional.
struct Header<'a> {
    name: Option<&'a str>,
    from: Option<Word<'a>>,
}

impl<'a> Header<'a> {
    /// The header of a BGP protocol or template; `None` for one of another kind.
    fn of(statement: Statement<'_, 'a>) -> Option<Self> {
        statement.block().filter(|_| statement.word(1).is("bgp"))?;
        let name = |word: &Word<'a>| Some(unquoted(word.text()));
        Some(match &statement.words()[2..] {
            [of] => Header { name: name(of), from: None },
            [from, template] if from.is("from") => Header { name: None, from: Some(*template) },
            [of, from, template] if from.is("from") => Header { name: name(of), from: Some(*template) },
            _ => Header { name: None, from: None },
        })
    }
}

/// What `authentication` selects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Authentication {
    Ao,
    Md5,
    None,
}

/// The parts of a protocol or template that concern keys.
#[derive(Clone, Default)]
struct Protocol {
    authentication: Option<Authentication>,
    /// Whether it has a `password`, for TCP-MD5.
    has_password: bool,
    description: Option<String>,
    address: Option<IpCidr>,
    interface: Option<String>,
    vrf: Option<String>,
    keys: Vec<ChainKey>,
    remarks: Vec<Remark>,
}

impl Protocol {
    fn take(&mut self, protocol: Statement<'_, '_>, defined: &Defined<'_>) -> Result<(), Error> {
        for statement in protocol.inside() {
            let (word, value) = (statement.word(0), statement.word(1));
            if word.is("keys") {
                // Without a key, BIRD keeps those of the template.
                let mut keys = Vec::new();
                defined.keys(statement, &mut keys, &mut self.remarks)?;
                if !keys.is_empty() {
                    self.keys = keys;
                }
            } else if word.is("neighbor") {
                self.take_neighbor(statement, defined)?;
            } else if word.is("local") {
                // `local fe80::2 % eth0` names the interface, too.
                self.interface = scope(statement.words()).or(self.interface.take());
            } else if word.is("interface") && !value.is("range") || word.is("vrf") {
                let place = if word.is("vrf") { &mut self.vrf } else { &mut self.interface };
                match defined.text(&value) {
                    Some(name) => *place = Some(name),
                    None if value.is("default") => *place = None,
                    None => self.remarks.push(Remark::not_understood(value.position())),
                }
            } else if word.is("authentication") {
                ended(statement, "authentication", 2)?;
                self.authentication = Some(match () {
                    () if value.is("ao") => Authentication::Ao,
                    () if value.is("md5") => Authentication::Md5,
                    () if value.is("none") => Authentication::None,
                    () => return Err(value.expected("authentication", "none, md5 or ao")),
                });
            } else if word.is("password") {
                self.has_password = true;
            } else if word.is("description") {
                self.description = defined.text(&value).or(self.description.take());
            } else if word.is("include") {
                self.remarks.push(not_followed(&word));
            } else if let Some(keys) = statement.words().iter().find(|word| word.is("keys")) {
                // The `;` before it is missing.
                self.remarks.push(Remark::not_understood(keys.position()));
            } else {
                self.remarks.extend(stray_keys(statement));
                self.remarks.extend(statement.inside().filter_map(stray_keys));
            }
        }
        Ok(())
    }

    /// `neighbor ADDRESS % INTERFACE as ...;`, `neighbor range PREFIX ...;` or, with the address elsewhere, `neighbor as ...;`
    fn take_neighbor(&mut self, statement: Statement<'_, '_>, defined: &Defined<'_>) -> Result<(), Error> {
        const OPTIONS: [&str; 4] = ["as", "port", "internal", "external"];
        ended(statement, "neighbor", usize::MAX)?;
        let word = statement.word(1);
        if OPTIONS.iter().any(|option| word.is(option)) || word.kind == Kind::End {
            return Ok(());
        }
        let place = if word.is("range") { statement.word(2) } else { word };
        let Ok(address) = defined.value(&place).text().parse() else {
            self.remarks.push(Remark::not_understood(place.position()));
            return Ok(());
        };
        let mut refuse =
            |sentence| self.remarks.push(Remark::warning("refused", Some(word.position()), sentence));
        if self.address.is_some() {
            refuse("BIRD refuses a second neighbor in a protocol");
        }
        if word.is("range") {
            refuse("BIRD has no TCP-AO on dynamic sessions, which a neighbor range is for");
        }
        self.address = Some(address);
        self.interface = scope(statement.words()).or(self.interface.take());
        Ok(())
    }

    /// Adds its chain, or says why it has none.
    fn finish(mut self, name: String, at: &Word<'_>, content: &mut Content) {
        let refused = |sentence: &'static str| Remark::warning("refused", Some(at.position()), sentence);
        let is_ao = self.authentication == Some(Authentication::Ao);
        if self.keys.is_empty() || self.authentication.is_some() && !is_ao {
            if !self.keys.is_empty() {
                let what = "the keys of a protocol with another authentication than ao";
                content.skipped.push(Skipped { position: at.position(), what });
            } else if is_ao && self.remarks.iter().all(|remark| remark.kind != "left-out") {
                self.remarks.push(refused("BIRD refuses \"authentication ao;\" in a protocol without keys"));
            }
            // Keys may be in what is not read.
            let may_be_ao = is_ao || self.authentication.is_none() && !self.has_password;
            self.remarks.retain(|remark| is_ao || may_be_ao && remark.kind != "refused");
            content.remarks.append(&mut self.remarks);
            return;
        }
        if !is_ao {
            let sentence = "BIRD refuses keys in a protocol without \"authentication ao;\"";
            self.remarks.push(refused(sentence));
        }
        if self.has_password {
            let sentence = "BIRD refuses a password, which is for TCP-MD5, in a protocol with keys";
            self.remarks.push(refused(sentence));
        }
        if self.interface.is_none() && self.address.as_ref().is_some_and(is_link_local) {
            self.remarks.push(refused("BIRD refuses a link-local neighbor without an interface"));
        }
        let (vrf, interface) = (self.vrf, self.interface);
        let neighbor = self.address.map(|address| Neighbor { vrf, address, interface });
        content.chains.push(Chain {
            name,
            description: self.description,
            accept_tolerance: 0,
            neighbors: neighbor.into_iter().collect(),
            keys: self.keys,
            remarks: self.remarks,
        });
    }
}
