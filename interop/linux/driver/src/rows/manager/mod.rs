//! What the crate for Linux does on top of the kernel's calls: key managers, errors, many keys, VRFs.

pub mod accepting;
pub mod calls;
mod managed;
pub mod rolling;
pub mod vrf;
