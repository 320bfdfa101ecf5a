//! What is known of a connection: what the reports print.

use std::net::SocketAddr;

use wireseal_quic::{AeadAlgorithm, ConnectionId, PacketType, Version};

use crate::capture::Time;

/// Which of a connection's ends sent a packet: a place in its arrays of two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// The end that opened the connection.
    Client = 0,
    /// The end that was opened to.
    Server = 1,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The peer.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// As reports call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// The kinds of packets that a connection consists of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Protected by keys that the connection ID gives.
    Initial = 0,
    /// Early data.
    ZeroRtt = 1,
    /// The rest of the TLS handshake.
    Handshake = 2,
    /// Everything after it: packets with a short header.
    OneRtt = 3,
    /// A server's demand for proof of the client's address; it is authenticated, and not encrypted.
    Retry = 4,
}

impl Kind {
    /// How many kinds there are.
    pub const COUNT: usize = 5;

    /// All of them, each at its place in [`DirectionReport::opened`].
    pub const ALL: [Self; Self::COUNT] =
        [Self::Initial, Self::ZeroRtt, Self::Handshake, Self::OneRtt, Self::Retry];

    /// As people call it.
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

    /// As `--json` spells it.
    #[must_use]
    pub const fn json_name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::ZeroRtt => "0-rtt",
            Self::Handshake => "handshake",
            Self::OneRtt => "1-rtt",
            Self::Retry => "retry",
        }
    }
}

impl From<PacketType> for Kind {
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// The key log has no secret of this connection for packets of this kind and sender.
    NoKey,
    /// The ClientHello, the ServerHello or a Retry, which say which secret and which cipher suite it takes, are not in the
    /// capture.
    HandshakeNotSeen,
    /// No packet of the connection opens: it seems to have begun before the capture.
    StartNotSeen,
    /// The capture has only a part of it.
    CutOff,
    /// It is for a connection ID that the peer has not been seen to give out, and does not open: a stateless reset looks so.
    PossibleReset,
    /// Its key phase bit is not that of the keys that open it.
    WrongPhase,
    /// Shorter than the sample that header protection takes.
    TooShort,
    /// It is not authentic under the keys that it should have been protected with: forged, damaged, or the secret in the log is
    /// wrong.
    Forged,
    /// Its reserved bits are not 0, as they have to be.
    ReservedBits,
    /// Its header cannot be read, or octets that are no packet follow one.
    Malformed,
}

impl Reason {
    /// Whether the packet failed, and it is not only that nobody can judge it.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        match self {
            Self::WrongPhase | Self::TooShort | Self::Forged | Self::ReservedBits | Self::Malformed => true,
            Self::NoKey
            | Self::HandshakeNotSeen
            | Self::StartNotSeen
            | Self::CutOff
            | Self::PossibleReset => false,
        }
    }

    /// As `--json` spells it.
    #[must_use]
    pub const fn json_name(self) -> &'static str {
        match self {
            Self::NoKey => "no-key",
            Self::HandshakeNotSeen => "handshake-not-seen",
            Self::StartNotSeen => "start-not-seen",
            Self::CutOff => "cut-off",
            Self::PossibleReset => "possible-stateless-reset",
            Self::WrongPhase => "wrong-phase",
            Self::TooShort => "too-short",
            Self::Forged => "forged",
            Self::ReservedBits => "reserved-bits",
            Self::Malformed => "malformed",
        }
    }

    /// As a part of a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NoKey => "no key in the log",
            Self::HandshakeNotSeen => {
                "the capture lacks a part of the handshake that says which key they take"
            }
            Self::StartNotSeen => {
                "no packet of this connection opens, it seems to have begun before the capture"
            }
            Self::CutOff => "cut off by the capture",
            Self::PossibleReset => "not opened, possibly a stateless reset",
            Self::WrongPhase => "wrong phase: the key phase bit is not that of the keys",
            Self::TooShort => "too short for a header protection sample",
            Self::Forged => "forged or damaged: not authentic under the keys of this connection",
            Self::ReservedBits => "reserved bits are set",
            Self::Malformed => "malformed: no packet can be read where one should be",
        }
    }
}

/// A point of the capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The captured packet's number in the file, from 1.
    pub packet: u64,
    /// Its time, if the file has times.
    pub time: Option<Time>,
}

/// The use that one direction made of the keys of one phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhaseReport {
    /// How many key updates lie before it.
    pub generation: u64,
    /// The lowest packet number in it.
    pub first_number: u64,
    /// The packet of this number.
    pub first: Place,
    /// How many packets were opened.
    pub packets: u64,
}

