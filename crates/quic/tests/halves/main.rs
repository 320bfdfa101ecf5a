//! The tests of whole connections once more, where every connection is two halves and packets are opened on a thread of their own.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod apart;
mod at_once;
mod split;

#[path = "../it/appendix_a.rs"]
mod appendix_a;
#[path = "../it/arrivals/mod.rs"]
mod arrivals;
#[path = "../it/captures/mod.rs"]
mod captures;
#[path = "../it/errors.rs"]
mod errors;
#[path = "../it/header.rs"]
mod header;
#[path = "../it/key_phase_forged.rs"]
mod key_phase_forged;
#[path = "../it/key_update.rs"]
mod key_update;
#[path = "../it/keys.rs"]
mod keys;
#[path = "../it/limits.rs"]
mod limits;
#[path = "../it/moved.rs"]
mod moved;
#[path = "../it/no_panic.rs"]
mod no_panic;
#[path = "../it/open.rs"]
mod open;
#[path = "../it/packet_number.rs"]
mod packet_number;
#[path = "../it/pair/mod.rs"]
mod pair;
#[path = "../it/seal.rs"]
mod seal;
#[path = "../it/secrets.rs"]
mod secrets;
#[path = "../it/support/mod.rs"]
mod support;

use split::OneRtt;

fn connection(whole: wireseal_quic::OneRtt) -> OneRtt {
    OneRtt::from(whole)
}
