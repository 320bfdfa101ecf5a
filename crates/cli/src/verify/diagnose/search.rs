//! The search for a hypothesis under which a segment that failed verifies.

use std::cell::{Cell, RefCell};
use std::iter;
use std::net::IpAddr;
use std::ops::Range;
use std::rc::Rc;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::option::{MAX_OPTIONS_LENGTH, TCP_HEADER_LENGTH, kind};
use wireseal_tcp_ao::{
    AoOption, Endpoint, KdfContext, Mkt, OptionCoverage, Segment, SeqNum, Sne, TrafficKey,
};

use super::hypothesis::{
    Change, ChecksumForm, Hypothesis, Relation, SecretForm, SneForm, verifies_with_checksum,
};
use crate::capture::Place;
use crate::verify::connection::TcpConnection;
use crate::verify::key_table::{Candidate, KeyTable};
use crate::verify::options::SearchLimits;
use crate::verify::report::Sender;

/// How many keys that a segment does not name are tried with other changes, too.
const OTHER_KEYS_CHANGED: usize = 8;
/// How many different explanations are remembered.
const KNOWN: usize = 16;

/// What the diagnoses of all connections share.
#[derive(Debug)]
pub(in crate::verify) struct Search {
    /// What has explained segments.
    known: Vec<Hypothesis>,
    searches_left: u32,
    size_searches_left: u32,
}

impl Search {
    pub(in crate::verify) const fn new(limits: &SearchLimits) -> Self {
        let SearchLimits { searches, size_searches, .. } = *limits;
        Self { known: Vec::new(), searches_left: searches, size_searches_left: size_searches }
    }

    /// What has explained segments of other connections, for this one.
    pub(super) fn known_for(&self, connection: &TcpConnection) -> impl Iterator<Item = Hypothesis> {
        self.known.iter().filter_map(|known| {
            let mut candidates = connection.candidates.iter();
            let candidate = candidates.find(|candidate| candidate.key == known.candidate.key)?;
            Some(Hypothesis { candidate: *candidate, ..*known })
        })
    }

    /// Whether any segment may still be searched.
    pub(super) fn is_open(&self) -> bool {
        self.searches_left > 0
    }

    /// The first hypothesis under which a segment verifies, likely and cheap ones first.
    pub(super) fn find(&mut self, case: &Case<'_, '_>) -> Option<Hypothesis> {
        self.searches_left -= 1;
        let found = self.find_in_order(case)?;
        if self.known.len() < KNOWN && !self.known.iter().any(|known| known.is_like(&found)) {
            self.known.push(found);
        }
        Some(found)
    }

    fn find_in_order(&mut self, case: &Case<'_, '_>) -> Option<Hypothesis> {
        let named = || case.keys(Relation::Named);
        let others = || case.keys(Relation::Exchanged).chain(case.keys(Relation::Other));
        let flipped = named().map(|hypothesis| hypothesis.both()[1]);
        let mut unchanged = named().chain(flipped).chain(others().flat_map(Hypothesis::both));
        if let Some(found) = unchanged.find(|hypothesis| verifies(case, hypothesis)) {
            return Some(found);
        }
        let mut keys: Vec<_> = named().collect();
        if keys.is_empty() {
            keys.extend(others().take(OTHER_KEYS_CHANGED));
        }
        let mut changed = keys
            .iter()
            .flat_map(|hypothesis| changes(case).map(|change| hypothesis.with(change)))
            .flat_map(Hypothesis::both);
        if let Some(found) = changed.find(|hypothesis| verifies(case, hypothesis)) {
            return Some(found);
        }
        self.size_searches_left = self.size_searches_left.checked_sub(1)?;
        keys.into_iter().flat_map(Hypothesis::both).find_map(|hypothesis| find_size(case, &hypothesis))
    }
}

/// The changes that cost one MAC each.
fn changes(case: &Case<'_, '_>) -> impl Iterator<Item = Change> {
    let algorithms = TcpAoAlgorithm::ALL.into_iter().map(Change::Algorithm);
    let secrets = SecretForm::ALL.into_iter().map(Change::Secret);
    let snes = SneForm::ALL.into_iter().map(Change::Sne);
    let hints = case.table.options.nat.len();
    let nat = (0..hints).map(|hint| Change::Nat(Some(hint)));
    let all_nat = (hints > 1).then_some(Change::Nat(None));
    let checksums = ChecksumForm::ALL.into_iter().map(Change::Checksum);
    algorithms.chain(secrets).chain(snes).chain(nat).chain(all_nat).chain(checksums)
}

