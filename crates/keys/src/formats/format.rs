//! The formats, and the content of a file of any format.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::mem;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::OptionCoverage;

use super::file::{Chain, ChainKey, Clock, ConfiguredKey, End, Keys, Notation, Remark, Skipped};
use super::table::{Limits, SendingRule, Shows, Table};
use super::{
    bird, chains, eos, frr, gobgp, ios_xe, ios_xr, junos, netconf, openconfig, sr_linux, sr_os, vrp,
};
use crate::{Error, KeyChains, Lifetime, Problem, Timestamp};

/// Defines the formats: each has one line in the list below, and one [`Table`] in its own file.
macro_rules! formats {
    ($($(#[$about:meta])* $format:ident: $table:path,)+) => {
        /// A format of keys: the configuration of a router or of a BGP daemon, or a file of key chains that belongs to no particular
        /// router.
        ///
        /// NX-OS, FRR, SR Linux and OpenConfig are only read ([`is_written`](Self::is_written)): it is not certain how they write keys for
        /// TCP-AO, or whether they support it.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$about])* $format,)+
        }

        impl Format {
            /// Every format.
            pub const ALL: [Self; [$(stringify!($format)),+].len()] = [$(Self::$format,)+];

            pub(super) const fn table(self) -> &'static Table {
                match self {
                    $(Self::$format => &$table,)+
                }
            }
        }
    };
}

formats! {
    /// Key chains in TOML.
    Toml: chains::TOML,
    /// Key chains in JSON (RFC 8177 with RFC 9648).
    Json: chains::JSON,
    /// BIRD configuration.
    Bird: bird::TABLE,
    /// Junos configuration, with braces or as `set` commands.
    Junos: junos::TABLE,
    /// Cisco IOS XR configuration.
    IosXr: ios_xr::TABLE,
    /// Cisco IOS XE configuration.
    IosXe: ios_xe::TABLE,
    /// Cisco NX-OS configuration. Only read, as IOS XE's: its own syntax is not published.
    NxOs: ios_xe::NX_OS,
    /// FRR configuration. Only read, to say that its key chains are not for TCP-AO.
    Frr: frr::TABLE,
    /// Arista EOS configuration.
    Eos: eos::TABLE,
    /// Huawei VRP configuration.
    Vrp: vrp::TABLE,
    /// Nokia SR OS configuration: MD-CLI in braces or as commands, or classic CLI.
    SrOs: sr_os::TABLE,
    /// Nokia SR Linux configuration. Only read: no published model accepts an algorithm for TCP-AO.
    SrLinux: sr_linux::TABLE,
    /// GoBGP configuration, in TOML, YAML or JSON.
    GoBgp: gobgp::TABLE,
    /// Key chains in XML, as NETCONF has them (RFC 8177 with RFC 9648).
    Xml: netconf::TABLE,
    /// OpenConfig key chains in JSON. Only read: they have no SendID, RecvID or TCP options.
    OpenConfig: openconfig::TABLE,
}

impl Format {
    /// The format that a file's name or text shows. In the text, the first line that only one format has decides, or else the first that
    /// several have. If several formats have the name's extension, the text decides between them.
    #[must_use]
    pub fn of(path: &Path, text: &str) -> Option<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_named = |format: &Self| {
            let mut extensions = format.table().extension.into_iter().flatten();
            extensions.any(|known| extension.is_some_and(|extension| extension.eq_ignore_ascii_case(known)))
        };
        let named: Vec<_> = Self::ALL.into_iter().filter(is_named).collect();
        match named[..] {
            [] => Self::shown(text, &Self::ALL),
            [only] => Some(only),
            [first, ..] => Self::shown(text, &named).or(Some(first)),
        }
    }

    /// Which of these formats a text shows.
    fn shown(text: &str, formats: &[Self]) -> Option<Self> {
        let mut from = 0;
        let mut perhaps = None;
        for line in text.split_inclusive('\n') {
            let rest = &text[from + line.len() - line.trim_start().len()..];
            from += line.len();
            // Lines of later formats contain words of earlier ones, so the later ones are tried first.
            for format in formats.iter().rev().copied() {
                match (format.table().shows)(rest) {
                    Shows::Certainly => return Some(format),
                    Shows::Perhaps => perhaps = perhaps.or(Some(format)),
                    Shows::Nothing => {}
                }
            }
        }
        perhaps
    }

    /// Whether [`convert`](super::convert()) can write it.
    #[must_use]
    pub const fn is_written(self) -> bool {
        self.table().write.is_some()
    }

    /// Its name in `--format` and `--to`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.table().name
    }

    /// A short description.
    #[must_use]
    pub const fn about(self) -> &'static str {
        self.table().about
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads what [`Format::name`] returns.
impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| Error::text("unknown format of keys"))
    }
}

