//! TCP-AO on a socket, call by call; and TCP-MD5 (RFC 2385), for listeners whose peers move to TCP-AO one by one.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

use cidr::IpCidr;
use linux_raw_sys::net::{
    TCP_AO_ADD_KEY, TCP_AO_DEL_KEY, TCP_AO_INFO, TCP_MD5SIG_EXT, TCP_MD5SIG_FLAG_IFINDEX,
    TCP_MD5SIG_FLAG_PREFIX, tcp_ao_getsockopt, tcp_md5sig,
};
use socket2::{Domain, Protocol, SockRef};
use wireseal_tcp_ao::{KeyId, MasterKey};

use crate::errno::{Request, SocketFacts, missing_successor};
use crate::info::Change;
use crate::key::{Family, all_keys, delete_key, for_md5_key, installed_keys};
use crate::sys::{self, Secret, to_kernel, zeroed};
use crate::{Error, Info, InstalledKey, KeyName, SeenKey, SocketKey, Successor};

/// `TCP_SYN_SENT` of the kernel's `tcp_states.h`.
const SYN_SENT: u8 = 2;

/// A view of one TCP socket, borrowed: std's, socket2's, tokio's or any other that has a descriptor.
///
/// Every call goes to the kernel; nothing is cached. A failed call leaves the socket unchanged, with one exception at
/// [`TcpAoSocket::delete_key`].
#[derive(Clone, Copy, Debug)]
pub struct TcpAoSocket<'fd> {
    fd: BorrowedFd<'fd>,
}

impl<'fd> TcpAoSocket<'fd> {
    /// A view of a socket. If it is not a TCP socket, the calls fail with [`Error::NotATcpSocket`].
    #[must_use]
    pub fn new<S: AsFd + ?Sized>(socket: &'fd S) -> Self {
        Self { fd: socket.as_fd() }
    }

    /// Puts a key on the socket (`TCP_AO_ADD_KEY`).
    ///
    /// A socket that listens or has not connected yet takes keys for any peers; a connection takes only keys for its peer, and only if it
    /// was opened with TCP-AO.
    ///
    /// # Errors
    /// Before the kernel is asked, [`Error::AlgorithmNotInLinux`] and [`Error::UnusableNetwork`]. From the kernel, [`Error::NotSupported`],
    /// [`Error::IdInUse`], [`Error::Md5KeyInTheWay`], [`Error::AlgorithmMissing`], [`Error::MacTooLong`], [`Error::Connected`],
    /// [`Error::NoMemory`] and [`Error::Refused`].
    pub fn add_key(&self, key: &SocketKey<'_>) -> Result<(), Error> {
        // The algorithm first, because it can be refused without a TCP socket.
        let algorithm = key.mkt.parameters().algorithm;
        let name = algorithm.linux_name().ok_or(Error::AlgorithmNotInLinux { algorithm, key_id: None })?;
        let add = key.to_kernel(name, self.family()?)?;
        sys::set(self.fd, TCP_AO_ADD_KEY, &*add).map_err(|error| self.error(&Request::AddKey(key), error))
    }

    /// Deletes a key and makes its successors, if any are given, current and rnext key in the same step (`TCP_AO_DEL_KEY`).
    ///
    /// Except on a listening socket, the kernel waits until nothing uses the key any more, which takes some milliseconds: keep it off the
    /// threads of asynchronous tasks.
    ///
    /// A listening socket gives up even a key that became current or rnext key before it listened. Linux 6.18 goes on naming such a key in
    /// [`Info`].
    ///
    /// # Errors
    /// [`Error::NoSuchKey`] with the ids that are missing, of the key or of a successor; [`Error::KeyInUse`], also for the last key of a
    /// connection: the successors are then current and rnext key anyway, unless one has an id of the key itself; [`Error::KeyStays`] for a
    /// key of a VRF; [`Error::UnusableNetwork`]; [`Error::Refused`] if a successor is given on a listening socket.
    pub fn delete_key(&self, key: &KeyName, successor: Successor) -> Result<(), Error> {
        let is_listening = SockRef::from(&self.fd).is_listener().unwrap_or(false);
        let delete = delete_key(key, successor, self.family()?, is_listening)?;
        sys::set(self.fd, TCP_AO_DEL_KEY, &delete).map_err(|error| {
            let missing = || missing_successor(&self.keys().ok()?, key, successor);
            if error.raw_os_error() == Some(libc::ENOENT)
                && let Some(missing) = missing()
            {
                return missing;
            }
            self.error(&Request::DeleteKey(key, successor), error)
        })
    }

