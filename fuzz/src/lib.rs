//! Shared by the fuzz targets: slow readers written from the RFCs, two hosts with a shim each, two ends of a QUIC connection, the kernels
//! on every path, slow readers of netlink, and the checks on keys, captures and verification.

#[cfg(feature = "program")]
pub mod cli;
pub mod hosts;
pub mod kernels;
pub mod keys;
pub mod netlink;
pub mod quic;
pub mod slow;
