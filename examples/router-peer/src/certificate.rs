//! A certificate to begin with: self-signed, for a peer to pin.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rcgen::{CertificateParams, DnType, KeyPair};
use zeroize::Zeroizing;

use crate::quic::Fingerprint;

/// What was made.
#[derive(Clone, Debug)]
pub struct Written {
    /// The certificate's file: PEM, for both ends' configurations.
    pub certificate: PathBuf,
    /// The private key's file: PEM, readable by its owner alone.
    pub key: PathBuf,
    /// What the peer's configuration may have in place of the certificate.
    pub fingerprint: Fingerprint,
}

/// Makes `NAME.pem` and `NAME.key` in a directory, which is made if need be: a self-signed certificate on the curve P-256.
///
/// # Errors
/// When the name is no file name or a file cannot be written. Nothing is overwritten.
pub fn create(directory: &Path, name: &str) -> Result<Written> {
    let is_usable = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let fits = !name.is_empty() && !name.starts_with('.') && name.chars().all(is_usable);
    ensure!(fits, "`{name}` is no name for a certificate");
    let pair = KeyPair::generate()?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    let made = parameters.self_signed(&pair)?;

    let [certificate, key] = ["pem", "key"].map(|ending| directory.join(format!("{name}.{ending}")));
    fs::create_dir_all(directory).with_context(|| format!("{}: cannot write", directory.display()))?;
    let pair = Zeroizing::new(pair.serialize_pem());
    for (file, text, mode) in [(&key, &*pair, 0o600), (&certificate, &made.pem(), 0o644)] {
        let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
        let written = opened.and_then(|mut open| open.write_all(text.as_bytes()));
        written.with_context(|| format!("{}: cannot write", file.display()))?;
    }
    Ok(Written { certificate, key, fingerprint: Fingerprint::of(made.der()) })
}
