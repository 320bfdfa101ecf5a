//! The report for programs, written as the capture is read: one object, or one for each element on a line of its own.
//! `docs/verify-json.md` describes both.

use std::io::{self, Seek, SeekFrom, Write};

use serde::Serialize;
use tempfile::SpooledTempFile;
use wireseal_keys::{Lifetime, Timestamp};
use wireseal_tcp_ao::Endpoint;

use super::words::{Cause, Subject, Summary};
use crate::capture::{Place, Scope, SkippedCounts};
use crate::keys::ConfiguredKey;
use crate::text;
use crate::verify::report::{
    ConnectionReport, Counts, Diagnosis, DirectionReport, SegmentReport, Sender, Standing, Totals, by_verdict,
};

/// The version of the schema; within one version, members may only be added.
const SCHEMA: u32 = 1;
/// Octets of connections kept in memory until the last segment is written; more go to a temporary file.
const WAITING_IN_MEMORY: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Json<W> {
    output: W,
    /// With segments: how many were written, and the connections, which follow them in the object.
    segments: Option<(u64, SpooledTempFile)>,
    connections: u64,
}

impl<W: Write> Json<W> {
    pub(super) fn begin(mut output: W, with_segments: bool, subject: Subject<'_>) -> io::Result<Self> {
        write!(output, "{{\n\"schema\": {SCHEMA},\n\"capture\": ")?;
        serde_json::to_writer(&mut output, subject.capture)?;
        write!(output, ",\n\"keys\": [")?;
        for (before, key) in (0..).zip(&subject.keys.keys) {
            element(&mut output, before, &KeyObject::from(key))?;
        }
        let begin = if with_segments { "segments" } else { "connections" };
        write!(output, "\n],\n\"{begin}\": [")?;
        let segments = with_segments.then(|| (0, SpooledTempFile::new(WAITING_IN_MEMORY)));
        Ok(Self { output, segments, connections: 0 })
    }

    pub(super) fn segment(&mut self, connection: u64, segment: &SegmentReport) -> io::Result<()> {
        let Some((before, _)) = &mut self.segments else { return Ok(()) };
        element(&mut self.output, *before, &SegmentObject { connection, segment })?;
        *before += 1;
        Ok(())
    }

    pub(super) fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        let connection = ConnectionObject::from(connection);
        match &mut self.segments {
            Some((_, waiting)) => element(waiting, self.connections, &connection)?,
            None => element(&mut self.output, self.connections, &connection)?,
        }
        self.connections += 1;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    pub(super) fn finish(mut self, totals: &Totals, summary: &Summary) -> io::Result<()> {
        if let Some((_, mut waiting)) = self.segments {
            write!(self.output, "\n],\n\"connections\": [")?;
            waiting.seek(SeekFrom::Start(0))?;
            io::copy(&mut waiting, &mut self.output)?;
        }
        write!(self.output, "\n],\n\"totals\": ")?;
        serde_json::to_writer(&mut self.output, &TotalsObject::new(totals, summary))?;
        write!(self.output, "\n}}\n")?;
        self.output.flush()
    }
}

/// The same elements as lines.
#[derive(Debug)]
pub(super) struct JsonLines<W> {
    output: W,
    with_segments: bool,
}

