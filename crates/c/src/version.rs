//! Which version of the library this is, and what it was built with.

use core::ffi::{CStr, c_char};

/// The version of this header: WIRESEAL_VERSION_MAJOR.WIRESEAL_VERSION_MINOR.WIRESEAL_VERSION_PATCH. wireseal_version() returns that of the
/// library that the program runs with.
pub const WIRESEAL_VERSION_MAJOR: u32 = 0;
/// The second number. Until 1.0, every change that breaks programs raises it.
pub const WIRESEAL_VERSION_MINOR: u32 = 1;
/// The third number.
pub const WIRESEAL_VERSION_PATCH: u32 = 0;

/// In wireseal_features(): the library has the functions for keys on Linux sockets, key chains and the key manager.
pub const WIRESEAL_FEATURE_LINUX: u32 = 1;
/// In wireseal_features(): the library has the functions for QUIC and AEADs.
pub const WIRESEAL_FEATURE_QUIC: u32 = 2;
/// In wireseal_features(): the library was built for an operating system, so a fault in it is a status, not a trap.
pub const WIRESEAL_FEATURE_STD: u32 = 4;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zeros"),
};

/// Returns the library's version, such as "0.1.0". The text stays valid as long as the program runs.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns what the library was built with: the sum of constants WIRESEAL_FEATURE_... . If an algorithm was left out, making a key for it
/// returns WIRESEAL_STATUS_NOT_BUILT_IN.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_features() -> u32 {
    let features = [
        (cfg!(feature = "linux"), WIRESEAL_FEATURE_LINUX),
        (cfg!(feature = "quic"), WIRESEAL_FEATURE_QUIC),
        (cfg!(feature = "std"), WIRESEAL_FEATURE_STD),
    ];
    features.iter().filter(|(is_on, _)| *is_on).map(|(_, bit)| bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_the_packages_version() {
        let constants = [WIRESEAL_VERSION_MAJOR, WIRESEAL_VERSION_MINOR, WIRESEAL_VERSION_PATCH];
        let version = VERSION.to_str().expect("a version is ASCII");
        assert!(version.split('.').map(str::parse).eq(constants.map(Ok)), "{version}");
    }
}
