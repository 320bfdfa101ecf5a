//! QUIC packet protection by several libraries with the same keys.
//!
//! Every packet has a short header: first octet, a connection ID of eight octets, a packet number of four. Each contender counts
//! the numbers and writes and masks the header, so all make the same packets, octet for octet.

#[cfg(feature = "peers")]
mod boringssl;
mod compare;
mod contender;
mod direct;
mod packet;
mod ring;
mod rust_crypto;
mod rustls_keys;
mod wireseal;

pub(crate) use compare::{initial_contenders, mask_contenders, packet_contenders};
pub(crate) use contender::{MaskContender, PacketContender};
pub(crate) use packet::{PAYLOADS, packet};
