//! The system calls, and all of the crate's unsafe code. Structs and option numbers are those of `linux/tcp.h`, `linux/if_packet.h` and
//! `linux/seccomp.h`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_ulong};
use std::io;
use std::marker::PhantomData;
use std::mem::{self, offset_of};
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::slice;

use libc::{seccomp_data, seccomp_notif, seccomp_notif_resp, socklen_t};
use linux_raw_sys::net::{
    __kernel_sockaddr_storage, TCP_AO_GET_KEYS, TCP_AO_INFO, TCP_AO_REPAIR, TCP_INFO, TCP_MAXSEG,
    TCP_QUEUE_SEQ, TCP_REPAIR_WINDOW, TCP_TIMESTAMP, tcp_ao_add, tcp_ao_del, tcp_ao_getsockopt,
    tcp_ao_info_opt, tcp_ao_repair, tcp_info, tcp_md5sig, tcp_repair_opt, tcp_repair_window,
};
use socket2::{SockAddr, SockAddrStorage};
use zeroize::Zeroize;

use crate::bpf::Instruction;

/// Octets sent but not acknowledged, plus octets not sent (`SIOCOUTQ`).
pub(crate) const SIOCOUTQ: c_ulong = libc::TIOCOUTQ as c_ulong;
/// Octets not sent.
pub(crate) const SIOCOUTQNSD: c_ulong = libc::SIOCOUTQNSD;
/// Octets not read (`SIOCINQ`).
pub(crate) const SIOCINQ: c_ulong = libc::FIONREAD as c_ulong;

/// A type that the kernel can read and write.
///
/// # Safety
/// Every bit pattern is a value of the type, and it has no padding.
pub(crate) unsafe trait Plain: Sized {}

// SAFETY: an integer.
unsafe impl Plain for c_int {}
// SAFETY: an integer.
unsafe impl Plain for u32 {}

const _: () = assert!(size_of::<libc::packet_mreq>() == 4 + 2 + 2 + 8);
// SAFETY: integers, without padding as asserted above.
unsafe impl Plain for libc::packet_mreq {}

/// Implements [`Plain`] for structs given the octets of each field; fails to compile if there is padding.
macro_rules! plain_structs {
    ($($name:ident = $($field:ident $octets:literal),+;)+) => {$(
        const _: () = {
            let mut end = 0;
            $(
                assert!(offset_of!($name, $field) == end, stringify!($field));
                end += $octets;
            )+
            assert!(size_of::<$name>() == end, "padding at the end");
        };
        // SAFETY: integers, arrays of them and a pointer that is never followed, without padding as asserted above.
        unsafe impl Plain for $name {}
    )+};
}

plain_structs! {
    tcp_ao_add = addr 128, alg_name 64, ifindex 4, _bitfield_1 4, reserved2 2, prefix 1, sndid 1, rcvid 1, maclen 1,
        keyflags 1, keylen 1, key 80;
    tcp_ao_del = addr 128, ifindex 4, _bitfield_1 4, reserved2 2, prefix 1, sndid 1, rcvid 1, current_key 1, rnext 1,
        keyflags 1;
    tcp_ao_info_opt = _bitfield_1 4, reserved2 2, current_key 1, rnext 1, pkt_good 8, pkt_bad 8, pkt_key_not_found 8,
        pkt_ao_required 8, pkt_dropped_icmp 8;
    tcp_ao_getsockopt = addr 128, alg_name 64, key 80, nkeys 4, _bitfield_1 2, sndid 1, rcvid 1, prefix 1, maclen 1,
        keyflags 1, keylen 1, ifindex 4, pkt_good 8, pkt_bad 8;
    tcp_ao_repair = snt_isn 4, rcv_isn 4, snd_sne 4, rcv_sne 4;
    tcp_md5sig = tcpm_addr 128, tcpm_flags 1, tcpm_prefixlen 1, tcpm_keylen 2, tcpm_ifindex 4, tcpm_key 80;
    tcp_repair_window = snd_wl1 4, snd_wnd 4, max_window 4, rcv_wnd 4, rcv_wup 4;
    tcp_repair_opt = opt_code 4, opt_val 4;
    seccomp_notif_resp = id 8, val 8, error 4, flags 4;
    seccomp_data = nr 4, arch 4, instruction_pointer 8, args 48;
    seccomp_notif = id 8, pid 4, flags 4, data 64;
}

