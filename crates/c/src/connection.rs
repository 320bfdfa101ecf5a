//! One connection's TCP-AO, for a TCP stack that calls for each segment.

use core::ffi::c_void;
use core::net::IpAddr;

use wireseal_tcp_ao::{
    Connection, ConnectionState, Counters, IcmpError, Isn, KeyId, Segment, SocketPair, StateError,
};

use crate::address::{wireseal_address, wireseal_pair};
use crate::border::{
    self, Kind, Opaque, given, make_in_place, octets, octets_mut, octets_place, place, place_if_wanted, with,
};
use crate::mkt::{WIRESEAL_MKTS, mkts, wireseal_mkt};
use crate::status::{wireseal_status, wireseal_status as Status};

/// One TCP connection's keys, sequence number extensions and counters (RFC 5925 §4.2 to §7.5), from the first SYN to TIME-WAIT, with
/// room for WIRESEAL_MKTS keys.
///
/// Pass every outgoing segment to wireseal_connection_sign(), retransmissions, resets and TIME-WAIT's acknowledgments too, and every incoming
/// one to wireseal_connection_verify() before TCP sees it. One thread at a time.
pub struct wireseal_connection(());

// SAFETY: no other type has this kind.
unsafe impl Opaque for wireseal_connection {
    type Value = Connection<WIRESEAL_MKTS>;
    const KIND: Kind = Kind::Connection;
}

/// Octets of memory that are enough for a connection with all algorithms on any processor; wireseal_connection_size() returns how many this
/// library needs.
pub const WIRESEAL_CONNECTION_SIZE: usize = 1216;
const _: () = assert!(wireseal_connection::SIZE <= WIRESEAL_CONNECTION_SIZE);

/// Octets that are enough for the state that wireseal_connection_export() and wireseal_shim_export() write, also in later versions.
pub const WIRESEAL_STATE_SIZE: usize = 192;
const _: () = assert!(ConnectionState::OCTETS <= WIRESEAL_STATE_SIZE);

/// Stands for no key where a SendID or RecvID is expected.
pub const WIRESEAL_NO_KEY_ID: i32 = -1;

/// Received segments by verdict, counted as Linux counts them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_counters {
    /// Verified.
    pub good: u64,
    /// A wrong MAC, a MAC of the wrong length, malformed options, or a segment that does not fit the connection's state.
    pub bad: u64,
    /// A KeyID that no key has.
    pub key_not_found: u64,
    /// Unsigned, although the connection is protected.
    pub required: u64,
    /// ICMP errors that were ignored.
    pub dropped_icmp: u64,
    /// Zeros: for later versions.
    pub reserved: [u64; 3],
}

impl From<&Counters> for wireseal_counters {
    fn from(counters: &Counters) -> Self {
        let Counters { good, bad, key_not_found, required, dropped_icmp } = *counters;
        Self { good, bad, key_not_found, required, dropped_icmp, reserved: [0; 3] }
    }
}

/// What is known of a connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_connection_info {
    /// The two ends.
    pub pair: wireseal_pair,
    /// Whether the handshake is complete: the traffic keys are derived, and the master keys are wiped.
    pub is_established: bool,
    /// Whether `local_isn` is known. If the peer opens the connection, it is known once this end's SYN-ACK is signed.
    pub has_local_isn: bool,
    /// Whether `remote_isn` is known. If this end opens the connection, it is known once the peer's SYN-ACK is verified.
    pub has_remote_isn: bool,
    /// Whether `acknowledged` is known: once a verified segment has had an ACK.
    pub has_acknowledged: bool,
    /// Whether the peer has signed with the rnext key since this end asked for it: the peer has that key, and uses it.
    pub peer_uses_rnext_key: bool,
    /// Whether the peer keeps asking for a key whose send lifetime is over at this end, although it signs with the next one itself.
    pub peer_insists: bool,
    /// The SendID of the key that this end signs with.
    pub current_key: u8,
    /// The RecvID of the key that this end asks the peer to sign with.
    pub rnext_key: u8,
    /// The RecvID of the key that the peer signs with; before its first segment, of the one that this end asks for.
    pub peers_key: u8,
    /// The SendID of the key that the peer asks for, or WIRESEAL_NO_KEY_ID before its first segment. It is that of the current key, unless this
    /// end lacks the key or has chosen another since.
    pub asks_for: i32,
    /// This end's initial sequence number.
    pub local_isn: u32,
    /// The peer's.
    pub remote_isn: u32,
    /// The sequence number after the last octet sent; SYN and FIN count as one.
    pub sent: u32,
    /// Its sequence number extension: how often the number has wrapped (RFC 5925 §6.2).
    pub sent_sne: u32,
    /// The highest verified sequence number; at first the peer's initial one.
    pub received: u32,
    /// Its sequence number extension.
    pub received_sne: u32,
    /// The acknowledgment number of the newest verified segment.
    pub acknowledged: u32,
    /// Received segments.
    pub counters: wireseal_counters,
    /// Zeros: for later versions.
    pub reserved: [u64; 4],
}

