//! What a line of a log means: messages of routers, kernels and daemons about TCP-AO, from `data/explain.toml`.
//!
//! Nothing is guessed: a line that has none of the documented patterns is not explained. Of a line that has one, only the pattern
//! and its fields are repeated, because the rest of a log may have secrets in it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{LazyLock, OnceLock};

use regex::{Regex, RegexSet};
use serde::{Deserialize, Serialize};

/// A message that is known, as the data file has it.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// A stable word for programs.
    pub id: String,
    /// Which system logs it.
    pub system: String,
    /// The texts of the line, with fields in braces.
    pub patterns: Vec<String>,
    /// Names that stand for the message if they are all of a line; a counter's name does anyway.
    #[serde(default)]
    pub names: Vec<String>,
    /// What happened.
    pub meaning: String,
    /// The likely causes, the likeliest first.
    pub causes: Vec<String>,
    /// The commands that decide between them, with fields in braces.
    pub decide: Vec<String>,
    /// Where the message is documented.
    pub source: String,
    /// Lines that have the message, one for each pattern.
    pub examples: Vec<String>,
    /// A line that looks like it, and is another one.
    pub near: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    commands: BTreeMap<String, String>,
    fragments: BTreeMap<String, Vec<String>>,
    message: Vec<Message>,
}

/// All messages, and what finds them in a line.
#[derive(Debug)]
pub struct Catalogue {
    messages: Vec<Message>,
    set: RegexSet,
    patterns: Vec<Pattern>,
    /// Counters that are 0.
    zeros: RegexSet,
}

#[derive(Debug)]
struct Pattern {
    /// The index of its message.
    message: usize,
    expression: String,
    /// Made when it is needed: most are not in a log.
    regex: OnceLock<Regex>,
    parts: Vec<Part>,
}

/// A part of a pattern.
#[derive(Debug)]
enum Part {
    Text(String),
    Field(&'static Kind),
    Anything,
}

/// A kind of field.
#[derive(Debug)]
struct Kind {
    name: &'static str,
    expression: &'static str,
    /// Whether what the expression found is one.
    is_valid: fn(&str) -> bool,
}

/// An address; what follows it in some logs, a zone or the length of a prefix, is left out of the field.
const ADDRESS: &str = "([0-9]{1,3}(?:[.][0-9]{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f:]*(?:[0-9]{1,3}(?:[.][0-9]{1,3}){3})?)(?:%[0-9A-Za-z_.-]{1,15})?(?:/[0-9]{1,3})?";
const PORT: &str = "([0-9]{1,5})";
const OCTET: &str = "([0-9]{1,3})";
/// A counter that is 0 says that nothing happened.
const COUNT: &str = "([1-9][0-9]{0,18})";

static KINDS: [Kind; 12] = [
    Kind { name: "peer", expression: ADDRESS, is_valid: parses::<IpAddr> },
    Kind { name: "peer_port", expression: PORT, is_valid: parses::<u16> },
    Kind { name: "local", expression: ADDRESS, is_valid: parses::<IpAddr> },
    Kind { name: "local_port", expression: PORT, is_valid: parses::<u16> },
    Kind { name: "key_id", expression: OCTET, is_valid: parses::<u8> },
    Kind { name: "rnext_key_id", expression: OCTET, is_valid: parses::<u8> },
    Kind { name: "send_id", expression: OCTET, is_valid: parses::<u8> },
    Kind { name: "recv_id", expression: OCTET, is_valid: parses::<u8> },
    Kind { name: "mac_length", expression: OCTET, is_valid: parses::<u8> },
    Kind { name: "key_mac_length", expression: OCTET, is_valid: parses::<u8> },
    Kind { name: "vrf", expression: "([0-9A-Za-z_.-]{1,32})", is_valid: |_| true },
    Kind { name: "count", expression: COUNT, is_valid: parses::<u64> },
];

fn parses<T: std::str::FromStr>(text: &str) -> bool {
    text.parse::<T>().is_ok()
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    Catalogue::new(include_str!("../data/explain.toml")).expect("the program's own data is well-formed")
});

