//! TCP-AO under a TCP stack that has none: IP packets in, IP packets out, no I/O.
//!
//! Pass every packet that the stack sends to [`Shim::outbound`], and every packet for it to [`Shim::inbound`]. Connections with a
//! configured [`Peer`] are signed and verified; everything else passes unchanged.
//!
//! Tell the stack an MTU that is smaller by [`OPTION_ROOM`], so that the option always fits. The shim adds the difference to the
//! MSS that the stack advertises, so that the peer sees the link's own MSS (RFC 9293 §3.7.1), and takes it off the MSS that the
//! peer advertises. SACK blocks that do not fit next to the option are dropped, oldest first (RFC 2018 §3).

mod entry;
mod handshakes;
mod inbound;
mod options;
mod outbound;
mod peers;
mod table;

use core::fmt;
use core::time::Duration;

use crate::connection::Connection;
use crate::counters::Counters;
use crate::error::{ParseError, SignError, VerifyError};
use crate::ip::IPV6_HEADER_LENGTH;
use crate::mkt::MktSet;
use crate::option::{MAX_AO_LENGTH, NoRoom};
use crate::peer::{MKTS_PER_PEER, Peer, PeerError};
use crate::types::SocketPair;

use entry::Entry;
pub use entry::TimeLimits;
pub use peers::PeerSlot;
use peers::Peers;
pub use table::ShimSlot;
use table::Table;

/// The most octets that signing adds to a packet: the longest AO option, a multiple of four.
pub const OPTION_ROOM: usize = MAX_AO_LENGTH;

/// Octets of the longest packets that IPv4 and IPv6 can express (RFC 791, RFC 8200 §3).
const MAX_IPV4_LENGTH: usize = u16::MAX as usize;
const MAX_IPV6_LENGTH: usize = IPV6_HEADER_LENGTH + u16::MAX as usize;

/// What to do with a received signed segment of a connection without a configured peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unmatched {
    /// Drop and count it: its sender expects it to be verified.
    #[default]
    Drop,
    /// Pass it to the stack unchanged; the stack ignores the option.
    Pass,
}

/// The configuration of a [`Shim`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShimConfig {
    /// The link's MTU: octets of the longest IP packet.
    pub mtu: usize,
    /// The MTU that the stack is told, in octets: at most `mtu` less [`OPTION_ROOM`]. With more, full-size segments are refused.
    pub stack_mtu: usize,
    /// What to do with signed segments of connections without a peer.
    pub unmatched: Unmatched,
    /// Whether hard ICMP errors about established connections reach the stack; RFC 5925 §7.8 advises against it.
    pub accept_icmp: bool,
    /// Whether to check TCP and IPv4 checksums of received packets; `false` only if the device has done so.
    pub check_checksum: bool,
    /// How long the table of connections remembers what.
    pub limits: TimeLimits,
}

impl ShimConfig {
    /// The defaults of RFC 5925 for a link with an MTU of `mtu` octets.
    #[must_use]
    pub const fn new(mtu: usize) -> Self {
        let longest = if mtu < MAX_IPV4_LENGTH { mtu } else { MAX_IPV4_LENGTH };
        Self {
            mtu,
            stack_mtu: longest.saturating_sub(OPTION_ROOM),
            unmatched: Unmatched::Drop,
            accept_icmp: false,
            check_checksum: true,
            limits: TimeLimits::DEFAULT,
        }
    }
}

