//! The header in `include` is the one that cbindgen makes of the crate.

use std::fs;
use std::path::Path;

/// `WIRESEAL_WRITE_HEADER=1 cargo test -p wireseal-c --test header` writes it anew.
#[test]
fn the_header_is_made_of_this_source() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut made = Vec::new();
    cbindgen::generate(crate_folder).expect("cbindgen reads the crate").write(&mut made);
    let made = String::from_utf8(made).expect("comments are UTF-8");
    let path = crate_folder.join("include/wireseal.h");
    if std::env::var_os("WIRESEAL_WRITE_HEADER").is_some() {
        fs::write(&path, &made).expect("the header can be written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let differ = there.lines().zip(made.lines()).position(|(there, made)| there != made);
    assert!(
        there == made,
        "include/wireseal.h is not of this source, from line {differ:?} (counted from 0) on"
    );
}
