//! Frames going one way.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

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
