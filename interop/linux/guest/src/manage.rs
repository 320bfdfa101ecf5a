//! What is asked of key managers, and of sockets that only these rows need.

use cidr::IpCidr;
use serde::{Deserialize, Serialize};
use wireseal_tcp_ao::key_chain::{self, KeyChain, Lifetime, Timestamp};

use crate::Key;

/// From when until when, in seconds since 1970; nothing leaves an end open.
pub type Span = (Option<i64>, Option<i64>);

/// A key chain, as plain values.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Chain {
    /// Its keys.
    pub keys: Vec<ChainKey>,
    /// Seconds by which each accept lifetime is widened.
    pub accept_tolerance: u32,
}

/// A key and its lifetimes.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ChainKey {
    /// The key; which peer it is for, and whether it is to be current or rnext key, the manager says.
    pub key: Key,
    /// When it may be sent with.
    pub send: Span,
    /// When it is accepted.
    pub accept: Span,
}

impl Chain {
    /// The chain.
    ///
    /// # Errors
    /// A sentence, when it is none that can be.
    pub fn key_chain(&self) -> Result<KeyChain, String> {
        let key = |(number, key): (usize, &ChainKey)| {
            let (send, accept) = (lifetime(key.send)?, lifetime(key.accept)?);
            key_chain::Key::new(number as u64, key.key.mkt()?).with_lifetimes(send, accept).map_err(text)
        };
        let keys = self.keys.iter().enumerate().map(key).collect::<Result<Vec<_>, String>>()?;
        KeyChain::new("lab", keys)
            .and_then(|chain| chain.with_accept_tolerance(self.accept_tolerance))
            .map_err(text)
    }
}

fn lifetime((from, until): Span) -> Result<Lifetime, String> {
    let timestamp = Timestamp::from_unix_seconds;
    Lifetime::new(from.map(timestamp), until.map(timestamp)).map_err(text)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Makes a key manager; the answer is the number it has in other requests.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct NewManager {
    /// The peers that it is for.
    pub remote: IpCidr,
    /// The interface index of a VRF device, or none.
    pub vrf: Option<u32>,
    /// Its key chain.
    pub chain: Chain,
}

/// Attaches a socket to a key manager.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct Attach {
    /// The manager.
    pub manager: u64,
    /// The socket.
    pub socket: u64,
    /// The time, in seconds since 1970.
    pub now: i64,
}

/// Detaches a socket from its key manager, before it is closed.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct Detach {
    /// The socket.
    pub socket: u64,
}

/// Lets a key manager do what is to be done.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct Step {
    /// The manager.
    pub manager: u64,
    /// The time, in seconds since 1970.
    pub now: i64,
}

/// Gives a key manager another chain.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct SetChain {
    /// The manager.
    pub manager: u64,
    /// The chain.
    pub chain: Chain,
    /// The time, in seconds since 1970.
    pub now: i64,
}

/// What a step of a key manager came to: `wireseal_linux::StepReport`.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Stepped {
    /// No key may be sent with.
    pub expired: bool,
    /// When there will be something to do.
    pub next_step: Option<i64>,
    /// Some peer has not yet signed with the key that it was asked for.
    pub is_peer_behind: bool,
    /// What was done on the sockets.
    pub done: Vec<String>,
    /// What could not be done.
    pub failed: Vec<String>,
    /// Keys whose time is over but which are the last of a connection.
    pub overdue: usize,
}

/// Chooses the ISN of a socket that is going to connect.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct ChooseIsn {
    /// The socket.
    pub socket: u64,
    /// The ISN.
    pub isn: u32,
}

/// Binds a socket to an interface.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct BindDevice {
    /// The socket.
    pub socket: u64,
    /// The name of the interface.
    pub device: String,
}

/// Does with an established connection what the kernel must refuse, and says what becomes of it: errno by errno.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct ProvokeErrors {
    /// A connection with one key, `key`.
    pub connection: u64,
}

/// A call that was refused.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Provoked {
    /// What was done.
    pub what: String,
    /// The kind of `wireseal_linux::Error` that it gave, or that it gave none.
    pub error: String,
    /// The sentence that the error is.
    pub message: String,
}
