//! What the network namespace counts, over all of its sockets (`/proc/net/netstat`).

use std::fs;
use std::io;

use wireseal_tcp_ao::Counters;

use crate::error::NO_TCP_AO;

/// Segments counted by the network namespace since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetworkCounters {
    /// TCPAOGood, TCPAOBad, TCPAOKeyNotFound, TCPAORequired and TCPAODroppedIcmps.
    pub tcp_ao: Counters,
    /// TCPMD5NotFound: unsigned where a TCP-MD5 key is.
    pub md5_not_found: u64,
    /// TCPMD5Unexpected: signed with TCP-MD5 where no key is.
    pub md5_unexpected: u64,
    /// TCPMD5Failure: a wrong digest.
    pub md5_failure: u64,
}

impl NetworkCounters {
    /// Those of the network namespace that the calling thread is in.
    ///
    /// # Errors
    /// Those of reading the file, and of [`NetworkCounters::parse`].
    pub fn read() -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/net/netstat")?)
    }

    /// Reads the text of `/proc/net/netstat`.
    ///
    /// # Errors
    /// `InvalidData` when it is another text, `Unsupported` when its kernel does not count TCP-AO.
    pub fn parse(text: &str) -> io::Result<Self> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("netstat: {what}"));
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
        let names = lines.next().ok_or_else(|| invalid("no line of TcpExt's names"))?;
        let values = lines.next().ok_or_else(|| invalid("no line of TcpExt's values"))?;
        if names.split_whitespace().count() != values.split_whitespace().count() {
            return Err(invalid("TcpExt has not as many values as names"));
        }
        let counter = |wanted: &str| {
            let named =
                names.split_whitespace().zip(values.split_whitespace()).find(|(name, _)| *name == wanted);
            let Some((name, value)) = named else {
                return Err(io::Error::new(io::ErrorKind::Unsupported, format!("no {wanted}: {NO_TCP_AO}")));
            };
            value.parse().map_err(|_| invalid(&format!("{name} is no number")))
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
