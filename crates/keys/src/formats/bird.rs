//! BIRD configuration: the `keys` of `protocol bgp` (BIRD 2.17 and 3.1, "BGP", options `authentication` and `keys`).

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{MAX_MASTER_KEY_LENGTH, OptionCoverage};
use zeroize::Zeroizing;

use super::file::{Chain, ChainKey, Clock, Content, Neighbor, Notation, Preference, Remark, Secret, Skipped};
use super::obscured::{hexadecimal, push_octet};
use super::table::{Change, Limits, SendingRule, Shows, Table, Written, begins, first_line};
use super::tree::{Blocks, Dialect, Kind, Statement, Tree, Word};
use super::write::{Names, written};
use crate::{Error, Lifetime, Problem};

pub(super) const TABLE: Table = Table {
    name: "bird",
    about: "BIRD configuration",
    extension: None,
    shows: |text| {
        let words = ["protocol", "template bgp", "keys", "define", "router id", "authentication ao"];
        // Cisco's systems have neighbors and templates too.
        let is_neighbor = || [" as ", ";"].iter().any(|part| first_line(text).contains(part));
        Shows::if_(begins(text, &words) || begins(text, &["neighbor"]) && is_neighbor())
    },
    read: |text, _| read(text),
    fit: |chain, _, _| Some(chain),
    write: Some(|chains, losses| Ok(written(chains, |text| write(text, chains, losses)))),
    change: Some(Change {
        written: Written::Edited(change),
        apply: "bird -p -c {file}\ncp {file} {target}\nbirdc configure",
        show: "birdc show protocols all {chain}",
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
    blocks: Blocks::Braces { ends: "{};\"#=,()[]", escapes: false, commands: &[], is_balanced: false },
    depth: usize::MAX,
    block: |first| match () {
        () if first.is("keys") => "keys",
        () if first.is("key") => "key",
        () => "block",
    },
};

/// The MAC length that Linux uses if asked for 0, as BIRD does.
const MAC_LENGTH: usize = 12;

/// The protocols with keys for TCP-AO, each with its neighbor, or a bare `keys` block. Protocols without a name get BIRD's:
/// `bgp1`, `bgp2` and so on.
fn read(text: &str) -> Result<Content, Error> {
    let tree = Tree::read(text, &DIALECT)?;
    let mut defined = Defined::default();
    let mut templates: HashMap<&str, Protocol> = HashMap::new();
    let mut content = Content::default();
    let mut unnamed = 0;
    for statement in tree.top() {
        let word = statement.word(0);
        if word.is("define") {
            defined.take(statement);
        } else if word.is("protocol") || word.is("template") {
            let Some(header) = Header::of(statement) else { continue };
            let mut protocol = header.from.and_then(|from| templates.get(from)).cloned().unwrap_or_default();
            protocol.take(statement, &defined)?;
            if header.name.is_empty() {
                unnamed += 1;
            }
            if word.is("protocol") {
                let name =
                    if header.name.is_empty() { format!("bgp{unnamed}") } else { header.name.to_owned() };
                content.chains.extend(protocol.clone().chain(name));
                if !protocol.keys.is_empty() && protocol.is_ao == Some(false) {
                    let what = "the keys of a protocol with another authentication than ao";
                    content.skipped.push(Skipped { position: word.position(), what });
                }
            }
            templates.insert(header.name, protocol);
        } else if word.is("keys") {
            let keys = defined.keys(statement)?;
            if !keys.is_empty() {
                content.chains.push(Chain { keys, ..Chain::default() });
            }
        }
    }
    Ok(content)
}

/// `protocol bgp NAME from TEMPLATE {`; name and template are optional.
struct Header<'a> {
    name: &'a str,
    from: Option<&'a str>,
}

impl<'a> Header<'a> {
    /// The header of a BGP protocol or template; `None` for one of another kind.
    fn of(statement: Statement<'_, 'a>) -> Option<Self> {
        statement.block().filter(|_| statement.word(1).is("bgp"))?;
        let name = |word: &Word<'a>| unquoted(word.text());
        Some(match &statement.words()[2..] {
            [of] => Header { name: name(of), from: None },
            [from, template] if from.is("from") => Header { name: "", from: Some(name(template)) },
            [of, from, template] if from.is("from") => Header { name: name(of), from: Some(name(template)) },
            _ => Header { name: "", from: None },
        })
    }
}

/// The parts of a protocol or template that concern keys.
#[derive(Clone, Default)]
struct Protocol {
    /// Whether its `authentication` is `ao`, if it has one.
    is_ao: Option<bool>,
    description: Option<String>,
    neighbor: Option<Neighbor>,
    keys: Vec<ChainKey>,
}

impl Protocol {
    fn take(&mut self, protocol: Statement<'_, '_>, defined: &Defined<'_>) -> Result<(), Error> {
        for statement in protocol.inside() {
            let (word, value) = (statement.word(0), statement.word(1));
            if word.is("keys") {
                self.keys = defined.keys(statement)?;
            } else if word.is("neighbor") {
                self.neighbor = defined.neighbor(statement)?.or(self.neighbor.take());
            } else if word.is("authentication") {
                self.is_ao = Some(value.is("ao"));
            } else if word.is("description")
                && let Kind::Quoted(text) = value.kind
            {
                self.description = Some(text.to_owned());
            }
        }
        Ok(())
    }

    fn chain(self, name: String) -> Option<Chain> {
        let has_keys = !self.keys.is_empty() && self.is_ao != Some(false);
        let remarks = self.is_ao.is_none().then(|| {
            let sentence = "BIRD refuses keys in a protocol without \"authentication ao;\"";
            Remark::warning("refused", None, sentence)
        });
        has_keys.then(|| Chain {
            name,
            description: self.description,
            accept_tolerance: 0,
            neighbors: self.neighbor.into_iter().collect(),
            keys: self.keys,
            remarks: remarks.into_iter().collect(),
        })
    }
}

/// The values of `define`, by name.
#[derive(Default)]
struct Defined<'a>(HashMap<&'a str, Word<'a>>);

impl<'a> Defined<'a> {
    /// `define NAME = VALUE;`, if the value is one word.
    fn take(&mut self, statement: Statement<'_, 'a>) {
        let [_, name, value @ ..] = statement.words() else { return };
        let is_sign = value.first().is_some_and(|first| first.is("="));
        if let ([value], None) = (&value[usize::from(is_sign)..], statement.block()) {
            self.0.insert(unquoted(name.text()), *value);
        }
    }

    /// The word that a name stands for, or the word itself.
    fn value(&self, word: &Word<'a>) -> Word<'a> {
        let name = match word.kind {
            Kind::Plain(name) => unquoted(name),
            _ => return *word,
        };
        self.0.get(name).copied().unwrap_or(*word)
    }

    /// `neighbor ADDRESS as ...;` or `neighbor range PREFIX ...;`
    fn neighbor(&self, statement: Statement<'_, 'a>) -> Result<Option<Neighbor>, Error> {
        ended(statement, "neighbor", usize::MAX)?;
        Ok(statement.words()[1..].iter().filter(|word| matches!(word.kind, Kind::Plain(_))).find_map(
            |word| {
                let value = self.value(word);
                let (address, interface) = match value.text().split_once('%') {
                    Some((address, interface)) => (address, Some(interface)),
                    None => (value.text(), None),
                };
                let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                // BIRD writes 'eth0.100' for a name that is no symbol of its own.
                let interface = interface.map(unquoted);
                let interface = interface.filter(|name| name.chars().all(is_name)).map(str::to_owned);
                let address = address.contains(['.', ':']).then(|| address.parse().ok())??;
                Some(Neighbor { vrf: None, address, interface })
            },
        ))
    }

    fn keys(&self, keys: Statement<'_, 'a>) -> Result<Vec<ChainKey>, Error> {
        let block = |statement: Statement<'_, 'a>, field| match statement.word(1).kind {
            Kind::Open => Ok(()),
            _ => Err(statement.word(1).expected(field, "{")),
        };
        block(keys, "keys")?;
        let mut read = Vec::new();
        for statement in keys.inside() {
            let first = statement.word(0);
            if !first.is("key") {
                return Err(first.expected("keys", "key { ... };"));
            }
            block(statement, "key")?;
            read.push(self.key(statement)?);
        }
        Ok(read)
    }

    /// A key. As in BIRD, the last of several values counts.
    fn key(&self, key: Statement<'_, 'a>) -> Result<ChainKey, Error> {
        let (mut send_id, mut recv_id, mut secret, mut algorithm) = (None, None, None, None);
        let mut preference = Preference::Ordinary;
        for statement in key.inside() {
            let (word, value) = (statement.word(0), statement.word(1));
            let id = |word: Word<'a>, field| match word.kind {
                Kind::Plain(_) => self.value(&word).key_id(field),
                _ => word.key_id(field),
            };
            let own_id = |field| match value.is("id") {
                true => id(statement.word(2), field),
                false => Err(value.expected(field, "id")),
            };
            let mut length = 2;
            if word.is("id") {
                let id = id(value, "id")?;
                (send_id, recv_id) = (Some(id), Some(id));
            } else if word.is("send") {
                (send_id, length) = (Some(own_id("send id")?), 3);
            } else if word.is("recv") {
                (recv_id, length) = (Some(own_id("recv id")?), 3);
            } else if word.is("secret") {
                secret = Some(self.secret(&value)?);
            } else if word.is("algorithm") {
                algorithm = Some(read_algorithm(statement)?);
                continue;
            } else if word.is("preferred") && preference != Preference::Deprecated {
                (preference, length) = (Preference::Preferred, 1);
            } else if word.is("deprecated") && preference != Preference::Preferred {
                (preference, length) = (Preference::Deprecated, 1);
            } else if word.is("preferred") || word.is("deprecated") {
                return Err(word.refused("key", "a key cannot be both preferred and deprecated"));
            } else {
                let known = "id, send id, recv id, secret, algorithm, preferred or deprecated";
                return Err(word.expected("key", known));
            }
            ended(statement, "key", length)?;
        }
        let at = key.word(0);
        let send_id = send_id.ok_or_else(|| at.missing("send id"))?;
        Ok(ChainKey {
            position: Some(at.position()),
            key_id: send_id.0.into(),
            send_id,
            recv_id: recv_id.ok_or_else(|| at.missing("recv id"))?,
            algorithm: algorithm.unwrap_or(TcpAoAlgorithm::HmacSha1),
            mac_length: MAC_LENGTH,
            options: OptionCoverage::Covered,
            secret: secret.ok_or_else(|| at.missing("secret"))?,
            send: Lifetime::ALWAYS,
            accept: Lifetime::ALWAYS,
            clock: Clock::Utc,
            preference,
        })
    }

    /// A text, octets in hexadecimal, or the name of a text.
    fn secret(&self, word: &Word<'a>) -> Result<Secret, Error> {
        match self.value(word).kind {
            Kind::Quoted(text) => Ok(Secret::text(text)),
            Kind::Plain(text) => bytestring(text)
                .map(|octets| Secret::new(octets, Notation::Hexadecimal))
                .ok_or_else(|| {
                    let expected = "a text in quotes, hex: with pairs of digits, 16 or more pairs of digits, or a name \
                                    from a define above";
                    word.expected("secret", expected)
                }),
            _ => Err(word.missing("secret")),
        }
    }
}

/// Checks that a statement has at most `length` words and ends with `;`.
fn ended(statement: Statement<'_, '_>, field: &'static str, length: usize) -> Result<(), Error> {
    let next = statement.word(length.min(statement.words().len()));
    if next.kind == Kind::End { Ok(()) } else { Err(next.expected(field, ";")) }
}

/// The words of an algorithm.
fn read_algorithm(statement: Statement<'_, '_>) -> Result<TcpAoAlgorithm, Error> {
    let first = statement.word(1);
    let mut name = first.text().to_owned();
    for word in statement.words().iter().skip(2) {
        match word.kind {
            // Anything longer than a name may be a secret after a missing ";".
            Kind::Plain(text) if name.len() < 32 => {
                name.push(' ');
                name.push_str(text);
            }
            _ => return Err(word.expected("algorithm", ";")),
        }
    }
    ended(statement, "algorithm", usize::MAX)?;
    let name = if name.contains(' ') { name } else { String::new() };
    name.parse().map_err(|error| first.error("algorithm", Problem::Algorithm(error)))
}

/// Octets as BIRD writes them: after `hex:`, or 16 or more pairs of digits without it.
fn bytestring(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    match text.strip_prefix("hex:") {
        Some(digits) => hexadecimal(digits),
        None => hexadecimal(text).filter(|octets| octets.len() >= 16),
    }
}

/// A symbol without apostrophes around it.
fn unquoted(symbol: &str) -> &str {
    symbol.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\'')).unwrap_or(symbol)
}

