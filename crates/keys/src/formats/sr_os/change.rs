//! Changing the keys of an SR OS router with commands of MD-CLI, which a commit carries out together. The entry with the newest begin-time
//! is used for sending. Neither the key nor the algorithm of an entry can be edited, nor can a keychain in use be deleted (Nokia, System
//! Management Guide); entries are added and deleted. Not seen on a device.

use std::convert::Infallible;
use std::fmt::Write;

use zeroize::Zeroizing;

use super::write::{begin, begin_entry, end_entry, write_tolerance};
use crate::Error;
use crate::formats::file::{Chain, ChainKey};
use crate::formats::tree::{Tree, place};
use crate::formats::write::{push_escaped, write_flat, written};

/// The commands that carry out a file of changes.
pub(super) const APPLY: &str = "edit-config exclusive\nexec {file}\nvalidate\ncommit\nexit all\nquit-config";
/// The commands that show which keys are in use.
pub(super) const SHOW: &str =
    "show system security keychain \"{chain}\" detail\nshow router bgp auth-keychain \"{chain}\"";

/// The commands that make the chain `after` of `before`, whose entries are in this tree. A key is used until the next one begins, so only
/// whole keys change, and the tolerance of those that stay.
pub(super) fn commands(tree: &Tree<'_>, before: &Chain, after: &Chain) -> Result<Zeroizing<String>, Error> {
    let is_bidirectional = is_bidirectional(tree, before)?;
    let mut path = String::from("/configure system security keychains keychain \"");
    push_escaped(&mut path, after.name.chars());
    path.push('"');
    // Where each direction of a key is; what is sent with has no tolerance.
    let entries = |key: &ChainKey| match is_bidirectional {
        true => vec![("bidirectional", key.send_id.0, true)],
        false => vec![("receive", key.recv_id.0, true), ("send", key.send_id.0, false)],
    };
    let is_new = before.accept_tolerance != after.accept_tolerance;
    Ok(written(&[before.clone(), after.clone()], |text| {
        for (index, key) in after.keys.iter().enumerate() {
            for (direction, number, is_received) in entries(key) {
                if !before.has_number(key.key_id) {
                    let end = if is_bidirectional { None } else { key.accept.until() };
                    let alone = Chain { keys: vec![key.clone()], ..Chain::default() };
                    let braces = written(&[alone], |text| {
                        begin_entry(text, number, key, begin(key.send, after, index));
                        end_entry(text, is_received.then_some((after.accept_tolerance, end)));
                    });
                    write_flat(text, &format!("{path} {direction}"), &braces);
                } else if is_new && is_received {
                    let _ = write!(text, "{path} {direction} entry {number} ");
                    write_tolerance(text, after.accept_tolerance);
                }
            }
        }
        let removed: Vec<_> = before.keys.iter().filter(|key| !after.has_number(key.key_id)).collect();
        if !removed.is_empty() {
            let _ = writeln!(text, "{path}");
        }
        for (direction, number, _) in removed.into_iter().flat_map(entries) {
            let _ = writeln!(text, "delete {direction} entry {number}");
        }
    }))
}

/// Whether the keychain has entries for both directions, and not for each one.
fn is_bidirectional(tree: &Tree<'_>, before: &Chain) -> Result<bool, Error> {
    let refused = |why: &'static str| Error::text(why).in_chain(&before.name);
    if before.name.is_empty() {
        return Err(refused("the name of the keychain is not in this file, and commands need it"));
    }
    let mut found = Vec::new();
    let Ok(()) = tree.each(|path, _, _| {
        let is_entry = |key: &ChainKey| {
            let at = path.iter().position(|word| Some(word.position()) == key.position)?;
            let has = |name| place(&path[..at], name).is_some();
            Some((has("direction"), has("bidirectional")))
        };
        found.extend(before.keys.iter().find_map(is_entry));
        Ok::<_, Infallible>(())
    });
    if found.iter().any(|(is_classic, _)| *is_classic) {
        return Err(refused(
            "this is the classic CLI, and only commands of MD-CLI are written: give the output of MD-CLI's admin show configuration",
        ));
    }
    let (mut both, mut each) = (false, false);
    for (_, is_both) in found {
        both |= is_both;
        each |= !is_both;
    }
    match (both, each) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        _ => Err(refused("its entries must all be bidirectional, or all send and receive")),
    }
}
