//! The TLS handshake as far as it names connection and cipher suite.

use std::collections::BTreeMap;

use tls_parser::{TlsMessage, TlsMessageHandshake, parse_tls_message_handshake};

use super::key_log::ClientRandom;

/// The CRYPTO frames of one direction and level, put together (RFC 9000, section 19.6).
#[derive(Default)]
pub(super) struct CryptoStream {
    /// Parts by their offsets, which may overlap.
    parts: BTreeMap<u64, Vec<u8>>,
    held: usize,
}

/// The first message of a handshake.
pub(super) enum Hello {
    /// Of the client.
    Client(ClientRandom),
    /// Of the server, with the code point of the cipher suite; a HelloRetryRequest names the same one.
    Server(u16),
}

/// More than any first message has, and no room for a stream that never begins.
const MOST_HELD: usize = 1 << 16;
/// More than any client splits its first message into, and few enough to be put together again with each that comes.
const MOST_PARTS: usize = 1 << 10;

impl CryptoStream {
    /// Takes a CRYPTO frame in, and returns whether it did; what there is no room for is forgotten.
    pub(super) fn insert(&mut self, offset: u64, data: &[u8]) -> bool {
        let has_more = match self.parts.get(&offset) {
            Some(part) => part.len() < data.len(),
            None => !data.is_empty() && self.parts.len() < MOST_PARTS,
        };
        let takes = has_more && self.held + data.len() <= MOST_HELD;
        if takes {
            self.held += data.len();
            self.parts.insert(offset, data.to_vec());
        }
        takes
    }

    /// The first message, once it is whole.
    pub(super) fn hello(&self) -> Option<Hello> {
        match parse_tls_message_handshake(&self.start()).ok()?.1 {
            TlsMessage::Handshake(TlsMessageHandshake::ClientHello(hello)) => {
                Some(Hello::Client(hello.random.try_into().ok()?))
            }
            TlsMessage::Handshake(TlsMessageHandshake::ServerHello(hello)) => {
                Some(Hello::Server(hello.cipher.0))
            }
            _ => None,
        }
    }

    /// The octets from the start up to the first that is missing.
    pub(super) fn start(&self) -> Vec<u8> {
        let mut start = Vec::new();
        for (offset, data) in &self.parts {
            let Some(seen) = (start.len() as u64).checked_sub(*offset) else { break };
            start.extend(data.iter().skip(usize::try_from(seen).unwrap_or(usize::MAX)));
        }
        start
    }
}
