//! TCP-AO on Linux's own sockets, call by call: for daemons that decide themselves when a key comes and goes. `manager.rs` decides for them.

use core::ffi::{c_char, c_int};
use core::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use wireseal_linux::{
    Error, IpCidr, KeyId, KeyName, MasterKey, OptionCoverage, SeenKey, SocketKey, Successor, TcpAoSocket,
    probe,
};

use crate::address::wireseal_network;
use crate::border::{Place, given, items_mut, octets, place, unused};
use crate::connection::{WIRESEAL_NO_KEY_ID, wireseal_counters};
use crate::heap::{Message, characters, explained, uncancelled};
use crate::mkt::{algorithm_number, wireseal_mkt};
use crate::status::{wireseal_status, wireseal_status as Status};

/// For wireseal_socket_add_key(): makes the key the current key at once, which this end signs with. Not on a listening socket.
pub const WIRESEAL_SOCKET_CURRENT: u32 = 1;
/// For wireseal_socket_add_key(): makes the key the rnext key at once, which this end asks the peer to sign with. Not on a listening socket.
pub const WIRESEAL_SOCKET_RNEXT: u32 = 2;

/// What identifies a key on a socket. Set all to zero first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_key_name {
    /// The peers that it is for.
    pub remote: wireseal_network,
    /// The KeyID in segments that this end signs with the key.
    pub send_id: u8,
    /// The KeyID in segments that the peer signs with the key.
    pub recv_id: u8,
    /// Not 0: the key is only for connections in the VRF `vrf`.
    pub in_vrf: u8,
    /// The index of the VRF device, or 0 for connections in no VRF.
    pub vrf: u32,
    /// Zeros: for later versions.
    pub reserved: u32,
}

/// A key on a socket, without its secret.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_socket_key {
    /// What identifies it.
    pub name: wireseal_key_name,
    /// Linux's name of the algorithm, such as "cmac(aes)".
    pub algorithm: [c_char; 64],
    /// Octets of the MAC.
    pub mac_length: u8,
    /// The MAC covers no TCP options but AO's own.
    pub options_excluded: bool,
    /// This end signs with it.
    pub is_current: bool,
    /// This end asks the peer to sign with it.
    pub is_rnext: bool,
    /// Segments that verified under it on this socket.
    pub good: u64,
    /// Segments that failed under it on this socket.
    pub bad: u64,
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

/// The state of TCP-AO on a socket.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_socket_info {
    /// False if no key was ever put on the socket and it never required TCP-AO, or if the connection was opened without TCP-AO. The other
    /// fields are then zero, and the ids WIRESEAL_NO_KEY_ID.
    pub has_tcp_ao: bool,
    /// Whether unsigned segments are refused from all peers, even those that have no key here.
    pub required: bool,
    /// Whether hard ICMP errors are obeyed. By default they are dropped and counted (RFC 5925 §7.8).
    pub accept_icmps: bool,
    /// The SendID of the current key, or WIRESEAL_NO_KEY_ID, as on a listening socket.
    pub current_key: i32,
    /// The RecvID of the rnext key, or WIRESEAL_NO_KEY_ID.
    pub rnext_key: i32,
    /// Received segments. A connection counts from its start; a listening socket counts those that belong to no connection.
    pub counters: wireseal_counters,
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

/// What the running kernel can do.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_linux_support {
    /// It has TCP-AO.
    pub tcp_ao: bool,
    /// It has TCP-MD5.
    pub md5: bool,
    /// The TCP-AO algorithms that it accepts in keys: a bit for each, 1 << WIRESEAL_TCP_AO_ALGORITHM_... .
    pub algorithms: u32,
    /// Its release, as `uname -r` prints it.
    pub kernel: [c_char; 65],
    /// Zeros: for later versions.
    pub reserved: [u64; 2],
}

