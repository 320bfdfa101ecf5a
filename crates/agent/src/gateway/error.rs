//! Why a gateway does not run.

use std::io;
use std::path::PathBuf;

use wireseal_tcp_ao::PeerError;

use super::bound::{Holder, advice};
use crate::error::ConfigError;
use crate::metrics::MetricsAddress;

/// Why a gateway does not run, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Peers overlap and share ids.
    #[error("{0}")]
    Peers(PeerError),
    /// There is no memory for so many connections, or they are more than [`Gateway::MOST_CONNECTIONS`](crate::Gateway::MOST_CONNECTIONS).
    #[error("{connections} connections in each of {threads} threads take {mebibytes} MiB: name fewer")]
    Connections {
        /// Connections in each thread.
        connections: usize,
        /// Threads.
        threads: u16,
        /// What they take.
        mebibytes: usize,
    },
    /// The kernel's queues cannot be had.
    #[error("cannot bind the packet queues {first} to {last}: {error}{}", advice(*first, *last, error))]
    Queue {
        /// The first queue.
        first: u16,
        /// The last queue.
        last: u16,
        /// Why. It is in the message, and so not the error's source.
        error: io::Error,
    },
    /// Packets cannot be sent.
    #[error("cannot open a raw socket: {}{}", .0, wire_advice(.0))]
    Wire(io::Error),
    /// Metrics cannot be served there.
    #[error("cannot serve metrics at {address}: {error}")]
    Metrics {
        /// Where.
        address: MetricsAddress,
        /// Why. It is in the message, and so not the error's source.
        error: io::Error,
    },
    /// The rules could not be installed or removed.
    #[error("cannot change the rules for packets: {0}")]
    Rules(String),
    /// No gateway runs, or its rules are not in place.
    #[error("{0}")]
    NotInPlace(String),
    /// The file of sessions cannot be read or written.
    #[error("{}: {error}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// Why. It is in the message, and so not the error's source.
        error: io::Error,
    },
    /// Another gateway runs in this network namespace.
    #[error(
        "another gateway runs in this network namespace{0}: one carries all peers; add them to its configuration"
    )]
    Another(Holder),
    /// A gateway runs whose rules were to be removed.
    #[error("a gateway runs in this network namespace{0}: stop it first")]
    Runs(Holder),
    /// There are IPv6 peers, and the kernel has no IPv6.
    #[error("there are IPv6 peers, but this kernel has no IPv6, or it is switched off")]
    NoIpv6,
    /// Any other error of the operating system.
    #[error("cannot run the gateway: {0}")]
    System(io::Error),
}

fn wire_advice(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied { " (it needs CAP_NET_RAW)" } else { "" }
}