impl From<&Connection<WIRESEAL_MKTS>> for wireseal_connection_info {
    fn from(connection: &Connection<WIRESEAL_MKTS>) -> Self {
        let (local_isn, remote_isn) = (connection.local_isn(), connection.remote_isn());
        let acknowledged = connection.newest_acknowledgment();
        let ((sent_sne, sent), (received_sne, received)) =
            (connection.highest_sent(), connection.highest_received());
        Self {
            pair: connection.pair().into(),
            is_established: connection.is_established(),
            has_local_isn: local_isn.is_some(),
            has_remote_isn: remote_isn.is_some(),
            has_acknowledged: acknowledged.is_some(),
            peer_uses_rnext_key: connection.peer_uses_rnext_key(),
            peer_insists: connection.peer_insists(),
            current_key: connection.current_key().send_id.0,
            rnext_key: connection.rnext_key().recv_id.0,
            peers_key: connection.peers_key().recv_id.0,
            asks_for: connection.asks_for().map_or(WIRESEAL_NO_KEY_ID, |KeyId(id)| id.into()),
            local_isn: local_isn.unwrap_or(Isn::UNKNOWN).0,
            remote_isn: remote_isn.unwrap_or(Isn::UNKNOWN).0,
            sent: sent.0,
            sent_sne: sent_sne.0,
            received: received.0,
            received_sne: received_sne.0,
            acknowledged: acknowledged.map_or(0, |number| number.0),
            counters: (&connection.counters()).into(),
            reserved: [0; 4],
        }
    }
}

/// What wireseal_connection_verify() found out about a segment.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_verified {
    /// The RecvID of the key that signed it.
    pub key_id: u8,
    /// Whether it changed the key that this end signs with, and so perhaps the result of wireseal_connection_option_length().
    pub current_key_changed: bool,
    /// Whether its sequence or acknowledgment number is higher than any before. Never true for a replay of a received segment.
    pub makes_progress: bool,
    /// Zeros: for later versions.
    pub reserved: [u8; 13],
}

/// Returns how many octets of memory a connection needs.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_connection_size() -> usize {
    wireseal_connection::SIZE
}

/// Returns the alignment of that memory, in octets.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_connection_align() -> usize {
    wireseal_connection::ALIGN
}

/// Makes a connection in `size` octets of `memory`, which this end opens with a SYN of sequence number `isn`. `mkts` points to its `count`
/// keys, at most WIRESEAL_MKTS; the preferred one becomes the current and the rnext key.
///
/// Errors: WIRESEAL_STATUS_NO_KEY if there is no key or all are accept-only; _TOO_MANY_KEYS, _ID_IN_USE; _BAD_ADDRESS; those of a key:
/// _MASTER_KEY_LENGTH, _MAC_LENGTH, _UNKNOWN_ALGORITHM, _NOT_BUILT_IN, _BAD_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_active(
    memory: *mut c_void,
    size: usize,
    pair: *const wireseal_pair,
    isn: u32,
    mkts: *const wireseal_mkt,
    count: usize,
    connection: *mut *mut wireseal_connection,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        make_in_place(memory, size, wireseal_connection::SIZE, connection, |place, _| {
            let pair = given(pair)?.try_into()?;
            place.write(Connection::active(pair, Isn(isn), &self::mkts(mkts, count)?)?);
            Ok(())
        })
    }
}

