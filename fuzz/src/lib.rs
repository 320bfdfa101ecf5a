//! What the fuzz targets share: slow readers that are written from the RFCs, two hosts with a shim each, and two ends of a
//! QUIC connection.

pub mod hosts;
pub mod quic;
pub mod slow;
