//! A link as the stack sees it: one queue of frames in, one queue of frames out.
//!
//! Every transport is a pair of tasks that move frames between these queues and the outside, so that the stack, and any
//! device wrapped around [`LinkDevice`], knows a single kind of device.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use tokio::sync::Notify;

use crate::sync::Locked;

/// Frames that a queue holds before it drops new ones: more than the largest TCP window of a session.
const QUEUE_FRAMES: usize = 2048;

/// Frames on their way in one direction, with one consumer.
#[derive(Debug, Default)]
pub struct FrameQueue {
    frames: Locked<VecDeque<Vec<u8>>>,
    ready: Notify,
    dropped: AtomicU64,
}

impl FrameQueue {
    /// Adds a frame and wakes the consumer. A full queue drops the frame and counts it, as a network card would.
    pub fn push(&self, frame: Vec<u8>) {
        {
            let mut frames = self.frames.lock();
            if frames.len() >= QUEUE_FRAMES {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            frames.push_back(frame);
        }
        self.ready.notify_one();
    }

    /// Takes the oldest frame, if there is one.
    #[must_use]
    pub fn try_pop(&self) -> Option<Vec<u8>> {
        self.frames.lock().pop_front()
    }

    /// Waits for a frame and takes it. Cancelling the wait loses nothing.
    pub async fn pop(&self) -> Vec<u8> {
        loop {
            if let Some(frame) = self.try_pop() {
                return frame;
            }
            self.ready.notified().await;
        }
    }

    /// Waits until a frame was pushed since the last wait.
    pub async fn ready(&self) {
        self.ready.notified().await;
    }

    /// Whether the next [`push`](Self::push) would drop its frame.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.frames.lock().len() >= QUEUE_FRAMES
    }

    /// Whether no frame waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.lock().is_empty()
    }

    /// Frames dropped because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The transport's end of a link.
#[derive(Clone, Debug)]
pub struct LinkPort {
    /// Frames for the stack: the transport pushes.
    pub to_stack: Arc<FrameQueue>,
    /// Frames from the stack: the transport pops.
    pub from_stack: Arc<FrameQueue>,
}

/// The stack's end of a link.
#[derive(Debug)]
pub struct LinkDevice {
    medium: Medium,
    mtu: usize,
    port: LinkPort,
}

impl LinkDevice {
    /// Makes a link. `mtu` is the largest frame in octets, with the 14 octets of an Ethernet header where the medium has
    /// one.
    #[must_use]
    pub fn new(medium: Medium, mtu: usize) -> (Self, LinkPort) {
        let port = LinkPort { to_stack: Arc::default(), from_stack: Arc::default() };
        (Self { medium, mtu, port: port.clone() }, port)
    }

    /// The queue that a stack must watch to know that frames have come.
    #[must_use]
    pub fn arrivals(&self) -> Arc<FrameQueue> {
        Arc::clone(&self.port.to_stack)
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

impl Device for LinkDevice {
    type RxToken<'a> = RxToken;
    type TxToken<'a> = TxToken<'a>;

    fn receive(&mut self, now: Instant) -> Option<(RxToken, TxToken<'_>)> {
        // A frame is only taken in while its answer can go out.
        let answer = self.transmit(now).is_some();
        let frame = answer.then(|| self.port.to_stack.try_pop()).flatten()?;
        Some((RxToken(frame), TxToken(&self.port.from_stack)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<TxToken<'_>> {
        (!self.port.from_stack.is_full()).then_some(TxToken(&self.port.from_stack))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.medium;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.checksum = ChecksumCapabilities::default();
        capabilities
    }
}
