//! Keys from files of any format, which `wireseal-keys` reads, and from the argument of `--key`: its secret in the text, in a file, in the
//! environment or in the kernel's keyring.

use std::fmt;
use std::fs::File;
use std::path::Path;

use cidr::{IpCidr, IpInet};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{
    Chain, ChainKey, Clock, KeyFile, Lifetime, MAX_KEY_FILE, Neighbor, Notation, Preference, Problem, Secret,
    hexadecimal, permission_warning, read_wiped,
};
use wireseal_tcp_ao::{KeyId, OptionCoverage};
use zeroize::Zeroizing;

pub use wireseal_keys::{ConfiguredKey, Keys};

/// What is wrong with a `--key`. It contains no secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("--key: {0}")]
pub struct ArgumentError(String);

fn missing(field: &str) -> ArgumentError {
    ArgumentError(format!("{field}= is missing"))
}

fn twice(field: &str) -> ArgumentError {
    ArgumentError(format!("{field}= is given twice"))
}

const NAMES: [&str; 11] = [
    "send",
    "recv",
    "alg",
    "secret",
    "secret-hex",
    "secret-file",
    "secret-env",
    "secret-keyring",
    "mac",
    "options",
    "peer",
];

/// Reads a key such as `send=100,recv=100,alg=aes-128-cmac-96,secret-file=PATH`.
///
/// Defaults: `recv` is `send`, `mac` (octets) the algorithm's default, `options` `covered`. A secret with a comma has to be given
/// as `secret-hex`, or kept elsewhere.
///
/// # Errors
/// [`ArgumentError`], with the part.
pub fn from_argument(text: &str) -> Result<KeyFile, ArgumentError> {
    let parts = Parts::read(text)?;
    let send_id = parts.id("send")?.ok_or(missing("send"))?;
    let algorithm = parts.algorithm()?;
    let (secret, warnings) = parts.secret()?;
    let key = ChainKey {
        position: None,
        key_id: send_id.0.into(),
        send_id,
        recv_id: parts.id("recv")?.unwrap_or(send_id),
        algorithm,
        mac_length: parts.mac_length()?.unwrap_or(algorithm.default_mac_length()),
        options: parts.options()?.unwrap_or(OptionCoverage::Covered),
        secret,
        send: Lifetime::ALWAYS,
        accept: Lifetime::ALWAYS,
        clock: Clock::Utc,
        preference: Preference::Ordinary,
    };
    let neighbors = parts.peer()?.into_iter().map(Neighbor::from).collect();
    let chain = Chain { neighbors, keys: vec![key], ..Chain::default() };
    Ok(KeyFile { chains: vec![chain], warnings, ..KeyFile::default() })
}

/// Whether a message may quote this unreadable part. Any text may be a misplaced secret, so only numbers, words of algorithms and
/// addresses are quoted.
fn is_quotable(field: &str, text: &str) -> bool {
    match field {
        "send" | "recv" | "mac" => text.parse::<i32>().is_ok(),
        "alg" => is_like_algorithm(text),
        "peer" => text.parse::<IpInet>().is_ok(),
        _ => false,
    }
}

/// Whether a text has nothing but words of algorithms and their sizes.
fn is_like_algorithm(text: &str) -> bool {
    const WORDS: [&str; 7] = ["hmac", "mac", "aes", "kmac", "cmac", "sha", "md"];
    let is_separator = |c: char| "-()_".contains(c);
    let has_word = text.chars().any(|c| c.is_ascii_alphabetic());
    let mut runs =
        text.split(is_separator).flat_map(|part| part.split_inclusive(|c: char| c.is_ascii_digit()));
    // "sha256" is split into "sha2", "5" and "6", so what stands before a digit is a word or nothing.
    let is_known = |run: &str| {
        let word = run.trim_end_matches(|c: char| c.is_ascii_digit()).to_ascii_lowercase();
        word.is_empty() || WORDS.contains(&word.as_str())
    };
    let digits = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    has_word && digits <= 3 && text.len() <= 24 && runs.all(is_known)
}

/// The parts, each at the index of its name in [`NAMES`].
struct Parts<'a>([Option<&'a str>; NAMES.len()]);

impl<'a> Parts<'a> {
    fn read(text: &'a str) -> Result<Self, ArgumentError> {
        let mut parts = [None; NAMES.len()];
        for (index, part) in text.split(',').enumerate() {
            let unknown = || {
                ArgumentError(format!(
                    "part {} is none of {}= (put a secret with a comma into secret-hex= or a file)",
                    index + 1,
                    NAMES.join("=, ")
                ))
            };
            let (name, value) = part.split_once('=').ok_or_else(unknown)?;
            let place = NAMES.iter().position(|known| *known == name).ok_or_else(unknown)?;
            if parts[place].replace(value).is_some() {
                return Err(twice(NAMES[place]));
            }
        }
        Ok(Self(parts))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        NAMES.iter().position(|known| *known == name).and_then(|place| self.0[place])
    }

    /// The value of a part, if it is given.
    fn value<T>(
        &self,
        field: &'static str,
        problem: impl fmt::Display,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ArgumentError> {
        let Some(text) = self.get(field) else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| Self::refused(field, problem, text))
    }

