//! Changing the keys of an IOS XR router: configuration commands, which a commit carries out together.

use std::fmt::Write;

use zeroize::Zeroizing;

use super::super::file::Chain;
use super::super::table::{Change, Written};
use super::super::write::written;
use super::write::{is_bounded, write_chain, write_lifetime};

pub(super) const CHANGE: Change = Change {
    written: Written::Commands(|_, before, after| Ok(change(before, after))),
    apply: "configure\nload {file}\ncommit\nend",
    show: "show tcp authentication keychain {chain} detail",
};

/// The commands that make the chain `after` of `before`: for a key that both have, only its lifetimes.
fn change(before: &Chain, after: &Chain) -> Zeroizing<String> {
    let name = &after.name;
    let is_new = before.accept_tolerance != after.accept_tolerance;
    let added = Chain {
        accept_tolerance: if is_new { after.accept_tolerance } else { 0 },
        keys: after.keys.iter().filter(|key| !before.has_number(key.key_id)).cloned().collect(),
        ..after.clone()
    };
    let removed: Vec<_> = before.keys.iter().filter(|key| !after.has_number(key.key_id)).collect();
    written(&[before.clone(), after.clone()], |text| {
        if is_new || !added.keys.is_empty() {
            let ids: Vec<_> = added.keys.iter().map(|key| key.key_id).collect();
            // What it loses, it has lost when the plan was made.
            write_chain(text, name, &added, &ids, &mut Vec::new());
        }
        let _ = writeln!(text, "key chain {name}");
        for key in &after.keys {
            let old = before.keys.iter().find(|old| old.key_id == key.key_id);
            // With a new key the chain's times become universal, which those of the other keys may not have been.
            let is_rewritten = is_bounded(key) && !added.keys.is_empty();
            if old.is_some_and(|old| is_rewritten || (old.send, old.accept) != (key.send, key.accept)) {
                let _ = writeln!(text, " key {}", key.key_id);
                write_lifetime(text, "accept-lifetime", &key.accept);
                write_lifetime(text, "send-lifetime", &key.send);
                text.push_str(" !\n");
            }
        }
        for key in &removed {
            let _ = writeln!(text, " no key {}", key.key_id);
        }
        let _ = writeln!(text, "!\ntcp ao\n keychain {name}");
        let commands = added.keys.iter().map(|key| ("", key)).chain(removed.iter().map(|key| ("no ", *key)));
        for (no, key) in commands {
            let (send, recv) = (key.send_id, key.recv_id);
            let _ = writeln!(text, "  {no}key {} SendID {send} ReceiveID {recv}", key.key_id);
        }
        text.push_str(" !\n!\n");
    })
}
