//! What QUIC needs: the own certificate with its key, and the certificate of each peer.

use std::fs;
use std::path::{Path, PathBuf};

use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use serde::Deserialize;

use super::error::{ConfigError, Problem};
use super::{Peer, beside, keys};
use crate::quic::{Fingerprint, Tls, TlsError, provider, suite_name, suite_named};

/// The table `quic`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    certificate: PathBuf,
    key: PathBuf,
    suites: Option<Vec<String>>,
}

/// Reads the own certificate and its key, which nobody but its owner may be able to read.
pub(super) fn load(config: &Path, table: Option<Table>) -> Result<Tls, ConfigError> {
    let wrong = |field: &str, problem| ConfigError::field(config, format!("quic.{field}"), problem);
    let table = table.ok_or_else(|| ConfigError::field(config, "quic", Problem::Missing))?;
    let provider = provider();
    let suites = table.suites.as_deref().map(|names| suites(&provider, names)).transpose();
    let suites = suites.map_err(|problem| wrong("suites", problem))?;
    let file = beside(config, &table.certificate);
    let certificate = read_certificate(&file).map_err(|problem| wrong("certificate", problem))?;
    let key_file = beside(config, &table.key);
    let of_key = |problem| wrong("key", Problem::of_file(&key_file, problem));
    let key = keys::read(&key_file).map_err(of_key)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|error| of_key(not_pem(&error, "private key")))?;
    Tls::new(provider, suites, certificate, key).map_err(|error| match error {
        TlsError::Certificate => {
            wrong("certificate", Problem::of_file(&file, Problem::Invalid(error.to_string())))
        }
        TlsError::Key | TlsError::KeyMismatch => of_key(Problem::Invalid(error.to_string())),
        TlsError::Suites => wrong("suites", Problem::Invalid(error.to_string())),
    })
}

fn suites(provider: &CryptoProvider, names: &[String]) -> Result<Vec<SupportedCipherSuite>, Problem> {
    if names.is_empty() {
        return Err(Problem::Missing);
    }
    let known = |name: &String| {
        suite_named(provider, name).ok_or_else(|| {
            let all: Vec<String> =
                provider.cipher_suites.iter().map(|suite| suite_name(suite.suite())).collect();
            Problem::Invalid(format!("`{name}` is not one of {}", all.join(", ")))
        })
    };
    names.iter().map(known).collect()
}

/// The certificate that a peer must show.
pub(super) fn peer_certificate(config: &Path, peer: &Peer) -> Result<Fingerprint, (&'static str, Problem)> {
    if peer.key_chain.is_some() {
        let problem = "TCP-AO has no part in QUIC, the certificates authenticate both ends".to_owned();
        return Err(("key-chain", Problem::Invalid(problem)));
    }
    match (&peer.certificate, &peer.certificate_sha256) {
        (None, None) => Err(("certificate", Problem::Missing)),
        (Some(_), Some(_)) => {
            Err(("certificate-sha256", Problem::Invalid("there is `certificate` already".to_owned())))
        }
        (Some(file), None) => read_certificate(&beside(config, file))
            .map(|certificate| Fingerprint::of(&certificate))
            .map_err(|problem| ("certificate", problem)),
        (None, Some(text)) => {
            text.parse().map_err(|error| ("certificate-sha256", Problem::Invalid(format!("{error}"))))
        }
    }
}

/// Reads the one certificate of a PEM file: of several it would not be plain which one is meant.
fn read_certificate(file: &Path) -> Result<CertificateDer<'static>, Problem> {
    let read = || {
        let pem = fs::read(file).map_err(Problem::Read)?;
        let certificate =
            CertificateDer::from_pem_slice(&pem).map_err(|error| not_pem(&error, "certificate"))?;
        if CertificateDer::pem_slice_iter(&pem).count() > 1 {
            return Err(Problem::Invalid(
                "there is more than one certificate, and one alone is pinned".to_owned(),
            ));
        }
        ParsedCertificate::try_from(&certificate)
            .map_err(|_| Problem::Invalid(TlsError::Certificate.to_string()))?;
        Ok(certificate)
    };
    read().map_err(|problem| Problem::of_file(file, problem))
}

/// Says what is wrong without a word of the file, which may hold a key.
fn not_pem(error: &pem::Error, wanted: &str) -> Problem {
    Problem::Invalid(match error {
        pem::Error::NoItemsFound => format!("there is no {wanted} in PEM"),
        _ => format!("the {wanted} is not proper PEM"),
    })
}