/// The changes that cost thousands of MACs.
fn find_size(case: &Case<'_, '_>, hypothesis: &Hypothesis) -> Option<Hypothesis> {
    let sizes = case.table.options.limits.sizes;
    let mss = find_mss(case, hypothesis, mss_values().take(sizes)).map(Change::Mss);
    let change = mss.or_else(|| find_part(case, hypothesis, sizes).map(Change::Merged))?;
    Some(hypothesis.with(change))
}

/// Whether the segment verifies under a hypothesis.
pub(super) fn verifies(case: &Case<'_, '_>, hypothesis: &Hypothesis) -> bool {
    let (tcp, options) = (case.segment.tcp(), case.options(hypothesis));
    match hypothesis.change {
        Some(Change::Mss(mss)) => return find_mss(case, hypothesis, iter::once(mss)).is_some(),
        Some(Change::Merged(_)) => return find_part(case, hypothesis, 0).is_some(),
        // Only later segments show it.
        Some(Change::Split(_)) => return false,
        _ => {}
    }
    let Some(key) = case.key(hypothesis) else { return false };
    match hypothesis.change {
        Some(Change::Sne(form)) => {
            form.of(case.sne.0).is_some_and(|sne| case.matches(&key, Sne(sne), tcp, options))
        }
        Some(Change::Nat(hint)) => {
            let [source, destination] = case.translated(hint);
            let mut tcp = tcp.to_vec();
            tcp[..2].copy_from_slice(&source.port().to_be_bytes());
            tcp[2..4].copy_from_slice(&destination.port().to_be_bytes());
            case.matches_between((source.address(), destination.address()), &key, case.sne, &tcp, options)
        }
        Some(Change::Checksum(form)) => {
            case.count_try() && verifies_with_checksum(form, &key, case.sne, case.segment, &case.ao, options)
        }
        _ => case.matches(&key, case.sne, tcp, options),
    }
}

