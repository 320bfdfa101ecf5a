//! TCP-AO on a socket, call by call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockRef};
use wireseal_tcp_ao::{Counters, KeyId};

use crate::address::Family;
use crate::errno::{self, Asked, Circumstances};
use crate::error::Error;
use crate::info::{Change, Info};
use crate::key::{InstalledKey, KeyName, SocketKey, Successor};
use crate::layout::{Add, Del, GetKeys, InfoOpt};
use crate::{compose, sys};

/// View of one TCP socket, borrowed: of std, of socket2, of tokio, or anything else that has a descriptor.
///
/// Every call is made on the socket at once; nothing is remembered here. A failed call leaves the socket as it was, but
/// for what [`TcpAoSocket::delete_key`] says of [`Error::KeyInUse`].
#[derive(Clone, Copy, Debug)]
pub struct TcpAoSocket<'fd> {
    fd: BorrowedFd<'fd>,
}

impl<'fd> TcpAoSocket<'fd> {
    /// The TCP-AO side of a socket. Whether it is a TCP socket at all is found out by the first call.
    #[must_use]
    pub fn new<S: AsFd + ?Sized>(socket: &'fd S) -> Self {
        Self { fd: socket.as_fd() }
    }

    /// Puts a key on the socket (`TCP_AO_ADD_KEY`).
    ///
    /// On a listening socket, or one that has not connected yet, keys for any peers may be put; the keys for the peer go
    /// to the connection. On a connection keys are added only if it was opened with TCP-AO.
    ///
    /// # Errors
    /// [`Error::AlgorithmNotInLinux`] and, for the network, [`Error::AnotherFamily`], [`Error::AnyIpv4OnIpv6Socket`] and
    /// [`Error::NetworkAtZero`] before the kernel is asked. Of the kernel's, [`Error::NotSupported`],
    /// [`Error::IdInUse`], [`Error::Md5KeyInTheWay`], [`Error::AlgorithmMissing`], [`Error::MacTooLong`],
    /// [`Error::Connected`], [`Error::NoMemory`] and [`Error::Refused`].
    pub fn add_key(&self, key: &SocketKey<'_>) -> Result<(), Error> {
        // The algorithm first: what no kernel has needs no socket to be refused.
        let algorithm = compose::algorithm_name(key.mkt.parameters().algorithm)?;
        let add: Box<Add> = compose::add(key, algorithm, self.family()?)?;
        sys::set(self.fd, sys::TCP_AO_ADD_KEY, &*add).map_err(|error| self.error(&Asked::Add(key), error))
    }

    /// Deletes a key (`TCP_AO_DEL_KEY`), in the same step making others current and rnext key if a successor names them.
    ///
    /// But on a listening socket the kernel waits until nothing uses the key any more, some milliseconds: keep it off the
    /// threads of asynchronous tasks.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`] with the ids of the key, or of the successor, that is not there; [`Error::KeyInUse`], also
    /// for the last key of a connection: a successor that was named is current or rnext key then all the same, unless it
    /// has an id of the key itself. Those for the network of [`TcpAoSocket::add_key`]. [`Error::Refused`] when a successor
    /// is named on a listening socket.
    pub fn delete_key(&self, key: &KeyName, successor: Successor) -> Result<(), Error> {
        let mut delete: Del = compose::delete(key, successor, self.family()?)?;
        if SockRef::from(&self.fd).is_listener().unwrap_or(false) {
            delete.bits |= Del::DEL_ASYNC;
        }
        sys::set(self.fd, sys::TCP_AO_DEL_KEY, &delete).map_err(|error| {
            let missing_successor = || errno::missing_successor(&self.keys().ok()?, key, successor);
            if error.raw_os_error() == Some(libc::ENOENT)
                && let Some(missing) = missing_successor()
            {
                return missing;
            }
            self.error(&Asked::Delete(key, successor), error)
        })
    }

