//! What is known of a connection: what the reports print.

use wireseal_tcp_ao::{Endpoint, Flags, Isn, KeyId, OptionError, SeqNum, Sne};

use crate::capture::Time;

/// What was found of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its MAC is that of the key it names.
    Good,
    /// A key has its KeyID, and the MAC is not that key's.
    BadMac,
    /// No key has its KeyID.
    UnknownKeyId,
    /// It has no AO option.
    NoOption,
    /// Its options cannot be read, or hold what RFC 5925 §2.2 forbids.
    MalformedOption(OptionError),
    /// It has more than one AO option.
    TwoOptions,
    /// The capture lacks the connection's start, and with it an ISN that the key is made of.
    IsnNotSeen,
    /// The capture has only a part of it.
    CutOff,
}

impl Verdict {
    /// How many kinds there are.
    pub const KINDS: usize = 8;

    /// The place of its kind in a table of counts, from 0.
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

    /// The kinds by their places, as `--json` spells them.
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

    /// Whether it is the segment that failed: neither good nor impossible to judge.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Good | Self::IsnNotSeen | Self::CutOff)
    }
}

/// Which of a connection's ends sent a segment: a place in its arrays of two.
///
/// The opener is who sent the first SYN, or, where none was seen, who has the higher port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// The end that opened the connection.
    Opener = 0,
    /// The end that was opened to.
    Listener = 1,
}

impl Sender {
    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Opener => Self::Listener,
            Self::Listener => Self::Opener,
        }
    }
}

/// Segments by verdict; each at [`Verdict::index`].
pub type Counts = [u64; Verdict::KINDS];

/// A point of the capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The packet's number in the file, from 1.
    pub packet: u64,
    /// Its time, if the file has times.
    pub time: Option<Time>,
}

/// One segment of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentReport {
    /// Where it is in the capture.
    pub place: Place,
    /// Who sent it.
    pub sender: Sender,
    /// Its flags.
    pub flags: Flags,
    /// Its sequence number.
    pub sequence: SeqNum,
    /// Its acknowledgment number.
    pub acknowledgment: SeqNum,
    /// The SNE under which its MAC was checked.
    pub sne: Option<Sne>,
    /// Octets of payload.
    pub payload_length: u32,
    /// KeyID and RNextKeyID of its AO option.
    pub key_ids: Option<[KeyId; 2]>,
    /// Whether its octets had been sent before.
    pub is_retransmission: bool,
    /// What was found.
    pub verdict: Verdict,
}

/// The use that one direction of a connection made of a KeyID, without another between.
#[derive(Clone, Debug)]
pub struct KeyUse {
    /// The id on the wire.
    pub key_id: KeyId,
    /// The key that verified, as its place in [`Keys`](crate::keys::Keys).
    pub key: Option<usize>,
    /// The first segment that named it.
    pub first: Place,
    /// The last one.
    pub last: Place,
    /// How many there were.
    pub segments: u64,
    /// Of these, good ones that came outside the key's accept lifetime.
    pub outside_lifetime: u64,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
pub struct DirectionReport {
    /// The sender's ISN, if it is known.
    pub isn: Option<Isn>,
    /// Segments by verdict.
    pub counts: Counts,
    /// Octets of payload.
    pub payload: u64,
    /// Segments whose octets had been sent before.
    pub retransmissions: u64,
    /// Resets that verified.
    pub signed_resets: u64,
    /// Resets without a MAC that verifies.
    pub other_resets: u64,
    /// The SNE of the newest good segment.
    pub sne: Option<Sne>,
    /// The keys used, in order; from one to the next the key was rolled over.
    pub key_uses: Vec<KeyUse>,
}

/// What explains failed segments: a change of the configuration, or of the capture, under which they verify.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnosis {
    /// Whose segments.
    pub sender: Sender,
    /// The first segment that it explains.
    pub first: Place,
    /// How many it explains.
    pub segments: u64,
    /// The kind of explanation, as `--json` spells it, such as `options-coverage`.
    pub kind: &'static str,
    /// The explanation, in a sentence for an operator.
    pub sentence: String,
}

/// One connection of the capture.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// Its number, from 1 in the order of first segments.
    pub number: u64,
    /// Opener and listener, see [`Sender`].
    pub ends: [Endpoint; 2],
    /// Its first segment.
    pub first: Place,
    /// Its last segment.
    pub last: Place,
    /// What each end sent.
    pub directions: [DirectionReport; 2],
    /// What explains the segments that failed.
    pub diagnoses: Vec<Diagnosis>,
    /// Its segments, if they were to be kept: the first ones, then every one that begins another run of equal verdicts.
    pub segments: Vec<SegmentReport>,
    /// How many segments are not in [`segments`](Self::segments).
    pub segments_left_out: u64,
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
    /// Packets that are fragments of IP packets with TCP; their segments are not judged.
    pub fragments: u64,
    /// Packets that are no TCP.
    pub other: u64,
    /// Packets of TCP that were not looked at, because the selection leaves them out.
    pub left_out: u64,
    /// Packets whose link type or headers could not be read.
    pub unreadable: u64,
    /// Where and how the file broke off, if it did.
    pub damage: Option<String>,
}
