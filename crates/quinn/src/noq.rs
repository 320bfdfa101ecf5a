//! The traits of noq-proto.

use noq_proto::TransportErrorCode;
use noq_proto::coding::Encodable;
use noq_proto::crypto::HandshakeTokenKey;
use wireseal_quic::decode_varint;
use wireseal_quic::hazmat::PathId;

use crate::TokenKey;
use crate::session::Refused;
use crate::stack::implement_traits;

implement_traits!(
    noq_proto,
    path: (path: noq_proto::PathId) path_id(path),
    connection_id: noq_proto::ConnectionId,
    receiver: &Self,
    refused: |Refused { alert, error }| {
        let code = alert.map_or(TransportErrorCode::PROTOCOL_VIOLATION, TransportErrorCode::crypto);
        let mut refused = TransportError::new(code, error.to_string());
        refused.crypto = Some(std::sync::Arc::new(error));
        refused
    },
    invalid_parameters: TransportError::from,
);

/// noq keeps the number of a path to itself, but encodes it as a variable-length integer for its frames.
#[inline]
fn path_id(path: noq_proto::PathId) -> PathId {
    if path == noq_proto::PathId::ZERO {
        return PathId(0);
    }
    let mut octets = [0; 8];
    path.encode(&mut octets.as_mut_slice());
    let (number, _) = decode_varint(&octets).expect("eight octets hold the longest integer");
    PathId(u32::try_from(number).expect("path identifiers have 32 bits"))
}

impl HandshakeTokenKey for TokenKey {
    fn seal(&self, nonce: u128, token: &mut Vec<u8>) -> Result<(), CryptoError> {
        self.derive(&nonce.to_le_bytes()).seal(&[], token).ok_or(CryptoError)
    }

    fn open<'a>(&self, nonce: u128, token: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        self.derive(&nonce.to_le_bytes()).open(&[], token).map(|token| &*token).ok_or(CryptoError)
    }
}
