//! A segment that failed, and what its MAC is compared with.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::ops::Range;
use std::rc::Rc;

use wireseal_tcp_ao::option::TCP_HEADER_LENGTH;
use wireseal_tcp_ao::{
    AoOption, Endpoint, Isn, KdfContext, MacInput, Mkt, OptionCoverage, Segment, Sne, TrafficKey,
};

use super::hypothesis::{Change, Hypothesis, Relation, ShiftForm};
use crate::capture::Place;
use crate::verify::connection::TcpConnection;
use crate::verify::key_table::{Candidate, KeyTable};
use crate::verify::report::Sender;

/// Octets of the shortest MAC that proves a hypothesis; shorter ones match by chance.
pub(super) const LEAST_MAC: usize = 4;
/// What a traffic key of a case depends on: the index of the key, and the change if it alters the key.
type KeyBasis = (u32, Option<Change>);

/// A segment that failed.
pub(super) struct Case<'c, 'k> {
    pub(super) connection: &'c TcpConnection,
    pub(super) table: &'c KeyTable<'k>,
    pub(super) place: Place,
    pub(super) sender: Sender,
    pub(super) segment: &'c Segment<'c>,
    pub(super) ao: AoOption<'c>,
    /// What its traffic key is derived from.
    pub(super) context: KdfContext,
    pub(super) sne: Sne,
    /// MACs computed so far.
    pub(super) tries: Cell<u64>,
    /// The traffic key that was derived last, with its input: consecutive hypotheses often share it.
    pub(super) last_key: RefCell<Option<(KeyBasis, Rc<TrafficKey>)>>,
}

