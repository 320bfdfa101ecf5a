//! Links: a queue of frames to the stack and one from it, and what moves them on.

mod device;
mod pump;
mod queue;
#[cfg(all(feature = "tun", target_os = "linux"))]
pub mod tun;
pub mod unix;

pub use self::device::{DEFAULT_IP_MTU, ETHERNET_HEADER, Link, RxToken, TxToken};
pub use self::queue::FrameQueue;
