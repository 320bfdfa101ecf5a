//! The chains of a file of any format, consistent or not.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, MktError, OptionCoverage};
use zeroize::Zeroizing;

use crate::error::Fault;
use crate::{Error, Key, KeyChain, Lifetime, Position, Problem, Timestamp};

/// The content of a text.
#[derive(Default)]
pub(super) struct Content {
    pub(super) chains: Vec<Chain>,
    pub(super) skipped: Vec<Skipped>,
    /// Remarks that are about no chain in particular.
    pub(super) remarks: Vec<Remark>,
}

impl Content {
    /// Keeps the remarks of a chain that has no keys left.
    pub(super) fn keep_remarks(&mut self, chain: &str, remarks: impl IntoIterator<Item = Remark>) {
        self.remarks.extend(remarks.into_iter().map(|remark| match remark.key_id {
            Some(key_id) => Remark { key_id: None, ..remark }.about(format_args!("key {chain}/{key_id}")),
            None => remark.about(format_args!("chain {chain:?}:")),
        }));
    }
}

/// Keys that are not for TCP-AO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// Where they begin in the text.
    pub position: Position,
    /// What they are.
    pub what: &'static str,
}

/// How serious something is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Weight {
    /// It will not work or is not safe.
    Warning,
    /// It would not work with another implementation, or is worth knowing.
    Note,
}

impl Weight {
    /// Its name in reports: `warning` or `note`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A remark of a format's reader, such as a line that it does not understand, a setting that the router refuses, or one that lets a peer in
/// without TCP-AO.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// How serious it is.
    pub weight: Weight,
    /// Its kind, as `keys check --json` spells it:
    ///
    /// | kind | meaning |
    /// |---|---|
    /// | `not-understood` | a line is not understood, and ignored |
    /// | `missing` | something that is used here is not in the file, or is empty |
    /// | `not-followed` | an included file, or a value that the router computes, is not read |
    /// | `refused` | the router itself refuses it |
    /// | `left-out` | a key is left out: its algorithm's KDF is not documented, or it cannot be a TCP-AO key |
    /// | `not-in-use` | a key or a keychain is disabled, and left out |
    /// | `accepts-mismatch` | connections without TCP-AO are accepted |
    /// | `older-option` | something uses the vendor's older TCP option, not TCP-AO |
    /// | `assumed` | the file leaves it open, or has a value that no key of this library can have; the sentence says what is assumed |
    /// | `local-time` | lifetimes are in the router's local time |
    /// | `disputed` | guides and routers disagree about it |
    /// | `pairing` | it is not certain which two entries form one key |
    /// | `ranks` | the neighbors of a chain start with different keys |
    pub kind: &'static str,
    /// The number of the key it is about; `None` for its whole chain or file.
    pub key_id: Option<u64>,
    /// Where it is in the text.
    pub position: Option<Position>,
    /// The remark in words that follow the name of the key or the chain.
    pub sentence: Cow<'static, str>,
    /// Whether a conversion loses it: a setting that no other format has, or a key that is left out.
    pub is_lost: bool,
}

impl Remark {
    /// A warning about a chain or a file.
    pub(super) fn warning(
        kind: &'static str,
        position: Option<Position>,
        sentence: impl Into<Cow<'static, str>>,
    ) -> Self {
        let sentence = sentence.into();
        Self { weight: Weight::Warning, kind, key_id: None, position, sentence, is_lost: false }
    }

    /// Makes it a note.
    pub(super) fn into_note(self) -> Self {
        Self { weight: Weight::Note, ..self }
    }

    /// Makes it about one key of the chain.
    pub(super) fn of_key(self, key_id: u64) -> Self {
        Self { key_id: Some(key_id), ..self }
    }

    /// Makes it about something that has no name in reports: the sentence begins with `subject`.
    pub(super) fn about(self, subject: impl fmt::Display) -> Self {
        Self { sentence: format!("{subject} {}", self.sentence).into(), ..self }
    }

    /// Marks it as about a setting that a conversion loses.
    pub(super) fn lost(self) -> Self {
        Self { is_lost: true, ..self }
    }

    /// A line of the text that may concern TCP-AO and is not understood.
    pub(super) fn not_understood(position: Position) -> Self {
        Self::warning("not-understood", Some(position), "this line is not understood, and ignored")
    }