/// An implementation of TCP-AO: that of the router or BGP daemon whose configuration a format is, or Linux sockets for key chains that
/// belong to no particular router (TOML, JSON, XML, OpenConfig) and for FRR.
#[derive(Clone, Copy)]
pub struct Implementation(&'static Limits);

impl Implementation {
    /// The implementation that uses the keys of a format; Linux's for keys that are in no file.
    #[must_use]
    pub fn reading(format: Option<Format>) -> Self {
        Self(&format.unwrap_or(Format::Toml).table().limits)
    }

    /// Every implementation that is known to support TCP-AO, each once: NX-OS counts as IOS XE, and SR Linux is left out, because it is not
    /// known which algorithms it supports.
    pub fn all() -> impl Iterator<Item = Self> {
        let all = Format::ALL.map(|format| Self::reading(Some(format)));
        // Some formats have the same implementation.
        let first = (0..all.len()).filter(move |at| !all[..*at].contains(&all[*at])).map(move |at| all[at]);
        first
            .filter(|Self(limits)| TcpAoAlgorithm::ALL.into_iter().any(|it| (limits.algorithm)(it).is_some()))
    }

    /// Its name in `--for`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// A short description.
    #[must_use]
    pub const fn about(self) -> &'static str {
        self.0.about
    }

    /// Why no configuration of it can have such a key; empty if one can.
    #[must_use]
    pub fn refusals(self, key: &ChainKey) -> Vec<String> {
        let mut refusals = Vec::new();
        if (self.0.algorithm)(key.algorithm).is_none() {
            refusals.push(format!("does not support {}", key.algorithm));
        }
        let [least, most] = self.0.mac_lengths;
        if !(least..=most).contains(&key.mac_length) {
            let lengths = if least == most { least.to_string() } else { format!("{least} to {most}") };
            refusals.push(format!("supports MACs of {lengths} octets, not {}", key.mac_length));
        } else if refusals.is_empty() && !(self.0.has_mac)(key.algorithm, key.mac_length) {
            refusals
                .push(format!("does not support {} with MACs of {} octets", key.algorithm, key.mac_length));
        }
        let length = key.secret.expose().len();
        if length == 0 && key.secret.encryption().is_none() {
            refusals.push("does not accept an empty secret".to_owned());
        }
        if let Some(most) = self.0.max_secret.filter(|most| length > *most) {
            refusals.push(format!("accepts secrets of at most {most} octets, not {length}"));
        }
        if self.0.has_only_text && !key.secret.expose().iter().all(|octet| matches!(octet, b' '..=b'~')) {
            refusals.push("accepts a secret only as printable ASCII characters".to_owned());
        }
        for (field, id) in [("SendID", key.send_id), ("RecvID", key.recv_id)] {
            if id.0 > self.0.max_id {
                refusals.push(format!("has no {field} above {}", self.0.max_id));
            }
        }
        if self.0.has_one_id && key.send_id != key.recv_id {
            refusals.push("has one id for both directions".to_owned());
        }
        if self.0.covers_options && key.options == OptionCoverage::Excluded {
            refusals.push("always covers the TCP options".to_owned());
        }
        refusals
    }

    /// Which key it signs with if several are valid.
    #[must_use]
    pub const fn sending(self) -> SendingRule {
        self.0.sending
    }

    /// The length of the longest secret in octets, if that is known.
    #[must_use]
    pub const fn max_secret(self) -> Option<usize> {
        self.0.max_secret
    }

    /// The setting that makes MACs cover the TCP options; `None` if they always do.
    #[must_use]
    pub fn options_setting(self) -> Option<&'static str> {
        Some(self.0.options_setting).filter(|setting| !setting.is_empty())
    }

    /// What it refuses in a key as it is written, although it would accept the same key with another number, lifetime or spelling.
    #[must_use]
    pub fn objections(self, key: &ChainKey) -> Vec<String> {
        let mut objections = Vec::new();
        if key.key_id > self.0.max_key_id {
            objections.push(format!("numbers the keys of a chain from 0 to {}", self.0.max_key_id));
        }
        let is_one_word = key.secret.expose().iter().all(u8::is_ascii_graphic);
        if let (Some(obscured), Notation::Text, false) = (self.0.obscured, key.secret.notation(), is_one_word)
        {
            objections.push(format!(
                "accepts this secret only as {obscured}: plain ones are printable ASCII characters without blanks"
            ));
        }
        objections.extend(self.unequal_lifetimes(key));
        objections
    }

    /// What it refuses in a key that was read from its own configuration, so its number and spelling are right. The session cannot use such
    /// a key.
    #[must_use]
    pub fn refusals_at_home(self, key: &ChainKey) -> Vec<String> {
        let mut refusals = self.refusals(key);
        refusals.extend(self.unequal_lifetimes(key));
        refusals
    }

    fn unequal_lifetimes(self, key: &ChainKey) -> Option<String> {
        let is_refused = self.0.has_one_lifetime && key.send != key.accept;
        is_refused.then(|| "requires equal send-lifetime and accept-lifetime for TCP-AO".to_owned())
    }
}

