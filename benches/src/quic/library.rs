//! A library's packet protection, and the packets and secrets used for all libraries.

use wireseal_quic::AeadAlgorithm;

pub(super) const CONNECTION_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
/// The first octet of a short header: the fixed bit, and a packet number of four octets.
pub(super) const FIRST: u8 = 0x43;
/// Where the packet number starts.
pub(super) const NUMBER: usize = 9;
/// Where the payload starts.
pub(super) const PAYLOAD: usize = 13;

/// A library with the keys of one direction.
pub(super) struct Library {
    pub(super) name: &'static str,
    /// Seals a packet in place, whether new or sealed before, with the next number.
    pub(super) seal: Seal,
    /// Opens a packet in place; `false` if it is not authentic.
    pub(super) open: Open,
    /// Computes a mask for each sample. In the first octet, only the bits count that a short header masks.
    pub(super) masks: Option<Masks>,
    /// Derives AEAD key, IV and header protection key from a traffic secret, and drops them.
    pub(super) keys: Option<Box<dyn FnMut()>>,
}

pub(super) type Seal = Box<dyn FnMut(&mut [u8])>;
pub(super) type Open = Box<dyn FnMut(&mut [u8]) -> bool>;
pub(super) type Masks = Box<dyn FnMut(&[[u8; 16]], &mut [[u8; 5]])>;

/// An AEAD of a library, with a key.
pub(crate) struct Aead {
    pub(crate) name: &'static str,
    /// Seals all but the last 16 octets in place with this nonce and associated data, and writes the tag there.
    pub(crate) seal: SealMessage,
    /// Opens in place; `false` if it is not authentic.
    pub(crate) open: OpenMessage,
}

pub(crate) type SealMessage = Box<dyn FnMut([u8; 12], &[u8], &mut [u8])>;
pub(crate) type OpenMessage = Box<dyn FnMut([u8; 12], &[u8], &mut [u8]) -> bool>;

/// A traffic secret: the client's, or the server's.
pub(super) fn secret(algorithm: AeadAlgorithm, is_client: bool) -> Vec<u8> {
    (0..algorithm.secret_length()).map(|i| i as u8 ^ u8::from(is_client)).collect()
}
