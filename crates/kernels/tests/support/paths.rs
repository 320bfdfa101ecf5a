//! Runs a test as lesser processors would.
//!
//! Taken into a test by `#[path = "support/paths.rs"] mod paths;`.

use std::sync::{Mutex, PoisonError};

use wireseal_kernels::cpu::{Path, switch};

/// One at a time: the switch is the whole process's.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `test` with no path at all, and with each of `paths` that this processor has, without those that are more than it.
pub fn each_alone(paths: &[Path], test: impl Fn(Option<Path>)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    switch::all();
    let available = paths.iter().copied().filter(|path| path.is_available());
    for path in available.map(Some).chain([None]) {
        path.map_or_else(|| switch::only(&[]), switch::up_to);
        println!("with {}", path.map_or("no path", Path::name));
        test(path);
        switch::all();
    }
}
