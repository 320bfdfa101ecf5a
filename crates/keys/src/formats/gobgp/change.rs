//! Changing the keys of GoBGP's configuration in its text. On SIGHUP, gobgpd puts new keys into open sessions, asks the peer of each
//! neighbor with another send-id for that key (RNextKeyID), and then removes the keys that are gone (GoBGP's source, `UpdateConfig` in
//! pkg/config/config.go, and its pull request 3602).

use std::fmt::Write;
use std::ops::Range;

use zeroize::Zeroizing;

use super::super::file::{Chain, ChainKey, Preference};
use super::super::values::Value;
use super::super::write::{spliced, written};
use super::write::{SEND_ID, write_members};
use crate::{Error, Position};

/// The commands that carry out a changed file.
pub(super) const APPLY: &str = "# with -t yaml or -t json if the file is one:\ngobgpd --dry-run -f {file}\ncp {file} {target}\nkill -HUP \
                                $(pidof gobgpd)";
/// The commands that show which keys are in use, and that sessions have stayed.
pub(super) const SHOW: &str = "gobgp neighbor";

/// The text of a configuration that has the keys of `before`, with those of `after`: new keys stand before the first, and the neighbors
/// and peer groups of the keychain start with the preferred one. Everything else stays as it is, comments included.
pub(super) fn edited(
    root: &Value,
    text: &str,
    before: &Chain,
    after: &Chain,
) -> Result<Zeroizing<String>, Error> {
    let mut edits = Vec::new();
    let places: Option<Vec<_>> = before.keys.iter().map(|key| Element::at(text, key.position?)).collect();
    let places = places.filter(|places| !places.is_empty()).ok_or_else(lost)?;
    let is_braces = places[0].is_in_braces();
    let added = after.keys.iter().filter(|key| !before.has_number(key.key_id));
    let chain = Chain { keys: added.cloned().collect(), ..Chain::default() };
    let new = written(std::slice::from_ref(&chain), |text| {
        for (index, key) in chain.keys.iter().enumerate() {
            text.push_str(if index > 0 && is_braces { ", " } else { "" });
            places[0].write(text, key);
        }
    });
    let is_kept = |key: &ChainKey| after.has_number(key.key_id);
    let first = places[0].range.clone();
    match (is_braces, before.keys.first().is_some_and(is_kept)) {
        (true, true) => {
            edits.push((first.start..first.start, new));
            edits.push((first.start..first.start, Zeroizing::new(", ".to_owned())));
        }
        (true, false) => edits.push((first, new)),
        (false, kept) => {
            let is_table = matches!(places[0].form, Form::Table { .. });
            let blank_line = if is_table && kept { "\n" } else { "" };
            edits.push((first.start..first.start, new));
            edits.push((first.start..first.start, Zeroizing::new(blank_line.to_owned())));
            edits.extend((!kept).then(|| (first, Zeroizing::default())));
        }
    }
    for (_, place) in before.keys.iter().zip(&places).skip(1).filter(|(key, _)| !is_kept(key)) {
        edits.push((place.with_comma(text), Zeroizing::default()));
    }
    let mut send_ids = send_ids(root, &after.name);
    let first = send_ids.first().map(|(send_id, _)| *send_id).ok_or_else(|| {
        Error::text("no neighbor of this file uses the keychain, so none changes over").in_chain(&after.name)
    })?;
    if send_ids.iter().any(|(send_id, _)| *send_id != first) {
        let why =
            "its neighbors start with different keys: give them one send-id before they change over together";
        return Err(Error::text(why).in_chain(&after.name));
    }
    // Aliases of YAML have one place.
    send_ids.sort_by_key(|(_, position)| (position.line, position.column));
    send_ids.dedup();
    let preferred = after.keys.iter().find(|key| key.preference == Preference::Preferred);
    for (send_id, position) in send_ids {
        let Some(key) = preferred.filter(|key| send_id.parse() != Ok(key.send_id.0)) else { continue };
        let at = position.offset_in(text);
        let start = text[at..].find(send_id).map(|before| at + before).ok_or_else(lost)?;
        edits.push((start..start + send_id.len(), Zeroizing::new(key.send_id.to_string())));
    }
    Ok(spliced(text, edits))
}

pub(super) fn lost() -> Error {
    Error::text("its keys cannot be edited in this text: write each key as a table of its own").field("keys")
}

/// The SendIDs that neighbors and peer groups with this keychain start with, and where they stand.
fn send_ids<'a>(root: &'a Value, keychain: &str) -> Vec<(&'a str, Position)> {
    let lists = ["neighbors", "peer-groups"].into_iter().filter_map(|list| root.get(list)?.list(list).ok());
    let configs = lists.flatten().filter_map(|user| user.get("tcp-ao")?.get("config"));
    let uses = |config: &&Value| {
        config
            .get("keychain")
            .and_then(|name| name.text("keychain").ok())
            .is_some_and(|name| name == keychain)
    };
    let send_id = |config: &'a Value| {
        let value = SEND_ID.into_iter().find_map(|name| config.get(name))?;
        Some((value.text("send-id").ok()?, value.position))
    };
    configs.filter(uses).filter_map(send_id).collect()
}

