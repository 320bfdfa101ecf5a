//! What is kept of all connections together: a little, however many there are.

use super::words::{counted, grouped};
use crate::verify::report::{ConnectionReport, Counts, Diagnosis, Totals, Verdict};

/// How many of the connections that failed are named at the end.
const FAILED_NAMED: usize = 10;

/// How segments stand, taken together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Every one is good.
    Good,
    /// One or more failed to verify.
    Failed,
    /// None failed, and one or more could not be judged.
    NotJudged,
    /// There is none.
    Empty,
}

impl Standing {
    /// How the segments stand that these counts are of.
    #[must_use]
    pub fn of(counts: &Counts) -> Self {
        if failed(counts) > 0 {
            Self::Failed
        } else if not_judged(counts) > 0 {
            Self::NotJudged
        } else if counts[Verdict::Good.index()] > 0 {
            Self::Good
        } else {
            Self::Empty
        }
    }

    /// As `--json` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Failed => "failed",
            Self::NotJudged => "not-judged",
            Self::Empty => "empty",
        }
    }
}

/// The explanations of one kind, of all connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// The kind, see [`Diagnosis::kind`].
    pub kind: &'static str,
    /// How many segments it explains.
    pub segments: u64,
    /// In how many connections.
    pub connections: u64,
    /// The sentence of the first of them.
    pub sentence: String,
}

/// Connections by their standing, and what explains those that failed.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Connections all of whose segments are good.
    pub good: u64,
    /// Connections with a segment that failed.
    pub failed: u64,
    /// The ten lowest numbers of these, in order.
    pub first_failed: Vec<u64>,
    /// Connections without such a segment, and with one that could not be judged.
    pub not_judged: u64,
    /// The explanations by their kinds, in the order of first mention.
    pub causes: Vec<Cause>,
}

impl Summary {
    pub(super) fn add(&mut self, connection: &ConnectionReport) {
        match Standing::of(&counts(connection)) {
            Standing::Good => self.good += 1,
            Standing::Failed => {
                self.failed += 1;
                // They come in the order in which they end.
                let place = self.first_failed.partition_point(|number| *number < connection.number);
                self.first_failed.insert(place, connection.number);
                self.first_failed.truncate(FAILED_NAMED);
            }
            Standing::NotJudged => self.not_judged += 1,
            Standing::Empty => {}
        }
        for (place, diagnosis) in connection.diagnoses.iter().enumerate() {
            let is_first = connection.diagnoses[..place].iter().all(|other| other.kind != diagnosis.kind);
            self.add_cause(diagnosis, is_first);
        }
    }

    fn add_cause(&mut self, Diagnosis { kind, segments, sentence, .. }: &Diagnosis, is_first: bool) {
        let place = self.causes.iter().position(|cause| cause.kind == *kind).unwrap_or_else(|| {
            self.causes.push(Cause { kind, segments: 0, connections: 0, sentence: sentence.clone() });
            self.causes.len() - 1
        });
        self.causes[place].segments += segments;
        self.causes[place].connections += u64::from(is_first);
    }

    /// Why the session is down, or that it is not, in one line.
    #[must_use]
    pub fn answer(&self, totals: &Totals) -> String {
        let all: u64 = totals.counts.iter().sum();
        let (failed, not_judged) = (failed(&totals.counts), not_judged(&totals.counts));
        // The first of those that explain most.
        let most = self.causes.iter().rev().max_by_key(|cause| cause.segments);
        let (grouped_all, segments) = (grouped(all), if all == 1 { "segment" } else { "segments" });
        match Standing::of(&totals.counts) {
            Standing::Empty => "there is no TCP segment to judge".to_owned(),
            Standing::Good => {
                let begin = if all == 1 {
                    "the one segment is good".to_owned()
                } else {
                    format!("all {grouped_all} segments are good")
                };
                match most {
                    None if is_incomplete(totals) => format!("{begin}, as far as the capture could be read"),
                    None => begin,
                    Some(cause) => format!("{begin}, and yet: {}", cause.sentence),
                }
            }
            Standing::NotJudged => {
                let begin = format!(
                    "no segment fails, and {} of {grouped_all} could not be judged",
                    grouped(not_judged)
                );
                match most {
                    None => begin,
                    Some(cause) => format!("{begin}: {}", cause.sentence),
                }
            }
            Standing::Failed => {
                let begin = format!("{} of {grouped_all} {segments} failed", grouped(failed));
                match (most, self.causes.len()) {
                    (None, _) => format!("{begin}, and nothing that was tried explains it"),
                    (Some(cause), 1) if cause.segments >= failed && cause.connections > 1 => format!(
                        "{begin} in {} for reasons of one kind, the first: {}",
                        counted(cause.connections, "connection"),
                        cause.sentence
                    ),
                    (Some(cause), 1) if cause.segments >= failed => format!("{begin}: {}", cause.sentence),
                    (Some(cause), 1) => {
                        format!(
                            "{begin}, {} of them for this reason: {}",
                            grouped(cause.segments),
                            cause.sentence
                        )
                    }
                    (Some(cause), count) => format!(
                        "{begin}, for {count} reasons, the most frequent ({}): {}",
                        counted(cause.segments, "segment"),
                        cause.sentence
                    ),
                }
            }
        }
    }
}

/// The counts of both directions together.
pub(super) fn counts(connection: &ConnectionReport) -> Counts {
    let [forth, back] = &connection.directions;
    std::array::from_fn(|place| forth.counts[place] + back.counts[place])
}

/// Whether there may be segments in the capture that were not seen: then all that were seen may be good, and no more is known.
pub(super) const fn is_incomplete(totals: &Totals) -> bool {
    totals.fragments + totals.unreadable > 0 || totals.damage.is_some()
}

/// Segments that failed.
pub(super) fn failed(counts: &Counts) -> u64 {
    counts.iter().sum::<u64>() - counts[Verdict::Good.index()] - not_judged(counts)
}

/// Segments that could not be judged.
pub(super) fn not_judged(counts: &Counts) -> u64 {
    counts[Verdict::IsnNotSeen.index()] + counts[Verdict::CutOff.index()]
}
