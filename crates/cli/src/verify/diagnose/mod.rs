//! Why segments fail: hypotheses, each of which is tried on the segment itself.
//!
//! A hypothesis is a key with differences ([`Hypothesis`]); it is reported only if the segment's MAC is the one that it
//! gives. What can be seen without a MAC is in [`evident`].

mod case;
mod checksum;
mod evident;
mod hypothesis;
mod offload;
mod secret;
mod unexplained;
mod words;

use std::cell::Cell;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{AoOption, KeyId, Segment, SeqNum, Sne, SneTracker};

use self::case::Case;
use self::checksum::ChecksumForm;
use self::hypothesis::{Change, Hypothesis, Relation, SneForm};
use self::offload::Train;
use self::secret::SecretForm;
use super::connection::{Connection, Observed};
use super::hints::NatHint;
use super::key_table::{Candidate, KeyTable};
use super::report::{self, Place, Sender, Verdict};
use super::verifier::Options;

/// After how many segments of a direction that nothing explains no more are searched.
const SEARCHES: u8 = 4;
/// How many explanations of a connection are kept apart.
const FINDINGS: usize = 16;
/// How many keys are tried that a segment does not name, and of how many of them differences as well.
const OTHER_KEYS: usize = 64;
const OTHER_KEYS_CHANGED: usize = 8;

/// How many segments of a capture are searched in all, and of how many the sizes, which takes thousands of MACs each. What
/// explained one connection is tried on the others at any rate.
const ALL_SEARCHES: u32 = 4000;
const ALL_SIZE_SEARCHES: u32 = 64;

/// What the diagnoses of all connections share.
#[derive(Debug)]
pub(super) struct Search {
    /// What has explained segments.
    known: Vec<Hypothesis>,
    searches_left: u32,
    size_searches_left: u32,
}

impl Default for Search {
    fn default() -> Self {
        Self { known: Vec::new(), searches_left: ALL_SEARCHES, size_searches_left: ALL_SIZE_SEARCHES }
    }
}

impl Search {
    fn remember(&mut self, hypothesis: &Hypothesis) {
        if self.known.len() < FINDINGS && !self.known.iter().any(|known| known.is_like(hypothesis)) {
            self.known.push(*hypothesis);
        }
    }

    /// What has explained segments of other connections, for this one.
    fn known_for(&self, connection: &Connection) -> impl Iterator<Item = Hypothesis> {
        self.known.iter().filter_map(|known| {
            let mut candidates = connection.candidates.iter();
            let candidate = candidates.find(|candidate| candidate.key == known.candidate.key)?;
            Some(Hypothesis { candidate: *candidate, ..*known })
        })
    }
}

/// Why segments of one connection failed.
#[derive(Default, Debug)]
pub(super) struct Diagnosis {
    /// The translations that findings number.
    nat: Box<[NatHint]>,
    findings: Vec<Finding>,
    directions: [Direction; 2],
}

/// What was found of one direction.
#[derive(Default, Debug)]
struct Direction {
    /// Segments that no hypothesis explains: those with a wrong MAC, and those whose KeyID no key has.
    bad_mac: Unexplained,
    unknown_key_id: Unexplained,
    /// How many were searched without success.
    searches: u8,
    /// Whether any was.
    was_searched: bool,
    /// The MACs that were computed for them.
    tries: u64,
    train: Option<Train>,
    /// The sequence numbers of segments that are explained.
    tracker: Option<SneTracker>,
}

impl Direction {
    /// Of this direction's tracker and that of its good segments, the one that is further.
    fn tracker_beside(&self, good: Option<SneTracker>) -> Option<SneTracker> {
        let (Some(own), Some(good)) = (self.tracker, good) else { return self.tracker.or(good) };
        let extended = |tracker: &SneTracker| {
            let (sne, sequence) = tracker.highest();
            (sne.0, sequence.0)
        };
        Some(if extended(&own) < extended(&good) { good } else { own })
    }
}

