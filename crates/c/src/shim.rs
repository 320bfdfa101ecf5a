//! TCP-AO under a TCP stack that has none: the shim's memory, configuration, peers, connections and counters. `packet.rs` has what it is for.

use core::ffi::c_void;
use core::time::Duration;

use cidr::IpCidr;
use wireseal_tcp_ao::shim::{
    Direction, HashKey, PeerSlot, RefusalCounters, Shim, ShimConfig, ShimSlot, TimeLimits, Unmatched,
};
use wireseal_tcp_ao::{ConnectionIdentifier, ConnectionState, KeyId, Peer, PeerError};

use crate::address::{wireseal_network, wireseal_pair};
use crate::border::{self, Array, Kind, Opaque, given, make_in_place, octets_place, place, unused, with};
use crate::connection::{imported, wireseal_connection_info, wireseal_counters};
use crate::event::{CObserver, wireseal_direction, wireseal_observer};
use crate::mkt::{mkts, wireseal_mkt};
use crate::segment::WIRESEAL_OPTION_ROOM;
use crate::status::{wireseal_status, wireseal_status as Status};

/// TCP-AO between a TCP stack and its link. Pass every packet that the stack sends to wireseal_shim_outbound(), and every packet for it to
/// wireseal_shim_inbound(). Connections of its peers are signed and verified; everything else passes unchanged.
///
/// Tell the stack an MTU that is smaller by WIRESEAL_OPTION_ROOM, so that the option always fits. The shim adds the difference to the MSS that
/// the stack advertises, and takes it off the MSS that the peer advertises. SACK blocks that do not fit next to the option are dropped, oldest
/// first, and so is Multipath TCP's MP_CAPABLE.
///
/// The shim reads no clock: `now_ms` is the time in milliseconds since a fixed moment of your choice, the same in all calls. It must not go
/// back: if it does, time limits, and that of wireseal_shim_accept_mismatches() too, last longer by as much. One thread at a time.
pub struct wireseal_shim(());

/// Aligned as the slots behind it.
#[repr(align(64))]
pub(crate) struct Aligned(pub(crate) Shim<Array<PeerSlot>, Array<ShimSlot>, CObserver>);

// SAFETY: no other type has this kind.
unsafe impl Opaque for wireseal_shim {
    type Value = Aligned;
    const KIND: Kind = Kind::Shim;
}

/// Octets of memory that are enough for a shim, without its peers and connections, with all algorithms on any processor. Add
/// WIRESEAL_SHIM_PEER_SIZE for each peer and WIRESEAL_SHIM_CONNECTION_SIZE for each connection. wireseal_shim_size() returns how many this
/// library needs.
pub const WIRESEAL_SHIM_SIZE: usize = 1856;
/// Octets of memory that are enough for each peer of a shim.
pub const WIRESEAL_SHIM_PEER_SIZE: usize = 640;
/// Octets of memory that are enough for each connection of a shim.
pub const WIRESEAL_SHIM_CONNECTION_SIZE: usize = 1536;
const _: () = assert!(wireseal_shim::SIZE <= WIRESEAL_SHIM_SIZE);
const _: () = assert!(size_of::<PeerSlot>() <= WIRESEAL_SHIM_PEER_SIZE);
const _: () = assert!(size_of::<ShimSlot>() <= WIRESEAL_SHIM_CONNECTION_SIZE);
// The slots of connections lie behind the handle, and those of peers behind these.
const _: () = assert!(wireseal_shim::ALIGN >= align_of::<ShimSlot>());
const _: () = assert!(align_of::<ShimSlot>() >= align_of::<PeerSlot>());

/// The smallest `stack_mtu`, which every link carries (RFC 791 §3.2).
pub const WIRESEAL_STACK_MTU_MIN: usize = 68;

/// What to do with segments of a connection that belongs to no peer.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_unmatched {
    /// Drop and count received segments that are signed: their sender expects them to be verified. All others pass unchanged.
    Drop = 0,
    /// Pass all unchanged; the stack ignores the AO option of signed ones.
    Pass = 1,
    /// Drop and count all, in both directions, signed or not.
    DropAll = 2,
}

