//! The filter that stops the program's calls, and starting the program under it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use libseccomp::error::SeccompError;
use libseccomp::{
    ScmpAction, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall, reset_global_state,
};
use rustix::fs::getxattr;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, getppid, pidfd_getfd, pidfd_open};

use crate::error::Error;

/// Calls that wait for the supervisor.
pub(super) const CONNECT: &str = "connect";
pub(super) const LISTEN: &str = "listen";

/// Protocol numbers and option names of Linux, `linux/in.h` and `linux/tcp.h`.
const IPPROTO_TCP: u64 = 6;
const IPPROTO_MPTCP: u64 = 262;
const IPPROTO_SMC: u64 = 256;
const AF_SMC: u64 = 43;
const TCP_MD5SIG: u64 = 14;
/// The option for TCP-MD5 whose flags count.
pub(super) const TCP_MD5SIG_EXT: u32 = 32;
/// `TCP_AO_ADD_KEY`, `TCP_AO_DEL_KEY`, `TCP_AO_INFO`.
const TCP_AO: [u64; 3] = [38, 39, 40];
/// This option returns the secrets.
const TCP_AO_GET_KEYS: u64 = 41;
/// Connects and sends in one call.
const MSG_FASTOPEN: u64 = 0x2000_0000;
/// Flags of `clone` and `unshare`, and one of `close_range`, `linux/sched.h` and `linux/close_range.h`.
const CLONE_FILES: u64 = 0x400;
const CLONE_THREAD: u64 = 0x1_0000;
const CLOSE_RANGE_UNSHARE: u64 = 2;

/// Set-user-ID and set-group-ID.
const PRIVILEGED: u32 = 0o6000;

/// The variables with the number of the process that systemd has started (sd_listen_fds(3), sd_watchdog_enabled(3)).
const NAMES: [&str; 2] = ["LISTEN_PID", "WATCHDOG_PID"];
/// Its pidfd's inode, in newer versions.
const LISTEN_PIDFDID: &str = "LISTEN_PIDFDID";

/// Starts a program under the filter, from a thread that then ends, because the filter applies to that thread too. Returns the program and
/// the descriptor on which its calls are announced.
pub(super) fn spawn(
    program: &Path,
    arguments: &[OsString],
    has_stdin: bool,
) -> Result<(Pid, OwnedFd), Error> {
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

/// Installs the filter on this thread; returns the descriptor on which calls are announced.
fn install() -> Result<OwnedFd, Error> {
    let refused = |error| Error::cannot("install the seccomp filter")(io::Error::other(error));
    // libseccomp keeps one descriptor for all filters of a process, that of the first.
    reset_global_state().map_err(refused)?;
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow).map_err(refused)?;
    add_rules(&mut filter).map_err(refused)?;
    // If the kernel takes another filter but not this one, there already is a filter that announces calls.
    filter.load().map_err(|error| match harmless() {
        Ok(()) => Error::Supervised,
        Err(_) => refused(error),
    })?;
    let announced = filter.get_notify_fd().map_err(refused)?.as_raw_fd();
    // libseccomp keeps its descriptor for itself; this is a duplicate.
    let own = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, announced, PidfdGetfdFlags::empty()));
    own.map_err(Error::cannot("supervise"))
}

/// Installs a filter that announces nothing.
fn harmless() -> Result<(), SeccompError> {
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow)?;
    filter.add_rule(refuse(Errno::NOSYS), ScmpSyscall::from_name("io_uring_setup")?)?;
    filter.load()
}

