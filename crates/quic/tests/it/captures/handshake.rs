//! What a passive reader needs of Initial packets: the frames that carry the TLS handshake, and two fields of it.

use std::collections::BTreeMap;

use tls_parser::{TlsMessage, TlsMessageHandshake, parse_tls_message_handshake};
use wireseal_quic::{AeadAlgorithm, decode_varint};

/// The CRYPTO frames of one direction, put together (RFC 9000 §19.6).
#[derive(Default)]
pub(crate) struct CryptoStream(BTreeMap<u64, Vec<u8>>);

impl CryptoStream {
    /// Takes the CRYPTO frames out of the payload of an Initial packet.
    pub(crate) fn read_initial(&mut self, payload: &[u8]) {
        let mut frames = Frames(payload);
        while let Some(frame_type) = frames.varint() {
            match frame_type {
                // PADDING, PING
                0x00 | 0x01 => {}
                // ACK
                0x02 | 0x03 => frames.skip_ack(frame_type == 0x03),
                // CRYPTO
                0x06 => {
                    let offset = frames.varint().unwrap();
                    let length = frames.varint().unwrap();
                    let data = frames.octets(length.try_into().unwrap());
                    self.0.insert(offset, data.to_vec());
                }
                other => panic!("frame type {other:#x} in an Initial packet"),
            }
        }
    }

    /// The octets from the start up to the first that is missing.
    fn start(&self) -> Vec<u8> {
        let mut start = Vec::new();
        for (&offset, data) in &self.0 {
            let Some(seen) = (start.len() as u64).checked_sub(offset) else { break };
            start.extend(data.iter().skip(seen.try_into().unwrap()));
        }
        start
    }

    /// The random of the ClientHello, once that is complete.
    pub(crate) fn client_random(&self) -> Option<Vec<u8>> {
        match parse_tls_message_handshake(&self.start()) {
            Ok((_, TlsMessage::Handshake(TlsMessageHandshake::ClientHello(hello)))) => {
                Some(hello.random.to_vec())
            }
            _ => None,
        }
    }

    /// The AEAD of the cipher suite that the ServerHello chose, once that is complete.
    pub(crate) fn cipher_suite(&self) -> Option<AeadAlgorithm> {
        match parse_tls_message_handshake(&self.start()) {
            Ok((_, TlsMessage::Handshake(TlsMessageHandshake::ServerHello(hello)))) => {
                Some(AeadAlgorithm::from_tls_cipher_suite(hello.cipher.0).unwrap())
            }
            _ => None,
        }
    }
}

/// The largest number that the ACK frame at the start of a payload acknowledges; stacks put it before other frames.
pub(crate) fn largest_acknowledged(payload: &[u8]) -> Option<u64> {
    let mut frames = Frames(payload);
    let frame_type = frames.varint()?;
    if frame_type == 0x02 || frame_type == 0x03 { frames.varint() } else { None }
}

/// Walks over frames.
struct Frames<'a>(&'a [u8]);

impl<'a> Frames<'a> {
    fn varint(&mut self) -> Option<u64> {
        let (value, length) = decode_varint(self.0)?;
        self.octets(length);
        Some(value)
    }

    fn octets(&mut self, length: usize) -> &'a [u8] {
        let (octets, rest) = self.0.split_at(length);
        self.0 = rest;
        octets
    }

    /// RFC 9000 §19.3.
    fn skip_ack(&mut self, has_ecn_counts: bool) {
        let [_largest, _delay, ranges, _first] = [(); 4].map(|()| self.varint().unwrap());
        let ecn_counts = if has_ecn_counts { 3 } else { 0 };
        for _ in 0..2 * ranges + ecn_counts {
            self.varint().unwrap();
        }
    }
}
