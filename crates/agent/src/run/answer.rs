//! Answers to the program's calls.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use libseccomp::{ScmpNotifResp, ScmpNotifRespFlags, notify_id_valid};
use rustix::io::Errno;

/// What a call returns.
pub(super) type Made = Result<(), Errno>;

/// What the program's call returns.
pub(super) enum Answer {
    /// This, from the supervisor.
    Made(Made),
    /// What the kernel says to it.
    Unprotected,
    /// It is answered later.
    Later,
}

/// A call of the program that waits for its answer.
#[derive(Clone)]
pub(super) struct Caller {
    /// Where it was announced.
    pub(super) notifications: Arc<OwnedFd>,
    pub(super) call: u64,
}

impl Caller {
    /// Whether it still waits.
    pub(super) fn waits(&self) -> bool {
        notify_id_valid(self.notifications.as_raw_fd(), self.call).is_ok()
    }

    /// Returns whether it has heard.
    pub(super) fn answer(&self, answer: &Answer) -> bool {
        let none = ScmpNotifRespFlags::empty();
        let response = match answer {
            Answer::Made(Ok(())) => ScmpNotifResp::new_val(self.call, 0, none),
            Answer::Made(Err(error)) => ScmpNotifResp::new_error(self.call, -error.raw_os_error(), none),
            Answer::Unprotected => ScmpNotifResp::new_continue(self.call, none),
            Answer::Later => return false,
        };
        // The caller may have been killed, or interrupted by a signal.
        response.respond(self.notifications.as_raw_fd()).is_ok()
    }
}