/// What the filter refuses and announces; it lets everything else pass.
fn add_rules(filter: &mut ScmpFilterContext) -> Result<(), SeccompError> {
    // System calls of other architectures, such as 32-bit ones, would bypass the filter.
    filter.set_act_badarch(refuse(Errno::NOSYS))?;
    for call in [CONNECT, LISTEN] {
        filter.add_rule(ScmpAction::Notify, ScmpSyscall::from_name(call)?)?;
    }
    filter.add_rule(refuse(Errno::NOSYS), ScmpSyscall::from_name("io_uring_setup")?)?;
    // These open TCP connections too, but their sockets take no TCP-AO keys.
    let socket = ScmpSyscall::from_name("socket")?;
    filter.add_rule_conditional(refuse(Errno::AFNOSUPPORT), socket, &[is(0, AF_SMC)])?;
    for protocol in [IPPROTO_MPTCP, IPPROTO_SMC] {
        filter.add_rule_conditional(refuse(Errno::PROTONOSUPPORT), socket, &[is(2, protocol)])?;
    }
    for (call, flags) in [("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)] {
        let has_flag = ScmpArgCompare::new(flags, ScmpCompareOp::MaskedEqual(MSG_FASTOPEN), MSG_FASTOPEN);
        filter.add_rule_conditional(refuse(Errno::OPNOTSUPP), ScmpSyscall::from_name(call)?, &[has_flag])?;
    }
    let set_option = ScmpSyscall::from_name("setsockopt")?;
    for option in TCP_AO {
        filter.add_rule_conditional(
            refuse(Errno::NOPROTOOPT),
            set_option,
            &[is(1, IPPROTO_TCP), is(2, option)],
        )?;
    }
    // The peer of the key is in the caller's memory, which a filter cannot read.
    for option in [TCP_MD5SIG, TCP_MD5SIG_EXT.into()] {
        filter.add_rule_conditional(ScmpAction::Notify, set_option, &[is(1, IPPROTO_TCP), is(2, option)])?;
    }
    let get_keys = [is(1, IPPROTO_TCP), is(2, TCP_AO_GET_KEYS)];
    filter.add_rule_conditional(
        refuse(Errno::NOPROTOOPT),
        ScmpSyscall::from_name("getsockopt")?,
        &get_keys,
    )?;
    // The supervisor would not find the sockets of a thread with its own table of descriptors.
    for (call, flags, of, are, errno) in [
        ("unshare", 0, CLONE_FILES, CLONE_FILES, Errno::PERM),
        ("close_range", 2, CLOSE_RANGE_UNSHARE, CLOSE_RANGE_UNSHARE, Errno::INVAL),
        ("clone", 0, CLONE_THREAD | CLONE_FILES, CLONE_THREAD, Errno::PERM),
    ] {
        let flags = ScmpArgCompare::new(flags, ScmpCompareOp::MaskedEqual(of), are);
        filter.add_rule_conditional(refuse(errno), ScmpSyscall::from_name(call)?, &[flags])?;
    }
    // The flags of `clone3` are in memory, where another thread can change them. C libraries fall back on `clone`, as under Docker and
    // Flatpak.
    filter.add_rule(refuse(Errno::NOSYS), ScmpSyscall::from_name("clone3")?)?;
    Ok(())
}

/// Fails the call with this error.
const fn refuse(errno: Errno) -> ScmpAction {
    ScmpAction::Errno(errno.raw_os_error())
}

/// Whether the lower 32 bits of an argument, which the kernel takes, are this value.
const fn is(argument: u32, value: u64) -> ScmpArgCompare {
    ScmpArgCompare::new(argument, ScmpCompareOp::MaskedEqual(0xffff_ffff), value)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};

    use libseccomp::ScmpArch;

    use super::*;

    /// libseccomp silently leaves out calls that a processor's Linux does not have.
    #[test]
    fn every_call_that_the_filter_names_is_there_on_each_processor() {
        let calls = "clone clone3 close_range connect getsockopt io_uring_setup listen sendmmsg sendmsg sendto \
                     setsockopt socket unshare";
        for arch in [ScmpArch::X8664, ScmpArch::Aarch64] {
            let mut filter = ScmpFilterContext::new(ScmpAction::Allow).unwrap();
            if arch != ScmpArch::native() {
                filter.add_arch(arch).unwrap().remove_arch(ScmpArch::native()).unwrap();
            }
            add_rules(&mut filter).unwrap();
            let mut file: File = tempfile::tempfile().unwrap();
            filter.export_pfc(&file).unwrap();
            let mut text = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            let mut found: Vec<_> = text
                .lines()
                .filter_map(|line| Some(line.split_once("syscall \"")?.1.split_once('"')?.0))
                .collect();
            found.sort_unstable();
            assert_eq!(found.join(" "), calls, "{arch:?}: {text}");
        }
    }
}
