//! A BGP speaker's parts: what the example `router-peer` and the labs share.
//!
//! ```text
//! bgp        a session over any stream; routes, generated
//! stack      streams: smoltcp, with Wireseal under it
//!   link     its frames, in and out
//!     wire   two links joined in memory, with impairments
//! protection the keys of TCP-AO on a stack
//! forge      segments for attacks
//! ```

pub mod bgp;
pub mod forge;
pub mod link;
pub mod protection;
pub mod routes;
pub mod stack;
pub mod wire;
