//! The traits of quinn-proto.

use std::sync::Arc;

use quinn_proto::TransportErrorCode;
use quinn_proto::crypto::{AeadKey, HandshakeTokenKey};
use wireseal_quic::hazmat::PathId;

use crate::TokenKey;
use crate::endpoint_keys::OneTokenKey;
use crate::session::Refused;
use crate::stack::implement_traits;

implement_traits!(
    quinn_proto,
    path: () PathId(0),
    connection_id: &quinn_proto::ConnectionId,
    receiver: Arc<Self>,
    refused: |Refused { alert, error }| TransportError {
        code: alert.map_or(TransportErrorCode::PROTOCOL_VIOLATION, TransportErrorCode::crypto),
        frame: None,
        reason: error.to_string(),
    },
    invalid_parameters: TransportError::from,
);

impl HandshakeTokenKey for TokenKey {
    fn aead_from_hkdf(&self, nonce: &[u8]) -> Box<dyn AeadKey> {
        Box::new(self.derive(nonce))
    }
}

impl AeadKey for OneTokenKey {
    fn seal(&self, token: &mut Vec<u8>, additional: &[u8]) -> Result<(), CryptoError> {
        self.seal(additional, token).ok_or(CryptoError)
    }

    fn open<'a>(&self, token: &'a mut [u8], additional: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        self.open(additional, token).ok_or(CryptoError)
    }
}
