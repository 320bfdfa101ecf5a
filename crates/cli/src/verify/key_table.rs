//! The keys, arranged for judging segments.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use cidr::{IpCidr, IpInet};
use foldhash::fast::RandomState;
use wireseal_keys::Lifetime;
use wireseal_tcp_ao::{Endpoint, Isn, KdfContext, KeyId, MasterKey, Mkt, MktParameters, TrafficKey};

use super::options::{NatHint, VerifyOptions};
use super::report::Sender;
use crate::capture::Place;
use crate::keys::{ConfiguredKey, Keys};

/// All keys, with the fields that every segment needs side by side, and the options of the command line.
#[derive(Debug)]
pub(super) struct KeyTable<'k> {
    keys: &'k Keys,
    rows: Vec<Row>,
    /// The keys without a peer.
    of_any: Candidates,
    /// The keys of each peer, in the order given.
    of_peers: HashMap<IpCidr, Vec<u32>, RandomState>,
    /// The lengths of the peers' prefixes.
    prefix_lengths: Vec<u8>,
    /// What connections share.
    shared: HashSet<Candidates, RandomState>,
    pub(super) options: VerifyOptions,
    /// Which hints of the options are about a connection of the capture.
    used_isns: Box<[AtomicBool]>,
    used_nat: Box<[AtomicBool]>,
}

/// The keys that may belong to a connection. Connections with the same ones share them.
pub(super) type Candidates = Arc<Vec<Candidate>>;

/// From how many lists of candidates on those without a connection are looked for, to be dropped.
const SHARED: usize = 1 << 10;

#[derive(Debug)]
struct Row {
    parameters: MktParameters,
    /// The accept lifetime with its tolerance; `None` for always.
    acceptance: Option<Lifetime>,
}

/// A key that may belong to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Candidate {
    /// Its index in [`Keys`].
    pub(super) key: u32,
    /// The end it is configured at, if its peer shows that.
    configured_at: Option<Sender>,
}

impl<'k> KeyTable<'k> {
    pub(super) fn new(keys: &'k Keys, options: VerifyOptions) -> Self {
        let row = |key: &ConfiguredKey| {
            let acceptance = key.key.accept_lifetime().widened_by(key.accept_tolerance);
            Row {
                parameters: *key.key.mkt().parameters(),
                acceptance: (acceptance != Lifetime::ALWAYS).then_some(acceptance),
            }
        };
        let (mut of_any, mut of_peers) = (Vec::new(), HashMap::<_, Vec<u32>, _>::default());
        for (index, key) in (0..).zip(&keys.keys) {
            match key.peer {
                None => of_any.push(Candidate { key: index, configured_at: None }),
                Some(peer) => of_peers.entry(peer).or_default().push(index),
            }
        }
        let mut prefix_lengths: Vec<u8> = of_peers.keys().map(IpCidr::network_length).collect();
        prefix_lengths.sort_unstable();
        prefix_lengths.dedup();
        let unused = |hints: usize| (0..hints).map(|_| AtomicBool::new(false)).collect();
        Self {
            keys,
            rows: keys.keys.iter().map(row).collect(),
            of_any: Arc::new(of_any),
            of_peers,
            prefix_lengths,
            shared: HashSet::default(),
            used_isns: unused(options.isns.len()),
            used_nat: unused(options.nat.len()),
            options,
        }
    }

    /// The ISNs that `--isn` gives for a connection between these ends.
    pub(super) fn given_isns(&self, ends: &[Endpoint; 2]) -> Option<[Isn; 2]> {
        let mut hints = self.options.isns.iter().zip(&self.used_isns);
        hints.find_map(|(hint, used)| hint.isns(ends).inspect(|_| used.store(true, Relaxed)))
    }

    /// The hints that are about no connection of the capture, as written on the command line.
    pub(super) fn unused_hints(&self) -> Vec<String> {
        let is_unused = |used: &AtomicBool| !used.load(Relaxed);
        let isns = self.options.isns.iter().zip(&self.used_isns);
        let isns = isns.filter(|(_, used)| is_unused(used)).map(|(hint, _)| format!("--isn {hint}"));
        let nat = self.options.nat.iter().zip(&self.used_nat);
        let nat = nat.filter(|(_, used)| is_unused(used)).map(|(hint, _)| format!("--nat {hint}"));
        isns.chain(nat).collect()
    }