    /// What is wrong with a value. Quotes the value unless it may be a misplaced secret.
    fn refused(field: &str, problem: impl fmt::Display, text: &str) -> ArgumentError {
        let given = if is_quotable(field, text) { format!("; {text:?} was given") } else { String::new() };
        ArgumentError(format!("{field}=: {problem}{given}"))
    }

    fn id(&self, field: &'static str) -> Result<Option<KeyId>, ArgumentError> {
        let id = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+')).map(KeyId);
        self.value(field, Problem::OutOfRange { min: 0, max: u8::MAX.into() }, id)
    }

    fn algorithm(&self) -> Result<TcpAoAlgorithm, ArgumentError> {
        let text = self.get("alg").ok_or(missing("alg"))?;
        text.parse().map_err(|error| Self::refused("alg", error, text))
    }

    fn mac_length(&self) -> Result<Option<usize>, ArgumentError> {
        let range = TcpAoAlgorithm::MIN_MAC_LENGTH..=TcpAoAlgorithm::MAX_MAC_LENGTH;
        self.value("mac", "expected 4 to 16 octets", |text| {
            text.parse().ok().filter(|length| range.contains(length))
        })
    }

    fn options(&self) -> Result<Option<OptionCoverage>, ArgumentError> {
        self.value("options", "expected covered or excluded", |text| match text {
            "covered" => Some(OptionCoverage::Covered),
            "excluded" => Some(OptionCoverage::Excluded),
            _ => None,
        })
    }

    fn peer(&self) -> Result<Option<IpCidr>, ArgumentError> {
        let expected = "expected an address, or a prefix with its other bits 0";
        self.value("peer", expected, |text| text.parse().ok())
    }

    /// The secret, and warnings.
    fn secret(&self) -> Result<(Secret, Vec<String>), ArgumentError> {
        let given = NAMES.into_iter().filter(|name| name.starts_with("secret"));
        let mut given = given.filter_map(|name| Some((name, self.get(name)?)));
        let (field, value) = given.next().ok_or(missing("secret"))?;
        if given.next().is_some() {
            return Err(twice("secret"));
        }
        let failed = |reason| ArgumentError(format!("{field}=: {reason}"));
        let elsewhere = |octets| Secret::new(octets, Notation::Elsewhere);
        let seen = || {
            format!(
                "--key with {field}=: every user of this machine can see the secret in the list of processes; use \
                 secret-file=, secret-env= or secret-keyring= to hide it"
            )
        };
        Ok(match field {
            "secret-hex" => {
                let octets = hexadecimal(value)
                    .ok_or_else(|| failed("expected pairs of hexadecimal digits".to_owned()))?;
                (Secret::new(octets, Notation::Hexadecimal), vec![seen()])
            }
            "secret-file" => {
                let (octets, warning) = in_file(value).map_err(failed)?;
                (elsewhere(octets), warning.into_iter().collect())
            }
            "secret-env" => (elsewhere(in_environment(value).map_err(failed)?), Vec::new()),
            "secret-keyring" => (elsewhere(in_keyring(value).map_err(failed)?), Vec::new()),
            _ => {
                let octets = Zeroizing::new(value.as_bytes().to_vec());
                (Secret::new(octets, Notation::Text), vec![seen()])
            }
        })
    }
}

/// The secret in a file, without the end of its last line, and a warning.
fn in_file(path: &str) -> Result<(Zeroizing<Vec<u8>>, Option<String>), String> {
    let path = Path::new(path);
    let reason = |error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(reason)?;
    let metadata = file.metadata().map_err(reason)?;
    let mut octets = read_wiped(&mut file, metadata.len(), MAX_KEY_FILE).map_err(reason)?;
    for end in [b'\n', b'\r'] {
        if octets.last() == Some(&end) {
            octets.pop();
        } else {
            break;
        }
    }
    Ok((octets, permission_warning(path, &metadata)))
}

/// The secret in an environment variable.
fn in_environment(name: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    // The standard library panics on other names.
    let is_name = !name.is_empty() && !name.contains(['=', '\0']);
    let value = if is_name { std::env::var_os(name) } else { None };
    match value {
        Some(value) => Ok(Zeroizing::new(value.into_encoded_bytes())),
        // A shell may have replaced the variable's name by its secret.
        None if name.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_') => {
            Err(format!("the environment has no {name:?}"))
        }
        None => Err("the environment has no variable of that name".to_owned()),
    }
}

/// The payload of the key of type `user` with this description, in the session's keyring or else the user's.
#[cfg(target_os = "linux")]
fn in_keyring(description: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    use linux_keyutils::{KeyError, KeyRing, KeyRingIdentifier};

    let reason = |error| match error {
        KeyError::KeyDoesNotExist => format!("the kernel's keyring has no key {description:?} of type user"),
        // In most containers a system call filter causes this.
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

/// Only Linux has this keyring.
#[cfg(not(target_os = "linux"))]
fn in_keyring(_: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    Err("only Linux has a kernel keyring".to_owned())
}
