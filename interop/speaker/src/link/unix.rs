//! Ethernet frames over Unix datagram sockets, one frame in each datagram: what QEMU's `-netdev dgram` speaks.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use smoltcp::phy::Medium;
use tokio::net::UnixDatagram;

use super::device::Link;
use super::pump::{FrameIo, pump};

/// Binds `local` and exchanges frames with `peer`, which may come and go: while it is away frames are lost, as on a
/// cable. The socket file is removed when the link is dropped; a file left behind by an ended process is replaced.
///
/// # Errors
/// When `local` belongs to another process or is not a socket, and those of the operating system.
///
/// # Panics
/// When called outside a tokio runtime.
pub fn open(ip_mtu: usize, local: &Path, peer: &Path) -> Result<Link> {
    let named = || local.display().to_string();
    remove_stale(local).with_context(named)?;
    let socket = UnixDatagram::bind(local).context("cannot bind").with_context(named)?;
    let file = SocketFile(local.to_owned());
    let link = Link::new(Medium::Ethernet, ip_mtu);
    let tasks = pump(&link, Cable { socket, peer: peer.to_owned() });
    Ok(link.with_mover((tasks, file)))
}

fn remove_stale(path: &Path) -> Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    let probe = || std::os::unix::net::UnixDatagram::unbound()?.connect(path);
    let is_stale = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if !metadata.file_type().is_socket() || !probe().is_err_and(is_stale) {
        bail!("already in use");
    }
    fs::remove_file(path).context("cannot remove")
}

struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

struct Cable {
    socket: UnixDatagram,
    peer: PathBuf,
}

impl FrameIo for Cable {
    async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.recv(buffer).await
    }

    async fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.socket.send_to(frame, &self.peer).await.map(drop)
    }
}
