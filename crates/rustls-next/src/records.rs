//! Protection of TLS 1.3 records (RFC 8446 §5.2) by AES-128-CCM, in the form of rustls 0.24.

use rustls::Error;
use rustls::crypto::cipher::{
    EncryptBuffer, InboundOpaque, OutboundPlain, Record, RecordDecrypter, RecordEncrypter, make_tls13_aad,
};
use rustls::enums::ContentType;
use wireseal_quic::AeadAlgorithm;
use wireseal_quic::hazmat::{self, PathId};

/// `None` for a key of the wrong length, which rustls never makes.
pub(crate) struct RecordKey(pub(crate) Option<hazmat::PacketKey>);

impl RecordEncrypter for RecordKey {
    fn encrypt<'a>(
        &mut self,
        record: Record<OutboundPlain<'_>>,
        sequence: u64,
        out: &'a mut [u8],
    ) -> Result<Record<&'a [u8]>, Error> {
        let key = self.0.as_ref().ok_or(Error::EncryptError)?;
        let length = self.encrypted_payload_len(record.payload.len());
        // What every protected TLS 1.3 record claims to be (RFC 8446 §5.2).
        let typ = ContentType::ApplicationData;
        let header = make_tls13_aad(typ, record.version.encode(), length);
        let mut sealed = EncryptBuffer::new(out, length)?;
        sealed.extend_from_chunks(&record.payload);
        sealed.extend_from_slice(&record.typ.to_array());
        let tag = key.seal(PathId(0), sequence, &header, sealed.as_mut()).map_err(|_| Error::EncryptError)?;
        sealed.extend_from_slice(&tag);
        Ok(Record::new(typ, record.version, sealed.into_written()))
    }

    fn encrypted_payload_len(&self, payload: usize) -> usize {
        payload + size_of::<u8>() + AeadAlgorithm::TAG_LENGTH
    }
}

impl RecordDecrypter for RecordKey {
    fn decrypt<'a>(
        &mut self,
        mut record: Record<InboundOpaque<'a>>,
        sequence: u64,
    ) -> Result<Record<&'a [u8]>, Error> {
        let key = self.0.as_ref().ok_or(Error::DecryptError)?;
        let header = make_tls13_aad(record.typ, record.version.version(), record.payload.len());
        let plaintext =
            key.open(PathId(0), sequence, &header, &mut record.payload).ok_or(Error::DecryptError)?.len();
        record.payload.truncate(plaintext);
        record.into_tls13_unpadded_record()
    }
}