impl<'c> Case<'c, '_> {
    /// How a key is related to the segment's KeyID.
    pub(super) fn relation(&self, candidate: Candidate) -> Relation {
        let parameters = self.table.parameters(candidate);
        if candidate.serves(self.table, self.connection.configured_end, self.sender, self.ao.key_id) {
            Relation::Named
        } else if [parameters.send_id, parameters.recv_id].contains(&self.ao.key_id) {
            Relation::Exchanged
        } else {
            Relation::Other
        }
    }

    /// The connection's keys with this relation to the segment, unchanged.
    pub(super) fn keys(&self, relation: Relation) -> impl Iterator<Item = Hypothesis> {
        let candidates = self.connection.candidates.iter();
        let related = candidates.filter(move |candidate| self.relation(**candidate) == relation);
        related.map(move |candidate| Hypothesis::new(*candidate, relation))
    }

    /// The traffic key under a hypothesis; `None` where the hypothesis changes nothing or makes no key.
    pub(super) fn key(&self, hypothesis: &Hypothesis) -> Option<Rc<TrafficKey>> {
        let alters_key = |change: &Change| {
            matches!(
                change,
                Change::Algorithm(_)
                    | Change::Secret(_)
                    | Change::AlgorithmAndSecret(..)
                    | Change::Nat(_)
                    | Change::Shift(_)
            )
        };
        let basis = (hypothesis.candidate.key, hypothesis.change.filter(alters_key));
        let mut last = self.last_key.borrow_mut();
        if last.as_ref().is_none_or(|(known, _)| *known != basis) {
            *last = Some((basis, Rc::new(self.derive(hypothesis)?)));
        }
        last.as_ref().map(|(_, key)| Rc::clone(key))
    }

    fn derive(&self, hypothesis: &Hypothesis) -> Option<TrafficKey> {
        let parameters = self.table.parameters(hypothesis.candidate);
        let mut master_key = self.table.master_key(hypothesis.candidate).clone();
        let mut context = self.context;
        match hypothesis.change {
            Some(Change::Algorithm(algorithm) | Change::AlgorithmAndSecret(algorithm, _))
                if algorithm == parameters.algorithm =>
            {
                return None;
            }
            Some(Change::Secret(form) | Change::AlgorithmAndSecret(_, form)) => {
                master_key = form.of(master_key.expose_secret(), hypothesis.algorithm(parameters))?;
            }
            Some(Change::Shift(form)) => {
                [context.source_isn, context.destination_isn] = self.shifted(form)?.isns;
            }
            Some(Change::Nat(hint)) => {
                [context.source, context.destination] = self.translated(hint);
                if context == self.context {
                    return None;
                }
            }
            _ => {}
        }
        let algorithm = hypothesis.algorithm(parameters);
        let (send_id, recv_id) = (parameters.send_id, parameters.recv_id);
        let mkt = Mkt::with_short_master_key(send_id, recv_id, algorithm, master_key).ok()?;
        Some(TrafficKey::derive(&mkt, &context))
    }

    /// Whether the MAC covers the options under a hypothesis.
    pub(super) fn options(&self, hypothesis: &Hypothesis) -> OptionCoverage {
        match (self.table.parameters(hypothesis.candidate).options, hypothesis.flips_options) {
            (OptionCoverage::Covered, false) | (OptionCoverage::Excluded, true) => OptionCoverage::Covered,
            (OptionCoverage::Excluded, false) | (OptionCoverage::Covered, true) => OptionCoverage::Excluded,
        }
    }

    /// Whether the received MAC is that of these octets between the segment's addresses.
    pub(super) fn matches(&self, key: &TrafficKey, sne: Sne, tcp: &[u8], options: OptionCoverage) -> bool {
        let addresses = (self.segment.source_address(), self.segment.destination_address());
        self.matches_between(addresses, key, sne, tcp, options)
    }

    pub(super) fn matches_between(
        &self,
        (source, destination): (IpAddr, IpAddr),
        key: &TrafficKey,
        sne: Sne,
        tcp: &[u8],
        options: OptionCoverage,
    ) -> bool {
        let Ok(segment) = Segment::from_tcp(source, destination, tcp) else { return false };
        let Ok(input) = segment.mac_input(sne, options) else { return false };
        self.count_try() && input.mac(key).verify(self.ao.mac).is_ok()
    }

    /// Whether the received MAC is that of this input, made from the usual one.
    pub(super) fn matches_input(
        &self,
        key: &TrafficKey,
        options: OptionCoverage,
        of: impl FnOnce(&MacInput<'_>) -> Option<Vec<u8>>,
    ) -> bool {
        let Ok(input) = self.segment.mac_input(self.sne, options) else { return false };
        let Some(octets) = of(&input) else { return false };
        self.count_try() && key.mac_key().verify(&[&octets], self.ao.mac).is_ok()
    }

    /// The numbers of the segment before a device shifted them, by the ISNs of `--isn`; `None` without these, or if nothing differs.
    pub(super) fn shifted(&self, form: ShiftForm) -> Option<Shifted> {
        let ends = &self.connection.ends;
        let given = self.table.given_isns(ends)?;
        let KdfContext { source_isn, destination_isn, .. } = self.context;
        let shift = |sender: Sender, seen: Isn, applies: bool| {
            if applies { given[sender as usize].0.wrapping_sub(seen.0) } else { 0 }
        };
        let has_other = self.segment.flags().ack();
        let own = shift(self.sender, source_isn, form.of_sender);
        let other = shift(self.sender.other(), destination_isn, form.of_receiver && has_other);
        if form.of_sender != (own != 0) || form.of_receiver != (other != 0) {
            return None;
        }
        let isns = [Isn(source_isn.0.wrapping_add(own)), Isn(destination_isn.0.wrapping_add(other))];
        // How far the segment is from its ISN does not change.
        let sequence = u64::from(self.sne.0) << 32 | u64::from(self.segment.sequence().0);
        let sequence = sequence.wrapping_sub(source_isn.0.into()).wrapping_add(isns[0].0.into());
        Some(Shifted {
            isns,
            sne: Sne((sequence >> 32) as u32),
            sequence: sequence as u32,
            acknowledgment: self.segment.acknowledgment().0.wrapping_add(other),
        })
    }

    /// Where in the segment the contents of its option of this kind are.
    pub(super) fn option_place(&self, kind: u8) -> Option<Range<usize>> {
        let option = self.segment.options().flatten().find(|option| option.kind == kind)?;
        let start = TCP_HEADER_LENGTH + option.offset + 2;
        (!option.data.is_empty()).then_some(start..start + option.data.len())
    }

    /// Counts a try; `false` if the received MAC is too short to prove anything.
    fn count_try(&self) -> bool {
        self.tries.set(self.tries.get() + 1);
        self.ao.mac.len() >= LEAST_MAC
    }

    /// Source and destination on the other side of one translation, or of all of them.
    pub(super) fn translated(&self, hint: Option<usize>) -> [Endpoint; 2] {
        let hints = self.table.nat(hint);
        [self.context.source, self.context.destination]
            .map(|end| hints.iter().find_map(|hint| hint.other_side(&end)).unwrap_or(end))
    }
}

/// A segment's numbers before they were shifted.
pub(super) struct Shifted {
    /// The sender's and the receiver's.
    pub(super) isns: [Isn; 2],
    pub(super) sne: Sne,
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
}
