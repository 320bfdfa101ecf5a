//! Prints the paths that this processor has, one a line.

use wireseal_kernels::cpu::InstructionSet;

fn main() {
    for path in InstructionSet::ALL.into_iter().filter(|path| path.is_available()) {
        println!("{path}");
    }
}