/// Writes a protocol for every peer of a chain, with nothing but its keys.
fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) {
    let mut names = Names::new(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c));
    text.push_str("# Add to each protocol: \"local ... as\", the neighbor's \"as\", and the channels.\n");
    for chain in chains {
        for key in &chain.keys {
            let name = chain.name_of(key);
            if key.key_id != u64::from(key.send_id.0) {
                losses.push(format!("key {name}: its number, because BIRD identifies keys by their ids"));
            }
            if (key.send, key.accept) != (Lifetime::ALWAYS, Lifetime::ALWAYS) {
                losses.push(format!("key {name}: its lifetimes, which BIRD does not have"));
            }
        }
        if chain.accept_tolerance != 0 {
            losses.push(format!("chain {:?}: its tolerance, which BIRD does not have", chain.name));
        }
        if chain.neighbors.len() > 1 {
            losses.push(format!("chain {:?} is written once for each of its peers", chain.name));
        }
        let anyone = chain.neighbors.is_empty().then_some(None);
        for neighbor in chain.neighbors.iter().map(Some).chain(anyone) {
            write_protocol(text, &names.name(chain, losses), chain, neighbor, losses);
        }
    }
}

fn write_protocol(
    text: &mut String,
    name: &str,
    chain: &Chain,
    neighbor: Option<&Neighbor>,
    losses: &mut Vec<String>,
) {
    let _ = writeln!(text, "protocol bgp '{name}' {{");
    if let Some(description) = &chain.description {
        if description.contains(['"', '\n']) {
            losses.push(format!("chain {:?}: its description, which BIRD cannot quote", chain.name));
        } else {
            let _ = writeln!(text, "\tdescription \"{description}\";");
        }
    }
    match neighbor {
        None => {
            losses.push(format!("chain {:?}: has no neighbor, which BIRD requires", chain.name));
            text.push_str("\t# Add its neighbor too: \"neighbor ... as ...;\".\n");
        }
        Some(Neighbor { address, interface, .. }) if address.is_host_address() => {
            let interface = interface.as_ref().map(|interface| format!("%{interface}")).unwrap_or_default();
            let _ = writeln!(text, "\tneighbor {}{interface};", address.first_address());
        }
        Some(Neighbor { address: peer, .. }) => {
            losses.push(format!(
                "chain {:?}: BIRD has no TCP-AO for a range of neighbors ({peer})",
                chain.name
            ));
            let _ = writeln!(text, "\tneighbor range {peer};");
        }
    }
    text.push_str("\tauthentication ao;\n\tkeys {\n");
    chain.keys.iter().for_each(|key| write_key(text, key));
    text.push_str("\t};\n}\n");
}

