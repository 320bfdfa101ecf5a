//! Why a program is not run.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use libseccomp::error::SeccompError;
use nix::errno::Errno;

use crate::error::ConfigError;
use crate::metrics::MetricsAddress;

/// Why a program is not run. Each is one line; nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel could not be asked.
    #[error("cannot find out whether this kernel has TCP-AO: {0}")]
    Probe(io::Error),
    /// The kernel has no TCP-AO.
    #[error(
        "Linux {kernel} has no TCP-AO; it needs 6.7 or later with CONFIG_TCP_AO, as Debian's kernels have from 6.18 on (in Debian 13: \
         trixie-backports); `wireseal gateway` does without"
    )]
    NoTcpAo {
        /// The kernel's release.
        kernel: String,
    },
    /// Metrics cannot be served there.
    #[error("cannot serve metrics at {address}: {error}")]
    Metrics {
        /// Where.
        address: MetricsAddress,
        /// Why. It is in the message, and so not the error's source.
        error: io::Error,
    },
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// A process cannot be attached to.
    #[error("cannot attach to process {pid}: {reason}")]
    Attach {
        /// The process.
        pid: i32,
        /// Why.
        reason: AttachError,
    },
    /// Some processes of the program could be attached to, and another could not. Those open no connection and no listener any more
    /// until they are attached to again.
    #[error(
        "cannot attach to process {pid}: {reason}; others of the program were, and open no connection until they are attached to again"
    )]
    PartlyAttached {
        /// The process.
        pid: i32,
        /// Why.
        reason: AttachError,
    },
    /// A listener of a program that runs already cannot have keys. No socket has any then.
    #[error(
        "the listener {0} cannot have keys (the log says why), so nothing was attached to: start the program under `wireseal run`"
    )]
    Listener(SocketAddr),
    /// There is no such program.
    #[error("{}: no such program", .0.display())]
    NoProgram(PathBuf),
    /// The program cannot be executed.
    #[error("{}: {error}", program.display())]
    NotExecutable {
        /// The program.
        program: PathBuf,
        /// Why. It is in the message, and so not the error's source.
        error: io::Error,
    },
    /// The program gets privileges when it is started, which it loses under supervision.
    #[error(
        "{} is setuid, setgid or has file capabilities, which it would lose under supervision; start wireseal with these privileges \
         and run a copy without them",
        .0.display()
    )]
    Privileged(PathBuf),
    /// Another supervisor answers this process's calls already.
    #[error(
        "this is under a supervisor already, another `wireseal run` or a container manager that answers system calls: one is enough"
    )]
    Supervised,
    /// The filter cannot be installed.
    #[error("cannot install the seccomp filter: {0}")]
    Filter(SeccompError),
    /// Any other error of the operating system.
    #[error("cannot supervise: {0}")]
    System(io::Error),
}

/// Why a process cannot be attached to.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// This is not written for this processor.
    #[error("that needs an x86-64 processor, and a process of 64 bits")]
    Processor,
    /// Another has it, or may not be touched.
    #[error("{error}{}", advice(*error))]
    Trace {
        /// What the kernel says.
        error: Errno,
    },
    /// It did not stop.
    #[error("it did not stop within {0} seconds")]
    DoesNotStop(u64),
    /// It has ended meanwhile.
    #[error("it has ended")]
    HasEnded,
    /// It could connect without a call of `connect`.
    #[error("it has io_uring open, which goes around the keys")]
    IoUring,
    /// Its memory is not as expected.
    #[error("it has no system call in its vDSO")]
    NoSystemCall,
    /// The kernel refuses the filter.
    #[error("the kernel refuses the seccomp filter: {error}{}", filter_advice(*error))]
    Filter {
        /// What the kernel says.
        error: Errno,
    },
    /// The filter cannot be made.
    #[error("cannot make the seccomp filter: {0}")]
    MakeFilter(SeccompError),
    /// Any other error of the operating system.
    #[error("{0}")]
    System(io::Error),
}

const fn advice(error: Errno) -> &'static str {
    match error {
        Errno::EPERM => " (it needs CAP_SYS_PTRACE; or a debugger, or another supervisor, has it)",
        _ => "",
    }
}

const fn filter_advice(error: Errno) -> &'static str {
    match error {
        Errno::EBUSY => " (it has a supervisor already)",
        Errno::ESRCH => " (its threads have different filters)",
        _ => "",
    }
}

impl RunError {
    /// What a shell would return: 127 if there is no such program, 126 if it cannot be executed, else 2.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NoProgram(_) => 127,
            Self::NotExecutable { .. } => 126,
            _ => 2,
        }
    }
}
