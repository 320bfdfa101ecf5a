//! The report's types as `--json` writes them: the schema, field by field.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use wireseal_tcp_ao::key_chain::{Lifetime, Timestamp};
use wireseal_tcp_ao::{Endpoint, Flags, OptionCoverage, OptionError};

use super::summary::{Standing, Summary, counts};
use super::words;
use crate::capture::Time;
use crate::keys::{ConfiguredKey, Keys};
use crate::verify::report::{
    self, ConnectionReport, Counts, DirectionReport, Place, SegmentReport, Sender, Verdict,
};

/// A key, without its secret.
#[derive(Serialize)]
pub(super) struct Key<'a> {
    name: &'a str,
    send_id: u8,
    recv_id: u8,
    algorithm: &'static str,
    mac_length: usize,
    options: &'static str,
    peer: Option<String>,
    send_lifetime: Span,
    accept_lifetime: Span,
    accept_tolerance: u32,
}

impl<'a> From<&'a ConfiguredKey> for Key<'a> {
    fn from(configured: &'a ConfiguredKey) -> Self {
        let key = &configured.key;
        let parameters = key.mkt().parameters();
        Self {
            name: &configured.name,
            send_id: parameters.send_id.0,
            recv_id: parameters.recv_id.0,
            algorithm: parameters.algorithm.name(),
            mac_length: parameters.mac_length(),
            options: match parameters.options {
                OptionCoverage::Covered => "covered",
                OptionCoverage::Excluded => "excluded",
            },
            peer: configured.peer.map(|peer| peer.to_string()),
            send_lifetime: key.send_lifetime().into(),
            accept_lifetime: key.accept_lifetime().into(),
            accept_tolerance: configured.accept_tolerance,
        }
    }
}

/// A lifetime.
#[derive(Serialize)]
struct Span {
    from: Option<String>,
    until: Option<String>,
}

impl From<&Lifetime> for Span {
    fn from(lifetime: &Lifetime) -> Self {
        let text = |moment: Option<Timestamp>| moment.map(|moment| moment.to_string());
        Self { from: text(lifetime.from()), until: text(lifetime.until()) }
    }
}

/// A segment.
#[derive(Serialize)]
pub(super) struct Segment {
    connection: u64,
    packet: u64,
    time: Option<String>,
    sender: &'static str,
    flags: Vec<&'static str>,
    sequence: u32,
    acknowledgment: Option<u32>,
    payload_length: u32,
    key_id: Option<u8>,
    rnext_key_id: Option<u8>,
    sne: Option<u32>,
    retransmission: bool,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Segment {
    pub(super) fn new(connection: u64, segment: &SegmentReport) -> Self {
        Self {
            connection,
            packet: segment.place.packet,
            time: segment.place.time.map(time),
            sender: sender(segment.sender),
            flags: flags(segment.flags),
            sequence: segment.sequence.0,
            acknowledgment: segment.flags.ack().then_some(segment.acknowledgment.0),
            payload_length: segment.payload_length,
            key_id: segment.key_ids.map(|[key_id, _]| key_id.0),
            rnext_key_id: segment.key_ids.map(|[_, rnext_key_id]| rnext_key_id.0),
            sne: segment.sne.map(|sne| sne.0),
            retransmission: segment.is_retransmission,
            verdict: Verdict::NAMES[segment.verdict.index()],
            error: match segment.verdict {
                Verdict::MalformedOption(error) => Some(OptionError::to_string(&error)),
                _ => None,
            },
        }
    }
}

/// A connection.
#[derive(Serialize)]
pub(super) struct Connection<'a> {
    number: u64,
    opener: End,
    listener: End,
    verdict: &'static str,
    first: Moment,
    last: Moment,
    directions: [Direction<'a>; 2],
    diagnoses: Vec<Diagnosis<'a>>,
}

impl<'a> Connection<'a> {
    pub(super) fn new(connection: &'a ConnectionReport, keys: &'a Keys) -> Self {
        let [forth, back] = &connection.directions;
        Self {
            number: connection.number,
            opener: connection.ends[0].into(),
            listener: connection.ends[1].into(),
            verdict: Standing::of(&counts(connection)).name(),
            first: connection.first.into(),
            last: connection.last.into(),
            directions: [
                Direction::new(Sender::Opener, forth, keys),
                Direction::new(Sender::Listener, back, keys),
            ],
            diagnoses: connection.diagnoses.iter().map(Diagnosis::from).collect(),
        }
    }
}

/// An end of a connection.
#[derive(Serialize)]
struct End {
    address: String,
    port: u16,
}

impl From<Endpoint> for End {
    fn from(endpoint: Endpoint) -> Self {
        Self { address: endpoint.address().to_string(), port: endpoint.port() }
    }
}

/// A point of the capture.
#[derive(Serialize)]
struct Moment {
    packet: u64,
    time: Option<String>,
}

impl From<Place> for Moment {
    fn from(place: Place) -> Self {
        Self { packet: place.packet, time: place.time.map(time) }
    }
}

/// What one end sent.
#[derive(Serialize)]
struct Direction<'a> {
    sender: &'static str,
    isn: Option<u32>,
    segments: ByVerdict,
    payload: u64,
    retransmissions: u64,
    signed_resets: u64,
    other_resets: u64,
    sne: Option<u32>,
    key_uses: Vec<KeyUse<'a>>,
}