/// How a shim works. Set all but `mtu` to zero for the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_shim_config {
    /// The link's MTU: octets of the longest IP packet.
    pub mtu: usize,
    /// The MTU that the stack is told: from WIRESEAL_STACK_MTU_MIN to `mtu` - WIRESEAL_OPTION_ROOM; 0 means the latter.
    pub stack_mtu: usize,
    /// An enum wireseal_unmatched.
    pub unmatched: u32,
    /// Not 0: hard ICMP errors about established connections reach the stack; RFC 5925 §7.8 advises against it.
    pub accept_icmp: u8,
    /// Not 0: the device has checked the TCP, ICMP and IPv4 checksums of received packets, so the shim need not.
    pub checksums_are_checked: u8,
    /// How long a handshake that makes no progress is kept, in milliseconds; 0 means 75 seconds.
    pub half_open_ms: u32,
    /// How long an unanswered handshake cannot be evicted from a full table, in milliseconds; 0 means 15 seconds.
    pub unanswered_ms: u32,
    /// How long a handshake cannot be evicted for a peer that has none in the table, in milliseconds; 0 means 2 seconds.
    pub turn_ms: u32,
    /// How long a closed connection is kept for late segments, in milliseconds; 0 means 240 seconds.
    pub closed_ms: u32,
    /// How long a connection is kept whose peer does not acknowledge this end's FIN, in milliseconds; 0 means 240 seconds.
    pub fin_ms: u32,
    /// How long an open connection without progress is kept, in milliseconds; 0 means three hours.
    pub idle_ms: u32,
    /// Must be zeros (else WIRESEAL_STATUS_BAD_ARGUMENT): for later versions.
    pub reserved: [u64; 4],
}

impl TryFrom<&wireseal_shim_config> for ShimConfig {
    type Error = Status;

    fn try_from(config: &wireseal_shim_config) -> Result<Self, Status> {
        let known = [
            (wireseal_unmatched::Drop, Unmatched::Drop),
            (wireseal_unmatched::Pass, Unmatched::Pass),
            (wireseal_unmatched::DropAll, Unmatched::DropAll),
        ];
        let unmatched = known.iter().find(|(number, _)| *number as u32 == config.unmatched);
        let unmatched = unmatched.map(|(_, unmatched)| *unmatched).ok_or(Status::BadArgument)?;
        unused(&config.reserved)?;
        let usual = Self::new(config.mtu);
        let stack_mtu = if config.stack_mtu == 0 { usual.stack_mtu } else { config.stack_mtu };
        if stack_mtu < WIRESEAL_STACK_MTU_MIN || stack_mtu > config.mtu.saturating_sub(WIRESEAL_OPTION_ROOM) {
            return Err(Status::BadArgument);
        }
        let limit = |milliseconds: u32, usual| match milliseconds {
            0 => usual,
            given => Duration::from_millis(given.into()),
        };
        let limits = TimeLimits {
            half_open: limit(config.half_open_ms, usual.limits.half_open),
            unanswered: limit(config.unanswered_ms, usual.limits.unanswered),
            turn: limit(config.turn_ms, usual.limits.turn),
            closed: limit(config.closed_ms, usual.limits.closed),
            fin: limit(config.fin_ms, usual.limits.fin),
            idle: limit(config.idle_ms, usual.limits.idle),
        };
        Ok(Self {
            stack_mtu,
            unmatched,
            accept_icmp: config.accept_icmp != 0,
            check_checksum: config.checksums_are_checked == 0,
            limits,
            ..usual
        })
    }
}

/// The connections that a peer's keys are for (RFC 5925 §3.1). A connection that several peers cover belongs to the one with the
/// longest remote prefix, then the longest local one, then the most ports.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_connection_identifier {
    /// This end's addresses.
    pub local: wireseal_network,
    /// The other end's addresses.
    pub remote: wireseal_network,
    /// This end's port, in host byte order; 0 means any.
    pub local_port: u16,
    /// The other end's port, in host byte order; 0 means any.
    pub remote_port: u16,
    /// Must be zeros (else WIRESEAL_STATUS_BAD_ARGUMENT): for later versions.
    pub reserved: [u32; 4],
}

impl TryFrom<&wireseal_connection_identifier> for ConnectionIdentifier {
    type Error = Status;

    fn try_from(connections: &wireseal_connection_identifier) -> Result<Self, Status> {
        let (local, remote): (IpCidr, IpCidr) =
            ((&connections.local).try_into()?, (&connections.remote).try_into()?);
        unused(&connections.reserved)?;
        let port = |port| (port != 0).then_some(port);
        let (local_port, remote_port) = (port(connections.local_port), port(connections.remote_port));
        Ok(Self { local, remote, local_port, remote_port })
    }
}

