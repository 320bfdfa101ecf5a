//! Another program's system calls: a seccomp filter that refuses some and notifies a supervisor of others, which answers them
//! (seccomp_unotify(2)).

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::{
    SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_USER_NOTIF, SECCOMP_USER_NOTIF_FLAG_CONTINUE,
    seccomp_data, seccomp_notif_resp,
};
use linux_raw_sys::ptrace::{AUDIT_ARCH_AARCH64, AUDIT_ARCH_RISCV64, AUDIT_ARCH_X86_64};

use crate::bpf::{AND, Assembler, Instruction, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, LOAD_ABSOLUTE_32, RETURN};
use crate::sys;

/// How the kernel names this processor's own system calls; `None` where others would bypass the filter: 32-bit x86, s390x and PowerPC have
/// `socketcall` as well.
const ARCHITECTURE: Option<u32> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
    Some(AUDIT_ARCH_X86_64)
} else if cfg!(all(target_arch = "aarch64", target_pointer_width = "64", target_endian = "little")) {
    Some(AUDIT_ARCH_AARCH64)
} else if cfg!(target_arch = "riscv64") {
    Some(AUDIT_ARCH_RISCV64)
} else {
    None
};
/// On x86-64, calls of the x32 ABI have this bit in their numbers.
const X32: u32 = 0x4000_0000;
/// The number of a call that a tracer has answered (ptrace(2)).
const SKIPPED: u32 = u32::MAX;

const NUMBER: u32 = std::mem::offset_of!(seccomp_data, nr) as u32;
const OF_ARCHITECTURE: u32 = std::mem::offset_of!(seccomp_data, arch) as u32;
const ARGUMENTS: u32 = std::mem::offset_of!(seccomp_data, args) as u32;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallAction {
    /// It fails with this error number.
    Refuse(u16),
    /// The supervisor is notified, and it waits for an answer.
    Notify,
}

/// A rule of a [`CallFilter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRule<'a> {
    /// The call's number: `SYS_…` of libc.
    pub call: c_long,
    /// What must hold of its arguments: an index below 6, a mask, and the value of the argument's lower 32 bits under that mask.
    pub arguments: &'a [(u32, u32, u32)],
    /// What becomes of it then.
    pub action: CallAction,
}

/// Which system calls of a program are refused, and of which a supervisor is notified; the others pass. The first rule for a call whose arguments fit
/// decides. Calls of another ABI, such as 32-bit ones and x32, fail with ENOSYS.
#[derive(Clone, Copy, Debug)]
pub struct CallFilter<'a>(pub &'a [CallRule<'a>]);

impl CallFilter<'_> {
    /// The program that the kernel runs on each call: on `struct seccomp_data`, in the processor's byte order.
    ///
    /// # Errors
    /// `Unsupported` on other processors than x86-64, little-endian AArch64 and 64-bit RISC-V.
    pub fn program(&self) -> io::Result<Vec<Instruction>> {
        let architecture = ARCHITECTURE.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                "system calls are filtered only on x86-64, AArch64 and 64-bit RISC-V",
            )
        })?;
        let mut to = Assembler::default();
        let [foreign, pass] = [(); 2].map(|()| to.label());
        to.emit(LOAD_ABSOLUTE_32, OF_ARCHITECTURE);
        to.jump_unless(architecture, foreign);
        to.emit(LOAD_ABSOLUTE_32, NUMBER);
        if architecture == AUDIT_ARCH_X86_64 {
            to.jump_if(JUMP_IF_EQUAL, SKIPPED, pass);
            to.jump_if(JUMP_IF_AT_LEAST, X32, foreign);
        }
        let mut calls: Vec<_> = self.0.iter().map(|rule| rule.call).collect();
        calls.sort_unstable();
        calls.dedup();
        let calls: Vec<_> = calls.into_iter().map(|call| (call, to.label())).collect();
        for &(call, label) in &calls {
            to.jump_if(JUMP_IF_EQUAL, call as u32, label);
        }
        to.place(pass);
        to.emit(RETURN, SECCOMP_RET_ALLOW);
        for &(call, label) in &calls {
            to.place(label);
            for rule in self.0.iter().filter(|rule| rule.call == call) {
                rule.assemble(&mut to);
            }
            to.emit(RETURN, SECCOMP_RET_ALLOW);
        }
        to.place(foreign);
        to.emit(RETURN, CallAction::Refuse(libc::ENOSYS as u16).code());
        Ok(to.finish())
    }

    /// Puts the filter on the calling thread. All that it starts inherits it, and nothing takes it off. Nor do they get privileges from what
    /// they execute (`PR_SET_NO_NEW_PRIVS`), which the kernel asks for.
    ///
    /// # Errors
    /// The kernel's; `ResourceBusy` if a supervisor is notified of calls of this thread already. As [`program`](Self::program).
    pub fn install(&self) -> io::Result<CallListener> {
        sys::install_filter(&self.program()?).map(CallListener)
    }
}