/// Packets of one direction that were not opened for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotOpened {
    /// Their kind, if they have come so far as to have one.
    pub kind: Option<Kind>,
    /// The reason.
    pub reason: Reason,
    /// The first one.
    pub first: Place,
    /// How many there are.
    pub packets: u64,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
pub struct DirectionReport {
    /// Packets that were opened, by [`Kind`]; of Retry packets, that their integrity tag is right.
    pub opened: [u64; Kind::COUNT],
    /// Of these, packets with the fixed bit cleared (RFC 9287).
    pub greased: u64,
    /// Key phases of 1-RTT packets, in the order of first packets.
    pub phases: Vec<PhaseReport>,
    /// Connection IDs that its packets were sent to.
    pub connection_ids: u64,
    /// Stateless resets with a token of the connection.
    pub resets: u64,
    /// What was not opened.
    pub not_opened: Vec<NotOpened>,
}

impl DirectionReport {
    /// All packets that were opened.
    #[must_use]
    pub fn opened_packets(&self) -> u64 {
        self.opened.iter().sum()
    }

    pub(super) fn note_not_opened(&mut self, kind: Option<Kind>, reason: Reason, place: Place) {
        match self.not_opened.iter_mut().find(|known| (known.kind, known.reason) == (kind, reason)) {
            Some(known) => known.packets += 1,
            None => self.not_opened.push(NotOpened { kind, reason, first: place, packets: 1 }),
        }
    }

    pub(super) fn note_phase(&mut self, generation: u64, number: u64, place: Place) {
        // No other phases than the last and the one before it have keys.
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

/// A pair of addresses that a connection was seen at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// The client's and the server's address.
    pub ends: [SocketAddr; 2],
    /// The first datagram.
    pub first: Place,
}

/// One connection of the capture.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// Its number, from 1 in the order of first packets.
    pub number: u64,
    /// The addresses it began with, then those it moved to.
    pub paths: Vec<Path>,
    /// Its first datagram.
    pub first: Place,
    /// Its last one.
    pub last: Place,
    /// The destination connection ID of the client's first packet.
    pub original_destination: ConnectionId,
    /// The version of the client's first packet.
    pub first_version: Version,
    /// The version that the server went on with.
    pub version: Version,
    /// The cipher suite that the server chose.
    pub suite: Option<AeadAlgorithm>,
    /// The suite of 0-RTT packets, which is that of the session that was resumed.
    pub early_suite: Option<AeadAlgorithm>,
    /// The random of the ClientHello, by which key logs name the connection.
    pub client_random: Option<[u8; 32]>,
    /// Version Negotiation packets.
    pub version_negotiations: u64,
    /// Whether an end was seen to close it.
    pub is_closed: bool,
    /// What each end sent.
    pub directions: [DirectionReport; 2],
}

/// The whole capture.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Packets in the file.
    pub packets: u64,
    /// Connections.
    pub connections: u64,
    /// QUIC packets that were opened, Retry packets not among them.
    pub opened: u64,
    /// Retry packets with the right integrity tag.
    pub retries: u64,
    /// Version Negotiation packets.
    pub version_negotiations: u64,
    /// Stateless resets.
    pub resets: u64,
    /// QUIC packets that had their keys, and failed.
    pub failed: u64,
    /// QUIC packets that could not be judged.
    pub not_judged: u64,
    /// Datagrams that may be QUIC, of no connection that began in the capture.
    pub of_no_connection: u64,
    /// Datagrams of QUIC versions that are not known here.
    pub unknown_version: u64,
    /// Fragments of IP packets with UDP in them.
    pub fragments: u64,
    /// Other UDP datagrams.
    pub other_datagrams: u64,
    /// Packets that are no UDP.
    pub other: u64,
    /// Packets whose link type or headers could not be read.
    pub unreadable: u64,
    /// Where and how the file broke off, if it did.
    pub damage: Option<String>,
}

impl Totals {
    /// Counts a connection that is over.
    pub(super) fn add(&mut self, connection: &ConnectionReport) {
        self.version_negotiations += connection.version_negotiations;
        for direction in &connection.directions {
            let retries = direction.opened[Kind::Retry as usize];
            self.retries += retries;
            self.opened += direction.opened_packets() - retries;
            self.resets += direction.resets;
            for not_opened in &direction.not_opened {
                if not_opened.reason.is_failure() {
                    self.failed += not_opened.packets;
                } else {
                    self.not_judged += not_opened.packets;
                }
            }
        }
    }

    /// What there is to say of the whole capture.
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

/// What there is to say of a whole capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Every QUIC packet was opened.
    Good,
    /// A packet that had its keys was not opened.
    Failed,
    /// None failed, and something could not be judged, or there was nothing to judge.
    NotJudged,
}
