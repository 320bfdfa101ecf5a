//! The rows: what each one does, what has to come of it, and its negative twin.

mod bgp;
mod closing;
mod kernels;
mod manager;
mod matrix;
mod moving;
mod refusals;
mod rollover;
mod session;
mod wrap;

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use agent::NetworkCounters;
use futures_util::future::LocalBoxFuture;
use tokio::time::timeout;

use crate::failure::{Failure, ensure};
use crate::lab::Lab;
use crate::recording::Recording;
use crate::verify::Verdicts;

/// The longest that a row or its twin may take.
const ROW: Duration = Duration::from_secs(180);

type Run<T> = Box<dyn for<'a> Fn(&'a Lab) -> LocalBoxFuture<'a, Result<T, Failure>>>;

/// A row of the table.
pub struct Row {
    /// What it is called on the command line, in the table and in file names.
    pub name: String,
    /// What is done.
    pub what: String,
    run: Run<Evidence>,
    twin: Twin,
}

/// The same with one thing wrong, so that it must not succeed: without one, a row might pass whatever happens.
struct Twin {
    what: String,
    run: Run<Refusal>,
}

/// What a row has shown.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// What each end has counted, the end's name first.
    pub counters: Vec<(String, String)>,
    /// What the recording says.
    pub wire: Verdicts,
    /// Amounts, times and the like.
    pub figures: String,
    /// How many unsigned segments the wire has to have seen; a row that wants any says so.
    pub unsigned: u64,
    /// All that went over the wire.
    pub recording: Recording,
}

impl Evidence {
    /// Fails when the recording has something in it that does not verify, or other unsigned segments than the row says.
    fn check(&self) -> Result<(), Failure> {
        let Self { wire, unsigned, .. } = self;
        ensure(wire.failed.is_empty() && wire.unsigned == *unsigned, || {
            let first =
                wire.failed.first().map_or(String::new(), |first| format!(", the first failed: {first}"));
            format!("recording: {wire}, of {unsigned} that should be unsigned{first}")
        })
    }
}

/// What a twin has shown: what was refused, by the counters that say so.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Who counted, what, and how often; each at least once.
    pub counted: Vec<(String, u64)>,
}

impl Refusal {
    /// The counters of a guest's kernel that have grown.
    #[must_use]
    pub fn by_kernel(guest: &str, grown: &NetworkCounters) -> Self {
        let counted = grown.named().into_iter().filter(|(name, segments)| *segments > 0 && *name != "good");
        Self { counted: counted.map(|(name, segments)| (format!("{guest}: {name}"), segments)).collect() }
    }

    /// A counter of the userspace end.
    #[must_use]
    pub fn by_userspace(counter: &str, segments: u64) -> Self {
        Self { counted: vec![(format!("userspace: {counter}"), segments)] }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted: Vec<String> =
            self.counted.iter().map(|(what, times)| format!("{what} {times}")).collect();
        f.write_str(&counted.join(", "))
    }
}

/// What came of a row.
#[derive(Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What was done.
    pub what: String,
    /// What was wrong in the twin.
    pub twin_what: String,
    /// What the row has shown.
    pub evidence: Result<Evidence, Failure>,
    /// What the twin has shown.
    pub refusal: Result<Refusal, Failure>,
    /// Seconds of the row, without its twin.
    pub seconds: f64,
}

impl Outcome {
    /// Whether the row and its twin came out as they have to.
    #[must_use]
    pub const fn has_passed(&self) -> bool {
        self.evidence.is_ok() && self.refusal.is_ok()
    }
}

impl Row {
    /// A row and its twin.
    pub fn new<F, T>(
        name: impl Into<String>,
        what: impl Into<String>,
        run: F,
        twin_what: impl Into<String>,
        twin: T,
    ) -> Self
    where
        F: for<'a> Fn(&'a Lab) -> LocalBoxFuture<'a, Result<Evidence, Failure>> + 'static,
        T: for<'a> Fn(&'a Lab) -> LocalBoxFuture<'a, Result<Refusal, Failure>> + 'static,
    {
        let twin = Twin { what: twin_what.into(), run: Box::new(twin) };
        Self { name: name.into(), what: what.into(), run: Box::new(run), twin }
    }

    /// Carries out the row and its twin, and writes the recordings.
    pub async fn carry_out(&self, lab: &Lab) -> Outcome {
        let recordings = lab.setting.state.join("recordings");
        let started = Instant::now();
        let carried_out = self.limited(lab, (self.run)(lab)).await;
        let evidence = match carried_out {
            Ok(evidence) => {
                let checked = evidence.check();
                let kind = if checked.is_ok() { "pcap" } else { "failed.pcap" };
                let written = evidence.recording.write(&recordings.join(format!("{}.{kind}", self.name)));
                // Small enough to keep, and for all to see.
                checked.and(written).map(|()| Evidence { recording: Recording::default(), ..evidence })
            }
            Err(failure) => {
                let seen = lab.wire.take_recording();
                let file = recordings.join(format!("{}.failed.pcap", self.name));
                Err(match seen.write(&file) {
                    Ok(()) => failure,
                    Err(unwritten) => Failure(format!("{failure}; {unwritten}")),
                })
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        let refusal = self.limited(lab, (self.twin.run)(lab)).await.and_then(|refusal| {
            let counted = !refusal.counted.is_empty() && refusal.counted.iter().all(|(_, times)| *times > 0);
            ensure(counted, || format!("nothing was refused: {refusal}"))?;
            Ok(refusal)
        });
        Outcome {
            name: self.name.clone(),
            what: self.what.clone(),
            twin_what: self.twin.what.clone(),
            evidence,
            refusal,
            seconds,
        }
    }

    async fn limited<T>(
        &self,
        lab: &Lab,
        run: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        lab.clear().await?;
        lab.wire.take_undelivered();
        let result = timeout(ROW, run).await;
        let result = result.map_err(|_| Failure(format!("not done within {} s", ROW.as_secs())))??;
        let undelivered = lab.wire.take_undelivered();
        ensure(undelivered.is_empty(), || format!("the wire could not deliver: {}", undelivered.join("; ")))?;
        Ok(result)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All rows, in the table's order.
#[must_use]
pub fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(matrix::rows());
    rows.extend(rollover::rows());
    rows.extend(refusals::rows());
    rows.extend(closing::rows());
    rows.extend(bgp::rows());
    rows.extend(wrap::rows());
    rows.extend(moving::rows());
    rows.extend(manager::rows());
    rows
}
