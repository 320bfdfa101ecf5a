//! The list of a manager's sockets, and what keeps a socket on it.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;

use wireseal_keys::Timestamp;
use wireseal_tcp_ao::Counters;

use crate::PeerName;
use crate::manager::attached::{Attached, Identity};
use crate::manager::pace::Pace;
use crate::manager::peers::{Configured, PeerTable};

/// What all handles and attachments of a manager share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// What takes steps by the system clock: nothing, a thread, or a task that reports them.
    clock: AtomicU8,
    /// The thread that takes steps, to be woken when peers change.
    pub(super) thread: Mutex<Option<Thread>>,
    /// Held for a whole step, so that no step undoes what a later one has done. It is locked before any socket.
    pub(super) turn: Mutex<()>,
    /// Wakes what waits for connections that have expired, or are detached.
    #[cfg(feature = "tokio")]
    pub(super) expired: tokio::sync::Notify,
}

/// Locked only briefly, never during a call that may wait in the kernel.
#[derive(Default)]
pub(super) struct State {
    /// Shared with the socket that is being worked on.
    pub(super) peers: Arc<PeerTable<Configured>>,
    /// Counts changes of the peers.
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
    /// The peer of a connection or of a socket that will connect.
    pub(super) peer: Option<PeerName>,
    /// The state's version when the socket last got its keys.
    pub(super) version: u64,
    /// When it needs the next step.
    pub(super) next: Option<Timestamp>,
    /// After its last step.
    pub(super) state: SocketState,
}

/// What the last step found of an attached socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketState {
    /// The peer of a connection.
    pub peer: Option<PeerName>,
    /// For a connection: shut it down, because no key is valid for sending, or because its peer was removed.
    pub expired: bool,
    /// The peer has not yet signed with the key that it was asked for.
    pub is_peer_behind: bool,
    /// Segments received; `None` before the first step, and if the socket has no TCP-AO.
    pub counters: Option<Counters>,
}

impl State {
    pub(super) fn position(&self, number: u64) -> Option<usize> {
        self.sockets.binary_search_by_key(&number, |entry| entry.number).ok()
    }

    /// Whether a connection is to be shut down, or is attached no longer.
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
        let configured = entry.peer.and_then(|peer| self.peers.get(&peer));
        let changed = configured.map_or(self.version, |configured| configured.version);
        entry.version < changed || entry.next.is_some_and(|next| next <= now)
    }

    /// When the next step is due if nothing changes.
    pub(super) fn next_step(&self) -> Option<Timestamp> {
        self.sockets.iter().map(|entry| entry.next).chain([self.pace.next()]).flatten().min()
    }
}

impl Shared {
    /// Has the caller take steps by the system clock, as a thread if nothing else does, or with reports in place of a thread.
    pub(super) fn claim_clock(self: &Arc<Self>, by: u8) -> Option<Clock> {
        let claimed = match by {
            THREAD => self.clock.compare_exchange(0, THREAD, Ordering::Relaxed, Ordering::Relaxed).is_ok(),
            _ => self.clock.swap(by, Ordering::Relaxed) != by,
        };
        claimed.then(|| Clock { shared: Arc::downgrade(self), by })
    }

    pub(super) fn is_clock(&self, by: u8) -> bool {
        self.clock.load(Ordering::Relaxed) == by
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Has the thread that takes steps take one now.
    pub(super) fn wake(&self) {
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }

    /// A connection has expired, or is detached.
    pub(super) fn notify(&self) {
        #[cfg(feature = "tokio")]
        self.expired.notify_waiters();
    }
}

/// A thread takes steps by the system clock.
pub(super) const THREAD: u8 = 1;
/// A task takes steps by the system clock and reports them.
#[cfg(feature = "tokio")]
pub(super) const REPORTING: u8 = 2;

/// Held by what takes steps by the system clock. Dropping it, also in a panic or with an aborted task, lets others start.
pub(super) struct Clock {
    shared: Weak<Shared>,
    by: u8,
}

impl Drop for Clock {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            let _ = shared.clock.compare_exchange(self.by, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Locks even after a panic: what is here is consistent whenever a lock can be released, and the keys are on the sockets.
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

    /// What the manager's last step found of the socket.
    #[must_use]
    pub fn state(&self) -> SocketState {
        let state = self.shared.state();
        let entry = state.position(self.number).map(|index| &state.sockets[index]);
        entry.map(|entry| SocketState { peer: entry.peer, ..entry.state }).unwrap_or_default()
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
        // Unlock first: closing a socket can take time.
        drop(state);
        drop(entry);
        self.shared.notify();
    }
}