impl PartialEq for Implementation {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Implementation {}

impl fmt::Debug for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.title)
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.title)
    }
}

/// Reads what [`Implementation::name`] returns.
impl FromStr for Implementation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::all().find(|implementation| implementation.name() == text);
        found.ok_or_else(|| Error::text("unknown implementation of TCP-AO"))
    }
}

/// Everything read from one file, or from one key of a command line.
///
/// The keys may contradict each other; [`check`](super::check()) reports that.
#[derive(Clone, Debug, Default)]
pub struct KeyFile {
    /// The format of the file; `None` if there is no file.
    pub format: Option<Format>,
    /// Its chains, in order.
    pub chains: Vec<Chain>,
    /// The keys that are not for TCP-AO.
    pub skipped: Vec<Skipped>,
    /// The reader's remarks that are about no chain in particular.
    pub remarks: Vec<Remark>,
    /// The end's own addresses, if the text has them, such as those of its interfaces.
    pub addresses: BTreeSet<IpAddr>,
    /// Warnings for people: who else can read the secrets.
    pub warnings: Vec<String>,
}

impl KeyFile {
    /// Converts lifetimes in the router's local time to UTC, for a router whose clock is `seconds` ahead of UTC.
    pub fn set_utc_offset(&mut self, seconds: i32) {
        let universal = |moment: Timestamp| match seconds {
            0.. => moment.earlier_by(seconds.unsigned_abs()),
            _ => moment.later_by(seconds.unsigned_abs()),
        };
        let keys = self.chains.iter_mut().flat_map(|chain| &mut chain.keys);
        for key in keys.filter(|key| key.clock == Clock::Local) {
            for lifetime in [&mut key.send, &mut key.accept] {
                let moved = Lifetime::new(lifetime.from().map(universal), lifetime.until().map(universal));
                *lifetime = moved.unwrap_or(*lifetime);
            }
            key.clock = Clock::Utc;
        }
    }

    /// Makes it the file of the other end: SendIDs and RecvIDs are exchanged, and the neighbors and addresses of this end are removed.
    /// Lifetimes stay: an end that accepts a key for longer than it signs with it allows the other end the same.
    pub fn swap_ends(&mut self) {
        self.addresses.clear();
        for chain in &mut self.chains {
            chain.neighbors.clear();
            chain.keys.iter_mut().for_each(|key| mem::swap(&mut key.send_id, &mut key.recv_id));
        }
    }