impl From<&Error> for Status {
    fn from(error: &Error) -> Self {
        match error {
            Error::NotSupported => Self::NotSupported,
            Error::AlgorithmNotInLinux { .. } | Error::AlgorithmMissing(_) => Self::NotInKernel,
            Error::ForeignAlgorithm { .. } => Self::UnknownAlgorithm,
            Error::IdInUse { .. } => Self::IdInUse,
            Error::Md5KeyInTheWay | Error::AoKeyInTheWay => Self::OtherKindOfKey,
            Error::MacTooLong { .. } => Self::MacLength,
            Error::NoSuchKey { .. } | Error::NoSuchMd5Key(_) => Self::UnknownKey,
            Error::KeyInUse(_) => Self::KeyInUse,
            Error::KeyStays(_) => Self::KeyStays,
            Error::Connected | Error::Unsigned => Self::OpenedUnsigned,
            Error::NoPermission { .. } => Self::NoPermission,
            Error::NoMemory => Self::NoMemory,
            Error::UnusableNetwork { .. } => Self::UnusableNetwork,
            Error::NotATcpSocket => Self::NotATcpSocket,
            Error::Refused { .. } => Self::RefusedByKernel,
            Error::PeersClash { .. } => Self::PeersOverlap,
            Error::PeerTwice(_) => Self::PeerTwice,
            Error::NotAPeer { .. } => Self::NotAPeer,
            Error::ChangedMeanwhile { .. } => Self::ChangedMeanwhile,
            Error::CannotUndo { .. } => Self::CannotUndo,
            Error::NoKeyToSendWith { .. } => Self::NoKey,
            Error::Ended => Self::ConnectionEnded,
            Error::NoPeer(_) | Error::UnknownPeer(_) => Self::NoPeer,
            Error::KeyOfAnotherPeer { .. } | Error::KeyNotAccepted { .. } => Self::WrongKey,
            Error::AlreadyAttached => Self::AlreadyAttached,
            Error::Key { error, .. } => Self::from(&**error),
            Error::Keys(error) => Self::from(error),
            _ => Self::System,
        }
    }
}

/// Works with a socket of C's, and tells C why that failed.
///
/// # Safety
/// C does not close the descriptor before the call ends.
unsafe fn on_socket(
    fd: c_int,
    message: &mut Message<'_>,
    call: impl FnOnce(&TcpAoSocket<'_>) -> Result<(), Error>,
) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    let socket = unsafe { descriptor(fd) };
    message.told(socket.and_then(|socket| call(&TcpAoSocket::new(&socket))))
}

/// A descriptor of C's. One that is not open is an error of each system call.
///
/// # Safety
/// C does not close it before the call ends.
pub(crate) unsafe fn descriptor<'fd>(fd: c_int) -> Result<BorrowedFd<'fd>, Error> {
    // EBADF.
    let closed = || std::io::Error::from_raw_os_error(9).into();
    // SAFETY: the caller's promise; -1 is no descriptor.
    if fd < 0 { Err(closed()) } else { Ok(unsafe { BorrowedFd::borrow_raw(fd) }) }
}

/// Finds out what the kernel can do, with sockets of its own that never connect. Call it before you configure the first peer.
///
/// Error: WIRESEAL_STATUS_SYSTEM if no socket can be made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_linux_probe(support: *mut wireseal_linux_support) -> wireseal_status {
    uncancelled(|| {
        // SAFETY: what C promises of the pointer.
        let mut place = unsafe { place(support)? };
        let found = probe().map_err(|_| Status::System)?;
        let algorithms = found.algorithms.iter().map(|algorithm| 1 << algorithm_number(*algorithm)).sum();
        let (tcp_ao, md5, kernel) = (found.tcp_ao, found.md5, characters(&found.kernel));
        place.write(wireseal_linux_support { tcp_ao, md5, algorithms, kernel, reserved: [0; 2] });
        Ok(())
    })
}

