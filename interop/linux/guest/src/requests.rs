//! The requests, and their answers.

use std::net::{IpAddr, SocketAddr};

use cidr::IpCidr;
use serde::{Deserialize, Serialize};

use crate::{Chain, Counted, Key, SocketInfo};

/// A request as a type, and its answer's type.
pub trait Call {
    type Answer: Serialize + for<'de> Deserialize<'de>;

    fn into_request(self) -> Request;
}

/// Makes each request a type and a variant of [`Request`], and ties it to its answer.
macro_rules! calls {
    ($($(#[$doc:meta])* $request:ident { $($field:ident: $type:ty),* } => $answer:ty;)*) => {
        #[derive(Serialize, Deserialize, Debug)]
        pub enum Request {
            $($request($request),)*
        }

        $(
            $(#[$doc])*
            #[derive(Serialize, Deserialize, Clone, Debug)]
            pub struct $request {
                $(pub $field: $type,)*
            }

            impl Call for $request {
                type Answer = $answer;

                fn into_request(self) -> Request {
                    Request::$request(self)
                }
            }
        )*
    };
}

calls! {
    /// Runs a shell's command line to its end; the answer is what it has printed.
    Run { line: String } => String;
    /// Writes a file.
    WriteFile { path: String, contents: String } => ();
    /// Creates a TCP socket, bound, with keys; the answer is its number in other requests. Port 0 leaves the port to the kernel.
    Open { local: SocketAddr, keys: Vec<Key>, required: bool } => u64;
    /// Binds a socket to a device (`SO_BINDTODEVICE`).
    BindDevice { socket: u64, device: String } => ();
    /// Listens; the answer is the address listened on.
    Listen { socket: u64 } => SocketAddr;
    /// Waits for a connection on a listener; the answer is its socket.
    Accept { socket: u64 } => u64;
    /// The same without waiting.
    TryAccept { socket: u64 } => Option<u64>;
    /// Connects a socket and waits until it is connected; the answer is its own address. [`Close`] ends the wait.
    Connect { socket: u64, remote: SocketAddr } => SocketAddr;
    /// Sends and receives at once, and checks each octet received.
    Transfer { socket: u64, send: Amount, receive: Amount } => ();
    /// Closes the sending direction, and waits until the peer has closed its own. Fails if the peer sends anything.
    Finish { socket: u64 } => ();
    /// Closes a socket, and ends what waits on it.
    Close { socket: u64 } => ();
    /// Closes a connection with a reset.
    Reset { socket: u64 } => ();
    /// Detaches and closes all sockets, connections with a reset, and ends what waits on them.
    ResetAll {} => ();
    AddKeys { socket: u64, keys: Vec<Key> } => ();
    /// Deletes the key with this SendID. The other ids are those of the keys that become current and rnext key.
    DeleteKey { socket: u64, send_id: u8, current: Option<u8>, rnext: Option<u8> } => ();
    /// Chooses the current key by SendID and the rnext key by RecvID.
    SetKeys { socket: u64, current: Option<u8>, rnext: Option<u8> } => ();
    SetFlags { socket: u64, required: Option<bool>, accept_icmps: Option<bool> } => ();
    /// Has ICMP errors reported to the program (`IP_RECVERR`, `IPV6_RECVERR`).
    ReportErrors { socket: u64 } => ();
    /// Sets a TCP-MD5 key.
    SetMd5Key { socket: u64, remote: IpCidr, secret: String } => ();
    /// The SendID of each key, and the interface index of the VRF device that it is for, or none.
    ListKeys { socket: u64 } => Vec<(u8, Option<u32>)>;
    /// `TCP_AO_INFO`; nothing when the socket has no TCP-AO.
    GetInfo { socket: u64 } => Option<SocketInfo>;
    /// Takes an established connection out of the kernel, where it ends without a segment: `wireseal_linux::Exported`.
    Export { socket: u64 } => Vec<u8>;
    /// Puts a connection into the kernel; the answer is its socket.
    Restore { exported: Vec<u8>, keys: Vec<Key> } => u64;
    /// TCP-AO's and TCP-MD5's counters in `/proc/net/netstat`.
    GetCounters {} => Counted;
    /// Waits until each counter has reached what is given.
    AwaitCounters { at_least: Counted } => Counted;
    /// Chooses the ISN of a socket that is going to connect.
    ChooseIsn { socket: u64, isn: u32 } => ();
    /// Creates a key manager with these peers, each with the VRF that it is in, or none; the answer is its number.
    NewManager { peers: Vec<(IpCidr, Option<u32>, Chain)> } => u64;
    /// Attaches a socket to a key manager, one that will connect with the address to which. All times are in seconds since 1970.
    Attach { manager: u64, socket: u64, remote: Option<IpAddr>, now: i64 } => ();
    /// Has `TcpAoListener::from_socket` take a socket over.
    Manage { manager: u64, socket: u64 } => ();
    /// Waits for what that listener accepts; the answer is the socket, attached to the key manager.
    AcceptManaged { socket: u64 } => u64;
    /// Connects as `TcpAoStream::connect_from` does, perhaps in a VRF; the answer is the socket, attached to the key manager.
    ConnectFrom { manager: u64, remote: SocketAddr, vrf: Option<u32> } => u64;
    /// Detaches a socket from its key manager.
    Detach { socket: u64 } => ();
    /// Lets a key manager do what is due. Fails if it cannot do all of it, but for keys that it reports as overdue.
    Step { manager: u64, now: i64 } => Stepped;
    /// Adds peers to a key manager, or changes their chains.
    SetPeers { manager: u64, peers: Vec<(IpCidr, Option<u32>, Chain)> } => ();
    /// Makes calls that the kernel must refuse, some on this connection, which has one key; the answer is how many. Fails
    /// unless each returns the error that says why.
    ProvokeErrors { connection: u64 } => u64;
}

/// Octets of a [`Pattern`](crate::Pattern) to be sent or received.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct Amount {
    pub octets: u64,
    pub seed: u64,
    /// The number of the first octet.
    pub from: u64,
}

impl Amount {
    /// Nothing at all.
    pub const NONE: Self = Self::of(0);

    /// So many octets of the pattern with seed 0.
    #[must_use]
    pub const fn of(octets: u64) -> Self {
        Self { octets, seed: 0, from: 0 }
    }
}

/// What a step of a key manager came to: `wireseal_linux::StepReport`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Stepped {
    /// Peers for which no key may be sent with.
    pub expired: usize,
    /// Connections to be shut down.
    pub ended: usize,
    pub done: Vec<String>,
    /// Keys that are not valid any more and cannot be deleted.
    pub overdue: usize,
}
