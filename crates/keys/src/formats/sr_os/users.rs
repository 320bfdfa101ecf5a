//! The users of keychains: BGP neighbors, which inherit from their group and from BGP, and LDP peers.

use std::collections::HashMap;

use crate::formats::file::{Neighbor, Remark};
use crate::formats::peers::{Peers, Use};
use crate::formats::tree::{Word, place};

#[derive(Default)]
pub(super) struct Users<'a> {
    peers: Peers<'a>,
    remarks: Vec<Remark>,
}

impl<'a> Users<'a> {
    /// Takes a statement, if it is about peers of BGP or LDP. The words of the path from `own` on are its own, those before lead to it.
    pub(super) fn take(&mut self, path: &[Word<'a>], own: usize) {
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
        let words = &rest[rest.len() - rest.len().min(path.len() - own)..];
        let value = |name| {
            let at = place(words, name).filter(|at| *at == 0 || !words[at - 1].is("no"));
            at.and_then(|at| words.get(at + 1)).copied()
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
    pub(super) fn by_keychain(mut self) -> (HashMap<String, Vec<Neighbor>>, Vec<Remark>) {
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
