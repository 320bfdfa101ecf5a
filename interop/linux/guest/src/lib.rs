//! The protocol between the driver and a guest: one JSON object a line, over a virtio serial port.
//!
//! The driver sends a [`Message`] with a [`Request`], the guest answers with a [`Reply`] of the same id. Requests overlap: an
//! answer comes when it is ready. The guest's first line is a reply with id 0 and its kernel's release.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cidr::IpCidr;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wireseal_keys::{Error, KeyChain, KeyChains};
use wireseal_tcp_ao::Mkt;

/// The virtio serial port: the first of the only device.
pub const PORT: &str = "/dev/vport0p1";

/// How long anything may take. No row relies on this running out.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A request on its way to a guest.
#[derive(Serialize, Deserialize, Debug)]
pub struct Message {
    /// Chosen by the driver, from 1 on; the reply has the same.
    pub id: u64,
    pub request: Request,
}

#[derive(Serialize, Deserialize, Debug)]
pub struct Reply {
    /// The request's id; 0 for the first line, which answers nothing.
    pub id: u64,
    /// The request's [`Call::Answer`], or why there is none.
    pub result: Result<Value, String>,
}

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
    /// Adds the same key for each of so many addresses, from this one on.
    AddPeers { socket: u64, first: IpAddr, peers: u32, key: Key } => ();
    /// Deletes what [`AddPeers`] has added.
    DeletePeers { socket: u64, first: IpAddr, peers: u32, key: Key } => ();
    /// Deletes the key with this SendID. The other ids are those of the keys that become current and rnext key.
    DeleteKey { socket: u64, send_id: u8, current: Option<u8>, rnext: Option<u8> } => ();
    /// Chooses the current key by SendID and the rnext key by RecvID.
    SetKeys { socket: u64, current: Option<u8>, rnext: Option<u8> } => ();
    SetFlags { socket: u64, required: Option<bool>, accept_icmps: Option<bool> } => ();
    /// Has ICMP errors reported to the program (`IP_RECVERR`, `IPV6_RECVERR`).
    ReportErrors { socket: u64 } => ();
    /// Sets a TCP-MD5 key, perhaps for a VRF.
    SetMd5Key { socket: u64, remote: IpCidr, vrf: Option<u32>, secret: String } => ();
    /// The SendID of each key, and the interface index of the VRF device that it is for, or none.
    ListKeys { socket: u64 } => Vec<(u8, Option<u32>)>;
    /// The SendID of each key, and its good and bad segments on this socket.
    CountKeys { socket: u64 } => Vec<(u8, u64, u64)>;
    /// Makes one of the kernel's own calls, also one that the library would not make.
    CallOption { socket: u64, call: AoCall, remote: Option<IpAddr>, fields: Vec<(Field, u64)>, buffer: Buffer } => Called;
    /// `TCP_AO_INFO`; nothing when the socket has no TCP-AO.
    GetInfo { socket: u64 } => Option<SocketInfo>;
    /// Takes an established connection out of the kernel, where it ends without a segment: `wireseal_linux::Exported`.
    Export { socket: u64 } => Vec<u8>;
    /// Puts a connection into the kernel; the answer is its socket.
    Restore { exported: Vec<u8>, keys: Vec<Key> } => u64;
    /// TCP-AO's and TCP-MD5's counters in `/proc/net/netstat`.
    GetCounters {} => Counted;
    /// Waits until each counter has reached the given value.
    AwaitCounters { at_least: Counted } => Counted;
    /// Chooses the ISN of a socket that is going to connect.
    ChooseIsn { socket: u64, isn: u32 } => ();
    /// Creates a key manager with these peers, each with the VRF that it is in, or none; the answer is its number.
    NewManager { peers: Vec<(IpCidr, Option<u32>, Chain)> } => u64;
    /// Attaches a socket to a key manager; one that will connect needs the remote address. All times are in seconds since 1970.
    Attach { manager: u64, socket: u64, remote: Option<IpAddr>, now: i64 } => ();
    /// Gives a socket to `TcpAoListener::from_socket`.
    Manage { manager: u64, socket: u64 } => ();
    /// Waits for what that listener accepts; the answer is the socket, attached to the key manager.
    AcceptManaged { socket: u64 } => u64;
    /// Connects as `TcpAoStream::connect_from` does, perhaps in a VRF; the answer is the socket, attached to the key manager.
    ConnectFrom { manager: u64, remote: SocketAddr, vrf: Option<u32> } => u64;
    /// Detaches a socket from its key manager.
    Detach { socket: u64 } => ();
    /// Lets a key manager do what is due. Fails if it cannot do all of it, except for keys that it reports as overdue.
    Step { manager: u64, now: i64 } => Stepped;
    /// Adds peers to a key manager, or changes their chains.
    SetPeers { manager: u64, peers: Vec<(IpCidr, Option<u32>, Chain)> } => ();
    /// Makes calls that the kernel must refuse, some on this connection, which has one key; the answer is how many. Fails
    /// unless each returns the error that says why.
    ProvokeErrors { connection: u64 } => u64;
}

