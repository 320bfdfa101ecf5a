//! Runs a test as lesser processors would.

use std::sync::{Mutex, PoisonError};

use wireseal_kernels::cpu::{InstructionSet, switch};

/// One test at a time: the switch is for the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `test` with those of `paths` that this processor has, and no others.
pub fn only(paths: &[InstructionSet], test: impl FnOnce()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    switch::only(paths);
    test();
    switch::all();
}

/// Runs `test` with no path at all, and with each of `paths` that this processor has, those that build on it turned off.
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
