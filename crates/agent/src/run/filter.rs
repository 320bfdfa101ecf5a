//! The filter that stops the program's calls, and starting the program under it.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::thread;

use libseccomp::error::SeccompError;
use libseccomp::{
    ScmpAction, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall, reset_global_state,
};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use super::md5::TCP_MD5SIG_EXT;
use super::{RunError, program};

/// Calls that wait for the supervisor.
pub(super) const CONNECT: &str = "connect";
pub(super) const LISTEN: &str = "listen";

/// Protocol numbers and option names of Linux, `linux/in.h` and `linux/tcp.h`.
const IPPROTO_TCP: u64 = 6;
const IPPROTO_MPTCP: u64 = 262;
const IPPROTO_SMC: u64 = 256;
const AF_SMC: u64 = 43;
const TCP_MD5SIG: u64 = 14;
/// `TCP_AO_ADD_KEY`, `TCP_AO_DEL_KEY`, `TCP_AO_INFO`.
const TCP_AO: [u64; 3] = [38, 39, 40];
/// It returns the secrets.
const TCP_AO_GET_KEYS: u64 = 41;
/// Connects and sends in one call.
const MSG_FASTOPEN: u64 = 0x2000_0000;
/// Flags of `clone` and `unshare`, and one of `close_range`, `linux/sched.h` and `linux/close_range.h`.
const CLONE_FILES: u64 = 0x400;
const CLONE_THREAD: u64 = 0x1_0000;
const CLOSE_RANGE_UNSHARE: u64 = 2;

/// Starts a program under the filter; returns it and the descriptor on which its calls are announced.
///
/// A filter is for the thread that installs it and for its children, and so this thread ends at once.
pub(super) fn spawn(
    program: &Path,
    arguments: &[OsString],
    has_stdin: bool,
) -> Result<(Pid, OwnedFd), RunError> {
    let mut command = program::command(program, arguments);
    if !has_stdin {
        command.stdin(Stdio::null());
    }
    let (pid, notifications) = in_thread(|| {
        let notifications = install()?;
        let child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => RunError::NoProgram(program.to_owned()),
            _ => RunError::NotExecutable { program: program.to_owned(), error },
        })?;
        Ok((child.id(), notifications))
    })?;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok((pid.ok_or_else(|| RunError::System(ErrorKind::InvalidData.into()))?, notifications))
}

/// Whether another supervisor answers this process's calls.
pub(super) fn is_supervised() -> bool {
    matches!(in_thread(install), Err(RunError::Supervised))
}

/// What is done in a thread that ends, and its filter with it.
fn in_thread<T: Send>(act: impl FnOnce() -> Result<T, RunError> + Send) -> Result<T, RunError> {
    thread::scope(|scope| {
        let ended = scope.spawn(act).join();
        ended.unwrap_or_else(|_| Err(RunError::System(io::Error::other("the starting thread has panicked"))))
    })
}

fn install() -> Result<OwnedFd, RunError> {
    let raw = filter()?;
    // libseccomp keeps its descriptor for itself; this is a duplicate.
    let own = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, raw, PidfdGetfdFlags::empty()));
    own.map_err(|error| RunError::System(error.into()))
}

fn filter() -> Result<i32, RunError> {
    // libseccomp keeps one descriptor for all filters of a process, that of the first.
    reset_global_state().map_err(RunError::Filter)?;
    let filter = rules().map_err(RunError::Filter)?;
    // A kernel that takes a filter, but not one that announces calls, has another that does.
    filter.load().map_err(|error| match harmless() {
        Ok(()) => RunError::Supervised,
        Err(_) => RunError::Filter(error),
    })?;
    Ok(filter.get_notify_fd().map_err(RunError::Filter)?.as_raw_fd())
}

/// Installs a filter that announces nothing.
fn harmless() -> Result<(), SeccompError> {
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow)?;
    filter.add_rule(refuse(Errno::NOSYS), ScmpSyscall::from_name("io_uring_setup")?)?;
    filter.load()
}

/// What the filter lets pass, refuses, and announces.
pub(super) fn rules() -> Result<ScmpFilterContext, SeccompError> {
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow)?;
    add_rules(&mut filter)?;
    Ok(filter)
}

fn add_rules(filter: &mut ScmpFilterContext) -> Result<(), SeccompError> {
    // System calls of other architectures, such as 32-bit ones, would come through unseen.
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
    // Whom the key is for is in the caller's memory.
    for option in [TCP_MD5SIG, TCP_MD5SIG_EXT.into()] {
        filter.add_rule_conditional(ScmpAction::Notify, set_option, &[is(1, IPPROTO_TCP), is(2, option)])?;
    }
    let get_keys = [is(1, IPPROTO_TCP), is(2, TCP_AO_GET_KEYS)];
    filter.add_rule_conditional(
        refuse(Errno::NOPROTOOPT),
        ScmpSyscall::from_name("getsockopt")?,
        &get_keys,
    )?;
    // The sockets of a thread with descriptors of its own are not found.
    for (call, flags, of, are, errno) in [
        ("unshare", 0, CLONE_FILES, CLONE_FILES, Errno::PERM),
        ("close_range", 2, CLOSE_RANGE_UNSHARE, CLOSE_RANGE_UNSHARE, Errno::INVAL),
        ("clone", 0, CLONE_THREAD | CLONE_FILES, CLONE_THREAD, Errno::PERM),
    ] {
        let flags = ScmpArgCompare::new(flags, ScmpCompareOp::MaskedEqual(of), are);
        filter.add_rule_conditional(refuse(errno), ScmpSyscall::from_name(call)?, &[flags])?;
    }
    // Its flags are in memory, where they can be exchanged. C libraries go on with `clone` then, as under Docker and Flatpak.
    filter.add_rule(refuse(Errno::NOSYS), ScmpSyscall::from_name("clone3")?)?;
    Ok(())
}

/// The program sees this error.
const fn refuse(errno: Errno) -> ScmpAction {
    ScmpAction::Errno(errno.raw_os_error())
}

/// An argument, of which the kernel takes 32 bits.
const fn is(argument: u32, value: u64) -> ScmpArgCompare {
    ScmpArgCompare::new(argument, ScmpCompareOp::MaskedEqual(0xffff_ffff), value)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};

    use libseccomp::ScmpArch;

    use super::*;

    /// A call that a processor's Linux does not have would be left out without a word.
    #[test]
    fn every_call_that_the_filter_names_is_there_on_each_processor() {
        let calls = [
            "clone",
            "clone3",
            "close_range",
            "connect",
            "getsockopt",
            "io_uring_setup",
            "listen",
            "sendmmsg",
            "sendmsg",
            "sendto",
            "setsockopt",
            "socket",
            "unshare",
        ];
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
            assert_eq!(found, calls, "{arch:?}: {text}");
        }
    }
}
