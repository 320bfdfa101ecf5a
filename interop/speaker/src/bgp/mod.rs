//! A BGP-4 speaker (RFC 4271) over any byte stream, with 4-octet AS numbers (RFC 6793) and IPv6 routes (RFC 4760).

pub mod message;
pub mod rib;
pub mod session;
pub mod update;

/// The TCP port of BGP (RFC 4271 §8.2.1).
pub const PORT: u16 = 179;
