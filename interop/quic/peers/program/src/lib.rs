//! What the programs written in Rust share: arguments and report.

use std::net::SocketAddr;
use std::path::PathBuf;

use pico_args::Arguments;
use ring::digest::{SHA256, digest};
use serde::Serialize;

/// Why a run failed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The application protocol: the server sends back what it receives.
pub const ALPN: &[u8] = b"wireseal-interop";

/// What a run does.
#[derive(Debug)]
pub struct Task {
    /// Whether this end is the server.
    pub is_server: bool,
    /// The address a client connects to or a server listens on.
    pub address: SocketAddr,
    /// Folder with `ca.pem`, `server.pem` and `server.key`.
    pub certificates: PathBuf,
    /// File with the octets that a client sends.
    pub payload: PathBuf,
    /// Whether a server validates the client's address with a Retry.
    pub retry: bool,
}

impl Task {
    /// The task in this program's arguments.
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
            Some(unknown) => Err(format!("unknown argument {}", unknown.display()).into()),
        }
    }
}

/// What a stack reports about a connection.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The negotiated suite, by its name in the TLS registry.
    pub suite: String,
    /// Key updates that the peer started.
    pub updates_remote: usize,
    /// Key updates that this end started.
    pub updates_local: usize,
    /// Whether a Retry packet was sent or received.
    pub retry: bool,
}

/// Prints the report on a connection that has ended, as one line of JSON.
pub fn print_report(seen: &Seen, received: &[u8]) -> Result<(), Failure> {
    let mut report = serde_json::to_value(seen)?;
    report["received"] = received.len().into();
    report["sha256"] = sha256(received).into();
    println!("{report}");
    Ok(())
}

/// SHA-256 in hexadecimal.
pub fn sha256(octets: &[u8]) -> String {
    digest(&SHA256, octets).as_ref().iter().map(|octet| format!("{octet:02x}")).collect()
}
