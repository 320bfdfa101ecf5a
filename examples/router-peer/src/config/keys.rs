//! Key chains: the one place where they are read.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::error::{ConfigError, Problem, parse};

/// A named chain of keys.
#[derive(Debug)]
pub struct KeyChain {
    name: String,
}

impl KeyChain {
    /// The name that peers refer to.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct KeyFile {
    key_chain: Vec<toml::Table>,
}

/// Reads the chains of the separate key file, and those written in the configuration itself.
pub(super) fn load(
    config: &Path,
    key_file: Option<&Path>,
    inline: &[toml::Table],
) -> Result<Vec<Arc<KeyChain>>, ConfigError> {
    let mut chains = Vec::new();
    if !inline.is_empty() {
        check_mode(config).map_err(|problem| ConfigError::field(config, "key-chain", problem))?;
        read_chains(config, inline, &mut chains)?;
    }
    if let Some(key_file) = key_file {
        let key_file = super::beside(config, key_file);
        check_mode(&key_file).map_err(|problem| ConfigError::file(&key_file, problem))?;
        let text = fs::read_to_string(&key_file)
            .map_err(|error| ConfigError::file(&key_file, Problem::Read(error)))?;
        let tables: KeyFile = parse(&key_file, &text)?;
        read_chains(&key_file, &tables.key_chain, &mut chains)?;
    }
    Ok(chains)
}

fn read_chains(
    file: &Path,
    tables: &[toml::Table],
    chains: &mut Vec<Arc<KeyChain>>,
) -> Result<(), ConfigError> {
    for (index, table) in tables.iter().enumerate() {
        let field = format!("key-chain[{index}].name");
        let Some(name) = table.get("name").and_then(toml::Value::as_str) else {
            return Err(ConfigError::field(file, field, Problem::Missing));
        };
        if chains.iter().any(|chain| chain.name == name) {
            return Err(ConfigError::field(file, field, Problem::Duplicate(name.to_owned())));
        }
        chains.push(Arc::new(KeyChain { name: name.to_owned() }));
    }
    Ok(())
}

/// Secrets belong to their owner alone.
#[cfg(unix)]
fn check_mode(file: &Path) -> Result<(), Problem> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata(file)?.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(Problem::ReadableByOthers(mode)) }
}

#[cfg(not(unix))]
fn check_mode(file: &Path) -> Result<(), Problem> {
    metadata(file).map(drop)
}

fn metadata(file: &Path) -> Result<fs::Metadata, Problem> {
    let metadata = fs::metadata(file).map_err(Problem::Read)?;
    if metadata.is_file() { Ok(metadata) } else { Err(Problem::Read(io::ErrorKind::InvalidInput.into())) }
}
