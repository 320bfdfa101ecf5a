//! Sockets that the manager holds no descriptor of: another program's, which closes them when it likes.

use std::os::fd::AsFd;
use std::sync::Arc;

use wireseal_keys::Timestamp;

use crate::Error;
use crate::manager::KeyManager;
use crate::manager::report::SocketReport;
use crate::manager::sockets::{Attachment, lock};

impl Attachment {
    /// Closes the manager's descriptor of the socket, and keeps what the manager knows of it. [Steps](KeyManager::step) leave the socket
    /// alone from then on; call [`KeyManager::step_with`] instead, every second.
    ///
    /// It is for a supervisor that cares for the sockets of another program. A connection is closed when its last descriptor is, and so
    /// the supervisor must hold none.
    pub fn let_go(&self) {
        let state = self.shared.state();
        let socket = state.position(self.number).map(|index| Arc::clone(&state.sockets[index].socket));
        drop(state);
        if let Some(socket) = socket {
            lock(&socket).let_go();
        }
    }
}

impl KeyManager {
    /// Takes a [`step`](Self::step) of one socket that was [let go](Attachment::let_go), with any descriptor of it, which the manager
    /// does not keep. Logs what it did (feature `tracing`).
    ///
    /// # Errors
    /// [`Error::AnotherSocket`] if it is not the socket that was attached, for instance because the program has closed that
    /// one and opened another; [`Error::Io`] if the descriptor cannot be duplicated. Nothing has changed then.
    pub fn step_with<S: AsFd + ?Sized>(
        &self,
        attachment: &Attachment,
        socket: &S,
        now: Timestamp,
    ) -> Result<SocketReport, Error> {
        let _turn = lock(&self.shared.turn);
        let state = self.shared.state();
        let listed =
            state.position(attachment.number()).map(|index| Arc::clone(&state.sockets[index].socket));
        drop(state);
        let attached = listed.ok_or(Error::AnotherSocket)?;
        let mut attached = lock(&attached);
        if !attached.take_up(socket)? {
            return Err(Error::AnotherSocket);
        }
        let report = self.step_socket(attachment.number(), &mut attached, now);
        attached.let_go();
        let report = report.ok_or(Error::AnotherSocket)?;
        crate::log::socket(&report);
        Ok(report)
    }
}
