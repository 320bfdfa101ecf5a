//! What the two halves of a connection tell each other.

#[cfg(not(test))]
use core::sync::atomic::{AtomicU32, Ordering};

// The unit tests go through every order in which two threads read and write.
#[cfg(test)]
use loom::sync::atomic::{AtomicU32, Ordering};

/// Which key phase each half of a connection is in: all that a [`SendingHalf`](crate::SendingHalf) and a
/// [`ReceivingHalf`](crate::ReceivingHalf) share.
///
/// [`OneRtt::split`](crate::OneRtt::split) makes it, and every call that seals or opens borrows it; keep it where both threads see it,
/// such as in an `Arc`. It takes 8 octets, and has neither secrets nor a lock: each half writes a word of its own and reads the other's.
/// The value of another connection makes both go on to phases that their peers do not know, so that packets no longer open; no number is
/// used twice even then.
#[derive(Debug)]
pub struct KeyPhases {
    sending: AtomicU32,
    receiving: AtomicU32,
}

/// What one half says of itself, in 32 bits, since not every processor reads 64 at once.
#[derive(Clone, Copy)]
pub(super) struct Word {
    /// The low 31 bits of how many key updates it has made or followed.
    generation: u32,
    /// Of the sending half: it has answered in this phase. Of the receiving half: it has opened a packet of this phase.
    pub(super) flag: bool,
}

const GENERATIONS: u32 = u32::MAX >> 1;

impl Word {
    pub(super) const fn new(generation: u64, flag: bool) -> Self {
        Self { generation: generation as u32 & GENERATIONS, flag }
    }

    /// Whether this half has gone on to the phase after `generation`. Neither goes on twice before the other has followed.
    pub(super) const fn is_after(self, generation: u64) -> bool {
        self.is_in(generation.wrapping_add(1))
    }

    pub(super) const fn is_in(self, generation: u64) -> bool {
        self.generation == generation as u32 & GENERATIONS
    }

    /// Whether the flag is set in `generation`.
    pub(super) const fn has_flag_in(self, generation: u64) -> bool {
        self.flag && self.is_in(generation)
    }

    fn load(word: &AtomicU32) -> Self {
        let word = word.load(Ordering::Acquire);
        Self { generation: word >> 1, flag: word & 1 != 0 }
    }

    fn store(self, word: &AtomicU32) {
        word.store(self.generation << 1 | u32::from(self.flag), Ordering::Release);
    }
}

impl KeyPhases {
    pub(super) fn new(sending: Word, receiving: Word) -> Self {
        let phases = Self { sending: AtomicU32::new(0), receiving: AtomicU32::new(0) };
        phases.set_sending(sending);
        phases.set_receiving(receiving);
        phases
    }

    pub(super) fn sending(&self) -> Word {
        Word::load(&self.sending)
    }

    pub(super) fn receiving(&self) -> Word {
        Word::load(&self.receiving)
    }

    /// For the sending half alone.
    pub(super) fn set_sending(&self, word: Word) {
        word.store(&self.sending);
    }

    /// For the receiving half alone.
    pub(super) fn set_receiving(&self, word: Word) {
        word.store(&self.receiving);
    }
}
