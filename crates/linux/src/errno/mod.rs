//! From errno to [`Error`]: the same errno means different things for different calls.

use std::io;
use std::net::IpAddr;

use cidr::IpCidr;
use wireseal_tcp_ao::canonical_network;

use crate::info::Change;
use crate::{EinvalReason, Error, InstalledKey, KeyName, SocketKey, Successor};

/// The request to the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    AddKey(&'a SocketKey<'a>),
    DeleteKey(&'a KeyName, Successor),
    GetKeys,
    GetInfo,
    SetInfo(&'a Change),
    SetMd5Key { vrf: Option<u32> },
    DeleteMd5Key { remote: IpCidr, vrf: Option<u32> },
    Repair,
}

/// The state of the socket when a call failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketFacts {
    pub(crate) is_tcp: bool,
    pub(crate) is_listening: bool,
    /// Never an IPv4-mapped address.
    pub(crate) peer: Option<IpAddr>,
}

impl Request<'_> {
    const fn call(&self) -> &'static str {
        match self {
            Self::AddKey(_) => "TCP_AO_ADD_KEY",
            Self::DeleteKey(..) => "TCP_AO_DEL_KEY",
            Self::GetKeys => "TCP_AO_GET_KEYS",
            Self::GetInfo => "TCP_AO_INFO (reading)",
            Self::SetInfo(_) => "TCP_AO_INFO (writing)",
            Self::SetMd5Key { .. } => "TCP_MD5SIG_EXT (adding)",
            Self::DeleteMd5Key { .. } => "TCP_MD5SIG_EXT (deleting)",
            Self::Repair => "TCP_REPAIR",
        }
    }

    const fn is_md5(&self) -> bool {
        matches!(self, Self::SetMd5Key { .. } | Self::DeleteMd5Key { .. })
    }

    /// Whether it names the current or the rnext key, which a listening socket does not have.
    const fn chooses_keys(&self) -> bool {
        match self {
            Self::AddKey(key) => key.set_current || key.set_rnext,
            Self::DeleteKey(_, successor) => successor.current.is_some() || successor.rnext.is_some(),
            Self::SetInfo(change) => change.current_key.is_some() || change.rnext_key.is_some(),
            _ => false,
        }
    }

    const fn vrf(&self) -> Option<u32> {
        match self {
            Self::AddKey(SocketKey { vrf, .. })
            | Self::SetMd5Key { vrf, .. }
            | Self::DeleteMd5Key { vrf, .. } => *vrf,
            _ => None,
        }
    }

    /// The reason why the call failed with `error` on such a socket.
    pub(crate) fn error(&self, error: io::Error, socket: &SocketFacts) -> Error {
        let Some(errno) = error.raw_os_error() else { return Error::Io(error) };
        match (errno, self) {
            (libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::ENOTSOCK | libc::EINVAL, _) if !socket.is_tcp => {
                Error::NotATcpSocket
            }
            (libc::ENOPROTOOPT, _) if !self.is_md5() => Error::NotSupported,
            (libc::EEXIST, Self::AddKey(key)) => {
                Error::IdInUse { send_id: key.mkt.send_id(), recv_id: key.mkt.recv_id() }
            }
            (libc::EKEYREJECTED, Self::AddKey(_) | Self::SetInfo(_)) => Error::Md5KeyInTheWay,
            (libc::EKEYREJECTED, Self::SetMd5Key { .. }) => Error::AoKeyInTheWay,
            (libc::EMSGSIZE, Self::AddKey(key)) => {
                Error::MacTooLong { octets: key.mkt.parameters().mac_length() }
            }
            (libc::ENOENT, Self::AddKey(key)) => Error::AlgorithmMissing(key.mkt.parameters().algorithm),
            (libc::ENOENT, Self::DeleteKey(key, _)) => {
                Error::NoSuchKey { send_id: Some(key.send_id), recv_id: Some(key.recv_id) }
            }
            (libc::ENOENT, Self::SetInfo(change)) => {
                Error::NoSuchKey { send_id: change.current_key, recv_id: change.rnext_key }
            }
            (libc::ENOENT, Self::DeleteMd5Key { remote, .. }) => Error::NoSuchMd5Key(*remote),
            (libc::EBUSY, Self::DeleteKey(key, _)) => Error::KeyInUse(**key),
            (libc::EISCONN, Self::AddKey(_) | Self::DeleteKey(..) | Self::SetInfo(_)) => Error::Connected,
            (libc::EPERM, Self::Repair) => Error::NoPermission { what: "TCP_REPAIR" },
            (libc::EPERM, _) => Error::NoPermission { what: "the call" },
            (libc::ENOMEM | libc::ENOBUFS, _) => Error::NoMemory,
            (libc::EINVAL, _) => Error::Refused { call: self.call(), because: self.refusal(socket) },
            _ => Error::Io(error),
        }
    }

    /// The reason for EINVAL. The kernel checks in this order: the peer, the flags, the VRF.
    fn refusal(&self, socket: &SocketFacts) -> EinvalReason {
        if let (Self::AddKey(key), Some(got)) = (self, socket.peer) {
            let expected = canonical_network(key.remote);
            if !expected.contains(&got) {
                return EinvalReason::AnotherPeer { expected, got };
            }
        }
        match self.vrf() {
            _ if socket.is_listening && self.chooses_keys() => EinvalReason::Listening,
            Some(index) if index != 0 => EinvalReason::NotThisVrf(index),
            _ => EinvalReason::Unknown,
        }
    }
}

/// The reason why deleting failed with ENOENT although the key exists: a successor is missing, or Linux does not find keys for VRFs.
pub(crate) fn missing_successor(keys: &[InstalledKey], key: &KeyName, successor: Successor) -> Option<Error> {
    if !keys.iter().any(|installed| installed.name == *key) {
        return None;
    }
    // When the kernel searches for successors, it skips the key itself.
    if successor.current == Some(key.send_id) || successor.rnext == Some(key.recv_id) {
        return Some(Error::KeyInUse(*key));
    }
    let is_missing_send = |id: &_| !keys.iter().any(|installed| installed.name.send_id == *id);
    let is_missing_recv = |id: &_| !keys.iter().any(|installed| installed.name.recv_id == *id);
    let send_id = successor.current.filter(is_missing_send);
    let recv_id = successor.rnext.filter(is_missing_recv);
    if send_id.is_some() || recv_id.is_some() {
        return Some(Error::NoSuchKey { send_id, recv_id });
    }
    key.vrf.filter(|vrf| *vrf != 0).map(|_| Error::KeyStays(*key))
}

#[cfg(test)]
mod tests;
