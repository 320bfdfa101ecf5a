//! Keys that share an id at the same time.

use std::ptr;

use super::finding::Findings;
use crate::keys::{Chain, ChainKey};

/// Looks for keys of one peer that share an id while both are accepted; `before` are the chains before this one.
pub(super) fn check(findings: &mut Findings, before: &[Chain], chain: &Chain) {
    let of_peer = before.iter().filter(|other| other.peers.iter().any(|peer| chain.peers.contains(peer)));
    let of_peer: Vec<_> = of_peer.flat_map(|chain| chain.keys.iter().map(move |key| (chain, key))).collect();
    for (index, key) in chain.keys.iter().enumerate() {
        let in_chain = chain.keys[..index].iter().map(|other| (chain, other));
        for (other_chain, other) in in_chain.chain(of_peer.iter().copied()) {
            let overlaps = other_chain.acceptance(other).overlaps(&chain.acceptance(key));
            let shared = shared_ids(key, other);
            if let (Some(ids), true) = (shared, overlaps) {
                let name = other_chain.name_of(other);
                let place = other.position.map(|at| format!(" (line {})", at.line)).unwrap_or_default();
                let sentence = format!(
                    "shares {ids} with {name}{place} while both are accepted, which RFC 5925 §3.1 forbids: a segment's KeyID has \
                     to name one key"
                );
                findings.warn("ids-collide", chain, Some(key), sentence);
            } else if ptr::eq(other_chain, chain) && other.key_id == key.key_id {
                let sentence = format!("another key of the chain has number {}", key.key_id);
                findings.warn("key-id-twice", chain, Some(key), sentence);
            }
        }
    }
}

fn shared_ids(key: &ChainKey, other: &ChainKey) -> Option<String> {
    match (key.send_id == other.send_id, key.recv_id == other.recv_id) {
        (true, true) => Some(format!("SendID {} and RecvID {}", key.send_id, key.recv_id)),
        (true, false) => Some(format!("SendID {}", key.send_id)),
        (false, true) => Some(format!("RecvID {}", key.recv_id)),
        (false, false) => None,
    }
}
