//! Packet keys in the form of rustls 0.23.

use rustls::{Error, quic};
use wireseal_quic::AeadAlgorithm;
use wireseal_quic::hazmat::PathId;

use crate::algorithm::PacketKey;

impl quic::PacketKey for PacketKey {
    fn encrypt_in_place(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<quic::Tag, Error> {
        self.seal(PathId(0), packet_number, header, payload)
    }

    fn encrypt_in_place_for_path(
        &self,
        path_id: u32,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<quic::Tag, Error> {
        self.seal(PathId(path_id), packet_number, header, payload)
    }

    fn decrypt_in_place<'a>(
        &self,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.open(PathId(0), packet_number, header, payload)
    }

    fn decrypt_in_place_for_path<'a>(
        &self,
        path_id: u32,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.open(PathId(path_id), packet_number, header, payload)
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
