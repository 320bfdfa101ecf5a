//! The list of a manager's sockets, and what keeps a socket on it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cidr::IpCidr;
use wireseal_tcp_ao::key_chain::KeyChain;

use crate::manager::attached::{Attached, Identity};
use crate::manager::pace::Pace;

/// What all handles and attachments of a manager share.
pub(super) struct Shared {
    pub(super) remote: IpCidr,
    pub(super) vrf: Option<u32>,
    pub(super) state: Mutex<State>,
    /// Held for a whole step, so that no step undoes what a later one has done. It is locked before any socket.
    pub(super) turn: Mutex<()>,
}

/// Locked only briefly, never during a call that may wait in the kernel.
pub(super) struct State {
    pub(super) chain: Arc<KeyChain>,
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
}

impl State {
    pub(super) fn position(&self, number: u64) -> Option<usize> {
        self.sockets.binary_search_by_key(&number, |entry| entry.number).ok()
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
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
    }
}
