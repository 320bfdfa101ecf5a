//! Counters of the network namespace, over all its sockets (`/proc/net/netstat`).

use std::fs;
use std::io;

use wireseal_tcp_ao::Counters;

use crate::error::NO_TCP_AO;

/// Segments counted in a network namespace since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetworkCounters {
    /// TCPAOGood, TCPAOBad, TCPAOKeyNotFound, TCPAORequired and TCPAODroppedIcmps.
    pub tcp_ao: Counters,
    /// TCPMD5NotFound: unsigned, although a TCP-MD5 key is there.
    pub md5_not_found: u64,
    /// TCPMD5Unexpected: signed with TCP-MD5, although no key is there.
    pub md5_unexpected: u64,
    /// TCPMD5Failure: a wrong digest.
    pub md5_failure: u64,
}

impl NetworkCounters {
    /// Reads the counters of the calling thread's network namespace.
    ///
    /// # Errors
    /// From reading the file, and as in [`NetworkCounters::parse`].
    pub fn read() -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/net/netstat")?)
    }

    /// Parses the text of `/proc/net/netstat`.
    ///
    /// # Errors
    /// `InvalidData` for any other text, `Unsupported` if the kernel does not count TCP-AO.
    pub fn parse(text: &str) -> io::Result<Self> {
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
