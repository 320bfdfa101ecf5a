//! Secrets kept in a file, in the environment or in the kernel's keyring.

use std::fs::File;
use std::path::Path;

use zeroize::Zeroizing;

use super::load::{MAX_LENGTH, read_wiped};
use super::permissions;

/// The secret in a file, without the end of its last line, and a warning.
pub(super) fn file(path: &str) -> Result<(Zeroizing<Vec<u8>>, Option<String>), String> {
    let path = Path::new(path);
    let reason = |error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(reason)?;
    let metadata = file.metadata().map_err(reason)?;
    let mut octets = read_wiped(&mut file, metadata.len(), MAX_LENGTH).map_err(reason)?;
    for end in [b'\n', b'\r'] {
        if octets.last() == Some(&end) {
            octets.pop();
        } else {
            break;
        }
    }
    Ok((octets, permissions::warning(path, &metadata)))
}

/// The secret in an environment variable.
pub(super) fn environment(name: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    // The standard library panics on other names.
    let is_name = !name.is_empty() && !name.contains(['=', '\0']);
    let value = if is_name { std::env::var_os(name) } else { None };
    match value {
        Some(value) => Ok(Zeroizing::new(value.into_encoded_bytes())),
        // A shell may have put the secret in place of its name.
        None if name.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_') => {
            Err(format!("the environment has no {name:?}"))
        }
        None => Err("the environment has no variable of that name".to_owned()),
    }
}

/// The payload of the key of type `user` with this description, in the session's keyring or else the user's.
#[cfg(target_os = "linux")]
pub(super) fn keyring(description: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    use linux_keyutils::{KeyError, KeyRing, KeyRingIdentifier};

    let reason = |error| match error {
        KeyError::KeyDoesNotExist => format!("the kernel's keyring has no key {description:?} of type user"),
        // In most containers a filter of system calls causes this.
        KeyError::PermissionDenied | KeyError::AccessDenied => {
            format!("the kernel does not let this process read {description:?} from its keyring")
        }
        KeyError::Unknown(code) => {
            format!("the kernel's keyring cannot be used: {}", std::io::Error::from_raw_os_error(code))
        }
        error => format!("the kernel's keyring has no {description:?} to read: {error}"),
    };
    let rings = [KeyRingIdentifier::Session, KeyRingIdentifier::User];
    let mut result = Err(KeyError::KeyDoesNotExist);
    for ring in rings {
        result = KeyRing::from_special_id(ring, false).and_then(|ring| ring.search(description));
        if result.is_ok() {
            break;
        }
    }
    result.and_then(|key| key.read_to_vec()).map(Zeroizing::new).map_err(reason)
}

/// Only Linux has such a keyring.
#[cfg(not(target_os = "linux"))]
pub(super) fn keyring(_: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    Err("only Linux has a kernel keyring".to_owned())
}