/// Puts a key on a TCP socket. A socket that will listen or connect accepts keys for any peers: put them on it before listen() or connect(). A
/// connection accepts only keys for its peer, and only if it was opened with TCP-AO.
///
/// `remote`: the peers that the key is for.
/// `vrf`: null, or the index of a VRF device, if the key is only for connections in that VRF.
/// `flags`: WIRESEAL_SOCKET_CURRENT, WIRESEAL_SOCKET_RNEXT, both or 0.
/// `message`: room for `message_size` octets with the zero at the end, or null. After an error it has one line that says why, and what to do.
///
/// Errors: WIRESEAL_STATUS_NOT_SUPPORTED, _NOT_IN_KERNEL (the algorithm), _ID_IN_USE, _OTHER_KIND_OF_KEY, _UNUSABLE_NETWORK, _OPENED_UNSIGNED,
/// _NO_MEMORY, _REFUSED_BY_KERNEL; those of a key, as for wireseal_connection_active(). All functions with `fd` can return _NOT_A_TCP_SOCKET,
/// and _SYSTEM, for example if it is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_add_key(
    fd: c_int,
    remote: *const wireseal_network,
    mkt: *const wireseal_mkt,
    vrf: *const u32,
    flags: u32,
    message: *mut c_char,
    message_size: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer and of the descriptor.
    unsafe {
        explained(message, message_size, |message| {
            let (remote, mkt, vrf) = (given(remote)?.try_into()?, given(mkt)?.read()?, number_if_given(vrf)?);
            if flags & !(WIRESEAL_SOCKET_CURRENT | WIRESEAL_SOCKET_RNEXT) != 0 {
                return Err(Status::BadArgument);
            }
            let set_current = flags & WIRESEAL_SOCKET_CURRENT != 0;
            let set_rnext = flags & WIRESEAL_SOCKET_RNEXT != 0;
            let key = SocketKey { remote, vrf, mkt: &mkt, set_current, set_rnext };
            on_socket(fd, message, |socket| socket.add_key(&key))
        })
    }
}

/// Deletes a key from a socket. If it is the current or the rnext key, others take over in the same step.
///
/// Except on a listening socket, the kernel waits some milliseconds until nothing uses the key any more.
/// `next_current`: null, or the SendID of the key to sign with from now on.
/// `next_rnext`: null, or the RecvID of the key to ask the peer for. Neither on a listening socket.
/// `message`: as for wireseal_socket_add_key().
///
/// Errors: WIRESEAL_STATUS_UNKNOWN_KEY if the socket has no such key or successor; _KEY_IN_USE, also for the last key of a connection: the
/// successors have then taken over all the same; _KEY_STAYS for a key in a VRF on Linux 6.18.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_delete_key(
    fd: c_int,
    name: *const wireseal_key_name,
    next_current: *const u8,
    next_rnext: *const u8,
    message: *mut c_char,
    message_size: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer and of the descriptor.
    unsafe {
        explained(message, message_size, |message| {
            let name = KeyName::try_from(given(name)?)?;
            let id =
                |id: *const u8| if id.is_null() { Ok(None) } else { given(id).map(|id| Some(KeyId(*id))) };
            let successor = Successor { current: id(next_current)?, rnext: id(next_rnext)? };
            on_socket(fd, message, |socket| socket.delete_key(&name, successor))
        })
    }
}

/// Makes a key the current key, which this end signs with. The peer's segments can choose another at any time.
///
/// `message`: as for wireseal_socket_add_key().
/// Errors: WIRESEAL_STATUS_UNKNOWN_KEY; _REFUSED_BY_KERNEL on a listening socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_set_current_key(
    fd: c_int,
    send_id: u8,
    message: *mut c_char,
    message_size: usize,
) -> wireseal_status {
    // SAFETY: what C promises of the pointer and of the descriptor.
    unsafe {
        explained(message, message_size, |message| {
            on_socket(fd, message, |socket| socket.set_current_key(KeyId(send_id)))
        })
    }
}

