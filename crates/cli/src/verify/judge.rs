//! The verdict on one segment.
//!
//! The MACs of several segments are computed side by side before the segments are judged, which is faster than one after the other. A
//! MAC depends on key, ISNs, SNE and segment. It is computed with the connection's present values, and used only if they are still the
//! same when it is the segment's turn. Otherwise it is computed again, so only the time differs.

use wireseal_mac::{Mac, MessageHead, mac_batch};
use wireseal_tcp_ao::option::{TCP_HEADER_LENGTH, kind};
use wireseal_tcp_ao::{
    AoOption, FieldName, Isn, KdfContext, OptionError, Segment, SeqNum, Sne, SneTracker, TrafficKey,
    verify_segment,
};

use super::connection::TcpConnection;
use super::key_table::{Candidate, KeyTable};
use super::report::{IsnSource, Sender, Verdict};
use super::traffic_keys::{Owner, TrafficKeys};
use crate::capture::{CapturedSegment, Place};

/// A verdict and what it is based on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    /// The SNE the MAC was checked with.
    pub(super) sne: Option<Sne>,
    /// The key that verified.
    pub(super) candidate: Option<Candidate>,
}

impl Judgement {
    const fn without_mac(verdict: Verdict) -> Self {
        Self { verdict, sne: None, candidate: None }
    }

    const fn of_mac(candidate: Option<Candidate>, sne: Sne) -> Self {
        let verdict = if candidate.is_some() { Verdict::Good } else { Verdict::BadMac };
        Self { verdict, sne: Some(sne), candidate }
    }
}

/// Judges a segment. Changes only the connection's traffic keys, ISNs or an SNE that were guessed and proved right, and a SYN that was
/// proved to be of another connection.
#[inline]
pub(super) fn judge(
    connection: &mut TcpConnection,
    table: &KeyTable<'_>,
    keys: &mut TrafficKeys,
    sender: Sender,
    observed: &ObservedSegment<'_>,
    batched: Option<BatchedMac<'_>>,
) -> Judgement {
    if observed.has_part_of_header {
        return Judgement::without_mac(Verdict::CutOff);
    }
    if let Some(error) = observed.odd_end {
        return judge_with_odd_end(connection, table, keys, sender, observed, error);
    }
    judge_option(connection, table, keys, sender, observed, batched)
}

/// Judges a segment whose options end with octets that are no padding. Only if the MAC verifies is it more than malformed.
#[cold]
fn judge_with_odd_end(
    connection: &mut TcpConnection,
    table: &KeyTable<'_>,
    keys: &mut TrafficKeys,
    sender: Sender,
    observed: &ObservedSegment<'_>,
    error: OptionError,
) -> Judgement {
    let judgement = judge_option(connection, table, keys, sender, observed, None);
    match judgement.verdict {
        Verdict::BadMac | Verdict::UnknownKeyId => Judgement::without_mac(Verdict::MalformedOption(error)),
        _ => judgement,
    }
}

#[inline]
fn judge_option(
    connection: &mut TcpConnection,
    table: &KeyTable<'_>,
    keys: &mut TrafficKeys,
    sender: Sender,
    observed: &ObservedSegment<'_>,
    batched: Option<BatchedMac<'_>>,
) -> Judgement {
    let ao = match &observed.ao {
        Ok(Some(ao)) => ao,
        Ok(None) => return Judgement::without_mac(Verdict::NoOption),
        Err(OptionError::TwoAoOptions) => return Judgement::without_mac(Verdict::TwoOptions),
        Err(error) => return Judgement::without_mac(Verdict::MalformedOption(*error)),
    };
    let mut judge = Judge {
        connection,
        table,
        keys,
        sender,
        segment: observed.segment,
        ao,
        batched,
        odd_end: observed.odd_end,
    };
    if !judge.is_known_key_named() && !judge.connection.candidates.iter().any(|key| judge.serves(*key)) {
        return Judgement::without_mac(Verdict::UnknownKeyId);
    }
    if observed.missing > 0 {
        return Judgement::without_mac(Verdict::CutOff);
    }
    judge.with_known_key()
}

