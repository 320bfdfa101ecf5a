//! The files that a configuration is read from and names.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Error, Result, anyhow, ensure};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use serde::de::DeserializeOwned;
use speaker::routes;
use speaker::routes::Route;
use zeroize::Zeroizing;

/// Reads TOML. An error names field and line, and quotes no value but the wrong one.
pub(super) fn toml<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text = fs::read_to_string(file).context("cannot read")?;
    let described = |error: &toml::de::Error| {
        let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
        anyhow!("{}{line}", error.message())
    };
    let deserializer = toml::Deserializer::parse(&text).map_err(|error| described(&error))?;
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let problem = described(error.inner());
        match error.path().to_string().as_str() {
            "." => problem,
            field => problem.context(field.to_owned()),
        }
    })
}

/// Reads a list of routes.
pub(super) fn routes(file: &Path) -> Result<Arc<[Route]>> {
    routes::parse(&fs::read_to_string(file).context("cannot read")?)
}

/// Reads a secret file, which must not be accessible to others.
pub(super) fn secret(file: &Path) -> Result<Zeroizing<String>> {
    let mut file = File::open(file).context("cannot read")?;
    let metadata = file.metadata().context("cannot read")?;
    if !metadata.is_file() {
        return Err(Error::from(io::Error::from(io::ErrorKind::InvalidInput)).context("cannot read"));
    }
    let mode = metadata.permissions().mode() & 0o7777;
    ensure!(mode & 0o077 == 0, "mode {mode:04o} lets others read these secrets, chmod it to 0600");
    // Large enough from the start: growing would leave copies behind.
    let octets = usize::try_from(metadata.len()).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(octets + 1));
    file.read_to_string(&mut text).context("cannot read")?;
    Ok(text)
}

/// Reads a private key, which must not be accessible to others.
pub(super) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>> {
    let pem = secret(file)?;
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| not_pem(&error, "private key"))
}

/// Reads a PEM file with exactly one certificate.
pub(super) fn certificate(file: &Path) -> Result<CertificateDer<'static>> {
    let pem = fs::read(file).context("cannot read")?;
    let certificate = CertificateDer::from_pem_slice(&pem).map_err(|error| not_pem(&error, "certificate"))?;
    let count = CertificateDer::pem_slice_iter(&pem).count();
    ensure!(count == 1, "there is more than one certificate, and one alone is pinned");
    ParsedCertificate::try_from(&certificate).map_err(|_| anyhow!("not an X.509 certificate"))?;
    Ok(certificate)
}

/// Describes the error without quoting the file, which may hold a key.
fn not_pem(error: &pem::Error, wanted: &str) -> Error {
    match error {
        pem::Error::NoItemsFound => anyhow!("there is no {wanted} in PEM"),
        _ => anyhow!("the {wanted} is not proper PEM"),
    }
}