/// Packets that were refused, or passed unprotected, by reason. For what a reason means, see the enum wireseal_status of the same name.
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the statuses say it")]
pub struct wireseal_refusals {
    pub malformed: u64,
    pub checksum: u64,
    /// Segments that did not verify: any of WIRESEAL_STATUS_BAD_OPTIONS to WIRESEAL_STATUS_WRONG_STATE.
    pub verify: u64,
    pub connection_exists: u64,
    pub no_connection: u64,
    pub source_routed: u64,
    pub no_peer: u64,
    pub no_key: u64,
    pub table_full: u64,
    pub icmp: u64,
    /// The stack's segment could not be signed.
    pub sign: u64,
    pub no_room: u64,
    pub already_signed: u64,
    pub too_long_for_link: u64,
    /// Zeros: for later versions.
    pub reserved: [u64; 6],
}

impl From<&RefusalCounters> for wireseal_refusals {
    fn from(counters: &RefusalCounters) -> Self {
        Self {
            malformed: counters.malformed,
            checksum: counters.checksum,
            verify: counters.verify,
            connection_exists: counters.connection_exists,
            no_connection: counters.no_connection,
            source_routed: counters.source_routed,
            no_peer: counters.no_peer,
            no_key: counters.no_key,
            table_full: counters.table_full,
            icmp: counters.icmp,
            sign: counters.sign,
            no_room: counters.no_room,
            already_signed: counters.already_signed,
            too_long_for_link: counters.too_long,
            reserved: [0; 6],
        }
    }
}

/// Returns how many octets of memory a shim needs that has room for `peers` peers and, at one time, `connections` connections; 0 if no memory
/// is that large. Set `connections` higher than the number of peers and of open connections together, so that handshakes need not wait for one
/// another.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_shim_size(peers: usize, connections: usize) -> usize {
    let size = || {
        let peers = peers.checked_mul(size_of::<PeerSlot>())?;
        let connections = connections.checked_mul(size_of::<ShimSlot>())?;
        let size = wireseal_shim::SIZE.checked_add(peers)?.checked_add(connections)?;
        isize::try_from(size).is_ok().then_some(size)
    };
    size().unwrap_or(0)
}

/// Returns the alignment of that memory, in octets.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_shim_align() -> usize {
    wireseal_shim::ALIGN
}

/// Makes a shim without peers. It needs `size` octets of memory, as wireseal_shim_size() returns for these numbers.
///
/// `hash_key` points to 16 random octets, new at every start: anyone who knows them can choose ports and addresses so that each packet takes as
/// many steps as there are connections. In a library that was built for an operating system it may be null; the shim then gets them from the
/// system.
///
/// Error: WIRESEAL_STATUS_BAD_ARGUMENT if a value of the configuration is not allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_new(
    memory: *mut c_void,
    size: usize,
    config: *const wireseal_shim_config,
    hash_key: *const u8,
    peers: usize,
    connections: usize,
    shim: *mut *mut wireseal_shim,
) -> wireseal_status {
    // What cannot be had is too small in any memory.
    let needed =
        Some(wireseal_shim_size(peers, connections)).filter(|needed| *needed > 0).unwrap_or(usize::MAX);
    // SAFETY: what C promises of each pointer. The memory behind the handle is aligned for connections, whose slots have a multiple of the
    // peers' alignment, and large enough for both.
    unsafe {
        make_in_place(memory, size, needed, shim, |place, behind| {
            let config = given(config)?.try_into()?;
            let hash_key = match hash_key.is_null() {
                #[cfg(feature = "std")]
                true => HashKey::random(),
                _ => HashKey::new(*given(hash_key.cast::<[u8; 16]>())?),
            };
            let connection_slots = behind.cast::<ShimSlot>();
            let peer_slots = connection_slots.add(connections).cast();
            let table = Array::make(connection_slots, connections, || ShimSlot::EMPTY);
            let peers = Array::make(peer_slots, peers, || PeerSlot::EMPTY);
            let observer = CObserver { call: None, context: core::ptr::null_mut() };
            place.write(Aligned(Shim::new(config, hash_key, peers, table)?.with_observer(observer)));
            Ok(())
        })
    }
}

/// Ends a shim, and wipes all of its memory, with the keys of its peers and connections.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_end(shim: *mut wireseal_shim) -> wireseal_status {
    // SAFETY: what C promises of the pointer.
    unsafe { border::end(shim) }
}

/// Reports the shim's events to `observer`, with `context`, from now on. Both may be null; the shim keeps both pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_set_observer(
    shim: *mut wireseal_shim,
    observer: wireseal_observer,
    context: *mut c_void,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            *shim.observer_mut() = CObserver { call: observer, context };
            Ok(())
        })
    }
}

