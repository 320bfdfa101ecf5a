//! A TLS session by rustls with Wireseal's packet keys: the code that quinn's and noq's sessions share.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::quic::{ClientConnection, Connection, KeyChange, ServerConnection, Version as TlsVersion};
use rustls::{CipherSuite, ClientConfig, Error, KeyLog, ServerConfig, Side};
use wireseal_quic::hazmat;
use wireseal_quic::{AeadAlgorithm, ConnectionId, Keys, PacketType, TrafficSecret, Version};
use zeroize::Zeroizing;

use crate::keys::{DirectionKeys, LevelKeys, PacketKey};

/// The result of the handshake: downcast `handshake_data()` of a connection to this type.
///
/// If the downcast succeeds, Wireseal protects the connection: quinn's and noq's own sessions return another type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeData {
    /// The application protocol (ALPN), if one was negotiated.
    pub protocol: Option<Vec<u8>>,
    /// At a server: the server name that the client requested.
    pub server_name: Option<String>,
    /// The cipher suite, whose AEAD protects the packets.
    pub cipher_suite: Option<CipherSuite>,
    sealed_by: &'static str,
}

impl HandshakeData {
    /// The implementation that seals the packets: the instructions that Wireseal's own routines use, such as "VAES-512", or the library
    /// used in their place.
    #[must_use]
    pub const fn sealed_by(&self) -> &'static str {
        self.sealed_by
    }
}

/// A TLS session, as a stack drives it.
pub(crate) struct Session {
    version: Version,
    tls: Connection,
    secrets: Arc<Secrets>,
    /// Whether the stack has been told that [`HandshakeData`] is available.
    is_announced: bool,
    next: Option<NextPhase>,
}

/// The secrets of the next phase.
struct NextPhase {
    local: TrafficSecret,
    remote: TrafficSecret,
    /// The header key for packets that this end sends, the same in all phases (RFC 9001 §6.1).
    mask: Arc<hazmat::HeaderKey>,
}

/// Why a session ends: the peer's handshake messages were refused.
pub(crate) struct Refused {
    /// The TLS alert, if the error has one.
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

    /// The AEAD of the suite, once the suite is chosen.
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
        // Always taken, so that it is wiped: rustls derives it at a server even if it rejects early data.
        let secret = self.secrets.take(Secret::Early, self.algorithm()?)?;
        // `None` if rustls has no keys for 0-RTT either.
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

    /// Reads handshake messages. `true` once, when [`handshake_data`](Self::handshake_data) becomes available.
    pub(crate) fn read(&mut self, messages: &[u8]) -> Result<bool, Refused> {
        if let Err(error) = self.tls.read_hs(messages) {
            return Err(Refused { alert: self.tls.alert().map(u8::from), error });
        }
        // A server knows from the name or the protocol that the ClientHello was read; a ClientHello may have neither.
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

    /// Writes handshake messages, and returns the keys of the next level once they are needed.
    pub(crate) fn write(&mut self, messages: &mut Vec<u8>) -> Option<LevelKeys> {
        const LOGGED: &str = "rustls logs the secrets of a level before it hands out the keys";
        // rustls' own keys are dropped: a packet key of rustls cannot mask headers.
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

    /// The packet keys of the next phase: for sending, then for receiving.
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

/// The instruction set or the library that computes this AEAD.
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
    let destination = ConnectionId::new(original_destination).expect("connection IDs have at most 20 octets");
    wireseal_quic::retry_integrity_tag(version, &destination, packet)
}

/// Maps a version number to the version whose keys and labels it uses. Drafts 30 to 32 use those of draft 29, and drafts 33 and 34 those of
/// version 1 (draft-ietf-quic-tls-32 §5.2, draft-ietf-quic-tls-34 §5.2).
pub(crate) const fn version(number: u32) -> Option<Version> {
    match number {
        1 | 0xff00_0021..=0xff00_0022 => Some(Version::V1),
        0xff00_001d..=0xff00_0020 => Some(Version::Draft29),
        _ => None,
    }
}

/// In TLS, drafts differ by the number of the transport parameters extension.
const fn tls_version(version: Version) -> TlsVersion {
    match version {
        Version::Draft29 => TlsVersion::V1Draft,
        _ => TlsVersion::V1,
    }
}

/// A secret from which packet keys are derived.
#[derive(Clone, Copy, Debug)]
enum Secret {
    /// For 0-RTT packets, which only clients send.
    Early,
    /// For the Handshake packets that one side sends.
    Handshake(Side),
    /// For the first 1-RTT packets that one side sends.
    Traffic(Side),
}

impl Secret {
    const COUNT: usize = 5;

    /// Its index in [`Secrets`].
    const fn index(self) -> usize {
        match self {
            Self::Early => 0,
            Self::Handshake(Side::Client) => 1,
            Self::Handshake(Side::Server) => 2,
            Self::Traffic(Side::Client) => 3,
            Self::Traffic(Side::Server) => 4,
        }
    }

    /// The secret with this label in a key log.
    fn from_label(label: &str) -> Option<Self> {
        Some(match label {
            "CLIENT_EARLY_TRAFFIC_SECRET" => Self::Early,
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Self::Handshake(Side::Client),
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => Self::Handshake(Side::Server),
            "CLIENT_TRAFFIC_SECRET_0" => Self::Traffic(Side::Client),
            "SERVER_TRAFFIC_SECRET_0" => Self::Traffic(Side::Server),
            _ => return None,
        })
    }
}

/// The key log of one session: keeps the secrets for packet keys until they are taken, and passes everything on to the configured key log.
struct Secrets {
    kept: Mutex<[Option<Zeroizing<Vec<u8>>>; Secret::COUNT]>,
    configured: Arc<dyn KeyLog>,
}

impl Secrets {
    fn before(configured: Arc<dyn KeyLog>) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), configured })
    }

    /// Takes a secret, for a suite with this AEAD. `None` if rustls has not derived it, or if it was taken before.
    fn take(&self, secret: Secret, algorithm: AeadAlgorithm) -> Option<TrafficSecret> {
        let octets = self.kept()[secret.index()].take()?;
        TrafficSecret::new(algorithm, &octets).ok()
    }

    fn kept(&self) -> MutexGuard<'_, [Option<Zeroizing<Vec<u8>>>; Secret::COUNT]> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyLog for Secrets {
    fn log(&self, label: &str, client_random: &[u8], octets: &[u8]) {
        if let Some(secret) = Secret::from_label(label) {
            self.kept()[secret.index()] = Some(Zeroizing::new(octets.to_vec()));
        }
        if self.configured.will_log(label) {
            self.configured.log(label, client_random, octets);
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}
