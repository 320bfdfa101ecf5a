//! The filter that stops the program's calls, and starting the program under it.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use libseccomp::error::SeccompError;
use libseccomp::{
    ScmpAction, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall, reset_global_state,
};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use super::RunError;
use crate::Md5;

/// Calls that wait for the supervisor.
pub(super) const CONNECT: &str = "connect";
pub(super) const LISTEN: &str = "listen";

/// Protocol numbers and option names of Linux, `linux/in.h` and `linux/tcp.h`.
const IPPROTO_TCP: u64 = 6;
const IPPROTO_MPTCP: u64 = 262;
const IPPROTO_SMC: u64 = 256;
const AF_SMC: u64 = 43;
const TCP_MD5SIG: u64 = 14;
const TCP_MD5SIG_EXT: u64 = 32;
/// `TCP_AO_ADD_KEY`, `TCP_AO_DEL_KEY`, `TCP_AO_INFO`.
const TCP_AO: [u64; 3] = [38, 39, 40];
/// It returns the secrets.
const TCP_AO_GET_KEYS: u64 = 41;
/// Connects and sends in one call.
const MSG_FASTOPEN: u64 = 0x2000_0000;

/// Starts a program under the filter; returns it and the descriptor on which its calls are announced.
///
/// A filter is for the thread that installs it and for its children, and so this thread ends at once.
pub(super) fn spawn(
    program: &Path,
    arguments: &[OsString],
    md5: Md5,
    has_stdin: bool,
) -> Result<(Pid, OwnedFd), RunError> {
    let mut command = Command::new(program);
    command.args(arguments);
    if !has_stdin {
        command.stdin(Stdio::null());
    }
    let started = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let notifications = install(md5)?;
            let child = command.spawn().map_err(|error| match error.kind() {
                ErrorKind::NotFound => RunError::NoProgram(program.to_owned()),
                _ => RunError::NotExecutable { program: program.to_owned(), error },
            })?;
            Ok((child.id(), notifications))
        });
        thread
            .join()
            .unwrap_or_else(|_| Err(RunError::System(io::Error::other("the starting thread has panicked"))))
    });
    let (pid, notifications) = started?;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok((pid.ok_or_else(|| RunError::System(ErrorKind::InvalidData.into()))?, notifications))
}

fn install(md5: Md5) -> Result<OwnedFd, RunError> {
    let raw = filter(md5).map_err(RunError::Filter)?;
    // libseccomp keeps its descriptor for itself; this is a duplicate.
    let own = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, raw, PidfdGetfdFlags::empty()));
    own.map_err(|error| RunError::System(error.into()))
}

fn filter(md5: Md5) -> Result<i32, SeccompError> {
    // libseccomp keeps one descriptor for all filters of a process, that of the first.
    reset_global_state()?;
    let filter = rules(md5)?;
    filter.load()?;
    Ok(filter.get_notify_fd()?.as_raw_fd())
}

/// What the filter lets pass, refuses, and announces.
pub(super) fn rules(md5: Md5) -> Result<ScmpFilterContext, SeccompError> {
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow)?;
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
    let md5: &[u64] = if md5 == Md5::Refuse { &[TCP_MD5SIG, TCP_MD5SIG_EXT] } else { &[] };
    for option in TCP_AO.iter().chain(md5) {
        let option = [is(1, IPPROTO_TCP), is(2, *option)];
        let call = ScmpSyscall::from_name("setsockopt")?;
        filter.add_rule_conditional(refuse(Errno::NOPROTOOPT), call, &option)?;
    }
    let get_keys = [is(1, IPPROTO_TCP), is(2, TCP_AO_GET_KEYS)];
    filter.add_rule_conditional(
        refuse(Errno::NOPROTOOPT),
        ScmpSyscall::from_name("getsockopt")?,
        &get_keys,
    )?;
    Ok(filter)
}

/// The program sees this error.
const fn refuse(errno: Errno) -> ScmpAction {
    ScmpAction::Errno(errno.raw_os_error())
}

/// An argument, of which the kernel takes 32 bits.
const fn is(argument: u32, value: u64) -> ScmpArgCompare {
    ScmpArgCompare::new(argument, ScmpCompareOp::MaskedEqual(0xffff_ffff), value)
}