/// Makes a connection that the peer opens with a SYN, if the SYN verifies. A listener needs to keep nothing before that, so a flood of forged
/// SYNs costs it no memory. Sign the SYN-ACK with the connection, which takes this end's initial sequence number from it.
///
/// `syn` is the SYN, TCP header and payload, which came from `source` to `destination`. The key that signed it becomes the rnext key. The key
/// that it asks for becomes the current key; if there is no such key, the one that signed it.
///
/// A replayed SYN verifies at any time: do not end an open connection because of one.
///
/// Errors: those of wireseal_connection_active() and wireseal_connection_verify(); WIRESEAL_STATUS_WRONG_STATE if the segment is not a SYN, or
/// has ACK or RST.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_passive(
    memory: *mut c_void,
    size: usize,
    source: *const wireseal_address,
    destination: *const wireseal_address,
    syn: *const u8,
    length: usize,
    mkts: *const wireseal_mkt,
    count: usize,
    connection: *mut *mut wireseal_connection,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        make_in_place(memory, size, wireseal_connection::SIZE, connection, |place, _| {
            let (source, destination): (IpAddr, IpAddr) =
                (given(source)?.try_into()?, given(destination)?.try_into()?);
            if source.to_canonical().is_ipv4() != destination.to_canonical().is_ipv4() {
                return Err(Status::BadAddress);
            }
            let mkts = self::mkts(mkts, count)?;
            let segment = Segment::from_tcp(source, destination, octets(syn, length)?)?;
            place.write(Connection::passive(&mkts.verify_syn(segment)?));
            Ok(())
        })
    }
}

/// Ends an established connection, and writes its state to `state`, from which wireseal_connection_import() or wireseal_shim_adopt() continues
/// it elsewhere. The state has `*length` octets, for which a `size` of WIRESEAL_STATE_SIZE is always enough, and no secrets. Move the keys
/// separately.
///
/// Errors, after which the connection goes on unchanged: WIRESEAL_STATUS_TOO_SMALL if `size` is too small; _NOT_ESTABLISHED if the handshake is
/// not complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_export(
    connection: *mut wireseal_connection,
    state: *mut u8,
    size: usize,
    length: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        // It stays established.
        let checked = with(connection, |connection| {
            let (_, _) = (octets_place(state, size)?, place(length)?);
            if size < ConnectionState::OCTETS {
                return Err(Status::TooSmall);
            }
            connection.is_established().then_some(()).ok_or(Status::NotEstablished)
        });
        if checked != Status::Ok {
            return checked;
        }
        border::take(connection, |connection| {
            let octets = connection.export()?.to_octets();
            octets_place(state, size)?.write(&octets)?;
            place(length)?.write(octets.len());
            Ok(())
        })
    }
}

/// Makes a connection from an exported state of `length` octets and the keys that it had. Import each state only once: the sequence number
/// extensions of two connections would soon differ.
///
/// Errors: WIRESEAL_STATUS_BAD_STATE if the octets are not a state, or its current or rnext key is missing; those of the keys, as for
/// wireseal_connection_active().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_import(
    memory: *mut c_void,
    size: usize,
    state: *const u8,
    length: usize,
    mkts: *const wireseal_mkt,
    count: usize,
    connection: *mut *mut wireseal_connection,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        make_in_place(memory, size, wireseal_connection::SIZE, connection, |place, _| {
            place.write(imported(state, length, mkts, count)?);
            Ok(())
        })
    }
}

