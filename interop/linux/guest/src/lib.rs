//! What the driver and a guest say to each other: one JSON object a line, over a virtio serial port.
//!
//! The driver sends a [`Message`] with a [`Request`], the guest answers with a [`Reply`] of the same id. Requests overlap: an
//! answer comes when it is ready. The guest's first line is a reply with id 0 and its kernel's release.

mod counted;
mod keys;
mod pattern;
mod requests;

use std::time::Duration;

pub use counted::Counted;
pub use keys::{Chain, Key, SocketInfo};
pub use pattern::Pattern;
pub use requests::*;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The virtio serial port: the first of the only device.
pub const PORT: &str = "/dev/vport0p1";

/// How long anything may take. No row passes because this runs out.
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
