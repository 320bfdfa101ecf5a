//! The versions of quinn's and noq's default lists: 1, and drafts 29 to 34.

use rustls::quic::Version as TlsVersion;
use wireseal_quic::Version;

/// The version whose keys and labels one with this number has. Drafts 30 to 32 have those of draft 29, and the last two those of version 1
/// (draft-ietf-quic-tls-32 §5.2, draft-ietf-quic-tls-34 §5.2).
pub(crate) const fn version(number: u32) -> Option<Version> {
    match number {
        1 | 0xff00_0021..=0xff00_0022 => Some(Version::V1),
        0xff00_001d..=0xff00_0020 => Some(Version::Draft29),
        _ => None,
    }
}

/// What TLS does otherwise in drafts is the number of the extension with transport parameters.
pub(crate) const fn tls_version(version: Version) -> TlsVersion {
    match version {
        Version::Draft29 => TlsVersion::V1Draft,
        _ => TlsVersion::V1,
    }
}
