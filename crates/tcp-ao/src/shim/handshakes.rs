//! The handshakes that a peer may mean before a connection is established.
//!
//! The key of a SYN depends only on the SYN, so that a recorded one verifies at any time. Which of several SYNs is genuine shows only
//! when an acknowledgment verifies; until then the last few are kept, each with this end's answers.

use crate::connection::Handshake;
use crate::types::Isn;

/// How many are kept.
const KEPT: usize = 4;

/// The last few handshakes, the newest first.
#[derive(Default)]
pub(super) struct Handshakes([Option<Handshake>; KEPT]);

impl Handshakes {
    /// Adds a handshake, unless it is there already. The oldest without an answer makes way, or else the oldest.
    pub(super) fn add(&mut self, new: Handshake) {
        let is_same = |old: &Handshake| {
            old.remote_isn == new.remote_isn && (new.local_isn.is_none() || new.local_isn == old.local_isn)
        };
        if self.0.iter().flatten().any(is_same) {
            return;
        }
        let is_answer = |old: &Handshake| old.remote_isn == new.remote_isn && old.local_isn.is_none();
        let replaced = self.0.iter().position(|old| old.as_ref().is_some_and(is_answer));
        let free = || self.0.iter().position(Option::is_none);
        let unanswered = || self.0.iter().rposition(|old| old.is_some_and(|old| old.local_isn.is_none()));
        let place = replaced.or_else(free).or_else(unanswered).unwrap_or(KEPT - 1);
        self.0[..=place].rotate_right(1);
        self.0[0] = Some(new);
    }

    /// The latest handshake with the SYN of this ISN.
    pub(super) fn of_syn(&self, remote_isn: Isn) -> Option<Handshake> {
        self.0.iter().flatten().find(|handshake| handshake.remote_isn == remote_isn).copied()
    }

    /// The handshake with these ISNs.
    pub(super) fn of(&self, remote_isn: Isn, local_isn: Isn) -> Option<Handshake> {
        let is_it = |handshake: &&Handshake| {
            (handshake.remote_isn, handshake.local_isn) == (remote_isn, Some(local_isn))
        };
        self.0.iter().flatten().find(is_it).copied()
    }
}
