//! Wireseal on each path of this processor.

use wireseal_kernels::cpu::{InstructionSet, switch};

/// Calls `make` once for each name that `served_by` gives while the processor has one path and what that includes, with the name.
pub(crate) fn each<N: Copy + PartialEq, T>(
    served_by: impl Fn() -> N,
    mut make: impl FnMut(N) -> T,
) -> Vec<T> {
    let available: Vec<_> = InstructionSet::ALL.into_iter().filter(|path| path.is_available()).collect();
    let (mut names, mut all) = (Vec::new(), Vec::new());
    for path in available {
        switch::up_to(path);
        let name = served_by();
        if !names.contains(&name) {
            names.push(name);
            all.push(make(name));
        }
    }
    switch::all();
    all
}
