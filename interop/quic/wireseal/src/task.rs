//! What a run does, from the program's arguments.

use std::net::SocketAddr;
use std::path::PathBuf;

use peer_program::{ALPN, Failure};
use pico_args::Arguments;

use crate::provider::Keys;

/// The application protocol on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Application {
    /// The server sends back what it receives.
    Echo,
    /// One HTTP/3 request and its response, each with the octets as its body.
    Http3,
}

impl Application {
    pub(crate) fn alpn(self) -> &'static [u8] {
        match self {
            Self::Echo => ALPN,
            Self::Http3 => b"h3",
        }
    }

    fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "echo" => Ok(Self::Echo),
            "h3" => Ok(Self::Http3),
            _ => Err(format!("--application is echo or h3, not {name}")),
        }
    }
}

/// The QUIC stack that runs on Wireseal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Quinn,
    S2nQuic,
}

impl Stack {
    fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "quinn" => Ok(Self::Quinn),
            "s2n-quic" => Ok(Self::S2nQuic),
            _ => Err(format!("--stack is quinn or s2n-quic, not {name}")),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) stack: Stack,
    /// The address a client connects to or a server listens on.
    pub(crate) address: SocketAddr,
    pub(crate) application: Application,
    /// The only suite offered or accepted, by its name in the TLS registry, such as `TLS_AES_128_GCM_SHA256`.
    pub(crate) suite: String,
    /// How Wireseal's keys get to the stack.
    pub(crate) keys: Keys,
    /// The QUIC version that a client offers, as on the wire. A server accepts its stack's.
    pub(crate) version: u32,
    /// Whether this end starts key updates.
    pub(crate) update_keys: bool,
    /// Whether a server validates the client's address with a Retry.
    pub(crate) retry: bool,
    /// Folder with `ca.pem`, `server.pem` and `server.key`.
    pub(crate) certificates: PathBuf,
    /// File with the octets that a client sends.
    pub(crate) payload: PathBuf,
    /// File to record this end's datagrams in.
    pub(crate) record: Option<PathBuf>,
}

impl Task {
    pub(crate) fn from_arguments(mut arguments: Arguments) -> Result<Self, Failure> {
        let version = |hex: &str| u32::from_str_radix(hex.trim_start_matches("0x"), 16);
        let task = Self {
            stack: arguments.value_from_fn("--stack", Stack::from_name)?,
            address: arguments.value_from_str("--address")?,
            application: arguments.value_from_fn("--application", Application::from_name)?,
            suite: arguments.value_from_str("--suite")?,
            keys: arguments.value_from_fn("--keys", Keys::from_name)?,
            version: arguments.opt_value_from_fn("--version", version)?.unwrap_or(1),
            update_keys: arguments.contains("--update-keys"),
            retry: arguments.contains("--retry"),
            certificates: arguments.value_from_str("--certificates")?,
            payload: arguments.opt_value_from_str("--payload")?.unwrap_or_default(),
            record: arguments.opt_value_from_str("--record")?,
        };
        match arguments.finish().first() {
            None => task.checked(),
            Some(unknown) => Err(format!("unknown argument {}", unknown.display()).into()),
        }
    }

    /// Refuses what only quinn's end can do.
    fn checked(self) -> Result<Self, Failure> {
        let only_quinn = [
            (self.application == Application::Http3, "--application h3"),
            (self.keys == Keys::KeyModule, "--keys key-module"),
            (self.version != 1, "--version"),
            (self.record.is_some(), "--record"),
        ];
        match only_quinn.iter().find(|(asked_for, _)| *asked_for && self.stack == Stack::S2nQuic) {
            None => Ok(self),
            Some((_, argument)) => Err(format!("s2n-quic's end cannot do {argument}").into()),
        }
    }
}
