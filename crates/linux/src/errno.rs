//! From errno to [`Error`]: the same errno means different things to different calls.

use std::io;
use std::net::IpAddr;

use cidr::IpCidr;
use wireseal_tcp_ao::KeyId;

use crate::error::{Call, Error, Refusal};
use crate::info::Change;
use crate::key::{InstalledKey, KeyName, SocketKey, Successor};

/// What the kernel was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked<'a> {
    Add(&'a SocketKey<'a>),
    Delete(&'a KeyName, Successor),
    Keys,
    Info,
    Change(&'a Change),
    SetMd5 { vrf: Option<u32> },
    DeleteMd5 { remote: IpCidr, vrf: Option<u32> },
    Repair,
}

/// What was seen of the socket after a call failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    pub(crate) is_tcp: bool,
    pub(crate) is_listening: bool,
    /// Never an IPv4-mapped address.
    pub(crate) peer: Option<IpAddr>,
}

impl Asked<'_> {
    const fn call(&self) -> Call {
        match self {
            Self::Add(_) => Call::AddKey,
            Self::Delete(..) => Call::DeleteKey,
            Self::Keys => Call::Keys,
            Self::Info => Call::Info,
            Self::Change(_) => Call::SetInfo,
            Self::SetMd5 { .. } => Call::SetMd5Key,
            Self::DeleteMd5 { .. } => Call::DeleteMd5Key,
            Self::Repair => Call::Repair,
        }
    }

    const fn is_md5(&self) -> bool {
        matches!(self, Self::SetMd5 { .. } | Self::DeleteMd5 { .. })
    }

    /// Whether keys were to become current or rnext key, which a listening socket does not have.
    const fn chooses_keys(&self) -> bool {
        match self {
            Self::Add(key) => key.set_current || key.set_rnext,
            Self::Delete(_, successor) => successor.current.is_some() || successor.rnext.is_some(),
            Self::Change(change) => change.current_key.is_some() || change.rnext_key.is_some(),
            _ => false,
        }
    }

    const fn remote(&self) -> Option<IpCidr> {
        match self {
            Self::Add(key) => Some(key.remote),
            _ => None,
        }
    }

    const fn vrf(&self) -> Option<u32> {
        match self {
            Self::Add(SocketKey { vrf, .. }) | Self::SetMd5 { vrf, .. } | Self::DeleteMd5 { vrf, .. } => *vrf,
            _ => None,
        }
    }
}

/// The error of a call that failed.
pub(crate) fn error(asked: &Asked<'_>, error: io::Error, circumstances: &Circumstances) -> Error {
    let Some(errno) = error.raw_os_error() else { return Error::Io(error) };
    match (errno, asked) {
        (libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::ENOTSOCK | libc::EINVAL, _)
            if !circumstances.is_tcp =>
        {
            Error::NotATcpSocket
        }
        (libc::ENOPROTOOPT, _) if !asked.is_md5() => Error::NotSupported,
        (libc::EEXIST, Asked::Add(key)) => {
            Error::IdInUse { send_id: key.mkt.send_id(), recv_id: key.mkt.recv_id() }
        }
        (libc::EKEYREJECTED, Asked::Add(_) | Asked::Change(_)) => Error::Md5KeyInTheWay,
        (libc::EKEYREJECTED, Asked::SetMd5 { .. }) => Error::AoKeyInTheWay,
        (libc::EMSGSIZE, Asked::Add(key)) => Error::MacTooLong { octets: key.mkt.parameters().mac_length },
        (libc::ENOENT, Asked::Add(key)) => Error::AlgorithmMissing(key.mkt.parameters().algorithm),
        (libc::ENOENT, Asked::Delete(key, _)) => no_such_key(Some(key.send_id), Some(key.recv_id)),
        (libc::ENOENT, Asked::Change(change)) => no_such_key(change.current_key, change.rnext_key),
        (libc::ENOENT, Asked::DeleteMd5 { remote, .. }) => Error::NoSuchMd5Key(*remote),
        (libc::EBUSY, Asked::Delete(key, _)) => Error::KeyInUse(**key),
        (libc::EISCONN, Asked::Add(_) | Asked::Delete(..) | Asked::Change(_)) => Error::Connected,
        (libc::EPERM, Asked::Repair) => Error::NoPermission { what: "TCP_REPAIR" },
        (libc::EPERM, _) => Error::NoPermission { what: "the call" },
        (libc::ENOMEM | libc::ENOBUFS, _) => Error::NoMemory,
        (libc::EINVAL, _) => Error::Refused { call: asked.call(), because: refusal(asked, circumstances) },
        _ => Error::Io(error),
    }
}

const fn no_such_key(send_id: Option<KeyId>, recv_id: Option<KeyId>) -> Error {
    Error::NoSuchKey { send_id, recv_id }
}

/// The kernel checks in this order: the peer, the flags, the VRF.
fn refusal(asked: &Asked<'_>, circumstances: &Circumstances) -> Refusal {
    if let (Some(remote), Some(peer)) = (asked.remote(), circumstances.peer) {
        let remote = crate::address::canonical(remote);
        if !remote.contains(&peer) {
            return Refusal::AnotherPeer { remote, peer };
        }
    }
    match asked.vrf() {
        _ if circumstances.is_listening && asked.chooses_keys() => Refusal::Listening,
        Some(index) if index != 0 => Refusal::NotThisVrf(index),
        _ => Refusal::Unknown,
    }
}

/// Deleting says ENOENT for the key and for its successors alike: which of the successors it is, if the key is there.
pub(crate) fn missing_successor(keys: &[InstalledKey], key: &KeyName, successor: Successor) -> Option<Error> {
    if !keys.iter().any(|installed| installed.name == *key) {
        return None;
    }
    // The kernel passes over a key that is its own successor.
    if successor.current == Some(key.send_id) || successor.rnext == Some(key.recv_id) {
        return Some(Error::KeyInUse(*key));
    }
    let has_send_id = |id| keys.iter().any(|installed| installed.name.send_id == id);
    let has_recv_id = |id| keys.iter().any(|installed| installed.name.recv_id == id);
    let send_id = successor.current.filter(|id| !has_send_id(*id));
    let recv_id = successor.rnext.filter(|id| !has_recv_id(*id));
    (send_id.is_some() || recv_id.is_some()).then_some(Error::NoSuchKey { send_id, recv_id })
}

#[cfg(test)]
mod tests;
