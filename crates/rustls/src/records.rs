//! Protection of TLS 1.3 records (RFC 8446 §5.2) by AES-128-CCM, in the form of rustls 0.23.

use rustls::crypto::cipher::{
    InboundOpaqueMessage, InboundPlainMessage, MessageDecrypter, MessageEncrypter, OutboundOpaqueMessage,
    OutboundPlainMessage, PrefixedPayload, make_tls13_aad,
};
use rustls::{ContentType, Error, ProtocolVersion};
use wireseal_quic::AeadAlgorithm;
use wireseal_quic::hazmat::{self, PathId};

/// `None` for a key of the wrong length, which rustls never makes.
pub(crate) struct RecordKey(pub(crate) Option<hazmat::PacketKey>);

impl MessageEncrypter for RecordKey {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        sequence: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let key = self.0.as_ref().ok_or(Error::EncryptError)?;
        let length = self.encrypted_payload_len(message.payload.len());
        let mut record = PrefixedPayload::with_capacity(length);
        record.extend_from_chunks(&message.payload);
        record.extend_from_slice(&message.typ.to_array());
        let tag = key
            .seal(PathId(0), sequence, &make_tls13_aad(length), record.as_mut())
            .map_err(|_| Error::EncryptError)?;
        record.extend_from_slice(&tag);
        // What every protected TLS 1.3 record claims to be (RFC 8446 §5.2).
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, record))
    }

    fn encrypted_payload_len(&self, payload: usize) -> usize {
        payload + size_of::<u8>() + AeadAlgorithm::TAG_LENGTH
    }
}

impl MessageDecrypter for RecordKey {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        sequence: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let key = self.0.as_ref().ok_or(Error::DecryptError)?;
        let header = make_tls13_aad(message.payload.len());
        let plaintext =
            key.open(PathId(0), sequence, &header, &mut message.payload).ok_or(Error::DecryptError)?.len();
        message.payload.truncate(plaintext);
        message.into_tls13_unpadded_message()
    }
}
