//! What the demonstration found, as a table.

use std::fmt;
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};

use super::routes::peak_memory;
use super::{Check, Outcome};

/// Widest table, in columns.
const WIDTH: u16 = 120;

/// The outcome of each check that ran.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<(&'static str, &'static str, Duration, Outcome)>,
}

impl Report {
    pub(super) fn add(&mut self, check: &Check, took: Duration, outcome: Outcome) {
        self.lines.push((check.name, check.action, took, outcome));
    }

    /// The names of the checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &'static str> {
        self.lines.iter().filter(|(.., outcome)| outcome.is_err()).map(|(name, ..)| *name)
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
                Ok(seen) => ("ok", seen),
                Err(failure) => ("FAILED", &failure.0),
            };
            let verdict = format!("{verdict}, {:.2} s", took.as_secs_f64());
            table.add_row([name, action, seen.as_str(), verdict.as_str()]);
        }
        writeln!(f, "{table}")?;
        let took: Duration = self.lines.iter().map(|(_, _, took, _)| took).sum();
        write!(f, "checks: {} in {:.1} s", self.lines.len(), took.as_secs_f64())?;
        if let Some(peak) = peak_memory() {
            write!(f, ", {peak} MiB of memory at most")?;
        }
        writeln!(f)?;
        let failed: Vec<_> = self.failed().collect();
        if failed.is_empty() {
            write!(f, "router-peer: all checks passed")
        } else {
            write!(f, "router-peer: failed: {}", failed.join(", "))
        }
    }
}
