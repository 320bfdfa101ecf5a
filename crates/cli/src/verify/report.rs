//! The results about segments and connections that the reports print and `--json` writes.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use wireseal_tcp_ao::{Endpoint, Flags, Isn, KeyId, OptionError, SeqNum, Sne};

use crate::capture::{Place, Scope, Skipped, SkippedCounts};
use crate::text;

/// The verdict on one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The MAC verifies under a key that the segment names.
    Good,
    /// A key has the KeyID, but the MAC does not verify under it.
    BadMac,
    /// No key has the KeyID.
    UnknownKeyId,
    /// There is no TCP-AO option.
    NoOption,
    /// The options cannot be read, or RFC 5925 §2.2 forbids them.
    MalformedOption(OptionError),
    /// There is more than one TCP-AO option.
    TwoOptions,
    /// The capture lacks the start of the connection, and with it an ISN that the traffic key depends on.
    IsnNotSeen,
    /// The capture has only part of the segment.
    CutOff,
}

impl Verdict {
    /// How many kinds there are.
    pub const KINDS: usize = 8;

    /// Its kind's place in [`Counts`] and [`NAMES`](Self::NAMES).
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Good => 0,
            Self::BadMac => 1,
            Self::UnknownKeyId => 2,
            Self::NoOption => 3,
            Self::MalformedOption(_) => 4,
            Self::TwoOptions => 5,
            Self::IsnNotSeen => 6,
            Self::CutOff => 7,
        }
    }

    /// The names of the kinds in `--json`.
    pub const NAMES: [&'static str; Self::KINDS] = [
        "good",
        "bad-mac",
        "unknown-key-id",
        "no-option",
        "malformed-option",
        "two-options",
        "isn-not-seen",
        "cut-off",
    ];

    /// Whether the segment failed: neither good nor impossible to judge.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Good | Self::IsnNotSeen | Self::CutOff)
    }
}

/// The members `verdict` and, for malformed options, `error`.
impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("verdict", Self::NAMES[self.index()])?;
        if let Self::MalformedOption(error) = self {
            map.serialize_entry("error", &error.to_string())?;
        }
        map.end()
    }
}

/// Which end sent a segment: an index into a connection's arrays of two.
///
/// The opener sent the first SYN or, if the capture has none, has the higher port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sender {
    /// The end that opened the connection.
    Opener = 0,
    /// The other end.
    Listener = 1,
}

impl Sender {
    /// Opener and listener.
    pub const BOTH: [Self; 2] = [Self::Opener, Self::Listener];

    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Opener => Self::Listener,
            Self::Listener => Self::Opener,
        }
    }
}

/// Segments by verdict, each count at [`Verdict::index`].
pub type Counts = [u64; Verdict::KINDS];

/// The verdict on segments with these counts.
#[must_use]
pub fn standing(counts: &Counts) -> Standing {
    if failed(counts) > 0 {
        Standing::Failed
    } else if not_judged(counts) > 0 {
        Standing::NotJudged
    } else if counts[Verdict::Good.index()] > 0 {
        Standing::Good
    } else {
        Standing::Empty
    }
}

/// How many segments failed.
pub(crate) fn failed(counts: &Counts) -> u64 {
    counts.iter().sum::<u64>() - counts[Verdict::Good.index()] - not_judged(counts)
}

/// How many segments could not be judged.
pub(crate) const fn not_judged(counts: &Counts) -> u64 {
    counts[Verdict::IsnNotSeen.index()] + counts[Verdict::CutOff.index()]
}

/// One segment of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SegmentReport {
    /// Where it is in the capture.
    #[serde(flatten)]
    pub place: Place,
    /// Who sent it.
    pub sender: Sender,
    /// Its flags.
    #[serde(serialize_with = "flags")]
    pub flags: Flags,
    /// Its sequence number.
    #[serde(serialize_with = "sequence")]
    pub sequence: SeqNum,
    /// Its acknowledgment number; `None` without ACK.
    #[serde(serialize_with = "acknowledgment")]
    pub acknowledgment: Option<SeqNum>,
    /// Octets of payload.
    pub payload_length: u32,
    /// KeyID and RNextKeyID of its TCP-AO option.
    #[serde(flatten, serialize_with = "key_ids")]
    pub key_ids: Option<[KeyId; 2]>,
    /// The key that verified: its index in [`Keys`](crate::keys::Keys).
    #[serde(skip)]
    pub key: Option<usize>,
    /// The SNE its MAC was checked with.
    #[serde(serialize_with = "sne")]
    pub sne: Option<Sne>,
    /// Whether its octets had been sent before.
    #[serde(rename = "retransmission")]
    pub is_retransmission: bool,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// A run of segments in one direction with the same KeyID.
