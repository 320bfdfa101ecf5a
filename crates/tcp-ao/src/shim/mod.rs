//! TCP-AO under a TCP stack that has none: IP packets in, IP packets out, no I/O.
//!
//! Pass every packet that the stack sends to [`Shim::outbound`], and every packet for it to [`Shim::inbound`]. Connections with a
//! configured [`Peer`] are signed and verified; everything else passes unchanged.
//!
//! Tell the stack an MTU that is smaller by [`OPTION_ROOM`], so that the option always fits. The shim adds the difference to the
//! MSS that the stack advertises, so that the peer sees the link's own MSS (RFC 9293 §3.7.1), and takes it off the MSS that the
//! peer advertises. SACK blocks that do not fit next to the option are dropped, oldest first (RFC 2018 §3), and so is Multipath TCP's
//! MP_CAPABLE, so that both ends fall back to TCP (RFC 8684 §3.7).

mod entry;
mod event;
mod hash;
mod inbound;
mod options;
mod outbound;
mod peers;
mod table;

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use crate::connection::{Connection, ConnectionState};
use crate::counters::Counters;
use crate::ip::IPV6_HEADER_LENGTH;
use crate::mkt::{MKTS_PER_PEER, Mkt, MktError, MktSet, Peer, PeerError};
use crate::option::MAX_AO_LENGTH;
use crate::types::SocketPair;

pub use crate::counters::RefusalCounters;
pub use crate::error::Refusal;
pub use entry::TimeLimits;
use entry::{Entry, Stage};
#[cfg(feature = "tracing")]
pub use event::TracingObserver;
pub use event::{Direction, End, Event, EventKind, Observer};
pub use hash::HashKey;
pub use peers::PeerSlot;
use peers::Peers;
pub use table::ShimSlot;
use table::Table;

/// The most octets that signing adds to a packet: the longest AO option, a multiple of four.
pub const OPTION_ROOM: usize = MAX_AO_LENGTH;

/// Octets of the longest packets that IPv4 and IPv6 can express (RFC 791, RFC 8200 §3).
const MAX_IPV4_LENGTH: usize = u16::MAX as usize;
const MAX_IPV6_LENGTH: usize = IPV6_HEADER_LENGTH + u16::MAX as usize;

/// What to do with a segment of a connection without a configured peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unmatched {
    /// Drop and count it if it is received and signed: its sender expects it to be verified. Others pass unchanged.
    #[default]
    Drop,
    /// Pass it unchanged; the stack ignores the option.
    Pass,
    /// Drop and count it in both directions, signed or not, fragments included. Use it where only peers' packets should reach the shim.
    DropAll,
}

/// The configuration of a [`Shim`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShimConfig {
    /// The link's MTU: octets of the longest IP packet.
    pub mtu: usize,
    /// The MTU that the stack is told, in octets: at most `mtu` less [`OPTION_ROOM`]. With more, full-size segments are refused.
    pub stack_mtu: usize,
    /// What to do with segments of connections without a peer.
    pub unmatched: Unmatched,
    /// Whether hard ICMP errors about established connections reach the stack; RFC 5925 §7.8 advises against it.
    pub accept_icmp: bool,
    /// Whether to check TCP, ICMP and IPv4 checksums of received packets that this shim judges; `false` only if the device has done so.
    pub check_checksum: bool,
    /// How long the table keeps each kind of connection.
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

/// TCP-AO between a TCP stack and its link.
///
/// `P` holds the peers and `T` the table of connections, in arrays, slices or vectors. Their length is the limit. Both are hash tables
/// under a secret key: a packet takes a few steps even in a large table, and nobody can choose addresses that make it take more.
///
/// Give the table more slots than there are open connections and peers together. If only a few are free, the peers that open
/// connections take turns of [`TimeLimits::turn`] with them, and so do replays of their recorded SYNs. A connection may then need
/// several SYNs. Recorded SYNs of more than seven peers per free slot keep other peers out.
///
/// ```
/// use core::time::Duration;
/// use wireseal_tcp_ao::shim::{HashKey, Shim, ShimConfig, ShimSlot};
/// use wireseal_tcp_ao::{ConnectionIdentifier, KeyId, MasterKey, Mkt, MktSet, Peer, TcpAoAlgorithm};
///
/// let mkt = Mkt::new(KeyId(1), KeyId(1), TcpAoAlgorithm::HmacSha1, MasterKey::new(b"secret")?)?;
/// let peer = Peer {
///     connections: ConnectionIdentifier::between("192.0.2.1/32".parse()?, "192.0.2.2/32".parse()?),
///     mkts: MktSet::from_mkts([mkt])?,
/// };
/// // Without std: `HashKey::new`, with octets from the chip's generator.
/// let hash_key = HashKey::random();
/// let mut shim = Shim::new(ShimConfig::new(1500), hash_key, [peer.into()], [const { ShimSlot::EMPTY }; 8])?;
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
pub struct Shim<P, T, O = ()> {
    config: ShimConfig,
    peers: Peers<P>,
    table: Table<T>,
    observer: O,
    counters: Counters,
    refused: [RefusalCounters; 2],
    passed: RefusalCounters,
}

