//! What must not get through: SYNs of any key but the listener's, and on an established session forged and replayed segments and
//! ICMP errors.

pub mod attacks;
pub mod checksum;
pub mod icmp;
pub mod md5;
pub mod syn;