/// Adds a peer: the connections to protect from now on, and their `count` keys, at most WIRESEAL_MKTS. Without keys nothing gets through. Its
/// index goes to `*index`. After the peer is removed, a later one may get the same index. Live connections of a less specific peer that now
/// belong to this one get its keys.
///
/// Errors: WIRESEAL_STATUS_TOO_MANY_PEERS; _BAD_ADDRESS, also if one network has only IPv4 addresses and the other only IPv6, so that nothing
/// would be protected; _PEERS_OVERLAP if another peer covers the same connections, is as specific, and has a key with the same SendID or
/// RecvID; those of the keys, as for wireseal_connection_active().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_add_peer(
    shim: *mut wireseal_shim,
    connections: *const wireseal_connection_identifier,
    mkts: *const wireseal_mkt,
    count: usize,
    index: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let (connections, mut index) = (given(connections)?.try_into()?, place(index)?);
            index.write(shim.add_peer(Peer { connections, mkts: self::mkts(mkts, count)? })?);
            Ok(())
        })
    }
}

/// Removes a peer and forgets its connections. They are not protected any more, unless another peer covers them.
///
/// Error: WIRESEAL_STATUS_NO_SUCH_PEER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_remove_peer(
    shim: *mut wireseal_shim,
    index: usize,
) -> wireseal_status {
    // SAFETY: what C promises of the pointer.
    unsafe { with(shim, |Aligned(shim)| Ok(shim.remove_peer(index).map(drop)?)) }
}

/// Replaces the keys of a peer and of its live connections, as wireseal_connection_replace_keys() does. If `count` is 0, its connections are
/// forgotten, and nothing gets through, because the peer is still protected.
///
/// Errors: WIRESEAL_STATUS_NO_SUCH_PEER, _PEERS_OVERLAP, and those of the keys, as for wireseal_connection_active().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_set_mkts(
    shim: *mut wireseal_shim,
    index: usize,
    mkts: *const wireseal_mkt,
    count: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe { with(shim, |Aligned(shim)| Ok(shim.set_mkts(index, self::mkts(mkts, count)?)?)) }
}

/// Stops protecting a peer until the time `until_ms`, for the days in which both ends are being configured: until then anyone can forge
/// segments, as without TCP-AO. Signed connections still sign and verify, but segments that are unsigned or do not verify pass to the stack,
/// and segments that cannot be signed pass to the link. wireseal_shim_passed() counts them. Once `now_ms` of a call has reached `until_ms`,
/// protection is back, even if the clock goes back later. 0 ends it at once.
///
/// Error: WIRESEAL_STATUS_NO_SUCH_PEER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_accept_mismatches(
    shim: *mut wireseal_shim,
    index: usize,
    until_ms: u64,
) -> wireseal_status {
    let until = Duration::from_millis(until_ms);
    // SAFETY: what C promises of the pointer.
    unsafe { with(shim, |Aligned(shim)| Ok(shim.accept_mismatches(index, until)?)) }
}

/// Forgets connections that have reached a time limit: those that have ended, were never completed, or have been idle for hours. Call it once a
/// minute, so that their keys are wiped, and a peer that restarted on the same ports can connect again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_expire(shim: *mut wireseal_shim, now_ms: u64) -> wireseal_status {
    // SAFETY: what C promises of the pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            shim.expire(Duration::from_millis(now_ms));
            Ok(())
        })
    }
}

/// Writes to `*counters` the verdicts on segments from all peers together, including segments of no connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_counters(
    shim: *mut wireseal_shim,
    counters: *mut wireseal_counters,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            place(counters)?.write(shim.counters().into());
            Ok(())
        })
    }
}

/// Writes to `*counters` the verdicts on segments from one peer.
///
/// Error: WIRESEAL_STATUS_NO_SUCH_PEER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_peer_counters(
    shim: *mut wireseal_shim,
    index: usize,
    counters: *mut wireseal_counters,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let mut counters = place(counters)?;
            counters.write(shim.peer_counters(index).ok_or(Status::NoSuchPeer)?.into());
            Ok(())
        })
    }
}

/// Writes to `*refusals` how many packets were refused in one `direction`, an enum wireseal_direction.
///
/// Error: WIRESEAL_STATUS_BAD_ARGUMENT for another number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_refused(
    shim: *mut wireseal_shim,
    direction: u32,
    refusals: *mut wireseal_refusals,
) -> wireseal_status {
    const INBOUND: u32 = wireseal_direction::Inbound as u32;
    const OUTBOUND: u32 = wireseal_direction::Outbound as u32;
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let direction = match direction {
                INBOUND => Direction::Inbound,
                OUTBOUND => Direction::Outbound,
                _ => return Err(Status::BadArgument),
            };
            place(refusals)?.write(shim.refused(direction).into());
            Ok(())
        })
    }
}

