//! Master key tuples: what both ends must agree on beforehand (RFC 5925 §3.1), and which connections they are for.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};

use cidr::IpCidr;
use subtle::ConstantTimeEq;
use wireseal_algorithms::TcpAoAlgorithm;
use zeroize::ZeroizeOnDrop;

use crate::built_in::feature;
use crate::types::{Endpoint, KeyId, SocketPair, canonical_network};

/// Octets of the longest master key; also Linux's limit (`TCP_AO_MAXKEYLEN`).
pub const MAX_MASTER_KEY_LENGTH: usize = 80;

/// How many MKTs a [`Peer`] and a connection of the [`Shim`](crate::shim::Shim) have room for: the one in use, its
/// successor, and two more while lifetimes overlap.
pub const MKTS_PER_PEER: usize = 4;

/// Why an MKT cannot be used, or a connection's keys could not be changed. Configuration or caller error; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum MktError {
    /// The master key is empty.
    #[error("master key is empty")]
    MasterKeyEmpty,
    /// The master key has more than [`MAX_MASTER_KEY_LENGTH`] octets.
    #[error("master key has {length} octets, at most {MAX_MASTER_KEY_LENGTH} are possible")]
    MasterKeyTooLong {
        /// Octets of the master key.
        length: usize,
    },
    /// The master key is shorter than the algorithm's specification requires.
    #[error(
        "master key has {length} octets, {algorithm} requires {} or more",
        .algorithm.min_master_key_length()
    )]
    MasterKeyTooShort {
        /// The algorithm.
        algorithm: TcpAoAlgorithm,
        /// Octets of the master key.
        length: usize,
    },
    /// The MAC length is not 4 to 16 octets; a longer MAC does not fit a Linux peer's SYN.
    #[error(
        "MAC length is {length} octets, it must be between {} and {}",
        TcpAoAlgorithm::MIN_MAC_LENGTH,
        TcpAoAlgorithm::MAX_MAC_LENGTH
    )]
    MacLength {
        /// The requested length, in octets.
        length: usize,
    },
    /// Another MKT for the same connections has this SendID (RFC 5925 §3.1).
    #[error("SendID {0} is in use by another key for the same connections")]
    SendIdInUse(KeyId),
    /// Another MKT for the same connections has this RecvID (RFC 5925 §3.1).
    #[error("RecvID {0} is in use by another key for the same connections")]
    RecvIdInUse(KeyId),
    /// There is no room for another MKT.
    #[error("there is room for only {capacity} keys")]
    TooMany {
        /// How many MKTs there is room for.
        capacity: usize,
    },
    /// The code of the algorithm was left out; see [Features](crate#features).
    #[error("{algorithm} is not built in: it needs the feature {} of wireseal-tcp-ao", feature(.algorithm.mac()).0)]
    NotBuiltIn {
        /// The algorithm.
        algorithm: TcpAoAlgorithm,
    },
    /// A connection needs a key to sign with, and there is none.
    #[error("there is no key for the connection")]
    NoKey,
    /// The connection has no MKT with this SendID.
    #[error("the connection has no key with SendID {0}")]
    UnknownSendId(KeyId),
    /// The connection has no MKT with this RecvID.
    #[error("the connection has no key with RecvID {0}")]
    UnknownRecvId(KeyId),
    /// The MKT is the current or the rnext key and no replacement was named.
    #[error("the key with SendID {0} is in use and no replacement was named")]
    InUse(KeyId),
    /// The MKT is the connection's last.
    #[error("the key with SendID {0} is the connection's last")]
    Last(KeyId),
}

/// A master key: 1 to 80 octets, wiped on drop, never shown by `Debug`.
#[derive(ZeroizeOnDrop)]
pub struct MasterKey {
    octets: [u8; MAX_MASTER_KEY_LENGTH],
    length: u8,
}

/// `clone_from` overwrites the key in place and leaves no copy behind.
impl Clone for MasterKey {
    fn clone(&self) -> Self {
        let mut copy = Self::BLANK;
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        self.octets.copy_from_slice(&source.octets);
        self.length = source.length;
    }
}

impl MasterKey {
    /// An empty place for a key.
    pub(crate) const BLANK: Self = Self { octets: [0; MAX_MASTER_KEY_LENGTH], length: 0 };

    /// Copies the octets; wiping the original is up to the caller.
    ///
    /// # Errors
    /// [`MktError::MasterKeyEmpty`] and [`MktError::MasterKeyTooLong`].
    pub fn new(secret: &[u8]) -> Result<Self, MktError> {
        let mut octets = [0; MAX_MASTER_KEY_LENGTH];
        let Some(start) = octets.get_mut(..secret.len()) else {
            return Err(MktError::MasterKeyTooLong { length: secret.len() });
        };
        if secret.is_empty() {
            return Err(MktError::MasterKeyEmpty);
        }
        start.copy_from_slice(secret);
        Ok(Self { octets, length: secret.len() as u8 })
    }

