//! The report for people: a block for each connection, a table, and the answer in the last line.

use std::fmt::{self, Display};
use std::io::{self, Write};

use clap::builder::styling::{AnsiColor, Style};
use wireseal_tcp_ao::Endpoint;

use super::table::table;
use super::words::{self, KEY_USES_SHOWN, Subject, Summary, VERDICTS, VerdictInWords};
use crate::capture::{Place, Time};
use crate::text::{Printable, counted, flags, grouped};
use crate::verify::report::{
    ConnectionReport, DirectionReport, SegmentReport, Sender, Standing, Totals, Verdict,
};

const GOOD: Style = AnsiColor::Green.on_default();
const FAILED: Style = AnsiColor::Red.on_default().bold();
const NOT_JUDGED: Style = AnsiColor::Yellow.on_default();
const HEADING: Style = Style::new().bold();

#[derive(Debug)]
pub(super) struct Text<'a, W> {
    output: W,
    colours: bool,
    subject: Subject<'a>,
}

/// A text in a style.
struct Styled<T>(Style, T);

impl<T: Display> Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{:#}", self.0, self.1, self.0)
    }
}

impl<'a, W: Write> Text<'a, W> {
    pub(super) const fn new(output: W, colours: bool, subject: Subject<'a>) -> Self {
        Self { output, colours, subject }
    }

    fn styled<T>(&self, style: Style, text: T) -> Styled<T> {
        Styled(if self.colours { style } else { Style::new() }, text)
    }

    /// A line for the segment: `#7 2026-01-01T00:00:00.000000Z connection 1 192.0.2.1:50000 > 192.0.2.2:179 [SYN] …`.
    pub(super) fn segment(
        &mut self,
        connection: u64,
        ends: &[Endpoint; 2],
        segment: &SegmentReport,
    ) -> io::Result<()> {
        let SegmentReport { place, sender, sequence, acknowledgment, .. } = segment;
        let [from, to] = match sender {
            Sender::Opener => [ends[0], ends[1]],
            Sender::Listener => [ends[1], ends[0]],
        };
        write!(self.output, "#{}", place.packet)?;
        if let Some(time) = place.time {
            write!(self.output, " {time}")?;
        }
        let flags = flags(segment.flags).join(" ");
        write!(self.output, " connection {connection} {from} > {to} [{flags}] seq {}", sequence.0)?;
        if let Some(acknowledgment) = acknowledgment {
            write!(self.output, " ack {}", acknowledgment.0)?;
        }
        write!(self.output, " length {}", segment.payload_length)?;
        if let Some([key_id, rnext_key_id]) = segment.key_ids {
            write!(self.output, " KeyID {key_id} RNextKeyID {rnext_key_id}")?;
        }
        if let Some(sne) = segment.sne {
            write!(self.output, " SNE {}", sne.0)?;
        }
        if segment.is_retransmission {
            write!(self.output, " retransmission")?;
        }
        let style = match segment.verdict {
            Verdict::Good => GOOD,
            verdict if verdict.is_failure() => FAILED,
            _ => NOT_JUDGED,
        };
        let verdict = self.styled(style, VerdictInWords(segment.verdict));
        writeln!(self.output, " {verdict}")
    }

