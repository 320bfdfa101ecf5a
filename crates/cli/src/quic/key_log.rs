//! Key logs: the secrets of TLS connections, in the SSLKEYLOGFILE format (RFC 9850).

use std::collections::HashMap;
use std::fmt;

use wireseal_quic::PacketType;
use zeroize::Zeroizing;

use super::report::Side;
use crate::hex;

/// The random of a ClientHello, by which a key log names connections.
pub(super) type ClientRandom = [u8; 32];

/// The labels of a connection's secrets, by packets and their sender; Initial packets have none.
const LABELS: [(&str, PacketType, Side); 5] = [
    ("CLIENT_EARLY_TRAFFIC_SECRET", PacketType::ZeroRtt, Side::Client),
    ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", PacketType::Handshake, Side::Client),
    ("SERVER_HANDSHAKE_TRAFFIC_SECRET", PacketType::Handshake, Side::Server),
    ("CLIENT_TRAFFIC_SECRET_0", PacketType::OneRtt, Side::Client),
    ("SERVER_TRAFFIC_SECRET_0", PacketType::OneRtt, Side::Server),
];

/// The secrets of a key log that protect QUIC packets. They are wiped on drop, and `Debug` does not show them.
#[derive(Default)]
pub struct KeyLogFile {
    connections: HashMap<ClientRandom, [Option<Secret>; LABELS.len()]>,
    unreadable_lines: Vec<u64>,
}

type Secret = Zeroizing<Vec<u8>>;

impl KeyLogFile {
    /// Reads a key log. Comments, secrets that packet protection does not need, and lines that cannot be read are skipped.
    #[must_use]
    pub fn read(text: &[u8]) -> Self {
        let mut log = Self::default();
        for (number, line) in (1..).zip(text.split(|octet| *octet == b'\n')) {
            if log.read_line(line).is_none() {
                log.unreadable_lines.push(number);
            }
        }
        log
    }

    /// `None` for a line that cannot be read.
    fn read_line(&mut self, line: &[u8]) -> Option<()> {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let Some(label) = words.next().filter(|word| !word.starts_with('#')) else { return Some(()) };
        let (random, secret) = (words.next()?, words.next()?);
        let Some(place) = LABELS.iter().position(|(name, ..)| *name == label) else { return Some(()) };
        let mut client_random = ClientRandom::default();
        hex::decode_into(random.as_bytes(), &mut client_random)?;
        // SHA-256 or SHA-384.
        let length = [32, 48].into_iter().find(|length| 2 * length == secret.len())?;
        let mut octets = Zeroizing::new(vec![0; length]);
        hex::decode_into(secret.as_bytes(), &mut octets)?;
        if words.next().is_some() {
            return None;
        }
        self.connections.entry(client_random).or_default()[place] = Some(octets);
        Some(())
    }

    /// How many connections it has secrets for.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// The numbers, from 1, of lines that could not be read.
    #[must_use]
    pub fn unreadable_lines(&self) -> &[u64] {
        &self.unreadable_lines
    }

    /// Whether it has secrets of the connection with this random.
    pub(super) fn has(&self, random: &ClientRandom) -> bool {
        self.connections.contains_key(random)
    }

    /// The secret of a connection for such packets.
    pub(super) fn secret(&self, random: &ClientRandom, packets: PacketType, sender: Side) -> Option<&[u8]> {
        let place = LABELS.iter().position(|(_, of, by)| (*of, *by) == (packets, sender))?;
        self.connections.get(random)?[place].as_ref().map(|secret| secret.as_slice())
    }
}

impl fmt::Debug for KeyLogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLogFile").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}
