//! Changing the keys of a Junos router: `set` and `delete` commands.

use std::fmt::Write;

use zeroize::Zeroizing;

use super::super::file::Chain;
use super::super::table::{Change, Written};
use super::super::write::{push_escaped, write_flat, written};
use super::write::{start_of, write_key};

pub(super) const CHANGE: Change = Change {
    written: Written::Commands(|_, before, after| Ok(change(before, after))),
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
            write_flat(text, &format!("set {chain}"), &braces);
        }
        for key in before.keys.iter().filter(|key| !after.has_number(key.key_id)) {
            let _ = writeln!(text, "delete {chain} key {}", key.key_id);
        }
    })
}
