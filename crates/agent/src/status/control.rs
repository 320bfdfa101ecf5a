//! The control sockets of running instances: whoever connects to one gets its status as JSON, and nothing else.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, process, thread};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::process::geteuid;
use tokio::io::AsyncWriteExt;

use crate::error::Error;
use crate::instance::{self, Listener};
use crate::status::{Command, Status, StatusSource};

/// How long an instance may take to answer.
const LIMIT: Duration = Duration::from_secs(3);
/// Octets of the longest answer of this user's instances, much more than that of 100,000 peers.
const LONGEST: u64 = 256 << 20;
/// Octets of the longest answer of a container's process.
const LONGEST_OF_OTHERS: u64 = 8 << 20;

/// The instances of a user.
#[derive(Debug, Default)]
pub struct Instances {
    /// The status of each that answered, the oldest first.
    pub answered: Vec<Status>,
    /// Why the others did not answer: each is an [`Error::File`] with its control socket.
    pub silent: Vec<Error>,
}

/// The control socket of this instance, until it is dropped.
#[derive(Debug)]
pub(crate) struct Announced(PathBuf);

impl Drop for Announced {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = fs::remove_file(&self.0);
    }
}

/// The folder of the control sockets of this user's instances, which nobody else can enter.
fn folder() -> PathBuf {
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !geteuid().is_root() => Path::new(&folder).join("wireseal"),
        _ => PathBuf::from("/run/wireseal"),
    }
}

