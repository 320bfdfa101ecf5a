//! The calls themselves: all of the crate's unsafe code.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_ulong};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::socklen_t;

use crate::layout::{Add, AoRepair, Del, GetKeys, InfoOpt, Md5Sig, RepairOption, RepairWindow, TcpInfo};

/// What libc lacks of `linux/tcp.h`.
pub(crate) const TCP_AO_ADD_KEY: c_int = 38;
pub(crate) const TCP_AO_DEL_KEY: c_int = 39;
pub(crate) const TCP_AO_INFO: c_int = 40;
pub(crate) const TCP_AO_GET_KEYS: c_int = 41;
pub(crate) const TCP_AO_REPAIR: c_int = 42;
pub(crate) const TCP_REPAIR_ON: c_int = 1;
/// Sends a window probe as repair ends, which the peer answers with what it has.
pub(crate) const TCP_REPAIR_OFF: c_int = 0;
pub(crate) const TCP_REPAIR_OFF_NO_WP: c_int = -1;
pub(crate) const TCP_NO_QUEUE: c_int = 0;
pub(crate) const TCP_RECV_QUEUE: c_int = 1;
pub(crate) const TCP_SEND_QUEUE: c_int = 2;

/// `SIOCOUTQ` of `linux/sockios.h`, octets sent and not acknowledged together with those not sent.
pub(crate) const SIOCOUTQ: c_ulong = libc::TIOCOUTQ as c_ulong;
/// `SIOCOUTQNSD`, octets not sent.
pub(crate) const SIOCOUTQNSD: c_ulong = libc::SIOCOUTQNSD;
/// `SIOCINQ`, octets not read.
pub(crate) const SIOCINQ: c_ulong = libc::FIONREAD as c_ulong;

/// What a socket option's value can be read from and written to.
///
/// # Safety
/// All bit patterns are values of the type, and it has no padding.
pub(crate) unsafe trait Plain: Sized {}

// SAFETY: integers, and structs of integers whose sizes are the sums of their fields', as `layout` asserts.
unsafe impl Plain for c_int {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for Add {}
// SAFETY: as above.
unsafe impl Plain for Del {}
// SAFETY: as above.
unsafe impl Plain for InfoOpt {}
// SAFETY: as above.
unsafe impl Plain for GetKeys {}
// SAFETY: as above.
unsafe impl Plain for AoRepair {}
// SAFETY: as above.
unsafe impl Plain for Md5Sig {}
// SAFETY: as above.
unsafe impl Plain for RepairWindow {}
// SAFETY: as above.
unsafe impl Plain for RepairOption {}
// SAFETY: as above.
unsafe impl Plain for TcpInfo {}

/// An option at level `IPPROTO_TCP` that is read as one `T`, and as nothing that the kernel would take for a length or an
/// address.
pub(crate) struct Readable<T>(c_int, PhantomData<T>);

pub(crate) const AO_INFO: Readable<InfoOpt> = Readable(TCP_AO_INFO, PhantomData);
pub(crate) const AO_REPAIR: Readable<AoRepair> = Readable(TCP_AO_REPAIR, PhantomData);
pub(crate) const INFO: Readable<TcpInfo> = Readable(libc::TCP_INFO, PhantomData);
pub(crate) const MAXSEG: Readable<u32> = Readable(libc::TCP_MAXSEG, PhantomData);
pub(crate) const QUEUE_SEQ: Readable<u32> = Readable(libc::TCP_QUEUE_SEQ, PhantomData);
pub(crate) const REPAIR_WINDOW: Readable<RepairWindow> = Readable(libc::TCP_REPAIR_WINDOW, PhantomData);
pub(crate) const TIMESTAMP: Readable<u32> = Readable(libc::TCP_TIMESTAMP, PhantomData);

/// `setsockopt` at level `IPPROTO_TCP`.
pub(crate) fn set<T: Plain>(fd: BorrowedFd<'_>, name: c_int, value: &T) -> io::Result<()> {
    set_all(fd, libc::IPPROTO_TCP, name, std::slice::from_ref(value))
}

/// `setsockopt` of an array.
pub(crate) fn set_all<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    values: &[T],
) -> io::Result<()> {
    let length = size_of_val(values) as socklen_t;
    // SAFETY: the kernel reads `length` octets, all of them initialised, and keeps no pointer.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, values.as_ptr().cast(), length) })
}

/// `getsockopt` at level `IPPROTO_TCP`, which for some options also reads what is asked from `value`.
pub(crate) fn get<T: Plain>(
    fd: BorrowedFd<'_>,
    Readable(name, _): Readable<T>,
    mut value: T,
) -> io::Result<T> {
    // SAFETY: what is `Readable` as a `T` is written to one `T`.
    unsafe { get_all(fd, libc::IPPROTO_TCP, name, std::slice::from_mut(&mut value)) }?;
    Ok(value)
}

/// The size of one of a socket's buffers: `SO_SNDBUF` or `SO_RCVBUF`.
pub(crate) fn get_buffer_size(fd: BorrowedFd<'_>, name: c_int) -> io::Result<c_int> {
    let mut value = 0;
    // SAFETY: at level `SOL_SOCKET` the kernel writes no more than the length it is told.
    unsafe { get_all(fd, libc::SOL_SOCKET, name, std::slice::from_mut(&mut value)) }?;
    Ok(value)
}

/// `getsockopt` of an array: the kernel is told the size of one element, as `TCP_AO_GET_KEYS` has it.
///
/// # Safety
/// The option must be one of which the kernel writes that much to each of no more elements than there are. For
/// `TCP_AO_GET_KEYS` the first one's `nkeys` must not exceed the length of the array.
unsafe fn get_all<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    values: &mut [T],
) -> io::Result<()> {
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: the caller vouches for what the kernel writes, and every bit pattern is a value.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, values.as_mut_ptr().cast(), &raw mut length)
    })
}

/// `TCP_AO_GET_KEYS` into all of `keys`, of which the first says what to get. Gives how many keys there are, which may be
/// more than there was room for.
pub(crate) fn get_keys(fd: BorrowedFd<'_>, keys: &mut [GetKeys]) -> io::Result<usize> {
    let room = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    let Some(first) = keys.first_mut() else { return Err(io::ErrorKind::InvalidInput.into()) };
    first.nkeys = room;
    // SAFETY: `nkeys` is no more than there is room for.
    unsafe { get_all(fd, libc::IPPROTO_TCP, TCP_AO_GET_KEYS, keys) }?;
    Ok(keys.first().map_or(0, |first| first.nkeys as usize))
}

/// A count of octets in one of a socket's queues.
pub(crate) fn queued(fd: BorrowedFd<'_>, request: c_ulong) -> io::Result<usize> {
    let mut octets: c_int = 0;
    // SAFETY: the requests this is called with write one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &raw mut octets) })?;
    usize::try_from(octets).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// What is in a queue, left there; never waits.
pub(crate) fn peek(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most the buffer's length into it.
    let received = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// The running kernel's release, as `uname -r` shows it.
pub(crate) fn kernel_release() -> io::Result<String> {
    // SAFETY: all zeros is a value of this struct of character arrays.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one such struct.
    check(unsafe { libc::uname(&raw mut name) })?;
    // SAFETY: the kernel ends the text with a NUL within the array, which lives as long as `name`.
    Ok(unsafe { CStr::from_ptr(name.release.as_ptr()) }.to_string_lossy().into_owned())
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