/// A segment with a TCP-AO option, and the keys that may have signed it.
struct Judge<'j, 'k> {
    connection: &'j mut TcpConnection,
    table: &'j KeyTable<'k>,
    keys: &'j mut TrafficKeys,
    sender: Sender,
    segment: &'j Segment<'j>,
    ao: &'j AoOption<'j>,
    batched: Option<BatchedMac<'j>>,
    odd_end: Option<OptionError>,
}

impl Judge<'_, '_> {
    /// Whether the segment names this key.
    #[inline]
    fn serves(&self, candidate: Candidate) -> bool {
        candidate.serves(self.table, self.connection.configured_end, self.sender, self.ao.key_id)
    }

    /// The direction's traffic key, if it is kept.
    #[inline]
    fn known(&self) -> Option<&(Candidate, TrafficKey)> {
        let owner = Owner::new(self.connection.number, self.sender);
        self.keys.get(self.connection.direction(self.sender).traffic_key, owner)
    }

    /// Whether the segment names the key that verified the ones before.
    #[inline]
    fn is_known_key_named(&self) -> bool {
        self.known().is_some_and(|(candidate, _)| self.serves(*candidate))
    }

    fn serving(&self) -> impl Iterator<Item = Candidate> {
        self.connection.candidates.iter().copied().filter(|candidate| self.serves(*candidate))
    }

    #[inline]
    fn verifies(&self, candidate: Candidate, key: &TrafficKey, sne: Sne) -> bool {
        match self.odd_end {
            None => verify_segment(key, sne, self.table.parameters(candidate), self.segment).is_ok(),
            Some(error) => self.verifies_with_odd_end(candidate, key, sne, error).unwrap_or(false),
        }
    }

    /// As [`verifies`](Self::verifies), with octets behind the option that cannot be read, but that the MAC covers with the options.
    #[cold]
    fn verifies_with_odd_end(
        &self,
        candidate: Candidate,
        key: &TrafficKey,
        sne: Sne,
        error: OptionError,
    ) -> Option<bool> {
        let OptionError::BadLength { offset, .. } = error else { return None };
        let (parameters, segment) = (self.table.parameters(candidate), self.segment);
        let mut tcp = segment.tcp().to_vec();
        tcp[TCP_HEADER_LENGTH + offset..segment.header().len()].fill(kind::NO_OPERATION);
        let (source, destination) = (segment.source_address(), segment.destination_address());
        let padded = Segment::from_tcp(source, destination, &tcp).ok()?;
        let behind = &segment.option_octets()[self.ao.offset + self.ao.length()..];
        let mut octets = Vec::with_capacity(tcp.len());
        for field in padded.mac_input(sne, parameters.options).ok()?.fields() {
            let is_behind = field.name == FieldName::OptionsAfterAo;
            octets.extend_from_slice(if is_behind { behind } else { field.as_ref() });
        }
        let has_length = self.ao.mac.len() == parameters.mac_length();
        Some(has_length && key.mac_key().verify(&[&octets], self.ao.mac).is_ok())
    }

    /// As [`verifies`](Self::verifies), but uses the MAC computed ahead if its key, ISNs and SNE are the same.
    #[inline]
    fn verifies_batched(&self, key: &TrafficKey, candidate: Candidate, isns: [Isn; 2], sne: Sne) -> bool {
        match self.batched.and_then(|batched| batched.of(&Basis { key: candidate.key, isns, sne })) {
            Some(mac) => mac.verify(self.ao.mac).is_ok(),
            None => self.verifies(candidate, key, sne),
        }
    }

