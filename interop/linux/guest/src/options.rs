//! The kernel's own calls for TCP-AO, and the lab's unsafe code: with them a row shows what the kernel refuses and `wireseal-linux` never asks
//! for.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use anyhow::{Context, Result, ensure};
use linux_raw_sys::net::{
    TCP_AO_ADD_KEY, TCP_AO_DEL_KEY, TCP_AO_GET_KEYS, TCP_AO_INFO, tcp_ao_add, tcp_ao_del, tcp_ao_getsockopt,
    tcp_ao_info_opt,
};
use socket2::{SockAddr, Socket};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use wireseal_interop_linux_guest::{AoCall, Buffer, CallOption, Called, Field};

const ALGORITHM: &[u8] = b"hmac(sha1)";
/// Every octet of the secret.
const SECRET: u8 = 0x5e;
/// More octets than the kernel's struct has.
const GROWTH: usize = 100;

/// A number in a struct: its first octet, and how many octets it has, or which bit it is.
#[derive(Clone, Copy)]
enum Place {
    Octets(usize, usize),
    Bit(usize, u8),
}

/// The size of the call's struct.
const fn size(call: AoCall) -> usize {
    match call {
        AoCall::AddKey => size_of::<tcp_ao_add>(),
        AoCall::DeleteKey => size_of::<tcp_ao_del>(),
        AoCall::SetInfo | AoCall::GetInfo => size_of::<tcp_ao_info_opt>(),
        AoCall::GetKeys => size_of::<tcp_ao_getsockopt>(),
    }
}