#[derive(Clone, Debug, Serialize)]
pub struct KeyUse {
    /// The KeyID on the wire.
    #[serde(serialize_with = "key_id")]
    pub key_id: KeyId,
    /// The key that verified: its index in [`Keys`](crate::keys::Keys).
    pub key: Option<usize>,
    /// Its name.
    pub key_name: Option<String>,
    /// The first segment.
    pub first: Place,
    /// The last segment.
    pub last: Place,
    /// How many segments there were.
    pub segments: u64,
    /// How many of them were good but outside the key's accept lifetime.
    pub outside_lifetime: u64,
}

/// Where an ISN is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IsnSource {
    /// The end's own SYN or SYN-ACK.
    Seen,
    /// The numbers of later segments, or the acknowledgment of a SYN that the capture lacks.
    Inferred {
        /// Whether a MAC verified with it when it was inferred.
        is_confirmed: bool,
    },
    /// `--isn`.
    Given,
}

/// `seen`, `inferred` or `given`.
impl Serialize for IsnSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Seen => "seen",
            Self::Inferred { .. } => "inferred",
            Self::Given => "given",
        })
    }
}

/// One direction of a connection.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectionReport {
    /// The sender's ISN, if known.
    #[serde(serialize_with = "isn")]
    pub isn: Option<Isn>,
    /// Where the ISN is from; `None` if it is not known.
    pub isn_source: Option<IsnSource>,
    /// Segments by verdict.
    #[serde(rename = "segments", serialize_with = "by_verdict")]
    pub counts: Counts,
    /// Octets of payload.
    pub payload: u64,
    /// Segments whose octets had been sent before.
    pub retransmissions: u64,
    /// Resets that verified.
    pub signed_resets: u64,
    /// Resets that did not verify.
    pub other_resets: u64,
    /// The SNE of the newest good segment.
    #[serde(serialize_with = "sne")]
    pub sne: Option<Sne>,
    /// The keys used, in order; from one to the next the key was rolled over.
    pub key_uses: Vec<KeyUse>,
}

/// Why segments of one end failed or could not be judged, or what else is wrong with them, and what to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnosis {
    /// `Failed` if it says why segments failed, `NotOpen` if it says why the connection did not open, and `NotJudged` if it says
    /// why either could not be judged. `Good` if it is a remark on segments that verify.
    pub about: Standing,
    /// Whose segments.
    pub sender: Sender,
    /// The first segment it explains.
    pub first: Place,
    /// How many it explains.
    pub segments: u64,
    /// The kind of explanation, as `--json` spells it, such as `options-coverage`.
    pub kind: &'static str,
    /// What is wrong: a clause without a full stop.
    pub cause: String,
    /// What to change, and where: one or more sentences.
    pub advice: String,
}

impl Diagnosis {
    /// Cause and advice together.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("{}. {}", self.cause, self.advice)
    }
}

/// One connection of the capture.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// Its number, from 1 in the order of first segments.
    pub number: u64,
    /// Opener and listener, see [`Sender`].
    pub ends: [Endpoint; 2],
    /// The virtual network it was first seen in.
    pub scope: Scope,
    /// Its first segment.
    pub first: Place,
    /// Its last segment.
    pub last: Place,
    /// Whether it opened, or was open already; `None` if the capture does not show it.
    pub has_opened: Option<bool>,
    /// What each end sent.
    pub directions: [DirectionReport; 2],
    /// Why segments failed, or the connection did not open.
    pub diagnoses: Vec<Diagnosis>,
    /// Its segments, if they were to be kept: the first ones, then each that starts a run of another verdict.
    pub segments: Vec<SegmentReport>,
    /// How many segments are not in [`segments`](Self::segments).
    pub segments_left_out: u64,
}