// Octets first, then 39 numbers of 4 octets, 10 of 8 and 2 of 2: no padding.
const _: () = assert!(size_of::<tcp_info>() == 8 + 39 * 4 + 10 * 8 + 2 * 2);
// SAFETY: integers, without padding as asserted above.
unsafe impl Plain for tcp_info {}

pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: zeros are a value of the type.
    unsafe { mem::zeroed() }
}

/// The octets of a value, for the kernel.
pub(crate) fn octets<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: without padding every octet is initialised, and the slice borrows the value.
    unsafe { slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A struct that holds a secret, wiped on drop.
#[repr(transparent)]
pub(crate) struct Secret<T: Plain>(T);

// SAFETY: it is a `T`.
unsafe impl<T: Plain> Plain for Secret<T> {}

impl<T: Plain> Deref for Secret<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Plain> DerefMut for Secret<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Plain> Secret<T> {
    pub(crate) fn wipe(&mut self) {
        // SAFETY: as in `octets`; whatever is written is a value of the type.
        let octets: &mut [u8] =
            unsafe { slice::from_raw_parts_mut((&raw mut self.0).cast(), size_of::<T>()) };
        octets.zeroize();
    }
}

impl<T: Plain> Drop for Secret<T> {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// An address without a port, as the kernel's structs hold it.
pub(crate) fn to_kernel(address: IpAddr) -> __kernel_sockaddr_storage {
    let storage = SockAddr::from(SocketAddr::new(address, 0)).as_storage();
    // SAFETY: both declare `struct sockaddr_storage`, and socket2 starts from zeros.
    unsafe { mem::transmute::<SockAddrStorage, __kernel_sockaddr_storage>(storage) }
}

/// The address that the kernel wrote, unless it is of another family than IPv4 and IPv6.
pub(crate) fn from_kernel(address: __kernel_sockaddr_storage) -> Option<IpAddr> {
    // SAFETY: as above; the whole struct is initialised, whichever address it holds.
    let address = unsafe {
        let storage = mem::transmute::<__kernel_sockaddr_storage, SockAddrStorage>(address);
        SockAddr::new(storage, size_of::<SockAddrStorage>() as socklen_t)
    };
    Some(address.as_socket()?.ip())
}

/// An option at level `IPPROTO_TCP` for which the kernel writes one `T` and reads no length or address from it.
pub(crate) struct Readable<T>(u32, PhantomData<T>);

pub(crate) const AO_INFO: Readable<tcp_ao_info_opt> = Readable(TCP_AO_INFO, PhantomData);
pub(crate) const AO_REPAIR: Readable<tcp_ao_repair> = Readable(TCP_AO_REPAIR, PhantomData);
pub(crate) const INFO: Readable<tcp_info> = Readable(TCP_INFO, PhantomData);
pub(crate) const MAXSEG: Readable<u32> = Readable(TCP_MAXSEG, PhantomData);
pub(crate) const QUEUE_SEQ: Readable<u32> = Readable(TCP_QUEUE_SEQ, PhantomData);
pub(crate) const REPAIR_WINDOW: Readable<tcp_repair_window> = Readable(TCP_REPAIR_WINDOW, PhantomData);
pub(crate) const TIMESTAMP: Readable<u32> = Readable(TCP_TIMESTAMP, PhantomData);

/// `setsockopt` at level `IPPROTO_TCP`.
pub(crate) fn set<T: Plain>(fd: BorrowedFd<'_>, name: u32, value: &T) -> io::Result<()> {
    set_all(fd, libc::IPPROTO_TCP, name as c_int, slice::from_ref(value))
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

/// `getsockopt` at level `IPPROTO_TCP`.
pub(crate) fn get<T: Plain>(fd: BorrowedFd<'_>, Readable(name, _): Readable<T>) -> io::Result<T> {
    let mut value = zeroed();
    // SAFETY: for an option that is `Readable` as a `T` the kernel writes one `T`.
    unsafe { get_all(fd, name, slice::from_mut(&mut value)) }?;
    Ok(value)
}

/// `getsockopt` of an array at level `IPPROTO_TCP`. The kernel is told the size of one element, as `TCP_AO_GET_KEYS` wants it.
///
/// # Safety
/// The kernel must write no more than that to each element, and to no more elements than there are. For `TCP_AO_GET_KEYS` the
/// first one's `nkeys` must not exceed the length of the array.
unsafe fn get_all<T: Plain>(fd: BorrowedFd<'_>, name: u32, values: &mut [T]) -> io::Result<()> {
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: the caller vouches for how much the kernel writes, and every bit pattern is a value.
    check(unsafe {
        let values = values.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, name as c_int, values, &raw mut length)
    })
}

/// `TCP_AO_GET_KEYS` into all of `keys`; the first one says what to get. Returns how many keys the socket has, which may be
/// more than `keys` has room for.
pub(crate) fn get_keys(fd: BorrowedFd<'_>, keys: &mut [Secret<tcp_ao_getsockopt>]) -> io::Result<usize> {
    let room = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    let Some(first) = keys.first_mut() else { return Err(io::ErrorKind::InvalidInput.into()) };
    first.nkeys = room;
    // SAFETY: `nkeys` does not exceed the length of the array.
    unsafe { get_all(fd, TCP_AO_GET_KEYS, keys) }?;
    Ok(keys.first().map_or(0, |first| first.nkeys as usize))
}

/// The number of octets in one of a socket's queues.
pub(crate) fn queued(fd: BorrowedFd<'_>, request: c_ulong) -> io::Result<usize> {
    let mut octets: c_int = 0;
    // SAFETY: the requests above write one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &raw mut octets) })?;
    usize::try_from(octets).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Copies what is in a queue and leaves it there. Never waits.
pub(crate) fn peek(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most the buffer's length into it.
    let received = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Dissolves a connection (`connect` to AF_UNSPEC): Linux resets one that is open.
pub(crate) fn disconnect(fd: BorrowedFd<'_>) -> io::Result<()> {
    let nobody = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    // SAFETY: the kernel reads one such struct.
    check(unsafe { libc::connect(fd.as_raw_fd(), &raw const nobody, size_of_val(&nobody) as socklen_t) })
}

/// Binds a packet socket to an interface, or to all for index 0, and receives packets of this EtherType in network byte order: none
/// for 0.
pub(crate) fn bind_packet_socket(fd: BorrowedFd<'_>, index: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol,
        sll_ifindex: c_int::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?,
        ..NO_ADDRESS
    };
    // SAFETY: the kernel reads one such struct.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), ADDRESS_LENGTH) })
}

/// The address that a packet socket is bound to, with the type of its interface (`ARPHRD_`).
pub(crate) fn packet_socket_address(fd: BorrowedFd<'_>) -> io::Result<libc::sockaddr_ll> {
    let (mut address, mut length) = (NO_ADDRESS, ADDRESS_LENGTH);
    // SAFETY: the kernel writes at most `length` octets, and every bit pattern is a value of this struct of integers.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut length) })?;
    Ok(address)
}

const ADDRESS_LENGTH: socklen_t = size_of::<libc::sockaddr_ll>() as socklen_t;
const NO_ADDRESS: libc::sockaddr_ll = libc::sockaddr_ll {
    sll_family: 0,
    sll_protocol: 0,
    sll_ifindex: 0,
    sll_hatype: 0,
    sll_pkttype: 0,
    sll_halen: 0,
    sll_addr: [0; 8],
};

/// What a packet socket has counted since the last call: packets that passed its filter, and those of them that were dropped.
pub(crate) fn packet_statistics(fd: BorrowedFd<'_>) -> io::Result<[u32; 2]> {
    // `struct tpacket_stats`: two integers.
    let mut counts = [0_u32; 2];
    let mut length = size_of_val(&counts) as socklen_t;
    // SAFETY: the kernel writes at most `length` octets.
    check(unsafe {
        let counts = counts.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, counts, &raw mut length)
    })?;
    Ok(counts)
}

/// How many packets one call receives at most.
pub(crate) const PACKETS_AT_ONCE: usize = 64;

/// What the kernel says about a received packet.
#[derive(Clone, Copy)]
pub(crate) struct PacketHead {
    /// Where it was received.
    pub(crate) from: libc::sockaddr_ll,
    /// Its octets, received or cut off.
    pub(crate) length: usize,
    /// Control messages, and how many octets of them there are: a time and `struct tpacket_auxdata` take 72.
    pub(crate) control: [u8; 128],
    pub(crate) control_length: usize,
}

impl PacketHead {
    pub(crate) const EMPTY: Self = Self { from: NO_ADDRESS, length: 0, control: [0; 128], control_length: 0 };
}

/// Receives packets that are there, at most [`PACKETS_AT_ONCE`], each into a piece of `buffers` that has `piece` octets, of which the first
/// `gap` are left alone. Returns how many. Never waits.
pub(crate) fn receive_packets(
    fd: BorrowedFd<'_>,
    buffers: &mut [u8],
    piece: usize,
    gap: usize,
    heads: &mut [PacketHead; PACKETS_AT_ONCE],
) -> io::Result<usize> {
    // SAFETY: zeros are a value of these structs: no pointers and no lengths.
    let (mut messages, mut parts) = unsafe {
        (mem::zeroed::<[libc::mmsghdr; PACKETS_AT_ONCE]>(), mem::zeroed::<[libc::iovec; PACKETS_AT_ONCE]>())
    };
    let mut room = 0;
    for (((message, part), head), buffer) in
        messages.iter_mut().zip(&mut parts).zip(&mut *heads).zip(buffers.chunks_exact_mut(piece))
    {
        let buffer = buffer.get_mut(gap..).unwrap_or_default();
        *part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let header = &mut message.msg_hdr;
        (header.msg_name, header.msg_namelen) = ((&raw mut head.from).cast(), ADDRESS_LENGTH);
        (header.msg_iov, header.msg_iovlen) = (part, 1);
        header.msg_control = head.control.as_mut_ptr().cast();
        header.msg_controllen = head.control.len() as _;
        room += 1;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: each of the first `room` messages points to a struct of integers and to octets that are mutably borrowed for the whole
    // call, each with its own length, and no two to the same.
    let received = unsafe {
        libc::recvmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), room, flags as _, std::ptr::null_mut())
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (head, message) in heads.iter_mut().zip(&messages[..received]) {
        head.length = message.msg_len as usize;
        // Its type differs between C libraries.
        #[allow(clippy::unnecessary_cast)]
        let control_length = message.msg_hdr.msg_controllen as usize;
        head.control_length = control_length.min(head.control.len());
    }
    Ok(received)
}

/// Puts a seccomp filter on the calling thread, which with its children then gets no privileges from what it executes. Returns the
/// descriptor on which the filter notifies of calls.
pub(crate) fn install_filter(program: &[Instruction]) -> io::Result<OwnedFd> {
    let encode = |&Instruction { code, if_true: jt, if_false: jf, operand: k }: &Instruction| {
        libc::sock_filter { code, jt, jf, k }
    };
    let mut filter: Vec<_> = program.iter().map(encode).collect();
    let length = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // SAFETY: this call takes four integers. What `prctl` is passed has the size of a long.
    check(unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong)
    })?;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // SAFETY: the kernel copies the program's `len` instructions, which live until after the call.
    let descriptor =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: with this flag the call returns a new descriptor, which nothing else in this process has.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as c_int) })
}