    /// The usual case: both ISNs are known, and so is the traffic key.
    #[inline]
    fn with_known_key(&mut self) -> Judgement {
        let [own, other] = [self.sender, self.sender.other()].map(|end| self.connection.isn(end));
        let tracker = self.connection.direction(self.sender).tracker();
        let (false, Some(tracker), Some(own), Some(other)) =
            (self.segment.flags().syn(), tracker, own, other)
        else {
            return self.in_handshake();
        };
        let sne = tracker.sne_of(self.segment.sequence());
        match self.known() {
            Some((candidate, key))
                if self.serves(*candidate) && self.verifies_batched(key, *candidate, [own, other], sne) =>
            {
                Judgement::of_mac(Some(*candidate), sne)
            }
            _ => self.with_other_keys(sne),
        }
    }

    /// No traffic key used so far verifies the segment: tries the other keys, then other SNEs.
    #[inline(never)]
    fn with_other_keys(&mut self, sne: Sne) -> Judgement {
        let Some(context) = self.connection.context(self.sender, self.segment) else {
            return Judgement::without_mac(Verdict::IsnNotSeen);
        };
        let serving: Vec<_> = self.serving().collect();
        for &candidate in &serving {
            if self.known().is_some_and(|(known, _)| known.key == candidate.key) {
                continue;
            }
            let key = self.table.derive(candidate, &context);
            let is_good = self.verifies(candidate, &key, sne);
            if is_good || self.known().is_none() {
                let owner = Owner::new(self.connection.number, self.sender);
                let slot = &mut self.connection.direction_mut(self.sender).traffic_key;
                self.keys.keep(slot, owner, candidate, key);
            }
            if is_good {
                return Judgement::of_mac(Some(candidate), sne);
            }
        }
        if self.connection.direction(self.sender).sne_searches > 0 {
            self.connection.direction_mut(self.sender).sne_searches -= 1;
            for candidate in serving {
                let key = self.table.derive(candidate, &context);
                if let Some(sne) = (0..self.table.options.limits.snes)
                    .map(Sne)
                    .find(|sne| self.verifies(candidate, &key, *sne))
                {
                    let tracker = SneTracker::resume(sne, self.segment.sequence());
                    self.connection.direction_mut(self.sender).sne = Some(tracker);
                    return Judgement::of_mac(Some(candidate), sne);
                }
            }
        }
        Judgement::of_mac(None, sne)
    }

    /// An ISN is unknown, or the segment carries its own.
    #[inline(never)]
    fn in_handshake(&mut self) -> Judgement {
        let flags = self.segment.flags();
        if let Some(context) = self.connection.context(self.sender, self.segment) {
            let good = self.first_good(&context, Sne(0)).or_else(|| self.without_syn(context));
            return Judgement::of_mac(good, Sne(0));
        }
        // Right after the handshake the numbers follow the ISNs. Only a good MAC proves that guess.
        if self.connection.guesses > 0 && flags.ack() {
            self.connection.guesses -= 1;
            let before = |number: SeqNum| Isn(number.0.wrapping_sub(1));
            let (sender, receiver) = (self.sender, self.sender.other());
            let own = self.connection.isn(sender).unwrap_or(before(self.segment.sequence()));
            let other = self.connection.isn(receiver).unwrap_or(before(self.segment.acknowledgment()));
            let context = self.connection.context_of(sender, own, other);
            let sne = SneTracker::new(own).sne_of(self.segment.sequence());
            let good = self.first_good(&context, sne);
            if good.is_some() {
                let source = IsnSource::Inferred { is_confirmed: true };
                for (end, isn) in [(sender, own), (receiver, other)] {
                    self.connection.direction_mut(end).set_isn(isn, source);
                }
                return Judgement::of_mac(good, sne);
            }
        }
        Judgement::without_mac(Verdict::IsnNotSeen)
    }

    /// Tries a SYN-ACK without the SYN with payload that it seems to answer, and forgets that SYN if it was another one.
    fn without_syn(&mut self, mut context: KdfContext) -> Option<Candidate> {
        let flags = self.segment.flags();
        let before = Isn(self.segment.acknowledgment().0.wrapping_sub(1));
        if !flags.syn() || !flags.ack() || context.destination_isn == before {
            return None;
        }
        context.destination_isn = before;
        let good = self.first_good(&context, Sne(0))?;
        self.connection.direction_mut(self.sender.other()).opening_mut().syn = None;
        Some(good)
    }