    pub(super) fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        let ConnectionReport { number, ends: [opener, listener], first, last, .. } = connection;
        let name = format!("connection {number}: {opener} -> {listener}");
        let (style, words) = in_words(connection.standing(), false);
        let standing = self.styled(style, words);
        writeln!(self.output, "{}  {standing}", self.styled(HEADING, name))?;
        write!(self.output, "  {}", words::packets(*first, *last))?;
        if let (Some(from), Some(to)) = (first.time, last.time) {
            write!(self.output, ", {from}")?;
            if let Some(duration) = words::duration(from, to) {
                write!(self.output, ", {duration}")?;
            }
        }
        if connection.is_failed_before_open() {
            write!(self.output, ", never opened")?;
        }
        writeln!(self.output)?;
        for (end, direction) in connection.ends.iter().zip(&connection.directions) {
            self.direction(end, direction, first.time)?;
        }
        for (word, sentence, explained) in words::reasons(connection) {
            let style = if word == "note" { NOT_JUDGED } else { FAILED };
            let word = self.styled(style, word);
            writeln!(self.output, "  {word}: {}\n       ({explained})", Printable(&sentence))?;
        }
        writeln!(self.output)
    }

    fn direction(
        &mut self,
        end: &Endpoint,
        direction: &DirectionReport,
        start: Option<Time>,
    ) -> io::Result<()> {
        let output = &mut self.output;
        let segments: u64 = direction.counts.iter().sum();
        write!(output, "  {end} sent {}", counted(segments, "segment"))?;
        if segments == 0 {
            return writeln!(output);
        }
        writeln!(output, ": {}", words::counts(&direction.counts))?;
        write!(output, "      {}", counted(direction.payload, "octet"))?;
        if direction.retransmissions > 0 {
            write!(output, ", {}", counted(direction.retransmissions, "retransmission"))?;
        }
        write!(output, ", ISN {}", words::isn(direction))?;
        if let Some(sne) = direction.sne {
            write!(output, ", SNE {}", sne.0)?;
        }
        for (count, noun) in
            [(direction.signed_resets, "verified reset"), (direction.other_resets, "unverified reset")]
        {
            if count > 0 {
                write!(output, ", {}", counted(count, noun))?;
            }
        }
        writeln!(output)?;
        for (place, key_use) in direction.key_uses.iter().take(KEY_USES_SHOWN).enumerate() {
            write!(output, "      ")?;
            if let Some(transition) = words::transition(&direction.key_uses, place) {
                write!(output, "{transition} ")?;
            }
            write!(
                output,
                "{}: {}, first {}",
                Printable(&words::key(key_use)),
                counted(key_use.segments, "segment"),
                Moment(key_use.first, start)
            )?;
            if key_use.last != key_use.first {
                write!(output, ", last {}", Moment(key_use.last, start))?;
            }
            if key_use.outside_lifetime > 0 {
                write!(output, ", {} outside the accept lifetime", grouped(key_use.outside_lifetime))?;
            }
            writeln!(output)?;
        }
        match direction.key_uses.len().saturating_sub(KEY_USES_SHOWN) {
            0 => Ok(()),
            more => writeln!(output, "      and {more} more changes of KeyID"),
        }
    }

    pub(super) fn finish(mut self, totals: &Totals, summary: &Summary) -> io::Result<()> {
        let above_zero = VERDICTS.iter().zip(totals.counts).filter(|(_, count)| *count > 0);
        let rows = above_zero.map(|(name, count)| [(*name).to_owned(), grouped(count)]);
        let table = table(["verdict", "segments"], rows, 1);
        if !table.is_empty() {
            writeln!(self.output, "{table}")?;
        }
        write!(
            self.output,
            "{}: {}, {}",
            Printable(self.subject.capture),
            counted(totals.packets, "packet"),
            counted(totals.connections, "connection")
        )?;
        let standings = [
            (summary.good, "good"),
            (summary.failed, "failed"),
            (summary.not_open, "not open"),
            (summary.not_judged, "not judged"),
        ];
        for (count, name) in standings.iter().filter(|(count, _)| *count > 0) {
            write!(self.output, ", {} {name}", grouped(*count))?;
        }
        writeln!(self.output)?;
        if totals.connections > 1 && summary.failed > 0 {
            let numbers: Vec<_> = summary.first_failed.iter().map(ToString::to_string).collect();
            let noun = if summary.failed == 1 { "connection" } else { "connections" };
            write!(self.output, "failed: {noun} {}", numbers.join(", "))?;
            match summary.failed - numbers.len() as u64 {
                0 => writeln!(self.output)?,
                more => writeln!(self.output, " and {} more", grouped(more))?,
            }
        }
        for what in words::skipped(totals) {
            writeln!(self.output, "skipped: {what}")?;
        }
        for hint in &totals.unused_hints {
            writeln!(self.output, "not used: {hint}, which is about no connection that was checked")?;
        }
        if let Some(damage) = &totals.damage {
            writeln!(self.output, "{}", self.styled(FAILED, Printable(damage)))?;
        }
        let (style, _) = in_words(summary.standing(), totals.is_incomplete());
        writeln!(self.output, "{}", self.styled(style, Printable(&summary.answer(totals))))?;
        self.output.flush()
    }
}

/// A place as `packet 3 at 12:00:00.000000`, with the day if it is not that of the connection's start.
struct Moment(Place, Option<Time>);

impl Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {}", self.0.packet)?;
        self.0.time.map_or(Ok(()), |time| write!(f, " at {}", words::time_after(self.1, time)))
    }
}

/// A standing in words, and their style.
const fn in_words(standing: Standing, is_incomplete: bool) -> (Style, &'static str) {
    match standing {
        Standing::Good if is_incomplete => (NOT_JUDGED, "good, but"),
        Standing::Good => (GOOD, "good"),
        Standing::Failed => (FAILED, "FAILED"),
        Standing::NotOpen => (FAILED, "NOT OPEN"),
        Standing::NotJudged => (NOT_JUDGED, "not judged"),
        Standing::Empty => (NOT_JUDGED, "empty"),
    }
}
