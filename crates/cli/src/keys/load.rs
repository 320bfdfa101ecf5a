//! Reading a file of keys.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use wireseal_keys::{Key, KeyChain, KeyChainError, KeyChains, Problem};
use zeroize::Zeroizing;

use super::{
    Chain, ChainKey, FileProblem, Format, KeyFile, KeysError, Notation, Preference, Secret, bird, collisions,
    ios_xr, junos, permissions,
};

/// The most octets of a file of keys: more than any router configuration has.
pub(super) const MAX_LENGTH: usize = 64 << 20;

/// Reads a file of keys, or standard input for `-`. Without `format`, name and content decide.
///
/// # Errors
/// [`KeysError`], with the file and the place in it.
pub fn load(path: &Path, format: Option<Format>) -> Result<KeyFile, KeysError> {
    let in_file = |error| KeysError::File { path: path.to_owned(), problem: FileProblem::Read(error) };
    let (octets, warning) = if path == Path::new("-") {
        (read_wiped(&mut io::stdin().lock(), 0, MAX_LENGTH).map_err(in_file)?, None)
    } else {
        let mut file = File::open(path).map_err(in_file)?;
        let metadata = file.metadata().map_err(in_file)?;
        (
            read_wiped(&mut file, metadata.len(), MAX_LENGTH).map_err(in_file)?,
            permissions::warning(path, &metadata),
        )
    };
    let not_text = |_| KeysError::File { path: path.to_owned(), problem: FileProblem::NotText };
    let text = str::from_utf8(&octets).map_err(not_text)?;
    let mut file = read(path, text, format)?;
    file.warnings.extend(warning);
    Ok(file)
}

/// Reads to the end, at most `limit` octets, without leaving copies behind when the buffer grows; `expected` are probably there.
///
/// # Errors
/// Those of reading, and [`io::ErrorKind::FileTooLarge`].
pub fn read_wiped(from: &mut impl Read, expected: u64, limit: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    // One octet more, so that the buffer need not grow to find the end.
    let mut octets = Zeroizing::new(vec![0; usize::try_from(expected).unwrap_or(0).min(MAX_LENGTH) + 1]);
    let mut length = 0;
    loop {
        if length == octets.len() {
            if length > limit {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too large for a file of keys"));
            }
            let mut larger = Zeroizing::new(vec![0; (2 * length).max(8192)]);
            larger[..length].copy_from_slice(&octets);
            octets = larger;
        }
        match from.read(&mut octets[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    octets.truncate(length);
    Ok(octets)
}

/// Reads keys from a text, which errors call `path`.
///
/// # Errors
/// [`KeysError`], with the place in the text.
pub fn read(path: &Path, text: &str, format: Option<Format>) -> Result<KeyFile, KeysError> {
    let in_file = |problem| KeysError::File { path: path.to_owned(), problem };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let format =
        format.or_else(|| Format::of(path, text)).ok_or_else(|| in_file(FileProblem::UnknownFormat))?;
    let of_router =
        |result: Result<Vec<Chain>, _>| result.map_err(|error| in_file(FileProblem::Configuration(error)));
    let of_chains =
        |result: Result<KeyChains, KeyChainError>, apart: fn(&str) -> Option<Vec<KeyChains>>| match result {
            Ok(chains) => Ok(chains.chains().iter().map(Chain::from).collect()),
            Err(error) => {
                let collides = matches!(error.problem(), Problem::IdInUse { .. } | Problem::KeyIdTwice);
                let apart = collides.then(|| apart(text)).flatten();
                let together = apart.map(|keys| collisions::join(keys.iter().flat_map(KeyChains::chains)));
                together.ok_or_else(|| in_file(FileProblem::KeyChain(Box::new(error))))
            }
        };
    let chains = match format {
        Format::Toml => of_chains(KeyChains::from_toml(text), collisions::toml_keys)?,
        Format::Json => of_chains(KeyChains::from_json(text), collisions::json_keys)?,
        Format::Bird => of_router(bird::read(text))?,
        Format::Junos => of_router(junos::read(text))?,
        Format::IosXr => of_router(ios_xr::read(text))?,
    };
    if chains.iter().all(|chain| chain.keys.is_empty()) {
        return Err(in_file(FileProblem::NoKeys));
    }
    Ok(KeyFile { format: Some(format), chains, warnings: Vec::new() })
}

impl From<&KeyChain> for Chain {
    fn from(chain: &KeyChain) -> Self {
        Self {
            name: chain.name().to_owned(),
            description: chain.description().map(ToOwned::to_owned),
            accept_tolerance: chain.accept_tolerance(),
            keys: chain.keys().iter().map(ChainKey::from).collect(),
            ..Self::default()
        }
    }
}

impl From<&Key> for ChainKey {
    fn from(key: &Key) -> Self {
        let parameters = key.mkt().parameters();
        let secret = Zeroizing::new(key.mkt().master_key().expose_secret().to_vec());
        // How it was written is no longer known; printable octets are taken for text.
        let notation = match secret.iter().all(|octet| matches!(octet, b' '..=b'~')) {
            true => Notation::Text,
            false => Notation::Hexadecimal,
        };
        Self {
            position: None,
            key_id: key.key_id(),
            send_id: parameters.send_id,
            recv_id: parameters.recv_id,
            algorithm: parameters.algorithm,
            mac_length: parameters.mac_length(),
            options: parameters.options,
            secret: Secret::new(secret, notation),
            send: *key.send_lifetime(),
            accept: *key.accept_lifetime(),
            preference: Preference::Ordinary,
        }
    }
}