/// A call for TCP-AO, as `linux/tcp.h` has it.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AoCall {
    /// Sets `TCP_AO_ADD_KEY`, with a secret of 80 octets.
    AddKey,
    /// Sets `TCP_AO_DEL_KEY`.
    DeleteKey,
    /// Sets `TCP_AO_INFO`.
    SetInfo,
    /// Gets `TCP_AO_INFO`.
    GetInfo,
    /// Gets `TCP_AO_GET_KEYS`.
    GetKeys,
}

/// A field of a call's struct. Most structs lack some.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// The first eight octets of the algorithm's name.
    Algorithm,
    AddressFamily,
    Port,
    Prefix,
    SendId,
    RecvId,
    Interface,
    KeyFlags,
    MacLength,
    KeyLength,
    /// The first bit that is unused.
    Reserved,
    Reserved2,
    /// `set_current`, or `is_current`.
    IsCurrent,
    /// `set_rnext`, or `is_rnext`.
    IsRnext,
    /// The SendID of the current key.
    Current,
    /// The RecvID of the rnext key.
    Rnext,
    Async,
    Required,
    AcceptIcmps,
    SetCounters,
    Good,
    Bad,
    GetAll,
    /// For how many keys there is room.
    Room,
}

/// The memory that a call names.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// The struct.
    Own,
    /// Only its beginning: so many octets fewer.
    Cut(u32),
    /// The struct and 100 more octets of this value.
    Grown(u8),
    /// The struct, with the length -1.
    NegativeLength,
    /// None.
    Null,
    /// The struct, but none for its length.
    NullLength,
}

/// The result of a [`CallOption`].
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Called {
    /// 0 if it was done.
    pub errno: i32,
    /// The SendID and RecvID of each key that was got.
    pub keys: Vec<(u8, u8)>,
    /// How many keys the kernel has found.
    pub found: u32,
}

/// Octets of a [`Pattern`](Pattern) to be sent or received.
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
    pub const fn of(octets: u64) -> Self {
        Self { octets, seed: 0, from: 0 }
    }
}

/// The result of a key manager's step: `wireseal_linux::StepReport`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Stepped {
    /// Peers for which no key is valid for sending.
    pub expired: usize,
    /// Connections to be shut down.
    pub ended: usize,
    pub done: Vec<String>,
    /// Keys that are no longer valid and cannot be deleted.
    pub overdue: usize,
}

/// A key chain, as TOML.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(transparent)]
pub struct Chain(String);

impl Chain {
    pub fn new(chain: KeyChain) -> Result<Self, Error> {
        Ok(Self(KeyChains::new(vec![chain])?.to_toml().to_string()))
    }

    /// The chain.
    /// Fails when the text is not a key chain.
    pub fn key_chain(&self) -> Result<KeyChain> {
        let chains = KeyChains::from_toml(&self.0)?;
        chains.chains().first().cloned().context("there is no key chain")
    }
}

/// A key for a socket: `wireseal_linux::SocketKey` with its MKT.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Key {
    /// The peers that the key is for.
    pub remote: IpCidr,
    /// The interface index of a VRF device that the key is for, or none.
    pub vrf: Option<u32>,
    /// A chain with only its MKT.
    pub chain: Chain,
    /// Whether it becomes current and rnext key.
    pub is_preferred: bool,
}

impl Key {
    /// A key with the guest's ids, for one peer and no VRF.
    pub fn new(remote: IpAddr, mkt: &Mkt) -> Result<Self, Error> {
        let chain = Chain::new(KeyChain::new("lab", vec![wireseal_keys::Key::new(0, mkt.clone())])?)?;
        Ok(Self { remote: remote.into(), vrf: None, chain, is_preferred: false })
    }

    /// The MKT.
    pub fn mkt(&self) -> Result<Mkt> {
        let chain = self.chain.key_chain()?;
        chain.keys().first().map(|key| key.mkt().clone()).context("there is no key")
    }
}

/// What the kernel reports about a socket: `wireseal_linux::Info`.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct SocketInfo {
    /// Its SendID.
    pub current_key: Option<u8>,
    /// Its RecvID.
    pub rnext_key: Option<u8>,
    pub required: bool,
    pub accept_icmps: bool,
    pub counted: Counted,
}

/// Declares [`Counted`]: each counter with its name, and a function that sets only that counter.
macro_rules! counters {
    ($($counter:ident $name:literal)*) => {
        /// Segments by verdict, at either end: the kernel's counters in `/proc/net/netstat`, or Wireseal's.
        #[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Counted {
            $(pub $counter: u64,)*
        }

        impl Counted {
            const NOTHING: Self = Self { $($counter: 0,)* };

            $(
                pub const fn $counter($counter: u64) -> Self {
                    Self { $counter, ..Self::NOTHING }
                }
            )*

            /// Each counter with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$counter),)*].into_iter()
            }

            fn combine(&self, other: &Self, combined: impl Fn(u64, u64) -> u64) -> Self {
                Self { $($counter: combined(self.$counter, other.$counter),)* }
            }
        }
    };
}