    /// The keys to check a capture against, each once for every neighbor of its chain. They may share ids.
    ///
    /// A send lifetime is cut to the accept lifetime if that does not cover it. Lifetimes in local time are extended by
    /// [`Clock::UNCERTAINTY`], before their start and after their end. Keys whose secrets are [encrypted](super::Secret::encryption) are
    /// left out.
    ///
    /// # Errors
    /// [`Error`] for a key that cannot be an MKT: its secret is empty or longer than 80 octets, or its MAC does not have 4 to 16
    /// octets. Also if every key's secret is encrypted.
    pub fn keys(&self) -> Result<Keys, Error> {
        // Allocate for all keys: a list that grew would leave secrets behind.
        let count = self.chains.iter().map(|chain| chain.keys.len() * chain.neighbors.len().max(1)).sum();
        let mut keys = Vec::with_capacity(count);
        let mut encrypted = None;
        for chain in &self.chains {
            for chain_key in &chain.keys {
                let key = match chain_key.key().map_err(|error| chain.locate(error, chain_key)) {
                    Err(error) if chain_key.secret.encryption().is_some() => {
                        encrypted = encrypted.or(Some(error));
                        continue;
                    }
                    key => key?,
                };
                let neighbors = chain.neighbors.iter().map(|neighbor| Some(neighbor.address));
                let anyone = chain.neighbors.is_empty().then_some(None);
                keys.extend(neighbors.chain(anyone).map(|peer| ConfiguredKey {
                    name: chain.name_of(chain_key),
                    key: key.clone(),
                    accept_tolerance: chain.accept_tolerance,
                    peer,
                }));
            }
        }
        match encrypted {
            Some(error) if keys.is_empty() => Err(error),
            _ => Ok(Keys { keys }),
        }
    }

    /// The chains for this end to sign and verify with; `end` is the one that the file belongs to. The key that the file prefers is
    /// [preferred](crate::KeyChain::with_preferred); of BIRD's keys, the deprecated ones come last.
    ///
    /// A chain cannot be used if a key cannot be an MKT or its lifetimes contradict each other, if its keys collide, or if another chain
    /// has its name, as when neighbors of a Cisco router use one chain both with and without TCP options. Such chains are left out:
    /// [`KeyChains::unusable`] says why.
    ///
    /// # Errors
    /// The first chain's [`Error`] if there are chains and none can be used.
    pub fn key_chains(&self, end: End) -> Result<KeyChains, Error> {
        let made = |chain: &Chain| {
            let mut ranked: Vec<_> = chain.keys.iter().collect();
            ranked.sort_by_key(|key| key.preference);
            // Allocate for all keys: a list that grew would leave secrets behind.
            let mut keys = Vec::with_capacity(ranked.len());
            for chain_key in &ranked {
                let key = chain_key.key_of(end).and_then(|key| {
                    if chain_key.depends_on_local_time() {
                        let reason = "is in the router's local time, whose offset the file does not tell: write it in UTC";
                        return Err(Error::text(reason).field("lifetime"));
                    }
                    let key = key.with_lifetimes(chain_key.send, chain_key.accept);
                    key.map_err(|error| error.field("accept lifetime"))
                });
                keys.push(key.map_err(|error| chain.locate(error, chain_key))?);
            }
            chain.key_chain(chain.name.clone(), keys).map_err(|fault| {
                let position = fault.key.and_then(|index| ranked[index].position);
                Error::from(fault).at(position)
            })
        };
        let twice = match self.format {
            // The reader makes two chains of one.
            Some(Format::IosXr | Format::IosXe | Format::NxOs) => Problem::Text(
                "neighbors use this chain both with and without TCP options: give each its own chain".into(),
            ),
            Some(Format::Eos) => Problem::Text(
                "neighbors use this profile with two algorithms: give each its own profile".into(),
            ),
            _ => Problem::ChainTwice,
        };
        let mut with_name = BTreeMap::<_, usize>::new();
        for chain in &self.chains {
            *with_name.entry(&chain.name).or_default() += 1;
        }
        let mut read = KeyChains { chains: Vec::with_capacity(self.chains.len()), unusable: Vec::new() };
        for chain in &self.chains {
            let made = match with_name.get_mut(&chain.name) {
                Some(1) => made(chain),
                // Reported at the first, and the others are left out too.
                Some(more @ 2..) => {
                    *more = 0;
                    Err(Error::from(twice.clone()).field("name").in_chain(&chain.name))
                }
                _ => continue,
            };
            match made {
                Ok(chain) => read.chains.push(chain),
                Err(error) => read.unusable.push((chain.name.clone(), error)),
            }
        }
        match read.unusable.first() {
            Some((_, error)) if read.chains.is_empty() => Err(error.clone()),
            _ => Ok(read),
        }
    }
}
