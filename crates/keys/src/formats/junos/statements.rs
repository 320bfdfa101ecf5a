//! The statements of a configuration that concern keys and are in effect: from braces or commands, without what is inactive, and with what
//! configuration groups contribute (Juniper, CLI User Guide).

use std::collections::HashSet;
use std::convert::Infallible;

use super::super::file::{Content, Remark};
use super::super::tree::{Blocks, Dialect, Kind, Tree, Word};
use super::chains::chain_of;
use super::groups::{self, APPLY, EXCEPT, LONGEST_LEVEL, Statement};
use super::users::level_of;
use crate::Error;

const DIALECT: Dialect = Dialect {
    blocks: Blocks::Braces { ends: "{};\"", escapes: true, has_commands: true, is_balanced: true },
    depth: 64,
    block: |_| "block",
};

/// What a command does to the statements before it, or a statement as if it had been set.
#[derive(Clone, Copy)]
enum Act {
    Set,
    Delete,
    Deactivate,
    Activate,
}

/// A command of the configuration mode.
#[derive(Clone, Copy)]
enum Command {
    Act(Act),
    /// Goes to a lower level.
    Edit,
    /// Goes to the highest level, for one command if there is one after it.
    Top,
    /// Goes back to the level before `edit`.
    Exit,
    /// Prints the statements of a level, which may follow.
    Show,
    /// Changes nothing that concerns keys; the rest of the line is no configuration.
    Nothing,
}

/// Commands by their first word.
const COMMANDS: [(&str, Command); 17] = [
    ("set", Command::Act(Act::Set)),
    ("delete", Command::Act(Act::Delete)),
    ("deactivate", Command::Act(Act::Deactivate)),
    ("activate", Command::Act(Act::Activate)),
    ("edit", Command::Edit),
    ("top", Command::Top),
    ("exit", Command::Exit),
    ("annotate", Command::Nothing),
    ("commit", Command::Nothing),
    ("configure", Command::Nothing),
    ("insert", Command::Nothing),
    ("protect", Command::Nothing),
    ("quit", Command::Nothing),
    ("run", Command::Nothing),
    ("show", Command::Show),
    ("status", Command::Nothing),
    ("unprotect", Command::Nothing),
];
/// Marks before a statement that do not change it.
const MARKS: [&str; 2] = ["protect:", "replace:"];
/// The statements of the highest level that contain, or may inherit, what concerns keys. A part of a configuration may begin at the others.
const ROOTS: [&str; 12] = [
    "security",
    "protocols",
    "routing-instances",
    "routing-options",
    "logical-systems",
    "authentication-key-chains",
    "key-chain",
    "key",
    "neighbor",
    "bgp",
    "ldp",
    "group",
];

/// The statements in effect, those of the configuration itself first. What is not understood is added to the remarks.
pub(super) fn in_effect<'a>(text: &'a str, content: &mut Content) -> Result<Vec<Statement<'a>>, Error> {
    let mut acts = Vec::new();
    let mut level = CurrentLevel::default();
    // The level whose statements `show` prints.
    let mut shown: Vec<Word<'a>> = Vec::new();
    let Ok(()) = Tree::read(text, &DIALECT)?.each(|path, _, statement| {
        let is_outer = statement.block().is_some() && statement.inside().next().is_some();
        if is_outer || path.is_empty() {
            return Ok(());
        }
        // `user@router#` and what was typed there.
        let is_prompt = path[0].text().ends_with(['>', '#', '%']) && matches!(path[0].kind, Kind::Plain(_));
        let typed = &path[usize::from(is_prompt)..];
        let Some(first) = typed.first() else { return Ok(()) };
        // `{master:0}`: a routing engine names itself above its prompt.
        if path.len() == 1 && statement.end().kind == Kind::Close {
            return Ok(());
        }
        let is_line = statement.end().kind == Kind::Line;
        if is_line {
            shown.clear();
            if is_prompt && path[0].text().ends_with('>') {
                level.set(&[]);
            }
        }
        // `[edit security]` stands above a prompt.
        if is_line && first.text().trim_end_matches(']') == "[edit" {
            level.set(&typed[1..]);
            return Ok(());
        }
        let command = |word: &Word<'_>| COMMANDS.iter().find(|(name, _)| word.is(name)).map(|(_, it)| *it);
        let (found, words) = match (command(first), typed.get(1).and_then(command)) {
            (Some(Command::Top), Some(next)) => {
                level.set(&[]);
                (Some(next), &typed[2..])
            }
            (found, _) => (found, &typed[1..]),
        };
        match found {
            Some(Command::Act(act)) => acts.extend(act_on(act, [&level.words, words].concat(), content)),
            Some(Command::Edit) if is_line && level.words.len() + words.len() <= LONGEST_LEVEL => {
                level.enter(words);
            }
            Some(Command::Top) if is_line => level.set(&[]),
            Some(Command::Exit) if is_line => level.leave(),
            Some(Command::Show) if is_line => {
                let shows = words.split(|word| word.is("|")).next().unwrap_or_default();
                shown = match shows {
                    [configuration, rest @ ..] if configuration.is("configuration") => rest.to_vec(),
                    _ if path[0].text().ends_with('#') => [&level.words, shows].concat(),
                    _ => Vec::new(),
                };
                shown.truncate(LONGEST_LEVEL);
                // `| display set relative`
                if words.iter().any(|word| word.is("relative")) {
                    level.set(&shown);
                }
            }
            Some(Command::Nothing) => {}
            _ if !is_line => acts.extend(act_on(Act::Set, [shown.as_slice(), typed].concat(), content)),
            _ if is_prompt => {}
            _ => content.remarks.push(Remark::not_understood(first.position())),
        }
        Ok::<_, Infallible>(())
    });
    groups::inherit(&remaining(acts), content)
}

/// The level that commands are relative to.
#[derive(Default)]
struct CurrentLevel<'a> {
    words: Vec<Word<'a>>,
    /// How many words led to the levels before.
    before: Vec<usize>,
}

impl<'a> CurrentLevel<'a> {
    fn set(&mut self, words: &[Word<'a>]) {
        self.before.clear();
        self.words = words[..words.len().min(LONGEST_LEVEL)].to_vec();
        // The last word of `[edit security]` has the bracket.
        if let Some(Word { kind: Kind::Plain(last), .. }) = self.words.last_mut() {
            *last = last.trim_end_matches(']');
        }
    }

    fn enter(&mut self, words: &[Word<'a>]) {
        self.before.push(self.words.len());
        self.words.extend_from_slice(words);
    }

    fn leave(&mut self) {
        self.words.truncate(self.before.pop().unwrap_or(0));
    }
}

/// What to do with the words after a command, unless they do not concern keys.
fn act_on<'a>(act: Act, mut words: Vec<Word<'a>>, content: &mut Content) -> Option<(Act, Vec<Word<'a>>)> {
    if words.iter().any(|word| word.is("inactive:")) {
        return None;
    }
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
        if path.len() <= LONGEST_LEVEL {
            self.longest = self.longest.max(path.len());
            self.paths.insert(path);
        }
    }

    /// Whether a statement begins with one of them.
    fn cover(&self, path: &[&'a str]) -> bool {
        !self.paths.is_empty()
            && (0..=self.longest.min(path.len())).any(|length| self.paths.contains(&path[..length]))
    }
}
