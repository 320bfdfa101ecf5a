//! A BGP speaker's parts: what the example `router-peer` and the labs share.
//!
//! ```text
//! session    a BGP-4 session (RFC 4271) over any stream, with 4-octet AS numbers (RFC 6793) and IPv6 routes (RFC 4760)
//!   message    its messages
//!   routes     routes, generated or read from a list
//! stack      streams: smoltcp, with Wireseal under it
//!   link       its frames, in and out; two links joined in memory, with impairments
//!   tun        frames over a Linux tun device
//! protection the keys of TCP-AO on a stack
//! forge      segments for attacks
//! ```

pub mod forge;
pub mod link;
pub mod message;
pub mod protection;
pub mod routes;
pub mod session;
pub mod stack;
#[cfg(all(feature = "tun", target_os = "linux"))]
pub mod tun;
