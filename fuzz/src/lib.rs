//! What the fuzz targets share: slow readers that are written from the RFCs, two hosts with a shim each, two ends of a QUIC
//! connection, the kernels on every path, what keys are held to in every format, what captures
//! are held to, and what their verification is held to.

pub mod capture;
pub mod hosts;
pub mod kernels;
pub mod keys;
pub mod quic;
pub mod slow;
pub mod verify;
