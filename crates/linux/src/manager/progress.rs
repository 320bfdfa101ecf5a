//! Progress: which sockets have the keys of a change, and which peers have moved to them; and waiting for it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::manager::KeyManager;
use crate::manager::policy::PolicyAction;
use crate::manager::sockets::State;
use crate::{Generation, PeerName};

/// What to wait for with [`KeyManager::wait_until`] after a change of peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barrier {
    /// All attached sockets hold the keys: none is missing, and no action failed.
    Held,
    /// All attached sockets hold the keys, and the peer of each connection signs with its preferred key and asks for it, so that this end signs
    /// with it, too.
    Moved,
}

/// How far a change of a manager's peers has come, as the steps so far have found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The change.
    pub generation: Generation,
    /// The newest change, if that is a later one. Then this change can no longer reach a barrier: ask about the newest, which includes it
    /// unless it was undone.
    pub superseded_by: Option<Generation>,
    /// There was such a change, or it is [`Generation::default`], from before the first. Else nothing is known about it yet.
    pub is_made: bool,
    /// The change was [undone](KeyManager::undo).
    pub is_undone: bool,
    /// How many sockets count: those attached, without connections that have ended and those of peers that hold their old keys.
    pub sockets: usize,
    /// Sockets that lack keys or were not stepped since the change, or on which an action failed, with the reason.
    pub not_held: Vec<PendingSocket>,
    /// Connections whose peer does not sign with the preferred key, or does not ask for it, and sockets whose SYN was sent before the keys
    /// changed and is not answered yet. Connections whose keys have expired, and peers without a connection, do not count.
    pub not_moved: Vec<PendingSocket>,
    /// The peers about which a [policy](crate::Policy) has acted since their last change, in order. [`PolicyAction::HeldOldKeys`] takes
    /// their sockets out of the count.
    pub given_up: Vec<(PeerName, PolicyAction)>,
}

/// A socket that a change has not reached yet. Its Display is one line, with the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingSocket {
    /// The number of its [`Attachment`](crate::Attachment).
    pub attachment: u64,
    /// The peer of a connection, or of a socket that will connect; `None` for a socket that listens or will.
    pub peer: Option<PeerName>,
    /// What failed first in the socket's last step, and why, without secrets. `None` if nothing did, or there was no step yet. If it was
    /// not stepped since the change, this is about an earlier one.
    pub error: Option<Arc<str>>,
}

impl fmt::Display for PendingSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attachment, peer, error } = self;
        write!(f, "socket {attachment}")?;
        peer.map_or(Ok(()), |peer| write!(f, " with {peer}"))?;
        error.as_ref().map_or(Ok(()), |error| write!(f, ": {error}"))
    }
}

impl Progress {
    /// Whether all sockets that count hold the keys, and the change is the newest.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.is_made && self.superseded_by.is_none() && self.not_held.is_empty()
    }

    /// Whether also all peers have moved.
    #[must_use]
    pub const fn has_moved(&self) -> bool {
        self.is_held() && self.not_moved.is_empty()
    }

    /// Whether the barrier is reached.
    #[must_use]
    pub const fn has_reached(&self, barrier: Barrier) -> bool {
        match barrier {
            Barrier::Held => self.is_held(),
            Barrier::Moved => self.has_moved(),
        }
    }

    /// Whether there is nothing to wait for any more.
    const fn is_final(&self, barrier: Barrier) -> bool {
        self.superseded_by.is_some() || self.has_reached(barrier)
    }

    fn of(state: &State, generation: Generation) -> Self {
        let mut progress = Self {
            generation,
            superseded_by: Some(state.generation).filter(|newest| generation < *newest),
            is_made: generation <= state.generation,
            is_undone: state.undone.contains(&generation),
            sockets: 0,
            not_held: Vec::new(),
            not_moved: Vec::new(),
            given_up: state.given_up.iter().map(|(peer, action)| (*peer, *action)).collect(),
        };
        let holds_old = |peer: PeerName| state.given_up.get(&peer) == Some(&PolicyAction::HeldOldKeys);
        for entry in &state.sockets {
            let (standing, peer) = (&entry.standing, entry.state.peer);
            if standing.has_ended || peer.is_some_and(holds_old) {
                continue;
            }
            progress.sockets += 1;
            let pending = || PendingSocket { attachment: entry.number, peer, error: standing.error.clone() };
            let is_stepped = state.last_change(entry).min(generation) <= entry.state.generation;
            if !is_stepped || standing.is_unsettled {
                progress.not_held.push(pending());
            }
            if standing.is_unmoved {
                progress.not_moved.push(pending());
            }
        }
        progress
    }
}

impl KeyManager {
    /// The number of the newest change of the peers.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.shared.state().generation
    }

    /// How far a change of the peers has come, as the steps so far have found it. It makes no system call, and takes time in proportion to
    /// the attached sockets.
    #[must_use]
    pub fn progress(&self, generation: Generation) -> Progress {
        Progress::of(&self.shared.state(), generation)
    }

    /// Waits until a change of the peers has reached a barrier, is superseded or undone, or the time is over. The
    /// [progress](Progress::has_reached) says which.
    ///
    /// Somebody else has to take the steps: a thread ([`spawn`](Self::spawn)), a task, or your own thread.
    #[must_use = "the progress says whether the barrier is reached"]
    pub fn wait_until(&self, generation: Generation, barrier: Barrier, timeout: Duration) -> Progress {
        let start = Instant::now();
        let mut state = self.shared.state();
        loop {
            let progress = Progress::of(&state, generation);
            let left = timeout.saturating_sub(start.elapsed());
            if progress.is_final(barrier) || left.is_zero() {
                return progress;
            }
            state = self.shared.wait(state, left);
        }
    }

    /// Waits until a change of the peers has reached a barrier, or is superseded or undone (feature `tokio`). The
    /// [progress](Progress::has_reached) says which.
    #[cfg(feature = "tokio")]
    pub fn reached(
        &self,
        generation: Generation,
        barrier: Barrier,
    ) -> impl Future<Output = Progress> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            loop {
                // Registered before the state is read, so that no step is missed.
                let changed = shared.progressed_task.notified();
                let progress = Progress::of(&shared.state(), generation);
                if progress.is_final(barrier) {
                    return progress;
                }
                changed.await;
            }
        }
    }
}
