//! A row and its negative twin, and what comes of them.

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use agent::Counted;
use futures_util::future::LocalBoxFuture;
use tokio::time::timeout;

use crate::failure::{Failure, Result, ensure};
use crate::lab::Lab;
use crate::recording::Recording;
use crate::verify::Verdicts;

/// The longest that a row or its twin may take.
const ROW: Duration = Duration::from_secs(180);

type Run<T> = Box<dyn for<'a> Fn(&'a Lab) -> LocalBoxFuture<'a, Result<T>>>;

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
    /// Adds that of another session.
    pub fn add(&mut self, other: Self) {
        self.counters.extend(other.counters);
        self.wire.add(other.wire);
        self.recording.append(other.recording);
    }

    /// The same with figures.
    pub fn with_figures(self, figures: impl Into<String>) -> Self {
        Self { figures: figures.into(), ..self }
    }
}

/// What a twin has shown: what was refused, by the counters that say so.
#[derive(Clone, Debug, Default)]
pub struct Refusal {
    /// Who counted, what, and how often; each at least once.
    pub counted: Vec<(String, u64)>,
}

impl Refusal {
    /// What an end has counted, good segments left out.
    pub fn by(end: &str, counted: &Counted) -> Self {
        let counted = counted.named().filter(|(name, segments)| *segments > 0 && *name != "good");
        Self { counted: counted.map(|(name, segments)| (format!("{end}: {name}"), segments)).collect() }
    }

    /// The same for something else.
    pub fn of(what: impl Into<String>, times: u64) -> Self {
        Self { counted: vec![(what.into(), times)] }
    }

    /// Both.
    pub fn and(mut self, other: Self) -> Self {
        self.counted.extend(other.counted);
        self
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
    pub evidence: Result<Evidence>,
    /// What the twin has shown.
    pub refusal: Result<Refusal>,
    /// Seconds of the row, without its twin.
    pub seconds: f64,
}

impl Outcome {
    /// Whether the row and its twin came out as they have to.
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
        F: for<'a> Fn(&'a Lab) -> LocalBoxFuture<'a, Result<Evidence>> + 'static,
        T: for<'a> Fn(&'a Lab) -> LocalBoxFuture<'a, Result<Refusal>> + 'static,
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
                let checked = evidence.wire.check(evidence.unsigned);
                let kind = if checked.is_ok() { "pcap" } else { "failed.pcap" };
                let written =
                    evidence.recording.write(&recordings.join(format!("{}.{kind}", self.name)), true);
                // Small enough to keep, and for all to see.
                checked.and(written).map(|()| Evidence { recording: Recording::default(), ..evidence })
            }
            Err(failure) => {
                let seen = lab.wire.take_recording();
                let file = recordings.join(format!("{}.failed.pcap", self.name));
                Err(match seen.write(&file, true) {
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

    async fn limited<T>(&self, lab: &Lab, run: impl Future<Output = Result<T>>) -> Result<T> {
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
