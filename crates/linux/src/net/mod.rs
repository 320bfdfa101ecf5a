//! Listeners and streams whose keys are managed.

mod listener;
mod stream;
#[cfg(feature = "tokio")]
mod with_tokio;

pub use listener::TcpAoListener;
pub use stream::TcpAoStream;
