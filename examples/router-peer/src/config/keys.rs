//! Key chains: the one place where they are read.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use wireseal_tcp_ao::key_chain::{KeyChain, KeyChains};
use zeroize::Zeroizing;

use super::error::{ConfigError, Problem};

/// Reads the file of key chains that `config` names, which nobody but its owner may be able to read.
pub(super) fn load(config: &Path, key_file: &Path) -> Result<Vec<Arc<KeyChain>>, ConfigError> {
    let text = read(key_file)
        .map_err(|problem| ConfigError::field(config, "key-chains", Problem::of_file(key_file, problem)))?;
    let chains = KeyChains::from_toml(&text)
        .map_err(|error| ConfigError::file(key_file, Problem::KeyChain(Box::new(error))))?;
    Ok(chains.chains().iter().cloned().map(Arc::new).collect())
}

/// Reads a file of secrets, which nobody but its owner may be able to read.
pub(super) fn read(key_file: &Path) -> Result<Zeroizing<String>, Problem> {
    let mut file = File::open(key_file).map_err(Problem::Read)?;
    let metadata = file.metadata().map_err(Problem::Read)?;
    if !metadata.is_file() {
        return Err(Problem::Read(io::ErrorKind::InvalidInput.into()));
    }
    check_mode(&metadata)?;
    // Large enough from the start: a buffer that moved would leave secrets behind.
    let octets = usize::try_from(metadata.len()).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(octets + 1));
    file.read_to_string(&mut text).map_err(Problem::Read)?;
    Ok(text)
}

/// Secrets belong to their owner alone.
#[cfg(unix)]
fn check_mode(metadata: &Metadata) -> Result<(), Problem> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(Problem::ReadableByOthers(mode)) }
}

#[cfg(not(unix))]
fn check_mode(_metadata: &Metadata) -> Result<(), Problem> {
    Ok(())
}
