//! A row and its negative twin, their outcomes, and how these are reported: on the terminal and in RESULTS.md.

use std::fmt::{self, Write};
use std::fs;
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use agent::Counted;
use anyhow::{Context, Result, bail, ensure};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use tokio::time::timeout;

use crate::guest::Guest;
use crate::lab::Lab;
use crate::verify::Verdicts;
use crate::wire::Recording;

/// The time limit of a row or its twin.
const ROW: Duration = Duration::from_secs(180);

type Run<T> = Box<dyn for<'a> Fn(&'a Lab) -> LocalBoxFuture<'a, Result<T>>>;

fn boxed<T: 'static>(run: impl AsyncFn(&Lab) -> Result<T> + 'static) -> Run<T> {
    let run = Rc::new(run);
    Box::new(move |lab| {
        let run = Rc::clone(&run);
        async move { run(lab).await }.boxed_local()
    })
}

pub struct Row {
    /// Its name on the command line, in the table and in file names.
    pub name: String,
    /// What is done: a short sentence, then details after a colon, semicolon or full stop.
    pub what: String,
    run: Run<Evidence>,
    /// What is wrong in its twin, which must not succeed: it shows that the row can fail.
    pub twin_what: String,
    twin: Run<Refusal>,
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
    /// Unsigned segments expected on the wire.
    pub unsigned: u64,
    /// Everything that went over the wire.
    pub recording: Recording,
}

impl Evidence {
    /// Adds the evidence of another session.
    pub fn add(&mut self, other: Self) {
        self.counters.extend(other.counters);
        self.wire.add(other.wire);
        self.recording.frames.extend(other.recording.frames);
    }

    /// The same with figures.
    pub fn with_figures(self, figures: impl Into<String>) -> Self {
        Self { figures: figures.into(), ..self }
    }
}

/// What a twin has shown: refusals, by counter.
#[derive(Clone, Debug, Default)]
pub struct Refusal {
    /// What was counted, by whom, and how often: at least once each.
    pub counted: Vec<(String, u64)>,
}

impl Refusal {
    /// An end's counters, without good segments.
    pub fn by(end: &str, counted: &Counted) -> Self {
        let counted = counted.named().filter(|(name, segments)| *segments > 0 && *name != "good");
        Self { counted: counted.map(|(name, segments)| (format!("{end}: {name}"), segments)).collect() }
    }

    /// A refusal that no counter shows.
    pub fn of(what: impl Into<String>, times: u64) -> Self {
        Self { counted: vec![(what.into(), times)] }
    }

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

/// What the kernels of two guests count from now on.
pub struct Both<'a>([(&'a Guest, Counted); 2]);

impl<'a> Both<'a> {
    pub async fn of(first: &'a Guest, second: &'a Guest) -> Result<Self> {
        Ok(Self([(first, first.counters().await?), (second, second.counters().await?)]))
    }

    /// What each has counted since; fails unless these are good segments only.
    pub async fn good(&self) -> Result<[Counted; 2]> {
        let good = async |(guest, before): &(&Guest, Counted)| {
            guest.counters().await?.since(before).check_good(&guest.port().to_string())
        };
        let [first, second] = &self.0;
        Ok([good(first).await?, good(second).await?])
    }

    /// Waits until each has counted a bad segment.
    pub async fn bad(&self) -> Result<Refusal> {
        self.refused(Counted::bad(1)).await
    }

    /// Waits until each has counted these.
    pub async fn refused(&self, wanted: Counted) -> Result<Refusal> {
        let refused = async |(guest, before): &(&Guest, Counted)| {
            let counted = guest.await_counted(before, wanted).await?;
            anyhow::Ok(Refusal::by(&guest.port().to_string(), &counted))
        };
        let [first, second] = &self.0;
        let (first, second) = tokio::try_join!(refused(first), refused(second))?;
        Ok(first.and(second))
    }
}

/// A row's outcome.
pub struct Outcome<'a> {
    pub row: &'a Row,
    pub evidence: Result<Evidence>,
    /// What the twin has shown.
    pub refusal: Result<Refusal>,
    /// Seconds of the row, without its twin.
    pub seconds: f64,
}

impl Outcome<'_> {
    /// Whether the row succeeded and its twin was refused.
    pub const fn has_passed(&self) -> bool {
        self.evidence.is_ok() && self.refusal.is_ok()
    }
}

impl Row {
    /// A row and its twin. The name is taken in lower case.
    pub fn new(
        name: impl Into<String>,
        what: impl Into<String>,
        run: impl AsyncFn(&Lab) -> Result<Evidence> + 'static,
        twin_what: impl Into<String>,
        twin: impl AsyncFn(&Lab) -> Result<Refusal> + 'static,
    ) -> Self {
        let (name, what, twin_what) = (name.into().to_lowercase(), what.into(), twin_what.into());
        Self { name, what, run: boxed(run), twin_what, twin: boxed(twin) }
    }

    /// What is done, without the details.
    pub fn in_short(&self) -> &str {
        let end = [": ", "; ", ". "].into_iter().filter_map(|mark| self.what.find(mark)).min();
        &self.what[..end.unwrap_or(self.what.len())]
    }

