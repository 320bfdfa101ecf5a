//! What is kept of all connections together: little, however many there are.

use serde::Serialize;

use crate::standing::Standing;
use crate::text::{counted, grouped};
use crate::verify::report::{ConnectionReport, Diagnosis, Totals, failed, not_judged};

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
    /// Whether all name that cause.
    #[serde(skip)]
    is_one: bool,
    /// See [`Diagnosis::about`].
    #[serde(skip)]
    about: Standing,
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
    /// Connections that did not open, though no segment failed.
    pub(super) not_open: u64,
    /// Connections of none of these sorts that could not be judged, or one of whose segments could not.
    pub(super) not_judged: u64,
    /// The diagnoses by kind, in the order of first mention.
    pub(super) causes: Vec<Cause>,
}

impl Summary {
    pub(super) fn add(&mut self, connection: &ConnectionReport) {
        match connection.standing() {
            Standing::Good => self.good += 1,
            Standing::Failed => {
                self.failed += 1;
                // Connections come in the order in which they end.
                let place = self.first_failed.partition_point(|number| *number < connection.number);
                self.first_failed.insert(place, connection.number);
                self.first_failed.truncate(FAILED_NAMED);
            }
            Standing::NotOpen => self.not_open += 1,
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
            self.causes.push(Cause {
                kind,
                segments: 0,
                connections: 0,
                sentence,
                cause,
                is_one: true,
                about: diagnosis.about,
            });
            self.causes.len() - 1
        });
        let cause = &mut self.causes[place];
        cause.segments += diagnosis.segments;
        cause.connections += u64::from(is_first);
        cause.is_one &= cause.cause == diagnosis.cause;
    }

    /// The verdict on the capture: that of its worst connection.
    pub(super) const fn standing(&self) -> Standing {
        match self {
            Self { failed: 1.., .. } => Standing::Failed,
            Self { not_open: 1.., .. } => Standing::NotOpen,
            Self { not_judged: 1.., .. } => Standing::NotJudged,
            Self { good: 1.., .. } => Standing::Good,
            _ => Standing::Empty,
        }
    }

    /// The causes for this standing, and the one that explains most of them, the first if several do.
    fn causes_of(&self, about: Standing) -> (usize, Option<&Cause>) {
        let causes = || self.causes.iter().filter(|cause| cause.about == about);
        (causes().count(), causes().rev().max_by_key(|cause| cause.segments))
    }

    /// Why the session is down, or that it is not, in one line.
    pub(super) fn answer(&self, totals: &Totals) -> String {
        let counts = &totals.counts;
        let all: u64 = counts.iter().sum();
        let segments = counted(all, "segment");
        let with_cause = |begin: String, cause: Option<&Cause>| match cause {
            Some(most) => format!("{begin}: {}", most.cause),
            None => begin,
        };
        let (_, not_judged_because) = self.causes_of(Standing::NotJudged);
        let all_good = || match all {
            1 => "the only segment is good".to_owned(),
            _ => format!("all {segments} are good"),
        };
        let unjudged = match not_judged(counts) {
            0 => None,
            count => Some(format!("{} of {segments} could not be judged", grouped(count))),
        };
        match self.standing() {
            Standing::Empty => "no TCP segment to judge".to_owned(),
            Standing::Good => {
                let but =
                    if totals.is_incomplete() { ", but part of the capture could not be read" } else { "" };
                all_good() + but
            }
            Standing::NotOpen => {
                let begin = match unjudged {
                    None => all_good(),
                    Some(unjudged) => format!("no segment failed and {unjudged}"),
                };
                let which = match totals.connections {
                    1 => "the connection".to_owned(),
                    all => format!("{} of {}", grouped(self.not_open), counted(all, "connection")),
                };
                let (_, because) = self.causes_of(Standing::NotOpen);
                with_cause(format!("{begin}, but {which} did not open"), because)
            }
            Standing::NotJudged => {
                let begin = match unjudged {
                    None => format!(
                        "{}, but {} could not be judged",
                        all_good(),
                        counted(self.not_judged, "connection")
                    ),
                    Some(unjudged) => format!("no segment failed, but {unjudged}"),
                };
                with_cause(begin, not_judged_because)
            }
            Standing::Failed => {
                let failed = failed(counts);
                let (kinds, most) = self.causes_of(Standing::Failed);
                let how = match (most, kinds) {
                    (None, _) => ", and nothing that was tried explains it".to_owned(),
                    (Some(cause), 1) if cause.segments >= failed && cause.connections > 1 => format!(
                        " in {} for reasons of one kind, the first being",
                        counted(cause.connections, "connection")
                    ),
                    (Some(cause), 1) if cause.segments >= failed && cause.is_one => String::new(),
                    (Some(cause), 1) if cause.segments >= failed => {
                        " for reasons of one kind, the first being".to_owned()
                    }
                    (Some(cause), 1) => format!(", {} of them for this reason", grouped(cause.segments)),
                    (Some(cause), kinds) => {
                        let segments = counted(cause.segments, "segment");
                        format!(" for {kinds} reasons, the most frequent ({segments}) being")
                    }
                };
                let answer = with_cause(format!("{} of {segments} failed{how}", grouped(failed)), most);
                match not_judged(counts) {
                    0 => answer,
                    more => {
                        let begin = format!("{answer}; {} more could not be judged", grouped(more));
                        with_cause(begin, not_judged_because)
                    }
                }
            }
        }
    }
}
