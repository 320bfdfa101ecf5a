//! The status of a running instance: its peers, their keys, sessions and counters. It contains no secrets.

mod control;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wireseal_keys::{Key, KeyChain, Timestamp};
use wireseal_linux::PeerName;
use wireseal_tcp_ao::{Counters, KeyId};

pub(crate) use self::control::Announced;
pub use self::control::{Instances, running};
pub(crate) use self::control::{announce, ask_all, make_folder};

/// Makes the status of an instance when it is asked for.
pub(crate) type StatusSource = Arc<dyn Fn() -> Status + Send + Sync>;

/// What an instance of `run` or `gateway` does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Status {
    /// The subcommand that it runs.
    pub command: Command,
    /// Its process number.
    pub pid: u32,
    /// Since when it runs.
    pub since: Timestamp,
    /// Its [network namespace](network_namespace()); 0 for an instance of an earlier version.
    #[serde(default)]
    pub network_namespace: u64,
    /// The program that it supervises.
    pub program: Option<String>,
    /// The TCP ports that it protects, at either end; none for an instance of an earlier version.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Its peers, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
    /// The protected listeners of the program. They count segments that belonged to no connection, of any peer.
    pub listeners: Vec<ListenerStatus>,
    /// The rules by which the kernel gives packets to a gateway; `None` for a supervisor.
    #[serde(default)]
    pub rules: Option<RulesStatus>,
}

/// The rules by which the kernel gives packets to a gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RulesStatus {
    /// The program that has installed them: `nft`, or one of iptables.
    pub by: String,
    /// Since when they are in place, or since when they are not.
    pub since: Timestamp,
    /// Why they are not in place, and what that lets through; `None` if they are.
    pub problem: Option<String>,
}

/// The network namespace of this process: the inode number of `/proc/self/ns/net`, or 0 if that cannot be read.
#[must_use]
pub fn network_namespace() -> u64 {
    namespace_of("self").unwrap_or(0)
}

/// The network namespace of another process; `None` if it has ended or does not show it.
pub(crate) fn process_namespace(pid: u32) -> Option<u64> {
    namespace_of(&pid.to_string())
}

fn namespace_of(process: &str) -> Option<u64> {
    fs::metadata(Path::new("/proc").join(process).join("ns/net")).map(|metadata| metadata.ino()).ok()
}

/// A subcommand that goes on running.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "these are the program's subcommands")]
pub enum Command {
    Run,
    Gateway,
}

impl Command {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Gateway => "gateway",
        }
    }
}

/// A peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PeerStatus {
    /// The address or network, and the VRF.
    pub peer: String,
    /// The name of its key chain.
    pub key_chain: String,
    /// The key that new sessions use now; `None` if none is valid for sending, so that none can open.
    pub key: Option<KeyStatus>,
    /// When the chain's keys change next.
    pub next_change: Option<Timestamp>,
    /// When the last key stops being valid for sending, if the chain stays as it is.
    pub chain_end: Option<Timestamp>,
    /// Its sessions.
    pub sessions: Vec<SessionStatus>,
    /// Its segments since the instance was started.
    pub segments: Segments,
}

/// A key of a key chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct KeyStatus {
    /// Its id in the chain.
    pub key_id: u64,
    /// Its SendID.
    pub send_id: KeyId,
    /// Its RecvID.
    pub recv_id: KeyId,
    /// Its algorithm.
    pub algorithm: String,
    /// Since when it is used for sending: the start of its send lifetime, or of the instance if the lifetime has none.
    pub since: Timestamp,
    /// When its send lifetime ends.
    pub until: Option<Timestamp>,
}

/// A session with a peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SessionStatus {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Whether the handshake is complete.
    pub is_established: bool,
    /// The SendID of the key that this end signs with.
    pub send_id: KeyId,
    /// The RecvID of the key that this end asks the peer to sign with (RNextKeyID).
    pub asked_for: KeyId,
    /// Whether the peer does not sign with that key yet.
    pub is_peer_behind: bool,
    /// Whether this end signs with its key only because the peer goes on asking for it, although the key's send lifetime is over.
    #[serde(default)]
    pub peer_insists: bool,
}