/// A message that was found in a line.
#[derive(Debug)]
pub struct Found<'c> {
    /// The message.
    pub message: &'c Message,
    /// The pattern with its fields filled in: the only part of the line that may be repeated.
    pub text: String,
    /// The fields that the line has.
    pub fields: Fields,
}

/// The fields of a line by their names; all of them are addresses, numbers or the name of a VRF.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
#[serde(transparent)]
pub struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// A command with the fields that it names; one that the line does not have stays as a word in capitals.
    #[must_use]
    pub fn fill(&self, command: &str) -> String {
        KINDS.iter().fold(command.to_owned(), |command, Kind { name, .. }| {
            let value = self.0.get(name).cloned();
            command.replace(&format!("{{{name}}}"), &value.unwrap_or_else(|| name.to_uppercase()))
        })
    }
}

impl Catalogue {
    /// The program's own.
    #[must_use]
    pub fn get() -> &'static Self {
        &CATALOGUE
    }

    fn new(text: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let Data { commands, fragments, message: mut messages } = toml::from_str(text)?;
        let mut patterns = Vec::new();
        for (number, message) in messages.iter_mut().enumerate() {
            for command in &mut message.decide {
                if let Some(name) = command.strip_prefix('$') {
                    *command = commands.get(name).ok_or(format!("no command {name}"))?.clone();
                }
            }
            let counters = message.patterns.iter().filter_map(|pattern| pattern.strip_suffix(" {count}"));
            message.names.extend(counters.filter(|name| !name.ends_with(':')).map(str::to_owned));
            for pattern in &message.patterns {
                for parts in parts(pattern, &fragments)? {
                    let expression = expression(&parts);
                    patterns.push(Pattern { message: number, expression, regex: OnceLock::new(), parts });
                }
            }
        }
        let set = RegexSet::new(patterns.iter().map(|pattern| &pattern.expression))?;
        let counters = patterns.iter().filter(|pattern| pattern.expression.contains(COUNT));
        let zeros = RegexSet::new(counters.map(|pattern| pattern.expression.replace(COUNT, "0")))?;
        Ok(Self { messages, set, patterns, zeros })
    }

    /// All messages, in the order of the data file.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The message in a line: of several, the first of the data file.
    #[must_use]
    pub fn explain(&self, line: &str) -> Option<Found<'_>> {
        let pattern = &self.patterns[self.set.matches(line).iter().next()?];
        let regex = || Regex::new(&pattern.expression).expect("the set has the same expression");
        let found = pattern.regex.get_or_init(regex).captures(line)?;
        let mut values = found.iter().skip(1).flatten().map(|value| value.as_str());
        let mut fields = Fields::default();
        let mut text = String::new();
        for part in &pattern.parts {
            match part {
                Part::Text(literal) => text += literal,
                Part::Anything => text.push('…'),
                Part::Field(Kind { name, is_valid, .. }) => {
                    match values.next().filter(|value| is_valid(value)) {
                        Some(value) => {
                            text += value;
                            fields.0.insert(name, value.to_owned());
                        }
                        None => text.push('…'),
                    }
                }
            }
        }
        Some(Found { message: &self.messages[pattern.message], text, fields })
    }

    /// Whether a line is a counter of these messages that is 0.
    #[must_use]
    pub fn is_zero(&self, line: &str) -> bool {
        self.zeros.is_match(line)
    }

    /// The messages that a text stands for which is nothing but a name, as `%TCP-6-AOMISMATCH` or `TcpExtTCPAOBad`; and that name.
    #[must_use]
    pub fn named(&self, text: &str) -> Vec<(&Message, &str)> {
        let text = text.trim().trim_start_matches('%').trim_end_matches(':');
        let text = text.strip_prefix("TcpExt").unwrap_or(text);
        self.messages
            .iter()
            .filter_map(|message| Some((message, message.names.iter().find(|name| *name == text)?.as_str())))
            .collect()
    }

    /// The ids of all messages whose patterns a line has, in the order of the data file.
    pub fn ids(&self, line: &str) -> Vec<&str> {
        let matches = self.set.matches(line);
        let mut ids: Vec<_> =
            matches.iter().map(|pattern| self.messages[self.patterns[pattern].message].id.as_str()).collect();
        ids.dedup();
        ids
    }
}

