//! QUIC packet protection behind rustls' traits.

use rustls::Error;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic;
use wireseal_quic::AeadAlgorithm;
use wireseal_quic::hazmat::{self, PathId};

/// One AEAD, for the field `quic` of a cipher suite. It is not zero-sized, so each static below has its own address.
#[derive(Debug)]
pub(crate) struct QuicAlgorithm(AeadAlgorithm);

static AES_128_GCM: QuicAlgorithm = QuicAlgorithm(AeadAlgorithm::Aes128Gcm);
static AES_256_GCM: QuicAlgorithm = QuicAlgorithm(AeadAlgorithm::Aes256Gcm);
static CHACHA20_POLY1305: QuicAlgorithm = QuicAlgorithm(AeadAlgorithm::ChaCha20Poly1305);
static AES_128_CCM: QuicAlgorithm = QuicAlgorithm(AeadAlgorithm::Aes128Ccm);

/// Wireseal's QUIC implementation of one AEAD, for the field `quic` of a [`Tls13CipherSuite`].
///
/// Every call returns the same reference. Neither it nor a suite with it claims FIPS in its `fips()`: Wireseal is not validated.
///
/// # Errors of its keys
///
/// * `encrypt_in_place`: [`Error::EncryptError`], with nothing modified, for packet numbers above 2^62-1 (RFC 9000 §12.3) and
///   payloads above 65,535 octets.
/// * `decrypt_in_place`: [`Error::DecryptError`] for packets that are not authentic. No plaintext is left.
/// * Header protection: [`Error::General`], with nothing modified, for a sample that does not have 16 octets, or a packet number
///   of more than 4.
/// * All of them fail for keys that do not have [`aead_key_len`](quic::Algorithm::aead_key_len) octets, which rustls never makes.
///
/// The two low bits of the unprotected first octet give the number of packet number octets that header protection covers (RFC 9001 §5.4.1);
/// octets after them are unchanged.
///
/// [`Tls13CipherSuite`]: rustls::Tls13CipherSuite
#[must_use]
pub fn quic_algorithm(aead: AeadAlgorithm) -> &'static dyn quic::Algorithm {
    match aead {
        AeadAlgorithm::Aes128Gcm => &AES_128_GCM,
        AeadAlgorithm::Aes256Gcm => &AES_256_GCM,
        AeadAlgorithm::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        AeadAlgorithm::Aes128Ccm => &AES_128_CCM,
    }
}

/// A packet key from rustls' key and IV; `None` if the key does not have the AEAD's length.
pub(crate) fn packet_key(aead: AeadAlgorithm, key: &AeadKey, iv: &Iv) -> Option<hazmat::PacketKey> {
    let iv = iv.as_ref().try_into().ok()?;
    hazmat::PacketKey::new(aead, key.as_ref(), iv).ok()
}

impl quic::Algorithm for QuicAlgorithm {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn quic::PacketKey> {
        let key = packet_key(self.0, &key, &iv);
        #[cfg(feature = "log")]
        if let Some(key) = &key {
            log::debug!("QUIC packet key: {:?} by Wireseal, {}", self.0, key.served_by());
        }
        Box::new(PacketKey { aead: self.0, key })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn quic::HeaderProtectionKey> {
        Box::new(HeaderProtectionKey(hazmat::HeaderKey::new(self.0, key.as_ref()).ok()))
    }

    fn aead_key_len(&self) -> usize {
        self.0.key_length()
    }
}

/// `None` for a key of the wrong length: rustls' traits cannot refuse it when it is created, so every use fails.
#[derive(Debug)]
struct PacketKey {
    aead: AeadAlgorithm,
    key: Option<hazmat::PacketKey>,
}

impl quic::PacketKey for PacketKey {
    fn encrypt_in_place(&self, number: u64, header: &[u8], payload: &mut [u8]) -> Result<quic::Tag, Error> {
        self.encrypt_in_place_for_path(0, number, header, payload)
    }

