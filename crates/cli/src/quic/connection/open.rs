//! Which key a packet takes, and what it makes of it.

use wireseal_quic::{AeadAlgorithm, InitialKeys, PacketType, Version};

use super::{Connection, Found, Stop};
use crate::quic::end::{End, Opened, keys, label, open_long};
use crate::quic::key_log::KeyLog;
use crate::quic::one_rtt::OneRttKeys;
use crate::quic::report::{Reason, Side};

/// More than a client begins with, and than Retry packets name: anybody can make Initial packets for any.
const MOST_INITIAL_IDS: usize = 8;

const ALGORITHMS: [AeadAlgorithm; 4] = [
    AeadAlgorithm::Aes128Gcm,
    AeadAlgorithm::Aes256Gcm,
    AeadAlgorithm::ChaCha20Poly1305,
    AeadAlgorithm::Aes128Ccm,
];

impl Connection {
    pub(super) fn open_initial(&mut self, found: &Found<'_>, scratch: &mut Vec<u8>) -> Result<Opened, Stop> {
        let version = found.version.unwrap_or(self.report.version);
        // After a Retry that the capture lacks, the client's destination is what the Retry would have named.
        let unheard_of =
            found.destination.filter(|id| found.sender == Side::Client && !self.initial_ids.contains(id));
        let mut reason = Reason::Forged;
        for id in self.initial_ids.iter().copied().chain(unheard_of) {
            let known = self
                .initial_keys
                .iter()
                .position(|(known, keys)| *known == id && keys.client.version() == version);
            let place = known.unwrap_or_else(|| {
                self.initial_keys.push((id, InitialKeys::new(version, &id)));
                self.initial_keys.len() - 1
            });
            let (_, InitialKeys { client, server }) = &self.initial_keys[place];
            let keys = match found.sender {
                Side::Client => client,
                Side::Server => server,
            };
            let space = &mut self.ends[found.sender as usize].initial;
            match open_long(keys, space, found.octets, scratch) {
                Ok(opened) => {
                    if unheard_of == Some(id) {
                        if self.initial_ids.len() < MOST_INITIAL_IDS {
                            self.initial_ids.insert(0, id);
                        } else {
                            self.initial_keys.truncate(place);
                        }
                    }
                    self.note_version(found.sender, version);
                    return Ok(opened);
                }
                Err(failure) => reason = failure,
            }
            // They take kilobytes, which a flood of first packets that do not open is not worth.
            if known.is_none() {
                self.initial_keys.truncate(place);
                self.initial_keys.shrink_to_fit();
            }
        }
        // Not even that: both the Retry and what followed it are missing.
        let is_beyond_gap =
            reason == Reason::Forged && unheard_of.is_some_and(|id| !self.server_ids.contains(&id));
        Err(if is_beyond_gap { Reason::HandshakeNotSeen } else { reason }.into())
    }

    /// The server's choice is the connection's (RFC 9368, section 2.3).
    fn note_version(&mut self, sender: Side, version: Version) {
        if sender == Side::Server {
            self.report.version = version;
        }
    }

    pub(super) fn open_early(
        &mut self,
        log: &KeyLog,
        found: &Found<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Opened, Stop> {
        let version = found.version.unwrap_or(self.report.version);
        let secret = self.secret(log, found)?;
        let End { early, early_keys, .. } = &mut self.ends[found.sender as usize];
        if let Some(keys) = early_keys.as_ref().filter(|keys| keys.version() == version) {
            return Ok(open_long(keys, early, found.octets, scratch)?);
        }
        // The suite is that of a session before, which the capture need not have: as many are tried as have such secrets.
        let mut reason = Reason::Forged;
        for algorithm in ALGORITHMS {
            let Some(keys) = keys(version, PacketType::ZeroRtt, algorithm, secret) else { continue };
            match open_long(&keys, early, found.octets, scratch) {
                Ok(opened) => {
                    *early_keys = Some(Box::new(keys));
                    self.report.early_suite = Some(algorithm);
                    return Ok(opened);
                }
                Err(failure) => reason = failure,
            }
        }
        Err(reason.into())
    }

    pub(super) fn open_handshake(
        &mut self,
        log: &KeyLog,
        found: &Found<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Opened, Stop> {
        let version = found.version.unwrap_or(self.report.version);
        let End { handshake, handshake_keys, .. } = &mut self.ends[found.sender as usize];
        let opened = if let Some(keys) = handshake_keys.as_ref().filter(|keys| keys.version() == version) {
            open_long(keys, handshake, found.octets, scratch)?
        } else {
            let secret = self.secret(log, found)?;
            let algorithm = self.report.suite.ok_or(Stop::Wait)?;
            let keys = keys(version, PacketType::Handshake, algorithm, secret).ok_or(Reason::Forged)?;
            let End { handshake, handshake_keys, .. } = &mut self.ends[found.sender as usize];
            let opened = open_long(&keys, handshake, found.octets, scratch)?;
            *handshake_keys = Some(Box::new(keys));
            opened
        };
        self.note_version(found.sender, version);
        Ok(opened)
    }

    pub(super) fn open_one_rtt(
        &mut self,
        log: &KeyLog,
        found: &Found<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Opened, Stop> {
        if self.ends[found.sender as usize].one_rtt_keys.is_none() {
            let secret = self.secret(log, found)?;
            let algorithm = self.report.suite.ok_or(Stop::Wait)?;
            let mut keys =
                OneRttKeys::new(self.report.version, algorithm, secret).map_err(|_| Reason::Forged)?;
            let end = &mut self.ends[found.sender as usize];
            // 0-RTT and 1-RTT packets are numbered in one space.
            if let Some(largest) = end.early.largest() {
                keys.note_sent(largest);
            }
            end.one_rtt_keys = Some(Box::new(keys));
            // Hardly needed any more, and soon made again.
            self.initial_keys = Vec::new();
        }
        let Some(keys) = &mut self.ends[found.sender as usize].one_rtt_keys else { return Err(Stop::Wait) };
        Ok(keys.open(found.octets, 1 + found.destination.map_or(0, |id| id.len()), scratch)?)
    }

    /// The secret that protects such packets. The client's random says which it is, and until that is known, a log that has any
    /// secrets may have it.
    fn secret<'l>(&self, log: &'l KeyLog, found: &Found<'_>) -> Result<&'l [u8], Stop> {
        let label = label(found.packet_type, found.sender).ok_or(Reason::Malformed)?;
        if log.connections() == 0 {
            return Err(Reason::NoKey.into());
        }
        let random = self.report.client_random.as_ref().ok_or(Stop::Wait)?;
        log.secret(random, label).ok_or(Stop::Never(Reason::NoKey))
    }
}
