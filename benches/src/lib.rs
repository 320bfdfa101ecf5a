//! What the benches share: one thing done by several libraries, each a closure over a key that was set up once, so that what is
//! timed is what a packet costs. Outputs are compared before a contender is handed out.

pub mod mac;
pub mod one_time;
pub mod quic;
pub mod segment;
