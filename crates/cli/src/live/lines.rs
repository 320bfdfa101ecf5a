//! What is told of live connections on an output that is no terminal: a line for each event.

use std::io::{self, Write};

use wireseal_tcp_ao::Endpoint;

use super::watch::Reason;
use crate::capture::Time;
use crate::report;
use crate::text::{Printable, counted};
use crate::verify::report::{ConnectionReport, SegmentReport};

/// Writes lines.
#[derive(Debug)]
pub(crate) struct Lines<W> {
    output: W,
    /// The highest number of a connection so far.
    connections: u64,
    /// Packets that the kernel has dropped.
    dropped: u64,
    /// The time of the last segment.
    now: Option<Time>,
}

impl<W: Write> Lines<W> {
    pub(crate) const fn new(output: W) -> Self {
        Self { output, connections: 0, dropped: 0, now: None }
    }

    /// A line if the segment is the first of its connection.
    pub(crate) fn segment(
        &mut self,
        connection: u64,
        ends: &[Endpoint; 2],
        segment: &SegmentReport,
    ) -> io::Result<()> {
        self.now = segment.place.time;
        if connection <= self.connections {
            return Ok(());
        }
        self.connections = connection;
        self.line(format_args!("connection {connection}: {}", between(ends)))
    }

    /// A line for a reason that is new.
    pub(crate) fn reason(&mut self, reason: &Reason) -> io::Result<()> {
        let Reason { is_new, time, number, ends, diagnosis } = reason;
        if !is_new {
            return Ok(());
        }
        self.now = time.or(self.now);
        let what = report::standing_in_words(diagnosis.about);
        let sentence = diagnosis.sentence();
        self.line(format_args!("connection {number} {what}: {}: {sentence}", between(ends)))
    }

    /// A line for a connection that is over.
    pub(crate) fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        let ConnectionReport { number, ends, .. } = connection;
        let what = report::standing_in_words(connection.standing());
        let counts = report::counts_in_words(&connection.counts());
        self.line(format_args!("connection {number} ended: {}: {what}, {counts}", between(ends)))
    }

    /// A line if more packets were dropped than before.
    pub(crate) fn dropped(&mut self, dropped: u64) -> io::Result<()> {
        if dropped <= self.dropped {
            return Ok(());
        }
        let more = counted(dropped - self.dropped, "packet");
        self.dropped = dropped;
        self.line(format_args!("the kernel dropped {more}: missing answers may be due to that"))
    }

    fn line(&mut self, what: std::fmt::Arguments<'_>) -> io::Result<()> {
        let what = what.to_string();
        if let Some(now) = self.now {
            write!(self.output, "{now} ")?;
        }
        writeln!(self.output, "{}", Printable(&what))?;
        self.output.flush()
    }
}

/// Opener and listener.
pub(super) fn between([opener, listener]: &[Endpoint; 2]) -> String {
    format!("{opener} -> {listener}")
}
