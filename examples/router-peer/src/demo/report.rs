//! What the demonstration found, as a table.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};

use super::sessions::peak_memory;

/// Widest table, in columns.
const WIDTH: u16 = 120;

/// The outcome of each check that ran.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<(&'static str, &'static str, Duration, Result<String>)>,
}

impl Report {
    pub(super) fn add(
        &mut self,
        name: &'static str,
        action: &'static str,
        took: Duration,
        outcome: Result<String>,
    ) {
        self.lines.push((name, action, took, outcome));
    }

    /// The names of the checks that failed.
    #[must_use]
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = self.lines.iter().filter(|(.., outcome)| outcome.is_err());
        failed.map(|(name, ..)| *name).collect()
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
        for (name, action, took, outcome) in &self.lines {
            let (verdict, seen) = match outcome {
                Ok(seen) => ("ok", seen.clone()),
                Err(error) => ("FAILED", format!("{error:#}")),
            };
            let verdict = format!("{verdict}, {:.2} s", took.as_secs_f64());
            table.add_row([*name, *action, &seen, &verdict]);
        }
        let took: Duration = self.lines.iter().map(|(_, _, took, _)| took).sum();
        write!(f, "{table}\nchecks: {} in {:.1} s", self.lines.len(), took.as_secs_f64())?;
        if let Some(peak) = peak_memory() {
            write!(f, ", {peak} MiB of memory at most")?;
        }
        match self.failed().as_slice() {
            [] => write!(f, "\nrouter-peer: all checks passed"),
            failed => write!(f, "\nrouter-peer: failed: {}", failed.join(", ")),
        }
    }
}
