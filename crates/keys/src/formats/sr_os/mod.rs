//! Nokia SR OS configuration: MD-CLI in braces or as commands, and classic CLI (Nokia, YANG model nokia-conf, release 20; System Management
//! Guide, "TCP Enhanced Authentication Option").

mod change;
mod entry;
mod keychain;
mod write;

use std::collections::HashMap;

use self::entry::{MAC_LENGTH, MAX_ID, algorithm_name};
use self::keychain::Keychains;
use super::file::{Content, Neighbor, Remark};
use super::peers::{Peers, Use};
use super::table::{Change, Limits, Shows, Table, Written, begins, first_line};
use super::tree::{Blocks, Dialect, Tree, Word, place};
use super::write::written;
use crate::Error;

pub(super) const TABLE: Table = Table {
    name: "sr-os",
    about: "Nokia SR OS configuration, MD-CLI or classic",
    extension: None,
    shows,
    read: |text, _| read(text),
    fit: write::that_can_be,
    write: Some(|chains, losses| Ok(written(chains, |text| write::write(text, chains, losses)))),
    change: Some(Change {
        written: Written::Commands(|text, before, after| {
            change::commands(&Tree::read(text, &dialect(text))?, before, after)
        }),
        apply: change::APPLY,
        show: change::SHOW,
    }),
    limits: Limits {
        name: "sr-os",
        about: "Nokia SR OS",
        title: "SR OS",
        algorithm: algorithm_name,
        mac_lengths: [MAC_LENGTH, MAC_LENGTH],
        covers_options: true,
        has_only_text: true,
        // An entry for both directions has one begin-time.
        has_one_start: true,
        max_id: MAX_ID,
        ..Limits::NONE
    },
};

fn shows(text: &str) -> Shows {
    let line = first_line(text);
    let commands = ["configure system", "configure router", "configure service"];
    let is_command = begins(text, &["/configure", "keychains"])
        || begins(text, &commands) && line.contains("keychain")
        || line == "configure {"
        || line.starts_with("keychain ") && line.ends_with('{')
        || line.starts_with("# TiMOS-");
    let quotes_name =
        ["keychain \"", "router \"", "vprn \"", "neighbor \""].iter().any(|start| line.starts_with(start));
    // Junos has `security`, too.
    let is_security = begins(text, &["security"]) && text.contains("tcp-option-number");
    Shows::if_(
        is_command
            || quotes_name
            || is_security
            || ["tcp-option-number", "authentication-keychain", "auth-keychain"]
                .iter()
                .any(|word| line.contains(word)),
    )
}

fn dialect(text: &str) -> Dialect {
    Dialect { blocks: Blocks::of_lines(text), depth: 64, block: |_| "block" }
}

/// The keychains for TCP-AO, with the BGP neighbors and LDP peers that use them.
fn read(text: &str) -> Result<Content, Error> {
    let (mut keychains, mut users) = (Keychains::default(), Users::default());
    Tree::read(text, &dialect(text))?.each::<Error>(|path, own, _| {
        let words = &path[own..];
        let Some(first) = words.first().filter(|first| !first.is("exit")) else { return Ok(()) };
        // A command has its whole path, whatever block it stands in.
        let is_whole = first.is("/configure") || first.is("configure");
        let (path, own) = if is_whole { (words, 0) } else { (path, own) };
        keychains.take(path, own)?;
        users.take(path);
        Ok(())
    })?;
    let (neighbors, remarks) = users.by_keychain();
    keychains.finish(neighbors, remarks)
}

/// The users of keychains: BGP neighbors, which inherit from their group and from BGP, and LDP peers.
#[derive(Default)]
struct Users<'a> {
    peers: Peers<'a>,
    remarks: Vec<Remark>,
}

impl<'a> Users<'a> {
    /// Takes a statement, with the words that lead to it, if it is about peers of BGP or LDP.
    fn take(&mut self, path: &[Word<'a>]) {
        let of = |protocol| place(path, protocol).map(|at| (protocol, at));
        let Some((protocol, at)) = of("bgp").or_else(|| of("ldp")) else { return };
        let mut rest = &path[at + 1..];
        let mut next = |name: &str| match rest {
            [word, value, more @ ..] if word.is(name) => {
                rest = more;
                Some(*value)
            }
            _ => None,
        };
        let (mut group, mut peer) = (None, None);
        if protocol == "bgp" {
            group = next("group");
            peer = next("neighbor");
        }
        let after = |name| place(rest, name).and_then(|at| rest.get(at + 1)).copied();
        peer = peer.or_else(|| match protocol {
            // Prefixes of neighbors that need not be configured.
            "bgp" => place(rest, "dynamic-neighbor").and_then(|_| after("prefix")),
            _ => after("peer-transport"),
        });
        let value = |name| {
            let at = place(rest, name).filter(|at| *at == 0 || !rest[at - 1].is("no"));
            at.and_then(|at| rest.get(at + 1)).copied()
        };
        let keychain = value("authentication-keychain").or_else(|| value("auth-keychain"));
        // Groups of the configuration apply only where `apply-groups` says so.
        if place(&path[..at], "groups").is_some() {
            self.remarks.extend(keychain.map(|keychain| Remark::not_understood(keychain.position())));
            return;
        }
        // In MD-CLI the group is a property of the neighbor, in classic CLI the neighbor is in the group.
        let group = group.or_else(|| peer.and_then(|_| value("group")));
        self.peers.add(Use { protocol, vrf: vrf(&path[..at]), group, peer, keychain });
    }

    /// The neighbors of each keychain, by its name, and what there is to say.
    fn by_keychain(mut self) -> (HashMap<String, Vec<Neighbor>>, Vec<Remark>) {
        let (neighbors, remarks) = self.peers.by_keychain();
        self.remarks.extend(remarks);
        (neighbors, self.remarks)
    }
}

/// The VRF that the words before a protocol lead to: the name of the VPRN service, or of a router that is not the base one.
fn vrf<'a>(before: &[Word<'a>]) -> Option<Word<'a>> {
    if let Some(at) = place(before, "vprn") {
        let name = place(&before[at..], "name").and_then(|name| before.get(at + name + 1));
        return name.or_else(|| before.get(at + 1)).copied();
    }
    let name = before.get(place(before, "router")? + 1)?;
    (!name.text().eq_ignore_ascii_case("Base")).then_some(*name)
}
