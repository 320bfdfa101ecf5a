//! Why a program is not run.

use std::io;
use std::path::PathBuf;

use libseccomp::error::SeccompError;

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
