//! Reports on an output, as connections end.

use std::io::{self, Write};

use serde::Serialize;

use super::report::{ConnectionReport, Totals};
use super::text;
use crate::report::json::element;
use crate::standing::Standing;

/// Raised when a program that reads the report has to be changed.
const SCHEMA: u32 = 1;

/// Writes the report of a capture, each connection as soon as it is over.
#[derive(Debug)]
pub struct Printer<W> {
    output: W,
    is_json: bool,
    connections: u64,
}

impl<W: Write> Printer<W> {
    /// Begins the report, for people or as one object that `docs/quic-json.md` documents; `capture` is what the command line
    /// calls the file. `output` should be buffered.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(mut output: W, is_json: bool, capture: &str) -> io::Result<Self> {
        if is_json {
            write!(output, "{{\"schema\":{SCHEMA},\"capture\":")?;
            serde_json::to_writer(&mut output, capture)?;
            output.write_all(b",\"connections\":[")?;
        }
        Ok(Self { output, is_json, connections: 0 })
    }

    /// Writes what is known of a connection.
    ///
    /// # Errors
    /// Those of writing.
    pub fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        let before = self.connections;
        self.connections += 1;
        match self.is_json {
            false => text::connection(&mut self.output, connection),
            true => element(&mut self.output, before, connection),
        }
    }

    /// Writes the totals.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self, totals: &Totals) -> io::Result<()> {
        match self.is_json {
            false => text::totals(&mut self.output, totals)?,
            true => {
                self.output.write_all(b"\n],\"totals\":")?;
                let totals = TotalsObject { outcome: totals.standing(), totals };
                serde_json::to_writer(&mut self.output, &totals)?;
                self.output.write_all(b"}\n")?;
            }
        }
        self.output.flush()
    }
}

#[derive(Serialize)]
struct TotalsObject<'a> {
    outcome: Standing,
    #[serde(flatten)]
    totals: &'a Totals,
}
