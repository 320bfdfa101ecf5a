//! Links: a queue of frames to the stack, one from it, and tasks that move frames; and two links joined in memory, with loss, reordering,
//! duplication and a tap.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

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
    /// Keeps the tasks alive that move the frames.
    _mover: Option<Arc<dyn Any + Send + Sync>>,
}

impl Link {
    /// A link for IP packets of at most `ip_mtu` octets.
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

/// A received frame.
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
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Longest delay of a reordered frame, in milliseconds: long enough to be overtaken, far below a retransmission.
const REORDER_MILLISECONDS: u64 = 3;

/// The direction of a frame on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// From the first end to the second.
    AToB,
    /// From the second end to the first.
    BToA,
}

/// Sees each frame before the impairments do; frames for which it gives false are taken off the wire.
type Tap = Box<dyn FnMut(Direction, &[u8]) -> bool + Send>;

/// What the wire has done so far, in frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct WireCounters {
    /// Sent.
    pub carried: u64,
    /// Lost.
    pub lost: u64,
    /// Delayed, so that others overtake them.
    pub reordered: u64,
    /// Delivered twice.
    pub duplicated: u64,
}

struct State {
    /// Of a hundred frames, how many meet each impairment.
    impaired: u8,
    rng: Rng,
    tap: Option<Tap>,
    recording: Option<Vec<(Direction, Vec<u8>)>>,
    counters: WireCounters,
}

/// The wire, which lives as long as its ends.
pub struct Wire {
    state: Arc<Mutex<State>>,
    /// The first end.
    pub a: Link,
    /// The second end.
    pub b: Link,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl Wire {
    /// A good wire for IP packets of at most `mtu` octets; the seed decides which ones impairments will hit.
    /// Panics when called outside a tokio runtime.
    pub fn new(mtu: usize, seed: u64) -> Self {
        let (a, b) = (Link::new(Medium::Ip, mtu), Link::new(Medium::Ip, mtu));
        let rng = Rng::with_seed(seed);
        let counters = WireCounters::default();
        let state = Arc::new(Mutex::new(State { impaired: 0, rng, tap: None, recording: None, counters }));
        let mut pumps = JoinSet::new();
        for (direction, from, to) in [(Direction::AToB, &a, &b), (Direction::BToA, &b, &a)] {
            let (from, to) = (Arc::clone(&from.from_stack), Arc::clone(&to.to_stack));
            pumps.spawn(carry(Arc::clone(&state), direction, from, to));
        }
        let pumps = Arc::new(pumps);
        Self { state, a: a.with_mover(Arc::clone(&pumps)), b: b.with_mover(pumps) }
    }

    /// From now on loses this many of a hundred packets, and reorders and duplicates as many.
    pub fn impair(&self, percent: u8) {
        self.state.lock().unwrap().impaired = percent;
    }

    /// Puts a tap on the wire, in place of the one before. It runs under a lock and must not block.
    pub fn tap(&self, tap: impl FnMut(Direction, &[u8]) -> bool + Send + 'static) {
        self.state.lock().unwrap().tap = Some(Box::new(tap));
    }

    /// Records each packet sent from now on.
    pub fn record(&self) {
        self.state.lock().unwrap().recording = Some(Vec::new());
    }

    /// The recorded packets.
    pub fn recording(&self) -> Vec<(Direction, Vec<u8>)> {
        self.state.lock().unwrap().recording.clone().unwrap_or_default()
    }

    /// The recorded packets that went this way.
    pub fn recorded(&self, direction: Direction) -> Vec<Vec<u8>> {
        let one_way = self.recording().into_iter().filter(|(went, _)| *went == direction);
        one_way.map(|(_, packet)| packet).collect()
    }

    /// Delivers a packet at B; neither tap nor impairments see it.
    pub fn inject_at_b(&self, packet: Vec<u8>) {
        self.b.to_stack.push(packet);
    }

    /// What it has done so far.
    pub fn counters(&self) -> WireCounters {
        self.state.lock().unwrap().counters
    }
}

async fn carry(state: Arc<Mutex<State>>, direction: Direction, from: Arc<FrameQueue>, to: Arc<FrameQueue>) {
    loop {
        let frame = from.pop().await;
        let (copies, delay) = state.lock().unwrap().fate(direction, &frame);
        for _ in 1..copies {
            to.push(frame.clone());
        }
        match delay {
            _ if copies == 0 => {}
            None => to.push(frame),
            Some(delay) => {
                let to = Arc::clone(&to);
                tokio::spawn(async move {
                    sleep(delay).await;
                    to.push(frame);
                });
            }
        }
    }
}

impl State {
    fn is_hit(&mut self) -> bool {
        self.impaired > 0 && self.rng.u8(0..100) < self.impaired
    }

    /// How many copies of a frame arrive, and how much later the last one.
    fn fate(&mut self, direction: Direction, frame: &[u8]) -> (u8, Option<Duration>) {
        self.counters.carried += 1;
        if let Some(recording) = &mut self.recording {
            recording.push((direction, frame.to_vec()));
        }
        if self.tap.as_mut().is_some_and(|tap| !tap(direction, frame)) {
            return (0, None);
        }
        if self.is_hit() {
            self.counters.lost += 1;
            return (0, None);
        }
        let is_duplicated = self.is_hit();
        let is_reordered = self.is_hit();
        self.counters.duplicated += u64::from(is_duplicated);
        self.counters.reordered += u64::from(is_reordered);
        let delay = is_reordered.then(|| Duration::from_millis(self.rng.u64(1..=REORDER_MILLISECONDS)));
        (1 + u8::from(is_duplicated), delay)
    }
}
