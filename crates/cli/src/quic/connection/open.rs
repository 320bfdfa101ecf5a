//! Which key a packet takes, and what it makes of the packet.

use std::slice;

use wireseal_quic::{AeadAlgorithm, ConnectionId, InitialKeys, Keys, PacketType, TrafficSecret};

use super::found::{Found, FoundPacket, Opening, Stop};
use super::state::QuicConnection;
use crate::quic::end::End;
use crate::quic::frames::{Frame, Frames};
use crate::quic::handshake::ClientHello;
use crate::quic::key_log::KeyLogFile;
use crate::quic::one_rtt::OneRttKeys;
use crate::quic::packet::{OpenedPacket, open_long};
use crate::quic::report::{PacketKind, Reason, Side};

/// How many connection IDs Initial keys are remembered for: more than a client begins with and Retry packets name. Anybody can
/// make Initial packets for any ID.
const MOST_INITIAL_IDS: usize = 8;

const FIXED_BIT: u8 = 0x40;

impl QuicConnection {
    /// Opens a packet and takes in its frames.
    pub(super) fn open_one(&mut self, with: &mut Opening<'_>, found: &Found<'_>) -> Result<(), Stop> {
        let FoundPacket { place, sender, packet_type, octets, .. } = *found;
        let (OpenedPacket { number, generation, payload }, initial_id) = match packet_type {
            PacketType::Initial => self.open_initial(with, found).map(|(opened, id)| (opened, Some(id))),
            PacketType::ZeroRtt | PacketType::Handshake => {
                self.open_level(with, found).map(|opened| (opened, None))
            }
            PacketType::OneRtt => self.open_one_rtt(with, found).map(|opened| (opened, None)),
        }?;
        // The server's version is the connection's (RFC 9368 §2.3).
        if let (Side::Server, Some(version)) = (sender, found.version) {
            self.report.version = version;
        }
        let direction = self.direction(sender);
        direction.opened[PacketKind::from(packet_type) as usize] += 1;
        direction.greased += u64::from(octets[0] & FIXED_BIT == 0);
        if packet_type == PacketType::OneRtt {
            direction.note_phase(generation, number, place);
        }
        for frame in Frames::new(&with.scratch[payload]) {
            match (frame, initial_id, sender) {
                (Frame::Crypto { offset, data }, Some(id), Side::Client) => {
                    self.client_hello(with.log, id, offset, data);
                }
                (frame, ..) => self.frame(sender, packet_type, frame),
            }
        }
        Ok(())
    }

    /// Whether a connection ID is to be remembered for Initial keys.
    pub(super) fn has_room_for_initial_id(&self, id: &ConnectionId) -> bool {
        self.initial_ids.len() < MOST_INITIAL_IDS && self.initial_ids.iter().all(|(known, _)| known != id)
    }

    /// How many ClientHellos are not complete.
    pub(super) fn unread_client_hellos(&self) -> usize {
        self.initial_ids.iter().filter(|(_, hello)| matches!(hello, ClientHello::Begun(_))).count()
    }

    /// Opens an Initial packet. Returns also the connection ID whose keys opened it.
    fn open_initial(
        &mut self,
        with: &mut Opening<'_>,
        found: &Found<'_>,
    ) -> Result<(OpenedPacket, ConnectionId), Stop> {
        let version = found.version.unwrap_or(self.report.version);
        // After a Retry that the capture lacks, the client's destination is what the Retry named.
        let mut ids: Vec<_> = self.initial_ids.iter().map(|(id, _)| *id).collect();
        let unheard_of = found.destination.filter(|id| found.sender == Side::Client && !ids.contains(id));
        ids.extend(unheard_of);
        let mut reason = Reason::Forged;
        for id in ids {
            let is_known =
                |(known, keys): &(_, InitialKeys)| *known == id && keys.client.version() == version;
            let known = self.initial_keys.iter().position(is_known);
            let place = known.unwrap_or_else(|| {
                self.initial_keys.push((id, InitialKeys::new(version, &id)));
                self.initial_keys.len() - 1
            });
            let (_, InitialKeys { client, server }) = &self.initial_keys[place];
            let keys = match found.sender {
                Side::Client => client,
                Side::Server => server,
            };
            let numbers = &mut self.ends[found.sender as usize].initial;
            match open_long(keys, numbers, found.octets, with.scratch) {
                Ok(opened) => {
                    if unheard_of == Some(id) {
                        if self.has_room_for_initial_id(&id) {
                            self.initial_ids.insert(0, (id, ClientHello::default()));
                        } else {
                            self.initial_keys.truncate(place);
                        }
                    }
                    return Ok((opened, id));
                }
                Err(failure) => reason = failure,
            }
            // Keys take kilobytes, too much for a flood of first packets that do not open.
            if known.is_none() {
                self.initial_keys.truncate(place);
                self.initial_keys.shrink_to_fit();
            }
        }
        // Both the Retry and what followed it may be missing.
        let is_beyond_gap =
            reason == Reason::Forged && unheard_of.is_some_and(|id| !self.server_ids.contains(&id));
        Err(if is_beyond_gap { Reason::HandshakeNotSeen } else { reason }.into())
    }

