//! A TLS session by rustls, with packet keys of Wireseal: what quinn's and noq's sessions have in common.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::quic::{ClientConnection, Connection, KeyChange, ServerConnection};
use rustls::{ClientConfig, Error, ServerConfig, Side};
use wireseal_quic::hazmat;
use wireseal_quic::{AeadAlgorithm, Keys, PacketType, TrafficSecret, Version};

use crate::handshake_data::HandshakeData;
use crate::keys::{DirectionKeys, LevelKeys, PacketKey};
use crate::secrets::{Secret, Secrets};
use crate::versions::tls_version;

/// See the module.
pub(crate) struct Session {
    version: Version,
    tls: Connection,
    secrets: Arc<Secrets>,
    /// Whether the stack was told that [`HandshakeData`] is there.
    is_announced: bool,
    next: Option<NextPhase>,
}

/// What the keys of the next phase come from.
struct NextPhase {
    local: TrafficSecret,
    remote: TrafficSecret,
    /// The header key of what this end sends stays the same in all phases (RFC 9001 §6.1).
    mask: Arc<hazmat::HeaderKey>,
}

/// Why a session ends: the peer's handshake messages were refused.
pub(crate) struct Refused {
    /// The TLS alert, if there is one for it.
    pub(crate) alert: Option<u8>,
    pub(crate) error: Error,
}

impl Session {
    pub(crate) fn client(
        version: Version,
        config: &ClientConfig,
        server_name: ServerName<'static>,
        parameters: Vec<u8>,
    ) -> Result<Self, Error> {
        let mut config = config.clone();
        let secrets = Secrets::before(config.key_log);
        config.key_log = secrets.clone();
        let tls = ClientConnection::new(Arc::new(config), tls_version(version), server_name, parameters)?;
        Ok(Self::new(version, tls.into(), secrets))
    }

    pub(crate) fn server(
        version: Version,
        config: &ServerConfig,
        parameters: Vec<u8>,
    ) -> Result<Self, Error> {
        let mut config = config.clone();
        let secrets = Secrets::before(config.key_log);
        config.key_log = secrets.clone();
        let tls = ServerConnection::new(Arc::new(config), tls_version(version), parameters)?;
        Ok(Self::new(version, tls.into(), secrets))
    }

    const fn new(version: Version, tls: Connection, secrets: Arc<Secrets>) -> Self {
        Self { version, tls, secrets, is_announced: false, next: None }
    }

    pub(crate) const fn version(&self) -> Version {
        self.version
    }

    pub(crate) const fn side(&self) -> Side {
        match self.tls {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        }
    }

    /// The AEAD of the suite, once that is chosen.
    fn algorithm(&self) -> Option<AeadAlgorithm> {
        AeadAlgorithm::from_tls_cipher_suite(self.tls.negotiated_cipher_suite()?.suite().into())
    }

    pub(crate) fn handshake_data(&self) -> Option<HandshakeData> {
        let server_name = match &self.tls {
            Connection::Client(_) => None,
            Connection::Server(server) => server.server_name().map(str::to_owned),
        };
        self.is_announced.then(|| HandshakeData {
            protocol: self.tls.alpn_protocol().map(<[u8]>::to_vec),
            server_name,
            cipher_suite: self.tls.negotiated_cipher_suite().map(|suite| suite.suite()),
            sealed_by: self.algorithm().map_or("", served_by),
        })
    }