    /// The octets themselves, to derive keys and to write key chains.
    #[must_use]
    pub fn expose_secret(&self) -> &[u8] {
        // `new` refuses a greater length.
        self.octets.get(..self.len()).unwrap_or(&self.octets)
    }

    /// Octets of the key: 1 to 80.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a master key is never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.length)
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({} octets)", self.length)
    }
}

/// Whether the MAC covers the other TCP options (RFC 5925 §3.1, the MKT's TCP option flag).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum OptionCoverage {
    /// All options, as they are in the header. RFC 5925's default.
    #[default]
    Covered,
    /// Only the AO option, for paths with a middlebox that rewrites options.
    Excluded,
}

/// Everything in an MKT but the secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
pub struct MktParameters {
    /// The KeyID in what this end sends under the key.
    pub send_id: KeyId,
    /// The KeyID in what this end accepts under the key.
    pub recv_id: KeyId,
    /// KDF and MAC.
    pub algorithm: TcpAoAlgorithm,
    #[cfg_attr(feature = "serde", serde(deserialize_with = "mac_length"))]
    mac_length: u8,
    /// Whether the MAC covers the other options.
    pub options: OptionCoverage,
    /// Whether this end signs with the key only if the peer asks for it, or until the peer has moved on to another
    /// ([`Connection::replace_keys`](crate::Connection::replace_keys)), as outside the key's send lifetime (RFC 8177 §2.2). Received segments
    /// are accepted under it either way.
    pub accept_only: bool,
}

fn checked_mac_length(length: usize) -> Result<u8, MktError> {
    if !(TcpAoAlgorithm::MIN_MAC_LENGTH..=TcpAoAlgorithm::MAX_MAC_LENGTH).contains(&length) {
        return Err(MktError::MacLength { length });
    }
    Ok(length as u8)
}

#[cfg(feature = "serde")]
fn mac_length<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    let length = serde::Deserialize::deserialize(deserializer)?;
    checked_mac_length(length).map_err(serde::de::Error::custom)
}

impl MktParameters {
    /// Refuses another MKT for the same connections that shares an id with this one (RFC 5925 §3.1).
    pub(crate) fn check_ids(&self, other: &Self) -> Result<(), MktError> {
        if self.send_id == other.send_id {
            return Err(MktError::SendIdInUse(self.send_id));
        }
        if self.recv_id == other.recv_id {
            return Err(MktError::RecvIdInUse(self.recv_id));
        }
        Ok(())
    }

    /// Whether both belong to the same MKT, accept-only or not.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        *self == Self { accept_only: self.accept_only, ..*other }
    }

    /// Octets of the MAC in the option: 4 to 16.
    #[inline]
    #[must_use]
    pub const fn mac_length(&self) -> usize {
        self.mac_length as usize
    }
}

/// A master key tuple (RFC 5925 §3.1) without its connection identifier, which is part of a [`Peer`](crate::Peer) or known to
/// the stack that holds the connection.
///
/// ```
/// use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, TcpAoAlgorithm};
///
/// let master_key = MasterKey::new(b"first-secret")?;
/// let mkt = Mkt::new(KeyId(100), KeyId(100), TcpAoAlgorithm::Aes128Cmac, master_key)?.with_mac_length(16)?;
/// assert_eq!(mkt.parameters().mac_length(), 16);
/// # Ok::<(), wireseal_tcp_ao::MktError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mkt {
    parameters: MktParameters,
    master_key: MasterKey,
}

impl Mkt {
    /// An empty place for an MKT.
    const BLANK: Self = Self {
        parameters: MktParameters {
            send_id: KeyId(0),
            recv_id: KeyId(0),
            algorithm: TcpAoAlgorithm::HmacSha1,
            mac_length: 0,
            options: OptionCoverage::Covered,
            accept_only: true,
        },
        master_key: MasterKey::BLANK,
    };

    /// An MKT with the algorithm's default MAC length and options covered.
    ///
    /// # Errors
    /// [`MktError::MasterKeyTooShort`] if the algorithm requires a longer master key: the two of
    /// draft-ietf-tcpm-tcp-ao-algs require 32 octets. See [`Mkt::with_short_master_key`].
    /// [`MktError::NotBuiltIn`] if the algorithm was left out.
    pub fn new(
        send_id: KeyId,
        recv_id: KeyId,
        algorithm: TcpAoAlgorithm,
        master_key: MasterKey,
    ) -> Result<Self, MktError> {
        let mkt = Self::with_short_master_key(send_id, recv_id, algorithm, master_key)?;
        let length = mkt.master_key.len();
        if length < algorithm.min_master_key_length() {
            return Err(MktError::MasterKeyTooShort { algorithm, length });
        }
        Ok(mkt)
    }

