//! The filter that stops the program's calls, and starting the program under it.

use std::env;
use std::ffi::{OsStr, OsString, c_long};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::getxattr;
use rustix::io::Errno;
use rustix::process::{Pid, getpid, getppid};
use wireseal_linux::CallAction::{self, Notify};
use wireseal_linux::{CallFilter, CallListener, CallRule};

use crate::error::Error;

/// Protocol numbers and option names of Linux, `linux/in.h` and `linux/tcp.h`.
const IPPROTO_TCP: u32 = 6;
const IPPROTO_MPTCP: u32 = 262;
const IPPROTO_SMC: u32 = 256;
const AF_SMC: u32 = 43;
const TCP_MD5SIG: u32 = 14;
/// The option for TCP-MD5 whose flags count.
pub(super) const TCP_MD5SIG_EXT: u32 = 32;
const TCP_AO_ADD_KEY: u32 = 38;
const TCP_AO_DEL_KEY: u32 = 39;
const TCP_AO_INFO: u32 = 40;
/// This option returns the secrets.
const TCP_AO_GET_KEYS: u32 = 41;
/// Connects and sends in one call.
const MSG_FASTOPEN: u32 = 0x2000_0000;
/// Flags of `clone` and `unshare`, and one of `close_range`, `linux/sched.h` and `linux/close_range.h`.
const CLONE_FILES: u32 = 0x400;
const CLONE_THREAD: u32 = 0x1_0000;
const CLOSE_RANGE_UNSHARE: u32 = 2;

/// Set-user-ID and set-group-ID.
const PRIVILEGED: u32 = 0o6000;

/// The variables with the number of the process that systemd has started (sd_listen_fds(3), sd_watchdog_enabled(3)).
const NAMES: [&str; 2] = ["LISTEN_PID", "WATCHDOG_PID"];
/// Its pidfd's inode, in newer versions.
const LISTEN_PIDFDID: &str = "LISTEN_PIDFDID";

/// Starts a program under the filter, from a thread that then ends, because the filter applies to that thread too. Returns the program and
/// the listener for its calls.
pub(super) fn spawn(
    program: &Path,
    arguments: &[OsString],
    has_stdin: bool,
) -> Result<(Pid, CallListener), Error> {
    let mut command = command(program, arguments);
    if !has_stdin {
        command.stdin(Stdio::null());
    }
    let (pid, notifications) = in_thread(|| {
        let notifications = install()?;
        let child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::NoProgram(program.to_owned()),
            _ => Error::NotExecutable { program: program.to_owned(), error },
        })?;
        Ok((child.id(), notifications))
    })?;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok((pid.ok_or(ErrorKind::InvalidData).map_err(Error::cannot("supervise"))?, notifications))
}

/// The command that starts a program. If systemd's variables have this process's number, a shell sets them to its own and then becomes the
/// program: nobody else knows the program's number beforehand.
fn command(program: &Path, arguments: &[OsString]) -> Command {
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

/// Whether this is the number of this process, or of the `wireseal` in front of it.
fn is_own(pid: &str) -> bool {
    let file = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let is = |process| Some(process) == pid.parse().ok();
    is(getpid().as_raw_nonzero().get())
        || getppid().is_some_and(|parent| is(parent.as_raw_nonzero().get()))
            && file(pid).is_some_and(|of_parent| Some(of_parent) == file("self"))
}

/// The path of a program, looked up in `PATH` as a shell does. A program that gets privileges when it is started is refused.
pub(super) fn find(program: &OsStr) -> Result<PathBuf, Error> {
    let found = if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        Some(PathBuf::from(program)).filter(|path| path.exists())
    } else {
        let folders = env::var_os("PATH").unwrap_or_default();
        let is_executable = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        env::split_paths(&folders).map(|folder| folder.join(program)).find(is_executable)
    };
    let path = found.ok_or_else(|| Error::NoProgram(program.into()))?;
    let gets_capabilities = getxattr(&path, "security.capability", &mut [0; 64][..]).is_ok();
    let mode = fs::metadata(&path).map_or(0, |metadata| metadata.mode());
    if gets_capabilities || mode & PRIVILEGED != 0 {
        return Err(Error::Privileged(path));
    }
    Ok(path)
}

/// Whether another supervisor answers this process's calls.
pub(super) fn is_supervised() -> bool {
    matches!(in_thread(install), Err(Error::Supervised))
}

