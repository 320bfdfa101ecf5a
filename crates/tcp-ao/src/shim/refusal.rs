//! Why packets are refused, and counters of them.

use crate::error::{ParseError, SignError, VerifyError};
use crate::option::NoRoom;

/// Why a packet was refused. Only counters changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Refusal {
    /// Not an IP packet with a whole TCP segment, in either direction.
    #[error(transparent)]
    Malformed(#[from] ParseError),
    /// Received with a wrong TCP or IPv4 checksum, or an ICMP error with a wrong one. In no [`Counters`](crate::Counters), because
    /// nothing shows what it was.
    #[error("TCP, ICMP or IPv4 header checksum is wrong")]
    Checksum,
    /// Received and not authentic.
    #[error(transparent)]
    Verify(VerifyError),
    /// A verified SYN, counted good, for an open connection. It is a replay, or the peer restarted; since nothing tells which,
    /// the open connection stays.
    #[error("SYN for a connection that is open")]
    ConnectionExists,
    /// A segment of a protected connection whose handshake the shim has not seen.
    #[error("segment of a protected connection whose handshake was not seen")]
    NoConnection,
    /// Received with a routing header that still leads on, or with a Home Address option, to or from a protected address.
    #[error("routing header leads on, or home address, to or from a protected address")]
    SourceRouted,
    /// For a connection without a configured peer. [`Unmatched`](crate::shim::Unmatched) says which segments this is for.
    #[error("no peer is configured for the segment's connection")]
    NoPeer,
    /// The peer has no key now: none is configured, or its key chain has expired.
    #[error("the peer has no valid key at this time")]
    NoKey,
    /// The table of connections is full.
    #[error("the table of connections is full")]
    TableFull,
    /// A hard ICMP error about an established connection, or one that might be and cannot be read.
    #[error("ICMP error about a protected connection")]
    Icmp,
    /// The stack's segment could not be signed.
    #[error(transparent)]
    Sign(SignError),
    /// The options of the stack's segment leave no room for AO.
    #[error(transparent)]
    NoRoom(NoRoom),
    /// The stack's segment already has an AO or TCP-MD5 option.
    #[error("the stack's segment is signed already")]
    AlreadySigned,
    /// The signed packet would exceed the MTU, the longest IP packet, or the room that the caller left before the packet.
    #[error("signed packet is {excess} octets too long")]
    TooLong {
        /// Octets too many.
        excess: usize,
    },
}

impl Refusal {
    /// Whether the ends' keys do not match yet, so that the packet passes while
    /// [mismatches are accepted](crate::shim::Shim::accept_mismatches). A stack that still signs with TCP-MD5 is a mismatch too.
    pub(super) const fn is_mismatch(&self) -> bool {
        match self {
            Self::Verify(error) => !matches!(error, VerifyError::Options(_)),
            Self::Sign(error) => matches!(error, SignError::State),
            Self::NoConnection | Self::NoKey | Self::NoRoom(_) | Self::AlreadySigned => true,
            _ => false,
        }
    }
}

/// Packets by [`Refusal`], one counter for each variant. The counters saturate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[expect(missing_docs, reason = "the variants of `Refusal` say what each means")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RefusalCounters {
    pub malformed: u64,
    pub checksum: u64,
    pub verify: u64,
    pub connection_exists: u64,
    pub no_connection: u64,
    pub source_routed: u64,
    pub no_peer: u64,
    pub no_key: u64,
    pub table_full: u64,
    pub icmp: u64,
    pub sign: u64,
    pub no_room: u64,
    pub already_signed: u64,
    pub too_long: u64,
}

impl RefusalCounters {
    /// All of them together.
    #[must_use]
    pub fn total(&self) -> u64 {
        let packets = [self.malformed, self.checksum, self.source_routed, self.icmp, self.already_signed];
        let segments = [self.verify, self.connection_exists, self.no_connection, self.table_full, self.sign];
        let peers = [self.no_peer, self.no_key, self.no_room, self.too_long];
        let all = packets.into_iter().chain(segments).chain(peers);
        all.fold(0, u64::saturating_add)
    }

    pub(super) const fn count(&mut self, refusal: &Refusal) {
        let counter = match refusal {
            Refusal::Malformed(_) => &mut self.malformed,
            Refusal::Checksum => &mut self.checksum,
            Refusal::Verify(_) => &mut self.verify,
            Refusal::ConnectionExists => &mut self.connection_exists,
            Refusal::NoConnection => &mut self.no_connection,
            Refusal::SourceRouted => &mut self.source_routed,
            Refusal::NoPeer => &mut self.no_peer,
            Refusal::NoKey => &mut self.no_key,
            Refusal::TableFull => &mut self.table_full,
            Refusal::Icmp => &mut self.icmp,
            Refusal::Sign(_) => &mut self.sign,
            Refusal::NoRoom(_) => &mut self.no_room,
            Refusal::AlreadySigned => &mut self.already_signed,
            Refusal::TooLong { .. } => &mut self.too_long,
        };
        *counter = counter.saturating_add(1);
    }
}