impl<'a> Direction<'a> {
    fn new(from: Sender, direction: &'a DirectionReport, keys: &'a Keys) -> Self {
        Self {
            sender: sender(from),
            isn: direction.isn.map(|isn| isn.0),
            segments: ByVerdict(direction.counts),
            payload: direction.payload,
            retransmissions: direction.retransmissions,
            signed_resets: direction.signed_resets,
            other_resets: direction.other_resets,
            sne: direction.sne.map(|sne| sne.0),
            key_uses: direction.key_uses.iter().map(|key_use| KeyUse::new(key_use, keys)).collect(),
        }
    }
}

/// Counts as an object of all kinds of verdict.
struct ByVerdict(Counts);

impl Serialize for ByVerdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Verdict::KINDS))?;
        for (name, count) in Verdict::NAMES.iter().zip(self.0) {
            map.serialize_entry(name, &count)?;
        }
        map.end()
    }
}

/// A use of a KeyID.
#[derive(Serialize)]
struct KeyUse<'a> {
    key_id: u8,
    key: Option<usize>,
    key_name: Option<&'a str>,
    first: Moment,
    last: Moment,
    segments: u64,
    outside_lifetime: u64,
}

impl<'a> KeyUse<'a> {
    fn new(key_use: &report::KeyUse, keys: &'a Keys) -> Self {
        Self {
            key_id: key_use.key_id.0,
            key: key_use.key,
            key_name: words::key_name(key_use, keys),
            first: key_use.first.into(),
            last: key_use.last.into(),
            segments: key_use.segments,
            outside_lifetime: key_use.outside_lifetime,
        }
    }
}

/// What explains failed segments of one end.
#[derive(Serialize)]
struct Diagnosis<'a> {
    kind: &'static str,
    sender: &'static str,
    segments: u64,
    first: Moment,
    sentence: &'a str,
}

impl<'a> From<&'a report::Diagnosis> for Diagnosis<'a> {
    fn from(diagnosis: &'a report::Diagnosis) -> Self {
        Self {
            kind: diagnosis.kind,
            sender: sender(diagnosis.sender),
            segments: diagnosis.segments,
            first: diagnosis.first.into(),
            sentence: &diagnosis.sentence,
        }
    }
}

/// The whole capture.
#[derive(Serialize)]
pub(super) struct Totals<'a> {
    verdict: &'static str,
    packets: u64,
    segments: ByVerdict,
    connections: Connections,
    fragments: u64,
    other: u64,
    left_out: u64,
    unreadable: u64,
    damage: Option<&'a str>,
    causes: Vec<Cause<'a>>,
    answer: String,
}

/// Connections by their verdict.
#[derive(Serialize)]
struct Connections {
    all: u64,
    good: u64,
    failed: u64,
    not_judged: u64,
}

/// The explanations of one kind.
#[derive(Serialize)]
struct Cause<'a> {
    kind: &'static str,
    segments: u64,
    connections: u64,
    sentence: &'a str,
}

impl<'a> Totals<'a> {
    pub(super) fn new(totals: &'a report::Totals, summary: &'a Summary) -> Self {
        let Summary { good, failed, not_judged, ref causes, first_failed: _ } = *summary;
        let cause = |cause: &'a super::summary::Cause| Cause {
            kind: cause.kind,
            segments: cause.segments,
            connections: cause.connections,
            sentence: &cause.sentence,
        };
        Self {
            verdict: Standing::of(&totals.counts).name(),
            packets: totals.packets,
            segments: ByVerdict(totals.counts),
            connections: Connections { all: totals.connections, good, failed, not_judged },
            fragments: totals.fragments,
            other: totals.other,
            left_out: totals.left_out,
            unreadable: totals.unreadable,
            damage: totals.damage.as_deref(),
            causes: causes.iter().map(cause).collect(),
            answer: summary.answer(totals),
        }
    }
}

const fn sender(sender: Sender) -> &'static str {
    match sender {
        Sender::Opener => "opener",
        Sender::Listener => "listener",
    }
}

fn flags(flags: Flags) -> Vec<&'static str> {
    let all = [(flags.syn(), "SYN"), (flags.fin(), "FIN"), (flags.rst(), "RST"), (flags.ack(), "ACK")];
    all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect()
}

fn time(time: Time) -> String {
    time.to_string()
}