/// Runs this in a thread of its own: a filter stays on the thread that installs it.
fn in_thread<T: Send>(act: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let ended = scope.spawn(act).join();
        ended.unwrap_or_else(|_| {
            Err(Error::cannot("supervise")(io::Error::other("the starting thread has panicked")))
        })
    })
}

/// Installs the filter on this thread; returns the listener for its calls.
fn install() -> Result<CallListener, Error> {
    CallFilter(RULES).install().map_err(|error| match error.kind() {
        // The kernel takes no second filter that notifies.
        ErrorKind::ResourceBusy => Error::Supervised,
        _ => Error::cannot("install the seccomp filter")(error),
    })
}

/// What the filter refuses, and what it notifies of; it lets everything else pass.
const RULES: &[CallRule<'static>] = &[
    rule(libc::SYS_connect, &[], Notify),
    rule(libc::SYS_listen, &[], Notify),
    rule(libc::SYS_io_uring_setup, &[], refuse(Errno::NOSYS)),
    // These open TCP connections too, but their sockets take no TCP-AO keys.
    rule(libc::SYS_socket, &[is(2, IPPROTO_MPTCP)], refuse(Errno::PROTONOSUPPORT)),
    rule(libc::SYS_socket, &[is(2, IPPROTO_SMC)], refuse(Errno::PROTONOSUPPORT)),
    rule(libc::SYS_socket, &[is(0, AF_SMC)], refuse(Errno::AFNOSUPPORT)),
    rule(libc::SYS_sendto, &[has(3, MSG_FASTOPEN)], refuse(Errno::OPNOTSUPP)),
    rule(libc::SYS_sendmsg, &[has(2, MSG_FASTOPEN)], refuse(Errno::OPNOTSUPP)),
    rule(libc::SYS_sendmmsg, &[has(3, MSG_FASTOPEN)], refuse(Errno::OPNOTSUPP)),
    rule(libc::SYS_setsockopt, &[is(1, IPPROTO_TCP), is(2, TCP_AO_ADD_KEY)], refuse(Errno::NOPROTOOPT)),
    rule(libc::SYS_setsockopt, &[is(1, IPPROTO_TCP), is(2, TCP_AO_DEL_KEY)], refuse(Errno::NOPROTOOPT)),
    rule(libc::SYS_setsockopt, &[is(1, IPPROTO_TCP), is(2, TCP_AO_INFO)], refuse(Errno::NOPROTOOPT)),
    // The peer of the key is in the caller's memory, which a filter cannot read.
    rule(libc::SYS_setsockopt, &[is(1, IPPROTO_TCP), is(2, TCP_MD5SIG)], Notify),
    rule(libc::SYS_setsockopt, &[is(1, IPPROTO_TCP), is(2, TCP_MD5SIG_EXT)], Notify),
    rule(libc::SYS_getsockopt, &[is(1, IPPROTO_TCP), is(2, TCP_AO_GET_KEYS)], refuse(Errno::NOPROTOOPT)),
    // The supervisor would not find the sockets of a thread with its own table of descriptors.
    rule(libc::SYS_unshare, &[has(0, CLONE_FILES)], refuse(Errno::PERM)),
    rule(libc::SYS_close_range, &[has(2, CLOSE_RANGE_UNSHARE)], refuse(Errno::INVAL)),
    rule(libc::SYS_clone, &[(0, CLONE_THREAD | CLONE_FILES, CLONE_THREAD)], refuse(Errno::PERM)),
    // The flags of `clone3` are in memory, where another thread can change them. C libraries fall back on `clone`, as under Docker and
    // Flatpak.
    rule(libc::SYS_clone3, &[], refuse(Errno::NOSYS)),
];

const fn rule(call: c_long, arguments: &'static [(u32, u32, u32)], action: CallAction) -> CallRule<'static> {
    CallRule { call, arguments, action }
}

/// Fails the call with this error.
const fn refuse(errno: Errno) -> CallAction {
    CallAction::Refuse(errno.raw_os_error() as u16)
}

/// The argument is this value.
const fn is(argument: u32, value: u32) -> (u32, u32, u32) {
    (argument, u32::MAX, value)
}

/// The argument has this flag.
const fn has(argument: u32, flag: u32) -> (u32, u32, u32) {
    (argument, flag, flag)
}

#[cfg(test)]
#[path = "tests/filter.rs"]
mod tests;