    /// [`new`](Self::new) with a master key of any length, for a peer that cannot take a longer one.
    ///
    /// # Errors
    /// [`MktError::NotBuiltIn`] if the algorithm was left out.
    pub fn with_short_master_key(
        send_id: KeyId,
        recv_id: KeyId,
        algorithm: TcpAoAlgorithm,
        master_key: MasterKey,
    ) -> Result<Self, MktError> {
        // The only such check: every MKT has a built-in algorithm.
        if !feature(algorithm.mac()).1 {
            return Err(MktError::NotBuiltIn { algorithm });
        }
        let mac_length = algorithm.default_mac_length() as u8;
        let options = OptionCoverage::Covered;
        let parameters =
            MktParameters { send_id, recv_id, algorithm, mac_length, options, accept_only: false };
        Ok(Self { parameters, master_key })
    }

    /// The same MKT with a MAC of `length` octets in the option.
    ///
    /// # Errors
    /// [`MktError::MacLength`] unless it is 4 to 16.
    pub fn with_mac_length(mut self, length: usize) -> Result<Self, MktError> {
        self.parameters.mac_length = checked_mac_length(length)?;
        Ok(self)
    }

    /// The same MKT with other TCP options covered or excluded.
    #[must_use]
    pub const fn with_options(mut self, options: OptionCoverage) -> Self {
        self.parameters.options = options;
        self
    }

    /// Whether it is the same MKT. Secrets are compared in constant time.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let secrets = [self, other].map(|mkt| mkt.master_key.expose_secret());
        self.parameters == other.parameters && secrets[0].ct_eq(secrets[1]).into()
    }

    /// The same MKT, accept-only; see [`MktParameters::accept_only`].
    #[must_use]
    pub const fn accept_only(mut self) -> Self {
        self.parameters.accept_only = true;
        self
    }

    /// Everything but the secret.
    #[inline]
    #[must_use]
    pub const fn parameters(&self) -> &MktParameters {
        &self.parameters
    }

    /// The SendID.
    #[must_use]
    pub const fn send_id(&self) -> KeyId {
        self.parameters.send_id
    }

    /// The RecvID.
    #[must_use]
    pub const fn recv_id(&self) -> KeyId {
        self.parameters.recv_id
    }

    /// The secret.
    #[must_use]
    pub const fn master_key(&self) -> &MasterKey {
        &self.master_key
    }
}

/// The MKTs for one peer, at most `N`, the preferred one first. No two share a SendID or a RecvID.
// Empty places are blank MKTs, not `None`: a `None` keeps the octets that were in memory before, perhaps another set's secrets.
#[derive(Clone)]
pub struct MktSet<const N: usize> {
    mkts: [Mkt; N],
    length: usize,
}

impl<const N: usize> fmt::Debug for MktSet<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<const N: usize> Default for MktSet<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> MktSet<N> {
    /// An empty set: its peer is protected, and nothing gets through.
    #[must_use]
    pub const fn new() -> Self {
        Self { mkts: [const { Mkt::BLANK }; N], length: 0 }
    }

    /// A set of these MKTs, the first one preferred for sending.
    ///
    /// # Errors
    /// Those of [`MktSet::push`].
    pub fn from_mkts(mkts: impl IntoIterator<Item = Mkt>) -> Result<Self, MktError> {
        let mut set = Self::new();
        mkts.into_iter().try_for_each(|mkt| set.push(mkt))?;
        Ok(set)
    }

    /// Adds an MKT behind the others.
    ///
    /// # Errors
    /// [`MktError::SendIdInUse`], [`MktError::RecvIdInUse`] and [`MktError::TooMany`]; the set is unchanged.
    pub fn push(&mut self, mkt: Mkt) -> Result<(), MktError> {
        self.check_ids(mkt.parameters())?;
        *self.mkts.get_mut(self.length).ok_or(MktError::TooMany { capacity: N })? = mkt;
        self.length += 1;
        Ok(())
    }

    /// Checks that an MKT with these ids could join the set.
    pub(crate) fn check_ids(&self, parameters: &MktParameters) -> Result<(), MktError> {
        self.iter().try_for_each(|other| other.parameters.check_ids(parameters))
    }

    /// The MKTs, the preferred one first.
    pub fn iter(&self) -> impl Iterator<Item = &Mkt> + Clone {
        self.mkts.iter().take(self.length)
    }

    /// The MKT to send with unless the peer asks for another: the first that is not accept-only.
    #[must_use]
    pub fn preferred(&self) -> Option<&Mkt> {
        self.iter().find(|mkt| !mkt.parameters.accept_only)
    }

    /// The MKT that a received segment's KeyID names.
    #[must_use]
    pub fn by_recv_id(&self, id: KeyId) -> Option<&Mkt> {
        self.iter().find(|mkt| mkt.recv_id() == id)
    }

