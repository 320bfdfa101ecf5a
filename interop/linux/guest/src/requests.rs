//! The requests, and their answers.

use std::fmt;
use std::net::SocketAddr;

use cidr::IpCidr;
use serde::{Deserialize, Serialize};

use crate::{
    Attach, BindDevice, Call, ChooseIsn, DeleteKey, Detach, Exported, InstalledKey, Key, NewManager,
    ProvokeErrors, Provoked, Secret, SetChain, SocketInfo, Step, Stepped,
};

/// Makes each request a variant of [`Request`], and ties it to its answer.
macro_rules! calls {
    ($($request:ident => $answer:ty,)*) => {
        /// Any request.
        #[derive(Serialize, Deserialize, Debug)]
        pub enum Request {
            $(#[doc = concat!("[`", stringify!($request), "`].")] $request($request),)*
        }

        $(impl Call for $request {
            type Answer = $answer;

            fn into_request(self) -> Request {
                Request::$request(self)
            }
        })*
    };
}

calls! {
    Probe => Kernel,
    Run => Ran,
    Start => (),
    Stop => (),
    Log => String,
    WriteFile => (),
    ReadFile => String,
    Open => u64,
    Listen => SocketAddr,
    Accept => Accepted,
    Connect => SocketAddr,
    Transfer => (),
    Finish => (),
    Close => (),
    Reset => (),
    ResetAll => (),
    AddKeys => (),
    DeleteKey => (),
    SetKeys => (),
    SetFlags => (),
    ReportErrors => (),
    SetMd5Key => (),
    ListKeys => Vec<InstalledKey>,
    GetInfo => Option<SocketInfo>,
    Export => Exported,
    Restore => u64,
    GetCounters => NetworkCounters,
    AwaitCounters => NetworkCounters,
    ChooseIsn => (),
    BindDevice => (),
    NewManager => u64,
    Attach => (),
    Detach => (),
    Step => Stepped,
    SetChain => Stepped,
    ProvokeErrors => Vec<Provoked>,
}

/// What the guest's kernel is and can do.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Probe;

/// The answer to [`Probe`].
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Kernel {
    /// Its release, as `uname -r` has it.
    pub release: String,
    /// Whether it has TCP-AO.
    pub tcp_ao: bool,
    /// The names of the TCP-AO algorithms that keys can be added with.
    pub algorithms: Vec<String>,
    /// Whether it has TCP-MD5.
    pub md5: bool,
    /// Whether connections can be repaired.
    pub repair: bool,
}

/// Runs a command to its end.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Run {
    /// The command and its arguments.
    pub command: Vec<String>,
}

/// How a command ended.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Ran {
    /// Its exit code; nothing when a signal ended it.
    pub status: Option<i32>,
    /// What it printed.
    pub output: String,
    /// What it printed to standard error.
    pub errors: String,
}

/// Starts a command and lets it run. It is killed when the guest ends.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Start {
    /// What it is called from now on.
    pub name: String,
    /// The command and its arguments.
    pub command: Vec<String>,
}

/// Kills a command that was started, and waits for its end.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Stop {
    /// Its name.
    pub name: String,
}

/// What a command that was started has printed so far, standard error included. It may have ended.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Log {
    /// Its name.
    pub name: String,
}

/// Writes a file.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct WriteFile {
    /// Where; the directory is made if need be.
    pub path: String,
    /// What is in it.
    pub contents: String,
}

/// Reads a file.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ReadFile {
    /// Where.
    pub path: String,
}

/// Makes a TCP socket and binds it; the answer is the number it has in other requests.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Open {
    /// Its own address; port 0 leaves the port to the kernel.
    pub local: SocketAddr,
    /// Its keys. On a listener they are for the connections that it accepts.
    pub keys: Vec<Key>,
    /// Sets `ao_required`.
    pub required: bool,
}

/// Listens; the answer is the address listened on.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Listen {
    /// The socket.
    pub socket: u64,
}

/// Waits for a connection on a listener.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Accept {
    /// The listener.
    pub socket: u64,
    /// How long, in milliseconds.
    pub time_limit: u64,
}

/// A connection that was accepted.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct Accepted {
    /// Its socket.
    pub socket: u64,
    /// The other end.
    pub peer: SocketAddr,
}

/// Connects a socket and waits until it is connected; the answer is its own address. [`Close`] ends the wait.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Connect {
    /// The socket.
    pub socket: u64,
    /// The other end.
    pub remote: SocketAddr,
    /// How long to wait, in milliseconds.
    pub time_limit: u64,
}

/// Sends and receives at once, and checks each octet received.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct Transfer {
    /// The socket.
    pub socket: u64,
    /// Octets to send.
    pub send: u64,
    /// The seed of the [`Pattern`](crate::Pattern) they are from.
    pub send_seed: u64,
    /// The number of the first of them.
    pub send_from: u64,
    /// Octets to receive.
    pub receive: u64,
    /// The seed of the pattern they are from.
    pub receive_seed: u64,
    /// The number of the first of them.
    pub receive_from: u64,
    /// The longest silence, in milliseconds.
    pub time_limit: u64,
}

/// Closes the sending direction, and waits until the peer has closed its own. Fails when it still sends anything.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Finish {
    /// The socket, which has to be closed all the same.
    pub socket: u64,
    /// The longest wait, in milliseconds.
    pub time_limit: u64,
}

