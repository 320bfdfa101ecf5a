//! The traits of quinn-proto and noq-proto. They are the same except for the macro's arguments: whether packet keys get a path, and how
//! connection IDs are passed.

macro_rules! implement_traits {
    (
        $proto:ident,
        path: ($($path:ident: $path_type:ty)?) $path_id:expr,
        connection_id: $id:ty,
        receiver: $receiver:ty,
        refused: $refused:expr,
        invalid_parameters: $invalid_parameters:expr $(,)?
    ) => {
        use std::any::Any;

        use bytes::BytesMut;
        use rustls::pki_types::ServerName;
        use $proto::crypto::{
            ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, HmacKey, KeyPair, Keys, PacketKey,
            ServerConfig, Session, UnsupportedVersion,
        };
        use $proto::transport_parameters::TransportParameters;
        use $proto::{ConnectError, Side, TransportError};

        use crate::keys::{self, DirectionKeys, LevelKeys, SAMPLE_LENGTH};
        use crate::session::{self, is_valid_retry, retry_tag, version};
        use crate::{QuicClientConfig, QuicServerConfig, ResetKey};

        impl From<LevelKeys> for Keys {
            fn from(LevelKeys { local, remote }: LevelKeys) -> Self {
                Self {
                    header: KeyPair { local: Box::new(local.header), remote: Box::new(remote.header) },
                    packet: KeyPair { local: Box::new(local.packet), remote: Box::new(remote.packet) },
                }
            }
        }

        impl PacketKey for keys::PacketKey {
            #[inline]
            fn encrypt(&self, $($path: $path_type,)? number: u64, packet: &mut [u8], header_length: usize) {
                self.seal($path_id, number, packet, header_length);
            }

            #[inline]
            fn decrypt(
                &self,
                $($path: $path_type,)?
                number: u64,
                header: &[u8],
                payload: &mut BytesMut,
            ) -> Result<(), CryptoError> {
                if self.open($path_id, number, header, payload) { Ok(()) } else { Err(CryptoError) }
            }

            fn tag_len(&self) -> usize {
                wireseal_quic::AeadAlgorithm::TAG_LENGTH
            }

            fn confidentiality_limit(&self) -> u64 {
                self.algorithm().confidentiality_limit().unwrap_or(u64::MAX)
            }

            fn integrity_limit(&self) -> u64 {
                self.algorithm().integrity_limit()
            }
        }

        impl HeaderKey for keys::HeaderKey {
            #[inline]
            fn decrypt(&self, number_offset: usize, packet: &mut [u8]) {
                self.unmask(number_offset, packet);
            }

            #[inline]
            fn encrypt(&self, number_offset: usize, packet: &mut [u8]) {
                self.mask(number_offset, packet);
            }

            fn sample_size(&self) -> usize {
                SAMPLE_LENGTH
            }
        }

        impl Session for session::Session {
            fn initial_keys(&self, destination: $id, side: Side) -> Keys {
                LevelKeys::initial(self.version(), &destination, side.is_client()).into()
            }

            fn handshake_data(&self) -> Option<Box<dyn Any>> {
                Some(Box::new(self.handshake_data()?))
            }

            fn peer_identity(&self) -> Option<Box<dyn Any>> {
                Some(Box::new(self.peer_certificates()?))
            }

            fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
                let DirectionKeys { packet, header } = self.early_keys()?;
                Some((Box::new(header), Box::new(packet)))
            }

            fn early_data_accepted(&self) -> Option<bool> {
                self.is_early_data_accepted()
            }

            fn is_handshaking(&self) -> bool {
                self.is_handshaking()
            }

            fn read_handshake(&mut self, messages: &[u8]) -> Result<bool, TransportError> {
                self.read(messages).map_err($refused)
            }

            fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
                let side = match self.side() {
                    rustls::Side::Client => Side::Client,
                    rustls::Side::Server => Side::Server,
                };
                let Some(mut octets) = self.transport_parameters() else { return Ok(None) };
                TransportParameters::read(side, &mut octets).map(Some).map_err($invalid_parameters)
            }

            fn write_handshake(&mut self, messages: &mut Vec<u8>) -> Option<Keys> {
                Some(self.write(messages)?.into())
            }

            fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
                let [local, remote] = self.next_keys()?;
                Some(KeyPair { local: Box::new(local), remote: Box::new(remote) })
            }

            fn is_valid_retry(&self, original_destination: $id, header: &[u8], payload: &[u8]) -> bool {
                is_valid_retry(self.version(), &original_destination, header, payload)
            }

            fn export_keying_material(
                &self,
                output: &mut [u8],
                label: &[u8],
                context: &[u8],
            ) -> Result<(), ExportKeyingMaterialError> {
                self.export_keying_material(output, label, context).map_err(|_| ExportKeyingMaterialError)
            }
        }

        impl ClientConfig for QuicClientConfig {
            fn start_session(
                self: $receiver,
                number: u32,
                server_name: &str,
                parameters: &TransportParameters,
            ) -> Result<Box<dyn Session>, ConnectError> {
                let version = version(number).ok_or(ConnectError::UnsupportedVersion)?;
                let name = ServerName::try_from(server_name.to_owned())
                    .map_err(|_| ConnectError::InvalidServerName(server_name.into()))?;
                let session = session::Session::client(version, &self.0, name, octets(parameters));
                Ok(Box::new(session.expect(TRIED)))
            }
        }

        impl ServerConfig for QuicServerConfig {
            fn initial_keys(&self, number: u32, destination: $id) -> Result<Keys, UnsupportedVersion> {
                let version = version(number).ok_or(UnsupportedVersion)?;
                Ok(LevelKeys::initial(version, &destination, false).into())
            }

            fn retry_tag(&self, number: u32, original_destination: $id, packet: &[u8]) -> [u8; 16] {
                retry_tag(version(number).expect(HAS_KEYS), &original_destination, packet)
            }

            fn start_session(self: $receiver, number: u32, parameters: &TransportParameters) -> Box<dyn Session> {
                let version = version(number).expect(HAS_KEYS);
                Box::new(session::Session::server(version, &self.0, octets(parameters)).expect(TRIED))
            }
        }

        /// The stacks drop an Initial packet of a version without keys.
        const HAS_KEYS: &str = "there were keys for the first packet of this version";

        /// The traits have no error for missing randomness; quinn's and noq's own sessions panic, too.
        const TRIED: &str = "a session was started with this configuration when it was made, and there is randomness";

        fn octets(parameters: &TransportParameters) -> Vec<u8> {
            let mut octets = Vec::new();
            parameters.write(&mut octets);
            octets
        }

        impl HmacKey for ResetKey {
            fn sign(&self, data: &[u8], signature: &mut [u8]) {
                self.sign(data, signature);
            }

            fn signature_len(&self) -> usize {
                Self::SIGNATURE_LENGTH
            }

            fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
                if self.is_valid(data, signature) { Ok(()) } else { Err(CryptoError) }
            }
        }
    };
}

#[cfg(feature = "quinn")]
mod quinn {
    use std::sync::Arc;

    use quinn_proto::TransportErrorCode;
    use quinn_proto::crypto::{AeadKey, HandshakeTokenKey};
    use wireseal_quic::hazmat::PathId;

    use crate::TokenKey;
    use crate::keys::OneTokenKey;
    use crate::session::Refused;

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
}

#[cfg(feature = "noq")]
mod noq {
    use noq_proto::TransportErrorCode;
    use noq_proto::coding::Encodable;
    use noq_proto::crypto::HandshakeTokenKey;
    use wireseal_quic::decode_varint;
    use wireseal_quic::hazmat::PathId;

    use crate::TokenKey;
    use crate::session::Refused;

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

    /// noq's path has no accessor for its number, but encodes it as a variable-length integer.
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
}