/// Makes a key the rnext key, which this end asks the peer to sign with.
///
/// `message` and errors: as for wireseal_socket_set_current_key().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_set_rnext_key(
    fd: c_int,
    recv_id: u8,
    message: *mut c_char,
    message_size: usize,
) -> wireseal_status {
    // SAFETY: what C promises of the pointer and of the descriptor.
    unsafe {
        explained(message, message_size, |message| {
            on_socket(fd, message, |socket| socket.set_rnext_key(KeyId(recv_id)))
        })
    }
}

/// Refuses unsigned segments from every peer; if `required` is 0, the default, only from those that the socket has a key for.
///
/// `message`: as for wireseal_socket_add_key().
/// Error: WIRESEAL_STATUS_OTHER_KIND_OF_KEY if a TCP-MD5 key is on the socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_set_required(
    fd: c_int,
    required: u8,
    message: *mut c_char,
    message_size: usize,
) -> wireseal_status {
    // SAFETY: what C promises of the pointer and of the descriptor.
    unsafe {
        explained(message, message_size, |message| {
            on_socket(fd, message, |socket| socket.set_required(required != 0))
        })
    }
}

/// Makes a connection obey hard ICMP errors; if `accept` is 0, the default, they are dropped and counted, because anyone can forge them (RFC
/// 5925 §7.8).
///
/// `message`: as for wireseal_socket_add_key().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_set_accept_icmps(
    fd: c_int,
    accept: u8,
    message: *mut c_char,
    message_size: usize,
) -> wireseal_status {
    // SAFETY: what C promises of the pointer and of the descriptor.
    unsafe {
        explained(message, message_size, |message| {
            on_socket(fd, message, |socket| socket.set_accept_icmps(accept != 0))
        })
    }
}

/// Writes the state of TCP-AO on a socket to `*info`.
///
/// `message`: as for wireseal_socket_add_key().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_get_info(
    fd: c_int,
    message: *mut c_char,
    message_size: usize,
    info: *mut wireseal_socket_info,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer and of the descriptor.
    unsafe {
        explained(message, message_size, |message| {
            let mut place = place(info)?;
            on_socket(fd, message, |socket| {
                let found = socket.info()?;
                let id = |id: Option<KeyId>| id.map_or(WIRESEAL_NO_KEY_ID, |id| id.0.into());
                place.write(wireseal_socket_info {
                    has_tcp_ao: found.is_some(),
                    required: found.is_some_and(|info| info.required),
                    accept_icmps: found.is_some_and(|info| info.accept_icmps),
                    current_key: id(found.and_then(|info| info.current_key)),
                    rnext_key: id(found.and_then(|info| info.rnext_key)),
                    counters: (&found.map(|info| info.counters).unwrap_or_default()).into(),
                    reserved: [0; 2],
                });
                Ok(())
            })
        })
    }
}

/// Lists the keys on a socket, whichever program put them there, without their secrets.
///
/// `keys`: room for `room` of them; `*count` is how many there are. If that is more than `room`, only `*count` is written, and the status is
/// WIRESEAL_STATUS_TOO_SMALL.
/// `message`: as for wireseal_socket_add_key().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_keys(
    fd: c_int,
    message: *mut c_char,
    message_size: usize,
    keys: *mut wireseal_socket_key,
    room: usize,
    count: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer and of the descriptor; `MaybeUninit` takes any octets.
    unsafe {
        explained(message, message_size, |message| {
            let (room, count) = (items_mut(keys.cast(), room)?, place(count)?);
            let mut found = std::vec::Vec::new();
            on_socket(fd, message, |socket| {
                found = socket.seen_keys()?;
                Ok(())
            })?;
            list(&found, room, count)
        })
    }
}

