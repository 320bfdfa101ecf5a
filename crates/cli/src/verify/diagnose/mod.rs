//! Why segments fail.
//!
//! A hypothesis is a key with a difference. It is tried on the segment itself and believed only if the MAC verifies under it.
//!
//! ```text
//! Diagnoser            one connection: takes each segment that failed
//!   Case               the segment, and what its MAC is compared with
//!   Search             the hypotheses in order; what explains one segment is tried on the next first
//!   Findings           what explained which segments, what nothing explained, and what was tried on it
//!   explained, rest    sentences for an operator: what a hypothesis explains, what nothing explains,
//!   evident            and what shows without a MAC
//! ```

mod case;
mod evident;
mod explained;
mod findings;
mod hypothesis;
mod options;
mod parts;
mod rest;
mod search;

use std::cell::{Cell, RefCell};

use wireseal_tcp_ao::{Segment, Sne, SneTracker};

use self::case::{Case, LEAST_MAC};
use self::findings::{Findings, Tried};
use self::hypothesis::{Change, Hypothesis, Relation};
use self::parts::SplitSegment;
use self::rest::Rest;
pub(super) use self::search::Search;
use self::search::verifies;
use super::across::Agreement;
use super::connection::TcpConnection;
use super::judge::ObservedSegment;
use super::key_table::KeyTable;
use super::report::{Diagnosis, Sender, Standing, Verdict};
use crate::capture::Place;

/// How many unexplained segments of a direction are searched.
const SEARCHES: u8 = 4;

#[derive(Default, Debug)]
pub(in crate::verify) struct Diagnoser {
    findings: Findings,
    progress: [Progress; 2],
}

/// The progress of the diagnosis of one direction.
#[derive(Default, Debug)]
struct Progress {
    /// How many segments were searched in vain.
    searches: u8,
    /// The last of these.
    last: Option<Box<Searched>>,
    /// The SNE tracker of explained segments.
    tracker: Option<SneTracker>,
}

/// A segment that was searched in vain.
#[derive(Debug)]
struct Searched {
    /// How many MACs it and those before it took.
    tries: u64,
    /// Its header and length: a retransmission of it is not searched again.
    header: Box<[u8]>,
    length: usize,
}

// Each connection with a failed segment has one.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Diagnoser>() <= 192);

impl Progress {
    /// The tracker that is further along: this one or that of good segments.
    fn tracker_beside(&self, good: Option<SneTracker>) -> Option<SneTracker> {
        let (Some(own), Some(good)) = (self.tracker, good) else { return self.tracker.or(good) };
        let extended = |tracker: &SneTracker| {
            let (sne, sequence) = tracker.highest();
            (sne.0, sequence.0)
        };
        Some(if extended(&own) < extended(&good) { good } else { own })
    }
}

impl Diagnoser {
    /// Looks for the reason why a segment failed. Returns true if everything was tried in vain, and nothing was left out.
    #[cold]
    pub(in crate::verify) fn explain(
        &mut self,
        connection: &TcpConnection,
        table: &KeyTable<'_>,
        search: &mut Search,
        sender: Sender,
        observed: &ObservedSegment<'_>,
        verdict: Verdict,
    ) -> bool {
        let Ok(Some(ao)) = observed.ao else { return false };
        let searches = self.progress[sender as usize].searches;
        let ObservedSegment { place, segment, .. } = *observed;
        let progress = &self.progress[sender as usize];
        if let Some(context) = connection.context(sender, segment) {
            let tracker = progress.tracker_beside(connection.direction(sender).tracker());
            let sne = match tracker {
                Some(tracker) if !segment.flags().syn() => tracker.sne_of(segment.sequence()),
                _ => Sne(0),
            };
            let tries = Cell::new(progress.last.as_ref().map_or(0, |last| last.tries));
            let last_key = RefCell::default();
            let case = Case { connection, table, place, sender, segment, ao, context, sne, tries, last_key };
            if self.explain_case(search, &case) {
                if !segment.flags().syn() {
                    let tracker = tracker.unwrap_or(SneTracker::new(context.source_isn));
                    self.progress[sender as usize].tracker.insert(tracker).advance(segment.sequence());
                }
                return false;
            }
        }
        let unexplained = &mut self.findings.unexplained[sender as usize];
        let is_whole = unexplained.tried().left_out.is_empty();
        let unexplained = match verdict {
            Verdict::UnknownKeyId => &mut unexplained.unknown_key_id,
            _ => &mut unexplained.bad_mac,
        };
        unexplained.get_or_insert_default().note(place, segment, &ao);
        ao.mac.len() >= LEAST_MAC && self.progress[sender as usize].searches > searches && is_whole
    }