    /// Something that is used here and is nowhere in the file.
    pub(super) fn missing(position: Position, what: impl fmt::Display) -> Self {
        Self::warning("missing", Some(position), format!("{what} is not in the file"))
    }

    /// A key that is left out, which a conversion loses.
    pub(super) fn left_out(position: Position, why: impl fmt::Display) -> Self {
        Self::warning("left-out", Some(position), format!("is left out: {why}")).lost()
    }

    /// A key that is left out because only the vendor knows how its algorithm derives traffic keys.
    pub(super) fn unknown_kdf(position: Position, algorithm: &str, vendor: &str) -> Self {
        Self::left_out(
            position,
            format_args!("its algorithm is {algorithm}, whose KDF {vendor} does not document"),
        )
    }

    /// Neighbors with which a setting makes the router use the option from before TCP-AO (kind 253 or 254).
    pub(super) fn older_option(position: Option<Position>, who: impl fmt::Display, setting: &str) -> Self {
        let sentence = format!("not TCP-AO but the older TCP option is used with {who} ({setting})");
        Self::warning("older-option", position, sentence)
    }

    /// A setting that lets in connections without TCP-AO, which a conversion loses.
    pub(super) fn accepts_mismatch(
        position: Option<Position>,
        from: impl fmt::Display,
        setting: &str,
    ) -> Self {
        let sentence = format!("accepts connections without TCP-AO from {from} ({setting})");
        Self::warning("accepts-mismatch", position, sentence).lost()
    }
}

/// A list of keys for some neighbors.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chain {
    /// Its name (for BIRD, the protocol's); empty if the text has none.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// By how many seconds every accept lifetime is extended, before its start and after its end.
    pub accept_tolerance: u32,
    /// The neighbors that use it; empty if the text does not say.
    pub neighbors: Vec<Neighbor>,
    /// Its keys, in order.
    pub keys: Vec<ChainKey>,
    /// The reader's remarks about it.
    pub remarks: Vec<Remark>,
}

/// A neighbor, as the router with the configuration names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Neighbor {
    /// The routing table of its sessions (VRF, routing instance, VPN); `None` for the router's main one.
    pub vrf: Option<String>,
    /// Its address, or the network of its address.
    pub address: IpCidr,
    /// The interface of a link-local address.
    pub interface: Option<String>,
}

/// Names the first of some neighbors, and how many more there are; a group may have none in the file.
pub(super) fn several<'n>(mut neighbors: impl Iterator<Item = &'n Neighbor>) -> String {
    let Some(first) = neighbors.next() else { return "a group of neighbors".to_owned() };
    match neighbors.count() {
        0 => first.to_string(),
        more => format!("{first} and {more} more"),
    }
}

/// The addresses that a neighbor may have if only its interface is known.
pub(super) const LINK_LOCAL: &str = "fe80::/10";

/// Whether the addresses are link-local, so that they need an interface.
pub(super) fn is_link_local(address: &IpCidr) -> bool {
    matches!(address.first_address(), IpAddr::V6(address) if address.is_unicast_link_local())
}

/// `10.0.0.1`, `fe80::1%eth0`, `10.0.0.1 vrf red`.
impl fmt::Display for Neighbor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if let Some(interface) = &self.interface {
            write!(f, "%{interface}")?;
        }
        match &self.vrf {
            Some(vrf) => write!(f, " vrf {vrf}"),
            None => Ok(()),
        }
    }
}

impl From<IpCidr> for Neighbor {
    fn from(address: IpCidr) -> Self {
        Self { vrf: None, address, interface: None }
    }
}

/// A key of a chain.
#[derive(Clone, PartialEq, Debug)]
pub struct ChainKey {
    /// Where it begins in the text, if that is known.
    pub position: Option<Position>,
    /// Its number in the chain.
    pub key_id: u64,
    /// The KeyID in segments that the configured end sends.
    pub send_id: KeyId,
    /// The KeyID in segments that the configured end accepts.
    pub recv_id: KeyId,
    /// KDF and MAC.
    pub algorithm: TcpAoAlgorithm,
    /// The length of the MAC in octets, possibly an impossible one.
    pub mac_length: usize,
    /// Whether the MAC covers the other TCP options.
    pub options: OptionCoverage,
    /// The secret, of any length.
    pub secret: Secret,
    /// When the configured end may send with it.
    pub send: Lifetime,
    /// When the peer may send with it, before the chain's tolerance.
    pub accept: Lifetime,
    /// The clock that its lifetimes are in.
    pub clock: Clock,
    /// Its rank for sending, if the format has one.
    pub preference: Preference,
}

