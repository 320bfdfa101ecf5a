//! The server's transport parameters, as far as they name connection IDs and stateless reset tokens (RFC 9000 §18.2).

use wireseal_quic::{ConnectionId, decode_varint};

/// What an EncryptedExtensions message names.
#[derive(Default)]
pub(super) struct ServerParameters {
    /// The token of the handshake's connection ID.
    pub(super) reset_token: Option<[u8; 16]>,
    /// The connection ID for the server's preferred address, with its token.
    pub(super) preferred: Option<(ConnectionId, [u8; 16])>,
}

/// RFC 8446 §4.
const ENCRYPTED_EXTENSIONS: u8 = 8;
/// RFC 9001 §8.2.
const QUIC_TRANSPORT_PARAMETERS: u16 = 57;
const STATELESS_RESET_TOKEN: u64 = 0x02;
const PREFERRED_ADDRESS: u64 = 0x0d;
/// An IPv4 and an IPv6 address, each with a port.
const ADDRESSES_LENGTH: usize = 4 + 2 + 16 + 2;

impl ServerParameters {
    /// Reads the first message of the server's Handshake packets; `None` until it is complete.
    pub(super) fn read(handshake: &[u8]) -> Option<Self> {
        let (&[kind, high, middle, low], rest) = handshake.split_first_chunk()?;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        let message = rest.get(..length)?;
        let parameters = if kind == ENCRYPTED_EXTENSIONS { extension(message) } else { None };
        let mut read = Self::default();
        let mut rest = parameters.unwrap_or_default();
        while let Some((id, value, behind)) = parameter(rest) {
            match id {
                STATELESS_RESET_TOKEN => read.reset_token = value.try_into().ok(),
                PREFERRED_ADDRESS => read.preferred = preferred(value),
                _ => {}
            }
            rest = behind;
        }
        Some(read)
    }
}

/// The extension with the transport parameters.
fn extension(message: &[u8]) -> Option<&[u8]> {
    let mut rest = message.get(2..)?;
    loop {
        let (&[a, b, c, d], behind) = rest.split_first_chunk()?;
        let (data, behind) = behind.split_at_checked(u16::from_be_bytes([c, d]).into())?;
        if u16::from_be_bytes([a, b]) == QUIC_TRANSPORT_PARAMETERS {
            return Some(data);
        }
        rest = behind;
    }
}

/// Id and value of the first parameter, and the rest.
fn parameter(parameters: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (id, octets) = decode_varint(parameters)?;
    let rest = &parameters[octets..];
    let (length, octets) = decode_varint(rest)?;
    let (value, behind) = rest[octets..].split_at_checked(usize::try_from(length).ok()?)?;
    Some((id, value, behind))
}

fn preferred(value: &[u8]) -> Option<(ConnectionId, [u8; 16])> {
    let (length, rest) = value.get(ADDRESSES_LENGTH..)?.split_first()?;
    let (id, token) = rest.split_at_checked((*length).into())?;
    Some((ConnectionId::new(id).ok()?, token.try_into().ok()?))
}
