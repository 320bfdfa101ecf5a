//! The file of sessions. It contains no secrets, but is the owner's alone: whoever can write it decides on sequence numbers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use wireseal_tcp_ao::ConnectionState;

use super::GatewayError;

/// Reads sessions. Each may go on once, so the file has to be removed before another gateway reads it.
pub(super) fn read(path: &Path, mut file: File) -> Result<Vec<ConnectionState>, GatewayError> {
    let mut octets = Vec::new();
    let invalid = |error: String| io::Error::new(ErrorKind::InvalidData, error);
    let read = file.read_to_end(&mut octets).and_then(|_| {
        let states = octets.chunks(ConnectionState::OCTETS);
        let states = states
            .map(|octets| ConnectionState::from_octets(octets).map_err(|error| invalid(error.to_string())));
        states.collect::<Result<_, _>>()
    });
    read.map_err(|error| GatewayError::State { path: path.to_owned(), error })
}

/// Writes sessions, all or none.
pub(super) fn write(path: &Path, states: &[ConnectionState]) -> io::Result<()> {
    let new = path.with_extension("new");
    // One that a crash has left may be another user's.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    for state in states {
        file.write_all(&state.to_octets())?;
    }
    file.sync_all()?;
    fs::rename(new, path)
}
