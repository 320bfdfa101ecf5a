//! What the peers written in Rust have in common: arguments and report.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use pico_args::Arguments;
use ring::digest::{SHA256, digest};
use serde::Serialize;

/// Why a run came to nothing, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The application protocol: the server sends back what it receives.
pub const ALPN: &[u8] = b"wireseal-interop";

/// What one run is to do.
#[derive(Debug)]
pub struct Task {
    /// Whether this end is the server.
    pub is_server: bool,
    /// A client's peer, or where a server listens.
    pub address: SocketAddr,
    /// Folder with `ca.pem`, `server.pem` and `server.key`.
    pub certificates: PathBuf,
    /// File whose octets a client sends.
    pub payload: PathBuf,
    /// Whether a server asks for the address to be validated first.
    pub retry: bool,
}

impl Task {
    /// The task that the arguments of this program state.
    pub fn from_arguments() -> Result<Self, Failure> {
        let mut arguments = Arguments::from_env();
        let is_server = match arguments.subcommand()?.as_deref() {
            Some("client") => false,
            Some("server") => true,
            _ => return Err("the first argument is client or server".into()),
        };
        let task = Self {
            is_server,
            address: arguments.value_from_str("--address")?,
            certificates: arguments.value_from_str("--certificates")?,
            payload: arguments.value_from_str("--payload")?,
            retry: arguments.contains("--retry"),
        };
        match arguments.finish().first() {
            None => Ok(task),
            Some(unknown) => Err(format!("{} is no argument of this program", unknown.display()).into()),
        }
    }
}

/// What a stack has said of one connection.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The negotiated suite, by its name in the TLS registry.
    pub suite: String,
    /// Key updates that the peer has started.
    pub updates_remote: usize,
    /// Key updates that this end has started.
    pub updates_local: usize,
    /// Whether a Retry packet was sent or received.
    pub retry: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    suite: &'a str,
    received: usize,
    sha256: String,
    updates_remote: usize,
    updates_local: usize,
    retry: bool,
}

/// Prints the report on a connection that has come to its end, as one line of JSON.
pub fn print_report(seen: &Seen, received: &[u8]) -> Result<(), Failure> {
    let mut sha256 = String::new();
    for octet in digest(&SHA256, received).as_ref() {
        write!(sha256, "{octet:02x}")?;
    }
    let Seen { suite, updates_remote, updates_local, retry } = seen.clone();
    let report =
        Report { suite: &suite, received: received.len(), sha256, updates_remote, updates_local, retry };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