/// Waits until a seccomp filter notifies of a call. ENOENT if its caller has ended.
pub(crate) fn next_call(fd: BorrowedFd<'_>) -> io::Result<seccomp_notif> {
    // The kernel wants zeros.
    let mut call: seccomp_notif = zeroed();
    // SAFETY: the kernel writes one such struct, whose size the request's number contains.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) })?;
    Ok(call)
}

/// Answers a call. ENOENT if its caller no longer waits.
pub(crate) fn answer_call(fd: BorrowedFd<'_>, answer: &seccomp_notif_resp) -> io::Result<()> {
    let answer = std::ptr::from_ref(answer);
    // SAFETY: the kernel reads one such struct, whose size the request's number contains.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, answer) })
}

/// ENOENT if the caller no longer waits.
pub(crate) fn awaits_answer(fd: BorrowedFd<'_>, call: u64) -> io::Result<()> {
    // SAFETY: the kernel reads one integer of this size.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call) })
}

/// The running kernel's release, as `uname -r` prints it.
pub(crate) fn kernel_release() -> io::Result<String> {
    // SAFETY: zeros are a value of this struct of character arrays.
    let mut name: libc::utsname = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one such struct.
    check(unsafe { libc::uname(&raw mut name) })?;
    // SAFETY: the kernel ends the text with a NUL within the array, which lives as long as `name`.
    Ok(unsafe { CStr::from_ptr(name.release.as_ptr()) }.to_string_lossy().into_owned())
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
