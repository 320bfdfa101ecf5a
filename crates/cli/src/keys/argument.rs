//! The argument of `--key`.

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::key_chain::Lifetime;
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

/// What a message may quote: text that is too short for a secret, or that looks like an algorithm or an address. Anything else may be the
/// secret in the wrong place.
fn shown(text: &str) -> Option<String> {
    let is_algorithm = ["mac", "sha", "md5", "aes"].iter().any(|word| text.to_lowercase().contains(word));
    let is_address =
        text.contains(['.', ':']) && text.chars().all(|c| c.is_ascii_hexdigit() || ".:/".contains(c));
    (text.len() < 8 || is_algorithm || is_address).then(|| text.to_owned())
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
        read(text).map(Some).ok_or_else(|| ArgumentError::Value { field, problem, given: shown(text) })
    }

    fn id(&self, field: &'static str) -> Result<Option<KeyId>, ArgumentError> {
        let id = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+')).map(KeyId);
        self.value(field, TextProblem::OutOfRange { max: u8::MAX.into() }, id)
    }

    fn algorithm(&self) -> Result<TcpAoAlgorithm, ArgumentError> {
        let text = self.get("alg").ok_or(ArgumentError::Missing("alg"))?;
        let refused = |error| ArgumentError::Value {
            field: "alg",
            problem: TextProblem::Algorithm(error),
            given: shown(text),
        };
        text.parse().map_err(refused)
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