/// A connection of an exported state and its keys.
///
/// # Safety
/// What C promises of each pointer.
pub(crate) unsafe fn imported(
    state: *const u8,
    length: usize,
    mkts: *const wireseal_mkt,
    count: usize,
) -> Result<Connection<WIRESEAL_MKTS>, Status> {
    // SAFETY: the caller's promise.
    let (state, mkts) = unsafe { (octets(state, length)?, self::mkts(mkts, count)?) };
    Ok(Connection::import(&ConnectionState::from_octets(state)?, &mkts)?)
}

/// Ends a connection, and wipes its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_end(connection: *mut wireseal_connection) -> wireseal_status {
    // SAFETY: what C promises of the pointer.
    unsafe { border::end(connection) }
}

/// Appends an AO option of the current key's size to the options of a header that will be signed, and pads it with NOPs to a multiple of four
/// octets. Call it for every header, because any segment from the peer may change the current key.
///
/// `options` is the header's option space of `size` octets, at most 40, of which `used` have options. Their new length goes to `*new_used`.
///
/// Error: WIRESEAL_STATUS_NO_ROOM if option and padding do not fit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_append_ao(
    connection: *mut wireseal_connection,
    options: *mut u8,
    size: usize,
    used: usize,
    new_used: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(connection, |connection| {
            let (options, mut new_used) = (octets_mut(options, size)?, place(new_used)?);
            new_used.write(connection.append_ao(options, used)?);
            Ok(())
        })
    }
}

/// Writes to `*length` how many octets the AO option and its padding take in a header without other options: 8 to WIRESEAL_OPTION_ROOM. Ask
/// again after every wireseal_connection_verify(). Subtract them from the segment's data, never from the MSS that you advertise (RFC 9293
/// §3.7.1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_option_length(
    connection: *mut wireseal_connection,
    length: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(connection, |connection| {
            place(length)?.write(connection.option_length());
            Ok(())
        })
    }
}

/// Signs a TCP segment of `length` octets, header and payload, in place with the current key: fills the KeyID, RNextKeyID and MAC into the AO
/// option that wireseal_connection_append_ao() has put into its header. Compute the checksum afterwards.
///
/// Errors, after which segment and connection are unchanged: WIRESEAL_STATUS_MALFORMED, _BAD_OPTIONS; _NO_OPTION if there is no AO option of
/// the current key's size; _OTHER_CONNECTION if the ports differ; _WRONG_STATE if the connection cannot send it now, such as a SYN when it is
/// established.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_sign(
    connection: *mut wireseal_connection,
    tcp: *mut u8,
    length: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe { with(connection, |connection| Ok(connection.sign(octets_mut(tcp, length)?)?)) }
}

/// Verifies a TCP segment of `length` octets, header and payload, that came from the connection's peer to this end. Compare the addresses
/// before; this function compares the ports. An authentic segment updates the peer's initial sequence number, the sequence number extension,
/// and the current key if the peer asks for another. Checking windows remains TCP's job: a replayed segment verifies again.
///
/// `verified` may be null.
///
/// Errors, after which you drop the segment: WIRESEAL_STATUS_UNSIGNED, _BAD_OPTIONS, _UNKNOWN_KEY_ID, _WRONG_MAC_LENGTH, _BAD_MAC,
/// _WRONG_STATE, and nothing but a counter has changed; _MALFORMED, _OTHER_CONNECTION if the ports differ, and nothing has changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_verify(
    connection: *mut wireseal_connection,
    tcp: *const u8,
    length: usize,
    verified: *mut wireseal_verified,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(connection, |connection| {
            let (tcp, out) = (octets(tcp, length)?, place_if_wanted(verified)?);
            let SocketPair { local, remote } = connection.pair();
            let segment = Segment::from_tcp(remote.address(), local.address(), tcp)?;
            let verified = connection.verify(&segment)?;
            if let Some(mut out) = out {
                out.write(wireseal_verified {
                    key_id: verified.key_id().0,
                    current_key_changed: verified.current_key_changed(),
                    makes_progress: verified.makes_progress(),
                    reserved: [0; 13],
                });
            }
            Ok(())
        })
    }
}

