//! Links: a queue of frames to the stack and one from it, and what moves them on.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use tokio::sync::Notify;

#[cfg(all(feature = "tun", target_os = "linux"))]
pub mod tun;

/// Octets of an IP packet on all links unless configured otherwise.
pub const DEFAULT_IP_MTU: usize = 1500;
/// Octets of an Ethernet header.
pub const ETHERNET_HEADER: usize = 14;

/// One end's view of a link; clones share its queues.
#[derive(Clone, Debug)]
pub struct Link {
    /// Ethernet frames or IP packets.
    pub medium: Medium,
    /// Octets of the largest frame.
    pub mtu: usize,
    /// Frames for the stack: the transport pushes.
    pub to_stack: Arc<FrameQueue>,
    /// Frames from the stack: the transport pops.
    pub from_stack: Arc<FrameQueue>,
    /// Keeps the tasks alive that move the frames on.
    _mover: Option<Arc<dyn Any + Send + Sync>>,
}

impl Link {
    /// A link for IP packets of at most `ip_mtu` octets.
    #[must_use]
    pub fn new(medium: Medium, ip_mtu: usize) -> Self {
        let header = if medium == Medium::Ethernet { ETHERNET_HEADER } else { 0 };
        let (to_stack, from_stack) = Default::default();
        Self { medium, mtu: ip_mtu + header, to_stack, from_stack, _mover: None }
    }

    /// Keeps `mover` alive until the last clone is dropped.
    pub(crate) fn with_mover(self, mover: impl Any + Send + Sync) -> Self {
        Self { _mover: Some(Arc::new(mover)), ..self }
    }
}

/// A frame that has come in.
#[derive(Debug)]
pub struct RxToken(Vec<u8>);

impl phy::RxToken for RxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// Room for a frame to go out.
#[derive(Debug)]
pub struct TxToken<'a>(&'a FrameQueue);

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push(frame);
        result
    }
}

impl Device for Link {
    type RxToken<'a> = RxToken;
    type TxToken<'a> = TxToken<'a>;

    fn receive(&mut self, now: Instant) -> Option<(RxToken, TxToken<'_>)> {
        // A frame is accepted only while there is room for its answer.
        self.transmit(now)?;
        Some((RxToken(self.to_stack.try_pop()?), TxToken(&self.from_stack)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<TxToken<'_>> {
        (!self.from_stack.is_full()).then_some(TxToken(&self.from_stack))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.medium;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// Frames that a queue holds before it drops new ones: more than the largest TCP window of a session.
const CAPACITY: usize = 2048;

/// Frames going one way, with one consumer.
#[derive(Debug, Default)]
pub struct FrameQueue {
    frames: Mutex<VecDeque<Vec<u8>>>,
    ready: Notify,
    dropped: AtomicU64,
}

impl FrameQueue {
    /// Adds a frame and wakes the consumer. A full queue drops the frame and counts it, as a network card would.
    pub fn push(&self, frame: Vec<u8>) {
        let mut frames = self.frames.lock().unwrap();
        if frames.len() < CAPACITY {
            frames.push_back(frame);
            self.ready.notify_one();
        } else {
            self.note_dropped();
        }
    }

    /// Takes the oldest frame, if there is one.
    pub fn try_pop(&self) -> Option<Vec<u8>> {
        self.frames.lock().unwrap().pop_front()
    }

    /// Waits for a frame and takes it. Cancelling the wait loses nothing.
    pub async fn pop(&self) -> Vec<u8> {
        loop {
            if let Some(frame) = self.try_pop() {
                return frame;
            }
            self.ready().await;
        }
    }

    /// Waits until a frame was added since the last wait.
    pub async fn ready(&self) {
        self.ready.notified().await;
    }

    /// How many frames wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.frames.lock().unwrap().len()
    }

    /// Whether the next frame would be dropped.
    pub(super) fn is_full(&self) -> bool {
        self.waiting() >= CAPACITY
    }

    /// Counts a frame as dropped.
    pub fn note_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Frames dropped: because the queue was full, or because they could not be moved on.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