/// Why a packet was refused. Only counters changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// Not an IP packet with a whole TCP segment, in either direction.
    #[error(transparent)]
    Malformed(#[from] ParseError),
    /// Received with a wrong TCP or IPv4 checksum.
    #[error("TCP or IPv4 header checksum is wrong")]
    Checksum,
    /// Received and not authentic.
    #[error(transparent)]
    Verify(VerifyError),
    /// A verified SYN, counted good, for an open connection. It is a replay, or the peer restarted; since nothing tells which,
    /// the open connection stays.
    #[error("SYN for a connection that is open")]
    ConnectionExists,
    /// A segment of a protected connection whose handshake the shim has not seen.
    #[error("segment of a protected connection whose handshake was not seen")]
    NoConnection,
    /// Received with a routing header that still leads on, to or from a protected address.
    #[error("routing header leads on, to or from a protected address")]
    SourceRouted,
    /// Received signed, for a connection without a configured peer.
    #[error("signed segment, but no peer is configured for its connection")]
    NoPeer,
    /// The peer has no key now: none is configured, or its key chain has expired.
    #[error("the peer has no valid key at this time")]
    NoKey,
    /// The table of connections is full.
    #[error("the table of connections is full")]
    TableFull,
    /// A hard ICMP error about an established connection, or one that might be and cannot be read.
    #[error("ICMP error about a protected connection")]
    Icmp,
    /// The stack's segment could not be signed.
    #[error(transparent)]
    Sign(SignError),
    /// The options of the stack's segment leave no room for AO.
    #[error(transparent)]
    NoRoom(NoRoom),
    /// The stack's segment already has an AO or TCP-MD5 option.
    #[error("the stack's segment is signed already")]
    AlreadySigned,
    /// The signed packet would exceed the MTU, the longest IP packet, or the room that the caller left before the packet.
    #[error("signed packet is {excess} octets too long")]
    TooLong {
        /// Octets too many.
        excess: usize,
    },
}

/// TCP-AO between a TCP stack and its link.
///
/// `P` holds the peers and `T` the table of connections, in arrays, slices or vectors. Their length is the limit. However many
/// there are, a packet takes the same few steps.
///
/// ```
/// use core::time::Duration;
/// use wireseal_algorithms::TcpAoAlgorithm;
/// use wireseal_tcp_ao::shim::{Shim, ShimConfig, ShimSlot};
/// use wireseal_tcp_ao::{ConnectionIdentifier, KeyId, MasterKey, Mkt, MktSet, Peer};
///
/// let mkt = Mkt::new(KeyId(1), KeyId(1), TcpAoAlgorithm::HmacSha1, MasterKey::new(b"secret")?)?;
/// let peer = Peer {
///     connections: ConnectionIdentifier::between("192.0.2.1/32".parse()?, "192.0.2.2/32".parse()?),
///     mkts: MktSet::from_mkts([mkt])?,
/// };
/// let mut shim = Shim::new(ShimConfig::new(1500), [peer.into()], [const { ShimSlot::EMPTY }; 8])?;
///
/// // An unsigned segment in the peer's name is refused.
/// let mut packet = [
///     0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0xf6, 0xcc, 192, 0, 2, 2, 192, 0, 2, 1, // IPv4
///     0, 179, 4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 4, 0, 0, 0x27, 0x29, 0, 0, // a reset
/// ];
/// assert!(shim.inbound(Duration::ZERO, &mut packet).is_err());
/// assert_eq!(shim.counters().required, 1);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Shim<P, T> {
    config: ShimConfig,
    peers: Peers<P>,
    table: Table<T>,
    counters: Counters,
}