/// Adds a key, which the peer may now sign with. The current and the rnext key stay.
///
/// Errors: WIRESEAL_STATUS_ID_IN_USE, _TOO_MANY_KEYS, and those of a key, as for wireseal_connection_active().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_add_key(
    connection: *mut wireseal_connection,
    mkt: *const wireseal_mkt,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe { with(connection, |connection| Ok(connection.add_key(&given(mkt)?.read()?)?)) }
}

/// Removes the key with this SendID, and wipes it. If it is the current or the rnext key, the key with the SendID `replacement` takes its
/// place; else `replacement` may be WIRESEAL_NO_KEY_ID. Remove such a key only when both ends have the replacement.
///
/// Errors: WIRESEAL_STATUS_UNKNOWN_KEY for either id; _LAST_KEY; _KEY_IN_USE if the key needs a replacement and none is given; _BAD_ARGUMENT if
/// `replacement` is not an id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_remove_key(
    connection: *mut wireseal_connection,
    send_id: u8,
    replacement: i32,
) -> wireseal_status {
    let replacement = match replacement {
        WIRESEAL_NO_KEY_ID => Ok(None),
        id => u8::try_from(id).map(|id| Some(KeyId(id))).map_err(|_| Status::BadArgument),
    };
    // SAFETY: what C promises of the pointer.
    unsafe { with(connection, |connection| Ok(connection.remove_key(KeyId(send_id), replacement?)?)) }
}

/// Signs with the key of this SendID from the next segment on, without waiting for the peer to ask.
///
/// Error: WIRESEAL_STATUS_UNKNOWN_KEY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_set_current_key(
    connection: *mut wireseal_connection,
    send_id: u8,
) -> wireseal_status {
    // SAFETY: what C promises of the pointer.
    unsafe { with(connection, |connection| Ok(connection.set_current_key(KeyId(send_id))?)) }
}

/// Asks the peer, from the next segment on, to sign with the key of this RecvID.
///
/// Error: WIRESEAL_STATUS_UNKNOWN_KEY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_set_rnext_key(
    connection: *mut wireseal_connection,
    recv_id: u8,
) -> wireseal_status {
    // SAFETY: what C promises of the pointer.
    unsafe { with(connection, |connection| Ok(connection.set_rnext_key(KeyId(recv_id))?)) }
}

/// Replaces all keys in one step, to apply changes of a key chain, or to replace a secret under the same ids. The preferred key becomes the
/// rnext key. The current key stays if a key at `mkts` has its SendID and is not accept-only; else the preferred one becomes the current key.
/// An accept-only key, whose send lifetime is over, stays the current key until the peer has stopped using it.
///
/// Errors: those of the keys, as for wireseal_connection_active().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_replace_keys(
    connection: *mut wireseal_connection,
    mkts: *const wireseal_mkt,
    count: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe { with(connection, |connection| Ok(connection.replace_keys(&self::mkts(mkts, count)?)?)) }
}

/// Writes what is known of a connection to `*info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_get_info(
    connection: *mut wireseal_connection,
    info: *mut wireseal_connection_info,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(connection, |connection| {
            place(info)?.write((&*connection).into());
            Ok(())
        })
    }
}

/// Writes to `*ignore` whether to drop a received IP packet of `length` octets, because it is a hard ICMP error about this connection, which is
/// established: anyone can forge such errors (RFC 5925 §7.8). They are counted. False for any other packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_connection_ignores_icmp(
    connection: *mut wireseal_connection,
    packet: *const u8,
    length: usize,
    ignore: *mut bool,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    unsafe {
        with(connection, |connection| {
            let (packet, mut ignore) = (octets(packet, length)?, place(ignore)?);
            let error = IcmpError::parse(packet).filter(|error| error.pair == connection.pair());
            ignore.write(error.is_some_and(|error| connection.ignores_icmp(&error)));
            Ok(())
        })
    }
}

impl From<StateError> for Status {
    fn from(error: StateError) -> Self {
        match error {
            StateError::NotEstablished => Self::NotEstablished,
            _ => Self::BadState,
        }
    }
}