/// A line, whose first member `type` says what it is.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line<'a> {
    Capture { schema: u32, capture: &'a str },
    Key(KeyObject<'a>),
    Segment(SegmentObject<'a>),
    Connection(ConnectionObject<'a>),
    Totals(TotalsObject<'a>),
}

impl<W: Write> JsonLines<W> {
    pub(super) fn begin(output: W, with_segments: bool, subject: Subject<'_>) -> io::Result<Self> {
        let mut lines = Self { output, with_segments };
        lines.line(&Line::Capture { schema: SCHEMA, capture: subject.capture })?;
        for key in &subject.keys.keys {
            lines.line(&Line::Key(key.into()))?;
        }
        Ok(lines)
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.output, line)?;
        self.output.write_all(b"\n")
    }

    pub(super) fn segment(&mut self, connection: u64, segment: &SegmentReport) -> io::Result<()> {
        if !self.with_segments {
            return Ok(());
        }
        self.line(&Line::Segment(SegmentObject { connection, segment }))
    }

    pub(super) fn connection(&mut self, connection: &ConnectionReport) -> io::Result<()> {
        self.line(&Line::Connection(connection.into()))
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    pub(super) fn finish(mut self, totals: &Totals, summary: &Summary) -> io::Result<()> {
        self.line(&Line::Totals(TotalsObject::new(totals, summary)))?;
        self.output.flush()
    }
}

/// Writes an element of an array on a line of its own, after `before` others.
fn element(output: &mut impl Write, before: u64, value: &impl Serialize) -> io::Result<()> {
    output.write_all(if before > 0 { b",\n" } else { b"\n" })?;
    serde_json::to_writer(output, value).map_err(io::Error::from)
}

/// A key without its secret.
#[derive(Serialize)]
struct KeyObject<'a> {
    name: &'a str,
    send_id: u8,
    recv_id: u8,
    algorithm: &'static str,
    mac_length: usize,
    options: &'static str,
    peer: Option<String>,
    send_lifetime: LifetimeObject,
    accept_lifetime: LifetimeObject,
    accept_tolerance: u32,
}

impl<'a> From<&'a ConfiguredKey> for KeyObject<'a> {
    fn from(configured: &'a ConfiguredKey) -> Self {
        let key = &configured.key;
        let parameters = key.mkt().parameters();
        Self {
            name: &configured.name,
            send_id: parameters.send_id.0,
            recv_id: parameters.recv_id.0,
            algorithm: parameters.algorithm.name(),
            mac_length: parameters.mac_length(),
            options: text::coverage(parameters.options),
            peer: configured.peer.map(|peer| peer.to_string()),
            send_lifetime: key.send_lifetime().into(),
            accept_lifetime: key.accept_lifetime().into(),
            accept_tolerance: configured.accept_tolerance,
        }
    }
}

/// A lifetime; `null` where it is open.
#[derive(Serialize)]
pub(crate) struct LifetimeObject {
    from: Option<String>,
    until: Option<String>,
}

impl From<&Lifetime> for LifetimeObject {
    fn from(lifetime: &Lifetime) -> Self {
        let text = |moment: Option<Timestamp>| moment.map(|moment| moment.to_string());
        Self { from: text(lifetime.from()), until: text(lifetime.until()) }
    }
}

#[derive(Serialize)]
struct SegmentObject<'a> {
    connection: u64,
    #[serde(flatten)]
    segment: &'a SegmentReport,
}

#[derive(Serialize)]
struct ConnectionObject<'a> {
    number: u64,
    opener: EndObject,
    listener: EndObject,
    #[serde(skip_serializing_if = "Scope::is_none")]
    scope: Scope,
    verdict: Standing,
    open: Option<bool>,
    first: Place,
    last: Place,
    directions: [DirectionObject<'a>; 2],
    diagnoses: Vec<DiagnosisObject>,
}

impl<'a> From<&'a ConnectionReport> for ConnectionObject<'a> {
    fn from(connection: &'a ConnectionReport) -> Self {
        let [opener, listener] = connection.ends.map(EndObject::from);
        let directions = Sender::BOTH
            .map(|sender| DirectionObject { sender, direction: &connection.directions[sender as usize] });
        Self {
            number: connection.number,
            opener,
            listener,
            scope: connection.scope,
            verdict: connection.standing(),
            open: connection.has_opened,
            first: connection.first,
            last: connection.last,
            directions,
            diagnoses: connection.diagnoses.iter().map(DiagnosisObject::from).collect(),
        }
    }
}

#[derive(Serialize)]
struct EndObject {
    address: String,
    port: u16,
}

impl From<Endpoint> for EndObject {
    fn from(endpoint: Endpoint) -> Self {
        Self { address: endpoint.address().to_string(), port: endpoint.port() }
    }
}

#[derive(Serialize)]
struct DirectionObject<'a> {
    sender: Sender,
    #[serde(flatten)]
    direction: &'a DirectionReport,
}

#[derive(Serialize)]
struct DiagnosisObject {
    kind: &'static str,
    sender: Sender,
    segments: u64,
    first: Place,
    sentence: String,
}

impl From<&Diagnosis> for DiagnosisObject {
    fn from(diagnosis: &Diagnosis) -> Self {
        let Diagnosis { kind, sender, segments, first, .. } = *diagnosis;
        Self { kind, sender, segments, first, sentence: diagnosis.sentence() }
    }
}

#[derive(Serialize)]
struct TotalsObject<'a> {
    verdict: Standing,
    packets: u64,
    #[serde(serialize_with = "by_verdict")]
    segments: Counts,
    connections: ConnectionsObject,
    fragments: u64,
    reassembled: u64,
    other: u64,
    left_out: u64,
    unreadable: u64,
    given_up: u64,
    after_given_up: u64,
    skipped: &'a SkippedCounts,
    dropped: u64,
    unused_hints: &'a [String],
    damage: Option<&'a str>,
    causes: &'a [Cause],
    answer: String,
}

/// Connections by verdict.
#[derive(Serialize)]
struct ConnectionsObject {
    all: u64,
    good: u64,
    failed: u64,
    not_open: u64,
    not_judged: u64,
}

impl<'a> TotalsObject<'a> {
    fn new(totals: &'a Totals, summary: &'a Summary) -> Self {
        let Summary { good, failed, not_open, not_judged, ref causes, .. } = *summary;
        Self {
            verdict: summary.standing(),
            packets: totals.packets,
            segments: totals.counts,
            connections: ConnectionsObject { all: totals.connections, good, failed, not_open, not_judged },
            fragments: totals.fragments,
            reassembled: totals.reassembled,
            other: totals.other,
            left_out: totals.left_out,
            unreadable: totals.unreadable,
            given_up: totals.given_up,
            after_given_up: totals.after_given_up,
            skipped: &totals.skipped,
            dropped: totals.dropped,
            unused_hints: &totals.unused_hints,
            damage: totals.damage.as_deref(),
            causes,
            answer: summary.answer(totals),
        }
    }
}