    /// Whether a hypothesis explains the segment. If so, notes it.
    fn explain_case(&mut self, search: &mut Search, case: &Case<'_, '_>) -> bool {
        let own = self.findings.explained.iter().map(|finding| finding.hypothesis);
        let known = own.chain(search.known_for(case.connection)).find(|hypothesis| {
            case.relation(hypothesis.candidate) == hypothesis.relation && verifies(case, hypothesis)
        });
        if let Some(hypothesis) = known {
            self.findings.note(case, hypothesis, case.place, 1);
            return true;
        }
        if self.explain_split(search, case) {
            return true;
        }
        let progress = &mut self.progress[case.sender as usize];
        let unexplained = &mut self.findings.unexplained[case.sender as usize];
        let (header, length) = (case.segment.header(), case.segment.tcp().len());
        if progress.last.as_ref().is_some_and(|last| *last.header == *header && last.length == length) {
            unexplained.searched += 1;
            return false;
        }
        if progress.searches >= SEARCHES || !search.is_open() {
            return false;
        }
        let mut tried = Tried::default();
        let found = search.find(case, &mut tried);
        match found {
            Some(hypothesis) => self.findings.note(case, hypothesis, case.place, 1),
            None => {
                progress.searches += 1;
                progress.last =
                    Some(Box::new(Searched { tries: case.tries.get(), header: header.into(), length }));
                unexplained.searched += 1;
                unexplained.tried.get_or_insert_default().merge(tried);
            }
        }
        found.is_some()
    }

    /// Whether the segment completes one that was split after signing.
    fn explain_split(&mut self, search: &mut Search, case: &Case<'_, '_>) -> bool {
        let was_split = self.findings.explained.iter().any(|finding| {
            finding.sender == case.sender && matches!(finding.hypothesis.change, Some(Change::Split(_)))
        });
        let progress = &mut self.progress[case.sender as usize];
        let of = (case.connection.number, case.sender);
        let Some(split) = search.split.take(of).and_then(|split| split.with(case)) else {
            let is_worth = was_split || progress.searches < SEARCHES && search.is_open();
            if let Some(split) = SplitSegment::begin(case).filter(|_| is_worth) {
                search.split.keep(of, split);
            }
            return false;
        };
        let mut hypotheses = case.keys(Relation::Named).flat_map(Hypothesis::both);
        let Some(hypothesis) = hypotheses.find(|hypothesis| split.verifies(case, hypothesis)) else {
            search.split.keep(of, split);
            return false;
        };
        let (first, parts) = (split.first, split.parts);
        // All parts but this one were counted as unexplained, and the first few were searched.
        progress.searches = progress.searches.saturating_sub(u8::try_from(parts - 1).unwrap_or(u8::MAX));
        let bad_mac = &mut self.findings.unexplained[case.sender as usize].bad_mac;
        if let Some(unexplained) = bad_mac {
            unexplained.segments = unexplained.segments.saturating_sub(parts - 1);
            if unexplained.segments == 0 {
                *bad_mac = None;
            }
        }
        self.findings.note(case, hypothesis.with(Change::Split(parts as usize)), first, parts);
        true
    }

    pub(in crate::verify) fn note_good(&mut self, sender: Sender, segment: &Segment<'_>) {
        self.findings.note_good(sender, segment);
    }

    /// The diagnoses when the connection is over.
    pub(in crate::verify) fn conclude(
        &self,
        connection: &TcpConnection,
        table: &KeyTable<'_>,
        agreement: &Agreement,
        now: Place,
    ) -> Vec<Diagnosis> {
        let findings = &self.findings;
        let mut diagnoses = explained::diagnoses(findings, connection, table);
        for sender in Sender::BOTH {
            let rest = Rest { sender, findings, connection, table, agreement };
            diagnoses.extend(rest.with_bad_mac());
            diagnoses.extend(rest.with_unknown_key_id());
            diagnoses.extend(evident::diagnoses(sender, connection, agreement));
        }
        diagnoses.extend(evident::not_open(connection, table, agreement, now));
        diagnoses.extend(evident::not_open_again(connection));
        // Failures come before what could not be judged, and remarks last.
        let rank = |about| match about {
            Standing::Good => 2,
            Standing::NotJudged => 1,
            _ => 0,
        };
        diagnoses.sort_by_key(|diagnosis| (rank(diagnosis.about), diagnosis.first.packet));
        diagnoses
    }
}
