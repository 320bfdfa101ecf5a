//! The commands of a configuration of IOS XR, each after the words of the modes that it is in: indented as the router prints them, whole on
//! one line (`formal`), or without indentation, as sessions with prompts and mails have them.

use super::super::tree::{Blocks, Dialect, Tree, Word, starts, without_prompt};
use crate::{Error, Position};

/// Next to indented lines, a line with a prompt may be in any mode, so a prompt is not skipped.
const INDENTED: Dialect =
    Dialect { blocks: Blocks::Indentation { has_prompts: false }, depth: 64, block: |_| "mode" };

/// Calls `give` for every command, with the words of its modes and its own, and how many of them are its modes'.
pub(super) fn each<'a>(
    text: &'a str,
    mut give: impl FnMut(&[Word<'a>], usize) -> Result<(), Error>,
) -> Result<(), Error> {
    // Lines of a banner may be indented, whatever the rest is.
    let is_inside = |line: &Line<'a>| {
        let start: Vec<_> = line.words().take(2).collect();
        homes(&start).is_some_and(|modes| !modes.is_empty())
    };
    match lines(text).any(|line| line.indentation > 0 && is_inside(&line)) {
        true => Tree::read(text, &INDENTED)?.each(|command, own, _| give(command, own)),
        false => flat(text, give),
    }
}

struct Line<'a> {
    /// The characters before its first word; none after a prompt.
    indentation: usize,
    /// The first word and all that follows.
    text: &'a str,
    /// Where the first word is.
    position: Position,
}

/// The lines with words.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.split('\n').enumerate().filter_map(|(index, line)| {
        let words = line.trim_start();
        let command = without_prompt(words);
        let column = line[..line.len() - command.len()].chars().count();
        (!command.trim_end().is_empty()).then_some(Line {
            indentation: if command.len() < words.len() { 0 } else { column },
            text: command.trim_end(),
            position: Position { line: index + 1, column: column + 1 },
        })
    })
}

impl<'a> Line<'a> {
    fn words(&self) -> impl Iterator<Item = Word<'a>> {
        let (mut rest, mut position) = (self.text, self.position);
        std::iter::from_fn(move || {
            let blanks = rest.find(|c: char| !c.is_whitespace())?;
            position.column += rest[..blanks].chars().count();
            rest = &rest[blanks..];
            let (text, after) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
            let word = Word::plain(text, position);
            position.column += text.chars().count();
            rest = after;
            Some(word)
        })
    }
}

/// A mode that matters here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// `key chain NAME`
    Chain,
    /// `key ID` in it.
    Key,
    /// `tcp ao`
    Ao,
    /// `keychain NAME` in it.
    AoChain,
    /// `router bgp AS`
    Bgp,
    /// `vrf NAME` in it.
    Vrf,
    /// A neighbor or group in either.
    Session,
    /// `address-family` in any of these.
    Family,
}

/// Commands without indentation: their first words tell the modes that they can be in, and `!`, `exit`, `root` and `end` close modes.
fn flat<'a>(
    text: &'a str,
    mut give: impl FnMut(&[Word<'a>], usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut words: Vec<Word<'a>> = Vec::new();
    // Each open mode, and how many words led to its inside.
    let mut open: Vec<(Mode, usize)> = Vec::new();
    for line in lines(text) {
        match line.text {
            "!" | "exit" => _ = open.pop(),
            "root" | "end" => open.clear(),
            comment if comment.starts_with('!') => {}
            _ => {
                let own: Vec<Word<'a>> = line.words().collect();
                if let Some(modes) = homes(&own) {
                    while open.pop_if(|(mode, _)| !modes.contains(mode)).is_some() {}
                }
                words.truncate(open.last().map_or(0, |(_, length)| *length));
                let outer = words.len();
                words.extend(&own);
                give(&words, outer)?;
                enter(&mut open, outer, &own);
            }
        }
    }
    Ok(())
}

/// The modes that a command can be in, if it is one that matters here; none if it starts at the top.
fn homes(own: &[Word<'_>]) -> Option<&'static [Mode]> {
    use Mode::{Ao, AoChain, Bgp, Chain, Key, Session, Vrf};
    let is = |index: usize, names: &[&str]| {
        own.get(index).is_some_and(|word| names.iter().any(|name| word.is(name)))
    };
    Some(match () {
        () if is(0, &["key"]) && is(1, &["chain"]) || is(0, &["tcp"]) && is(1, &["ao"]) => &[],
        () if is(0, &["router", "hostname"]) => &[],
        () if is(0, &["clock"]) && is(1, &["timezone", "summer-time"]) => &[],
        () if is(0, &["timezone", "accept-tolerance", "macsec"]) => &[Chain],
        () if is(0, &["key"]) => &[Chain, AoChain],
        () if is(0, &["key-string", "cryptographic-algorithm", "send-lifetime", "accept-lifetime"]) => &[Key],
        () if is(0, &["keychain"]) => &[Ao, Session],
        () if is(0, &["vrf"]) => &[Bgp],
        () if is(0, &["neighbor", "neighbor-group", "session-group", "af-group"]) => &[Bgp, Vrf],
        () if is(0, &["ao", "password", "remote-as", "update-source"]) => &[Session],
        () if is(0, &["use"]) && is(1, &["neighbor-group", "session-group"]) => &[Session],
        () => return None,
    })
}

/// Opens the mode that a command enters, if it is one that matters here.
fn enter(open: &mut Vec<(Mode, usize)>, outer: usize, own: &[Word<'_>]) {
    let mut rest = own;
    if let [_, _, _, after @ ..] = own
        && starts(own, &["router", "bgp"])
    {
        rest = match after {
            [instance, _, after @ ..] if instance.is("instance") => after,
            after => after,
        };
        open.push((Mode::Bgp, outer + own.len() - rest.len()));
    }
    let within = open.last().map(|(mode, _)| *mode);
    let mode = match (within, rest) {
        (None, [_, _, _]) if starts(rest, &["key", "chain"]) => Mode::Chain,
        (None, [_, _]) if starts(rest, &["tcp", "ao"]) => Mode::Ao,
        (Some(Mode::Chain), [key, _]) if key.is("key") => Mode::Key,
        (Some(Mode::Ao), [keychain, _]) if keychain.is("keychain") => Mode::AoChain,
        (Some(Mode::Bgp), [vrf, _]) if vrf.is("vrf") => Mode::Vrf,
        (Some(Mode::Bgp | Mode::Vrf), [kind, _])
            if ["neighbor", "neighbor-group", "session-group"].iter().any(|name| kind.is(name)) =>
        {
            Mode::Session
        }
        (Some(Mode::Bgp | Mode::Vrf | Mode::Session), [family, ..])
            if family.is("address-family") || family.is("af-group") =>
        {
            Mode::Family
        }
        _ => return,
    };
    open.push((mode, outer + own.len()));
}
