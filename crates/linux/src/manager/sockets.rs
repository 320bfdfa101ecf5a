//! A manager's list of sockets, how a socket stays on it, and when each needs a step.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;

use wireseal_keys::Timestamp;

use crate::manager::apply::IDLE;
use crate::manager::look::{Attached, Identity};
use crate::manager::peers::{Configured, PeerTable};
use crate::manager::report::SocketState;

/// Shared by all handles and attachments of a manager.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) clock: Mutex<Clock>,
    /// Held for a whole step, so that no step undoes a later one. Lock it before any socket.
    pub(super) turn: Mutex<()>,
    /// Wakes tasks that wait for connections to expire or to be detached.
    #[cfg(feature = "tokio")]
    pub(super) expired: tokio::sync::Notify,
}

/// The lists of peers and sockets. Locked only briefly, never during a call that can wait in the kernel.
#[derive(Default)]
pub(super) struct State {
    /// Shared with the step that is in progress.
    pub(super) peers: Arc<PeerTable<Configured>>,
    /// The number of changes of the peers.
    pub(super) version: u64,
    /// In the order of their numbers.
    pub(super) sockets: Vec<Entry>,
    pub(super) next_number: u64,
    pub(super) pace: Pace,
}

/// A socket on the list. While the socket is locked the state may be locked, but not the other way round.
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) identity: Identity,
    pub(super) socket: Arc<Mutex<Attached>>,
    /// The state's version when the socket last got its keys.
    pub(super) version: u64,
    /// When it needs the next step.
    pub(super) next: Option<Timestamp>,
    /// The findings of its last step; its peer is known from the start.
    pub(super) state: SocketState,
}

/// When the last step of all sockets was, and when the peers' chains next need one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    last: Option<Timestamp>,
    next: Option<Timestamp>,
}

impl Pace {
    /// Records a step: of all sockets at this time, or of those that were due.
    pub(super) fn stepped(&mut self, all: Option<Timestamp>) {
        *self = Self { last: all.or(self.last), next: None };
    }

    /// Makes the next step no later than `moment`.
    pub(super) fn no_later_than(&mut self, moment: Option<Timestamp>) {
        self.next = [self.next, moment].into_iter().flatten().min();
    }

    pub(super) const fn next(&self) -> Option<Timestamp> {
        self.next
    }

    /// Whether all sockets need a step: the last one is long ago, or the clock went back.
    pub(super) fn is_long_ago(&self, now: Timestamp) -> bool {
        self.last.is_none_or(|last| now < last || last.later_by(IDLE) <= now)
    }
}

impl State {
    pub(super) fn position(&self, number: u64) -> Option<usize> {
        self.sockets.binary_search_by_key(&number, |entry| entry.number).ok()
    }

    pub(super) fn socket(&self, number: u64) -> Option<Arc<Mutex<Attached>>> {
        self.position(number).map(|index| Arc::clone(&self.sockets[index].socket))
    }

    /// The numbers and sockets of these entries. The sockets may be detached and closed meanwhile.
    pub(super) fn listed(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<(u64, Weak<Mutex<Attached>>)> {
        let wanted = self.sockets.iter().filter(|entry| is_wanted(entry));
        wanted.map(|entry| (entry.number, Arc::downgrade(&entry.socket))).collect()
    }

    /// Whether a connection should be shut down, or is no longer attached.
    #[cfg(feature = "tokio")]
    pub(super) fn has_expired(&self, number: u64) -> bool {
        self.position(number).is_none_or(|index| self.sockets[index].state.expired)
    }

    /// Changes the peers; `change` gets the number of the change.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&mut PeerTable<Configured>, u64) -> T) -> T {
        self.version += 1;
        self.pace.no_later_than(Some(Timestamp::MIN));
        change(Arc::make_mut(&mut self.peers), self.version)
    }

    /// Whether a socket needs a step: its time has come, or a peer whose keys it has was changed.
    pub(super) fn is_due(&self, entry: &Entry, now: Timestamp) -> bool {
        let configured = entry.state.peer.and_then(|peer| self.peers.get(&peer));
        let changed = configured.map_or(self.version, |configured| configured.version);
        entry.version < changed || entry.next.is_some_and(|next| next <= now)
    }

