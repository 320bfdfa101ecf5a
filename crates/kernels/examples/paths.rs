//! Prints the paths that this processor has, one a line.

use wireseal_kernels::cpu::Path;

fn main() {
    for path in Path::ALL.into_iter().filter(|path| path.is_available()) {
        println!("{path}");
    }
}
