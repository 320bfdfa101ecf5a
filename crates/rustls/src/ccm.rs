//! TLS_AES_128_CCM_SHA256, which rustls names but no provider has.

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm,
    UnsupportedOperationError, make_tls13_aad,
};
use rustls::crypto::hash::HashAlgorithm;
use rustls::{
    CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion, SupportedCipherSuite,
    Tls13CipherSuite,
};
use wireseal_quic::AeadAlgorithm;
use wireseal_quic::hazmat::{self, PathId};

use crate::algorithm::{packet_key, quic_algorithm};
use crate::suites::leaked_once;

/// TLS_AES_128_CCM_SHA256 (RFC 8446 §B.4) with the SHA-256 and HKDF of `base`, for QUIC and for TLS over TCP; `None` if no TLS 1.3 suite of
/// `base` uses SHA-256.
///
/// [`provider`](crate::provider) leaves it out, because AES-GCM is faster and as widely supported; append it to a provider's
/// `cipher_suites` to reach a peer that has no other suite. The first call for a `base` leaks about 100 octets, later calls nothing. The
/// secrets of its connections cannot be extracted, because rustls has no type for them.
///
/// ```
/// let mut provider = wireseal_rustls::provider(rustls::crypto::ring::default_provider());
/// let ccm = wireseal_rustls::tls13_aes_128_ccm_sha256(&provider).ok_or("no SHA-256")?;
/// provider.cipher_suites.push(ccm);
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn tls13_aes_128_ccm_sha256(base: &CryptoProvider) -> Option<SupportedCipherSuite> {
    let mut suites = base.cipher_suites.iter().filter_map(SupportedCipherSuite::tls13);
    let base = suites.find(|suite| suite.common.hash_provider.algorithm() == HashAlgorithm::SHA256)?;
    let suite = Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: AeadAlgorithm::Aes128Ccm.tls_cipher_suite().into(),
            hash_provider: base.common.hash_provider,
            confidentiality_limit: RECORDS,
        },
        aead_alg: &RecordProtection,
        quic: Some(quic_algorithm(AeadAlgorithm::Aes128Ccm)),
        ..*base
    };
    Some(SupportedCipherSuite::Tls13(leaked_once(base, suite)))
}

/// The limit for QUIC packets of 2^16 octets (RFC 9001 §B.2). TLS records are at most a quarter as long, so it holds for them
/// too.
const RECORDS: u64 = match AeadAlgorithm::Aes128Ccm.confidentiality_limit() {
    Some(limit) => limit,
    None => u64::MAX,
};

/// Protection of TLS 1.3 records (RFC 8446 §5.2). The nonce is formed as for a QUIC packet: IV xor 64-bit sequence number (RFC 8446 §5.3).
struct RecordProtection;

impl Tls13AeadAlgorithm for RecordProtection {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(RecordKey(packet_key(AeadAlgorithm::Aes128Ccm, &key, &iv)))
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(RecordKey(packet_key(AeadAlgorithm::Aes128Ccm, &key, &iv)))
    }

    fn key_len(&self) -> usize {
        AeadAlgorithm::Aes128Ccm.key_length()
    }

    fn extract_keys(&self, _: AeadKey, _: Iv) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}

/// `None` for a key of the wrong length, which rustls never makes.
struct RecordKey(Option<hazmat::PacketKey>);

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
        // The type and version that every protected TLS 1.3 record shows (RFC 8446 §5.2).
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
