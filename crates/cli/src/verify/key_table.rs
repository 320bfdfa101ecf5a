//! The keys, arranged for judging segments.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use cidr::IpCidr;
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
    pub(super) options: VerifyOptions,
    /// Which hints of the options are about a connection of the capture.
    used_isns: Box<[AtomicBool]>,
    used_nat: Box<[AtomicBool]>,
}

#[derive(Debug)]
struct Row {
    parameters: MktParameters,
    /// The accept lifetime with its tolerance; `None` for always.
    acceptance: Option<Lifetime>,
}

/// A key that may belong to a connection.
#[derive(Clone, Copy, Debug)]
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
        let unused = |hints: usize| (0..hints).map(|_| AtomicBool::new(false)).collect();
        Self {
            keys,
            rows: keys.keys.iter().map(row).collect(),
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
    pub(super) fn candidates(&self, ends: &[Endpoint; 2]) -> Box<[Candidate]> {
        for (hint, used) in self.options.nat.iter().zip(&self.used_nat) {
            if ends.iter().any(|end| hint.other_side(end).is_some()) {
                used.store(true, Relaxed);
            }
        }
        let is_of = |peer: IpCidr, end: &Endpoint| {
            let mut other_sides = self.options.nat.iter().filter_map(|hint| hint.other_side(end));
            peer.contains(&end.address()) || other_sides.any(|end| peer.contains(&end.address()))
        };
        let candidate = |(index, key): (usize, &ConfiguredKey)| {
            let configured_at = match key.peer {
                None => None,
                Some(peer) => match ends.each_ref().map(|end| is_of(peer, end)) {
                    [false, false] => return None,
                    // The peer is the listener, so the key is the opener's.
                    [false, true] => Some(Sender::Opener),
                    [true, false] => Some(Sender::Listener),
                    [true, true] => None,
                },
            };
            Some(Candidate { key: index as u32, configured_at })
        };
        self.keys.keys.iter().enumerate().filter_map(candidate).collect()
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