impl ConnectionReport {
    /// Segments of both directions by verdict.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let [forth, back] = &self.directions;
        std::array::from_fn(|index| forth.counts[index] + back.counts[index])
    }

    /// Whether segments failed and it did not open either; the verdict says only the former.
    pub(crate) fn is_failed_before_open(&self) -> bool {
        self.has_opened == Some(false) && self.standing() == Standing::Failed
    }

    /// The verdict on the connection. It may not have opened even if all its segments are good.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let is_about = |about| self.diagnoses.iter().any(|diagnosis| diagnosis.about == about);
        match standing(&self.counts()) {
            Standing::Failed => Standing::Failed,
            _ if is_about(Standing::NotOpen) => Standing::NotOpen,
            Standing::Good if is_about(Standing::NotJudged) => Standing::NotJudged,
            standing => standing,
        }
    }
}

/// The whole capture.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Packets in the file.
    pub packets: u64,
    /// TCP segments by verdict.
    pub counts: Counts,
    /// Connections.
    pub connections: u64,
    /// How many of them were given up because more were live than memory is for. What they sent before is in the counts.
    pub given_up: u64,
    /// TCP segments that were not judged because their connection had been given up.
    pub after_given_up: u64,
    /// Fragments of IP packets with TCP or a tunnel that could not be put together, and are not judged.
    pub fragments: u64,
    /// Packets with a fragment that was put together with those of a later packet, which is counted for the whole.
    pub reassembled: u64,
    /// Packets that are not TCP.
    pub other: u64,
    /// TCP packets that `--peer` and `--port` leave out.
    pub left_out: u64,
    /// Packets whose link type or headers could not be read.
    pub unreadable: u64,
    /// What the packets in `fragments`, `other` and `unreadable` hold.
    pub skipped: SkippedCounts,
    /// Packets that the kernel dropped, because they were not read in time.
    pub dropped: u64,
    /// The `--isn` and `--nat` that are about no connection of the capture, as written on the command line.
    pub unused_hints: Vec<String>,
    /// Where and how the file is damaged, if it is.
    pub damage: Option<String>,
}

impl Totals {
    /// Counts packets that are not judged.
    pub(crate) fn skip(&mut self, skipped: Skipped, packets: u64) {
        let count = match skipped {
            Skipped::Unreadable(_) => &mut self.unreadable,
            // TCP, and what IP carries only in tunnels; a fragment of UDP rarely is one.
            Skipped::Fragment { protocol: 4 | 6 | 41 | 47 | 97 | 115 | 137 | 143, .. } => &mut self.fragments,
            _ => &mut self.other,
        };
        *count += packets;
        self.skipped.add(skipped, packets);
    }

    /// Whether the capture may hold segments that were not seen.
    #[must_use]
    pub const fn is_incomplete(&self) -> bool {
        self.fragments + self.unreadable + self.after_given_up + self.dropped > 0 || self.damage.is_some()
    }
}

fn flags<S: Serializer>(flags: &Flags, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(text::flags(*flags))
}

fn sequence<S: Serializer>(number: &SeqNum, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(number.0)
}

fn acknowledgment<S: Serializer>(number: &Option<SeqNum>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(|number| number.0).serialize(serializer)
}

fn isn<S: Serializer>(isn: &Option<Isn>, serializer: S) -> Result<S::Ok, S::Error> {
    isn.map(|isn| isn.0).serialize(serializer)
}

fn sne<S: Serializer>(sne: &Option<Sne>, serializer: S) -> Result<S::Ok, S::Error> {
    sne.map(|sne| sne.0).serialize(serializer)
}

fn key_id<S: Serializer>(id: &KeyId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(id.0)
}

fn key_ids<S: Serializer>(ids: &Option<[KeyId; 2]>, serializer: S) -> Result<S::Ok, S::Error> {
    let id = |place: usize| ids.map(|ids| ids[place].0);
    serializer.collect_map([("key_id", id(0)), ("rnext_key_id", id(1))])
}

/// An object with a member for every kind of verdict.
pub(crate) fn by_verdict<S: Serializer>(counts: &Counts, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Verdict::NAMES.iter().zip(counts))
}

/// The verdict on a connection or a whole capture; the latter decides the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Everything verified.
    Good,
    /// Something failed.
    Failed,
    /// Nothing failed, but a connection did not open.
    NotOpen,
    /// Nothing failed and everything opened, but something could not be judged.
    NotJudged,
    /// There was nothing to judge.
    Empty,
}

impl Standing {
    /// Its name in `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Failed => "failed",
            Self::NotOpen => "not-open",
            Self::NotJudged => "not-judged",
            Self::Empty => "empty",
        }
    }
}
