//! The demonstration: a table of checks, each of which can fail.

mod impairments;
mod peers;
mod report;
mod routes;
mod sessions;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

pub use self::report::Report;

/// How long one check may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a check failed: what was expected, and what was seen instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure(pub String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Fails the check with a formatted message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::demo::Failure(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

/// What a check is told.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Seed of everything random.
    pub seed: u64,
    /// Whether this check is to be sabotaged: it must then fail.
    pub sabotaged: bool,
}

/// What a check did, in a few words.
type Outcome = Result<String, Failure>;
type Run = fn(Conditions) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// One promise and how it is put to the test.
#[derive(Clone, Copy)]
pub struct Check {
    /// What `--only` and `--break` call it.
    pub name: &'static str,
    /// What it shows.
    pub promise: &'static str,
    run: Run,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All checks, in the order in which they run.
pub const CHECKS: &[Check] = &[
    Check {
        name: "sessions",
        promise: "a session is established over IPv4 and over IPv6",
        run: |conditions| Box::pin(sessions::families(conditions)),
    },
    Check {
        name: "routes",
        promise: "100,000 routes are exchanged and withdrawn",
        run: |conditions| Box::pin(routes::full_table(conditions)),
    },
    Check {
        name: "impairments",
        promise: "5 % loss, reordering and duplication are survived",
        run: |conditions| Box::pin(impairments::survived(conditions)),
    },
];

/// Which checks run, and which of them is sabotaged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// Only the check of this name runs.
    pub only: Option<&'a str>,
    /// The check of this name is sabotaged.
    pub sabotage: Option<&'a str>,
    /// Seed of everything random.
    pub seed: u64,
}

/// Runs the checks one after the other. None is skipped because another failed.
pub async fn run(selection: Selection<'_>) -> Report {
    let mut report = Report::default();
    for check in CHECKS.iter().filter(|check| selection.only.is_none_or(|only| only == check.name)) {
        let conditions =
            Conditions { seed: selection.seed, sabotaged: selection.sabotage == Some(check.name) };
        let started = Instant::now();
        let outcome = match tokio::time::timeout(PATIENCE, (check.run)(conditions)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure(format!("no result within {} s", PATIENCE.as_secs()))),
        };
        report.add(check, started.elapsed(), outcome);
    }
    report
}
