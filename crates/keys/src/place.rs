//! The place of a wrong value in a text, and its name there. Looked up only after an error.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_path_to_error::{Path, Segment};

use crate::error::{Error, Fault, Problem};
use crate::text::TOML_DATE_AND_TIME;
use crate::{KeyChain, KeyChains, Position};

/// How many tables deep in a key a field can be: in JSON a SendID is in `ao`, in `ietf-tcp:authentication`.
pub(super) const DEPTH: usize = 2;
/// The names of the list of key chains; the second one where RESTCONF returns the list alone.
pub(super) const LISTS: [&str; 2] = ["key-chain", "ietf-key-chain:key-chain"];

/// A value of a parsed text.
pub(super) trait Value: Sized {
    /// The member of a table with this name.
    fn member(&self, name: &str) -> Option<Self>;
    /// All members of a table, needed where a field may be nested deeper than the path in its error. Empty for TOML, whose errors give the exact path.
    fn members(&self) -> Vec<Self> {
        Vec::new()
    }
    /// An element of an array.
    fn element(&self, index: usize) -> Option<Self>;
    /// Where it begins in the text.
    fn position(&self, text: &str) -> Position;
    /// Its kind, such as "a string".
    fn kind(&self) -> &'static str;
    /// A string or a number, as text.
    fn word(&self) -> Option<String>;

    /// The member with this name, here or at most `depth` tables further inside. The depth is limited because a text can be nested without
    /// end.
    fn find(&self, name: &str, depth: usize) -> Option<Self> {
        let inside = || self.members().iter().find_map(|member| member.find(name, depth - 1));
        self.member(name).or_else(|| if depth > 0 { inside() } else { None })
    }
}

impl Fault {
    /// A fault for what a parser refused, with its reason and path.
    pub(super) fn refused(message: &str, path: Option<&Path>) -> Self {
        let (mut indices, mut names) = (Vec::new(), Vec::new());
        for segment in path.into_iter().flat_map(Path::iter) {
            match segment {
                Segment::Seq { index } => {
                    indices.push(*index);
                    names.clear();
                }
                Segment::Map { key } => names.push(one_line(key)),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        // serde sees a TOML date under this name.
        let is_date = names.pop_if(|name| name == TOML_DATE_AND_TIME).is_some();
        let message = match message {
            _ if is_date => "expected a table",
            // The TOML and the JSON parser stop long before the stack overflows.
            "cannot recurse further; max recursion depth met"
            | "recursion limit"
            | "recursion limit exceeded" => "arrays or tables are nested too deeply",
            _ => without_value(message),
        };
        let error = Error::text(one_line(message));
        let error = if names.is_empty() { error } else { error.field(names.join(".")) };
        error.of(indices.first().copied(), indices.get(1).copied())
    }

    /// The error with its place in the text, unless the parser has reported it, and with the names of the chain and the key in the text.
    pub(super) fn located(self, text: &str, root: Option<impl Value>, position: Option<Position>) -> Error {
        let mut located = self.error;
        let error = &mut *located.0;
        error.position = position;
        let Some(mut value) = root else { return located };
        let list = || LISTS.into_iter().find_map(|name| value.find(name, DEPTH));
        if let Some(chain) = self.chain.and_then(|index| list()?.element(index)) {
            error.chain = error.chain.take().or_else(|| chain.member("name")?.word());
            value = chain;
        }
        if let Some(key) = self.key.and_then(|index| value.member("key").and_then(|list| list.element(index)))
        {
            let number = |name| key.member(name)?.word()?.parse().ok();
            error.key_id = error.key_id.or_else(|| ["key-id", "send-id"].into_iter().find_map(number));
            value = key;
        }
        for name in error.field.iter().flat_map(|field| field.split('.')) {
            match value.find(name, DEPTH) {
                Some(inner) => value = inner,
                None => break,
            }
        }
        if let Problem::Text(message) = &mut error.problem
            && message.starts_with("expected ")
        {
            let is_list = message == "expected an array";
            message.to_mut().push_str(&format!(", found {}", value.kind()));
            if is_list && value.kind() == "a table" {
                let header = if self.chain.is_some() { "key-chain.key" } else { "key-chain" };
                message.to_mut().push_str(&format!(": write [[{header}]] with two brackets, once for each"));
            }
        }
        error.position = position.or_else(|| Some(value.position(text)));
        located
    }
}

/// The chains of a file, or an error that says which chain it is about.
pub(super) fn chains(chains: impl Iterator<Item = Result<KeyChain, Fault>>) -> Result<KeyChains, Fault> {
    let chains =
        chains.enumerate().map(|(index, chain)| chain.map_err(|fault| Fault { chain: Some(index), ..fault }));
    KeyChains::checked(chains.collect::<Result<_, _>>()?)
}

impl Position {
    /// Line and column of an octet of the text.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

#[cfg(feature = "formats")]
impl Position {
    /// The octet of the text that is at this line and column; the text's length if there is none.
    pub(crate) fn offset_in(self, text: &str) -> usize {
        let mut lines = text.split_inclusive('\n');
        let before: usize = lines.by_ref().take(self.line - 1).map(str::len).sum();
        let line = lines.next().unwrap_or_default();
        before + line.char_indices().nth(self.column - 1).map_or(line.len(), |(offset, _)| offset)
    }
}

/// Replaces control characters, since an error is one line.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Keeps only the expected part of serde's `invalid type: string "hunter2", expected a sequence`.
fn without_value(message: &str) -> &str {
    let wrong = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match wrong.and_then(|rest| rest.rfind("expected ").map(|start| &rest[start..])) {
        Some("expected a sequence") => "expected an array",
        expected => expected.unwrap_or(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_out_of_what_serde_says() {
        let said = r#"invalid type: string "a`b", expected c", expected a sequence"#;
        assert_eq!(without_value(said), "expected an array");
        assert_eq!(without_value("missing field `name`"), "missing field `name`");
    }
}
