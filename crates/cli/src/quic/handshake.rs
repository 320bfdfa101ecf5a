//! The TLS handshake, as far as it names the connection and the cipher suite.

use std::collections::BTreeMap;

use tls_parser::{TlsMessage, TlsMessageHandshake, parse_tls_message_handshake};

use super::key_log::ClientRandom;

/// The CRYPTO frames of one direction and level, put together (RFC 9000 §19.6).
#[derive(Default)]
pub(super) struct CryptoStream {
    /// Parts by offset; they may overlap.
    parts: BTreeMap<u64, Vec<u8>>,
    held: usize,
}

/// The first message of a handshake.
pub(super) enum Hello {
    /// The client's random.
    Client(ClientRandom),
    /// The code point of the server's cipher suite; a HelloRetryRequest names the same one.
    Server(u16),
}

/// The ClientHello that a client sends under one set of Initial keys. After a Retry it sends its ClientHello again under others, and
/// some clients make another one for it.
pub(super) enum ClientHello {
    /// Not complete yet.
    Begun(CryptoStream),
    /// Complete.
    Read(ClientRandom),
    /// The stream does not begin with a ClientHello.
    Other,
}

impl ClientHello {
    /// Takes in a CRYPTO frame. Returns the random if this completes the ClientHello.
    pub(super) fn insert(&mut self, offset: u64, data: &[u8]) -> Option<ClientRandom> {
        let Self::Begun(stream) = self else { return None };
        if !stream.insert(offset, data) {
            return None;
        }
        *self = match stream.hello()? {
            Hello::Client(random) => Self::Read(random),
            Hello::Server(_) => Self::Other,
        };
        self.random()
    }

    /// The random, if the ClientHello is complete.
    pub(super) const fn random(&self) -> Option<ClientRandom> {
        if let Self::Read(random) = self { Some(*random) } else { None }
    }
}

impl Default for ClientHello {
    fn default() -> Self {
        Self::Begun(CryptoStream::default())
    }
}

/// How many octets are kept: more than any first message has.
const MOST_HELD: usize = 1 << 16;
/// How many parts are kept: more than any client sends, but few enough to be put together again with each new one.
const MOST_PARTS: usize = 1 << 10;

impl CryptoStream {
    /// Takes in a CRYPTO frame if it is new and there is room. Returns whether it did.
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

    /// The first message, once it is complete.
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

    /// The octets from the start up to the first missing one.
    pub(super) fn start(&self) -> Vec<u8> {
        let mut start = Vec::new();
        for (offset, data) in &self.parts {
            let Some(seen) = (start.len() as u64).checked_sub(*offset) else { break };
            start.extend(data.iter().skip(usize::try_from(seen).unwrap_or(usize::MAX)));
        }
        start
    }
}