/// The parts of a pattern: several if it has a fragment with several lines.
fn parts(pattern: &str, fragments: &BTreeMap<String, Vec<String>>) -> Result<Vec<Vec<Part>>, String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return Ok(vec![vec![Part::Text(pattern.to_owned())]]);
    };
    let (name, after) = rest.split_once('}').ok_or(format!("{pattern}: a brace is not closed"))?;
    if let Some(lines) = fragments.get(name) {
        let each = lines.iter().map(|line| parts(&format!("{before}{line}{after}"), fragments));
        return Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
    }
    let field = || match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => Ok(Part::Field(kind)),
        None if name == "*" => Ok(Part::Anything),
        None => Err(format!("{pattern}: {{{name}}} is no field and no fragment")),
    };
    let mut all = parts(after, fragments)?;
    for rest in &mut all {
        rest.splice(..0, [Part::Text(before.to_owned()), field()?]);
    }
    Ok(all)
}

fn expression(parts: &[Part]) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => {
            let words: Vec<_> = text.split(' ').map(regex::escape).collect();
            words.join("[ \t]+")
        }
        Part::Field(kind) => kind.expression.to_owned(),
        Part::Anything => ".*?".to_owned(),
    };
    // A number at the end goes on in the log if more digits follow.
    let end = if matches!(parts, [.., Part::Field(_), Part::Text(text)] if text.is_empty()) {
        "(?:[^0-9]|$)"
    } else {
        ""
    };
    parts.iter().map(part).collect::<String>() + end
}

/// The most peers of one message that are named.
const MOST_PEERS: usize = 16;

/// The messages in a log.
#[derive(Default, Debug)]
pub struct Summary<'c> {
    /// Lines that were read.
    pub lines: u64,
    /// Those that have a message.
    pub known: u64,
    /// Counters that are 0.
    pub zeros: u64,
    /// The first line that is only a name of several messages, and of how many.
    pub ambiguous: Option<(&'c str, usize)>,
    /// The messages, in the order of their first lines.
    pub seen: Vec<Seen<'c>>,
}

/// A message and its lines.
#[derive(Debug)]
pub struct Seen<'c> {
    /// Its first line.
    pub found: Found<'c>,
    /// The number of that line, from 1.
    pub first_line: u64,
    /// How many lines have it.
    pub lines: u64,
    /// Different peers in these lines, at most 16.
    pub peers: Vec<String>,
    /// Whether there are more.
    pub has_more_peers: bool,
}

impl<'c> Summary<'c> {
    /// Takes the next line of the log.
    pub fn line(&mut self, catalogue: &'c Catalogue, line: &str) {
        self.lines += 1;
        let Some(found) = catalogue.explain(line).or_else(|| match catalogue.named(line)[..] {
            [] => {
                self.zeros += u64::from(catalogue.is_zero(line));
                None
            }
            [(message, name)] => Some(Found { message, text: name.to_owned(), fields: Fields::default() }),
            [(_, name), ref others @ ..] => {
                self.ambiguous.get_or_insert((name, 1 + others.len()));
                None
            }
        }) else {
            return;
        };
        self.known += 1;
        let peer = found.fields.0.get("peer").cloned();
        let place = self.seen.iter().position(|seen| seen.found.message.id == found.message.id);
        let place = place.unwrap_or_else(|| {
            let first_line = self.lines;
            self.seen.push(Seen { found, first_line, lines: 0, peers: Vec::new(), has_more_peers: false });
            self.seen.len() - 1
        });
        let seen = &mut self.seen[place];
        seen.lines += 1;
        if let Some(peer) = peer.filter(|peer| !seen.peers.contains(peer)) {
            if seen.peers.len() < MOST_PEERS { seen.peers.push(peer) } else { seen.has_more_peers = true }
        }
    }
}
