//! Packet keys in the form of rustls 0.24.

use rustls::{Error, quic};
use wireseal_quic::AeadAlgorithm;
use wireseal_quic::hazmat::PathId;

use crate::algorithm::PacketKey;

/// A connection without multipath has the nonces of path 0 (draft-ietf-quic-multipath, "Nonce Calculation").
fn path(id: Option<u32>) -> PathId {
    PathId(id.unwrap_or(0))
}

impl quic::PacketKey for PacketKey {
    fn encrypt_in_place(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
        path_id: Option<u32>,
    ) -> Result<quic::Tag, Error> {
        self.seal(path(path_id), packet_number, header, payload)
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
        path_id: Option<u32>,
    ) -> Result<&'a [u8], Error> {
        self.open(path(path_id), packet_number, header, payload)
    }

    fn tag_len(&self) -> usize {
        AeadAlgorithm::TAG_LENGTH
    }

    fn confidentiality_limit(&self) -> u64 {
        self.aead.confidentiality_limit().unwrap_or(u64::MAX)
    }

    fn integrity_limit(&self) -> u64 {
        self.aead.integrity_limit()
    }
}
