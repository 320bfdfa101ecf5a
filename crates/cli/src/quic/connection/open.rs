//! Which key a packet takes, and what it makes of the packet.

use std::slice;

use wireseal_quic::{AeadAlgorithm, InitialKeys, Keys, PacketType, TrafficSecret};

use super::found::{Found, FoundPacket, Opening, Stop};
use super::state::QuicConnection;
use crate::quic::end::End;
use crate::quic::frames::Frames;
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
        let OpenedPacket { number, generation, payload } = match packet_type {
            PacketType::Initial => self.open_initial(with, found),
            PacketType::ZeroRtt | PacketType::Handshake => self.open_level(with, found),
            PacketType::OneRtt => self.open_one_rtt(with, found),
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
            self.frame(sender, packet_type, frame);
        }
        Ok(())
    }

    fn open_initial(&mut self, with: &mut Opening<'_>, found: &Found<'_>) -> Result<OpenedPacket, Stop> {
        let version = found.version.unwrap_or(self.report.version);
        // After a Retry that the capture lacks, the client's destination is what the Retry named.
        let unheard_of =
            found.destination.filter(|id| found.sender == Side::Client && !self.initial_ids.contains(id));
        let mut reason = Reason::Forged;
        for id in self.initial_ids.iter().copied().chain(unheard_of) {
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
                        if self.initial_ids.len() < MOST_INITIAL_IDS {
                            self.initial_ids.insert(0, id);
                        } else {
                            self.initial_keys.truncate(place);
                        }
                    }
                    return Ok(opened);
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
        let secret = self.secret(with.log, found)?;
        let End { early, handshake, .. } = &mut self.ends[sender as usize];
        let level = if is_early { early } else { handshake };
        if let Some(keys) = level.keys.as_ref().filter(|keys| keys.version() == version) {
            return Ok(open_long(keys, &mut level.numbers, octets, with.scratch)?);
        }
        // The suite of 0-RTT is that of an earlier session, which the capture need not have.
        let algorithms = match &self.report.suite {
            _ if is_early => &AeadAlgorithm::ALL,
            Some(suite) => slice::from_ref(suite),
            None => return Err(Stop::Wait),
        };
        let mut reason = Reason::Forged;
        for &algorithm in algorithms {
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
        Err(reason.into())
    }

    fn open_one_rtt(&mut self, with: &mut Opening<'_>, found: &Found<'_>) -> Result<OpenedPacket, Stop> {
        if self.ends[found.sender as usize].one_rtt_keys.is_none() {
            let secret = self.secret(with.log, found)?;
            let algorithm = self.report.suite.ok_or(Stop::Wait)?;
            let mut keys =
                OneRttKeys::new(self.report.version, algorithm, secret).map_err(|_| Reason::Forged)?;
            let end = &mut self.ends[found.sender as usize];
            // 0-RTT and 1-RTT packets share one number space.
            if let Some(largest) = end.early.numbers.largest() {
                keys.note_sent(largest);
            }
            end.one_rtt_keys = Some(Box::new(keys));
            // Rarely needed any more, and quickly derived again.
            self.initial_keys = Vec::new();
        }
        let Some(keys) = &mut self.ends[found.sender as usize].one_rtt_keys else { return Err(Stop::Wait) };
        Ok(keys.open(found.octets, 1 + found.destination.map_or(0, |id| id.len()), with.scratch)?)
    }

    /// The secret for such packets. The client's random identifies it; until that is known, any log with secrets may have it.
    fn secret<'l>(&self, log: &'l KeyLogFile, found: &Found<'_>) -> Result<&'l [u8], Stop> {
        if (found.packet_type, found.sender) == (PacketType::ZeroRtt, Side::Server) {
            return Err(Reason::Malformed.into());
        }
        if log.connections() == 0 {
            return Err(Reason::NoKey.into());
        }
        let random = self.report.client_random.as_ref().ok_or(Stop::Wait)?;
        log.secret(random, found.packet_type, found.sender).ok_or(Stop::Never(Reason::NoKey))
    }
}
