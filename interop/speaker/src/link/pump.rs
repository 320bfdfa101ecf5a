//! Moves frames between a link and a device or socket.

use std::io;
use std::sync::Arc;

use tokio::task::JoinSet;
use tracing::debug;

use super::device::Link;

/// What receives and sends frames one by one.
pub(super) trait FrameIo: Send + Sync + 'static {
    fn receive(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
    fn send(&self, frame: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
}

/// Tasks that move frames until they are dropped. Frames that do not fit or cannot be sent are counted as dropped.
pub(super) fn pump(link: &Link, frames: impl FrameIo) -> JoinSet<()> {
    let frames = Arc::new(frames);
    let mut tasks = JoinSet::new();
    let (inward, outward, mtu) = (Arc::clone(&link.to_stack), Arc::clone(&link.from_stack), link.mtu);
    let from = Arc::clone(&frames);
    tasks.spawn(async move {
        // One octet more than a frame may have, so that a longer one shows.
        let mut buffer = vec![0; mtu + 1];
        loop {
            match from.receive(&mut buffer).await {
                Ok(octets) if octets <= mtu => inward.push(buffer[..octets].to_vec()),
                Ok(octets) => {
                    debug!(octets, "frame too long for this link");
                    inward.note_dropped();
                }
                Err(error) => return debug!(%error, "cannot receive frames any more"),
            }
        }
    });
    tasks.spawn(async move {
        loop {
            if let Err(error) = frames.send(&outward.pop().await).await {
                debug!(%error, "cannot send a frame");
                outward.note_dropped();
            }
        }
    });
    tasks
}