/// Makes the folder of the control sockets if this path is in it.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let folder = folder();
    if path.parent() != Some(&folder) {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The process number in the name of a control socket. The folder may have other files, such as a socket for metrics.
fn process_of(name: &str) -> Option<u32> {
    let all = [Command::Run, Command::Gateway];
    let pid = all.iter().find_map(|command| name.strip_prefix(command.name())?.strip_prefix('-'))?;
    pid.parse().ok().filter(|number: &u32| number.to_string() == pid)
}

/// The control sockets in a folder, with their processes.
fn sockets(folder: &Path) -> io::Result<Vec<(PathBuf, u32)>> {
    let found = fs::read_dir(folder)?.flatten().filter_map(|entry| {
        let pid = process_of(entry.file_name().to_str()?)?;
        entry.file_type().is_ok_and(|kind| kind.is_socket()).then(|| (entry.path(), pid))
    });
    Ok(found.collect())
}

/// Opens a control socket that answers with the status. If that fails, the instance works without one, and the log says why.
pub(crate) fn announce(command: Command, source: StatusSource) -> Option<Announced> {
    let path = folder().join(format!("{}-{}", command.name(), process::id()));
    match make_folder(&path).and_then(|()| listen(&path)).and_then(|listener| serve(listener, source)) {
        Ok(()) => Some(Announced(path)),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "`wireseal status` will not show this instance");
            None
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    // Instances that were killed leave their sockets.
    for (left, pid) in sockets(path.parent().unwrap_or(path))? {
        let has_ended = pid == process::id() || !Path::new("/proc").join(pid.to_string()).exists();
        // It may run in another PID namespace.
        let is_refused = || {
            instance::connect(&left, LIMIT).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        if has_ended && is_refused() {
            // Another instance may have removed it.
            let _ = fs::remove_file(left);
        }
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn serve(listener: UnixListener, source: StatusSource) -> io::Result<()> {
    instance::answer("status", Listener::Unix(listener), move |mut caller| {
        let status = serde_json::to_vec(&source()).unwrap_or_default();
        async move {
            // The caller may have left.
            let _ = caller.write_all(&status).await;
        }
    })
}

/// Asks this user's running instances for their status, or the one with this process number, all at once.
///
/// # Errors
/// [`Error::File`] if the folder of the control sockets cannot be read.
pub fn running(pid: Option<u32>) -> Result<Instances, Error> {
    running_in(&folder(), pid)
}

fn running_in(folder: &Path, pid: Option<u32>) -> Result<Instances, Error> {
    let mut found = match sockets(folder) {
        Ok(sockets) => sockets,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Instances::default()),
        Err(error) => {
            let said = format!("{error} (root's instances are shown to root alone)");
            return Err(Error::file(folder)(io::Error::new(error.kind(), said)));
        }
    };
    found.retain(|(_, of)| pid.is_none_or(|pid| pid == *of));
    found.sort();
    let mut instances = Instances::default();
    for (path, answer) in ask_all(found.into_iter().map(|(path, _)| (path, None)).collect()) {
        match answer {
            Ok(status) => instances.answered.push(status),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => {}
            Err(error) => instances.silent.push(silent(&path, &error.to_string())),
        }
    }
    instances.answered.sort_by_key(|status| (status.since, status.pid));
    Ok(instances)
}

/// Asks control sockets for the status, all at once and with one limit of time for all. With a process number, that process must be who
/// answers, and root's.
pub(crate) fn ask_all(mut asked: Vec<(PathBuf, Option<u32>)>) -> Vec<(PathBuf, io::Result<Status>)> {
    let until = Instant::now() + LIMIT;
    let (said, saying) = mpsc::channel();
    for (path, of) in &asked {
        let (path, of, said) = (path.clone(), *of, said.clone());
        // If the thread cannot be started, the instance counts as silent.
        let _ = thread::Builder::new().spawn(move || {
            // The receiver may have given up.
            let _ = said.send((path.clone(), ask(&path, of)));
        });
    }
    drop(said);
    let mut answers = Vec::new();
    while let Ok((path, answer)) = saying.recv_timeout(until.saturating_duration_since(Instant::now())) {
        asked.retain(|(other, _)| *other != path);
        answers.push((path, answer));
    }
    let late = || io::Error::other(format!("not within {} seconds", LIMIT.as_secs()));
    answers.extend(asked.into_iter().map(|(path, _)| (path, Err(late()))));
    answers
}

fn silent(path: &Path, why: &str) -> Error {
    Error::file(path)(io::Error::other(format!("no answer: {why}")))
}

fn ask(path: &Path, of: Option<u32>) -> io::Result<Status> {
    // Longer than the caller waits, so that the caller reports the timeout.
    let socket = instance::connect(path, 2 * LIMIT)?;
    let longest = match of {
        None => LONGEST,
        Some(of) => {
            // The process that listens, as this process sees it; 0 if it does not.
            let peer = getsockopt(&socket, PeerCredentials)?;
            if u32::try_from(peer.pid()) != Ok(of) || peer.uid() != 0 {
                return Err(io::Error::other("another process answers"));
            }
            LONGEST_OF_OTHERS
        }
    };
    let mut status = Vec::new();
    socket.take(longest).read_to_end(&mut status)?;
    Ok(serde_json::from_slice(&status)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::*;
    use crate::status::examples;

    #[test]
    fn only_control_sockets_are_asked_and_cleaned_away() {
        assert_eq!(process_of("gateway-411"), Some(411));
        assert_eq!(process_of("run-1"), Some(1));
        for name in
            ["metrics", "gateway-", "gateway-0411", "gateway-4 ", "gateway-4.new", "my-gateway-4", "-4"]
        {
            assert_eq!(process_of(name), None, "{name}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // Beyond the highest process number of Linux, 2^22.
        let ended = path("gateway-4194305");
        drop(UnixListener::bind(&ended).unwrap());
        let _metrics = UnixListener::bind(path("metrics")).unwrap();
        drop(UnixListener::bind(path("notes-4194305")).unwrap());
        for file in ["run-4194305", "notes-12", "gateway-7"] {
            fs::write(path(file), "").unwrap();
        }
        let own = path(&format!("gateway-{}", process::id()));
        let listener = listen(&own).unwrap();
        assert!(!ended.exists());
        for file in ["metrics", "notes-4194305", "run-4194305", "notes-12", "gateway-7"] {
            assert!(path(file).exists(), "{file}");
        }
        serve(listener, Arc::new(examples::status)).unwrap();
        let found = running_in(folder.path(), None).unwrap();
        assert_eq!((found.answered, found.silent.len()), (vec![examples::status()], 0));
        // Another process has not said it; and a local user could have.
        for (of, is_believed) in [(process::id(), geteuid().is_root()), (process::id() + 1, false)] {
            let answers = ask_all(vec![(own.clone(), Some(of))]);
            assert_eq!(answers[0].1.is_ok(), is_believed, "{answers:?}");
        }
    }

    #[test]
    fn an_instance_that_hangs_does_not_hide_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let hangs = folder.path().join("run-1");
        let _hangs = UnixListener::bind(&hangs).unwrap();
        let nonsense = UnixListener::bind(folder.path().join("run-3")).unwrap();
        thread::spawn(move || nonsense.incoming().for_each(drop));
        let works = listen(&folder.path().join("gateway-2")).unwrap();
        serve(works, Arc::new(examples::status)).unwrap();
        // It answers others although these do not read.
        let _idle: Vec<_> =
            (0..5).map(|_| UnixStream::connect(folder.path().join("gateway-2")).unwrap()).collect();
        let started = Instant::now();
        let found = running_in(folder.path(), None).unwrap();
        assert_eq!(found.answered, [examples::status()]);
        let silent: Vec<_> = found.silent.iter().map(ToString::to_string).collect();
        assert_eq!(silent.len(), 2, "{silent:?}");
        assert!(
            silent.iter().any(|error| error.contains("run-1: no answer: not within 3 seconds")),
            "{silent:?}"
        );
        assert!(started.elapsed() < 2 * LIMIT);
        // The silent one is not asked.
        let found = running_in(folder.path(), Some(2)).unwrap();
        assert_eq!((found.answered.len(), found.silent.len()), (1, 0));
        // Now nobody can even connect.
        let mut callers = Vec::new();
        while let Ok(caller) = instance::connect(&hangs, Duration::from_millis(100)) {
            callers.push(caller);
        }
        assert_eq!(running_in(folder.path(), Some(1)).unwrap().silent.len(), 1);
    }
}
