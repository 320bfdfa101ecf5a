//! What the linker has to be told, because rustc leaves out the C library without std: on a computer the program needs its start code and
//! `memcpy`. WebAssembly has neither; whoever loads the module calls `main`.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        println!("cargo:rustc-link-arg=--export=main");
    } else {
        println!("cargo:rustc-link-arg=-lc");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