/// Where a field is; `None` if the struct has no such field.
fn place(call: AoCall, field: Field) -> Option<Place> {
    use Field::*;
    use Place::{Bit, Octets};

    let has_address = !matches!(call, AoCall::SetInfo | AoCall::GetInfo);
    Some(match (call, field) {
        // `struct sockaddr`: the address family, and the port.
        (_, AddressFamily) if has_address => Octets(0, 2),
        (_, Port) if has_address => Octets(2, 2),

        (AoCall::AddKey, Algorithm) => Octets(offset_of!(tcp_ao_add, alg_name), 8),
        (AoCall::AddKey, Interface) => Octets(offset_of!(tcp_ao_add, ifindex), 4),
        (AoCall::AddKey, IsCurrent) => Bit(offset_of!(tcp_ao_add, _bitfield_1), 0),
        (AoCall::AddKey, IsRnext) => Bit(offset_of!(tcp_ao_add, _bitfield_1), 1),
        (AoCall::AddKey, Reserved) => Bit(offset_of!(tcp_ao_add, _bitfield_1), 2),
        (AoCall::AddKey, Reserved2) => Octets(offset_of!(tcp_ao_add, reserved2), 2),
        (AoCall::AddKey, Prefix) => Octets(offset_of!(tcp_ao_add, prefix), 1),
        (AoCall::AddKey, SendId) => Octets(offset_of!(tcp_ao_add, sndid), 1),
        (AoCall::AddKey, RecvId) => Octets(offset_of!(tcp_ao_add, rcvid), 1),
        (AoCall::AddKey, MacLength) => Octets(offset_of!(tcp_ao_add, maclen), 1),
        (AoCall::AddKey, KeyFlags) => Octets(offset_of!(tcp_ao_add, keyflags), 1),
        (AoCall::AddKey, KeyLength) => Octets(offset_of!(tcp_ao_add, keylen), 1),

        (AoCall::DeleteKey, Interface) => Octets(offset_of!(tcp_ao_del, ifindex), 4),
        (AoCall::DeleteKey, IsCurrent) => Bit(offset_of!(tcp_ao_del, _bitfield_1), 0),
        (AoCall::DeleteKey, IsRnext) => Bit(offset_of!(tcp_ao_del, _bitfield_1), 1),
        (AoCall::DeleteKey, Async) => Bit(offset_of!(tcp_ao_del, _bitfield_1), 2),
        (AoCall::DeleteKey, Reserved) => Bit(offset_of!(tcp_ao_del, _bitfield_1), 3),
        (AoCall::DeleteKey, Reserved2) => Octets(offset_of!(tcp_ao_del, reserved2), 2),
        (AoCall::DeleteKey, Prefix) => Octets(offset_of!(tcp_ao_del, prefix), 1),
        (AoCall::DeleteKey, SendId) => Octets(offset_of!(tcp_ao_del, sndid), 1),
        (AoCall::DeleteKey, RecvId) => Octets(offset_of!(tcp_ao_del, rcvid), 1),
        (AoCall::DeleteKey, Current) => Octets(offset_of!(tcp_ao_del, current_key), 1),
        (AoCall::DeleteKey, Rnext) => Octets(offset_of!(tcp_ao_del, rnext), 1),
        (AoCall::DeleteKey, KeyFlags) => Octets(offset_of!(tcp_ao_del, keyflags), 1),

        (AoCall::SetInfo, IsCurrent) => Bit(offset_of!(tcp_ao_info_opt, _bitfield_1), 0),
        (AoCall::SetInfo, IsRnext) => Bit(offset_of!(tcp_ao_info_opt, _bitfield_1), 1),
        (AoCall::SetInfo, Required) => Bit(offset_of!(tcp_ao_info_opt, _bitfield_1), 2),
        (AoCall::SetInfo, SetCounters) => Bit(offset_of!(tcp_ao_info_opt, _bitfield_1), 3),
        (AoCall::SetInfo, AcceptIcmps) => Bit(offset_of!(tcp_ao_info_opt, _bitfield_1), 4),
        (AoCall::SetInfo, Reserved) => Bit(offset_of!(tcp_ao_info_opt, _bitfield_1), 5),
        (AoCall::SetInfo, Reserved2) => Octets(offset_of!(tcp_ao_info_opt, reserved2), 2),
        (AoCall::SetInfo, Current) => Octets(offset_of!(tcp_ao_info_opt, current_key), 1),
        (AoCall::SetInfo, Rnext) => Octets(offset_of!(tcp_ao_info_opt, rnext), 1),
        (AoCall::SetInfo, Good) => Octets(offset_of!(tcp_ao_info_opt, pkt_good), 8),
        (AoCall::SetInfo, Bad) => Octets(offset_of!(tcp_ao_info_opt, pkt_bad), 8),

        (AoCall::GetKeys, Room) => Octets(offset_of!(tcp_ao_getsockopt, nkeys), 4),
        (AoCall::GetKeys, IsCurrent) => Bit(offset_of!(tcp_ao_getsockopt, _bitfield_1), 0),
        (AoCall::GetKeys, IsRnext) => Bit(offset_of!(tcp_ao_getsockopt, _bitfield_1), 1),
        (AoCall::GetKeys, GetAll) => Bit(offset_of!(tcp_ao_getsockopt, _bitfield_1), 2),
        (AoCall::GetKeys, Reserved) => Bit(offset_of!(tcp_ao_getsockopt, _bitfield_1), 3),
        (AoCall::GetKeys, SendId) => Octets(offset_of!(tcp_ao_getsockopt, sndid), 1),
        (AoCall::GetKeys, RecvId) => Octets(offset_of!(tcp_ao_getsockopt, rcvid), 1),
        (AoCall::GetKeys, Prefix) => Octets(offset_of!(tcp_ao_getsockopt, prefix), 1),
        (AoCall::GetKeys, KeyFlags) => Octets(offset_of!(tcp_ao_getsockopt, keyflags), 1),
        (AoCall::GetKeys, Interface) => Octets(offset_of!(tcp_ao_getsockopt, ifindex), 4),
        (AoCall::GetKeys, Good) => Octets(offset_of!(tcp_ao_getsockopt, pkt_good), 8),
        (AoCall::GetKeys, Bad) => Octets(offset_of!(tcp_ao_getsockopt, pkt_bad), 8),
        _ => return None,
    })
}

/// Writes a field; the guests have the lowest octet first.
fn write(octets: &mut [u8], call: AoCall, field: Field, value: u64) -> Result<()> {
    match place(call, field).with_context(|| format!("{call:?} has no {field:?}"))? {
        Place::Octets(at, length) => octets[at..at + length].copy_from_slice(&value.to_le_bytes()[..length]),
        Place::Bit(at, bit) => octets[at] = octets[at] & !(1 << bit) | u8::from(value != 0) << bit,
    }
    Ok(())
}

