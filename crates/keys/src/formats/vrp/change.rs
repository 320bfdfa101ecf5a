//! Changing the keys of a VRP router: commands that a commit carries out together. Send-times may not overlap, so the old key's ends where
//! the new one's begins; receive-times may. A key has its secret and its lifetimes in the keychain, and its ids in `tcp ao`. Not seen on a
//! device.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt::Write;

use zeroize::Zeroizing;

use super::super::file::{Chain, ChainKey};
use super::super::tree::{Tree, Word, starts};
use super::super::write::written;
use super::write::{write_key, write_lifetime};
use crate::Error;

/// The commands that carry out a file of changes.
pub(super) const APPLY: &str = "system-view\n# enter the lines of {file} here\ncommit\nreturn";
/// The commands that show which keys are in use.
pub(super) const SHOW: &str = "display bgp peer verbose";

/// The commands that make the chain `after` of `before`, which is in this tree.
pub(super) fn commands(tree: &Tree<'_>, before: &Chain, after: &Chain) -> Result<Zeroizing<String>, Error> {
    let keychain = Keychain::of(tree, &after.name)?;
    let is_new = |key: &&ChainKey| !before.has_number(key.key_id);
    if let Some(key) = after.keys.iter().filter(is_new).find(|key| keychain.numbers.contains(&key.key_id)) {
        let why = format!(
            "its keychain has a key-id {} that \"tcp ao\" does not have: give the new key another key_id in the plan",
            key.key_id
        );
        return Err(Error::text(why).in_chain(&after.name));
    }
    // A default key is sent with only while no other one is, so nothing ends it.
    let is_cut = |key: &&ChainKey| {
        let old = before.keys.iter().find(|old| old.key_id == key.key_id);
        old.is_some_and(|old| old.send != key.send) && !keychain.defaults.contains(&key.key_id)
    };
    let removed: Vec<_> = before.keys.iter().filter(|key| !after.has_number(key.key_id)).collect();
    Ok(written(&[before.clone(), after.clone()], |text| {
        // A key with ids needs its secret, so the ids come last and go first.
        if !removed.is_empty() {
            let _ = writeln!(text, "tcp ao {}", after.name);
            for key in &removed {
                let _ = writeln!(text, " undo key-id {}", key.key_id);
            }
            text.push_str(" quit\n");
        }
        let quote = if keychain.name.contains(' ') { "\"" } else { "" };
        let _ = writeln!(text, "keychain {quote}{}{quote} mode absolute", keychain.name);
        for key in after.keys.iter().filter(is_cut) {
            let _ = writeln!(text, " key-id {}", key.key_id);
            write_lifetime(text, "send-time", key.send);
            text.push_str("  quit\n");
        }
        for key in after.keys.iter().filter(is_new) {
            write_key(text, key.key_id, key);
            write_lifetime(text, "send-time", key.send);
            write_lifetime(text, "receive-time", key.accept);
            text.push_str("  quit\n");
        }
        for key in &removed {
            let _ = writeln!(text, " undo key-id {}", key.key_id);
        }
        text.push_str(" quit\n");
        let mut added = after.keys.iter().filter(is_new).peekable();
        if added.peek().is_some() {
            let _ = writeln!(text, "tcp ao {}", after.name);
            for key in added {
                let (send, recv) = (key.send_id, key.recv_id);
                let _ = writeln!(text, " key-id {}\n  send-id {send} receive-id {recv}\n  quit", key.key_id);
            }
            text.push_str(" quit\n");
        }
    }))
}

/// What the text has of the keychain of a policy.
struct Keychain<'a> {
    name: &'a str,
    /// The numbers of its keys.
    numbers: HashSet<u64>,
    /// Those of the keys that are sent with while no other one is.
    defaults: HashSet<u64>,
}

impl<'a> Keychain<'a> {
    fn of(tree: &Tree<'a>, policy: &str) -> Result<Self, Error> {
        let mut name = None;
        let Ok(()) = tree.each(|path, own, _| {
            let own = &path[own..];
            if let ([_, _, of, ..], [_, _, keychain]) = (path, own)
                && starts(path, &["tcp", "ao"])
                && starts(own, &["binding", "keychain"])
                && of.text() == policy
            {
                name = Some(keychain.text());
            }
            Ok::<_, Infallible>(())
        });
        let name =
            name.ok_or_else(|| Error::text("its keychain is not found in the text").in_chain(policy))?;
        let mut keychain = Self { name, numbers: HashSet::new(), defaults: HashSet::new() };
        let Ok(()) = tree.each(|path, own, _| {
            let is_it = |of: &Word<'_>| of.text().eq_ignore_ascii_case(name);
            if !starts(path, &["keychain"]) || !path.get(1).is_some_and(is_it) {
                return Ok(());
            }
            let at = path.iter().rposition(|word| word.is("key-id"));
            let Some(number) = at.and_then(|at| path.get(at + 1)?.text().parse().ok()) else { return Ok(()) };
            keychain.numbers.insert(number);
            if starts(&path[own..], &["default", "send-key-id"]) {
                keychain.defaults.insert(number);
            }
            Ok::<_, Infallible>(())
        });
        Ok(keychain)
    }
}
