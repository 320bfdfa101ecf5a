//! What the fuzz targets share: slow readers that are written from the RFCs, two hosts with a shim each, two ends of a QUIC
//! connection, and the kernels on every path.

pub mod hosts;
pub mod kernels;
pub mod quic;
pub mod slow;
