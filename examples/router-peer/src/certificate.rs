//! Creates self-signed certificates for peers to pin.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rcgen::{CertificateParams, DnType, KeyPair};
use zeroize::Zeroizing;

use crate::quic::Fingerprint;

/// Creates `NAME.pem` and `NAME.key` in a directory, which is created if need be: a self-signed P-256 certificate, and its
/// private key, readable by its owner only. Returns what a peer can pin in place of the certificate.
///
/// # Errors
/// When the name is not a file name or a file cannot be written. Nothing is overwritten.
pub fn create(directory: &Path, name: &str) -> Result<Fingerprint> {
    let is_usable = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let fits = !name.is_empty() && !name.starts_with('.') && name.chars().all(is_usable);
    ensure!(fits, "`{name}` is no name for a certificate");
    let pair = KeyPair::generate()?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    let made = parameters.self_signed(&pair)?;

    fs::create_dir_all(directory).with_context(|| format!("{}: cannot write", directory.display()))?;
    let pair = Zeroizing::new(pair.serialize_pem());
    for (ending, text, mode) in [("key", &*pair, 0o600), ("pem", &made.pem(), 0o644)] {
        let file = directory.join(format!("{name}.{ending}"));
        let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&file);
        let written = opened.and_then(|mut open| open.write_all(text.as_bytes()));
        written.with_context(|| format!("{}: cannot write", file.display()))?;
    }
    Ok(Fingerprint::of(made.der()))
}
