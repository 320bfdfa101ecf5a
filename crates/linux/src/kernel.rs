//! What the running kernel can do, found out by trying, and its counters (`/proc/net/netstat`).

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::{fs, io};

use cidr::{IpCidr, Ipv4Cidr};
use linux_raw_sys::net::{TCP_REPAIR, TCP_REPAIR_ON};
use socket2::{Domain, Protocol, Socket, Type};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Counters, KeyId, MasterKey, Mkt};

use crate::error::NO_TCP_AO;
use crate::repair::can_restore;
use crate::{Error, SocketKey, TcpAoSocket, sys};

/// What the running kernel and this process can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Support {
    /// Whether the kernel has TCP-AO.
    pub tcp_ao: bool,
    /// The algorithms with which the kernel accepts a key.
    pub algorithms: Vec<TcpAoAlgorithm>,
    /// Whether the kernel has TCP-MD5.
    pub md5: bool,
    /// Whether this process may move live connections, which needs CAP_NET_ADMIN over the network namespace. Restoring them
    /// also needs [`Self::can_restore`].
    pub repair: bool,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
}

impl Support {
    /// Whether this kernel can [`restore`](crate::restore) connections: Linux 6.17 or later, or 6.12.49 or a later 6.12. Others crash, so
    /// the release decides and nothing is tried; a distribution's fix in an older release goes unnoticed.
    #[must_use]
    pub fn can_restore(&self) -> bool {
        self.tcp_ao && can_restore(&self.kernel)
    }
}

/// Finds out what the kernel can do, on new sockets that never connect.
///
/// Debian's 6.12 (Debian 13), 6.16 and 6.17 are built without TCP-AO; 6.18, 7.2 and 7.3 (backports for Debian 13) have it. Other
/// distributions were not checked. A kernel's configuration file may be another's, so none is read.
///
/// # Errors
/// If no socket can be made, or a kernel with TCP-AO refuses a key for any reason except its algorithm.
pub fn probe() -> io::Result<Support> {
    let tcp_ao = match TcpAoSocket::new(&tcp_socket()?).info() {
        Ok(_) => true,
        Err(Error::NotSupported) => false,
        Err(error) => return Err(into_io(error)),
    };
    let mut algorithms = Vec::new();
    for algorithm in TcpAoAlgorithm::ALL {
        if tcp_ao && has_algorithm(algorithm)? {
            algorithms.push(algorithm);
        }
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
        Err(Error::AlgorithmNotInLinux { .. } | Error::AlgorithmMissing(_)) => Ok(false),
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

/// Segments counted in a network namespace since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetworkCounters {
    /// TCPAOGood, TCPAOBad, TCPAOKeyNotFound, TCPAORequired and TCPAODroppedIcmps.
    pub tcp_ao: Counters,
    /// TCPMD5NotFound: unsigned, although there is a TCP-MD5 key.
    pub md5_not_found: u64,
    /// TCPMD5Unexpected: signed with TCP-MD5, although there is no key.
    pub md5_unexpected: u64,
    /// TCPMD5Failure: a wrong digest.
    pub md5_failure: u64,
}

impl NetworkCounters {
    /// Reads the counters of the calling thread's network namespace.
    ///
    /// # Errors
    /// From reading the file; `Unsupported` if the kernel does not count TCP-AO, `InvalidData` if the file has another form.
    pub fn read() -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/net/netstat")?)
    }

    fn parse(text: &str) -> io::Result<Self> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("netstat: {what}"));
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
        let names = lines.next().ok_or_else(|| invalid("no line with the names of TcpExt"))?;
        let values = lines.next().ok_or_else(|| invalid("no line with the values of TcpExt"))?;
        if names.split_whitespace().count() != values.split_whitespace().count() {
            return Err(invalid("TcpExt has more or fewer values than names"));
        }
        let counter = |wanted: &str| {
            let named =
                names.split_whitespace().zip(values.split_whitespace()).find(|(name, _)| *name == wanted);
            let Some((name, value)) = named else {
                return Err(io::Error::new(io::ErrorKind::Unsupported, format!("no {wanted}: {NO_TCP_AO}")));
            };
            value.parse().map_err(|_| invalid(&format!("{name} is not a number")))
        };
        Ok(Self {
            tcp_ao: Counters {
                good: counter("TCPAOGood")?,
                bad: counter("TCPAOBad")?,
                key_not_found: counter("TCPAOKeyNotFound")?,
                required: counter("TCPAORequired")?,
                dropped_icmp: counter("TCPAODroppedIcmps")?,
            },
            md5_not_found: counter("TCPMD5NotFound")?,
            md5_unexpected: counter("TCPMD5Unexpected")?,
            md5_failure: counter("TCPMD5Failure")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a machine with TCP-AO and TCP-MD5; each counter has a number of its own.
    const NETSTAT: &str = include_str!("../tests/data/netstat.txt");

    #[test]
    fn ao_27_the_namespaces_counters_are_read_by_name() {
        let counters = NetworkCounters::parse(NETSTAT).unwrap();
        let NetworkCounters { tcp_ao, md5_not_found, md5_unexpected, md5_failure } = counters;
        assert_eq!((tcp_ao.good, tcp_ao.bad, tcp_ao.key_not_found), (3747, 11, 12));
        assert_eq!((tcp_ao.required, tcp_ao.dropped_icmp), (13, 14));
        assert_eq!((md5_not_found, md5_unexpected, md5_failure), (21, 22, 23));
    }

    #[test]
    fn other_texts_are_errors_that_say_why() {
        let older = "TcpExt: SyncookiesSent TCPMD5NotFound\nTcpExt: 0 0\n";
        for (text, expected) in [
            ("", "names"),
            ("TcpExt: TCPAOGood\nIpExt: InNoRoutes\n", "values"),
            ("TcpExt: TCPAOGood TCPAOBad\nTcpExt: 1\n", "more or fewer values"),
            (older, "no TCPAOGood: this kernel has no TCP-AO"),
            (&NETSTAT.replace("3747", "many"), "TCPAOGood is not a number"),
        ] {
            let error = NetworkCounters::parse(text).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.kind() == std::io::ErrorKind::Unsupported, text == older);
        }
    }
}
