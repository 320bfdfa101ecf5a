//! Which version of the library this is, and what it was built with.

use core::ffi::{CStr, c_char};

/// The version that this header is of: WIRESEAL_VERSION_MAJOR.WIRESEAL_VERSION_MINOR.WIRESEAL_VERSION_PATCH. wireseal_version() tells that of
/// the library which the program runs with.
pub const WIRESEAL_VERSION_MAJOR: u32 = 0;
/// The second number; until 1.0 it is another for every change that breaks programs.
pub const WIRESEAL_VERSION_MINOR: u32 = 1;
/// The third number.
pub const WIRESEAL_VERSION_PATCH: u32 = 0;

/// In wireseal_features(): keys on Linux's sockets, key chains from files, and the key manager.
pub const WIRESEAL_FEATURE_LINUX: u32 = 1;
/// In wireseal_features(): QUIC and AEADs.
pub const WIRESEAL_FEATURE_QUIC: u32 = 2;
/// In wireseal_features(): an operating system, so that a fault in the library is a status and does not trap.
pub const WIRESEAL_FEATURE_STD: u32 = 4;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zeros"),
};

/// The library's version, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_version() -> *const c_char {
    VERSION.as_ptr()
}

/// What the library was built with: the sum of the constants WIRESEAL_FEATURE_... . A key says whether its algorithm was left out
/// (WIRESEAL_STATUS_NOT_BUILT_IN).
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