    /// Runs the row and its twin, and writes the recordings.
    pub async fn carry_out(&self, lab: &Lab) -> Outcome<'_> {
        let started = Instant::now();
        let mut evidence = self.limited(lab, (self.run)(lab)).await;
        let recording = match &mut evidence {
            Ok(evidence) => std::mem::take(&mut evidence.recording),
            Err(_) => lab.wire.take_recording(),
        };
        let evidence =
            evidence.and_then(|evidence| evidence.wire.check(evidence.unsigned).map(|()| evidence));
        let kind = if evidence.is_ok() { "pcap" } else { "failed.pcap" };
        let evidence = self.with_written(lab, evidence, &recording, kind);
        let seconds = started.elapsed().as_secs_f64();
        let mut refusal = self.limited(lab, (self.twin)(lab)).await.and_then(|refusal| {
            let counted = !refusal.counted.is_empty() && refusal.counted.iter().all(|(_, times)| *times > 0);
            ensure!(counted, "nothing was refused: {refusal}");
            Ok(refusal)
        });
        if refusal.is_err() {
            refusal = self.with_written(lab, refusal, &lab.wire.take_recording(), "twin.failed.pcap");
        }
        Outcome { row: self, evidence, refusal, seconds }
    }

    /// Writes the recording. If that fails, fails with this reason and the result's, if any.
    fn with_written<T>(&self, lab: &Lab, result: Result<T>, recording: &Recording, kind: &str) -> Result<T> {
        let path = lab.setting.state.join(format!("recordings/{}.{kind}", self.name));
        match (result, recording.write(&path, true)) {
            (Err(failure), Err(unwritten)) => bail!("{failure:#}; {unwritten:#}"),
            (result, written) => result.and_then(|value| written.map(|()| value)),
        }
    }

    async fn limited<T>(&self, lab: &Lab, run: impl Future<Output = Result<T>>) -> Result<T> {
        lab.clear().await?;
        lab.wire.take_undelivered();
        let result = timeout(ROW, run).await;
        let result = result.with_context(|| format!("not done within {} s", ROW.as_secs()))??;
        let undelivered = lab.wire.take_undelivered();
        ensure!(undelivered.is_empty(), "the wire could not deliver: {}", undelivered.join("; "));
        Ok(result)
    }
}

/// The version of a program, from lines of `name=version`.
fn version<'a>(versions: &'a str, name: &str) -> &'a str {
    let found = versions.lines().find_map(|line| line.split_once('=').filter(|(of, _)| *of == name));
    found.map_or("unknown", |(_, version)| version)
}

/// A row's line on the terminal, with what it and its twin have shown.
pub fn line(outcome: &Outcome<'_>) -> String {
    let (Row { name, what, twin_what, .. }, seconds) = (outcome.row, outcome.seconds);
    match (&outcome.evidence, &outcome.refusal) {
        (Err(failure), _) => format!("FAILED {name}: {failure:#}"),
        (Ok(_), Err(failure)) => format!("FAILED {name}: its twin ({twin_what}): {failure:#}"),
        (Ok(evidence), Ok(refusal)) => {
            let counted = evidence.counters.iter().map(|(end, counted)| format!("{end} {counted}"));
            let shown = counted.chain([evidence.wire.to_string(), evidence.figures.clone()]);
            let shown: Vec<_> = shown.filter(|shown| !shown.is_empty()).collect();
            format!(
                "passed {name} ({seconds:.1} s): {what}\n    {}\n    twin: {twin_what}: {refusal}",
                shown.join("; ")
            )
        }
    }
}

/// Writes the outcomes of all rows, one short line for each; the terminal has shown the rest.
pub fn write_results(path: &Path, versions: &str, outcomes: &[Outcome<'_>]) -> Result<()> {
    let passed = outcomes.iter().filter(|outcome| outcome.has_passed()).count();
    let mut text = format!(
        "# Wireseal and Linux's TCP-AO\n\n\
         Written by `interop/linux/run` on {} at commit {}; [README.md](README.md) says what decides a row. Linux {} (Debian {}), \
         without TCP-AO {}, BIRD {}, FRR {}, GoBGP {}, ExaBGP {}, QEMU {}, rustc {}. {passed} rows passed, {} failed.\n\n\
         | row | what was done | outcome | seconds |\n\
         |---|---|---|---|\n",
        version(versions, "date"),
        version(versions, "commit"),
        version(versions, "kernel"),
        version(versions, "kernel_package"),
        version(versions, "own_kernel"),
        version(versions, "bird"),
        version(versions, "frr"),
        version(versions, "gobgpd"),
        version(versions, "exabgp"),
        version(versions, "qemu"),
        version(versions, "rustc"),
        outcomes.len() - passed,
    );
    for outcome in outcomes {
        let result = match (&outcome.evidence, &outcome.refusal) {
            (Err(_), _) => "FAILED",
            (Ok(_), Err(_)) => "FAILED by its twin",
            (Ok(_), Ok(_)) => "passed",
        };
        let (row, seconds) = (outcome.row, outcome.seconds);
        writeln!(text, "| {} | {} | {result} | {seconds:.1} |", row.name, row.in_short())?;
    }
    fs::write(path, text)?;
    Ok(())
}

/// What nearly every row uses.
pub mod prelude {
    pub use anyhow::{Context, Result, anyhow, bail, ensure};

    pub use crate::lab::Lab;
    pub use crate::row::{Both, Evidence, Refusal, Row};
    pub use crate::wait::refused;
    pub use crate::wire::{Family, Frame, Port, Recording};
}
