//! Takes datagrams apart into packets.

use wireseal_quic::{ConnectionId, HeaderError, PacketType, Protected, Retry, RetryError};

use super::found::{Arrival, Found, FoundPacket, Opening, Stop};
use super::state::QuicConnection;
use crate::capture::Place;
use crate::quic::handshake::ClientHello;
use crate::quic::report::{PacketKind, Reason, Side};

/// How many octets of packets wait for the handshake: more than servers send before they know the client's address, with some
/// 0-RTT packets besides.
const MOST_OCTETS_WAITING: usize = 1 << 18;

impl QuicConnection {
    /// Takes a datagram apart and opens its packets. Returns whether one was opened, or failed only for want of its key: then its
    /// sender can be believed to have moved to another address.
    pub(in crate::quic) fn datagram(
        &mut self,
        with: &mut Opening<'_>,
        datagram: &mut [u8],
        arrival: &Arrival,
    ) -> bool {
        let Arrival { place, sender, id_length, is_id_known, is_cut_off } = *arrival;
        let mut is_ours = false;
        let mut first_destination = None;
        let mut rest = &mut *datagram;
        while !rest.is_empty() {
            // Some stacks fill up the datagram after the last packet.
            if first_destination.is_some() && rest.iter().all(|octet| *octet == 0) {
                break;
            }
            if first_destination.is_none()
                && !is_cut_off
                && let Some(is_authentic) = self.retry(place, sender, rest)
            {
                return is_authentic;
            }
            let (packet, behind) = match Protected::split_first(rest, id_length) {
                Ok(split) => split,
                Err(error) => {
                    let reason = match error {
                        HeaderError::Truncated { .. } | HeaderError::Retry if is_cut_off => Reason::CutOff,
                        _ => Reason::Malformed,
                    };
                    self.not_opened(sender, None, reason, place);
                    break;
                }
            };
            let destination = ConnectionId::new(packet.destination()).ok();
            if first_destination.is_some_and(|first| Some(first) != destination) {
                self.not_opened(sender, None, Reason::Malformed, place);
                break;
            }
            first_destination = first_destination.or(destination);
            let packet_type = packet.packet_type();
            // A short header has no length: the packet takes what is left.
            if is_cut_off && packet_type == PacketType::OneRtt {
                self.not_opened(sender, Some(PacketKind::OneRtt), Reason::CutOff, place);
                break;
            }
            let version = packet.version();
            let source = version.and_then(|_| ConnectionId::new(packet.source()).ok());
            let octets = packet.octets();
            let found = FoundPacket { place, sender, packet_type, version, destination, is_id_known, octets };
            if self.packet(with, &found) {
                is_ours = true;
                self.note_ids(sender, destination, source);
            }
            rest = behind;
        }
        is_ours
    }

    /// Whether the datagram is an authentic Retry of this connection; `None` if it is no Retry.
    fn retry(&mut self, place: Place, sender: Side, datagram: &[u8]) -> Option<bool> {
        let opened = Retry::open(self.report.first_version, &self.report.original_destination, datagram);
        match opened {
            Ok(retry) => {
                self.direction(sender).opened[PacketKind::Retry as usize] += 1;
                if self.has_room_for_initial_id(&retry.source) {
                    self.initial_ids.insert(0, (retry.source, ClientHello::default()));
                    self.new_ids.push((retry.source, Side::Server));
                }
                Some(true)
            }
            Err(RetryError::NotRetry | RetryError::Header(_)) => None,
            Err(_) => {
                self.not_opened(sender, Some(PacketKind::Retry), Reason::Forged, place);
                Some(false)
            }
        }
    }

    /// Opens a packet, lets it wait, or notes why not. Returns what [`datagram`](Self::datagram) does.
    fn packet(&mut self, with: &mut Opening<'_>, found: &Found<'_>) -> bool {
        // Packets wait for a ClientHello and the suite.
        let known = |connection: &Self| {
            let unread = connection.unread_client_hellos();
            (connection.initial_ids.len(), unread, connection.report.suite.is_some())
        };
        let known_before = known(self);
        match self.open(with, found) {
            Ok(()) => {
                if known(self) != known_before {
                    self.open_waiting(with);
                }
                true
            }
            Err(Stop::Wait) => {
                self.wait(found);
                true
            }
            Err(Stop::Never(reason)) => {
                let FoundPacket { place, sender, packet_type, is_id_known, octets, .. } = *found;
                let is_short = packet_type == PacketType::OneRtt;
                let tokens = &self.ends[sender as usize].reset_tokens;
                if is_short && tokens.iter().any(|token| token.matches(octets)) {
                    self.direction(sender).resets += 1;
                    return false;
                }
                let reason = match reason {
                    Reason::Forged | Reason::TooShort if is_short && !is_id_known => Reason::PossibleReset,
                    reason => reason,
                };
                self.not_opened(sender, Some(packet_type.into()), reason, place);
                reason == Reason::NoKey
            }
        }
    }

    fn open(&mut self, with: &mut Opening<'_>, found: &Found<'_>) -> Result<(), Stop> {
        match self.open_one(with, found) {
            Err(Stop::Never(Reason::Forged)) if found.packet_type == PacketType::OneRtt => {
                self.open_merged(with, found)
            }
            result => result,
        }
    }

    fn wait(&mut self, found: &Found<'_>) {
        if self.waiting_octets + found.octets.len() > MOST_OCTETS_WAITING {
            let kind = found.packet_type.into();
            self.not_opened(found.sender, Some(kind), Reason::HandshakeNotSeen, found.place);
            return;
        }
        self.waiting_octets += found.octets.len();
        self.waiting.push(found.with(found.octets.to_vec()));
    }

    /// Opens what waited, once more of the handshake is known.
    fn open_waiting(&mut self, with: &mut Opening<'_>) {
        self.waiting_octets = 0;
        for waiting in std::mem::take(&mut self.waiting) {
            let found = FoundPacket { is_id_known: true, ..waiting.with(&waiting.octets[..]) };
            match self.open(with, &found) {
                Ok(()) => {}
                Err(Stop::Wait) => self.wait(&found),
                Err(Stop::Never(reason)) => {
                    self.not_opened(found.sender, Some(found.packet_type.into()), reason, found.place);
                }
            }
        }
    }
}