/// Octets of the shortest MAC that proves a hypothesis; shorter ones match by chance.
pub(super) const LEAST_MAC: usize = 4;
/// How many keys that a segment does not name are tried unchanged.
const OTHER_KEYS: usize = 64;

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
        related.take(OTHER_KEYS).map(move |candidate| Hypothesis::new(*candidate, relation))
    }

    /// The traffic key under a hypothesis; `None` where the hypothesis changes nothing or makes no key.
    pub(super) fn key(&self, hypothesis: &Hypothesis) -> Option<Rc<TrafficKey>> {
        let alters_key =
            |change: &Change| matches!(change, Change::Algorithm(_) | Change::Secret(_) | Change::Nat(_));
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
            Some(Change::Algorithm(algorithm)) if algorithm == parameters.algorithm => return None,
            Some(Change::Secret(form)) => {
                master_key = form.of(master_key.expose_secret(), parameters.algorithm)?;
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

    fn matches_between(
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

    /// Counts a try; `false` if the received MAC is too short to prove anything.
    fn count_try(&self) -> bool {
        self.tries.set(self.tries.get() + 1);
        self.ao.mac.len() >= LEAST_MAC
    }

    /// Source and destination on the other side of one translation, or of all of them.
    fn translated(&self, hint: Option<usize>) -> [Endpoint; 2] {
        let hints = self.table.nat(hint);
        [self.context.source, self.context.destination]
            .map(|end| hints.iter().find_map(|hint| hint.other_side(&end)).unwrap_or(end))
    }
}

/// The MSS values worth trying. Devices lower the MSS, so the original was higher: up to the 9,216 octets of the largest
/// frames in use, or loopback's 65,535 with or without room for the headers. Those of usual interfaces come first.
fn mss_values() -> impl Iterator<Item = u16> {
    let usual = [1460, 1440, 8960, 8940, u16::MAX - 40, u16::MAX - 60, u16::MAX];
    usual.into_iter().chain(500..=9216)
}

/// The MSS, among these, with which a SYN verifies.
fn find_mss(
    case: &Case<'_, '_>,
    hypothesis: &Hypothesis,
    mut sizes: impl Iterator<Item = u16>,
) -> Option<u16> {
    let options = case.options(hypothesis);
    if !case.segment.flags().syn() || options == OptionCoverage::Excluded {
        return None;
    }
    let (key, place) = (case.key(hypothesis)?, mss_place(case)?);
    let mut tcp = case.segment.tcp().to_vec();
    sizes.find(|mss| {
        tcp[place.clone()].copy_from_slice(&mss.to_be_bytes());
        case.matches(&key, case.sne, &tcp, options)
    })
}

/// Where in the segment its MSS is.
fn mss_place(case: &Case<'_, '_>) -> Option<Range<usize>> {
    let option =
        case.segment.options().flatten().find(|option| {
            option.kind == kind::MAXIMUM_SEGMENT_SIZE && option.data.len() == size_of::<u16>()
        })?;
    let start = TCP_HEADER_LENGTH + option.offset + 2;
    Some(start..start + size_of::<u16>())
}

/// The longest part of a recorded segment that is searched octet by octet.
const LONGEST_PART: usize = 1500;
/// FIN and PSH, which a merged segment takes from the last segment it is made of.
const FIN_AND_PSH: u8 = 0x01 | 0x08;
const FLAGS_AT: usize = 13;
/// The most octets a stack hands to a network card in one send, and the most segments made of them: with the smallest MSS in
/// use, 536 octets.
const LONGEST_SEND: usize = 65_535;
const MOST_PARTS: u64 = 128;

/// How many of the recorded octets of payload the MAC covers, if not all: merged segments keep the header of the first. Tries the likely
/// sizes, and then a bounded number of others.
fn find_part(case: &Case<'_, '_>, hypothesis: &Hypothesis, others: usize) -> Option<usize> {
    let (key, options) = (case.key(hypothesis)?, case.options(hypothesis));
    let header = case.segment.header();
    let payload = case.segment.payload();
    let longest = payload.len().saturating_sub(1).min(LONGEST_PART).min(others);
    let known = match hypothesis.change {
        Some(Change::Merged(part)) => Some(part),
        _ => None,
    };
    let mss = case.connection.direction(case.sender.other()).mss;
    let from_mss = mss.map(|mss| usize::from(mss.get())).into_iter().flat_map(|mss| {
        // The MSS does not count options, so these shorten the segments (RFC 6691).
        (0..=MAX_OPTIONS_LENGTH).step_by(4).filter_map(move |options| mss.checked_sub(options))
    });
    let lengths = known.into_iter().chain(from_mss).filter(|part| *part < payload.len());
    let mut tcp = Vec::with_capacity(header.len() + payload.len());
    lengths.chain(1..=longest).find(|part| {
        let recorded = header[FLAGS_AT];
        let without = recorded & !FIN_AND_PSH;
        let differing = (recorded != without).then_some(recorded);
        [without].into_iter().chain(differing).any(|flags| {
            tcp.clear();
            tcp.extend(header);
            tcp[FLAGS_AT] = flags;
            tcp.extend(&payload[..*part]);
            case.matches(&key, case.sne, &tcp, options)
        })
    })
}

/// A segment that a network card may have split: consecutive segments with the same MAC.
#[derive(Debug)]
pub(super) struct SplitSegment {
    pub(super) first: Place,
    /// The header of the first part, and the payload of all.
    tcp: Vec<u8>,
    mac: Vec<u8>,
    next: SeqNum,
    pub(super) parts: u64,
}

impl SplitSegment {
    /// Begins with this segment, if it can be the first part.
    pub(super) fn begin(case: &Case<'_, '_>) -> Option<Self> {
        let segment = case.segment;
        if segment.payload().is_empty() || segment.flags().syn() || segment.flags().fin() {
            return None;
        }
        Some(Self {
            first: case.place,
            tcp: segment.tcp().to_vec(),
            mac: case.ao.mac.to_vec(),
            next: segment.end(),
            parts: 1,
        })
    }

    /// Adds a segment if it is the next part.
    pub(super) fn add(&mut self, case: &Case<'_, '_>) -> bool {
        let segment = case.segment;
        let is_next = segment.sequence() == self.next
            && case.ao.mac == self.mac
            && self.parts < MOST_PARTS
            && self.tcp.len() + segment.payload().len() <= LONGEST_SEND;
        if is_next {
            self.tcp.extend(segment.payload());
            self.tcp[FLAGS_AT] |= segment.header()[FLAGS_AT] & FIN_AND_PSH;
            self.next = segment.end();
            self.parts += 1;
        }
        is_next
    }

    /// Whether the MAC is that of all parts together, under a hypothesis without other changes.
    pub(super) fn verifies(&self, case: &Case<'_, '_>, hypothesis: &Hypothesis) -> bool {
        let key = case.key(hypothesis);
        key.is_some_and(|key| case.matches(&key, case.sne, &self.tcp, case.options(hypothesis)))
    }
}