/// The clock that a router compares lifetimes with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Clock {
    /// UTC.
    #[default]
    Utc,
    /// The router's local time, whose offset the text does not give: moments are as written, and up to [`Clock::UNCERTAINTY`] seconds off.
    Local,
}

impl Clock {
    /// The most that a local time can differ from UTC, in seconds: 14 hours, in Kiribati.
    pub const UNCERTAINTY: u32 = 14 * 3600;

    /// A moment as this clock shows it.
    pub(crate) fn shown(self, moment: Timestamp) -> String {
        match self {
            Self::Utc => moment.to_string(),
            Self::Local => moment.to_string().replace('Z', " local time"),
        }
    }
}

/// The rank of a key, in BIRD, in GoBGP, and in key chains in TOML, which have [at most one preferred key](KeyChain::with_preferred).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Preference {
    /// Used for sending, and requested from the peer.
    Preferred,
    /// Neither preferred nor deprecated.
    #[default]
    Ordinary,
    /// Accepted, and used for sending only if there is no other.
    Deprecated,
}

/// How a secret is written in its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notation {
    /// As plain text.
    Text,
    /// In hexadecimal digits.
    Hexadecimal,
    /// In Junos's `$9$`, which scrambles but does not encrypt.
    JunosNine,
    /// In Cisco's type 7, which scrambles but does not encrypt.
    CiscoSeven,
    /// In Base64.
    Base64,
    /// Encrypted in this way, such as `type 6`, with a key that is not in the text. The secret is not known.
    Encrypted(&'static str),
    /// Not in the text, but in a file, the environment or the kernel's keyring.
    Elsewhere,
}

/// The octets of a secret, wiped on drop and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    octets: Zeroizing<Vec<u8>>,
    notation: Notation,
}

impl Secret {
    /// A secret of these octets.
    #[must_use]
    pub const fn new(octets: Zeroizing<Vec<u8>>, notation: Notation) -> Self {
        Self { octets, notation }
    }

    /// A secret written as plain text.
    pub(super) fn text(text: &str) -> Self {
        Self::new(Zeroizing::new(text.as_bytes().to_vec()), Notation::Text)
    }

    /// A secret that only the router can decrypt; `how` is the notation, such as `type 6`.
    pub(super) fn encrypted(how: &'static str) -> Self {
        Self::new(Zeroizing::default(), Notation::Encrypted(how))
    }

    /// How it is encrypted, if only the router can decrypt it.
    #[must_use]
    pub const fn encryption(&self) -> Option<&'static str> {
        match self.notation {
            Notation::Encrypted(how) => Some(how),
            _ => None,
        }
    }

    /// The octets, for the MKT and for writing a key file; none if it is [encrypted](Self::encryption).
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.octets
    }

    /// How it was written.
    #[must_use]
    pub const fn notation(&self) -> Notation {
        self.notation
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.notation {
            Notation::Encrypted(how) => write!(f, "Secret({how})"),
            notation => write!(f, "Secret({} octets, {notation:?})", self.octets.len()),
        }
    }
}

/// The end that a file belongs to. That end sends with the SendIDs in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// This end.
    #[default]
    ThisEnd,
    /// The peer: this end sends with the RecvIDs in the file.
    Peer,
}

/// A key as configured at one end of its connections.
#[derive(Clone, Debug)]
pub struct ConfiguredKey {
    /// Its name in reports, such as `core/100`: the chain's name, if there is one, and the key's id in it.
    pub name: String,
    /// The MKT as that end has it (it sends the SendID), with its lifetimes.
    pub key: Key,
    /// By how many seconds the accept lifetime is extended, before its start and after its end.
    pub accept_tolerance: u32,
    /// The peers that the key is for; `None` for all, and then it is not known which end of a connection has it.
    pub peer: Option<IpCidr>,
}

