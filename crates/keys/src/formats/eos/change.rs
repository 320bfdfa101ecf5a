//! Changing the keys of an EOS switch: commands of a configuration session, which a commit carries out together. Arista does not document
//! which of two valid secrets is used for sending, so the old one gets its end, and the peer accepts either until then. Not seen on a
//! device.

use std::fmt::Write;

use zeroize::Zeroizing;

use super::super::file::{Chain, ChainKey};
use super::super::tree::{Tree, Word};
use super::super::write::written;
use super::write::{write_lifetimes, write_secret};
use crate::Error;

/// The commands that carry out a file of changes.
pub(super) const APPLY: &str =
    "configure session wireseal\ncopy flash:{file} session-config\nshow session-config diffs\ncommit";
/// The commands that show which keys are in use.
pub(super) const SHOW: &str = "show bgp neighbors";

/// The commands that make the profile `after` of `before`, whose secrets are in this tree. A secret with another lifetime is given again as
/// it stands there, since it may be encrypted.
pub(super) fn commands(tree: &Tree<'_>, before: &Chain, after: &Chain) -> Result<Zeroizing<String>, Error> {
    let is_new = |key: &&ChainKey| !before.has_number(key.key_id);
    let is_changed = |key: &&ChainKey| {
        let old = before.keys.iter().find(|old| old.key_id == key.key_id);
        old.is_some_and(|old| (old.send, old.accept) != (key.send, key.accept))
    };
    let mut changed = Vec::new();
    for key in after.keys.iter().filter(is_changed) {
        let line = secret_in(tree, key).ok_or_else(|| {
            after.locate(Error::text("its line is not found in the text").field("secret"), key)
        })?;
        changed.push((line, key));
    }
    Ok(written(&[before.clone(), after.clone()], |text| {
        let _ = writeln!(text, "management security\n   session shared-secret profile {}", after.name);
        for key in after.keys.iter().filter(is_new) {
            write_secret(text, key);
            write_lifetimes(text, key);
        }
        for (line, key) in &changed {
            text.push_str("     ");
            for word in line {
                text.push(' ');
                text.push_str(word.text());
            }
            write_lifetimes(text, key);
        }
        for key in before.keys.iter().filter(|key| !after.has_number(key.key_id)) {
            let _ = writeln!(text, "      no secret {}", key.send_id);
        }
        text.push_str("   !\n!\n");
    }))
}

/// The words of a secret's line before its lifetimes.
fn secret_in<'a>(tree: &Tree<'a>, key: &ChainKey) -> Option<Vec<Word<'a>>> {
    let is_it = |words: &&[Word<'_>]| words.first().map(Word::position) == key.position;
    let words = tree.all().map(|statement| statement.words()).find(is_it)?;
    let is_life = |word: &Word<'_>| {
        ["infinite", "receive-lifetime", "transmit-lifetime"].iter().any(|name| word.is(name))
    };
    Some(words.iter().take_while(|word| !is_life(word)).copied().collect())
}
