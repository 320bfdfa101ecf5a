//! Where frames go: the seam between the stack and the outside.
//!
//! The transports here carry frames, so the TCP stack above them is this process's own. A transport that carries streams
//! instead does not pass through this module, as a BGP session runs over any tokio stream: [`crate::quic`] is one, and the
//! kernel's own TCP another.

pub mod memory;
#[cfg(target_os = "linux")]
pub mod tun;
#[cfg(unix)]
pub mod unix;

use std::fmt;

use smoltcp::phy::Medium;
use tokio::task::JoinHandle;

/// Octets of an IP packet on all links unless configured otherwise.
pub const DEFAULT_IP_MTU: usize = 1500;
/// Octets of an Ethernet header.
pub const ETHERNET_HEADER: usize = 14;

/// The largest frame in octets for IP packets of `ip_mtu` octets.
#[must_use]
pub fn frame_mtu(medium: Medium, ip_mtu: usize) -> usize {
    if medium == Medium::Ethernet { ip_mtu + ETHERNET_HEADER } else { ip_mtu }
}

/// Tasks that end when this is dropped.
#[derive(Debug, Default)]
pub struct Pumps(Vec<JoinHandle<()>>);

impl Pumps {
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.push(tokio::spawn(task));
    }
}

impl Drop for Pumps {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// A transport that cannot be opened. Nothing is left half-open.
#[derive(Debug)]
pub enum OpenError {
    /// The local socket path is held by another process, or by a file that is no socket.
    PathInUse {
        /// The path.
        path: std::path::PathBuf,
    },
    /// The local socket path cannot be bound.
    Bind {
        /// The path.
        path: std::path::PathBuf,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// The network device cannot be opened.
    Device {
        /// The device's name.
        name: String,
        /// What the operating system said.
        error: std::io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathInUse { path } => write!(f, "{}: already in use", path.display()),
            Self::Bind { path, error } => write!(f, "{}: cannot bind: {error}", path.display()),
            Self::Device { name, error } => write!(
                f,
                "{name}: cannot open this device: {error} (it needs /dev/net/tun, and CAP_NET_ADMIN or a device that \
                 `ip tuntap add` has given to this user)"
            ),
        }
    }
}

impl std::error::Error for OpenError {}