    /// When the next step is due if nothing changes.
    pub(super) fn next_step(&self) -> Option<Timestamp> {
        self.sockets.iter().map(|entry| entry.next).chain([self.pace.next()]).flatten().min()
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Wakes the thread that takes steps.
    pub(super) fn wake(&self) {
        if let Some(handle) = &lock(&self.clock).handle {
            handle.unpark();
        }
    }

    /// Tells waiting tasks that a connection has expired or is detached.
    pub(super) fn notify(&self) {
        #[cfg(feature = "tokio")]
        self.expired.notify_waiters();
    }
}

/// The thread or task that takes steps by the system clock. Its token lives as long as it does, even if it panics or is aborted.
#[derive(Default)]
pub(super) struct Clock {
    thread: Weak<()>,
    task: Weak<()>,
    /// The thread, to wake when peers change.
    pub(super) handle: Option<Thread>,
}

impl Clock {
    /// Lets a thread take steps, unless a thread or a task already does.
    pub(super) fn claim_for_thread(&mut self) -> Option<Arc<()>> {
        if self.thread.strong_count() > 0 || self.has_task() {
            return None;
        }
        let token = Arc::default();
        self.thread = Arc::downgrade(&token);
        Some(token)
    }

    /// Lets a task take steps and report them, in place of a thread.
    #[cfg(feature = "tokio")]
    pub(super) fn claim_for_task(&mut self) -> Arc<()> {
        let token = self.task.upgrade().unwrap_or_default();
        self.task = Arc::downgrade(&token);
        token
    }

    pub(super) fn has_task(&self) -> bool {
        self.task.strong_count() > 0
    }
}

/// Ignores poisoning: no panic leaves the state half-changed, and the keys themselves are on the sockets.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a socket attached to a [`KeyManager`](crate::KeyManager) until it is dropped; the socket then keeps the keys it has.
///
/// Drop it before the socket. The manager holds a duplicate of the descriptor, so closing the socket first does not end the
/// connection. Declare a local attachment after the socket, and a field before it.
#[must_use = "dropping it leaves the socket's keys as they are"]
pub struct Attachment {
    pub(super) shared: Arc<Shared>,
    pub(super) number: u64,
}

impl Attachment {
    /// The socket's number in the manager's reports
    /// ([`SocketReport::attachment`](crate::SocketReport::attachment)). The manager never uses it for another socket.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The findings of the manager's last step about the socket.
    #[must_use]
    pub fn state(&self) -> SocketState {
        let state = self.shared.state();
        let entry = state.position(self.number).map(|index| &state.sockets[index]);
        entry.map(|entry| entry.state).unwrap_or_default()
    }

    /// Closes the manager's descriptor of the socket, and keeps what the manager knows of it. [Steps](crate::KeyManager::step) then skip
    /// the socket; call [`KeyManager::step_with`](crate::KeyManager::step_with) every second instead.
    ///
    /// This is for a supervisor of another program's sockets: closing the last descriptor closes a connection, so the supervisor must hold
    /// none.
    pub fn let_go(&self) {
        let socket = self.shared.state().socket(self.number);
        if let Some(socket) = socket {
            lock(&socket).let_go();
        }
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attachment").field(&self.number).finish()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let entry = state.position(self.number).map(|index| state.sockets.remove(index));
        // Unlock first, because closing a socket can take time.
        drop(state);
        drop(entry);
        self.shared.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::manager::apply::Outcome;
    use crate::manager::tests::name;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_seconds(seconds)
    }

    #[test]
    fn all_sockets_are_stepped_after_a_while_and_when_the_clock_goes_back() {
        let mut pace = Pace::default();
        assert!(pace.is_long_ago(at(0)), "there was no step yet");
        pace.stepped(Some(at(100)));
        let due: Vec<i64> = (95..=131).filter(|now| pace.is_long_ago(at(*now))).collect();
        assert_eq!(due, [95, 96, 97, 98, 99, 130, 131]);
        for moment in [Some(105), None, Some(107)] {
            pace.no_later_than(moment.map(at));
        }
        assert_eq!(pace.next(), Some(at(105)));
        pace.stepped(None);
        assert!(pace.next().is_none() && !pace.is_long_ago(at(129)));
    }

    #[test]
    fn a_socket_that_is_not_done_is_stepped_soon() {
        let after = |failed, behind| {
            let outcome = Outcome { failed, again: Some(at(60)), ..Outcome::default() };
            outcome.next(behind, at(0))
        };
        assert_eq!(after(Vec::new(), false), Some(at(60)));
        assert_eq!(after(Vec::new(), true), Some(at(1)));
        assert_eq!(after(vec![(None, Error::KeyInUse(name(1, 1)))], false), Some(at(1)));
        assert_eq!(after(vec![(None, Error::NoMemory)], false), Some(at(30)));
    }
}
