//! Asks for the C library, whose `memcpy` and start code the program needs and which rustc leaves out without std.

fn main() {
    println!("cargo:rustc-link-arg=-lc");
    println!("cargo:rerun-if-changed=build.rs");
}