/// Segments without explanation.
#[derive(Clone, Copy, Default, Debug)]
struct Unexplained {
    first: Option<Place>,
    segments: u64,
    /// Of these, those whose TCP checksum is wrong as well.
    damaged: u64,
    /// The KeyID and the length of the MAC of the first.
    ao: Option<(KeyId, usize)>,
    /// The number behind the first one that has numbers.
    end: Option<SeqNum>,
}

impl Unexplained {
    fn note(&mut self, observed: &Observed<'_>, ao: &AoOption<'_>) {
        let segment = &observed.segment;
        self.first = self.first.or(Some(observed.place));
        self.segments += 1;
        self.ao = self.ao.or(Some((ao.key_id, ao.mac.len())));
        self.end = self.end.or((segment.end() != segment.sequence()).then_some(segment.end()));
        let (source, destination) = (segment.source_address(), segment.destination_address());
        self.damaged += u64::from(wireseal_tcp_ao::checksum::tcp(source, destination, segment.tcp()) != 0);
    }
}

/// Segments that one hypothesis explains.
#[derive(Clone, Debug)]
struct Finding {
    sender: Sender,
    hypothesis: Hypothesis,
    first: Place,
    segments: u64,
    key_id: KeyId,
    mac_length: usize,
    /// MACs computed before this one matched.
    tries: u64,
    sne: Sne,
    /// The number behind the first one that has numbers.
    end: Option<SeqNum>,
}

impl Diagnosis {
    /// Looks for the reason why a segment failed.
    pub(super) fn explain(
        &mut self,
        connection: &Connection,
        table: &KeyTable<'_>,
        options: &Options,
        search: &mut Search,
        observed: &Observed<'_>,
        verdict: Verdict,
    ) {
        let Ok(Some(ao)) = observed.ao else { return };
        let Observed { place, sender, ref segment, .. } = *observed;
        let direction = &self.directions[sender as usize];
        if let Some(context) = connection.context(sender, segment) {
            let tracker = direction.tracker_beside(connection.directions[sender as usize].tracker());
            let sne = match tracker {
                Some(tracker) if !segment.flags().syn() => tracker.sne_of(segment.sequence()),
                _ => Sne(0),
            };
            let mss = connection.directions[sender.other() as usize].seen.mss;
            let tries = Cell::new(direction.tries);
            let case =
                Case { table, nat: &options.nat, place, sender, segment, ao, context, sne, mss, tries };
            if self.explain_case(connection, search, &case) {
                if !segment.flags().syn() {
                    let tracker = tracker.unwrap_or(SneTracker::new(context.source_isn));
                    self.directions[sender as usize].tracker.insert(tracker).advance(segment.sequence());
                }
                return;
            }
        }
        let direction = &mut self.directions[sender as usize];
        let unexplained = match verdict {
            Verdict::UnknownKeyId => &mut direction.unknown_key_id,
            _ => &mut direction.bad_mac,
        };
        unexplained.note(observed, &ao);
    }

    /// Whether a hypothesis explains the segment; it is noted then.
    fn explain_case(&mut self, connection: &Connection, search: &mut Search, case: &Case<'_, '_>) -> bool {
        let own = self.findings.iter().map(|finding| finding.hypothesis);
        let known = own.chain(search.known_for(connection)).find(|hypothesis| {
            relation(connection, case, hypothesis.candidate) == hypothesis.relation
                && case.verifies(hypothesis)
        });
        if let Some(hypothesis) = known {
            self.note(case, hypothesis, case.place, 1);
            return true;
        }
        if self.explain_train(connection, case) {
            return true;
        }
        let direction = &mut self.directions[case.sender as usize];
        if direction.searches >= SEARCHES || search.searches_left == 0 {
            return false;
        }
        direction.was_searched = true;
        search.searches_left -= 1;
        let found = find(connection, search, case);
        match found {
            Some(hypothesis) => {
                search.remember(&hypothesis);
                self.note(case, hypothesis, case.place, 1);
            }
            None => {
                direction.searches += 1;
                direction.tries = case.tries.get();
            }
        }
        found.is_some()
    }

