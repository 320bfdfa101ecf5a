//! Prints this processor's name and its paths, one on each line.

use std::env::consts::ARCH;
use std::hint::black_box;

use wireseal_kernels::cpu::InstructionSet;

fn main() {
    let order = match black_box(1_u16).to_ne_bytes() {
        [1, 0] => "little",
        _ => "big",
    };
    println!("{ARCH}, {} bits, {order}-endian", usize::BITS);
    for path in InstructionSet::ALL.into_iter().filter(|path| path.is_available()) {
        println!("{path}");
    }
}
