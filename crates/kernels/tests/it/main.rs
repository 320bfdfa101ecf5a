//! Every routine on every path: compared with its model, other libraries and published vectors, and at the edge of memory.
//!
//! A test binary of its own, since the switch that turns paths off affects the whole process: tests that create keys run one at a time,
//! through [`only`] and [`each_alone`].

mod aeads;
mod chacha20;
mod cmac;
mod gcm;
mod guarded;
mod hmac;
mod macs;
mod poly1305;

use std::sync::{Mutex, PoisonError};

use wireseal_kernels::cpu::{InstructionSet, switch};

/// Defines a test of each named check of a module for a type.
macro_rules! tests_of {
    ($module:ident, $type:ty: $($check:ident)*) => {
        $(#[test]
        fn $check() {
            crate::$module::$check::<$type>();
        })*
    };
}

pub(crate) use tests_of;

/// Octets without a pattern that could hide a mistake, the same in each run.
fn octets(length: usize, seed: u64) -> Vec<u8> {
    let mut octets = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut octets);
    octets
}

/// Runs one test at a time, because the switch affects the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `test` with those of `paths` that this processor has, and no others.
pub fn only(paths: &[InstructionSet], test: impl FnOnce()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    switch::only(paths);
    test();
    switch::all();
}

/// Runs `test` with no path at all, and with each of `paths` that this processor has, with those that build on it turned off.
pub fn each_alone(paths: &[InstructionSet], test: impl Fn(Option<InstructionSet>)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    switch::all();
    let available = paths.iter().copied().filter(|path| path.is_available());
    for path in available.map(Some).chain([None]) {
        path.map_or_else(|| switch::only(&[]), switch::up_to);
        println!("with {}", path.map_or("no path", InstructionSet::name));
        test(path);
        switch::all();
    }
}
