//! What is kept of all connections together: little, however many there are.

use serde::Serialize;

use crate::standing::Standing;
use crate::text::{counted, grouped};
use crate::verify::report::{ConnectionReport, Diagnosis, Totals, failed, not_judged, standing};

/// How many of the connections that failed are named at the end.
const FAILED_NAMED: usize = 10;

/// The diagnoses of one kind, in all connections.
#[derive(Debug, Serialize)]
pub(super) struct Cause {
    /// See [`Diagnosis::kind`].
    pub(super) kind: &'static str,
    /// How many segments it explains.
    pub(super) segments: u64,
    /// In how many connections.
    pub(super) connections: u64,
    /// The sentence of the first.
    pub(super) sentence: String,
    /// The cause that the first names.
    #[serde(skip)]
    cause: String,
}

/// Connections by standing, and why some failed.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Connections whose segments are all good.
    pub(super) good: u64,
    /// Connections with a segment that failed.
    pub(super) failed: u64,
    /// The lowest numbers of these, in order.
    pub(super) first_failed: Vec<u64>,
    /// Connections where none failed, but one could not be judged.
    pub(super) not_judged: u64,
    /// The diagnoses by kind, in the order of first mention.
    pub(super) causes: Vec<Cause>,
}

impl Summary {
    pub(super) fn add(&mut self, connection: &ConnectionReport) {
        match standing(&connection.counts()) {
            Standing::Good => self.good += 1,
            Standing::Failed => {
                self.failed += 1;
                // Connections come in the order in which they end.
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

    fn add_cause(&mut self, diagnosis: &Diagnosis, is_first: bool) {
        let kind = diagnosis.kind;
        let place = self.causes.iter().position(|cause| cause.kind == kind).unwrap_or_else(|| {
            let (sentence, cause) = (diagnosis.sentence(), diagnosis.cause.clone());
            self.causes.push(Cause { kind, segments: 0, connections: 0, sentence, cause });
            self.causes.len() - 1
        });
        self.causes[place].segments += diagnosis.segments;
        self.causes[place].connections += u64::from(is_first);
    }

    /// Why the session is down, or that it is not, in one line.
    pub(super) fn answer(&self, totals: &Totals) -> String {
        let all: u64 = totals.counts.iter().sum();
        let segments = counted(all, "segment");
        // The first of those that explain most.
        let most = self.causes.iter().rev().max_by_key(|cause| cause.segments);
        let (begin, cause) = match standing(&totals.counts) {
            Standing::Empty => ("no TCP segment to judge".to_owned(), None),
            Standing::Good => {
                let begin = match all {
                    1 => "the only segment is good".to_owned(),
                    _ => format!("all {segments} are good"),
                };
                match most {
                    Some(_) => (begin + ", but", most),
                    None if totals.is_incomplete() => {
                        (begin + ", but part of the capture could not be read", None)
                    }
                    None => (begin, None),
                }
            }
            Standing::NotJudged => {
                let count = grouped(not_judged(&totals.counts));
                (format!("no segment failed, but {count} of {segments} could not be judged"), most)
            }
            Standing::Failed => {
                let failed = failed(&totals.counts);
                let begin = format!("{} of {segments} failed", grouped(failed));
                let more = match (most, self.causes.len()) {
                    (None, _) => ", and nothing that was tried explains it".to_owned(),
                    (Some(cause), 1) if cause.segments >= failed && cause.connections > 1 => format!(
                        " in {} for reasons of one kind, the first being",
                        counted(cause.connections, "connection")
                    ),
                    (Some(cause), 1) if cause.segments >= failed => String::new(),
                    (Some(cause), 1) => format!(", {} of them for this reason", grouped(cause.segments)),
                    (Some(cause), count) => {
                        let segments = counted(cause.segments, "segment");
                        format!(" for {count} reasons, the most frequent ({segments}) being")
                    }
                };
                (begin + &more, most)
            }
        };
        cause.map_or_else(|| begin.clone(), |most| format!("{begin}: {}", most.cause))
    }
}
