//! TLS_AES_128_CCM_SHA256, which rustls names but no provider has.

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv, Tls13AeadAlgorithm, UnsupportedOperationError};
use rustls::{CipherSuiteCommon, ConnectionTrafficSecrets, Tls13CipherSuite};
use wireseal_quic::AeadAlgorithm;

use crate::algorithm::{packet_key, quic_algorithm};
use crate::records::RecordKey;
use crate::suites::leaked_once;
use crate::version::{HashAlgorithm, RecordDecrypter, RecordEncrypter, tls13_suites};

/// The suite on the SHA-256 and HKDF of `base`; `None` when no TLS 1.3 suite of `base` is on SHA-256.
pub(crate) fn suite(base: &CryptoProvider) -> Option<&'static Tls13CipherSuite> {
    let base =
        tls13_suites(base).find(|suite| suite.common.hash_provider.algorithm() == HashAlgorithm::SHA256)?;
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
    Some(leaked_once(base, suite))
}

/// The limit for QUIC packets of 2^16 octets (RFC 9001 §B.2). TLS records are at most a quarter as long, so it holds for them
/// too.
const RECORDS: u64 = match AeadAlgorithm::Aes128Ccm.confidentiality_limit() {
    Some(limit) => limit,
    None => u64::MAX,
};

/// Protection of TLS 1.3 records (RFC 8446 §5.2), whose nonce is made as that of a QUIC packet is (section
/// 5.3): the IV, and the 64-bit sequence number on the right of it.
struct RecordProtection;

impl Tls13AeadAlgorithm for RecordProtection {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn RecordEncrypter> {
        Box::new(RecordKey(packet_key(AeadAlgorithm::Aes128Ccm, &key, &iv)))
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn RecordDecrypter> {
        Box::new(RecordKey(packet_key(AeadAlgorithm::Aes128Ccm, &key, &iv)))
    }

    fn key_len(&self) -> usize {
        AeadAlgorithm::Aes128Ccm.key_length()
    }

    fn extract_keys(&self, _: AeadKey, _: Iv) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}