counters! {
    good "good"
    bad "bad"
    key_not_found "key not found"
    required "required"
    dropped_icmps "dropped ICMPs"
    md5_not_found "MD5 not found"
    md5_unexpected "MD5 unexpected"
    md5_failure "MD5 failure"
}

impl Counted {
    /// Whether each counter is at least as high as the other's.
    pub fn has_reached(&self, other: &Self) -> bool {
        self.named().zip(other.named()).all(|((_, own), (_, other))| own >= other)
    }

    /// What was counted since an earlier moment.
    pub fn since(&self, earlier: &Self) -> Self {
        self.combine(earlier, |now, earlier| now - earlier)
    }

    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, |own, other| own + other)
    }

    /// The same, if an end has counted what it should.
    pub fn check(self, end: &str, expected: &Self) -> Result<Self> {
        ensure!(self == *expected, "{end} has counted {self} instead of {expected}");
        Ok(self)
    }

    /// The same, if an end has counted good segments and nothing else.
    pub fn check_good(self, end: &str) -> Result<Self> {
        ensure!(self.good > 0 && self == Self::good(self.good), "{end} has counted {self}");
        Ok(self)
    }
}

impl From<wireseal_tcp_ao::Counters> for Counted {
    fn from(counters: wireseal_tcp_ao::Counters) -> Self {
        let wireseal_tcp_ao::Counters { good, bad, key_not_found, required, dropped_icmp } = counters;
        Self { good, bad, key_not_found, required, dropped_icmps: dropped_icmp, ..Self::NOTHING }
    }
}

impl fmt::Display for Counted {
    /// The counters that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.named().filter(|(_, segments)| *segments > 0);
        let counted: Vec<String> = counted.map(|(name, segments)| format!("{segments} {name}")).collect();
        f.write_str(if counted.is_empty() { "nothing" } else { "" })?;
        f.write_str(&counted.join(", "))
    }
}

/// Octets of one word of the pattern.
const WORD: usize = 8;

/// The octets of an [`Amount`], one after the other.
#[derive(Clone, Debug)]
pub struct Pattern {
    seed: u64,
    position: u64,
    end: u64,
}

impl Pattern {
    pub const fn of(amount: Amount) -> Self {
        let Amount { octets, seed, from } = amount;
        Self { seed, position: from, end: from + octets }
    }

    /// How many octets are left.
    pub const fn left(&self) -> usize {
        (self.end - self.position) as usize
    }

    /// Takes this many octets, or those that are left.
    pub fn take(&mut self, most: usize) -> Vec<u8> {
        let octets = most.min(self.left());
        let skip = (self.position % WORD as u64) as usize;
        let mut taken = vec![0; (skip + octets).next_multiple_of(WORD)];
        for (number, word) in (self.position / WORD as u64..).zip(taken.chunks_exact_mut(WORD)) {
            word.copy_from_slice(&self.word(number));
        }
        taken.truncate(skip + octets);
        taken.drain(..skip);
        self.position += octets as u64;
        taken
    }

    /// Takes as many octets as were received.
    /// Fails when the octets differ, and names the first that does.
    pub fn check(&mut self, received: &[u8]) -> Result<()> {
        let from = self.position;
        let expected = self.take(received.len());
        let differs = received.iter().zip(&expected).position(|(received, expected)| received != expected);
        ensure!(
            differs.is_none() && received.len() == expected.len(),
            "wrong octet {}",
            from + differs.unwrap_or(expected.len()) as u64
        );
        Ok(())
    }

    /// Two rounds of multiplication spread the word's number over all octets.
    const fn word(&self, number: u64) -> [u8; WORD] {
        let mut mixed = (self.seed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ mixed >> 32).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole() {
        let amount = Amount { octets: 61, seed: 7, from: 3 };
        let whole = Pattern::of(amount).take(100);
        assert_eq!(whole.len(), 61);
        for cut in 0..whole.len() {
            let mut pattern = Pattern::of(amount);
            pattern.check(&whole[..cut]).unwrap();
            pattern.check(&whole[cut..]).unwrap();
            assert!(pattern.check(&[0]).is_err());
        }
    }

    #[test]
    fn a_changed_octet_is_found() {
        let amount = Amount { octets: 40, seed: 7, from: 100 };
        let mut octets = Pattern::of(amount).take(40);
        octets[33] ^= 1;
        assert_eq!(Pattern::of(amount).check(&octets).unwrap_err().to_string(), "wrong octet 133");
    }
}
