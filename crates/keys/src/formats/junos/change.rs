//! Changing the keys of a Junos router: `set` and `delete` commands.

use std::fmt::Write;

use zeroize::Zeroizing;

use super::super::file::Chain;
use super::super::table::{Change, Written};
use super::super::write::{push_escaped, written};
use super::write::{start_of, write_key};

pub(super) const CHANGE: Change = Change {
    written: Written::Commands(change),
    apply: "configure exclusive\nload set {file}\ncommit check\ncommit and-quit",
    show: "show security keychain detail\nshow bgp neighbor | match \"Peer|Authentication key\"",
};

/// The commands that make the chain `after` of `before`. A key has no end here, so only whole keys change.
fn change(before: &Chain, after: &Chain) -> Zeroizing<String> {
    written(&[before.clone(), after.clone()], |text| {
        let mut chain = String::from("security authentication-key-chains key-chain \"");
        push_escaped(&mut chain, after.name.chars());
        chain.push('"');
        if before.accept_tolerance != after.accept_tolerance {
            let _ = writeln!(text, "set {chain} tolerance {}", after.accept_tolerance);
        }
        for (index, key) in after.keys.iter().enumerate().filter(|(_, key)| !before.has_number(key.key_id)) {
            let alone = Chain { keys: vec![key.clone()], ..Chain::default() };
            let braces = written(&[alone], |text| write_key(text, key.key_id, key, start_of(key, index)));
            set(text, &chain, &braces);
        }
        for key in before.keys.iter().filter(|key| !after.has_number(key.key_id)) {
            let _ = writeln!(text, "delete {chain} key {}", key.key_id);
        }
    })
}

/// Writes statements in braces, each on a line of its own, as `set` commands.
fn set(text: &mut String, path: &str, braces: &str) {
    let mut path = vec![path];
    for line in braces.lines().map(str::trim) {
        if let Some(block) = line.strip_suffix(" {") {
            path.push(block);
        } else if let Some(statement) = line.strip_suffix(';') {
            text.push_str("set");
            for word in path.iter().copied().chain([statement]) {
                text.push(' ');
                text.push_str(word);
            }
            text.push('\n');
        } else {
            path.pop();
        }
    }
}
