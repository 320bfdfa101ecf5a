//! Operations by several libraries, each a closure over a prepared key, so that only the cost of a packet is timed. Outputs are
//! compared before a contender is returned.

mod af_alg;
pub(crate) mod engines;
pub(crate) mod mac;
pub(crate) mod one_time;
pub(crate) mod quic;
pub(crate) mod segment;
