//! The argument of `--key`.

use cidr::{IpCidr, IpInet};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::Lifetime;
use wireseal_tcp_ao::{KeyId, OptionCoverage};
use zeroize::Zeroizing;

use super::obscured::hexadecimal;
use super::{
    ArgumentError, Chain, ChainKey, KeyFile, KeysError, Notation, Preference, Secret, TextProblem, source,
};

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
/// [`KeysError::Argument`], with the part.
pub fn from_argument(text: &str) -> Result<KeyFile, KeysError> {
    let parts = Parts::read(text)?;
    let send_id = parts.id("send")?.ok_or(ArgumentError::Missing("send"))?;
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
        preference: Preference::Ordinary,
    };
    let peers = parts.peer()?.into_iter().collect();
    let chain = Chain { peers, keys: vec![key], ..Chain::default() };
    Ok(KeyFile { format: None, chains: vec![chain], warnings })
}

/// Whether a message may quote this part, which cannot be read. Anything may be the secret in the wrong place, however short, so only
/// numbers, words of algorithms and addresses are quoted.
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
    // As "sha256" is split into "sha2", "5" and "6", what is before a digit is a word or nothing.
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
            let unknown = || ArgumentError::Part(index + 1);
            let (name, value) = part.split_once('=').ok_or_else(unknown)?;
            let place = NAMES.iter().position(|known| *known == name).ok_or_else(unknown)?;
            if parts[place].replace(value).is_some() {
                return Err(ArgumentError::Twice(NAMES[place]));
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
        problem: TextProblem,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ArgumentError> {
        let Some(text) = self.get(field) else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| Self::refused(field, problem, text))
    }

    fn refused(field: &'static str, problem: TextProblem, text: &str) -> ArgumentError {
        let given = is_quotable(field, text).then(|| text.to_owned());
        ArgumentError::Value { field, problem, given }
    }

    fn id(&self, field: &'static str) -> Result<Option<KeyId>, ArgumentError> {
        let id = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+')).map(KeyId);
        self.value(field, TextProblem::OutOfRange { max: u8::MAX.into() }, id)
    }

    fn algorithm(&self) -> Result<TcpAoAlgorithm, ArgumentError> {
        let text = self.get("alg").ok_or(ArgumentError::Missing("alg"))?;
        text.parse().map_err(|error| Self::refused("alg", TextProblem::Algorithm(error), text))
    }

    fn mac_length(&self) -> Result<Option<usize>, ArgumentError> {
        let range = TcpAoAlgorithm::MIN_MAC_LENGTH..=TcpAoAlgorithm::MAX_MAC_LENGTH;
        self.value("mac", TextProblem::Expected("4 to 16 octets"), |text| {
            text.parse().ok().filter(|length| range.contains(length))
        })
    }

    fn options(&self) -> Result<Option<OptionCoverage>, ArgumentError> {
        self.value("options", TextProblem::Expected("covered or excluded"), |text| match text {
            "covered" => Some(OptionCoverage::Covered),
            "excluded" => Some(OptionCoverage::Excluded),
            _ => None,
        })
    }

    fn peer(&self) -> Result<Option<IpCidr>, ArgumentError> {
        let expected = "an address, or a prefix with its other bits 0";
        self.value("peer", TextProblem::Expected(expected), |text| text.parse().ok())
    }

    /// The secret, and warnings.
    fn secret(&self) -> Result<(Secret, Vec<String>), ArgumentError> {
        let given = NAMES.into_iter().filter(|name| name.starts_with("secret"));
        let mut given = given.filter_map(|name| Some((name, self.get(name)?)));
        let (field, value) = given.next().ok_or(ArgumentError::Missing("secret"))?;
        if given.next().is_some() {
            return Err(ArgumentError::Twice("secret"));
        }
        let failed = |reason| ArgumentError::Source { field, reason };
        let elsewhere = |octets| Secret::new(octets, Notation::Elsewhere);
        let seen = || {
            format!(
                "--key with {field}=: every user of this machine can see the secret in the list of processes; use \
                 secret-file=, secret-env= or secret-keyring= to hide it"
            )
        };
        Ok(match field {
            "secret-hex" => {
                let problem = TextProblem::Expected("pairs of hexadecimal digits");
                let octets =
                    hexadecimal(value).ok_or(ArgumentError::Value { field, problem, given: None })?;
                (Secret::new(octets, Notation::Hexadecimal), vec![seen()])
            }
            "secret-file" => {
                let (octets, warning) = source::file(value).map_err(failed)?;
                (elsewhere(octets), warning.into_iter().collect())
            }
            "secret-env" => (elsewhere(source::environment(value).map_err(failed)?), Vec::new()),
            "secret-keyring" => (elsewhere(source::keyring(value).map_err(failed)?), Vec::new()),
            _ => {
                let octets = Zeroizing::new(value.as_bytes().to_vec());
                (Secret::new(octets, Notation::Text), vec![seen()])
            }
        })
    }
}
