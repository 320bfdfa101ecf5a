//! The report for programs: one object, written as it comes. `docs/verify-json.md` describes it.

use std::io::{self, Seek, SeekFrom, Write};

use serde::Serialize;
use tempfile::SpooledTempFile;

use super::Subject;
use super::json_types::{Connection, Key, Segment, Totals};
use super::summary::Summary;
use crate::verify::report::{self, ConnectionReport, SegmentReport};

/// The version of the schema; fields may be added under the same number, and nothing else changes.
const SCHEMA: u32 = 1;
/// Octets of connections that wait in memory for the last segment, before they do in a file.
const WAITING_IN_MEMORY: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Json<'a, W> {
    output: W,
    subject: Subject<'a>,
    /// With segments: how many were written, and the connections, which come behind them in the object.
    segments: Option<(u64, SpooledTempFile)>,
    connections: u64,
}

impl<'a, W: Write> Json<'a, W> {
    pub(super) fn begin(mut output: W, with_segments: bool, subject: Subject<'a>) -> io::Result<Self> {
        write!(output, "{{\n\"schema\": {SCHEMA},\n\"capture\": ")?;
        serde_json::to_writer(&mut output, subject.capture)?;
        write!(output, ",\n\"keys\": [")?;
        for (place, key) in subject.keys.keys.iter().enumerate() {
            element(&mut output, place as u64, &Key::from(key))?;
        }
        let begin = if with_segments { "segments" } else { "connections" };
        write!(output, "\n],\n\"{begin}\": [")?;
        let segments = with_segments.then(|| (0, SpooledTempFile::new(WAITING_IN_MEMORY)));
        Ok(Self { output, subject, segments, connections: 0 })
    }

    pub(super) fn segment(&mut self, connection: u64, segment: &SegmentReport) -> io::Result<()> {
        let Some((before, _)) = &mut self.segments else { return Ok(()) };
        element(&mut self.output, *before, &Segment::new(connection, segment))?;
        *before += 1;
        Ok(())
    }

    pub(super) fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        let connection = Connection::new(connection, self.subject.keys);
        match &mut self.segments {
            Some((_, waiting)) => element(waiting, self.connections, &connection)?,
            None => element(&mut self.output, self.connections, &connection)?,
        }
        self.connections += 1;
        Ok(())
    }

    pub(super) fn finish(mut self, totals: &report::Totals, summary: &Summary) -> io::Result<()> {
        if let Some((_, mut waiting)) = self.segments {
            write!(self.output, "\n],\n\"connections\": [")?;
            waiting.seek(SeekFrom::Start(0))?;
            io::copy(&mut waiting, &mut self.output)?;
        }
        write!(self.output, "\n],\n\"totals\": ")?;
        serde_json::to_writer(&mut self.output, &Totals::new(totals, summary))?;
        write!(self.output, "\n}}\n")?;
        self.output.flush()
    }
}

/// Writes an element of an array, of which so many stand before it, on a line of its own.
fn element(output: &mut impl Write, before: u64, value: &impl Serialize) -> io::Result<()> {
    output.write_all(if before > 0 { b",\n" } else { b"\n" })?;
    serde_json::to_writer(output, value).map_err(io::Error::from)
}