impl<P: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>, T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>> Shim<P, T> {
    /// A shim for these peers, with room for one connection per slot of `table`. Connections that its slots held are gone. `hash_key` keys
    /// the hash tables of peers and connections.
    ///
    /// # Errors
    /// [`PeerError`] if equally specific peers overlap and share key ids.
    pub fn new(config: ShimConfig, hash_key: HashKey, peers: P, table: T) -> Result<Self, PeerError> {
        Ok(Self {
            config,
            peers: Peers::new(hash_key.clone(), peers)?,
            table: Table::new(hash_key, table),
            observer: (),
            counters: Counters::default(),
            refused: [RefusalCounters::default(); 2],
            passed: RefusalCounters::default(),
        })
    }

    /// This shim with an [`Observer`] of refused packets, connections and their keys.
    #[must_use]
    pub fn with_observer<O: Observer>(self, observer: O) -> Shim<P, T, O> {
        let Self { config, peers, table, observer: (), counters, refused, passed } = self;
        Shim { config, peers, table, observer, counters, refused, passed }
    }
}

impl<P, T, O> Shim<P, T, O>
where
    P: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>,
    T: AsRef<[ShimSlot]> + AsMut<[ShimSlot]>,
    O: Observer,
{
    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &ShimConfig {
        &self.config
    }

    /// The peers with their present keys, each with its index.
    pub fn peers(&self) -> impl Iterator<Item = (usize, &Peer)> {
        self.peers.iter()
    }

    /// [`peers`](Self::peers) from `index` on, to go on after peers were added and removed.
    pub fn peers_from(&self, index: usize) -> impl Iterator<Item = (usize, &Peer)> {
        self.peers.iter_from(index)
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
    /// Live connections that belonged to a less specific peer and now belong to this one get its keys, as by [`Self::set_mkts`].
    ///
    /// # Errors
    /// [`PeerError::TooMany`] if no slot is free, [`PeerError::NoConnection`] and [`PeerError::Overlap`]; nothing changes.
    pub fn add_peer(&mut self, peer: Peer) -> Result<usize, PeerError> {
        let mkts = peer.mkts.clone();
        let index = self.peers.add(peer)?;
        let (peers, table) = (&self.peers, &mut self.table);
        let is_its = |entry: &Entry| {
            let connection = &entry.connection;
            peers.of(&connection.pair(), Some(connection.rnext_key().recv_id)) == Some(index)
        };
        for wider in peers.wider_than(index) {
            table.change_peer(wider, index, is_its);
        }
        self.change_keys(index, |connection| connection.replace_keys(&mkts));
        Ok(index)
    }

    /// Moves the peers into other slots, for example into more of them. Indices, counters and connections stay; the old content of `slots`
    /// is dropped, and no secret is left in the old slots. The time grows with the number of slots.
    ///
    /// # Errors
    /// [`PeerError::TooMany`] if `slots` has no slot for a peer's index; nothing changes.
    pub fn move_peers(&mut self, slots: P) -> Result<(), PeerError> {
        self.peers.move_to(slots)
    }

    /// Removes a peer and forgets its connections. They are no longer protected: their packets belong to no peer ([`Unmatched`]), unless
    /// another one covers them.
    ///
    /// # Errors
    /// [`PeerError::NoSuchPeer`].
    pub fn remove_peer(&mut self, index: usize) -> Result<Peer, PeerError> {
        let peer = self.peers.remove(index)?;
        self.table.retain_of(index, |entry| {
            event::ended(&mut self.observer, entry, End::Forgotten);
            false
        });
        Ok(peer)
    }

    /// The counters of all peers together, including segments of no connection.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Refused packets, by direction and reason. Unlike [`Self::counters`], these include packets that belong to no peer.
    #[must_use]
    pub const fn refused(&self, direction: Direction) -> &RefusalCounters {
        &self.refused[direction as usize]
    }

    /// Packets that passed unprotected because [mismatches are accepted](Self::accept_mismatches), in either direction, by the
    /// reason that would have refused them.
    #[must_use]
    pub const fn passed(&self) -> &RefusalCounters {
        &self.passed
    }

    /// The observer.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// **Stops protecting the peer at `index`** until the time `until`, for the days in which both ends are being configured. Until
    /// then anyone can forge segments, as without TCP-AO.
    ///
    /// Signed connections still sign and verify. But a segment that is unsigned or fails to verify passes to the stack unchanged,
    /// and one that cannot be signed passes to the link, so that unsigned connections work too. Each is counted
    /// ([`Self::passed`]) and reported as [`EventKind::Passed`]. Damaged packets, fragments, and ICMP errors are refused as always.
    ///
    /// A kernel that knows TCP-AO but has no key drops signed SYNs, so every second SYN of a connection that this end opens is sent
    /// unsigned, without an event. These SYNs advertise the stack's own MSS, since an unsigned peer's segments reach the stack at
    /// full length.
    ///
    /// From `until` on, mismatches are refused again, so unsigned connections stall. `until` is on the clock of `now` in
    /// [`Self::inbound`]; once a call's `now` has reached it, the mode stays over, even if that clock goes back. [`Duration::ZERO`] ends it
    /// at once. Changing the peer's keys does not end it, removing the peer
    /// does. If peers that cover a connection are equally specific, or more specific, all of them must accept mismatches. No
    /// configuration file can turn this on. RFC 5925 has no such mode; routers call it "accept AO mismatch".
    ///
    /// # Errors
    /// [`PeerError::NoSuchPeer`].
    pub fn accept_mismatches(&mut self, index: usize, until: Duration) -> Result<(), PeerError> {
        self.peers.accept_mismatches(index, until)
    }

    /// The live connections.
    pub fn connections(&self) -> impl Iterator<Item = &Connection<MKTS_PER_PEER>> {
        self.table.entries().map(|entry| &entry.connection)
    }

    /// The live connections from one place in the table on, to go on after some came and went: each with its place, and the index of its
    /// peer.
    pub fn connections_from(
        &self,
        place: usize,
    ) -> impl Iterator<Item = (usize, usize, &Connection<MKTS_PER_PEER>)> {
        self.table.entries_from(place).map(|(place, entry)| (place, entry.peer, &entry.connection))
    }

    /// The live connections that have not been closed or reset, each with the index of its peer. Closed ones stay in the table for a while,
    /// for late segments.
    pub fn connections_with_peers(&self) -> impl Iterator<Item = (usize, &Connection<MKTS_PER_PEER>)> {
        let open = self.table.entries().filter(|entry| entry.stage() != Stage::Closed);
        open.map(|entry| (entry.peer, &entry.connection))
    }

    /// The peer that a connection of this pair would belong to, with its index. Among equally specific ones, one with a key to sign with.
    #[must_use]
    pub fn peer_of(&self, pair: &SocketPair) -> Option<(usize, &Peer)> {
        let index = self.peers.of(pair, None)?;
        Some((index, self.peers.get(index)?))
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
    /// It gets the keys that its peer has now, as by [`Connection::replace_keys`]; keys that the peer has lost in the meantime are removed
    /// from it.
    ///
    /// It may have ended in the meantime. Until a segment shows that it goes on, a SYN from its peer is treated as if the connection had
    /// been silent for longer than [`TimeLimits::idle`]: this end's stack decides.
    ///
    /// # Errors
    /// [`Refusal::NoPeer`] if no peer is configured for it, [`Refusal::NoKey`] if the peer has no key to sign with, and
    /// [`Refusal::TableFull`].
    pub fn adopt(&mut self, now: Duration, mut connection: Connection<MKTS_PER_PEER>) -> Result<(), Refusal> {
        let peer =
            self.peers.of(&connection.pair(), Some(connection.rnext_key().recv_id)).ok_or(Refusal::NoPeer)?;
        let mkts = &self.peers.get(peer).ok_or(Refusal::NoPeer)?.mkts;
        connection.replace_keys(mkts).map_err(|_| Refusal::NoKey)?;
        let pair = connection.pair();
        self.insert(Entry::adopted(connection, peer, now), now)?;
        if let Some(entry) = self.table.get(&pair) {
            event::moved(&mut self.observer, entry, Stage::OpenedHere);
        }
        Ok(())
    }

    /// Returns the state with which another place can [adopt](Self::adopt) or [import](Connection::import) a connection, and
    /// [forgets](Self::forget) the connection here.
    ///
    /// `None`, and nothing changes, if there is no such connection, it is not established, or one end has sent a FIN or reset it. A state
    /// does not record FINs and resets, so the other place could not tell when the connection has ended.
    pub fn export(&mut self, pair: &SocketPair) -> Option<ConnectionState> {
        let state = self.table.get(pair).filter(|entry| entry.is_open())?.connection.state().ok()?;
        self.forget(pair);
        Some(state)
    }

    /// Forgets a connection and wipes its keys; its packets are refused from now on.
    pub fn forget(&mut self, pair: &SocketPair) {
        if let Some(entry) = self.table.get(pair) {
            event::ended(&mut self.observer, entry, End::Forgotten);
        }
        self.table.remove(pair);
    }

    /// Replaces the keys of the peer at `index` and of its live connections (see [`Connection::replace_keys`]).
    ///
    /// With an empty set, such as an expired key chain's, the peer stays protected: its connections are forgotten, and nothing
    /// gets through.
    ///
    /// # Errors
    /// [`PeerError`] if there is no such peer, or an id collides with that of a peer that is as specific and overlaps; nothing changes.
    pub fn set_mkts(&mut self, index: usize, mkts: MktSet<MKTS_PER_PEER>) -> Result<(), PeerError> {
        self.peers.set_mkts(index, mkts.clone())?;
        self.change_keys(index, |connection| connection.replace_keys(&mkts));
        Ok(())
    }

    /// Gives the peer at `index` and its live connections the keys that are valid now. `wireseal-keys` calls it for a key chain
    /// (`KeyChain::apply_to`).
    ///
    /// A live connection keeps keys that are not valid yet, so that setting a clock back costs no session. `is_early` tells which these
    /// are: its argument is a function that recognises an MKT by ids and secret. A connection that is left without a key to send with is
    /// forgotten, and nothing gets through.
    ///
    /// # Errors
    /// [`PeerError::NoSuchPeer`]. [`PeerError::Overlap`] if ids collide with those of a peer that is as specific and overlaps: these keys
    /// are left out, and everything else takes effect. In particular, keys that have expired are gone.
    pub fn set_valid_mkts(
        &mut self,
        index: usize,
        mkts: &MktSet<MKTS_PER_PEER>,
        is_early: impl Fn(&dyn Fn(&Mkt) -> bool) -> bool,
    ) -> Result<(), PeerError> {
        let (mkts, clash) = self.peers.set_mkts_that_fit(index, mkts)?;
        self.change_keys(index, |connection| connection.replace_keys_but(&mkts, &is_early));
        clash
    }

    /// Forgets connections that have ended, were never completed, or have been idle for hours. `now` is the time since any fixed
    /// moment, the same for all calls. This also happens by itself when the table is full. [`TimeLimits::idle`] says how often to call
    /// it.
    pub fn expire(&mut self, now: Duration) {
        self.peers.end_mismatches(now);
        let limits = self.config.limits;
        self.table.retain(|entry| {
            let is_kept = !entry.has_expired(now, &limits);
            if !is_kept {
                event::ended(&mut self.observer, entry, End::Expired);
            }
            is_kept
        });
    }

    /// Changes the keys of a peer's connections, and forgets those that are left without one.
    fn change_keys(
        &mut self,
        peer: usize,
        mut change: impl FnMut(&mut Connection<MKTS_PER_PEER>) -> Result<(), MktError>,
    ) {
        self.table.retain_of(peer, |entry| {
            let from = entry.connection.current_key().send_id;
            let is_kept = change(&mut entry.connection).is_ok();
            match is_kept {
                true => event::switched(&mut self.observer, entry, from),
                false => event::ended(&mut self.observer, entry, End::NoKey),
            }
            is_kept
        });
    }

    fn insert(&mut self, entry: Entry, now: Duration) -> Result<(), Refusal> {
        let ended = |entry: &Entry, why| event::ended(&mut self.observer, entry, why);
        self.table.insert(entry, now, &self.config.limits, ended).map_err(|()| Refusal::TableFull)
    }

    /// Counts and reports a refusal. `Ok` if the packet passes anyway.
    #[cold]
    fn refuse(
        &mut self,
        direction: Direction,
        subject: Subject,
        refusal: Refusal,
    ) -> Result<Range<usize>, Refusal> {
        let Subject { peer, pair, packet } = subject;
        let accepts = |(peer, pair)| self.peers.accepts_mismatches(peer, &pair);
        let passes = refusal.is_mismatch() && peer.zip(pair).is_some_and(accepts);
        let (counters, kind) = match passes {
            true => (&mut self.passed, EventKind::Passed { direction, refusal }),
            false => (&mut self.refused[direction as usize], EventKind::Refused { direction, refusal }),
        };
        counters.count(&refusal);
        self.observer.observe(&Event { peer, pair, kind });
        if passes { Ok(packet) } else { Err(refusal) }
    }
}

/// What is known about a packet so far, for the report if it is refused.
#[derive(Default)]
struct Subject {
    peer: Option<usize>,
    pair: Option<SocketPair>,
    /// The place of the whole packet in its buffer.
    packet: Range<usize>,
}

impl<P, T, O> fmt::Debug for Shim<P, T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shim")
            .field("config", &self.config)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