impl<P: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>, T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>> Shim<P, T> {
    /// A shim for these peers, with room for one connection per slot of `table`. Connections that its slots held are gone.
    ///
    /// # Errors
    /// [`PeerError`] if peers overlap and share key ids.
    pub fn new(config: ShimConfig, peers: P, table: T) -> Result<Self, PeerError> {
        let (peers, table) = (Peers::new(peers)?, Table::new(table));
        Ok(Self { config, peers, table, counters: Counters::default() })
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &ShimConfig {
        &self.config
    }

    /// The peers with their present keys, each with its index.
    pub fn peers(&self) -> impl Iterator<Item = (usize, &Peer)> {
        self.peers.iter()
    }

    /// The peer at `index`, if there is one.
    #[must_use]
    pub fn peer(&self, index: usize) -> Option<&Peer> {
        self.peers.get(index)
    }

    /// The counters of segments from the peer at `index`, if there is one.
    #[must_use]
    pub fn peer_counters(&self, index: usize) -> Option<&Counters> {
        self.peers.counters(index)
    }

    /// Adds a peer, and returns its index.
    ///
    /// # Errors
    /// [`PeerError::TooMany`] if no slot is free, and [`PeerError::Overlap`]; nothing changes.
    pub fn add_peer(&mut self, peer: Peer) -> Result<usize, PeerError> {
        self.peers.add(peer)
    }

    /// Removes a peer and forgets its connections. They are no longer protected: their packets pass unchanged, unless another
    /// peer covers them.
    ///
    /// # Errors
    /// [`PeerError::NoSuchPeer`].
    pub fn remove_peer(&mut self, index: usize) -> Result<Peer, PeerError> {
        let peer = self.peers.remove(index)?;
        self.table.retain(|entry| entry.peer != index);
        Ok(peer)
    }

    /// The counters of all peers together, including segments of no connection.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The live connections.
    pub fn connections(&self) -> impl Iterator<Item = &Connection<MKTS_PER_PEER>> {
        self.table.entries().map(|entry| &entry.connection)
    }

    /// A live connection.
    #[must_use]
    pub fn connection(&self, pair: &SocketPair) -> Option<&Connection<MKTS_PER_PEER>> {
        self.table.get(pair).map(|entry| &entry.connection)
    }

    /// A live connection, to change its keys.
    pub fn connection_mut(&mut self, pair: &SocketPair) -> Option<&mut Connection<MKTS_PER_PEER>> {
        self.table.get_mut(pair).map(|entry| &mut entry.connection)
    }

    /// Takes over a connection that was established elsewhere (see [`Connection::import`]). It replaces one with the same pair.
    ///
    /// # Errors
    /// [`Refusal::NoPeer`] if no peer is configured for it, and [`Refusal::TableFull`].
    pub fn adopt(&mut self, now: Duration, connection: Connection<MKTS_PER_PEER>) -> Result<(), Refusal> {
        let peer =
            self.peers.of(&connection.pair(), Some(connection.rnext_key().recv_id)).ok_or(Refusal::NoPeer)?;
        self.table
            .insert(Entry::new(connection, peer, now), now, &self.config.limits)
            .map_err(|()| Refusal::TableFull)
    }

    /// Forgets a connection and wipes its keys; its packets are refused from now on.
    pub fn forget(&mut self, pair: &SocketPair) {
        self.table.remove(pair);
    }

    /// Replaces the keys of the peer at `index` and of its live connections (see [`Connection::replace_keys`]).
    ///
    /// With an empty set, such as an expired key chain's, the peer stays protected: its connections are forgotten, and nothing
    /// gets through.
    ///
    /// # Errors
    /// [`PeerError`] if there is no such peer, or an id collides with an overlapping peer's; nothing changes.
    pub fn set_mkts(&mut self, index: usize, mkts: MktSet<MKTS_PER_PEER>) -> Result<(), PeerError> {
        self.peers.set_mkts(index, mkts.clone())?;
        self.table.retain(|entry| entry.peer != index || entry.connection.replace_keys(&mkts).is_ok());
        Ok(())
    }

    /// Gives the peer at `index` and its live connections the keys that its chain has at `now`. Call it at each
    /// [`KeyChain::next_change`](crate::key_chain::KeyChain::next_change), and when the clock has been set.
    ///
    /// A live connection keeps keys that are valid later, so that a clock that was set back costs no session. When it has no
    /// other keys than such whose time is over, it is forgotten, and nothing gets through.
    ///
    /// # Errors
    /// As [`Self::set_mkts`].
    #[cfg(feature = "key-chain")]
    pub fn follow_key_chain(
        &mut self,
        index: usize,
        chain: &crate::key_chain::KeyChain,
        now: crate::key_chain::Timestamp,
    ) -> Result<(), PeerError> {
        let mkts = chain.mkts(now);
        self.peers.set_mkts(index, mkts.clone())?;
        let is_early = |key: &crate::MktParameters| chain.is_early(key.send_id, key.recv_id, now);
        self.table.retain(|entry| {
            entry.peer != index || entry.connection.replace_keys_but(&mkts, is_early).is_ok()
        });
        Ok(())
    }

    /// Forgets connections that have ended, were never completed, or have been idle for hours. `now` is the time since any fixed
    /// moment, the same for all calls. This also happens by itself when the table is full.
    pub fn expire(&mut self, now: Duration) {
        self.table.expire(now, &self.config.limits);
    }
}

impl<P, T> fmt::Debug for Shim<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shim")
            .field("config", &self.config)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