impl CallRule<'_> {
    fn assemble(&self, to: &mut Assembler) {
        let other = to.label();
        for &(index, mask, value) in self.arguments {
            // The lower half comes first on these processors.
            to.emit(LOAD_ABSOLUTE_32, ARGUMENTS + 8 * index);
            to.emit(AND, mask);
            to.jump_unless(value, other);
        }
        to.emit(RETURN, self.action.code());
        to.place(other);
    }
}

impl CallAction {
    /// What the program returns.
    fn code(self) -> u32 {
        match self {
            Self::Refuse(errno) => SECCOMP_RET_ERRNO | u32::from(errno),
            Self::Notify => SECCOMP_RET_USER_NOTIF,
        }
    }
}

/// Where a [`CallFilter`] notifies of calls. Its descriptor polls as readable if a call waits, and as hung up if nothing under the filter is
/// left. If it is closed, the calls that it is for fail with ENOSYS.
#[derive(Debug)]
pub struct CallListener(OwnedFd);

/// A call that waits for an answer (`struct seccomp_notif`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallNotification {
    /// Its own number, for its answer.
    pub id: u64,
    /// The thread that makes it, in this process's PID namespace.
    pub thread: u32,
    /// `SYS_…` of libc.
    pub call: c_long,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// The answer to a call that waits for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallAnswer {
    /// It returns 0.
    Done,
    /// It fails with this error number.
    Failed(i32),
    /// The kernel makes the call after all. It reads the caller's memory again, which another thread may have changed.
    Passes,
}

impl CallListener {
    /// Waits for a call.
    ///
    /// # Errors
    /// The kernel's; `NotFound` if the caller has ended meanwhile.
    pub fn receive(&self) -> io::Result<CallNotification> {
        let call = sys::next_call(self.as_fd())?;
        Ok(CallNotification {
            id: call.id,
            thread: call.pid,
            call: c_long::from(call.data.nr),
            arguments: call.data.args,
        })
    }

    /// Whether a call's caller still waits. What was found out about the thread before is then of this caller.
    #[must_use]
    pub fn waits(&self, id: u64) -> bool {
        sys::awaits_answer(self.as_fd(), id).is_ok()
    }

    /// Answers a call.
    ///
    /// # Errors
    /// The kernel's; `NotFound` if the caller was killed, or interrupted by a signal.
    pub fn answer(&self, id: u64, answer: CallAnswer) -> io::Result<()> {
        let (error, flags) = match answer {
            CallAnswer::Done => (0, 0),
            CallAnswer::Failed(errno) => (-errno, 0),
            CallAnswer::Passes => (0, SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        };
        sys::answer_call(self.as_fd(), &seccomp_notif_resp { id, val: 0, error, flags })
    }
}

impl AsFd for CallListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::mpsc::channel;
    use std::thread;

    use socket2::{Domain, Protocol, Socket, Type};

    use super::*;

    const RULES: &[CallRule<'static>] = &[
        CallRule { call: libc::SYS_listen, arguments: &[(1, u32::MAX, 7)], action: CallAction::Notify },
        CallRule {
            call: libc::SYS_socket,
            arguments: &[(2, u32::MAX, 132)],
            action: CallAction::Refuse(libc::EPROTONOSUPPORT as u16),
        },
    ];

    #[test]
    fn the_kernel_notifies_and_refuses_and_the_caller_gets_the_answer() {
        let (give, calls) = channel();
        let caller = thread::spawn(move || {
            give.send(CallFilter(RULES).install().unwrap()).unwrap();
            let second = CallFilter(RULES).install().unwrap_err();
            assert_eq!(second.kind(), io::ErrorKind::ResourceBusy, "{second}");
            let sctp = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(132))).unwrap_err();
            assert_eq!(sctp.raw_os_error(), Some(libc::EPROTONOSUPPORT));
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
            let listen = |backlog| socket.listen(backlog).map_err(|error| error.raw_os_error().unwrap());
            let answers = [7, 7].map(listen);
            // The supervisor made neither call.
            let before = socket.is_listener().unwrap();
            (answers, before, listen(7), socket.is_listener().unwrap(), listen(8), listen(7))
        });
        let calls = calls.recv().unwrap();
        for answer in [CallAnswer::Done, CallAnswer::Failed(libc::EADDRINUSE), CallAnswer::Passes] {
            let call = calls.receive().unwrap();
            assert_eq!((call.call, call.arguments[1]), (libc::SYS_listen, 7));
            assert!(call.thread != 0 && calls.waits(call.id) && !calls.waits(call.id + 1));
            calls.answer(call.id, answer).unwrap();
            assert!(calls.answer(call.id, answer).is_err(), "it has one answer");
            assert!(calls.answer(call.id + 1, answer).is_err(), "there is no such call");
        }
        drop(calls);
        let (answers, before, passed, after, other, unsupervised) = caller.join().unwrap();
        assert_eq!((answers, before), ([Ok(()), Err(libc::EADDRINUSE)], false));
        assert_eq!((passed, after, other), (Ok(()), true, Ok(())));
        assert_eq!(unsupervised, Err(libc::ENOSYS));
    }
}
