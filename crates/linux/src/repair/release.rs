//! Which kernels can restore a connection.

use crate::error::Error;

/// Whether a kernel of this release, as `uname -r` prints it, can restore a connection with TCP-AO.
///
/// When a socket in repair connects, older kernels read the ISN from a SYN-ACK that is not there, and crash
/// (`tcp_ao_finish_connect`). Keys added after it connects come too late: Linux then signs segments before it cuts them to size.
pub(crate) fn can_restore(release: &str) -> bool {
    let mut numbers = release.split(|char: char| !char.is_ascii_digit()).map(|number| number.parse::<u32>());
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
    let version = (next(), next(), next());
    version >= (6, 17, 0) || ((6, 12, 49)..(6, 13, 0)).contains(&version)
}

/// # Errors
/// [`Error::CannotRestore`].
pub(super) fn check(release: String) -> Result<(), Error> {
    if can_restore(&release) { Ok(()) } else { Err(Error::CannotRestore { kernel: release }) }
}
