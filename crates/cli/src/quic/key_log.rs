//! Key logs: the secrets of TLS connections, in the SSLKEYLOGFILE format (RFC 9850).

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead};

use zeroize::{Zeroize, Zeroizing};

use crate::hex;

/// The random of a ClientHello, by which a key log names connections.
pub(super) type ClientRandom = [u8; 32];

/// Which of a connection's secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Label {
    ClientEarly,
    ClientHandshake,
    ServerHandshake,
    ClientApplication,
    ServerApplication,
}

impl Label {
    const ALL: [(Self, &str); 5] = [
        (Self::ClientEarly, "CLIENT_EARLY_TRAFFIC_SECRET"),
        (Self::ClientHandshake, "CLIENT_HANDSHAKE_TRAFFIC_SECRET"),
        (Self::ServerHandshake, "SERVER_HANDSHAKE_TRAFFIC_SECRET"),
        (Self::ClientApplication, "CLIENT_TRAFFIC_SECRET_0"),
        (Self::ServerApplication, "SERVER_TRAFFIC_SECRET_0"),
    ];
}

/// The secrets of a key log that protect QUIC packets. They are wiped on drop, and `Debug` does not show them.
#[derive(Default)]
pub struct KeyLogFile {
    connections: HashMap<ClientRandom, [Option<Secret>; Label::ALL.len()]>,
    unreadable_lines: Vec<u64>,
}

type Secret = Zeroizing<Vec<u8>>;

/// Longer than any line with a secret.
const LINE_CAPACITY: usize = 512;

impl KeyLogFile {
    /// Reads a key log. Comments, secrets that packet protection does not need, and lines that cannot be read are skipped.
    ///
    /// # Errors
    /// Those of reading `input`.
    pub fn read(mut input: impl BufRead) -> io::Result<Self> {
        let mut log = Self::default();
        let mut line = Zeroizing::new(Vec::with_capacity(LINE_CAPACITY));
        for number in 1.. {
            // Wipes and empties it, but keeps its capacity.
            line.zeroize();
            if input.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if log.read_line(&line).is_none() {
                log.unreadable_lines.push(number);
            }
        }
        Ok(log)
    }

    /// `None` for a line that cannot be read.
    fn read_line(&mut self, line: &[u8]) -> Option<()> {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let Some(label) = words.next().filter(|word| !word.starts_with('#')) else { return Some(()) };
        let (random, secret) = (words.next()?, words.next()?);
        let Some((label, _)) = Label::ALL.iter().find(|(_, name)| *name == label) else { return Some(()) };
        let mut client_random = ClientRandom::default();
        hex::decode_into(random.as_bytes(), &mut client_random)?;
        // SHA-256 or SHA-384.
        let length = [32, 48].into_iter().find(|length| 2 * length == secret.len())?;
        let mut octets = Zeroizing::new(vec![0; length]);
        hex::decode_into(secret.as_bytes(), &mut octets)?;
        if words.next().is_some() {
            return None;
        }
        self.connections.entry(client_random).or_default()[*label as usize] = Some(octets);
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

    pub(super) fn secret(&self, random: &ClientRandom, label: Label) -> Option<&[u8]> {
        self.connections.get(random)?[label as usize].as_ref().map(|secret| secret.as_slice())
    }
}

impl fmt::Debug for KeyLogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLogFile").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}
