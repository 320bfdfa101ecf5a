//! Key logs: the secrets of TLS connections, in the SSLKEYLOGFILE format (RFC 9850).

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead};

use zeroize::{Zeroize, Zeroizing};

/// The random of a ClientHello, by which a key log names connections.
pub(super) type ClientRandom = [u8; 32];

/// A secret of a connection that packets are protected with.
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

/// The secrets of a key log that QUIC packets are protected with. They are wiped on drop, and in no [`fmt::Debug`].
#[derive(Default)]
pub struct KeyLog {
    connections: HashMap<ClientRandom, [Option<Secret>; Label::ALL.len()]>,
    unreadable_lines: Vec<u64>,
}

type Secret = Zeroizing<Vec<u8>>;

/// More than any line with a secret takes.
const LINE_CAPACITY: usize = 512;

impl KeyLog {
    /// Reads a key log. Comments, and secrets that packet protection does not need, are passed over; so are lines that cannot be
    /// read, whose numbers are remembered.
    ///
    /// # Errors
    /// Those of reading `input`.
    pub fn read(mut input: impl BufRead) -> io::Result<Self> {
        let mut log = Self::default();
        let mut line = Zeroizing::new(Vec::with_capacity(LINE_CAPACITY));
        for number in 1.. {
            // Wiped and empty, with its capacity as it was.
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
        decode(random, &mut client_random)?;
        // Of SHA-256, or of SHA-384.
        let length = [32, 48].into_iter().find(|length| 2 * length == secret.len())?;
        let mut octets = Zeroizing::new(vec![0; length]);
        decode(secret, &mut octets)?;
        if words.next().is_some() {
            return None;
        }
        self.connections.entry(client_random).or_default()[*label as usize] = Some(octets);
        Some(())
    }

    /// How many connections it has secrets of.
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

/// Fills `octets` where they lie, since whatever grows leaves copies of secrets behind. `None` unless there are exactly as many
/// pairs of digits.
fn decode(digits: &str, octets: &mut [u8]) -> Option<()> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    (pairs.len() == octets.len()).then_some(())?;
    for (octet, pair) in octets.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *octet = (high? << 4 | low?) as u8;
    }
    Some(())
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLog").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}
