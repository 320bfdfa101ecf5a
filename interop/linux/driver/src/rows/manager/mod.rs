//! What the crate for Linux does on top of the kernel's calls: key managers, errors, many keys, VRFs.

pub mod accepting;
pub mod calls;
pub mod expiry;
mod managed;
pub mod peers;
pub mod rolling;
pub mod secrets;
pub mod vrf;
