//! An in-memory link between two devices, with loss, reordering and duplication, and a tap on it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use smoltcp::phy::Medium;

use super::Pumps;
use crate::link::{FrameQueue, LinkDevice, LinkPort};
use crate::sync::Locked;

/// Longest delay of a reordered frame, in milliseconds: long enough for others to overtake it, far below a retransmission.
const REORDER_MILLISECONDS: u64 = 3;

/// Which way a frame goes over the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// From the first device to the second.
    AToB,
    /// From the second device to the first.
    BToA,
}

/// What a tap decides about a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The frame, as the tap left it, goes on.
    Pass,
    /// The frame is taken off the wire; the tap may have kept a copy to inject later.
    Take,
}

/// Sees each frame before the impairments do, and may alter it.
pub type Tap = Box<dyn FnMut(Direction, &mut Vec<u8>) -> Verdict + Send>;

/// Shares of frames that meet trouble, in percent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Impairments {
    /// Frames that vanish.
    pub loss: u8,
    /// Frames that arrive after later ones.
    pub reordering: u8,
    /// Frames that arrive twice.
    pub duplication: u8,
}

/// What the wire has done so far, in frames.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WireCounters {
    /// Frames that came onto the wire from a device.
    pub carried: u64,
    /// Frames that the tap took.
    pub taken: u64,
    /// Frames lost by the impairment.
    pub lost: u64,
    /// Frames delayed behind later ones.
    pub reordered: u64,
    /// Frames delivered twice.
    pub duplicated: u64,
    /// Frames put onto the wire by [`Wire::inject`].
    pub injected: u64,
}

struct State {
    impairments: Impairments,
    rng: Rng,
    tap: Option<Tap>,
    counters: WireCounters,
}

/// The wire between two devices. Dropping it cuts the link.
pub struct Wire {
    state: Arc<Locked<State>>,
    a: LinkPort,
    b: LinkPort,
    _pumps: Pumps,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// Connects two devices by a wire without impairments. `mtu` is the largest frame in octets; `seed` decides which frames the
/// impairments will hit.
///
/// # Panics
/// When called outside a tokio runtime.
#[must_use]
pub fn wire(medium: Medium, mtu: usize, seed: u64) -> (LinkDevice, LinkDevice, Wire) {
    let (device_a, a) = LinkDevice::new(medium, mtu);
    let (device_b, b) = LinkDevice::new(medium, mtu);
    let state = State {
        impairments: Impairments::default(),
        rng: Rng::with_seed(seed),
        tap: None,
        counters: WireCounters::default(),
    };
    let state = Arc::new(Locked::new(state));
    let mut pumps = Pumps::default();
    let ends = [(Direction::AToB, &a.from_stack, &b.to_stack), (Direction::BToA, &b.from_stack, &a.to_stack)];
    for (direction, from, to) in ends {
        pumps.spawn(pump(Arc::clone(&state), direction, Arc::clone(from), Arc::clone(to)));
    }
    (device_a, device_b, Wire { state, a, b, _pumps: pumps })
}

async fn pump(state: Arc<Locked<State>>, direction: Direction, from: Arc<FrameQueue>, to: Arc<FrameQueue>) {
    loop {
        let frame = from.pop().await;
        for (frame, delay) in state.lock().carry(direction, frame) {
            match delay {
                None => to.push(frame),
                Some(delay) => {
                    let to = Arc::clone(&to);
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        to.push(frame);
                    });
                }
            }
        }
    }
}

impl State {
    fn hits(&mut self, percent: u8) -> bool {
        percent > 0 && self.rng.u8(0..100) < percent
    }

    /// Decides what arrives for a frame, and how much later.
    fn carry(&mut self, direction: Direction, mut frame: Vec<u8>) -> Vec<(Vec<u8>, Option<Duration>)> {
        self.counters.carried += 1;
        if let Some(tap) = &mut self.tap
            && tap(direction, &mut frame) == Verdict::Take
        {
            self.counters.taken += 1;
            return Vec::new();
        }
        if self.hits(self.impairments.loss) {
            self.counters.lost += 1;
            return Vec::new();
        }
        let mut arrivals = Vec::with_capacity(2);
        if self.hits(self.impairments.duplication) {
            self.counters.duplicated += 1;
            arrivals.push((frame.clone(), None));
        }
        let delay = self.hits(self.impairments.reordering).then(|| {
            self.counters.reordered += 1;
            Duration::from_millis(self.rng.u64(1..=REORDER_MILLISECONDS))
        });
        arrivals.push((frame, delay));
        arrivals
    }
}

impl Wire {
    /// Sets the impairments for the frames from now on.
    pub fn impair(&self, impairments: Impairments) {
        self.state.lock().impairments = impairments;
    }

    /// Puts a tap on the wire, in place of the one before. It runs for each frame under a lock: it must not block.
    pub fn tap(&self, tap: impl FnMut(Direction, &mut Vec<u8>) -> Verdict + Send + 'static) {
        self.state.lock().tap = Some(Box::new(tap));
    }

    /// Takes the tap off the wire.
    pub fn untap(&self) {
        self.state.lock().tap = None;
    }

    /// Delivers a frame of one's own; neither the tap nor the impairments see it.
    pub fn inject(&self, direction: Direction, frame: Vec<u8>) {
        self.state.lock().counters.injected += 1;
        match direction {
            Direction::AToB => self.b.to_stack.push(frame),
            Direction::BToA => self.a.to_stack.push(frame),
        }
    }

    /// What the wire has done so far.
    #[must_use]
    pub fn counters(&self) -> WireCounters {
        self.state.lock().counters
    }
}