/// Writes to `*refusals` how many packets passed unprotected in both directions together, because of wireseal_shim_accept_mismatches(), by the
/// reason for which they would have been refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_passed(
    shim: *mut wireseal_shim,
    refusals: *mut wireseal_refusals,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            place(refusals)?.write(shim.passed().into());
            Ok(())
        })
    }
}

/// Writes what is known of a live connection to `*info`.
///
/// Error: WIRESEAL_STATUS_NO_CONNECTION if the shim has none with this pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_connection(
    shim: *mut wireseal_shim,
    pair: *const wireseal_pair,
    info: *mut wireseal_connection_info,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let (pair, mut info) = (given(pair)?.try_into()?, place(info)?);
            info.write(shim.connection(&pair).ok_or(Status::NoConnection)?.into());
            Ok(())
        })
    }
}

/// Asks a live connection's peer, from the next segment on, to sign with the key of this RecvID.
///
/// Errors: WIRESEAL_STATUS_NO_CONNECTION, _UNKNOWN_KEY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_set_rnext_key(
    shim: *mut wireseal_shim,
    pair: *const wireseal_pair,
    recv_id: u8,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let connection = shim.connection_mut(&given(pair)?.try_into()?).ok_or(Status::NoConnection)?;
            Ok(connection.set_rnext_key(KeyId(recv_id))?)
        })
    }
}

/// Signs a live connection's segments with the key of this SendID from the next one on, without waiting for the peer to ask.
///
/// Errors: WIRESEAL_STATUS_NO_CONNECTION, _UNKNOWN_KEY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_set_current_key(
    shim: *mut wireseal_shim,
    pair: *const wireseal_pair,
    send_id: u8,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let connection = shim.connection_mut(&given(pair)?.try_into()?).ok_or(Status::NoConnection)?;
            Ok(connection.set_current_key(KeyId(send_id))?)
        })
    }
}

/// Forgets a connection, and wipes its keys, for example when the stack has dropped it without a segment. Its packets are refused from now on,
/// until a new handshake.
///
/// Error: WIRESEAL_STATUS_NO_CONNECTION if the shim has none with this pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_forget(
    shim: *mut wireseal_shim,
    pair: *const wireseal_pair,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let pair = given(pair)?.try_into()?;
            shim.connection(&pair).ok_or(Status::NoConnection)?;
            shim.forget(&pair);
            Ok(())
        })
    }
}

/// Forgets a live connection, and writes the state from which it is continued elsewhere, as wireseal_connection_export() does.
///
/// Errors, after which the connection goes on unchanged: WIRESEAL_STATUS_TOO_SMALL if `size` is too small; _NO_CONNECTION if the shim has none
/// with this pair; _NOT_ESTABLISHED if its handshake is not complete, or one end has sent a FIN or RST.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_export(
    shim: *mut wireseal_shim,
    pair: *const wireseal_pair,
    state: *mut u8,
    size: usize,
    length: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            let (pair, mut state, mut length) =
                (given(pair)?.try_into()?, octets_place(state, size)?, place(length)?);
            if size < ConnectionState::OCTETS {
                return Err(Status::TooSmall);
            }
            shim.connection(&pair).ok_or(Status::NoConnection)?;
            let octets = shim.export(&pair).ok_or(Status::NotEstablished)?.to_octets();
            length.write(octets.len());
            state.write(&octets)
        })
    }
}

/// Takes over a connection that was established elsewhere, from its exported state and the keys that it had there. It then gets the keys of its
/// peer in this shim, as by wireseal_shim_set_mkts(), and replaces a connection of the same pair.
///
/// Errors: WIRESEAL_STATUS_BAD_STATE as for wireseal_connection_import(), _NO_PEER, _NO_KEY if the peer has no key to sign with, _TABLE_FULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_shim_adopt(
    shim: *mut wireseal_shim,
    now_ms: u64,
    state: *const u8,
    length: usize,
    mkts: *const wireseal_mkt,
    count: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(shim, |Aligned(shim)| {
            Ok(shim.adopt(Duration::from_millis(now_ms), imported(state, length, mkts, count)?)?)
        })
    }
}

impl From<PeerError> for Status {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::Overlap { .. } => Self::PeersOverlap,
            PeerError::NoSuchPeer(_) => Self::NoSuchPeer,
            PeerError::TooMany { .. } => Self::TooManyPeers,
            PeerError::NoConnection(_) => Self::BadAddress,
            // There is no other.
            _ => Self::Internal,
        }
    }
}
