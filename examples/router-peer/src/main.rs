//! router-peer.
fn main() {}
