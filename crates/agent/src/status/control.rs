//! The control sockets of running instances: whoever connects to one gets its status as JSON, and nothing else.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, process, thread};

use rustix::process::geteuid;

use crate::status::{Command, Status, StatusSource};

/// How long the other end may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Why the instances could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The folder of the control sockets cannot be read.
    #[error("{}: {error} (root's instances are shown to root alone)", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why. It is in the message, and so not the error's source.
        error: io::Error,
    },
    /// An instance did not answer as it should.
    #[error("{}: no answer: {error}", path.display())]
    NoAnswer {
        /// Its control socket.
        path: PathBuf,
        /// Why. It is in the message, and so not the error's source.
        error: io::Error,
    },
}

/// The control socket of this instance, until it is dropped.
#[derive(Debug)]
pub(crate) struct Announced(PathBuf);

impl Drop for Announced {
    fn drop(&mut self) {
        // If it is gone already, all the better.
        let _ = fs::remove_file(&self.0);
    }
}

/// Where the control sockets are: each user's instances have a folder that nobody else can enter.
fn folder() -> PathBuf {
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !geteuid().is_root() => Path::new(&folder).join("wireseal"),
        _ => PathBuf::from("/run/wireseal"),
    }
}

/// Answers whoever asks for the status from now on. Without a control socket an instance works all the same; the log says why there is
/// none.
pub(crate) fn announce(command: Command, source: StatusSource) -> Option<Announced> {
    let path = folder().join(format!("{}-{}", command.name(), process::id()));
    match listen(&path).and_then(|listener| serve(listener, source)) {
        Ok(()) => Some(Announced(path)),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "`wireseal status` will not show this instance");
            None
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let folder = path.parent().ok_or(ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Those that instances left when they were killed.
    for left in fs::read_dir(folder)?.flatten().map(|entry| entry.path()) {
        let name = left.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let has_ended =
            |pid: &str| pid == process::id().to_string() || !Path::new("/proc").join(pid).exists();
        let is_gone = name.rsplit('-').next().is_some_and(has_ended);
        let is_refused =
            || UnixStream::connect(&left).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if is_gone && is_refused() {
            // Another instance may have removed it.
            let _ = fs::remove_file(left);
        }
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn serve(listener: UnixListener, source: StatusSource) -> io::Result<()> {
    let thread = thread::Builder::new().name("status".to_owned());
    let thread = thread.spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever asked may have left.
            let _ = answer(stream, &source());
        }
    });
    thread.map(drop)
}

fn answer(stream: UnixStream, status: &Status) -> io::Result<()> {
    stream.set_write_timeout(Some(LIMIT))?;
    serde_json::to_writer(stream, status).map_err(Into::into)
}

/// The status of each instance that this user has running, the oldest first. Those that were killed are left out.
///
/// # Errors
/// [`StatusError`].
pub fn running() -> Result<Vec<Status>, StatusError> {
    let folder = folder();
    let paths = match fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StatusError::Folder { path: folder, error }),
    };
    let mut found = Vec::new();
    for path in paths {
        match UnixStream::connect(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => {}
            connected => {
                let asked = connected.and_then(|stream| {
                    stream.set_read_timeout(Some(LIMIT))?;
                    serde_json::from_reader(stream).map_err(Into::into)
                });
                found.push(asked.map_err(|error| StatusError::NoAnswer { path, error })?);
            }
        }
    }
    found.sort_by_key(|status: &Status| (status.since, status.pid));
    Ok(found)
}