    /// Opens a 0-RTT or Handshake packet.
    fn open_level(&mut self, with: &mut Opening<'_>, found: &Found<'_>) -> Result<OpenedPacket, Stop> {
        let FoundPacket { sender, packet_type, octets, .. } = *found;
        let version = found.version.unwrap_or(self.report.version);
        let is_early = packet_type == PacketType::ZeroRtt;
        let secrets = self.secrets(with.log, found)?;
        // A ClientHello that answers a Retry may name another secret.
        let stop = match is_early && self.unread_client_hellos() > 0 {
            true => |reason| if reason == Reason::Forged { Stop::Wait } else { Stop::Never(reason) },
            false => Stop::Never,
        };
        let End { early, handshake, .. } = &mut self.ends[sender as usize];
        let level = if is_early { early } else { handshake };
        if let Some(keys) = level.keys.as_ref().filter(|keys| keys.version() == version) {
            let opened = open_long(keys, &mut level.numbers, octets, with.scratch);
            if opened.is_ok() || secrets.len() == 1 {
                return opened.map_err(stop);
            }
        }
        // The suite of 0-RTT is that of an earlier session, which the capture need not have.
        let algorithms = match &self.report.suite {
            _ if is_early => &AeadAlgorithm::ALL,
            Some(suite) => slice::from_ref(suite),
            None => return Err(Stop::Wait),
        };
        let mut reason = Reason::Forged;
        let with_algorithms = |secret| algorithms.iter().map(move |algorithm| (*algorithm, secret));
        for (algorithm, secret) in secrets.into_iter().flat_map(with_algorithms) {
            let Ok(secret) = TrafficSecret::new(algorithm, secret) else { continue };
            let keys = Keys::new(version, packet_type, secret);
            match open_long(&keys, &mut level.numbers, octets, with.scratch) {
                Ok(opened) => {
                    level.keys = Some(Box::new(keys));
                    if is_early {
                        self.report.early_suite = Some(algorithm);
                    }
                    return Ok(opened);
                }
                Err(failure) => reason = failure,
            }
        }
        Err(stop(reason))
    }

    fn open_one_rtt(&mut self, with: &mut Opening<'_>, found: &Found<'_>) -> Result<OpenedPacket, Stop> {
        let id_end = 1 + found.destination.map_or(0, |id| id.len());
        if let Some(keys) = &mut self.ends[found.sender as usize].one_rtt_keys {
            return Ok(keys.open(found.octets, id_end, with.scratch)?);
        }
        let secrets = self.secrets(with.log, found)?;
        let algorithm = self.report.suite.ok_or(Stop::Wait)?;
        let is_only_one = secrets.len() == 1;
        let mut reason = Reason::Forged;
        for secret in secrets {
            let Ok(mut keys) = OneRttKeys::new(self.report.version, algorithm, secret) else { continue };
            let end = &mut self.ends[found.sender as usize];
            // 0-RTT and 1-RTT packets share one number space.
            if let Some(largest) = end.early.numbers.largest() {
                keys.note_sent(largest);
            }
            let opened = keys.open(found.octets, id_end, with.scratch);
            if opened.is_ok() || is_only_one {
                end.one_rtt_keys = Some(Box::new(keys));
                // Rarely needed any more, and quickly derived again.
                self.initial_keys = Vec::new();
            }
            match opened {
                Ok(opened) => return Ok(opened),
                Err(failure) => reason = failure,
            }
        }
        Err(reason.into())
    }

    /// The secrets for such packets, at least one. The random of a ClientHello identifies each; until all ClientHellos are complete,
    /// any log with secrets may have one.
    fn secrets<'l>(&self, log: &'l KeyLogFile, found: &Found<'_>) -> Result<Vec<&'l [u8]>, Stop> {
        if (found.packet_type, found.sender) == (PacketType::ZeroRtt, Side::Server) {
            return Err(Reason::Malformed.into());
        }
        if log.connections() == 0 {
            return Err(Reason::NoKey.into());
        }
        let secret = |random| log.secret(&random, found.packet_type, found.sender);
        let mut secrets: Vec<_> = self.client_randoms().filter_map(secret).collect();
        secrets.dedup();
        match secrets.is_empty() {
            false => Ok(secrets),
            true if self.unread_client_hellos() > 0 => Err(Stop::Wait),
            true => Err(Reason::NoKey.into()),
        }
    }
}