fn write_key(text: &mut String, key: &ChainKey) {
    text.push_str("\t\tkey {\n");
    let _ = match key.send_id == key.recv_id {
        true => writeln!(text, "\t\t\tid {};", key.send_id),
        false => writeln!(text, "\t\t\tsend id {};\n\t\t\trecv id {};", key.send_id, key.recv_id),
    };
    text.push_str("\t\t\tsecret ");
    let octets = key.secret.expose();
    if octets.iter().all(|octet| matches!(octet, b' '..=b'~') && *octet != b'"') {
        text.push('"');
        text.extend(octets.iter().map(|octet| char::from(*octet)));
        text.push('"');
    } else {
        text.push_str("hex:");
        octets.iter().for_each(|octet| push_octet(text, *octet));
    }
    let _ = writeln!(text, ";\n\t\t\talgorithm {};", key.algorithm.bird_name().unwrap_or_default());
    if let Some(rank) = rank(key.preference) {
        let _ = writeln!(text, "\t\t\t{rank};");
    }
    text.push_str("\t\t};\n");
}

const fn rank(preference: Preference) -> Option<&'static str> {
    match preference {
        Preference::Preferred => Some("preferred"),
        Preference::Ordinary => None,
        Preference::Deprecated => Some("deprecated"),
    }
}

