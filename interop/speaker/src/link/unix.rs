//! Ethernet frames over Unix datagram sockets, one frame in each datagram: what QEMU's `-netdev dgram` speaks.

use std::any::Any;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tokio::net::UnixDatagram;

use super::device::Link;
use super::pump::{FrameIo, pump};

/// Binds `local` and carries frames between it and `peer`, which may come and go: frames are lost while it is away, as on a
/// cable. The socket file goes when what is returned is dropped; one left by a process that has ended is replaced.
///
/// # Errors
/// When `local` is another process's or no socket, and those of the operating system.
///
/// # Panics
/// When called outside a tokio runtime.
pub fn open(link: Link, local: &Path, peer: &Path) -> Result<Box<dyn Any + Send + Sync>> {
    let named = || local.display().to_string();
    remove_stale(local).with_context(named)?;
    let socket = UnixDatagram::bind(local).context("cannot bind").with_context(named)?;
    let file = SocketFile(local.to_owned());
    Ok(Box::new((pump(link, Cable { socket, peer: peer.to_owned() }), file)))
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
