//! Reading a file of keys.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use wireseal_tcp_ao::key_chain::{Key, KeyChain, KeyChainError, KeyChains, Problem};
use zeroize::Zeroizing;

use super::{
    Chain, ChainKey, Format, KeyFile, KeysError, Notation, Preference, Secret, bird, collisions, ios_xr,
    junos, permissions,
};

/// The most octets that a file of keys may have: more than any router's configuration.
const MAX_LENGTH: usize = 64 << 20;

/// Reads a file of keys, or standard input for `-`; without a `format`, by its name and content.
///
/// # Errors
/// [`KeysError`] names the file and the place in it.
pub fn load(path: &Path, format: Option<Format>) -> Result<KeyFile, KeysError> {
    let in_file = |error| KeysError::File { path: path.to_owned(), error };
    let (octets, warning) = if path == Path::new("-") {
        (read_to_end(&mut io::stdin().lock(), 0).map_err(in_file)?, None)
    } else {
        let mut file = File::open(path).map_err(in_file)?;
        let metadata = file.metadata().map_err(in_file)?;
        let length = usize::try_from(metadata.len()).unwrap_or(MAX_LENGTH);
        (read_to_end(&mut file, length).map_err(in_file)?, permissions::warning(path, &metadata))
    };
    let text = str::from_utf8(&octets).map_err(|_| KeysError::NotText { path: path.to_owned() })?;
    let mut file = read(path, text, format)?;
    file.warnings.extend(warning);
    Ok(file)
}

/// Everything that there is to read, without leaving a copy behind when the buffer grows.
pub(super) fn read_to_end(from: &mut impl Read, expected: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    // One octet more, so that the end of a file of the expected length shows without growing.
    let mut octets = Zeroizing::new(vec![0; expected.min(MAX_LENGTH) + 1]);
    let mut length = 0;
    loop {
        if length == octets.len() {
            if length > MAX_LENGTH {
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

/// Reads a text of keys; `path` is what errors call it.
///
/// # Errors
/// [`KeysError`] names the place in the text.
pub fn read(path: &Path, text: &str, format: Option<Format>) -> Result<KeyFile, KeysError> {
    let unknown = || KeysError::UnknownFormat { path: path.to_owned() };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let format = format.or_else(|| Format::of(path, text)).ok_or_else(unknown)?;
    let of_router = |result: Result<Vec<Chain>, _>| {
        result.map_err(|error| KeysError::Configuration { path: path.to_owned(), error })
    };
    let of_chains =
        |result: Result<KeyChains, KeyChainError>, apart: fn(&str) -> Option<Vec<KeyChains>>| match result {
            Ok(chains) => Ok(chains.chains().iter().map(Chain::from).collect()),
            Err(error) => {
                let collides = matches!(error.problem(), Problem::IdInUse { .. } | Problem::KeyIdTwice);
                let apart = collides.then(|| apart(text)).flatten();
                let together = apart.map(|keys| collisions::join(keys.iter().flat_map(KeyChains::chains)));
                together.ok_or_else(|| KeysError::KeyChain { path: path.to_owned(), error: Box::new(error) })
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
        return Err(KeysError::NoKeys { path: path.to_owned() });
    }
    Ok(KeyFile { format: Some(format), chains, warnings: Vec::new() })
}

impl From<&KeyChain> for Chain {
    fn from(chain: &KeyChain) -> Self {
        Self {
            name: chain.name().to_owned(),
            description: chain.description().map(ToOwned::to_owned),
            accept_tolerance: chain.accept_tolerance(),
            peers: Vec::new(),
            keys: chain.keys().iter().map(ChainKey::from).collect(),
            lacks_authentication: false,
        }
    }
}

impl From<&Key> for ChainKey {
    fn from(key: &Key) -> Self {
        let parameters = key.mkt().parameters();
        let secret = Zeroizing::new(key.mkt().master_key().expose_secret().to_vec());
        // Which of the two ways it was written in is not known any more, and a text can be told by its octets.
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