    /// The MKT that a received segment's RNextKeyID asks for.
    #[must_use]
    pub fn by_send_id(&self, id: KeyId) -> Option<&Mkt> {
        self.iter().find(|mkt| mkt.send_id() == id)
    }
}

/// Which TCP connections an MKT is for (RFC 5925 §3.1, the TCP connection identifier).
///
/// A prefix of IPv4-mapped IPv6 addresses means the IPv4 prefix, since IPv4 is what is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
pub struct ConnectionIdentifier {
    /// This end's addresses.
    pub local: IpCidr,
    /// The other end's addresses.
    pub remote: IpCidr,
    /// This end's port; any if `None`.
    pub local_port: Option<u16>,
    /// The other end's port; any if `None`.
    pub remote_port: Option<u16>,
}

impl ConnectionIdentifier {
    /// Connections between these addresses on any port: either side may open a BGP session.
    #[must_use]
    pub const fn between(local: IpCidr, remote: IpCidr) -> Self {
        Self { local, remote, local_port: None, remote_port: None }
    }

    /// Whether this covers a connection.
    #[must_use]
    pub fn contains(&self, pair: &SocketPair) -> bool {
        let port = |wanted: Option<u16>, end: Endpoint| wanted.is_none_or(|port| port == end.port());
        self.contains_addresses(pair)
            && port(self.local_port, pair.local)
            && port(self.remote_port, pair.remote)
    }

    /// Whether this covers any connection between these addresses. A fragment does not show the ports.
    pub(crate) fn contains_addresses(&self, pair: &SocketPair) -> bool {
        contains(self.local, pair.local.address()) && contains(self.remote, pair.remote.address())
    }

    /// Whether this covers any connection at all: both networks have IPv4 addresses, or both have IPv6 addresses. A network around
    /// `::ffff:0:0/96`, such as `::/0`, has both.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        let (local, remote) = (canonical_network(self.local), canonical_network(self.remote));
        let has_ipv4 = |network| contains(network, Ipv4Addr::UNSPECIFIED.into());
        let ipv4 = |network: IpCidr| network.is_ipv4() || has_ipv4(network);
        (local.is_ipv6() && remote.is_ipv6()) || (ipv4(local) && ipv4(remote))
    }

    /// Whether there is a connection that both cover.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let nets = |a: &IpCidr, b: &IpCidr| {
            let (a, b) = (canonical_network(*a), canonical_network(*b));
            contains(a, b.first_address()) || contains(b, a.first_address())
        };
        let ports = |a: Option<u16>, b: Option<u16>| a.is_none() || b.is_none() || a == b;
        nets(&self.local, &other.local)
            && nets(&self.remote, &other.remote)
            && ports(self.local_port, other.local_port)
            && ports(self.remote_port, other.remote_port)
    }
}

/// Whether an address, or the IPv6 address that it maps to, is in a prefix: `::/0` contains every address.
fn contains(network: IpCidr, address: IpAddr) -> bool {
    let is_mapped = |address: Ipv4Addr| network.contains(&address.to_ipv6_mapped().into());
    canonical_network(network).contains(&address)
        || matches!(address, IpAddr::V4(address) if is_mapped(address))
}

/// Connections that must be authenticated, and their keys. Without keys, nothing gets through.
///
/// A connection that several peers cover belongs to the one with the longest remote prefix, then the longest local one, then the most
/// ports. Of equally specific ones, a received SYN's KeyID decides (RFC 5925 §3.3).
///
/// RFC 5925 §3.1 forbids MKTs to share an id where their connection identifiers overlap: a connection and a KeyID name one MKT. Equally
/// specific peers that cover the same connection may therefore not share ids. A host and a network around it may: the host's connections
/// belong only to the host's peer.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The connections.
    pub connections: ConnectionIdentifier,
    /// The keys, the preferred one first.
    pub mkts: MktSet<MKTS_PER_PEER>,
}

/// Why peers or their keys were refused. Configuration or caller error; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PeerError {
    /// Two peers cover the same connection, neither is more specific, and they share a key id.
    #[error("peers {peer} and {other} cover the same connections: {error}")]
    Overlap {
        /// The index of one peer.
        peer: usize,
        /// The index of the other.
        other: usize,
        /// The shared id.
        error: MktError,
    },
    /// There is no peer with this index.
    #[error("there is no peer {0}")]
    NoSuchPeer(usize),
    /// Every slot has a peer.
    #[error("there is no room for more than {room} peers")]
    TooMany {
        /// How many slots there are.
        room: usize,
    },
    /// The peer's networks have no version of IP in common: it would protect nothing.
    #[error(
        "peer {0}: no connection is between its local and its remote network: one has only IPv4 addresses, the other only IPv6"
    )]
    NoConnection(usize),
}
