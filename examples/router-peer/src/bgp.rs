//! A BGP-4 speaker (RFC 4271) over any byte stream, with 4-octet AS numbers (RFC 6793) and multiprotocol routes (RFC 4760).

pub mod codec;
pub mod rib;
pub mod session;
mod status;
pub mod update;

/// The port of BGP (RFC 4271 section 8.2.1).
pub const PORT: u16 = 179;