/// Resets a connection with a signed segment, even if there are other descriptors of it. Data that was not read is lost.
///
/// `message`: as for wireseal_socket_add_key().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_reset(
    fd: c_int,
    message: *mut c_char,
    message_size: usize,
) -> wireseal_status {
    // SAFETY: what C promises of the pointer and of the descriptor.
    unsafe { explained(message, message_size, |message| on_socket(fd, message, |socket| socket.reset())) }
}

/// Puts a TCP-MD5 key (RFC 2385) on a listening socket, for a peer that does not use TCP-AO yet. It replaces a TCP-MD5 key for the same
/// network.
///
/// `secret`: `secret_length` octets, 1 to 80. `vrf` and `message`: as for wireseal_socket_add_key().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_set_md5_key(
    fd: c_int,
    remote: *const wireseal_network,
    vrf: *const u32,
    secret: *const u8,
    secret_length: usize,
    message: *mut c_char,
    message_size: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer and of the descriptor.
    unsafe {
        explained(message, message_size, |message| {
            let (remote, vrf) = (IpCidr::try_from(given(remote)?)?, number_if_given(vrf)?);
            let secret = MasterKey::new(octets(secret, secret_length)?)?;
            on_socket(fd, message, |socket| socket.set_md5_key(remote, vrf, &secret))
        })
    }
}

/// Deletes the TCP-MD5 key for this network and VRF. A connection goes on unsigned without its key: close it first.
///
/// `vrf` and `message`: as for wireseal_socket_add_key().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_socket_delete_md5_key(
    fd: c_int,
    remote: *const wireseal_network,
    vrf: *const u32,
    message: *mut c_char,
    message_size: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer and of the descriptor.
    unsafe {
        explained(message, message_size, |message| {
            let (remote, vrf) = (IpCidr::try_from(given(remote)?)?, number_if_given(vrf)?);
            on_socket(fd, message, |socket| socket.delete_md5_key(remote, vrf))
        })
    }
}

/// # Safety
/// As for [`given`], if it is not null.
unsafe fn number_if_given(number: *const u32) -> Result<Option<u32>, Status> {
    // SAFETY: the caller's promise.
    if number.is_null() { Ok(None) } else { unsafe { given(number) }.map(|number| Some(*number)) }
}

/// Writes keys to C's room for them, if there is enough.
pub(crate) fn list(
    found: &[SeenKey],
    room: &mut [MaybeUninit<wireseal_socket_key>],
    mut count: Place<'_, usize>,
) -> Result<(), Status> {
    count.write(found.len());
    if found.len() > room.len() {
        return Err(Status::TooSmall);
    }
    for (place, key) in room.iter_mut().zip(found) {
        place.write(key.into());
    }
    Ok(())
}

impl From<&SeenKey> for wireseal_socket_key {
    fn from(key: &SeenKey) -> Self {
        Self {
            name: key.name.into(),
            algorithm: characters(&key.algorithm),
            mac_length: u8::try_from(key.mac_length).unwrap_or(u8::MAX),
            options_excluded: key.options == OptionCoverage::Excluded,
            is_current: key.is_current,
            is_rnext: key.is_rnext,
            good: key.good,
            bad: key.bad,
            reserved: [0; 2],
        }
    }
}

impl From<KeyName> for wireseal_key_name {
    fn from(name: KeyName) -> Self {
        Self {
            remote: name.remote.into(),
            send_id: name.send_id.0,
            recv_id: name.recv_id.0,
            in_vrf: name.vrf.is_some().into(),
            vrf: name.vrf.unwrap_or(0),
            reserved: 0,
        }
    }
}

impl TryFrom<&wireseal_key_name> for KeyName {
    type Error = Status;

    fn try_from(name: &wireseal_key_name) -> Result<Self, Status> {
        unused(&[name.reserved])?;
        Ok(Self {
            remote: (&name.remote).try_into()?,
            vrf: (name.in_vrf != 0).then_some(name.vrf),
            send_id: KeyId(name.send_id),
            recv_id: KeyId(name.recv_id),
        })
    }
}