/// Closes a socket, and ends what waits on it.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Close {
    /// The socket.
    pub socket: u64,
}

/// Closes a connection with a reset.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Reset {
    /// The socket.
    pub socket: u64,
}

/// Closes all sockets, connections with a reset, and ends what waits on them.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ResetAll;

/// Adds keys to a socket.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct AddKeys {
    /// The socket.
    pub socket: u64,
    /// The keys.
    pub keys: Vec<Key>,
}

/// Chooses keys of a connection.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct SetKeys {
    /// The socket.
    pub socket: u64,
    /// The SendID of the new current key.
    pub current: Option<u8>,
    /// The RecvID of the new rnext key.
    pub rnext: Option<u8>,
}

/// Changes what a socket with TCP-AO refuses.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct SetFlags {
    /// The socket.
    pub socket: u64,
    /// Whether unsigned segments are refused.
    pub required: Option<bool>,
    /// Whether hard ICMP errors are taken.
    pub accept_icmps: Option<bool>,
}

/// Has ICMP errors reported to whoever uses the socket (`IP_RECVERR`, `IPV6_RECVERR`): Linux keeps them to itself otherwise.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ReportErrors {
    /// The socket.
    pub socket: u64,
}

/// Sets or deletes a TCP-MD5 key.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct SetMd5Key {
    /// The socket.
    pub socket: u64,
    /// The peers that it is for.
    pub remote: IpCidr,
    /// The interface index of a VRF device, or none.
    pub vrf: Option<u32>,
    /// The secret, or none to delete it.
    pub secret: Option<Secret>,
}

/// The keys of a socket.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ListKeys {
    /// The socket.
    pub socket: u64,
}

/// `TCP_AO_INFO` of a socket; nothing when it has no TCP-AO.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct GetInfo {
    /// The socket.
    pub socket: u64,
}

/// Takes an established connection out of the kernel: it ends there without a segment.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Export {
    /// The socket, which is closed.
    pub socket: u64,
}

/// Puts a connection into the kernel; the answer is its socket.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Restore {
    /// The connection.
    pub exported: Exported,
    /// Its keys.
    pub keys: Vec<Key>,
}

/// TCP-AO's and TCP-MD5's counters in `/proc/net/netstat`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct GetCounters;

/// Waits until each counter has reached what is given.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct AwaitCounters {
    /// The values to reach.
    pub at_least: NetworkCounters,
    /// How long, in milliseconds.
    pub time_limit: u64,
}

/// `wireseal_linux::NetworkCounters`.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetworkCounters {
    /// TCPAOGood.
    pub good: u64,
    /// TCPAOBad.
    pub bad: u64,
    /// TCPAOKeyNotFound.
    pub key_not_found: u64,
    /// TCPAORequired.
    pub ao_required: u64,
    /// TCPAODroppedIcmps.
    pub dropped_icmps: u64,
    /// TCPMD5NotFound.
    pub md5_not_found: u64,
    /// TCPMD5Unexpected.
    pub md5_unexpected: u64,
    /// TCPMD5Failure.
    pub md5_failure: u64,
}

impl NetworkCounters {
    /// Each counter with its name.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("good", self.good),
            ("bad", self.bad),
            ("key not found", self.key_not_found),
            ("required", self.ao_required),
            ("dropped ICMPs", self.dropped_icmps),
            ("MD5 not found", self.md5_not_found),
            ("MD5 unexpected", self.md5_unexpected),
            ("MD5 failure", self.md5_failure),
        ]
    }

    /// Whether each counter is at least as high as the other's.
    #[must_use]
    pub fn has_reached(&self, other: &Self) -> bool {
        self.named().iter().zip(other.named()).all(|((_, own), (_, other))| *own >= other)
    }

    /// What was counted since an earlier moment.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            good: self.good - earlier.good,
            bad: self.bad - earlier.bad,
            key_not_found: self.key_not_found - earlier.key_not_found,
            ao_required: self.ao_required - earlier.ao_required,
            dropped_icmps: self.dropped_icmps - earlier.dropped_icmps,
            md5_not_found: self.md5_not_found - earlier.md5_not_found,
            md5_unexpected: self.md5_unexpected - earlier.md5_unexpected,
            md5_failure: self.md5_failure - earlier.md5_failure,
        }
    }

    /// The sum of two.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            good: self.good + other.good,
            bad: self.bad + other.bad,
            key_not_found: self.key_not_found + other.key_not_found,
            ao_required: self.ao_required + other.ao_required,
            dropped_icmps: self.dropped_icmps + other.dropped_icmps,
            md5_not_found: self.md5_not_found + other.md5_not_found,
            md5_unexpected: self.md5_unexpected + other.md5_unexpected,
            md5_failure: self.md5_failure + other.md5_failure,
        }
    }
}

impl fmt::Display for NetworkCounters {
    /// The counters that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.named().into_iter().filter(|(_, segments)| *segments > 0);
        let counted: Vec<String> = counted.map(|(name, segments)| format!("{segments} {name}")).collect();
        f.write_str(if counted.is_empty() { "nothing" } else { "" })?;
        f.write_str(&counted.join(", "))
    }
}
