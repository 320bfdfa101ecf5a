//! Two links joined in memory, with loss, reordering and duplication, and a tap.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use smoltcp::phy::Medium;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::link::{FrameQueue, Link};

/// Longest delay of a reordered frame, in milliseconds: long enough to be overtaken, far below a retransmission.
const REORDER_MILLISECONDS: u64 = 3;

/// Which way a frame goes over the wire.
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
    /// Delayed so that others overtake them.
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
    ///
    /// # Panics
    /// When called outside a tokio runtime.
    #[must_use]
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

    /// Has so many of a hundred packets lost from now on, as many reordered, and as many duplicated.
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
    #[must_use]
    pub fn recording(&self) -> Vec<(Direction, Vec<u8>)> {
        self.state.lock().unwrap().recording.clone().unwrap_or_default()
    }

    /// The recorded packets that went this way.
    #[must_use]
    pub fn recorded(&self, direction: Direction) -> Vec<Vec<u8>> {
        let one_way = self.recording().into_iter().filter(|(went, _)| *went == direction);
        one_way.map(|(_, packet)| packet).collect()
    }

    /// Delivers a packet at B; neither tap nor impairments see it.
    pub fn inject_at_b(&self, packet: Vec<u8>) {
        self.b.to_stack.push(packet);
    }

    /// What it has done so far.
    #[must_use]
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
