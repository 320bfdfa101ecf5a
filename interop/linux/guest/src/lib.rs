//! What the driver and a guest say to each other: one JSON object a line, over a virtio serial port.
//!
//! The driver sends a [`Message`] with a [`Request`] in it, the guest answers with a [`Reply`] of the same id. Requests
//! overlap: an answer comes when it is ready. The guest's first line is a reply with id 0 and the answer to [`Probe`], sent
//! when it has started.

mod keys;
mod manage;
mod pattern;
mod repair;
mod requests;

pub use keys::{DeleteKey, InstalledKey, Key, KeyName, Secret, SocketInfo};
pub use manage::{
    Attach, BindDevice, Chain, ChainKey, ChooseIsn, Detach, NewManager, ProvokeErrors, Provoked, SetChain,
    Span, Step, Stepped,
};
pub use pattern::Pattern;
pub use repair::{Exported, Tcp};
pub use requests::*;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the virtio serial port.
pub const PORT_NAME: &str = "control";

/// A request on its way to a guest.
#[derive(Serialize, Deserialize, Debug)]
pub struct Message {
    /// Chosen by the driver, from 1 on; the reply has the same.
    pub id: u64,
    /// What to do.
    pub request: Request,
}

/// A guest's reply.
#[derive(Serialize, Deserialize, Debug)]
pub struct Reply {
    /// The request's id; 0 for the first line, which answers nothing.
    pub id: u64,
    /// The request's [`Call::Answer`], or why there is none.
    pub result: Result<Value, String>,
}

/// A request, and what its answer is.
pub trait Call {
    /// What comes back.
    type Answer: Serialize + for<'de> Deserialize<'de>;

    /// The request as it is sent.
    fn into_request(self) -> Request;
}
