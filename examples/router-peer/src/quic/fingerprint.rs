//! Peers are known by their certificates: each is configured with the one that it must show.

use std::fmt::{self, Write};
use std::str::FromStr;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme,
};
use sha2::{Digest, Sha256};
use tracing::warn;

/// Octets of a SHA-256 hash.
const OCTETS: usize = 32;

/// The SHA-256 hash of a certificate's DER, as `openssl x509 -fingerprint -sha256` shows it.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Fingerprint([u8; OCTETS]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, octet) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_char(':')?;
            }
            write!(f, "{octet:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no fingerprint: it is not 64 hexadecimal digits, with or without a colon after every second one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadFingerprint;

impl fmt::Display for BadFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the 64 hexadecimal digits of a SHA-256 fingerprint")
    }
}

impl std::error::Error for BadFingerprint {}

impl FromStr for Fingerprint {
    type Err = BadFingerprint;

    fn from_str(text: &str) -> Result<Self, BadFingerprint> {
        let pairs: Vec<&str> = if text.contains(':') {
            text.split(':').collect()
        } else {
            text.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap_or_default()).collect()
        };
        let mut octets = [0; OCTETS];
        if pairs.len() != OCTETS {
            return Err(BadFingerprint);
        }
        for (octet, pair) in octets.iter_mut().zip(pairs) {
            // The parser of numbers would also take a sign.
            if pair.len() != 2 || !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(BadFingerprint);
            }
            *octet = u8::from_str_radix(pair, 16).map_err(|_| BadFingerprint)?;
        }
        Ok(Self(octets))
    }
}

/// Accepts one certificate and no other. Its names and dates are not looked at, and nobody has to have signed it: the
/// configuration says whose it is. That the peer has its private key is verified in every handshake.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) peer: Fingerprint,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        let shown = Fingerprint::of(shown);
        if shown == self.peer {
            Ok(())
        } else {
            warn!(expected = %self.peer, %shown, "the peer's certificate is not the configured one");
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }
}

/// QUIC has TLS 1.3 and nothing older (RFC 9001 section 4.2).
fn older_than_tls13() -> Error {
    PeerIncompatible::Tls13RequiredForQuic.into()
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(older_than_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(older_than_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
