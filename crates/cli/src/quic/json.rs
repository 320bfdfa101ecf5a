//! The report for programs; `docs/quic-json.md` documents it.

use std::io::{self, Write};

use serde::Serialize;
use wireseal_quic::Version;

use super::report::{
    self, ConnectionReport, DirectionReport, Kind, NotOpened, Path, PhaseReport, Standing, Totals,
};
use crate::hex::Hex;

/// Raised when a program that reads the report has to be changed.
const SCHEMA: u32 = 1;

/// Writes the report up to its connections.
pub(super) fn begin(output: &mut impl Write, capture: &str) -> io::Result<()> {
    write!(output, "{{\"schema\":{SCHEMA},\"capture\":")?;
    serde_json::to_writer(&mut *output, capture)?;
    output.write_all(b",\"connections\":[")
}

pub(super) fn connection(
    output: &mut impl Write,
    report: &ConnectionReport,
    is_first: bool,
) -> io::Result<()> {
    output.write_all(if is_first { b"\n" } else { b",\n" })?;
    Ok(serde_json::to_writer(output, &Connection::from(report))?)
}

pub(super) fn finish(output: &mut impl Write, totals: &Totals) -> io::Result<()> {
    output.write_all(b"\n],\"totals\":")?;
    serde_json::to_writer(&mut *output, &Sums::from(totals))?;
    output.write_all(b"}\n")
}

#[derive(Serialize)]
struct Connection {
    number: u64,
    paths: Vec<PathFields>,
    first: Place,
    last: Place,
    original_destination: String,
    first_version: u32,
    version: u32,
    suite: Option<&'static str>,
    early_suite: Option<&'static str>,
    client_random: Option<String>,
    version_negotiations: u64,
    closed: bool,
    client: Direction,
    server: Direction,
}

#[derive(Serialize)]
struct PathFields {
    client: String,
    server: String,
    #[serde(flatten)]
    first: Place,
}

#[derive(Serialize)]
struct Place {
    packet: u64,
    time: Option<String>,
}

#[derive(Serialize)]
struct Direction {
    opened: Opened,
    greased: u64,
    connection_ids: u64,
    resets: u64,
    phases: Vec<Phase>,
    not_opened: Vec<Refused>,
}

#[derive(Serialize)]
struct Opened {
    initial: u64,
    #[serde(rename = "0-rtt")]
    zero_rtt: u64,
    handshake: u64,
    #[serde(rename = "1-rtt")]
    one_rtt: u64,
    retry: u64,
}

#[derive(Serialize)]
struct Phase {
    phase: u64,
    first_number: u64,
    first: Place,
    packets: u64,
}

#[derive(Serialize)]
struct Refused {
    kind: Option<&'static str>,
    reason: &'static str,
    failed: bool,
    first: Place,
    packets: u64,
}

#[derive(Serialize)]
struct Sums<'a> {
    outcome: &'static str,
    packets: u64,
    connections: u64,
    opened: u64,
    retries: u64,
    version_negotiations: u64,
    resets: u64,
    failed: u64,
    not_judged: u64,
    of_no_connection: u64,
    unknown_version: u64,
    fragments: u64,
    other_datagrams: u64,
    other: u64,
    unreadable: u64,
    damage: Option<&'a str>,
}

impl From<&ConnectionReport> for Connection {
    fn from(report: &ConnectionReport) -> Self {
        let [client, server] = [0, 1].map(|sender| Direction::from(&report.directions[sender]));
        Self {
            number: report.number,
            paths: report.paths.iter().map(PathFields::from).collect(),
            first: report.first.into(),
            last: report.last.into(),
            original_destination: Hex(&report.original_destination).to_string(),
            first_version: number(report.first_version),
            version: number(report.version),
            suite: report.suite.map(|suite| suite.name()),
            early_suite: report.early_suite.map(|suite| suite.name()),
            client_random: report.client_random.map(|random| Hex(&random).to_string()),
            version_negotiations: report.version_negotiations,
            closed: report.is_closed,
            client,
            server,
        }
    }
}

/// As the version is called, where the wire has another number (RFC 9369, section 3.1).
fn number(version: Version) -> u32 {
    if version == Version::V2 { 2 } else { version.to_wire() }
}

impl From<&Path> for PathFields {
    fn from(path: &Path) -> Self {
        let [client, server] = path.ends.map(|end| end.to_string());
        Self { client, server, first: path.first.into() }
    }
}

impl From<report::Place> for Place {
    fn from(place: report::Place) -> Self {
        Self { packet: place.packet, time: place.time.map(|time| time.to_string()) }
    }
}

impl From<&DirectionReport> for Direction {
    fn from(report: &DirectionReport) -> Self {
        let opened = |kind: Kind| report.opened[kind as usize];
        Self {
            opened: Opened {
                initial: opened(Kind::Initial),
                zero_rtt: opened(Kind::ZeroRtt),
                handshake: opened(Kind::Handshake),
                one_rtt: opened(Kind::OneRtt),
                retry: opened(Kind::Retry),
            },
            greased: report.greased,
            connection_ids: report.connection_ids,
            resets: report.resets,
            phases: report.phases.iter().map(Phase::from).collect(),
            not_opened: report.not_opened.iter().map(Refused::from).collect(),
        }
    }
}

impl From<&PhaseReport> for Phase {
    fn from(report: &PhaseReport) -> Self {
        let PhaseReport { generation, first_number, first, packets } = *report;
        Self { phase: generation, first_number, first: first.into(), packets }
    }
}

impl From<&NotOpened> for Refused {
    fn from(report: &NotOpened) -> Self {
        let NotOpened { kind, reason, first, packets } = *report;
        Self {
            kind: kind.map(Kind::json_name),
            reason: reason.json_name(),
            failed: reason.is_failure(),
            first: first.into(),
            packets,
        }
    }
}

impl<'a> From<&'a Totals> for Sums<'a> {
    fn from(totals: &'a Totals) -> Self {
        Self {
            outcome: match totals.standing() {
                Standing::Good => "good",
                Standing::Failed => "failed",
                Standing::NotJudged => "not-judged",
            },
            packets: totals.packets,
            connections: totals.connections,
            opened: totals.opened,
            retries: totals.retries,
            version_negotiations: totals.version_negotiations,
            resets: totals.resets,
            failed: totals.failed,
            not_judged: totals.not_judged,
            of_no_connection: totals.of_no_connection,
            unknown_version: totals.unknown_version,
            fragments: totals.fragments,
            other_datagrams: totals.other_datagrams,
            other: totals.other,
            unreadable: totals.unreadable,
            damage: totals.damage.as_deref(),
        }
    }
}
