//! Installing and removing the keys of key chains on sockets, on schedule.

mod action;
mod apply;
mod attached;
mod attachment;
mod background;
mod error;
mod key_manager;
mod let_go;
mod pace;
mod peers;
mod plan;
mod refusals;
mod report;
mod state;
mod step;
mod target;
#[cfg(feature = "tokio")]
mod task;
mod vrf;

pub use action::{Action, Origin, SocketKind};
pub use attachment::{Attachment, SocketState};
pub use error::ManagerError;
pub use key_manager::{KeyManager, PeerState};
pub use refusals::Refused;
pub use report::{SocketReport, StepReport};

#[cfg(test)]
mod tests;