    /// The first key that the segment names and that verifies it.
    fn first_good(&self, context: &KdfContext, sne: Sne) -> Option<Candidate> {
        self.serving()
            .find(|candidate| self.verifies(*candidate, &self.table.derive(*candidate, context), sne))
    }
}

pub(super) struct ObservedSegment<'a> {
    pub(super) place: Place,
    pub(super) segment: &'a Segment<'a>,
    pub(super) ao: Result<Option<AoOption<'a>>, OptionError>,
    /// What cannot be read in the few octets behind the option. They are no padding, but Linux does not look at them.
    pub(super) odd_end: Option<OptionError>,
    /// Octets of payload that the capture lacks.
    pub(super) missing: usize,
    /// Whether the header itself is cut off; what it lacks is zero here.
    pub(super) has_part_of_header: bool,
}

impl ObservedSegment<'_> {
    /// Reads a segment and gives it to `each`. Returns `None` for an impossible header.
    #[inline]
    pub(super) fn read<R>(
        place: Place,
        captured: &CapturedSegment<'_>,
        each: impl FnOnce(&ObservedSegment<'_>) -> R,
    ) -> Option<R> {
        let CapturedSegment { source, destination, octets, missing, .. } = *captured;
        // Matched by reference, because moving a segment takes longer than reading it.
        match &Segment::from_tcp(source, destination, octets) {
            Ok(segment) => {
                let (ao, odd_end) = match segment.ao_option() {
                    Err(error @ OptionError::BadLength { offset, .. }) => {
                        before_odd_end(segment, error, offset)
                    }
                    ao => (ao, None),
                };
                Some(each(&ObservedSegment {
                    place,
                    segment,
                    ao,
                    odd_end,
                    missing,
                    has_part_of_header: false,
                }))
            }
            Err(_) if missing > 0 && is_cut_in_header(octets) => {
                // Only as much of the header as there is, without options.
                let mut start = [0; TCP_HEADER_LENGTH];
                let recorded = octets.len().min(TCP_HEADER_LENGTH);
                start[..recorded].copy_from_slice(&octets[..recorded]);
                start[12] = (TCP_HEADER_LENGTH as u8 / 4) << 4;
                let segment = &Segment::from_tcp(source, destination, &start).ok()?;
                let header = header_length(octets).unwrap_or(TCP_HEADER_LENGTH);
                let missing = (octets.len() + missing).saturating_sub(header);
                let (ao, odd_end) = (Ok(None), None);
                Some(each(&ObservedSegment {
                    place,
                    segment,
                    ao,
                    odd_end,
                    missing,
                    has_part_of_header: true,
                }))
            }
            Err(_) => None,
        }
    }

    /// Octets of payload, recorded or not.
    pub(super) fn payload_length(&self) -> usize {
        self.segment.payload().len() + self.missing
    }
}

/// How many octets at the end of the options Linux does not look at: fewer than an AO option with a MAC (`tcp_do_parse_auth_options`).
const ODD_END: usize = 4;

/// The TCP-AO option before octets that cannot be read, if these are few.
#[cold]
fn before_odd_end<'a>(
    segment: &Segment<'a>,
    error: OptionError,
    offset: usize,
) -> (Result<Option<AoOption<'a>>, OptionError>, Option<OptionError>) {
    let options = segment.option_octets();
    match AoOption::find(options.get(..offset).unwrap_or_default()) {
        Ok(Some(ao)) if options.len() - offset <= ODD_END => (Ok(Some(ao)), Some(error)),
        _ => (Err(error), None),
    }
}

fn header_length(octets: &[u8]) -> Option<usize> {
    octets.get(12).map(|octet| usize::from(octet >> 4) * 4)
}

/// Whether the capture ends within a header that is possible so far.
fn is_cut_in_header(octets: &[u8]) -> bool {
    header_length(octets).is_none_or(|length| length >= TCP_HEADER_LENGTH && octets.len() < length)
}

