//! What the demonstration found, as a table.

use std::fmt;
use std::time::Duration;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::{Check, Outcome};

/// Widest table, in columns.
const WIDTH: u16 = 110;

/// The outcome of each check that ran.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<(&'static str, &'static str, Duration, Outcome)>,
}

impl Report {
    pub(super) fn add(&mut self, check: &Check, took: Duration, outcome: Outcome) {
        self.lines.push((check.name, check.promise, took, outcome));
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
            .set_header(["check", "what it shows", "result", "seconds", "what happened"]);
        for (name, promise, took, outcome) in &self.lines {
            let (result, detail) = match outcome {
                Ok(detail) => ("ok", detail),
                Err(failure) => ("FAILED", &failure.0),
            };
            let seconds = Cell::new(format!("{:.2}", took.as_secs_f64())).set_alignment(CellAlignment::Right);
            table.add_row([
                Cell::new(name),
                Cell::new(promise),
                Cell::new(result),
                seconds,
                Cell::new(detail),
            ]);
        }
        writeln!(f, "{table}")?;
        let failed: Vec<_> = self.failed().collect();
        if failed.is_empty() {
            write!(f, "router-peer: all checks passed")
        } else {
            write!(f, "router-peer: failed: {}", failed.join(", "))
        }
    }
}
