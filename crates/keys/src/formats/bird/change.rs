//! Changing the keys of a configuration of BIRD: in its text, and with `birdc configure`, which changes the keys of open sessions (BIRD's
//! source, `bgp_reconfigure_ao_keys`).

use std::ops::Range;

use zeroize::Zeroizing;

use super::super::file::{Chain, ChainKey};
use super::super::tree::{Statement, Tree, Word};
use super::super::write::{spliced, whole_lines, written};
use super::write::write_key;
use crate::Error;
use crate::write::filled;

/// The commands that carry out a changed file.
pub(super) const APPLY: &str = "bird -p -c {file}\ncp {file} {target}\nbirdc configure";
/// The commands that show which keys are in use.
pub(super) const SHOW: &str = "birdc show protocols all {chain}\n\
                               # \"Current key\" is the SendID in use, \"RNext key\" the RecvID asked for; BIRD lists no others";

/// The text of a configuration that has the keys of `before`, with those of `after`: new keys stand before the first, and keys that both
/// have lose a rank that they have no more. Everything else stays as it is, comments included.
pub(super) fn edited(
    tree: &Tree<'_>,
    text: &str,
    before: &Chain,
    after: &Chain,
) -> Result<Zeroizing<String>, Error> {
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
    }
    let line = text[..first].rfind('\n').map_or(0, |end| end + 1);
    let indentation = &text[line..first];
    let is_alone = indentation.trim().is_empty();
    let (at, indentation) = if is_alone { (line, indentation) } else { (first, "") };
    for key in after.keys.iter().filter(|key| !before.has_number(key.key_id)) {
        let lines = written(std::slice::from_ref(after), |text| write_key(text, key));
        let own = filled(lines.len() + lines.lines().count() * indentation.len(), |own| {
            for line in lines.lines() {
                own.push_str(indentation);
                // The writer indents by two tabs.
                own.push_str(line.strip_prefix("\t\t").unwrap_or(line));
                own.push('\n');
            }
        });
        edits.push((at..at, own));
    }
    Ok(spliced(text, edits))
}

/// The offset after a closing mark and any `;` that follows it.
fn past_semicolon(text: &str, mark: Word<'_>) -> usize {
    let past = mark.position().offset_in(text) + 1;
    let rest = text[past..].trim_start().strip_prefix(';');
    rest.map_or(past, |rest| text.len() - rest.len())
}
