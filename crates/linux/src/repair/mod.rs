//! Moving a live connection to another socket, process or machine (`TCP_REPAIR` and `TCP_AO_REPAIR`).

mod export;
mod frozen;
mod isn;
mod octets;
mod release;
mod restore;
mod state;

pub use frozen::Frozen;
pub use isn::choose_isn;
pub use octets::ExportedError;
pub(crate) use release::can_restore;
pub use restore::restore;
pub use state::{Exported, TcpState, Window, WindowScale};

#[cfg(test)]
mod tests;
