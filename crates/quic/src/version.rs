//! The versions of QUIC, and how their packet protection differs.

use core::fmt;

/// A version of QUIC. Any crate of your program may turn on the feature for another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Version {
    /// Version 1, 0x00000001 (RFC 9000, RFC 9001).
    V1,
    /// Version 2, 0x6b3343cf (RFC 9369).
    V2,
    /// Version draft-29, 0xff00001d (draft-ietf-quic-tls-29).
    #[cfg(feature = "draft-29")]
    Draft29,
}

/// The labels that keys are derived with (RFC 9001 §5.1 and §6.1, RFC 9369 §3.3.2), without "tls13 ".
pub(crate) struct Labels {
    pub(crate) key: &'static [u8],
    pub(crate) iv: &'static [u8],
    pub(crate) header_protection: &'static [u8],
    pub(crate) key_update: &'static [u8],
}

/// The AES-128-GCM key and nonce of the Retry integrity tag. Both are public.
pub(crate) struct RetryKey {
    pub(crate) key: [u8; 16],
    pub(crate) nonce: [u8; 12],
}

impl Version {
    /// Every version that this build supports. Any crate of a program may turn on the feature `draft-29`, as `wireseal-quinn` does.
    pub const ALL: &[Self] = &[
        Self::V1,
        Self::V2,
        #[cfg(feature = "draft-29")]
        Self::Draft29,
    ];

    /// The version field of a long header (RFC 9000 §17.2).
    #[must_use]
    pub const fn to_wire(self) -> u32 {
        match self {
            Self::V1 => 0x0000_0001,
            Self::V2 => 0x6b33_43cf,
            #[cfg(feature = "draft-29")]
            Self::Draft29 => 0xff00_001d,
        }
    }

    /// The salt of the Initial secrets (RFC 9001 §5.2, RFC 9369 §3.3.1).
    pub(crate) const fn initial_salt(self) -> [u8; 20] {
        match self {
            Self::V1 => octets(0x38762cf7_f55934b3_4d179ae6_a4c80cad, 0xccbb7f0a),
            Self::V2 => octets(0x0dede3de_f700a6db_819381be_6e269dcb, 0xf9bd2ed9),
            #[cfg(feature = "draft-29")]
            Self::Draft29 => octets(0xafbfec28_9993d24c_9e9786f1_9c6111e0, 0x4390a899),
        }
    }

    /// RFC 9001 §5.8, RFC 9369 §3.3.3.
    pub(crate) const fn retry_key(self) -> RetryKey {
        match self {
            Self::V1 => RetryKey {
                key: 0xbe0c690b_9f66575a_1d766b54_e368c84e_u128.to_be_bytes(),
                nonce: octets(0x461599d3_5d632bf2_239825bb_00000000, 0),
            },
            Self::V2 => RetryKey {
                key: 0x8fb4b01b_56ac48e2_60fbcbce_ad7ccc92_u128.to_be_bytes(),
                nonce: octets(0xd86969bc_2d7c6d99_90efb04a_00000000, 0),
            },
            #[cfg(feature = "draft-29")]
            Self::Draft29 => RetryKey {
                key: 0xccce187e_d09a09d0_5728155a_6cb96be1_u128.to_be_bytes(),
                nonce: octets(0xe54930f9_7f2136f0_530a8c1c_00000000, 0),
            },
        }
    }

    pub(crate) const fn labels(self) -> Labels {
        match self {
            Self::V2 => Labels {
                key: b"quicv2 key",
                iv: b"quicv2 iv",
                header_protection: b"quicv2 hp",
                key_update: b"quicv2 ku",
            },
            #[cfg(feature = "draft-29")]
            Self::Draft29 => Self::V1.labels(),
            Self::V1 => Labels {
                key: b"quic key",
                iv: b"quic iv",
                header_protection: b"quic hp",
                key_update: b"quic ku",
            },
        }
    }
}

/// The first `N` octets of a 160-bit number, given as its upper 128 bits and its lower 32.
const fn octets<const N: usize>(upper: u128, lower: u32) -> [u8; N] {
    let (upper, lower) = (upper.to_be_bytes(), lower.to_be_bytes());
    let mut octets = [0; N];
    let mut i = 0;
    while i < N {
        octets[i] = if i < 16 { upper[i] } else { lower[i - 16] };
        i += 1;
    }
    octets
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V1 => "QUIC version 1",
            Self::V2 => "QUIC version 2",
            #[cfg(feature = "draft-29")]
            Self::Draft29 => "QUIC draft-29",
        })
    }
}