    fn encrypt_in_place_for_path(
        &self,
        path: u32,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<quic::Tag, Error> {
        let key = self.key.as_ref().ok_or(Error::EncryptError)?;
        let tag = key.seal(PathId(path), number, header, payload).map_err(|_| Error::EncryptError)?;
        Ok(quic::Tag::from(tag.as_slice()))
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.decrypt_in_place_for_path(0, number, header, payload)
    }

    fn decrypt_in_place_for_path<'a>(
        &self,
        path: u32,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let key = self.key.as_ref().ok_or(Error::DecryptError)?;
        let plaintext = key.open(PathId(path), number, header, payload);
        plaintext.map(|plaintext| &*plaintext).ok_or(Error::DecryptError)
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

/// `None` as in [`PacketKey`].
#[derive(Debug)]
struct HeaderProtectionKey(Option<hazmat::HeaderKey>);

/// The octets of a header protection sample, the same for all AEADs (RFC 9001 §5.4.3 and §5.4.4).
const SAMPLE_LENGTH: usize = 16;

impl HeaderProtectionKey {
    /// The key and the sample, if they and the packet number have the right lengths.
    fn checked<'a>(
        &self,
        sample: &'a [u8],
        packet_number: &[u8],
    ) -> Result<(&hazmat::HeaderKey, &'a [u8; SAMPLE_LENGTH]), Error> {
        let key = self
            .0
            .as_ref()
            .ok_or_else(|| Error::General("header protection key of invalid length".into()))?;
        let sample = sample.try_into().map_err(|_| Error::General("sample of invalid length".into()))?;
        if packet_number.len() > 4 {
            return Err(Error::General("packet number too long".into()));
        }
        Ok((key, sample))
    }
}

impl quic::HeaderProtectionKey for HeaderProtectionKey {
    fn encrypt_in_place(&self, sample: &[u8], first: &mut u8, packet_number: &mut [u8]) -> Result<(), Error> {
        let (key, sample) = self.checked(sample, packet_number)?;
        key.protect(sample, first, packet_number);
        Ok(())
    }

    fn decrypt_in_place(&self, sample: &[u8], first: &mut u8, packet_number: &mut [u8]) -> Result<(), Error> {
        let (key, sample) = self.checked(sample, packet_number)?;
        key.unprotect(sample, first, packet_number);
        Ok(())
    }

    fn sample_len(&self) -> usize {
        SAMPLE_LENGTH
    }
}

#[cfg(test)]
mod tests {
    use rustls::quic::{Algorithm, PacketKey as _};

    use super::*;

    #[test]
    fn no_key_is_printed() {
        let (octets, iv) = ([0xab; 32], [0xcd; 12]);
        let packet = packet_key(AeadAlgorithm::Aes256Gcm, &AeadKey::from(octets), &Iv::from(iv));
        let packet = PacketKey { aead: AeadAlgorithm::Aes256Gcm, key: packet };
        assert!(packet.key.is_some());
        let header = HeaderProtectionKey(hazmat::HeaderKey::new(AeadAlgorithm::Aes256Gcm, &octets).ok());
        assert!(header.0.is_some());
        for printed in [format!("{packet:?} {header:?}"), format!("{packet:#x?} {header:#x?}")] {
            for octet in ["ab", "cd", "171", "205"] {
                assert!(!printed.contains(octet), "{printed}");
            }
        }
    }

    #[test]
    fn keys_of_a_wrong_length_refuse_all_use() {
        // Code outside rustls can only create keys of 32 octets, and this AEAD takes 16.
        let aead = AeadAlgorithm::Aes128Gcm;
        let packet = packet_key(aead, &AeadKey::from([1; 32]), &Iv::from([2; 12]));
        let (packet, mut payload) = (PacketKey { aead, key: packet }, [3; 40]);
        assert_eq!(packet.encrypt_in_place(0, b"header", &mut payload).err(), Some(Error::EncryptError));
        assert_eq!(packet.decrypt_in_place(0, b"header", &mut payload).err(), Some(Error::DecryptError));
        assert_eq!(payload, [3; 40]);

        let header = AES_128_GCM.header_protection_key(AeadKey::from([1; 32]));
        let (mut first, mut number) = (0x43, [0; 4]);
        assert!(header.encrypt_in_place(&[4; 16], &mut first, &mut number).is_err());
        assert!(header.decrypt_in_place(&[4; 16], &mut first, &mut number).is_err());
        assert_eq!((first, number), (0x43, [0; 4]));
    }
}
