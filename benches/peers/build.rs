//! Compiles the C files and links nettle; OpenSSL is loaded at run time.

const FILES: [&str; 2] = ["src/nettle.c", "src/openssl.c"];

fn main() {
    for file in FILES {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-changed=src/peers.h");
    cc::Build::new()
        .files(FILES)
        .std("c11")
        .flag("-D_GNU_SOURCE")
        .warnings_into_errors(true)
        .compile("wireseal_bench_peers");
    println!("cargo::rustc-link-lib=nettle");
    println!("cargo::rustc-link-lib=dl");
}
