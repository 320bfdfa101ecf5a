//! Reports on an output, as they come.

use std::io::{self, Write};

use super::report::{ConnectionReport, Totals};
use super::{json, text};

/// How a report is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one object, documented in `docs/quic-json.md`.
    Json,
}

/// Writes the report of a capture: a connection when it is handed over, which is then forgotten.
#[derive(Debug)]
pub struct Printer<W> {
    output: W,
    format: Format,
    connections: u64,
}

impl<W: Write> Printer<W> {
    /// Begins the report of the capture that the command line names so. `output` should be buffered.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(mut output: W, format: Format, capture: &str) -> io::Result<Self> {
        if format == Format::Json {
            json::begin(&mut output, capture)?;
        }
        Ok(Self { output, format, connections: 0 })
    }

    /// Writes what is known of a connection.
    ///
    /// # Errors
    /// Those of writing.
    pub fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        let is_first = self.connections == 0;
        self.connections += 1;
        match self.format {
            Format::Text => text::connection(&mut self.output, connection),
            Format::Json => json::connection(&mut self.output, connection, is_first),
        }
    }

    /// Writes what there was in all.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self, totals: &Totals) -> io::Result<()> {
        match self.format {
            Format::Text => text::totals(&mut self.output, totals)?,
            Format::Json => json::finish(&mut self.output, totals)?,
        }
        self.output.flush()
    }
}
