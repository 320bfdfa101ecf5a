//! What is known of a connection: what the reports print, and what `--json` writes.

use std::net::SocketAddr;

use serde::{Serialize, Serializer};
use wireseal_quic::{AeadAlgorithm, ConnectionId, PacketType, Version};

use crate::capture::Place;
use crate::hex::Hex;
use crate::standing::Standing;

/// Which end sent a packet: an index into a connection's arrays of two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// The end that opened the connection.
    Client = 0,
    /// The other end.
    Server = 1,
}

impl Side {
    /// Client and server.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The peer.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// The kinds of packets in a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PacketKind {
    /// Protected with keys derived from the connection ID.
    Initial = 0,
    /// Early data.
    #[serde(rename = "0-rtt")]
    ZeroRtt = 1,
    /// The rest of the TLS handshake.
    Handshake = 2,
    /// Everything after it: packets with a short header.
    #[serde(rename = "1-rtt")]
    OneRtt = 3,
    /// A server's demand for proof of the client's address; authenticated but not encrypted.
    Retry = 4,
}

impl PacketKind {
    /// How many kinds there are.
    pub const COUNT: usize = 5;

    /// All kinds, each at its index in [`DirectionReport::opened`].
    pub const ALL: [Self; Self::COUNT] =
        [Self::Initial, Self::ZeroRtt, Self::Handshake, Self::OneRtt, Self::Retry];

    /// Its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "Initial",
            Self::ZeroRtt => "0-RTT",
            Self::Handshake => "Handshake",
            Self::OneRtt => "1-RTT",
            Self::Retry => "Retry",
        }
    }
}

impl From<PacketType> for PacketKind {
    fn from(packet_type: PacketType) -> Self {
        match packet_type {
            PacketType::Initial => Self::Initial,
            PacketType::ZeroRtt => Self::ZeroRtt,
            PacketType::Handshake => Self::Handshake,
            PacketType::OneRtt => Self::OneRtt,
        }
    }
}

/// Why a packet was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The key log has no secret of this connection for packets of this kind and sender.
    NoKey,
    /// The ClientHello, ServerHello or Retry that names its secret and cipher suite is not in the capture.
    HandshakeNotSeen,
    /// No packet of the connection opens: it seems to have begun before the capture.
    StartNotSeen,
    /// The capture has only part of it.
    CutOff,
    /// It does not open, and its connection ID was not seen to be given out: stateless resets look like this.
    #[serde(rename = "possible-stateless-reset")]
    PossibleReset,
    /// Its key phase bit does not match the keys that open it.
    WrongPhase,
    /// It is too short for a header protection sample.
    TooShort,
    /// It is not authentic under its keys: forged, damaged, or the secret in the log is wrong.
    Forged,
    /// Its reserved bits are not 0.
    ReservedBits,
    /// It has no payload.
    NoFrames,
    /// Its header cannot be read, or what follows a packet is not one.
    Malformed,
}

impl Reason {
    /// Whether the packet failed, rather than being impossible to judge.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::WrongPhase
                | Self::TooShort
                | Self::Forged
                | Self::ReservedBits
                | Self::NoFrames
                | Self::Malformed
        )
    }

    /// The reason as part of a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NoKey => "no key in the log",
            Self::HandshakeNotSeen => "the capture lacks the part of the handshake that names their key",
            Self::StartNotSeen => {
                "no packet of this connection opens; it seems to have begun before the capture"
            }
            Self::CutOff => "cut off by the capture",
            Self::PossibleReset => "possibly a stateless reset",
            Self::WrongPhase => "wrong phase: the key phase bit does not match the keys",
            Self::TooShort => "too short for a header protection sample",
            Self::Forged => "forged or damaged: not authentic under the keys of this connection",
            Self::ReservedBits => "reserved bits are set",
            Self::NoFrames => "without frames: the payload is empty",
            Self::Malformed => "malformed: no packet can be read here",
        }
    }
}

/// One key phase of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PhaseReport {
    /// How many key updates precede it.
    #[serde(rename = "phase")]
    pub generation: u64,
    /// The lowest packet number in it.
    pub first_number: u64,
    /// The packet with this number.
    pub first: Place,
    /// How many packets were opened.
    pub packets: u64,
}

/// Packets of one direction that were not opened, all for the same reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct NotOpened {
    /// Their kind, if it could be read.
    pub kind: Option<PacketKind>,
    /// The reason.
    #[serde(flatten, serialize_with = "reason")]
    pub reason: Reason,
    /// The first of them.
    pub first: Place,
    /// How many there are.
    pub packets: u64,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectionReport {
    /// Packets that were opened, at the index of their [`PacketKind`]; for Retry, those whose integrity tag is right.
    #[serde(serialize_with = "by_kind")]
    pub opened: [u64; PacketKind::COUNT],
    /// How many of these have the fixed bit cleared (RFC 9287).
    pub greased: u64,
    /// Connection IDs that its packets were sent to.
    pub connection_ids: u64,
    /// Stateless resets with a token of the connection.
    pub resets: u64,
    /// Key phases of 1-RTT packets, in the order of their first packets.
    pub phases: Vec<PhaseReport>,
    /// What was not opened.
    pub not_opened: Vec<NotOpened>,
}

impl DirectionReport {
    /// How many packets were opened.
    #[must_use]
    pub fn opened_packets(&self) -> u64 {
        self.opened.iter().sum()
    }

    pub(super) fn note_not_opened(&mut self, kind: Option<PacketKind>, reason: Reason, place: Place) {
        match self.not_opened.iter_mut().find(|known| (known.kind, known.reason) == (kind, reason)) {
            Some(known) => known.packets += 1,
            None => self.not_opened.push(NotOpened { kind, reason, first: place, packets: 1 }),
        }
    }