    /// Whether the segment completes one that was split after it had been signed.
    fn explain_train(&mut self, connection: &Connection, case: &Case<'_, '_>) -> bool {
        let was_split = self.findings.iter().any(|finding| {
            finding.sender == case.sender && matches!(finding.hypothesis.change, Some(Change::Split(_)))
        });
        let direction = &mut self.directions[case.sender as usize];
        let going_on = direction.train.as_mut().is_some_and(|train| train.goes_on(case));
        let Some(train) = direction.train.as_ref().filter(|_| going_on) else {
            let is_worth = was_split || direction.searches < SEARCHES;
            direction.train = if is_worth { Train::begin(case) } else { None };
            return false;
        };
        let hypotheses = candidates(connection, case, Relation::Named)
            .flat_map(|hypothesis| [hypothesis, hypothesis.flipped()]);
        let Some(hypothesis) = hypotheses.into_iter().find(|hypothesis| train.verifies(case, hypothesis))
        else {
            return false;
        };
        let (first, segments) = (train.first, train.segments);
        // All but this one were counted as unexplained, and the first few searched.
        direction.train = None;
        direction.searches = direction.searches.saturating_sub(u8::try_from(segments - 1).unwrap_or(u8::MAX));
        direction.bad_mac.segments = direction.bad_mac.segments.saturating_sub(segments - 1);
        if direction.bad_mac.segments == 0 {
            direction.bad_mac = Unexplained::default();
        }
        self.note(case, hypothesis.with(Change::Split(segments as usize)), first, segments);
        true
    }

    fn note(&mut self, case: &Case<'_, '_>, hypothesis: Hypothesis, first: Place, segments: u64) {
        let segment = case.segment;
        let end = (segment.end() != segment.sequence()).then_some(segment.end());
        if self.nat.is_empty() {
            self.nat = case.nat.into();
        }
        let known = self
            .findings
            .iter_mut()
            .find(|finding| finding.sender == case.sender && finding.hypothesis.is_like(&hypothesis));
        if let Some(finding) = known {
            finding.segments += segments;
            finding.end = finding.end.or(end);
        } else if self.findings.len() < FINDINGS {
            self.findings.push(Finding {
                sender: case.sender,
                hypothesis,
                first,
                segments,
                key_id: case.ao.key_id,
                mac_length: case.ao.mac.len(),
                tries: case.tries.get(),
                sne: case.sne,
                end,
            });
        }
    }

    /// Notes a good segment: if it has the octets of one that failed, an acknowledgment says nothing of the latter.
    pub(super) fn note_good(&mut self, sender: Sender, segment: &Segment<'_>) {
        let (start, behind) = (segment.sequence(), segment.end());
        let unexplained = &mut self.directions[sender as usize];
        let findings = self.findings.iter_mut().filter(|finding| finding.sender == sender);
        let ends = findings.map(|finding| &mut finding.end);
        for end in ends.chain([&mut unexplained.bad_mac.end, &mut unexplained.unknown_key_id.end]) {
            if end.is_some_and(|end| start.before(end) && !behind.before(end)) {
                *end = None;
            }
        }
    }

    /// What is reported when the connection is over.
    pub(super) fn conclude(&self, connection: &Connection, table: &KeyTable<'_>) -> Vec<report::Diagnosis> {
        let mut diagnoses: Vec<_> =
            self.findings.iter().map(|finding| words::of_finding(finding, self, connection, table)).collect();
        for sender in [Sender::Opener, Sender::Listener] {
            let bad_mac = unexplained::with_bad_mac(sender, &self.directions, connection, table);
            let unknown = unexplained::with_unknown_key_id(sender, &self.directions, connection, table);
            diagnoses.extend(bad_mac.into_iter().chain(unknown));
            diagnoses.extend(evident::of_direction(sender, connection));
        }
        diagnoses.sort_by_key(|diagnosis| diagnosis.first.packet);
        diagnoses
    }
}

