//! The program's file, and how it is started.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::getxattr;
use rustix::process::{getpid, getppid};

use super::RunError;

/// Set-user-ID and set-group-ID.
const PRIVILEGED: u32 = 0o6000;

/// What systemd names the process by that it has started (sd_listen_fds(3), sd_watchdog_enabled(3)).
const NAMES: [&str; 2] = ["LISTEN_PID", "WATCHDOG_PID"];
/// The same process once more, in newer versions.
const LISTEN_PIDFDID: &str = "LISTEN_PIDFDID";

/// What starts a program. If systemd has named this process, the program has its own number in these variables: a shell, which then becomes
/// the program, is the only one to know it beforehand.
pub(super) fn command(program: &Path, arguments: &[OsString]) -> Command {
    let is_named = |name: &&str| env::var(name).is_ok_and(|pid| is_own(&pid));
    let named: Vec<_> = NAMES.into_iter().filter(is_named).collect();
    if named.is_empty() {
        let mut command = Command::new(program);
        command.args(arguments);
        return command;
    }
    let exports: String = named.iter().map(|name| format!("export {name}=$$; ")).collect();
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{exports}exec \"$@\"")).arg("sh").arg(program).args(arguments);
    command.env_remove(LISTEN_PIDFDID);
    command
}

/// Whether this is the number of this process, or of the one that has started it in the background or guards it.
fn is_own(pid: &str) -> bool {
    let file = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let is = |process| Some(process) == pid.parse().ok();
    is(getpid().as_raw_nonzero().get())
        || getppid().is_some_and(|parent| is(parent.as_raw_nonzero().get()))
            && file(pid).is_some_and(|of_parent| Some(of_parent) == file("self"))
}

/// The path of a program, looked up in `PATH` as a shell does, unless it is one that gets privileges by being started.
pub(super) fn find(program: &OsStr) -> Result<PathBuf, RunError> {
    let found = if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        Some(PathBuf::from(program)).filter(|path| path.exists())
    } else {
        let folders = env::var_os("PATH").unwrap_or_default();
        let mut candidates = env::split_paths(&folders).map(|folder| folder.join(program));
        candidates.find(|path| is_executable(path))
    };
    let path = found.ok_or_else(|| RunError::NoProgram(program.into()))?;
    let gets_capabilities = getxattr(&path, "security.capability", &mut [0; 64][..]).is_ok();
    let mode = fs::metadata(&path).map_or(0, |metadata| metadata.mode());
    if gets_capabilities || mode & PRIVILEGED != 0 {
        return Err(RunError::Privileged(path));
    }
    Ok(path)
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
