//! What the fuzz targets share: slow readers that are written from the RFCs, and two hosts with a shim each.

pub mod hosts;
pub mod slow;
