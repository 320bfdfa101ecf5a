//! A socket and its attachment in one.

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};

use wireseal_tcp_ao::key_chain::Timestamp;

use crate::manager::{Attachment, KeyManager, ManagerError};

/// A socket with its attachment to a [`KeyManager`], dropped in the right order.
#[derive(Debug)]
pub struct Managed<S> {
    // Before the socket, so that the socket is closed by its own drop.
    attachment: Attachment,
    socket: S,
}

impl<S: AsFd> Managed<S> {
    /// Attaches a socket and keeps it together with its attachment.
    ///
    /// # Errors
    /// Those of [`KeyManager::attach`]; the socket is then dropped, and closed if nobody else has it.
    pub fn new(socket: S, manager: &KeyManager, now: Timestamp) -> Result<Self, ManagerError> {
        Ok(Self { attachment: manager.attach(&socket, now)?, socket })
    }
}

impl<S> Managed<S> {
    /// The attachment, by whose number the manager's reports call the socket.
    pub const fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// Detaches the socket; its keys stay as they are.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.socket
    }

    #[cfg(feature = "tokio")]
    pub(super) fn into_parts(self) -> (Attachment, S) {
        (self.attachment, self.socket)
    }

    #[cfg(feature = "tokio")]
    pub(super) const fn from_parts(attachment: Attachment, socket: S) -> Self {
        Self { attachment, socket }
    }

    /// The same attachment with another form of the same socket, such as tokio's stream for std's.
    ///
    /// # Errors
    /// Those of `convert`; the socket is then detached.
    pub fn try_map<T, E>(self, convert: impl FnOnce(S) -> Result<T, E>) -> Result<Managed<T>, E> {
        let Self { attachment, socket } = self;
        Ok(Managed { socket: convert(socket)?, attachment })
    }
}

impl<S> Deref for Managed<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

impl<S> DerefMut for Managed<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.socket
    }
}

impl<S: AsFd> AsFd for Managed<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
