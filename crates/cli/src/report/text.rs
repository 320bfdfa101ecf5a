//! The report for people: a block for each connection, or a summary if there are many; a table; and the answer in the last line.

use std::fmt::{self, Display};
use std::io::{self, Write};

use clap::builder::styling::{AnsiColor, Style};
use wireseal_tcp_ao::Endpoint;

use super::groups::{self, FEW, Groups, Row};
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

/// How many connections that failed or did not open are shown in full if there are many, one for each reason.
const EXAMPLES: usize = 5;

#[derive(Debug)]
pub(super) struct Text<'a, W> {
    output: W,
    colours: Colours,
    subject: Subject<'a>,
    /// Unless each connection is shown as soon as it is over.
    waiting: Option<Waiting>,
}

/// What is shown when it is known whether there are many connections.
#[derive(Default, Debug)]
struct Waiting {
    connections: u64,
    /// The connections, as long as there are few.
    few: Vec<u8>,
    /// The first connection of each reason, with that reason.
    examples: Vec<(String, Vec<u8>)>,
}

/// Whether there are colours.
#[derive(Clone, Copy, Debug)]
struct Colours(bool);

impl Colours {
    fn styled<T>(self, style: Style, text: T) -> Styled<T> {
        Styled(if self.0 { style } else { Style::new() }, text)
    }
}

/// A text in a style.
struct Styled<T>(Style, T);

impl<T: Display> Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{:#}", self.0, self.1, self.0)
    }
}

impl<'a, W: Write> Text<'a, W> {
    /// With `all`, every connection is shown as soon as it is over; without it, many are summed up in the end.
    pub(super) fn new(output: W, colours: bool, all: bool, subject: Subject<'a>) -> Self {
        let waiting = (!all).then(Waiting::default);
        Self { output, colours: Colours(colours), subject, waiting }
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
        let verdict = self.colours.styled(style, VerdictInWords(segment.verdict));
        writeln!(self.output, " {verdict}")
    }