/// How a key is related to the KeyID of a segment.
fn relation(connection: &Connection, case: &Case<'_, '_>, candidate: Candidate) -> Relation {
    let parameters = case.table.parameters(candidate);
    if candidate.serves(case.table, connection.configured_end, case.sender, case.ao.key_id) {
        Relation::Named
    } else if [parameters.send_id, parameters.recv_id].contains(&case.ao.key_id) {
        Relation::Exchanged
    } else {
        Relation::Other
    }
}

/// The connection's keys of one relation to the segment, unchanged.
fn candidates<'c>(
    connection: &'c Connection,
    case: &'c Case<'_, '_>,
    wanted: Relation,
) -> impl Iterator<Item = Hypothesis> + 'c {
    let of_relation = move |candidate: &&Candidate| relation(connection, case, **candidate) == wanted;
    connection
        .candidates
        .iter()
        .filter(of_relation)
        .take(OTHER_KEYS)
        .map(move |candidate| Hypothesis::new(*candidate, wanted))
}

/// The first hypothesis under which a segment verifies, the likely ones and the cheap ones first.
fn find(connection: &Connection, search: &mut Search, case: &Case<'_, '_>) -> Option<Hypothesis> {
    let of = |relation| candidates(connection, case, relation);
    let both = |hypothesis: Hypothesis| [hypothesis, hypothesis.flipped()];
    let unchanged = of(Relation::Named)
        .chain(of(Relation::Named).map(Hypothesis::flipped))
        .chain(of(Relation::Exchanged).flat_map(both))
        .chain(of(Relation::Other).flat_map(both));
    if let Some(found) = unchanged.into_iter().find(|hypothesis| case.verifies(hypothesis)) {
        return Some(found);
    }
    let is_named = of(Relation::Named).next().is_some();
    let named = of(Relation::Named);
    let others = of(Relation::Exchanged).chain(of(Relation::Other)).take(OTHER_KEYS_CHANGED);
    let changed: Vec<Hypothesis> = if is_named { named.collect() } else { others.collect() };
    let with_change = changed
        .iter()
        .flat_map(|hypothesis| changes(case).map(|change| hypothesis.with(change)))
        .flat_map(both);
    if let Some(found) = with_change.into_iter().find(|hypothesis| case.verifies(hypothesis)) {
        return Some(found);
    }
    if search.size_searches_left == 0 {
        return None;
    }
    search.size_searches_left -= 1;
    changed.into_iter().flat_map(both).find_map(|hypothesis| search_sizes(case, &hypothesis))
}

/// The changes that take one MAC each.
fn changes<'c>(case: &'c Case<'_, '_>) -> impl Iterator<Item = Change> + 'c {
    let algorithms = TcpAoAlgorithm::ALL.into_iter().map(Change::Algorithm);
    let secrets = SecretForm::ALL.into_iter().map(Change::Secret);
    let snes = SneForm::ALL.into_iter().map(Change::Sne);
    let nat = (0..case.nat.len()).map(|hint| Change::Nat(Some(hint)));
    let all_nat = (case.nat.len() > 1).then_some(Change::Nat(None));
    let checksums = ChecksumForm::ALL.into_iter().map(Change::Checksum);
    algorithms.chain(secrets).chain(snes).chain(nat).chain(all_nat).chain(checksums)
}

/// The changes of which there are thousands.
fn search_sizes(case: &Case<'_, '_>, hypothesis: &Hypothesis) -> Option<Hypothesis> {
    if let Some(mss) = case.find_mss(hypothesis) {
        return Some(hypothesis.with(Change::Mss(mss)));
    }
    let key = case.key(hypothesis)?;
    let part = offload::find_part(case, &key, hypothesis, case.options(hypothesis), true)?;
    Some(hypothesis.with(Change::Merged(part)))
}
