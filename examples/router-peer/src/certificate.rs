//! A certificate to begin with: self-signed, for a peer to pin.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DnType, KeyPair};
use zeroize::Zeroizing;

use crate::quic::Fingerprint;

/// Why no certificate was made.
#[derive(Debug)]
pub enum CertificateError {
    /// The name cannot stand in a certificate, or makes no file name.
    Name(String),
    /// The system's random numbers, or the encoding.
    Generate(rcgen::Error),
    /// A file cannot be written. One that exists already is left as it is.
    Write {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "`{name}` is no name for a certificate"),
            Self::Generate(error) => write!(f, "cannot make a certificate: {error}"),
            Self::Write { file, error } => write!(f, "{}: cannot write: {error}", file.display()),
        }
    }
}

impl std::error::Error for CertificateError {}

/// The files of a certificate that was made.
#[derive(Clone, Debug)]
pub struct Written {
    /// The certificate, as PEM: for the own configuration and the peer's.
    pub certificate: PathBuf,
    /// The private key, as PEM, which only its owner can read.
    pub key: PathBuf,
    /// What the peer's configuration may say instead of having the file.
    pub fingerprint: Fingerprint,
}

/// Makes `NAME.pem` and `NAME.key` in a directory, which is made if need be: a self-signed certificate on the curve P-256.
///
/// # Errors
/// [`CertificateError`]. Nothing is overwritten.
pub fn create(directory: &Path, name: &str) -> Result<Written, CertificateError> {
    let usable = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(usable) {
        return Err(CertificateError::Name(name.to_owned()));
    }
    let key = KeyPair::generate().map_err(CertificateError::Generate)?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    let certificate = parameters.self_signed(&key).map_err(CertificateError::Generate)?;

    let [certificate_file, key_file] =
        ["pem", "key"].map(|ending| directory.join(format!("{name}.{ending}")));
    fs::create_dir_all(directory).map_err(|error| unwritten(directory, error))?;
    write_new(&key_file, &Zeroizing::new(key.serialize_pem()), 0o600)?;
    write_new(&certificate_file, &certificate.pem(), 0o644)?;
    let fingerprint = Fingerprint::of(certificate.der());
    Ok(Written { certificate: certificate_file, key: key_file, fingerprint })
}

fn unwritten(file: &Path, error: io::Error) -> CertificateError {
    CertificateError::Write { file: file.to_owned(), error }
}

fn write_new(file: &Path, text: &str, mode: u32) -> Result<(), CertificateError> {
    let written = create_new(file, mode).and_then(|mut open| open.write_all(text.as_bytes()));
    written.map_err(|error| unwritten(file, error))
}

#[cfg(unix)]
fn create_new(file: &Path, mode: u32) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    OpenOptions::new().write(true).create_new(true).mode(mode).open(file)
}

#[cfg(not(unix))]
fn create_new(file: &Path, _mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(file)
}
