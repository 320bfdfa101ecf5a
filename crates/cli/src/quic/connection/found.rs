//! Packets and datagrams of a connection, before they are opened.

use wireseal_quic::{ConnectionId, PacketType, Version};

use crate::capture::Place;
use crate::quic::key_log::KeyLogFile;
use crate::quic::report::{Reason, Side};

/// A packet in a datagram; `octets` are borrowed, or owned while it waits for the handshake.
#[derive(Clone, Copy)]
pub(super) struct FoundPacket<O> {
    pub(super) place: Place,
    pub(super) sender: Side,
    pub(super) packet_type: PacketType,
    /// Only long headers have one.
    pub(super) version: Option<Version>,
    pub(super) destination: Option<ConnectionId>,
    /// Whether the peer has given out the destination.
    pub(super) is_id_known: bool,
    pub(super) octets: O,
}

/// A packet in its datagram.
pub(super) type Found<'a> = FoundPacket<&'a [u8]>;

impl<O> FoundPacket<O> {
    /// The same packet with other octets.
    pub(super) fn with<P>(&self, octets: P) -> FoundPacket<P> {
        let Self { place, sender, packet_type, version, destination, is_id_known, .. } = *self;
        FoundPacket { place, sender, packet_type, version, destination, is_id_known, octets }
    }
}

/// A datagram of the connection.
pub(in crate::quic) struct Arrival {
    pub(in crate::quic) place: Place,
    pub(in crate::quic) sender: Side,
    /// The length of the receiver's connection IDs in short headers.
    pub(in crate::quic) id_length: usize,
    /// Whether the receiver has given out the connection ID, or uses none.
    pub(in crate::quic) is_id_known: bool,
    pub(in crate::quic) is_cut_off: bool,
}

/// What packets are opened with.
pub(in crate::quic) struct Opening<'o> {
    pub(in crate::quic) log: &'o KeyLogFile,
    /// The buffer in which each is opened.
    pub(in crate::quic) scratch: &'o mut Vec<u8>,
}

/// Why a packet was not opened.
pub(super) enum Stop {
    /// It has to wait for the handshake.
    Wait,
    Never(Reason),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Self::Never(reason)
    }
}
