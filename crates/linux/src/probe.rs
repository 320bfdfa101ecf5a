//! What the running kernel can do, by trying it.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use cidr::{IpCidr, Ipv4Cidr};
use linux_raw_sys::net::{TCP_REPAIR, TCP_REPAIR_ON};
use socket2::{Domain, Protocol, Socket, Type};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use crate::error::Error;
use crate::key::SocketKey;
use crate::repair::can_restore;
use crate::socket::TcpAoSocket;
use crate::sys;

/// What the running kernel and this process can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Support {
    /// Whether the kernel has TCP-AO.
    pub tcp_ao: bool,
    /// Whether a key could be added with each of [`TcpAoAlgorithm::ALL`].
    pub algorithms: [bool; TcpAoAlgorithm::ALL.len()],
    /// Whether the kernel has TCP-MD5.
    pub md5: bool,
    /// Whether this process may move live connections, which needs CAP_NET_ADMIN over the network namespace. Restoring them
    /// also needs [`Self::can_restore`].
    pub repair: bool,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
}

impl Support {
    /// Whether a key could be added with an algorithm.
    #[must_use]
    pub fn supports(&self, algorithm: TcpAoAlgorithm) -> bool {
        TcpAoAlgorithm::ALL
            .iter()
            .zip(self.algorithms)
            .any(|(each, supported)| *each == algorithm && supported)
    }

    /// Whether this kernel can [`restore`](crate::restore) connections: Linux 6.17 or later, or 6.12.49 or a later 6.12. Others
    /// crash, so this is not tried but read from the release; a fix that a distribution added to an older release is not seen.
    #[must_use]
    pub fn can_restore(&self) -> bool {
        self.tcp_ao && can_restore(&self.kernel)
    }
}

/// Finds out what the kernel can do, on new sockets that never connect.
///
/// Of Debian's kernels, 6.12 (Debian 13's own), 6.16 and 6.17 are built without TCP-AO, and 6.18, 7.2 and 7.3 (Debian 13's backports)
/// with it. Other distributions were not looked at: `CONFIG_TCP_AO` in the kernel's configuration says it.
///
/// # Errors
/// If no socket can be made, or a kernel with TCP-AO refuses a key for any reason except its algorithm.
pub fn probe() -> io::Result<Support> {
    let tcp_ao = match TcpAoSocket::new(&tcp_socket()?).info() {
        Ok(_) => true,
        Err(Error::NotSupported) => false,
        Err(error) => return Err(into_io(error)),
    };
    let mut algorithms = [false; TcpAoAlgorithm::ALL.len()];
    for (algorithm, supported) in TcpAoAlgorithm::ALL.into_iter().zip(&mut algorithms) {
        *supported = tcp_ao && has_algorithm(algorithm)?;
    }
    let md5 = TcpAoSocket::new(&tcp_socket()?).set_md5_key(REMOTE, None, &secret()?);
    let repair = sys::set(tcp_socket()?.as_fd(), TCP_REPAIR, &TCP_REPAIR_ON);
    Ok(Support {
        tcp_ao,
        algorithms,
        md5: succeeds(md5, &[libc::ENOPROTOOPT])?,
        repair: succeeds(repair.map_err(Error::Io), &[libc::ENOPROTOOPT, libc::EPERM])?,
        kernel: sys::kernel_release()?,
    })
}

/// An address for documentation (RFC 5737).
const REMOTE: IpCidr = IpCidr::V4(Ipv4Cidr::new_host(Ipv4Addr::new(192, 0, 2, 1)));

/// An IPv4 socket, or an IPv6 socket on a host without IPv4.
fn tcp_socket() -> io::Result<Socket> {
    let socket = |domain| Socket::new(domain, Type::STREAM, Some(Protocol::TCP));
    socket(Domain::IPV4).or_else(|_| socket(Domain::IPV6))
}

fn secret() -> io::Result<MasterKey> {
    MasterKey::new(&[0; 32]).map_err(io::Error::other)
}

fn has_algorithm(algorithm: TcpAoAlgorithm) -> io::Result<bool> {
    let mkt = Mkt::new(KeyId(0), KeyId(0), algorithm, secret()?).map_err(io::Error::other)?;
    match TcpAoSocket::new(&tcp_socket()?).add_key(&SocketKey::new(REMOTE, &mkt)) {
        Ok(()) => Ok(true),
        Err(Error::AlgorithmNotInLinux(_) | Error::AlgorithmMissing(_)) => Ok(false),
        Err(error) => Err(into_io(error)),
    }
}

fn succeeds(result: Result<(), Error>, failures: &[i32]) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(Error::Io(error)) if error.raw_os_error().is_some_and(|errno| failures.contains(&errno)) => {
            Ok(false)
        }
        Err(error) => Err(into_io(error)),
    }
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        error => io::Error::other(error),
    }
}