/// A key as it stands in the text.
struct Element {
    /// From the start of its first line to the end of its last one, or from brace to brace.
    range: Range<usize>,
    form: Form,
}

enum Form {
    /// A table of TOML under this name, with the indentation before it.
    Table { name: String, indentation: String },
    /// An element of a list of YAML, with the indentation before its dash.
    Item { indentation: String },
    /// In braces, with this between names and values: in JSON, or on one line in TOML and YAML.
    Braces { separator: &'static str },
}

/// The widest indentation, and the widest header of a table: the buffer for a new key has room for these.
const WIDEST: usize = 64;

impl Element {
    /// The key that begins here; `None` if it is written in a way that is not known.
    fn at(text: &str, position: Position) -> Option<Self> {
        let at = position.offset_in(text);
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let (before, rest) = (&text[line..at], &text[at..]);
        let is_blank = |part: &str| part.trim().is_empty();
        // The end of the last line before another table or element begins.
        let end = |is_other: &dyn Fn(&str) -> bool| {
            let mut end = at;
            let mut last = at;
            for (index, line) in rest.split_inclusive('\n').enumerate() {
                let content = line.trim();
                if index > 0 && !content.is_empty() && !content.starts_with('#') && is_other(line) {
                    break;
                }
                last += line.len();
                if !content.is_empty() && !content.starts_with('#') {
                    end = last;
                }
            }
            end
        };
        if let Some(header) = rest.strip_prefix("[[") {
            let name = header.split(']').next().unwrap_or_default().trim().to_owned();
            let is_other = |line: &str| {
                let header = line.trim_start().strip_prefix('[');
                let header = header.map(|header| header.trim_start_matches('[').trim_start());
                let inner = header.and_then(|header| header.strip_prefix(&name));
                header.is_some() && !inner.is_some_and(|rest| rest.trim_start().starts_with('.'))
            };
            let end = end(&is_other);
            let form = Form::Table { name, indentation: before.to_owned() };
            let is_line =
                is_blank(before) && before.len().max(rest.lines().next().map_or(0, str::len)) <= WIDEST;
            return is_line.then_some(Self { range: line..end, form });
        }
        let indentation = before.trim_end().strip_suffix('-').filter(|blanks| is_blank(blanks));
        let Some(indentation) = indentation else {
            let separator = if rest[rest.find(['=', ':'])?..].starts_with('=') { " = " } else { ": " };
            let is_table = rest.starts_with('{');
            let form = Form::Braces { separator };
            return is_table.then_some(Self { range: at..at + braces(rest)?, form });
        };
        let end = end(&|line| line.len() - line.trim_start().len() <= indentation.len());
        (indentation.len() <= WIDEST)
            .then(|| Self { range: line..end, form: Form::Item { indentation: indentation.to_owned() } })
    }

    /// Writes another key in the same way.
    fn write(&self, text: &mut String, key: &ChainKey) {
        match &self.form {
            Form::Table { name, indentation } => {
                let _ = writeln!(text, "{indentation}[[{name}]]\n{indentation}  [{name}.config]");
                write_members(text, key, |text, name, value| {
                    let _ = writeln!(text, "{indentation}    {name} = {value}");
                });
            }
            Form::Item { indentation } => {
                let _ = writeln!(text, "{indentation}- config:");
                write_members(text, key, |text, name, value| {
                    let _ = writeln!(text, "{indentation}    {name}: {value}");
                });
            }
            Form::Braces { separator } => {
                let mut comma = "";
                let _ = write!(text, "{{\"config\"{separator}{{");
                write_members(text, key, |text, name, value| {
                    let _ = write!(text, "{comma}\"{name}\"{separator}{value}");
                    comma = ", ";
                });
                text.push_str("}}");
            }
        }
    }

    const fn is_in_braces(&self) -> bool {
        matches!(self.form, Form::Braces { .. })
    }

    /// Its range, in a list in braces with the comma before it.
    fn with_comma(&self, text: &str) -> Range<usize> {
        let before = text[..self.range.start].trim_end();
        match before.strip_suffix(',') {
            Some(before) if self.is_in_braces() => before.len()..self.range.end,
            _ => self.range.clone(),
        }
    }
}

/// The length of what begins with a brace, to the one that closes it.
fn braces(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (Some('"'), '\\') => drop(characters.next()),
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') if depth == 1 => return Some(at + 1),
            (None, '}') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}
