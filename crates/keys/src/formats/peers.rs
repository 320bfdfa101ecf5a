//! The peers of routing protocols, and the keychains that they use themselves or inherit from their group and from the protocol.

use std::collections::HashMap;

use cidr::IpCidr;

use super::file::{Neighbor, Remark};
use super::tree::{Word, unescaped};

/// How many groups and templates a neighbor may inherit from.
pub(super) const MAX_GROUPS: usize = 16;

/// The first value that `has` finds: in the neighbor itself, then in the first of its `groups` and everything that this group inherits
/// from, then in the next group. An error if there are more than [`MAX_GROUPS`], as when groups refer to each other in a circle.
pub(super) fn inherited<I, T>(
    neighbor: I,
    has: impl Fn(&I) -> Option<T>,
    groups: impl Fn(&I) -> [Option<I>; 2],
) -> Result<Option<T>, String> {
    let mut open = vec![neighbor];
    for _ in 0..=MAX_GROUPS {
        let Some(subject) = open.pop() else { return Ok(None) };
        if let Some(found) = has(&subject) {
            return Ok(Some(found));
        }
        open.extend(groups(&subject).into_iter().rev().flatten());
    }
    match open.is_empty() {
        true => Ok(None),
        false => {
            Err(format!("its groups use more than {MAX_GROUPS} others: whether it uses TCP-AO is not known"))
        }
    }
}

/// The peers of routing protocols.
#[derive(Default)]
pub(super) struct Peers<'a> {
    protocols: Vec<Protocol<'a>>,
    /// By protocol and VRF.
    by_vrf: HashMap<(&'static str, Option<&'a str>), usize>,
}

/// What a statement says about peers.
pub(super) struct Use<'a> {
    pub(super) protocol: &'static str,
    /// `None` for the router's main routing table.
    pub(super) vrf: Option<Word<'a>>,
    /// The peer's group, or without a peer the group that the statement is about.
    pub(super) group: Option<Word<'a>>,
    /// An address or a prefix; without it, the statement is about the group, or without a group about the protocol.
    pub(super) peer: Option<Word<'a>>,
    pub(super) keychain: Option<Word<'a>>,
}

/// A protocol of one VRF.
struct Protocol<'a> {
    vrf: Option<String>,
    keychain: Option<Word<'a>>,
    groups: HashMap<&'a str, Word<'a>>,
    peers: Vec<Peer<'a>>,
    by_address: HashMap<&'a str, usize>,
}

struct Peer<'a> {
    address: Word<'a>,
    group: Option<Word<'a>>,
    keychain: Option<Word<'a>>,
}

impl<'a> Peers<'a> {
    pub(super) fn add(&mut self, Use { protocol, vrf, group, peer, keychain }: Use<'a>) {
        if peer.is_none() && keychain.is_none() {
            return;
        }
        let index = *self.by_vrf.entry((protocol, vrf.as_ref().map(Word::text))).or_insert_with(|| {
            self.protocols.push(Protocol {
                vrf: vrf.map(|vrf| unescaped(&vrf).as_str().to_owned()),
                keychain: None,
                groups: HashMap::new(),
                peers: Vec::new(),
                by_address: HashMap::new(),
            });
            self.protocols.len() - 1
        });
        let protocol = &mut self.protocols[index];
        match (peer, group) {
            (Some(address), group) => {
                let peers = &mut protocol.peers;
                let index = *protocol.by_address.entry(address.text()).or_insert_with(|| {
                    peers.push(Peer { address, group: None, keychain: None });
                    peers.len() - 1
                });
                let peer = &mut peers[index];
                peer.group = group.or(peer.group);
                peer.keychain = keychain.or(peer.keychain);
            }
            (None, Some(group)) => protocol.groups.extend(keychain.map(|keychain| (group.text(), keychain))),
            (None, None) => protocol.keychain = keychain,
        }
    }

    /// The neighbors of each keychain, by the keychain's name, and a remark for each peer that is not understood.
    pub(super) fn by_keychain(self) -> (HashMap<String, Vec<Neighbor>>, Vec<Remark>) {
        let (mut users, mut remarks) = (HashMap::<_, Vec<_>>::new(), Vec::new());
        for protocol in self.protocols {
            for Peer { address, group, keychain } in protocol.peers {
                let of_group = || protocol.groups.get(group?.text()).copied();
                let Some(keychain) = keychain.or_else(of_group).or(protocol.keychain) else { continue };
                match read_address(address.text()) {
                    Some((address, interface)) => {
                        let neighbor = Neighbor { vrf: protocol.vrf.clone(), address, interface };
                        users.entry(unescaped(&keychain).as_str().to_owned()).or_default().push(neighbor);
                    }
                    None => remarks.push(Remark::not_understood(address.position())),
                }
            }
        }
        (users, remarks)
    }
}

/// Reads an address or a prefix; link-local ones have `-INTERFACE` or `%INTERFACE`.
fn read_address(text: &str) -> Option<(IpCidr, Option<String>)> {
    if let Ok(address) = text.parse() {
        return Some((address, None));
    }
    let (address, interface) = text.split_once(['-', '%'])?;
    Some((address.parse().ok()?, Some(interface.to_owned())))
}
