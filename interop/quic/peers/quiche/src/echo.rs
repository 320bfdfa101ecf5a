//! The application: the server echoes the first stream.

use peer_program::Failure;
use quiche::{Connection, Error};

const STREAM: u64 = 0;

/// One end of the stream.
pub(crate) struct Echo {
    is_server: bool,
    payload: Vec<u8>,
    received: Vec<u8>,
    /// Whether everything was received.
    complete: bool,
    sent: usize,
    finished: bool,
}

impl Echo {
    pub(crate) fn client(payload: Vec<u8>) -> Self {
        Self { is_server: false, payload, received: Vec::new(), complete: false, sent: 0, finished: false }
    }

    pub(crate) fn server() -> Self {
        Self { is_server: true, ..Self::client(Vec::new()) }
    }

    pub(crate) fn received(&self) -> &[u8] {
        &self.received
    }

    /// Receives and sends as much as possible now. A client that has received everything closes the connection.
    pub(crate) fn progress(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        if !connection.is_established() {
            return Ok(());
        }
        let mut piece = [0; 16_384];
        while connection.stream_readable(STREAM) {
            let (length, complete) = connection.stream_recv(STREAM, &mut piece)?;
            self.received.extend_from_slice(&piece[..length]);
            self.complete |= complete;
        }
        // A server sends nothing before the client has opened the stream.
        if !self.finished && (!self.is_server || !self.received.is_empty()) {
            self.send(connection)?;
        }
        if self.complete && !self.is_server {
            connection.close(true, 0, b"")?;
        }
        Ok(())
    }

    fn send(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let (octets, last) =
            if self.is_server { (&self.received, self.complete) } else { (&self.payload, true) };
        match connection.stream_send(STREAM, &octets[self.sent..], last) {
            Ok(length) => self.sent += length,
            Err(Error::Done) => {}
            Err(error) => return Err(error.into()),
        }
        self.finished = last && self.sent == octets.len();
        Ok(())
    }
}
