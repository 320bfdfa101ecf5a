//! The results as a table.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};

use super::sessions::peak_memory;

/// Width of the table in columns, at most.
const WIDTH: u16 = 120;

/// One check that was run.
#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    pub action: &'static str,
    pub took: Duration,
    pub outcome: Result<String>,
}

/// The outcome of each check that was run.
#[derive(Debug)]
pub struct Report(pub(super) Vec<Line>);

impl Report {
    /// The names of the checks that failed.
    #[must_use]
    pub fn failed(&self) -> Vec<&'static str> {
        self.0.iter().filter(|line| line.outcome.is_err()).map(|line| line.name).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table
            .load_style(presets::ASCII_BORDERS_ONLY_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH)
            .set_header(["check", "what is done", "what was seen", "verdict"]);
        for Line { name, action, took, outcome } in &self.0 {
            let (verdict, seen) = match outcome {
                Ok(seen) => ("ok", seen.clone()),
                Err(error) => ("FAILED", format!("{error:#}")),
            };
            let verdict = format!("{verdict}, {:.2} s", took.as_secs_f64());
            table.add_row([*name, *action, &seen, &verdict]);
        }
        let took: Duration = self.0.iter().map(|line| line.took).sum();
        write!(f, "{table}\nchecks: {} in {:.1} s", self.0.len(), took.as_secs_f64())?;
        if let Some(peak) = peak_memory() {
            write!(f, ", {peak} MiB of memory at most")?;
        }
        match self.failed().as_slice() {
            [] => write!(f, "\nrouter-peer: all checks passed"),
            failed => write!(f, "\nrouter-peer: failed: {}", failed.join(", ")),
        }
    }
}