/// A protected listener.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListenerStatus {
    /// Where it listens.
    pub local: SocketAddr,
    /// Segments that came to it.
    pub segments: Segments,
}

/// Segments received, by verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Segments {
    /// Good.
    pub good: u64,
    /// With a bad MAC.
    pub bad_mac: u64,
    /// With a KeyID that no key has.
    pub unknown_key_id: u64,
    /// Without the option.
    pub unsigned: u64,
}

impl From<Counters> for Segments {
    fn from(counters: Counters) -> Self {
        Self {
            good: counters.good,
            bad_mac: counters.bad,
            unknown_key_id: counters.key_not_found,
            unsigned: counters.required,
        }
    }
}

impl Segments {
    /// Each verdict in the words of `wireseal verify`, with its segments.
    #[must_use]
    pub const fn by_verdict(&self) -> [(&'static str, u64); 4] {
        [
            ("good", self.good),
            ("bad MAC", self.bad_mac),
            ("unknown KeyID", self.unknown_key_id),
            ("no TCP-AO option", self.unsigned),
        ]
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            good: self.good.saturating_add(other.good),
            bad_mac: self.bad_mac.saturating_add(other.bad_mac),
            unknown_key_id: self.unknown_key_id.saturating_add(other.unknown_key_id),
            unsigned: self.unsigned.saturating_add(other.unsigned),
        }
    }
}

impl PeerStatus {
    /// A peer with the present key of its chain, and without sessions.
    pub(crate) fn new(peer: &PeerName, chain: &KeyChain, started: Timestamp) -> Self {
        let now = Timestamp::now();
        Self {
            peer: peer.to_string(),
            key_chain: chain.name().to_owned(),
            key: chain.at(now).preferred().map(|key| KeyStatus::new(key, started)),
            next_change: chain.next_change(now),
            chain_end: chain_end(chain, now),
            sessions: Vec::new(),
            segments: Segments::default(),
        }
    }
}

impl KeyStatus {
    fn new(key: &Key, started: Timestamp) -> Self {
        let lifetime = key.send_lifetime();
        Self {
            key_id: key.key_id(),
            send_id: key.mkt().send_id(),
            recv_id: key.mkt().recv_id(),
            algorithm: key.mkt().parameters().algorithm.name().to_owned(),
            // Of several valid keys, the one whose lifetime began last is used.
            since: lifetime.from().unwrap_or(started),
            until: lifetime.until(),
        }
    }
}

/// When a chain will have no key to send with; `None` if it always has one.
fn chain_end(chain: &KeyChain, now: Timestamp) -> Option<Timestamp> {
    let mut moment = now;
    while chain.at(moment).preferred().is_some() {
        moment = chain.next_change(moment)?;
    }
    Some(moment)
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;

    /// A fixed status with two peers and a listener.
    pub(crate) fn status() -> Status {
        let since = Timestamp::from_unix_seconds(1_800_000_000);
        let segments = Segments { good: 7, ..Segments::default() };
        let key = KeyStatus {
            key_id: 1,
            send_id: KeyId(100),
            recv_id: KeyId(200),
            algorithm: "AES-128-CMAC-96".to_owned(),
            since,
            until: Some(since),
        };
        let peer = |peer: &str| PeerStatus {
            peer: peer.to_owned(),
            key_chain: "core".to_owned(),
            key: Some(key.clone()),
            next_change: Some(since),
            chain_end: Some(since),
            sessions: Vec::new(),
            segments,
        };
        Status {
            command: Command::Gateway,
            pid: 2,
            since,
            network_namespace: 1,
            program: None,
            ports: vec![179],
            peers: vec![peer("192.0.2.1"), peer("2001:db8::/32")],
            listeners: vec![ListenerStatus { local: "0.0.0.0:179".parse().unwrap(), segments }],
            rules: None,
        }
    }
}
