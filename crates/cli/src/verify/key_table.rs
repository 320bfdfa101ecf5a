//! The keys as segments are judged with them.

use cidr::IpCidr;
use wireseal_tcp_ao::key_chain::Lifetime;
use wireseal_tcp_ao::{Endpoint, KdfContext, KeyId, MktParameters, TrafficKey};

use super::hints::NatHint;
use super::report::{Place, Sender};
use crate::keys::Keys;

/// All keys, with what each segment needs of them side by side.
#[derive(Debug)]
pub(super) struct KeyTable<'k> {
    keys: &'k Keys,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    parameters: MktParameters,
    /// With the tolerance; `None` if it is always.
    acceptance: Option<Lifetime>,
}

/// A key that may be for a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Its place in [`Keys`].
    pub(super) key: u32,
    /// The end that it is configured at, if its peer says which.
    configured_at: Option<Sender>,
}

impl<'k> KeyTable<'k> {
    pub(super) fn new(keys: &'k Keys) -> Self {
        let row = |key: &crate::keys::ConfiguredKey| {
            let acceptance = key.key.accept_lifetime().widened_by(key.accept_tolerance);
            Row {
                parameters: *key.key.mkt().parameters(),
                acceptance: (acceptance != Lifetime::ALWAYS).then_some(acceptance),
            }
        };
        Self { keys, rows: keys.keys.iter().map(row).collect() }
    }

    /// The keys that may be for a connection between these ends, in the order in which they were given. A key's peer may be
    /// what an end is called on the other side of a translation.
    pub(super) fn candidates(&self, ends: &[Endpoint; 2], nat: &[NatHint]) -> Box<[Candidate]> {
        let is_of = |peer: IpCidr, end: &Endpoint| {
            let other_side = nat.iter().filter_map(|hint| hint.other_side(end));
            peer.contains(&end.address()) || other_side.into_iter().any(|end| peer.contains(&end.address()))
        };
        let candidate = |(place, key): (usize, &crate::keys::ConfiguredKey)| {
            let configured_at = match key.peer {
                None => None,
                Some(peer) => match ends.each_ref().map(|end| is_of(peer, end)) {
                    [false, false] => return None,
                    // Its peer is the listener, so the opener has it.
                    [false, true] => Some(Sender::Opener),
                    [true, false] => Some(Sender::Listener),
                    [true, true] => None,
                },
            };
            Some(Candidate { key: place as u32, configured_at })
        };
        self.keys.keys.iter().enumerate().filter_map(candidate).collect()
    }

    /// What a candidate says apart from its secret.
    pub(super) fn parameters(&self, candidate: Candidate) -> &MktParameters {
        &self.rows[candidate.key as usize].parameters
    }

    /// The secret of a candidate.
    pub(super) fn master_key(&self, candidate: Candidate) -> &'k wireseal_tcp_ao::MasterKey {
        self.keys.keys[candidate.key as usize].key.mkt().master_key()
    }

    /// What reports call a candidate.
    pub(super) fn name(&self, candidate: Candidate) -> &'k str {
        &self.keys.keys[candidate.key as usize].name
    }

    /// The candidate's traffic key in this context.
    pub(super) fn derive(&self, candidate: Candidate, context: &KdfContext) -> TrafficKey {
        TrafficKey::derive(self.parameters(candidate).algorithm, self.master_key(candidate), context)
    }

    /// Whether a segment recorded here lies outside the candidate's accept lifetime.
    pub(super) fn is_outside_lifetime(&self, key: usize, place: &Place) -> bool {
        match (&self.rows[key].acceptance, place.time) {
            (Some(acceptance), Some(time)) => !acceptance.contains(time.timestamp()),
            _ => false,
        }
    }
}

impl Candidate {
    /// The end that the key is configured at: its own, if it says so, else the connection's.
    pub(super) fn configured_at(self, connection: Option<Sender>) -> Option<Sender> {
        self.configured_at.or(connection)
    }

    /// The ids under which a sender may use the key, in a connection whose configured end is known or not: the end it is
    /// configured at sends its SendID, the peer its RecvID.
    pub(super) fn ids(
        self,
        parameters: &MktParameters,
        connection: Option<Sender>,
        sender: Sender,
    ) -> [KeyId; 2] {
        match self.configured_at(connection) {
            Some(end) if end == sender => [parameters.send_id; 2],
            Some(_) => [parameters.recv_id; 2],
            None => [parameters.send_id, parameters.recv_id],
        }
    }

    /// Whether the key is one that this sender names so.
    #[inline]
    pub(super) fn serves(
        self,
        table: &KeyTable<'_>,
        connection: Option<Sender>,
        sender: Sender,
        key_id: KeyId,
    ) -> bool {
        self.ids(table.parameters(self), connection, sender).contains(&key_id)
    }
}