    pub(super) fn note_phase(&mut self, generation: u64, number: u64, place: Place) {
        // Only the last phase and the one before it have keys.
        match self.phases.iter_mut().rev().take(4).find(|known| known.generation == generation) {
            Some(known) => {
                known.packets += 1;
                if number < known.first_number {
                    (known.first_number, known.first) = (number, place);
                }
            }
            None => {
                self.phases.push(PhaseReport { generation, first_number: number, first: place, packets: 1 });
            }
        }
    }
}

/// Two addresses that a connection was seen between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct AddressPair {
    /// Client and server.
    #[serde(flatten, serialize_with = "by_side")]
    pub ends: [SocketAddr; 2],
    /// The first datagram.
    #[serde(flatten)]
    pub first: Place,
}

/// One connection of the capture.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionReport {
    /// Its number, from 1 in the order of first packets.
    pub number: u64,
    /// The addresses it began between, then those it moved to.
    pub paths: Vec<AddressPair>,
    /// Its first datagram.
    pub first: Place,
    /// Its last datagram.
    pub last: Place,
    /// The destination connection ID of the client's first packet.
    #[serde(serialize_with = "id")]
    pub original_destination: ConnectionId,
    /// The version of the client's first packet.
    #[serde(serialize_with = "version")]
    pub first_version: Version,
    /// The version the server continued with.
    #[serde(serialize_with = "version")]
    pub version: Version,
    /// The cipher suite the server chose.
    #[serde(serialize_with = "suite")]
    pub suite: Option<AeadAlgorithm>,
    /// The suite of 0-RTT packets: that of the resumed session.
    #[serde(serialize_with = "suite")]
    pub early_suite: Option<AeadAlgorithm>,
    /// The random of the ClientHello, by which key logs name the connection; of several, the latest that the log has.
    #[serde(serialize_with = "random")]
    pub client_random: Option<[u8; 32]>,
    /// Version Negotiation packets.
    pub version_negotiations: u64,
    /// Whether an end closed it.
    #[serde(rename = "closed")]
    pub is_closed: bool,
    /// What each end sent.
    #[serde(flatten, serialize_with = "by_side")]
    pub directions: [DirectionReport; 2],
}

/// The whole capture.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Packets in the file.
    pub packets: u64,
    /// Connections.
    pub connections: u64,
    /// QUIC packets that were opened, without Retry packets.
    pub opened: u64,
    /// Retry packets with the right integrity tag.
    pub retries: u64,
    /// Version Negotiation packets.
    pub version_negotiations: u64,
    /// Stateless resets.
    pub resets: u64,
    /// QUIC packets that failed although their keys are known.
    pub failed: u64,
    /// QUIC packets that could not be judged.
    pub not_judged: u64,
    /// Datagrams that may be QUIC but are of no connection that began in the capture.
    pub of_no_connection: u64,
    /// Datagrams of unknown QUIC versions.
    pub unknown_version: u64,
    /// IP fragments of UDP datagrams.
    pub fragments: u64,
    /// Other UDP datagrams.
    pub other_datagrams: u64,
    /// Packets that are not UDP.
    pub other: u64,
    /// Packets whose link type or headers could not be read.
    pub unreadable: u64,
    /// Where and how the file is damaged, if it is.
    pub damage: Option<String>,
}

impl Totals {
    /// Counts a connection that is over.
    pub(super) fn add(&mut self, connection: &ConnectionReport) {
        self.version_negotiations += connection.version_negotiations;
        for direction in &connection.directions {
            let retries = direction.opened[PacketKind::Retry as usize];
            self.retries += retries;
            self.opened += direction.opened_packets() - retries;
            self.resets += direction.resets;
            for not_opened in &direction.not_opened {
                let is_failure = not_opened.reason.is_failure();
                *(if is_failure { &mut self.failed } else { &mut self.not_judged }) += not_opened.packets;
            }
        }
    }

    /// What the whole capture comes to; without a connection it is not judged.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        let doubtful =
            self.not_judged + self.of_no_connection + self.unknown_version + self.fragments + self.unreadable;
        if self.failed != 0 {
            Standing::Failed
        } else if doubtful != 0 || self.connections == 0 || self.damage.is_some() {
            Standing::NotJudged
        } else {
            Standing::Good
        }
    }
}

/// The members `reason` and `failed`.
fn reason<S: Serializer>(reason: &Reason, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Members<'a> {
        reason: &'a Reason,
        failed: bool,
    }
    Members { reason, failed: reason.is_failure() }.serialize(serializer)
}

/// An object with a member for every kind of packet.
fn by_kind<S: Serializer>(counts: &[u64; PacketKind::COUNT], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(PacketKind::ALL.iter().zip(counts))
}

/// The members `client` and `server`.
fn by_side<T: Serialize, S: Serializer>(of_each: &[T; 2], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Side::BOTH.map(Side::name).iter().zip(of_each))
}

fn id<S: Serializer>(id: &ConnectionId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Hex(id))
}

/// The version's number in its name; on the wire version 2 has another (RFC 9369 §3.1).
fn version<S: Serializer>(version: &Version, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(if *version == Version::V2 { 2 } else { version.to_wire() })
}

fn suite<S: Serializer>(suite: &Option<AeadAlgorithm>, serializer: S) -> Result<S::Ok, S::Error> {
    suite.map(|suite| suite.name()).serialize(serializer)
}

fn random<S: Serializer>(random: &Option<[u8; 32]>, serializer: S) -> Result<S::Ok, S::Error> {
    random.map(|random| Hex(&random).to_string()).serialize(serializer)
}