/// How many segments are judged together at most.
pub(super) const BATCH: usize = 16;

/// What a MAC is computed with, apart from the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Basis {
    /// See [`Candidate::key`].
    pub(super) key: u32,
    /// The sender's and the receiver's, which the traffic key is derived from.
    pub(super) isns: [Isn; 2],
    pub(super) sne: Sne,
}

/// The MACs of the segments in a queue.
#[derive(Debug)]
pub(super) struct MacBatch {
    bases: [Option<Basis>; BATCH],
    /// One for each basis, in order.
    macs: [Mac; BATCH],
}

impl MacBatch {
    pub(super) const EMPTY: Self = Self { bases: [None; BATCH], macs: [const { Mac::EMPTY }; BATCH] };

    /// Computes the MACs of these segments, each with its connection if it has one so far, and if its MAC can be predicted.
    pub(super) fn compute<'a>(
        &mut self,
        table: &KeyTable<'_>,
        keys: &TrafficKeys,
        segments: impl Iterator<Item = (CapturedSegment<'a>, Option<&'a TcpConnection>)>,
    ) {
        self.bases = [None; BATCH];
        let mut heads = [const { MessageHead::new() }; BATCH];
        let mut inputs = [None; BATCH];
        let rooms = heads.iter_mut().zip(&mut inputs).zip(&mut self.bases);
        for ((captured, connection), ((head, input), basis)) in segments.zip(rooms) {
            // Matched by reference, because moving a segment takes longer than reading it.
            if let Some(connection) = connection
                && let CapturedSegment { source, destination, octets, missing: 0, .. } = captured
                && let Ok(segment) = &Segment::from_tcp(source, destination, octets)
                && let Ok(Some(ao)) = &segment.ao_option()
                && let Some(((candidate, key), expected)) = expected(connection, table, keys, segment, ao)
                && let Ok(mac_input) = &segment.mac_input(expected.sne, table.parameters(*candidate).options)
            {
                *input = Some((key.mac_key(), mac_input.message(head)));
                *basis = Some(expected);
            }
        }
        let jobs = inputs.iter().flatten().map(|(key, input)| (*key, &input[..]));
        mac_batch(jobs, &mut self.macs);
    }

    /// What was computed for each segment, in order.
    pub(super) fn each(&self) -> impl Iterator<Item = Option<BatchedMac<'_>>> {
        let mut macs = self.macs.iter();
        self.bases.iter().map(move |basis| Some(BatchedMac { basis: basis.as_ref()?, mac: macs.next()? }))
    }
}

/// A MAC computed ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchedMac<'a> {
    basis: &'a Basis,
    mac: &'a Mac,
}

impl<'a> BatchedMac<'a> {
    /// The MAC, if it is the one of this basis.
    #[inline]
    fn of(self, basis: &Basis) -> Option<&'a Mac> {
        (self.basis == basis).then_some(self.mac)
    }
}

/// The basis of a segment's MAC if nothing changes until its turn. `None` in a handshake, and if no MAC is needed.
#[inline]
fn expected<'c>(
    connection: &TcpConnection,
    table: &KeyTable<'_>,
    keys: &'c TrafficKeys,
    segment: &Segment<'_>,
    ao: &AoOption<'_>,
) -> Option<(&'c (Candidate, TrafficKey), Basis)> {
    if segment.flags().syn() {
        return None;
    }
    let sender = connection.sender(&segment.source());
    let direction = connection.direction(sender);
    let known @ (candidate, _) = keys.get(direction.traffic_key, Owner::new(connection.number, sender))?;
    let is_needed = candidate.serves(table, connection.configured_end, sender, ao.key_id)
        && table.parameters(*candidate).mac_length() == ao.mac.len();
    let basis = Basis {
        key: candidate.key,
        isns: [connection.isn(sender)?, connection.isn(sender.other())?],
        sne: direction.tracker()?.sne_of(segment.sequence()),
    };
    is_needed.then_some((known, basis))
}
