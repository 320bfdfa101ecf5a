//! The statements of a configuration that concern keys and are in effect: from braces or commands, without what is inactive, and with what
//! configuration groups contribute (Juniper, CLI User Guide).

use std::collections::HashSet;

use super::super::file::{Content, Remark};
use super::super::tree::{Blocks, Dialect, Kind, Tree, Word};
use super::chains::chain_of;
use super::groups::{self, APPLY, EXCEPT, Statement};
use super::users::level_of;
use crate::Error;

const DIALECT: Dialect = Dialect {
    blocks: Blocks::Braces { ends: "{};\"", escapes: true, has_commands: true, is_balanced: true },
    depth: 64,
    block: |_| "block",
};

/// A command, or a statement as if it had been set.
#[derive(Clone, Copy)]
enum Act {
    Set,
    Delete,
    Deactivate,
    Activate,
}

/// Commands by their first word; `None` for those that change nothing that concerns keys.
const COMMANDS: [(&str, Option<Act>); 16] = [
    ("set", Some(Act::Set)),
    ("delete", Some(Act::Delete)),
    ("deactivate", Some(Act::Deactivate)),
    ("activate", Some(Act::Activate)),
    ("annotate", None),
    ("commit", None),
    ("configure", None),
    ("exit", None),
    ("insert", None),
    ("protect", None),
    ("quit", None),
    ("run", None),
    ("show", None),
    ("status", None),
    ("top", None),
    ("unprotect", None),
];
/// Marks before a statement that do not change it.
const MARKS: [&str; 2] = ["protect:", "replace:"];
/// The statements of the highest level that contain, or may inherit, what concerns keys. A part of a configuration may begin at the others.
const ROOTS: [&str; 10] = [
    "security",
    "protocols",
    "routing-instances",
    "routing-options",
    "logical-systems",
    "authentication-key-chains",
    "key-chain",
    "bgp",
    "ldp",
    "group",
];

/// The statements in effect, those of the configuration itself first. What is not understood is added to the remarks.
pub(super) fn in_effect<'a>(text: &'a str, content: &mut Content) -> Result<Vec<Statement<'a>>, Error> {
    let mut acts = Vec::new();
    Tree::read(text, &DIALECT)?.each(|path, statement| {
        let is_outer = statement.block().is_some() && statement.inside().next().is_some();
        if is_outer || path.is_empty() {
            return Ok(());
        }
        // `user@router#` and what was typed there.
        let is_prompt = path[0].text().ends_with(['>', '#', '%']) && matches!(path[0].kind, Kind::Plain(_));
        let typed = &path[usize::from(is_prompt)..];
        let Some(first) = typed.first() else { return Ok(()) };
        let command = COMMANDS.iter().find(|(name, _)| first.is(name));
        match command {
            Some((_, Some(act))) => acts.extend(act_on(*act, &typed[1..], content)),
            // In "show" and the others, the rest of the line is no configuration.
            Some((_, None)) if statement.end().kind == Kind::Line => {}
            _ if statement.end().kind != Kind::Line => acts.extend(act_on(Act::Set, typed, content)),
            // `[edit security]` stands above a prompt.
            _ if first.text().starts_with("[edit") || is_prompt => {}
            _ => content.remarks.push(Remark::not_understood(first.position())),
        }
        Ok(())
    })?;
    groups::inherit(&remaining(acts), content)
}

/// What to do with the words after a command, unless they do not concern keys.
fn act_on<'a>(act: Act, words: &[Word<'a>], content: &mut Content) -> Option<(Act, Vec<Word<'a>>)> {
    if words.iter().any(|word| word.is("inactive:")) {
        return None;
    }
    let mut words = words.to_vec();
    words.retain(|word| !MARKS.iter().any(|mark| word.is(mark)));
    if let Act::Set = act {
        words.truncate(concerns_keys(&words)?);
    }
    if let Some(delete) = words.iter().find(|word| word.is("delete:")) {
        content.remarks.push(Remark::not_understood(delete.position()));
        return None;
    }
    Some((act, words))
}

/// How many words of a statement concern keys, if any do. Of all others only the neighbor or group is kept, which may inherit.
fn concerns_keys(words: &[Word<'_>]) -> Option<usize> {
    let first = words.iter().find(|word| !word.is("delete:"))?;
    if first.is("groups") {
        let rest = words.get(2..).unwrap_or_default();
        let is_condition = rest.first().is_some_and(|word| word.is("when"));
        let kept = if is_condition { Some(1) } else { concerns_keys(rest) };
        return Some((2 + kept.unwrap_or(0)).min(words.len()));
    }
    let applies = words.iter().position(|word| word.is(APPLY) || word.is(EXCEPT));
    if let Some(at) = applies {
        let is_here = at == 0 || ROOTS.iter().any(|root| first.is(root));
        return is_here.then_some(words.len());
    }
    if chain_of(words).is_some() {
        return Some(words.len());
    }
    level_of(words).map(|level| if level.has_setting { words.len() } else { level.length })
}

/// What is left of the statements, in order, after commands that delete or deactivate.
fn remaining<'a>(acts: Vec<(Act, Vec<Word<'a>>)>) -> Vec<Vec<Word<'a>>> {
    let (mut deleted, mut active, mut inactive) =
        (Prefixes::default(), Prefixes::default(), Prefixes::default());
    let mut left = Vec::new();
    // From the last one on, because a command concerns what stands before it.
    for (act, words) in acts.into_iter().rev() {
        let texts: Vec<_> = words.iter().map(Word::text).collect();
        match act {
            Act::Delete => deleted.add(texts),
            _ if deleted.cover(&texts) => {}
            Act::Set => left.push(words),
            Act::Activate => active.add(texts),
            Act::Deactivate if active.paths.contains(&texts) => {}
            Act::Deactivate => inactive.add(texts),
        }
    }
    left.reverse();
    left.retain(|words| {
        inactive.paths.is_empty() || !inactive.cover(&words.iter().map(Word::text).collect::<Vec<_>>())
    });
    left
}

/// The starts of statements.
#[derive(Default)]
struct Prefixes<'a> {
    paths: HashSet<Vec<&'a str>>,
    longest: usize,
}

impl<'a> Prefixes<'a> {
    fn add(&mut self, path: Vec<&'a str>) {
        self.longest = self.longest.max(path.len());
        self.paths.insert(path);
    }

    /// Whether a statement begins with one of them.
    fn cover(&self, path: &[&'a str]) -> bool {
        !self.paths.is_empty()
            && (0..=self.longest.min(path.len())).any(|length| self.paths.contains(&path[..length]))
    }
}
