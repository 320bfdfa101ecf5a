//! Certificate pinning: a peer must show the certificate that it is configured with.

use std::fmt;
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

/// The SHA-256 of a certificate's DER, as printed by `openssl x509 -fingerprint -sha256`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(|octet| format!("{octet:02X}")).collect();
        f.write_str(&pairs.join(":"))
    }
}

impl FromStr for Fingerprint {
    type Err = anyhow::Error;

    /// Parses 64 hexadecimal digits, with or without colons.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut octets = [0; 32];
        let read = base16ct::mixed::decode(text.replace(':', ""), &mut octets).map(<[u8]>::len);
        anyhow::ensure!(read == Ok(32), "not the 64 hexadecimal digits of a SHA-256 fingerprint");
        Ok(Self(octets))
    }
}

/// Accepts one certificate, whatever its name, dates and issuer. The handshake proves that the peer has the private key.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) peer: Fingerprint,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        let shown = Fingerprint::of(shown);
        if shown == self.peer {
            return Ok(());
        }
        warn!(expected = %self.peer, %shown, "the peer's certificate is not the configured one");
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}

/// What both verifiers have in common. QUIC uses TLS 1.3 or later (RFC 9001 §4.2).
macro_rules! verify_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(PeerIncompatible::Tls13RequiredForQuic.into())
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
    };
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(certificate).map(|()| ServerCertVerified::assertion())
    }

    verify_signatures!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(certificate).map(|()| ClientCertVerified::assertion())
    }

    verify_signatures!();
}
