//! Which keys implementations refuse.

use std::fmt;

use clap::ValueEnum;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{MAX_MASTER_KEY_LENGTH, OptionCoverage};

use super::{ChainKey, Format, Notation};

/// An implementation of TCP-AO.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Implementation {
    /// Linux sockets.
    Linux,
    /// BIRD, which uses Linux's TCP-AO.
    Bird,
    /// Junos.
    Junos,
    /// IOS XR.
    #[value(name = "ios-xr")]
    IosXr,
}

impl Implementation {
    /// Every implementation.
    pub const ALL: [Self; 4] = [Self::Linux, Self::Bird, Self::Junos, Self::IosXr];

    /// The implementation that reads a format; TOML and JSON are for Linux sockets.
    #[must_use]
    pub const fn reading(format: Option<Format>) -> Self {
        match format {
            Some(Format::Bird) => Self::Bird,
            Some(Format::Junos) => Self::Junos,
            Some(Format::IosXr) => Self::IosXr,
            Some(Format::Toml | Format::Json) | None => Self::Linux,
        }
    }

    const fn algorithm_name(self, algorithm: TcpAoAlgorithm) -> Option<&'static str> {
        match self {
            Self::Linux => algorithm.linux_name(),
            Self::Bird => algorithm.bird_name(),
            Self::Junos => algorithm.junos_name(),
            Self::IosXr => algorithm.ios_xr_name(),
        }
    }

    /// The shortest and longest MAC it can be configured with.
    const fn mac_lengths(self) -> [usize; 2] {
        match self {
            Self::Linux => [TcpAoAlgorithm::MIN_MAC_LENGTH, TcpAoAlgorithm::MAX_MAC_LENGTH],
            Self::Bird | Self::Junos | Self::IosXr => [12, 12],
        }
    }

    /// The largest number of a key in a chain.
    const fn max_key_id(self) -> u64 {
        match self {
            Self::Linux | Self::Bird => u64::MAX,
            Self::Junos => 63,
            Self::IosXr => (1 << 48) - 1,
        }
    }

    /// Why it cannot have such a key, however it is configured.
    #[must_use]
    pub fn refusals(self, key: &ChainKey) -> Vec<String> {
        let mut refusals = Vec::new();
        if self.algorithm_name(key.algorithm).is_none() {
            refusals.push(format!("does not support {}", key.algorithm));
        }
        let [least, most] = self.mac_lengths();
        if !(least..=most).contains(&key.mac_length) {
            let lengths = if least == most { least.to_string() } else { format!("{least} to {most}") };
            refusals.push(format!("supports MACs of {lengths} octets, not {}", key.mac_length));
        }
        let length = key.secret.expose().len();
        if length == 0 {
            refusals.push("does not accept an empty secret".to_owned());
        }
        if matches!(self, Self::Linux | Self::Bird) && length > MAX_MASTER_KEY_LENGTH {
            refusals.push(format!("accepts secrets of at most {MAX_MASTER_KEY_LENGTH} octets, not {length}"));
        }
        if self == Self::Bird && key.options == OptionCoverage::Excluded {
            refusals.push("always covers the TCP options".to_owned());
        }
        refusals
    }

    /// What its configuration refuses but would accept with another number or spelling of the same key.
    #[must_use]
    pub fn objections(self, key: &ChainKey) -> Vec<String> {
        let mut objections = Vec::new();
        if key.key_id > self.max_key_id() {
            objections.push(format!("numbers the keys of a chain from 0 to {}", self.max_key_id()));
        }
        let is_one_word = key.secret.expose().iter().all(u8::is_ascii_graphic);
        let is_typed = key.secret.notation() == Notation::Text;
        if let (Self::Junos | Self::IosXr, true, false) = (self, is_typed, is_one_word) {
            let obscured = if self == Self::Junos { "$9$" } else { "type 7" };
            objections.push(format!(
                "accepts this secret only as {obscured}: plain ones are printable ASCII characters without blanks"
            ));
        }
        if self == Self::IosXr && key.send != key.accept {
            objections.push("requires equal send-lifetime and accept-lifetime for TCP-AO".to_owned());
        }
        objections
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Linux => "Linux",
            Self::Bird => "BIRD",
            Self::Junos => "Junos",
            Self::IosXr => "IOS XR",
        })
    }
}
