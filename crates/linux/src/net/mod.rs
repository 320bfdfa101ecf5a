//! Listeners and streams whose keys are managed.

#[cfg(feature = "tokio")]
mod accepting;
mod listener;
mod local;
mod stream;
#[cfg(feature = "tokio")]
mod with_tokio;

pub use listener::TcpAoListener;
pub use local::Local;
pub use stream::TcpAoStream;