    pub(super) fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        let Some(waiting) = &mut self.waiting else {
            return write_connection(&mut self.output, self.colours, connection);
        };
        waiting.connections += 1;
        match waiting.connections {
            ..=FEW => write_connection(&mut waiting.few, self.colours, connection)?,
            _ => waiting.few = Vec::new(),
        }
        let standing = connection.standing();
        if matches!(standing, Standing::Failed | Standing::NotOpen) && waiting.examples.len() < EXAMPLES {
            let reason = groups::reason(connection, standing);
            if waiting.examples.iter().all(|(known, _)| *known != reason) {
                let mut example = Vec::new();
                write_connection(&mut example, self.colours, connection)?;
                waiting.examples.push((reason, example));
            }
        }
        Ok(())
    }

    /// What failed, by reason and peer, with an example of each reason; then what was not judged; then how much is good.
    fn sum_up(
        &mut self,
        examples: &[(String, Vec<u8>)],
        totals: &Totals,
        summary: &Summary,
    ) -> io::Result<()> {
        let failed = [
            (Standing::Failed, summary.failed, &summary.failed_by),
            (Standing::NotOpen, summary.not_open, &summary.not_open_by),
        ];
        for (standing, count, groups) in failed {
            self.groups(standing, count, groups, totals)?;
        }
        if !examples.is_empty() {
            writeln!(self.output, "{}", self.colours.styled(HEADING, "The first of each reason:"))?;
            writeln!(self.output)?;
        }
        for (_, example) in examples {
            self.output.write_all(example)?;
        }
        self.groups(Standing::NotJudged, summary.not_judged, &summary.not_judged_by, totals)?;
        if summary.good > 0 {
            let are = if summary.good == 1 { "is" } else { "are" };
            let (good, segments) =
                (counted(summary.good, "connection"), counted(summary.good_segments, "segment"));
            let sentence = self.colours.styled(GOOD, format!("{good} {are} good"));
            writeln!(self.output, "{sentence}: {segments}\n")?;
        }
        Ok(())
    }

    /// A table of the connections with one standing.
    fn groups(&mut self, standing: Standing, count: u64, groups: &Groups, totals: &Totals) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let (rows, others) = groups.table();
        let (style, words) = in_words(standing, false);
        let (count, all) = (grouped(count), counted(totals.connections, "connection"));
        let words = self.colours.styled(style, words);
        writeln!(self.output, "{words}: {count} of {all}, by reason and peer")?;
        let cells = rows.into_iter().map(|Row { reason, peers, connections, segments, first }| {
            let first = first.map_or_else(String::new, |Place { packet, time }| match time {
                Some(time) => format!("packet {packet}, {}", time.timestamp()),
                None => format!("packet {packet}"),
            });
            [reason, peers, first, grouped(connections), grouped(segments)]
        });
        let header = ["reason", "peers", "first", "connections", "segments"];
        writeln!(self.output, "{}", table(header, cells, 3))?;
        if others > 0 {
            writeln!(self.output, "and {} for other reasons", counted(others, "connection"))?;
        }
        writeln!(self.output)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    pub(super) fn finish(mut self, totals: &Totals, summary: &Summary) -> io::Result<()> {
        match self.waiting.take() {
            Some(Waiting { connections: ..=FEW, few, .. }) => self.output.write_all(&few)?,
            Some(Waiting { examples, .. }) => self.sum_up(&examples, totals, summary)?,
            None => {}
        }
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
        let by_verdict = summary.connections();
        if !by_verdict.is_empty() {
            write!(self.output, ", {by_verdict}")?;
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
        if let Some(given_up) = words::given_up(totals) {
            writeln!(self.output, "{}", self.colours.styled(NOT_JUDGED, given_up))?;
        }
        for hint in &totals.unused_hints {
            writeln!(self.output, "{hint}: no such connection in this capture")?;
        }
        if let Some(damage) = &totals.damage {
            writeln!(self.output, "{}", self.colours.styled(FAILED, Printable(damage)))?;
        }
        let (style, _) = in_words(summary.standing(), totals.is_incomplete());
        writeln!(self.output, "{}", self.colours.styled(style, Printable(&summary.answer(totals))))?;
        self.output.flush()
    }
}

fn write_connection(
    output: &mut impl Write,
    colours: Colours,
    connection: &ConnectionReport,
) -> io::Result<()> {
    let ConnectionReport { number, ends: [opener, listener], first, last, .. } = connection;
    let mut name = format!("connection {number}: {opener} -> {listener}");
    if !connection.scope.is_none() {
        name += &format!(" ({})", connection.scope);
    }
    let (style, words) = in_words(connection.standing(), false);
    let standing = colours.styled(style, words);
    writeln!(output, "{}  {standing}", colours.styled(HEADING, name))?;
    write!(output, "  {}", words::packets(*first, *last))?;
    if let (Some(from), Some(to)) = (first.time, last.time) {
        write!(output, ", {from}")?;
        if let Some(duration) = words::duration(from, to) {
            write!(output, ", {duration}")?;
        }
    }
    if connection.is_failed_before_open() {
        write!(output, ", never opened")?;
    }
    writeln!(output)?;
    for (end, direction) in connection.ends.iter().zip(&connection.directions) {
        write_direction(output, end, direction, first.time)?;
    }
    for (word, sentence, explained) in words::reasons(connection) {
        let why = colours.styled(if word == "note" { NOT_JUDGED } else { FAILED }, format!("{word}:"));
        writeln!(output, "  {why} {}\n      ({explained})", Printable(&sentence))?;
    }
    writeln!(output)
}

fn write_direction(
    output: &mut impl Write,
    end: &Endpoint,
    direction: &DirectionReport,
    start: Option<Time>,
) -> io::Result<()> {
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
    let words = words::standing(standing);
    match standing {
        Standing::Good if is_incomplete => (NOT_JUDGED, "good, but"),
        Standing::Good => (GOOD, words),
        Standing::Failed | Standing::NotOpen => (FAILED, words),
        Standing::NotJudged | Standing::Empty => (NOT_JUDGED, words),
    }
}