    /// One translation of addresses on the path, or all of them.
    pub(super) fn nat(&self, hint: Option<usize>) -> &[NatHint] {
        let nat = &self.options.nat;
        hint.map_or(nat, |hint| nat.get(hint..=hint).unwrap_or_default())
    }

    /// The keys that may belong to a connection between these ends, in the order given. A key's peer may be the address of an
    /// end on the other side of a translation.
    pub(super) fn candidates(&mut self, ends: &[Endpoint; 2]) -> Candidates {
        for (hint, used) in self.options.nat.iter().zip(&self.used_nat) {
            if ends.iter().any(|end| hint.other_side(end).is_some()) {
                used.store(true, Relaxed);
            }
        }
        let mut found = Vec::new();
        // If the peer is the listener, the key is the opener's.
        for (end, configured_at) in ends.iter().zip([Sender::Listener, Sender::Opener]) {
            let other_sides = self.options.nat.iter().filter_map(|hint| hint.other_side(end));
            for side in [*end].into_iter().chain(other_sides) {
                let keys =
                    self.peers_of(side.address()).filter_map(|peer| self.of_peers.get(&peer)).flatten();
                found.extend(keys.map(|key| Candidate { key: *key, configured_at: Some(configured_at) }));
            }
        }
        if found.is_empty() {
            return Arc::clone(&self.of_any);
        }
        found.extend_from_slice(&self.of_any);
        found.sort_by_key(|candidate| candidate.key);
        found.dedup_by(|again, before| {
            let is_same = again.key == before.key;
            if is_same && again.configured_at != before.configured_at {
                before.configured_at = None;
            }
            is_same
        });
        if let Some(known) = self.shared.get(&found) {
            return Arc::clone(known);
        }
        if self.shared.len() >= SHARED && self.shared.len() == self.shared.capacity() {
            self.shared.retain(|list| Arc::strong_count(list) > 1);
        }
        let list = Arc::new(found);
        self.shared.insert(Arc::clone(&list));
        list
    }

    /// The peers that an address may be given as.
    fn peers_of(&self, address: IpAddr) -> impl Iterator<Item = IpCidr> {
        self.prefix_lengths
            .iter()
            .filter_map(move |length| Some(IpInet::new(address, *length).ok()?.network()))
    }

    /// Everything about a candidate except its secret.
    pub(super) fn parameters(&self, candidate: Candidate) -> &MktParameters {
        &self.rows[candidate.key as usize].parameters
    }

    pub(super) fn master_key(&self, candidate: Candidate) -> &'k MasterKey {
        self.mkt(candidate).master_key()
    }

    fn mkt(&self, candidate: Candidate) -> &'k Mkt {
        self.keys.keys[candidate.key as usize].key.mkt()
    }

    pub(super) fn name(&self, key: usize) -> &'k str {
        &self.keys.keys[key].name
    }

    /// The candidate's traffic key in this context.
    pub(super) fn derive(&self, candidate: Candidate, context: &KdfContext) -> TrafficKey {
        TrafficKey::derive(self.mkt(candidate), context)
    }

    /// Whether a segment recorded here is outside the key's accept lifetime.
    pub(super) fn is_outside_lifetime(&self, key: usize, place: &Place) -> bool {
        match (&self.rows[key].acceptance, place.time) {
            (Some(acceptance), Some(time)) => !acceptance.contains(time.timestamp()),
            _ => false,
        }
    }
}

impl Candidate {
    /// The end the key is configured at: as its peer shows, or else the connection's.
    pub(super) fn configured_at(self, connection: Option<Sender>) -> Option<Sender> {
        self.configured_at.or(connection)
    }

    /// Whether `key_id` in a segment of `sender` names this key, given the end that the connection's keys are configured at, if
    /// known. That end sends the key's SendID, its peer the RecvID.
    #[inline]
    pub(super) fn serves(
        self,
        table: &KeyTable<'_>,
        connection: Option<Sender>,
        sender: Sender,
        key_id: KeyId,
    ) -> bool {
        let MktParameters { send_id, recv_id, .. } = *table.parameters(self);
        match self.configured_at(connection) {
            Some(end) if end == sender => key_id == send_id,
            Some(_) => key_id == recv_id,
            None => key_id == send_id || key_id == recv_id,
        }
    }
}