    /// All keys on the socket, in the kernel's order (`TCP_AO_GET_KEYS`); none if it has no TCP-AO.
    ///
    /// # Errors
    /// [`Error::ForeignAlgorithm`] if another program put a key on it with an algorithm that Wireseal does not have.
    pub fn keys(&self) -> Result<Vec<InstalledKey>, Error> {
        installed_keys(&self.kernels_keys()?)
    }

    /// All keys on the socket, as [`keys`](Self::keys) returns them, but without secrets, and whatever their algorithms: for looking at
    /// other programs' sockets.
    ///
    /// # Errors
    /// [`Error::NotSupported`] and [`Error::NotATcpSocket`].
    pub fn seen_keys(&self) -> Result<Vec<SeenKey>, Error> {
        self.kernels_keys()?.iter().map(|key| SeenKey::from_kernel(key)).collect()
    }

    fn kernels_keys(&self) -> Result<Vec<Secret<tcp_ao_getsockopt>>, Error> {
        match all_keys(|buffer| sys::get_keys(self.fd, buffer)) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Vec::new()),
            keys => keys.map_err(|error| self.error(&Request::GetKeys, error)),
        }
    }

    /// The socket's TCP-AO state (`TCP_AO_INFO`). `None` if it has no TCP-AO: it has no key and never required TCP-AO.
    ///
    /// # Errors
    /// [`Error::NotSupported`] and [`Error::NotATcpSocket`].
    pub fn info(&self) -> Result<Option<Info>, Error> {
        match sys::get(self.fd, sys::AO_INFO) {
            Ok(info) => Ok(Some(Info::from_kernel(&info))),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(self.error(&Request::GetInfo, error)),
        }
    }

    /// Whether the connection has received a segment (`tcpi_segs_in` of `TCP_INFO`), even if it has ended. If a socket that is not
    /// connected has received any, an unsigned peer's data may still be read from it. `FIONREAD` is no substitute: it does not count data
    /// behind an urgent octet.
    ///
    /// # Errors
    /// [`Error::Io`] if this is not a TCP socket.
    pub fn has_received(&self) -> Result<bool, Error> {
        Ok(sys::get(self.fd, sys::INFO)?.tcpi_segs_in > 0)
    }

    /// Whether its SYN has been sent and not been answered.
    pub(crate) fn is_connecting(&self) -> Result<bool, Error> {
        Ok(sys::get(self.fd, sys::INFO)?.tcpi_state == SYN_SENT)
    }

    /// Makes a key the current one, which this end signs with. The peer's RNextKeyID may choose another at any time.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`], and [`Error::Refused`] on a listening socket.
    pub fn set_current_key(&self, send_id: KeyId) -> Result<(), Error> {
        self.change(&Change { current_key: Some(send_id), ..Change::default() })
    }

    /// Makes a key the rnext one, which this end asks the peer to sign with.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`], and [`Error::Refused`] on a listening socket.
    pub fn set_rnext_key(&self, recv_id: KeyId) -> Result<(), Error> {
        self.change(&Change { rnext_key: Some(recv_id), ..Change::default() })
    }

    /// Refuses unsigned segments from every peer, or only from those that a key is for (the default).
    ///
    /// A listening or unconnected socket can require TCP-AO before it has a key; then nothing gets through.
    ///
    /// # Errors
    /// [`Error::Md5KeyInTheWay`] if any TCP-MD5 key is on the socket, and [`Error::Connected`].
    pub fn set_required(&self, required: bool) -> Result<(), Error> {
        self.change(&Change { required: Some(required), ..Change::default() })
    }

    /// Resets a connection, whatever other descriptors of it there are. The reset is signed, because the keys are still on the socket. Data
    /// that has not been read is discarded, also if the peer has ended the connection. The next call on the connection fails with
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset), one that waits in the kernel with [`BrokenPipe`](io::ErrorKind::BrokenPipe). If
    /// Linux refuses, the connection is shut down in order.
    ///
    /// # Errors
    /// [`Error::Io`] if neither is possible, and for a listening socket, which goes on listening.
    pub fn reset(&self) -> Result<(), Error> {
        let socket = SockRef::from(&self.fd);
        if socket.is_listener()? {
            return Err(io::Error::from(io::ErrorKind::NotConnected).into());
        }
        Ok(sys::disconnect(self.fd).or_else(|_| socket.shutdown(Shutdown::Both))?)
    }

    /// Obeys hard ICMP errors, or drops and counts them (the default; RFC 5925 §7.8).
    ///
    /// # Errors
    /// [`Error::Connected`].
    pub fn set_accept_icmps(&self, accept: bool) -> Result<(), Error> {
        self.change(&Change { accept_icmps: Some(accept), ..Change::default() })
    }

    /// Reads first, because `TCP_AO_INFO` always writes `ao_required` and `accept_icmps`.
    pub(crate) fn change(&self, change: &Change) -> Result<(), Error> {
        let failed = |error| self.error(&Request::SetInfo(change), error);
        let info = self.info()?;
        let written = change.written(info.as_ref());
        if info.is_none() {
            if change.current_key.is_some() || change.rnext_key.is_some() {
                return Err(failed(io::Error::from_raw_os_error(libc::ENOENT)));
            }
            // Writing zeros would give the socket TCP-AO without a key, and then it could not connect.
            if sys::octets(&written).iter().all(|octet| *octet == 0) {
                return Ok(());
            }
        }
        sys::set(self.fd, TCP_AO_INFO, &written).map_err(failed)
    }

    /// Puts a TCP-MD5 key on the socket, or replaces the one for the same network (`TCP_MD5SIG_EXT`).
    ///
    /// Use it on a listening socket with peers of either kind. A socket never has both for one peer.
    ///
    /// # Errors
    /// [`Error::AoKeyInTheWay`], [`Error::UnusableNetwork`], [`Error::NoMemory`], [`Error::Refused`] if `vrf` is not a VRF
    /// device; and [`Error::Io`] with ENOPROTOOPT from a kernel without `CONFIG_TCP_MD5SIG`.
    pub fn set_md5_key(&self, remote: IpCidr, vrf: Option<u32>, secret: &MasterKey) -> Result<(), Error> {
        self.write_md5(remote, vrf, secret.expose_secret(), &Request::SetMd5Key { vrf })
    }

    /// Deletes the TCP-MD5 key for this network and VRF (`TCP_MD5SIG_EXT`).
    ///
    /// A connection continues unsigned without its key: close the connection first.
    ///
    /// # Errors
    /// [`Error::NoSuchMd5Key`], [`Error::UnusableNetwork`], and [`Error::Refused`] if `vrf` is not a VRF device.
    pub fn delete_md5_key(&self, remote: IpCidr, vrf: Option<u32>) -> Result<(), Error> {
        self.write_md5(remote, vrf, &[], &Request::DeleteMd5Key { remote, vrf })
    }

    /// Writes a TCP-MD5 key; an empty secret deletes it.
    fn write_md5(
        &self,
        remote: IpCidr,
        vrf: Option<u32>,
        secret: &[u8],
        request: &Request<'_>,
    ) -> Result<(), Error> {
        let (address, prefix) = for_md5_key(remote, self.family()?)?;
        let flags = TCP_MD5SIG_FLAG_PREFIX | if vrf.is_some() { TCP_MD5SIG_FLAG_IFINDEX } else { 0 };
        let mut md5: Secret<tcp_md5sig> = zeroed();
        md5.tcpm_addr = to_kernel(address);
        md5.tcpm_flags = flags as u8;
        md5.tcpm_prefixlen = prefix;
        md5.tcpm_keylen = secret.len() as u16;
        md5.tcpm_ifindex = vrf.unwrap_or(0).cast_signed();
        md5.tcpm_key[..secret.len()].copy_from_slice(secret);
        sys::set(self.fd, TCP_MD5SIG_EXT, &md5).map_err(|error| self.error(request, error))
    }

    pub(crate) const fn fd(&self) -> BorrowedFd<'fd> {
        self.fd
    }

    /// The address family, which decides the form of addresses for the kernel.
    pub(crate) fn family(&self) -> Result<Family, Error> {
        match SockRef::from(&self.fd).domain() {
            Ok(Domain::IPV4) => Ok(Family::Ipv4),
            Ok(Domain::IPV6) => Ok(Family::Ipv6),
            Ok(_) => Err(Error::NotATcpSocket),
            Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => Err(Error::NotATcpSocket),
            Err(error) => Err(error.into()),
        }
    }

    /// Why a call failed. Reads the socket's state, because the errno alone does not always tell.
    pub(crate) fn error(&self, request: &Request<'_>, error: io::Error) -> Error {
        let socket = SockRef::from(&self.fd);
        let is_tcp = self.family().is_ok() && matches!(socket.protocol(), Ok(Some(Protocol::TCP)));
        let peer = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        let state = SocketFacts {
            is_tcp,
            is_listening: socket.is_listener().unwrap_or(false),
            peer: peer.map(|peer| peer.ip().to_canonical()),
        };
        request.error(error, &state)
    }
}