/// The keys that a capture is checked against, in the order given.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// The keys.
    pub keys: Vec<ConfiguredKey>,
}

impl Chain {
    /// A chain of these keys, with this name.
    pub(super) fn key_chain(&self, name: String, keys: Vec<Key>) -> Result<KeyChain, Fault> {
        let preferred = self.preferred().map(|key| key.key_id);
        let preferred = preferred.filter(|key_id| keys.iter().any(|key| key.key_id() == *key_id));
        KeyChain::unchecked(name, self.description.clone(), self.accept_tolerance, preferred, keys).checked()
    }

    /// The key to send with while its send lifetime lasts: the first preferred one.
    pub(crate) fn preferred(&self) -> Option<&ChainKey> {
        self.keys.iter().find(|key| key.preference == Preference::Preferred)
    }

    pub(super) fn locate(&self, error: Error, key: &ChainKey) -> Error {
        let error = if self.name.is_empty() { error } else { error.in_chain(&self.name) };
        error.in_key(key.key_id).at(key.position)
    }

    /// The name of one of its keys in reports.
    #[must_use]
    pub fn name_of(&self, key: &ChainKey) -> String {
        if self.name.is_empty() { key.key_id.to_string() } else { format!("{}/{}", self.name, key.key_id) }
    }

    /// Whether one of its keys has this number.
    pub(super) fn has_number(&self, key_id: u64) -> bool {
        self.keys.iter().any(|key| key.key_id == key_id)
    }

    /// When segments under one of its keys are accepted: the accept lifetime with tolerance.
    #[must_use]
    pub fn acceptance(&self, key: &ChainKey) -> Lifetime {
        key.accept.widened_by(self.accept_tolerance)
    }
}

impl ChainKey {
    /// Whether it has moments in a local time whose offset is not known.
    #[must_use]
    pub fn depends_on_local_time(&self) -> bool {
        self.clock == Clock::Local
            && [self.send, self.accept].iter().any(|lifetime| *lifetime != Lifetime::ALWAYS)
    }

    /// Whether it is the same key, even if written differently.
    #[must_use]
    pub fn is_same_key(&self, other: &Self) -> bool {
        let rest = |key: &Self| {
            let ids = (key.key_id, key.send_id, key.recv_id);
            let lifetimes = (key.send, key.accept, key.depends_on_local_time());
            (ids, key.algorithm, key.mac_length, key.options, lifetimes, key.preference)
        };
        let is_readable = self.secret.encryption().is_none() && other.secret.encryption().is_none();
        rest(self) == rest(other) && is_readable && self.secret.expose() == other.secret.expose()
    }

    /// The key as an MKT with lifetimes: the send lifetime is cut to the accept lifetime, and lifetimes in local time are extended by their
    /// uncertainty. The error names the field that is wrong.
    pub(super) fn key(&self) -> Result<Key, Error> {
        self.key_of(End::ThisEnd)
    }

    /// The same key as this end uses it; `end` is the one that the file belongs to.
    pub(super) fn key_of(&self, end: End) -> Result<Key, Error> {
        let (send_id, recv_id) = match end {
            End::ThisEnd => (self.send_id, self.recv_id),
            End::Peer => (self.recv_id, self.send_id),
        };
        if let Some(how) = self.secret.encryption() {
            let reason =
                format!("is encrypted ({how}), and only the router can decrypt it: write it in plain text");
            return Err(Error::text(reason).field("secret"));
        }
        let in_field = |field| move |error: MktError| Error::from(Problem::Mkt(error)).field(field);
        let master_key = MasterKey::new(self.secret.expose()).map_err(in_field("secret"))?;
        let mkt = Mkt::with_short_master_key(send_id, recv_id, self.algorithm, master_key)
            .map_err(in_field("algorithm"))?
            .with_mac_length(self.mac_length)
            .map_err(in_field("MAC length"))?
            .with_options(self.options);
        let [send, accept] = [self.send, self.accept].map(|lifetime| match self.clock {
            Clock::Utc => lifetime,
            Clock::Local => lifetime.widened_by(Clock::UNCERTAINTY),
        });
        let send = send.common(&accept).unwrap_or(accept);
        Key::new(self.key_id, mkt)
            .with_lifetimes(send, accept)
            .map_err(|error| error.field("accept lifetime"))
    }
}