/// The text of a configuration that has the keys of `before`, with those of `after`: new keys stand before the first, and keys that both
/// have change in their rank alone. Everything else stays as it is, comments included.
fn change(text: &str, before: &Chain, after: &Chain) -> Result<Zeroizing<String>, Error> {
    let tree = Tree::read(text, &DIALECT)?;
    // What to put in place of parts of the text.
    let mut edits: Vec<(Range<usize>, Zeroizing<String>)> = Vec::new();
    let block_of = |key: &ChainKey| {
        let is_it = |block: &Statement<'_, '_>| {
            block.block().is_some() && Some(block.word(0).position()) == key.position
        };
        tree.all().find(is_it).map(|block| (block.word(0).position().offset_in(text), block))
    };
    let lost = || Error::text("its keys are not found in the text").field("keys");
    let mut first = text.len();
    for key in &before.keys {
        let (start, block) = block_of(key).ok_or_else(lost)?;
        first = first.min(start);
        let Some(kept) = after.keys.iter().find(|kept| kept.key_id == key.key_id) else {
            edits.push((whole_lines(text, start..past_semicolon(text, block.end())), Zeroizing::default()));
            continue;
        };
        if kept.preference == key.preference {
            continue;
        }
        let ranks = block
            .inside()
            .filter(|inside| ["preferred", "deprecated"].iter().any(|rank| inside.word(0).is(rank)));
        for rank in ranks {
            let start = rank.word(0).position().offset_in(text);
            edits.push((whole_lines(text, start..past_semicolon(text, rank.end())), Zeroizing::default()));
        }
        if let Some(rank) = rank(kept.preference) {
            let inside = block.word(1).position().offset_in(text) + 1;
            edits.push((inside..inside, Zeroizing::new(format!(" {rank};"))));
        }
    }
    let line = text[..first].rfind('\n').map_or(0, |end| end + 1);
    let indentation = &text[line..first];
    let is_alone = indentation.trim().is_empty();
    let (at, indentation) = if is_alone { (line, indentation) } else { (first, "") };
    for key in after.keys.iter().filter(|key| !before.has_number(key.key_id)) {
        let chain = Chain { keys: vec![key.clone()], ..Chain::default() };
        let lines = written(std::slice::from_ref(&chain), |text| write_key(text, key));
        let mut own = Zeroizing::new(String::with_capacity(lines.len() + 8 * indentation.len()));
        for line in lines.lines() {
            own.push_str(indentation);
            // The writer indents by two tabs.
            own.push_str(line.strip_prefix("\t\t").unwrap_or(line));
            own.push('\n');
        }
        edits.push((at..at, own));
    }
    // What is put in comes before what is taken out at the same place.
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let room = text.len() + edits.iter().map(|(_, new)| new.len()).sum::<usize>();
    let mut edited = Zeroizing::new(String::with_capacity(room));
    let mut from = 0;
    for (range, new) in &edits {
        edited.push_str(&text[from..range.start]);
        edited.push_str(new);
        from = range.end;
    }
    edited.push_str(&text[from..]);
    Ok(edited)
}

/// The end of a statement that this mark ends: after its `;`, if there is one.
fn past_semicolon(text: &str, mark: Word<'_>) -> usize {
    let at = mark.position().offset_in(text);
    if mark.kind == Kind::End {
        return at + 1;
    }
    let rest = &text[at + 1..];
    let blanks = rest.len() - rest.trim_start().len();
    at + 1 + if rest[blanks..].starts_with(';') { blanks + 1 } else { 0 }
}

/// The range with its indentation and line end, if nothing else is on its lines.
fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |line| line + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |line| range.end + line + 1);
    let is_blank = |part: &str| part.trim().is_empty();
    if is_blank(&text[start..range.start]) && is_blank(&text[range.end..end]) { start..end } else { range }
}
