//! A socket's tie to its manager.

use std::fmt;
use std::sync::Arc;

use crate::manager::Shared;

/// Keeps a socket attached to a [`KeyManager`](crate::KeyManager) until it is dropped. The keys on the socket stay
/// as they are then.
///
/// The manager holds a duplicate of the descriptor as long, so closing the socket before this is dropped does not end
/// the connection: drop this first. [`Managed`](crate::Managed) does.
#[must_use = "dropped, the socket's keys are left as they are"]
pub struct Attachment {
    shared: Arc<Shared>,
    number: u64,
}

impl Attachment {
    pub(super) const fn new(shared: Arc<Shared>, number: u64) -> Self {
        Self { shared, number }
    }

    /// What the manager's reports call the socket ([`SocketReport::attachment`](crate::SocketReport::attachment)): no
    /// other attachment of the manager ever has the same number.
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
        self.shared.detach(self.number);
    }
}