/// Makes the call.
pub fn call(socket: &Socket, request: &CallOption) -> Result<Called> {
    let CallOption { call, remote, ref fields, buffer, .. } = *request;
    let whole = size(call);
    // The kernel is told this length for one struct. The buffer has room for as many as the call asks for.
    let length = match buffer {
        Buffer::Cut(octets) => whole - octets as usize,
        Buffer::Grown(_) => whole + GROWTH,
        _ => whole,
    };
    let room = fields.iter().rfind(|(field, _)| *field == Field::Room).map_or(1, |(_, room)| *room as usize);
    ensure!(room <= 64, "the guest has no room for {room} keys");
    let mut octets = vec![0; whole.max(length) * room.max(1)];
    if let Buffer::Grown(filler) = buffer {
        octets[whole..length].fill(filler);
    }
    if let Some(remote) = remote {
        let address = SockAddr::from(SocketAddr::new(remote, 0));
        // SAFETY: socket2 starts from zeros, so that all octets of the storage are initialised.
        let address =
            unsafe { std::slice::from_raw_parts(address.as_ptr().cast::<u8>(), address.len() as usize) };
        octets[..address.len()].copy_from_slice(address);
    }
    if call == AoCall::AddKey {
        let name = offset_of!(tcp_ao_add, alg_name);
        octets[name..name + ALGORITHM.len()].copy_from_slice(ALGORITHM);
        octets[offset_of!(tcp_ao_add, key)..whole].fill(SECRET);
    }
    for (field, value) in fields {
        write(&mut octets, call, *field, *value)?;
    }
    let told = if buffer == Buffer::NegativeLength { u32::MAX } else { length as u32 };
    let value = if buffer == Buffer::Null { None } else { Some(&mut octets[..]) };
    let done = match call {
        AoCall::AddKey => set(socket.as_fd(), TCP_AO_ADD_KEY, value, told),
        AoCall::DeleteKey => set(socket.as_fd(), TCP_AO_DEL_KEY, value, told),
        AoCall::SetInfo => set(socket.as_fd(), TCP_AO_INFO, value, told),
        AoCall::GetInfo | AoCall::GetKeys => {
            let name = if call == AoCall::GetInfo { TCP_AO_INFO } else { TCP_AO_GET_KEYS };
            let told = if buffer == Buffer::NullLength { None } else { Some(told) };
            get(socket.as_fd(), name, value, told)
        }
    };
    let mut called = Called { errno: 0, keys: Vec::new(), found: 0 };
    match done {
        Err(error) => called.errno = error.raw_os_error().context("an error without errno")?,
        Ok(()) if call == AoCall::GetKeys => {
            let found = offset_of!(tcp_ao_getsockopt, nkeys);
            called.found = octets[found..found + 4].try_into().map(u32::from_le_bytes)?;
            let keys = octets.chunks(length).take(called.found as usize);
            let ids = |key: &[u8]| {
                (key[offset_of!(tcp_ao_getsockopt, sndid)], key[offset_of!(tcp_ao_getsockopt, rcvid)])
            };
            called.keys = keys.map(ids).collect();
        }
        Ok(()) => {}
    }
    Ok(called)
}

/// `setsockopt`, with these octets or with a null pointer. The kernel is told this length, which may be shorter than the octets.
fn set(fd: BorrowedFd<'_>, name: u32, value: Option<&mut [u8]>, length: u32) -> io::Result<()> {
    debug_assert!(value.as_ref().is_none_or(|value| length == u32::MAX || length as usize <= value.len()));
    let value = value.map_or(ptr::null(), |value| value.as_ptr());
    // SAFETY: the kernel reads at most the struct that it knows, none of it behind a null pointer or for a negative length, and no more
    // than `length` octets, all of which are initialised.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, name as c_int, value.cast(), length) })
}

/// `getsockopt` into these octets or behind a null pointer, with this length for one struct or behind a null pointer. The octets have room for
/// as many structs of that length as they say.
fn get(fd: BorrowedFd<'_>, name: u32, value: Option<&mut [u8]>, length: Option<u32>) -> io::Result<()> {
    let mut told = length.unwrap_or_default();
    let length = if length.is_some() { &raw mut told } else { ptr::null_mut() };
    let value = value.map_or(ptr::null_mut(), |value| value.as_mut_ptr());
    // SAFETY: the kernel writes no more than `told` octets for each key that the octets say there is room for, and nothing behind a null
    // pointer or for a negative length.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, name as c_int, value.cast(), length) })
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
