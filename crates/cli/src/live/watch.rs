//! What is worth telling of live connections, as it is found.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use wireseal_tcp_ao::Endpoint;

use crate::capture::{Place, Time};
use crate::verify::report::{ConnectionReport, Counts, Diagnosis, Sender, Standing, failed, standing};
use crate::verify::{Snapshot, Verifier};

/// How many connections that fail are diagnosed each time, and how many that open, so that very many cost no more than this.
const DIAGNOSED_AT_ONCE: usize = 256;
/// How long, or for how many failed segments, a reason waits to be told: what follows may show more.
const SETTLING: Duration = Duration::from_millis(750);
const SETTLED: u64 = 8;

/// A live connection in a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number.
    pub number: u64,
    /// Opener and listener.
    pub ends: [Endpoint; 2],
    /// The keys in use, without repeating one.
    pub keys: Vec<String>,
    /// Segments by verdict.
    pub counts: Counts,
    /// The verdict so far.
    pub standing: Standing,
    /// Whether it is closed.
    pub is_closed: bool,
    /// Its last segment.
    pub last: Place,
}

/// The order of a table.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Order {
    #[default]
    FailedFirst,
    Newest,
    Number,
}

impl Order {
    pub(super) const fn next(self) -> Self {
        match self {
            Self::FailedFirst => Self::Newest,
            Self::Newest => Self::Number,
            Self::Number => Self::FailedFirst,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FailedFirst => "failed first",
            Self::Newest => "last segment first",
            Self::Number => "by number",
        }
    }

    pub(super) fn sort(self, rows: &mut [Row]) {
        let newest = |row: &Row| Reverse(row.last.packet);
        match self {
            Self::FailedFirst => rows.sort_by_key(|row| (rank(row.standing), newest(row))),
            Self::Newest => rows.sort_by_key(newest),
            Self::Number => rows.sort_by_key(|row| row.number),
        }
    }
}

/// The worst first.
pub(super) const fn rank(standing: Standing) -> u8 {
    match standing {
        Standing::Failed => 0,
        Standing::NotOpen => 1,
        Standing::NotJudged => 2,
        Standing::Empty => 3,
        Standing::Good => 4,
    }
}

/// Why segments of a connection failed, or it did not open.
#[derive(Clone, Debug)]
pub struct Reason {
    /// Whether it was not told before: the words of one that was may have changed.
    pub is_new: bool,
    /// When it was found: the time of the connection's last segment.
    pub time: Option<Time>,
    /// The number of its connection.
    pub number: u64,
    /// Opener and listener.
    pub ends: [Endpoint; 2],
    /// The reason.
    pub diagnosis: Diagnosis,
}

/// Follows live connections.
#[derive(Default, Debug)]
pub struct Watch {
    /// What was told of each connection that has failed or not opened.
    told: HashMap<u64, Told, RandomState>,
}

#[derive(Debug)]
struct Told {
    /// When it was diagnosed first and last.
    since: Instant,
    asked: Instant,
    /// How many segments had failed when it was diagnosed last.
    failed: u64,
    /// The kinds of reasons, and whose segments they are about. A cause's words change as it explains more segments.
    kinds: HashSet<(&'static str, bool), RandomState>,
    /// The worst of them.
    standing: Option<Standing>,
}

impl Default for Told {
    fn default() -> Self {
        let now = Instant::now();
        Self { since: now, asked: now, failed: 0, kinds: HashSet::default(), standing: None }
    }
}

impl Watch {
    /// Looks at all live connections: calls `row` for each, and returns the reasons that are new or may have changed.
    pub fn look(&mut self, verifier: &Verifier<'_>, mut row: impl FnMut(Row)) -> Vec<Reason> {
        let (mut reasons, mut diagnosed) = (Vec::new(), [0; 2]);
        for snapshot in verifier.snapshots() {
            let counts = snapshot.counts();
            let mut found = standing(&counts);
            let failed = failed(&counts);
            let told = self.told.get(&snapshot.number());
            let is_rested = told.is_none_or(|told| told.asked.elapsed() > SETTLING);
            let has_failed_anew = told.map_or(failed > 0, |told| told.failed != failed && is_rested);
            // One that is not open may turn out not to open by the passing of time alone, or open after all.
            let told_not_open = told.is_some_and(|told| told.standing == Some(Standing::NotOpen));
            let is_opening = (snapshot.is_opening() || told_not_open) && is_rested;
            let diagnosed = if has_failed_anew { &mut diagnosed[0] } else { &mut diagnosed[1] };
            if (has_failed_anew || is_opening) && *diagnosed < DIAGNOSED_AT_ONCE {
                *diagnosed += 1;
                self.tell(&snapshot, failed, &mut reasons);
            }
            let told = self.told.get(&snapshot.number()).and_then(|told| told.standing);
            if found != Standing::Failed && told == Some(Standing::NotOpen) {
                found = Standing::NotOpen;
            }
            row(Row {
                number: snapshot.number(),
                ends: *snapshot.ends(),
                keys: keys(&snapshot),
                counts,
                standing: found,
                is_closed: snapshot.is_closed(),
                last: snapshot.last(),
            });
        }
        reasons.sort_by_key(|reason| (reason.diagnosis.first.packet, reason.number));
        reasons
    }

    fn tell(&mut self, snapshot: &Snapshot<'_>, failed: u64, reasons: &mut Vec<Reason>) {
        let diagnoses = snapshot.diagnoses();
        let (number, ends, time) = (snapshot.number(), *snapshot.ends(), snapshot.last().time);
        let told = self.told.entry(number).or_default();
        told.asked = Instant::now();
        told.standing = diagnoses.iter().map(|diagnosis| diagnosis.about).next();
        if told.since.elapsed() < SETTLING && failed < SETTLED {
            return;
        }
        told.failed = failed;
        reasons.extend(told.reasons(diagnoses, time, number, ends));
    }

    /// The reasons of a connection that is over. Its reasons so far are forgotten.
    pub fn end(&mut self, connection: &ConnectionReport) -> Vec<Reason> {
        let mut told = self.told.remove(&connection.number).unwrap_or_default();
        let diagnoses = connection.diagnoses.clone();
        told.reasons(diagnoses, connection.last.time, connection.number, connection.ends)
    }
}

impl Told {
    fn reasons(
        &mut self,
        diagnoses: Vec<Diagnosis>,
        time: Option<Time>,
        number: u64,
        ends: [Endpoint; 2],
    ) -> Vec<Reason> {
        let is_wanted = |about| matches!(about, Standing::Failed | Standing::NotOpen);
        let mut reasons: Vec<Reason> = Vec::new();
        for diagnosis in diagnoses {
            // It may be the same for both ends.
            let is_repeated = reasons.iter().any(|reason| reason.diagnosis.cause == diagnosis.cause);
            if is_wanted(diagnosis.about) {
                let is_new = self.kinds.insert((diagnosis.kind, diagnosis.sender == Sender::Opener));
                if !is_repeated {
                    reasons.push(Reason { is_new, time, number, ends, diagnosis });
                }
            }
        }
        reasons
    }
}

fn keys(snapshot: &Snapshot<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in snapshot.key_names().into_iter().flatten() {
        if names.iter().all(|known| known != name) {
            names.push(name.to_owned());
        }
    }
    names
}
