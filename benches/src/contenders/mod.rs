//! Operations by several libraries, each a closure over a prepared key, so that only the cost of a packet is timed. Outputs are
//! compared before a contender is returned.

mod af_alg;
pub(crate) mod engines;
pub(crate) mod mac;
pub(crate) mod one_time;
pub(crate) mod quic;
pub(crate) mod segment;

/// The first octets of a tag or MAC, by which outputs are compared.
fn start(mac: &[u8]) -> [u8; 12] {
    *mac.first_chunk().expect("12 octets at least")
}
