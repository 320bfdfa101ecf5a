//! What can be wrong with a configuration, or keep a supervisor or a gateway from running.

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use wireseal_linux::PeerName;
use wireseal_tcp_ao::PeerError;

/// Why a configuration cannot be used, or a supervisor or gateway does not run. Its text is one line that names the causes too, so it has
/// no source, and it contains no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refuses a file, a folder or a control socket.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The contents of a configuration file or a file of key chains cannot be used.
    #[error("{}: {message}", path.display())]
    Contents {
        /// The file.
        path: PathBuf,
        /// What is wrong, and in which line if that is known.
        message: String,
    },
    /// The file of key chains cannot be used.
    #[error("{0}")]
    KeyChains(#[from] wireseal_keys::Error),
    /// Key chains, peers or ports are not given anywhere; the text says how to.
    #[error("{0}")]
    Missing(&'static str),
    /// The text of a peer or of an address for metrics cannot be read.
    #[error("{0}")]
    Argument(String),
    /// A peer cannot be used: its key chain or device does not exist, or a gateway cannot carry it.
    #[error("peer {peer}: {problem}")]
    Peer {
        /// The peer, with its device.
        peer: String,
        /// What is wrong. A chain's name is not in it if it is unknown: a file may have a secret in its place.
        problem: String,
    },
    /// A peer is named twice, perhaps as an IPv4 address and as the IPv6 address that it is mapped to.
    #[error("peer {0} is named twice")]
    PeerTwice(String),
    /// There are keys both for a host and for a network around it.
    #[error(
        "peers {0} and {1} overlap, and Linux takes the keys of either from a caller that is in both: name peers that do not, or use \
         `wireseal gateway`, which goes by the longest prefix"
    )]
    Overlap(PeerName, PeerName),
    /// The configuration asks a gateway for what only `run` can do.
    #[error("{0} has no effect in a gateway, which sees the packets of its peers alone: leave it out")]
    NotInGateway(&'static str),
    /// Linux's TCP-AO cannot have these peers or keys.
    #[error("{0}")]
    Keys(Box<wireseal_linux::Error>),
    /// The gateway's shim cannot be made with these limits.
    #[error("{0}")]
    Shim(PeerError),
    /// There is no memory for this many connections, or they are more than a gateway may have in each thread.
    #[error("{connections} connections in each of {threads} threads take {mebibytes} MiB: name fewer")]
    Connections {
        /// Connections in each thread.
        connections: usize,
        /// Threads.
        threads: u16,
        /// What they take.
        mebibytes: usize,
    },
    /// The kernel has no TCP-AO.
    #[error(
        "Linux {kernel} has no TCP-AO; it needs 6.7 or later with CONFIG_TCP_AO, as Debian's kernels have from 6.18 on (in Debian 13: \
         trixie-backports); `wireseal gateway` does without"
    )]
    NoTcpAo {
        /// The kernel's release.
        kernel: String,
    },
    /// There are IPv6 peers, and the kernel has no IPv6.
    #[error("there are IPv6 peers, but this kernel has no IPv6, or it is switched off")]
    NoIpv6,
    /// There is no such program.
    #[error("{}: no such program", .0.display())]
    NoProgram(PathBuf),
    /// The program cannot be executed.
    #[error("{}: {error}", program.display())]
    NotExecutable {
        /// The program.
        program: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The program gets privileges when it is started, which it loses under supervision.
    #[error(
        "{} is setuid, setgid or has file capabilities, which it would lose under supervision; start wireseal with these privileges \
         and run a copy without them",
        .0.display()
    )]
    Privileged(PathBuf),
    /// Another supervisor already answers this process's calls.
    #[error(
        "this is under a supervisor already, another `wireseal run` or a container manager that answers system calls: one is enough"
    )]
    Supervised,
    /// Another gateway runs in this network namespace, in this process if it is known.
    #[error(
        "another gateway runs in this network namespace{}: one carries all peers; add them to its configuration",
        process(*.0)
    )]
    Another(Option<u32>),
    /// The gateway whose rules were to be removed still runs, in this process if it is known.
    #[error("a gateway runs in this network namespace{}: stop it first", process(*.0))]
    Runs(Option<u32>),
    /// The gateway's rules could not be read, installed or removed.
    #[error("cannot change the rules for packets: {0}")]
    Rules(String),
    /// No gateway runs, or its rules are not in place.
    #[error("{0}")]
    NotInPlace(String),
    /// The operating system refuses something else.
    #[error("cannot {what}: {error}")]
    System {
        /// What cannot be done.
        what: Cow<'static, str>,
        /// Why.
        error: io::Error,
    },
}

impl Error {
    /// What a shell would return: 127 if there is no such program, 126 if it cannot be executed, else 2.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NoProgram(_) => 127,
            Self::NotExecutable { .. } => 126,
            _ => 2,
        }
    }

    /// Whether starting again may help although nobody changes the configuration: the disk is full, for instance, or the firewall's program
    /// fails. A service that must not stay down tries again.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Rules(_) => true,
            Self::File { error, .. } | Self::System { error, .. } => !matches!(
                error.kind(),
                ErrorKind::NotFound
                    | ErrorKind::PermissionDenied
                    | ErrorKind::NotADirectory
                    | ErrorKind::IsADirectory
                    | ErrorKind::Unsupported
            ),
            _ => false,
        }
    }

    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Self {
        |error| Self::File { path: path.to_owned(), error }
    }

    pub(crate) fn contents(path: &Path, message: String) -> Self {
        Self::Contents { path: path.to_owned(), message }
    }

    pub(crate) fn peer(peer: impl ToString, problem: impl Into<String>) -> Self {
        Self::Peer { peer: peer.to_string(), problem: problem.into() }
    }

    /// Makes the error for what the operating system has refused.
    pub(crate) fn cannot<E: Into<io::Error>>(what: impl Into<Cow<'static, str>>) -> impl FnOnce(E) -> Self {
        |error| Self::System { what: what.into(), error: error.into() }
    }
}

impl From<wireseal_linux::Error> for Error {
    fn from(error: wireseal_linux::Error) -> Self {
        Self::Keys(Box::new(error))
    }
}

/// The process of a gateway in words; nothing if it is not known.
pub(crate) fn process(process: Option<u32>) -> String {
    process.map(|process| format!(" (process {process})")).unwrap_or_default()
}
