//! Ethernet frames over Unix datagram sockets, one frame per datagram: what QEMU's `-netdev dgram` speaks.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::UnixDatagram;
use tracing::debug;

use super::{ETHERNET_HEADER, OpenError, Pumps};
use crate::link::LinkPort;

/// An open socket and its tasks. Dropping it stops them and removes the socket file.
#[derive(Debug)]
pub struct UnixTransport {
    local: PathBuf,
    _pumps: Pumps,
}

impl UnixTransport {
    /// Binds `local` and carries frames between it and `peer`. The peer may come and go: frames that it is not there to
    /// take are lost, as on a cable.
    ///
    /// # Errors
    /// [`OpenError::PathInUse`] when `local` belongs to a living socket or is no socket, [`OpenError::Bind`] for anything
    /// else. A socket file left over by a process that has ended is replaced.
    pub fn open(port: LinkPort, mtu: usize, local: &Path, peer: &Path) -> Result<Self, OpenError> {
        remove_stale(local)?;
        let socket =
            UnixDatagram::bind(local).map_err(|error| OpenError::Bind { path: local.to_owned(), error })?;
        let socket = Arc::new(socket);
        let mut pumps = Pumps::default();
        pumps.spawn(receive(Arc::clone(&socket), port.clone(), mtu));
        pumps.spawn(send(socket, port, peer.to_owned()));
        Ok(Self { local: local.to_owned(), _pumps: pumps })
    }
}

impl Drop for UnixTransport {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = fs::remove_file(&self.local);
    }
}

fn remove_stale(path: &Path) -> Result<(), OpenError> {
    let in_use = || OpenError::PathInUse { path: path.to_owned() };
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(in_use());
    }
    let probe = std::os::unix::net::UnixDatagram::unbound();
    match probe.and_then(|probe| probe.connect(path)) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| OpenError::Bind { path: path.to_owned(), error })
        }
        _ => Err(in_use()),
    }
}

async fn receive(socket: Arc<UnixDatagram>, port: LinkPort, mtu: usize) {
    // One octet more than a frame may have, so that a longer one shows.
    let mut buffer = vec![0; mtu + 1];
    loop {
        match socket.recv(&mut buffer).await {
            Ok(octets) if (ETHERNET_HEADER..=mtu).contains(&octets) => {
                port.to_stack.push(buffer[..octets].to_vec());
            }
            Ok(octets) => debug!(octets, "datagram is no Ethernet frame of this link"),
            Err(error) => debug!(%error, "cannot receive a frame"),
        }
    }
}

async fn send(socket: Arc<UnixDatagram>, port: LinkPort, peer: PathBuf) {
    loop {
        let frame = port.from_stack.pop().await;
        if let Err(error) = socket.send_to(&frame, &peer).await {
            debug!(%error, peer = %peer.display(), "cannot send a frame");
        }
    }
}