    /// The keys on the socket (`TCP_AO_GET_KEYS`), all of them; none when it has no TCP-AO. The order is the kernel's.
    ///
    /// # Errors
    /// [`Error::ForeignAlgorithm`] when another program put a key there that Wireseal cannot name.
    pub fn keys(&self) -> Result<Vec<InstalledKey>, Error> {
        let keys = compose::all_keys(|buffer: &mut [GetKeys]| sys::get_keys(self.fd, buffer));
        match keys {
            Ok(keys) => keys.iter().map(compose::installed).collect(),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Vec::new()),
            Err(error) => Err(self.error(&Asked::Keys, error)),
        }
    }

    /// The socket's TCP-AO state (`TCP_AO_INFO`); `None` when it has no TCP-AO: no key was put on it, nor was it
    /// required.
    ///
    /// # Errors
    /// [`Error::NotSupported`] and [`Error::NotATcpSocket`].
    pub fn info(&self) -> Result<Option<Info>, Error> {
        match sys::get(self.fd, sys::AO_INFO, InfoOpt::ZERO) {
            Ok(info) => Ok(Some(Info::from_kernel(&info))),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(self.error(&Asked::Info, error)),
        }
    }

    /// Makes a key the current one: what this end signs with. The peer's RNextKeyID may make another so at any time.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`], and [`Error::Refused`] on a listening socket.
    pub fn set_current_key(&self, send_id: KeyId) -> Result<(), Error> {
        self.change(&Change { current_key: Some(send_id), ..Change::default() })
    }

    /// Makes a key the rnext one: what this end asks the peer to sign with.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`], and [`Error::Refused`] on a listening socket.
    pub fn set_rnext_key(&self, recv_id: KeyId) -> Result<(), Error> {
        self.change(&Change { rnext_key: Some(recv_id), ..Change::default() })
    }

    /// Both at once.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`], and [`Error::Refused`] on a listening socket.
    pub fn set_current_and_rnext(&self, send_id: KeyId, recv_id: KeyId) -> Result<(), Error> {
        self.change(&Change { current_key: Some(send_id), rnext_key: Some(recv_id), ..Change::default() })
    }

    /// Refuses unsigned segments from every peer, or only from those that a key is for (the default).
    ///
    /// On a listening or unconnected socket this also works before there is a key: nothing gets through then.
    ///
    /// # Errors
    /// [`Error::Md5KeyInTheWay`] when any TCP-MD5 key is on the socket, and [`Error::Connected`].
    pub fn set_required(&self, required: bool) -> Result<(), Error> {
        self.change(&Change { required: Some(required), ..Change::default() })
    }

    /// Obeys hard ICMP errors, or drops and counts them (the default; RFC 5925 §7.8).
    ///
    /// # Errors
    /// [`Error::Connected`].
    pub fn set_accept_icmps(&self, accept: bool) -> Result<(), Error> {
        self.change(&Change { accept_icmps: Some(accept), ..Change::default() })
    }

    /// Sets the socket's counters, for a connection that was counted elsewhere before. Those of single keys stay.
    ///
    /// # Errors
    /// [`Error::Connected`].
    pub fn set_counters(&self, counters: &Counters) -> Result<(), Error> {
        self.change(&Change { counters: Some(*counters), ..Change::default() })
    }

    /// Reads, changes, writes: `TCP_AO_INFO` writes `ao_required` and `accept_icmps` whatever it is used for.
    pub(crate) fn change(&self, change: &Change) -> Result<(), Error> {
        let info = match self.info()? {
            Some(info) => info,
            None if change.current_key.is_some() || change.rnext_key.is_some() => {
                let error = io::Error::from_raw_os_error(libc::ENOENT);
                return Err(self.error(&Asked::Change(change), error));
            }
            // Writing nothing would give the socket TCP-AO without a key, and it could not connect then.
            None if Info::NONE.changed(change) == InfoOpt::ZERO => return Ok(()),
            None => Info::NONE,
        };
        sys::set(self.fd, sys::TCP_AO_INFO, &info.changed(change))
            .map_err(|error| self.error(&Asked::Change(change), error))
    }

    pub(crate) const fn fd(&self) -> BorrowedFd<'fd> {
        self.fd
    }

    /// The family in whose terms the kernel takes addresses.
    pub(crate) fn family(&self) -> Result<Family, Error> {
        match SockRef::from(&self.fd).domain() {
            Ok(Domain::IPV4) => Ok(Family::Ipv4),
            Ok(Domain::IPV6) => Ok(Family::Ipv6),
            Ok(_) => Err(Error::NotATcpSocket),
            Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => Err(Error::NotATcpSocket),
            Err(error) => Err(error.into()),
        }
    }

    /// A failed call's error, with a look at the socket where the errno alone does not say enough.
    pub(crate) fn error(&self, asked: &Asked<'_>, error: io::Error) -> Error {
        let socket = SockRef::from(&self.fd);
        let is_tcp = matches!(self.family(), Ok(Family::Ipv4 | Family::Ipv6))
            && matches!(socket.protocol(), Ok(Some(Protocol::TCP)));
        let circumstances = Circumstances {
            is_tcp,
            is_listening: socket.is_listener().unwrap_or(false),
            peer: socket
                .peer_addr()
                .ok()
                .and_then(|peer| peer.as_socket())
                .map(|peer| peer.ip().to_canonical()),
        };
        errno::error(asked, error, &circumstances)
    }
}