    pub(crate) fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        let certificates = self.tls.peer_certificates()?;
        Some(certificates.iter().map(|certificate| certificate.clone().into_owned()).collect())
    }

    /// The keys of 0-RTT packets: a client's to send, a server's to receive.
    pub(crate) fn early_keys(&self) -> Option<DirectionKeys> {
        // Taken in any case, so that it is wiped: a server's rustls derives it even if it rejects early data.
        let secret = self.secrets.take(Secret::Early, self.algorithm()?)?;
        // Whether there are keys, rustls says by making its own.
        self.tls.zero_rtt_keys()?;
        let keys = Keys::new(self.version, PacketType::ZeroRtt, secret);
        Some(match self.side() {
            Side::Client => DirectionKeys::local(keys),
            Side::Server => DirectionKeys::remote(keys),
        })
    }

    pub(crate) fn is_early_data_accepted(&self) -> Option<bool> {
        match &self.tls {
            Connection::Client(client) => Some(client.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Reads handshake messages. `true` once, when [`handshake_data`](Self::handshake_data) is there.
    pub(crate) fn read(&mut self, messages: &[u8]) -> Result<bool, Refused> {
        if let Err(error) = self.tls.read_hs(messages) {
            return Err(Refused { alert: self.tls.alert().map(u8::from), error });
        }
        // A server has read the ClientHello when it knows the name or the protocol; neither has to be in it.
        let has_server_name = match &self.tls {
            Connection::Client(_) => false,
            Connection::Server(server) => server.server_name().is_some(),
        };
        let is_there = self.tls.alpn_protocol().is_some() || has_server_name || !self.is_handshaking();
        let is_new = is_there && !self.is_announced;
        self.is_announced |= is_there;
        Ok(is_new)
    }

    pub(crate) fn transport_parameters(&self) -> Option<&[u8]> {
        self.tls.quic_transport_parameters()
    }

    /// Writes handshake messages, and returns the keys of the next level when it is time for them.
    pub(crate) fn write(&mut self, messages: &mut Vec<u8>) -> Option<LevelKeys> {
        const LOGGED: &str = "rustls logs the secrets of a level before it hands out the keys";
        // rustls' own keys, which cannot be brought together with their header keys, are dropped.
        let (packet_type, secret): (_, fn(Side) -> Secret) = match self.tls.write_hs(messages)? {
            KeyChange::Handshake { .. } => (PacketType::Handshake, Secret::Handshake),
            KeyChange::OneRtt { .. } => (PacketType::OneRtt, Secret::Traffic),
        };
        let algorithm = self.algorithm().expect("QUIC has an AEAD for every suite of TLS 1.3");
        let (local, remote) = match self.side() {
            Side::Client => (Side::Client, Side::Server),
            Side::Server => (Side::Server, Side::Client),
        };
        let [local, remote] =
            [local, remote].map(|side| self.secrets.take(secret(side), algorithm).expect(LOGGED));
        let next = (packet_type == PacketType::OneRtt)
            .then(|| [&local, &remote].map(|secret| secret.peek_next(self.version)));
        let [local, remote] = [local, remote].map(|secret| Keys::new(self.version, packet_type, secret));
        let keys = LevelKeys::new(local, remote);
        if let Some([local, remote]) = next {
            self.next = Some(NextPhase { local, remote, mask: keys.local.mask() });
        }
        Some(keys)
    }

    /// The packet keys of the next phase: for what this end sends, and for what it receives.
    pub(crate) fn next_keys(&mut self) -> Option<[PacketKey; 2]> {
        let NextPhase { local, remote, mask } = self.next.as_mut()?;
        let [local, remote] = [local, remote].map(|secret| {
            let following = secret.peek_next(self.version);
            let secret = std::mem::replace(secret, following);
            Keys::new(self.version, PacketType::OneRtt, secret).into_parts().0
        });
        Some([PacketKey::new(local, Some(Arc::clone(mask))), PacketKey::new(remote, None)])
    }

    pub(crate) fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), Error> {
        self.tls.export_keying_material(output, label, Some(context)).map(|_| ())
    }
}

/// What serves keys for this AEAD.
fn served_by(algorithm: AeadAlgorithm) -> &'static str {
    let key = [0; 32];
    let key = hazmat::PacketKey::new(algorithm, &key[..algorithm.key_length()], &[0; 12]);
    key.map_or("", |key| key.served_by())
}

/// Whether the tag at the end of `payload` is that of the Retry packet that starts with `header` (RFC 9001 §5.8).
pub(crate) fn is_valid_retry(
    version: Version,
    original_destination: &[u8],
    header: &[u8],
    payload: &[u8],
) -> bool {
    let Some((rest, tag)) = payload.split_last_chunk() else { return false };
    let packet = [header, rest].concat();
    // Neither tag nor key is secret.
    retry_tag(version, original_destination, &packet) == *tag
}

/// The integrity tag of a Retry packet (RFC 9001 §5.8). The stacks' connection IDs have at most 20 octets.
pub(crate) fn retry_tag(version: Version, original_destination: &[u8], packet: &[u8]) -> [u8; 16] {
    let destination = wireseal_quic::ConnectionId::new(original_destination)
        .expect("connection IDs have at most 20 octets");
    wireseal_quic::retry_integrity_tag(version, &destination, packet)
}
