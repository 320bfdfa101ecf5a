//! What one connection has shown of itself.

use std::net::SocketAddr;

use wireseal_quic::{AeadAlgorithm, ConnectionId, InitialKeys, PacketType, StatelessResetToken, Version};

use super::found::FoundPacket;
use crate::capture::Place;
use crate::quic::end::End;
use crate::quic::frames::Frame;
use crate::quic::handshake::{ClientHello, CryptoStream, Hello};
use crate::quic::key_log::{ClientRandom, KeyLogFile};
use crate::quic::report::{
    AddressPair, ConnectionReport, DirectionReport, NotOpened, PacketKind, Reason, Side,
};
use crate::quic::transport_parameters::ServerParameters;

/// How many connection IDs of a direction are counted.
const MOST_IDS: usize = 1 << 10;
/// More stateless reset tokens than an end lets its peer hold (active_connection_id_limit).
const MOST_TOKENS: usize = 64;

/// A connection that is still followed.
pub(in crate::quic) struct QuicConnection {
    pub(in crate::quic) report: ConnectionReport,
    /// What Initial keys are derived from: the client's first destination, after a Retry preceded by the server's choice. Each with
    /// the ClientHello under these keys.
    pub(super) initial_ids: Vec<(ConnectionId, ClientHello)>,
    /// The Initial keys that were needed so far.
    pub(super) initial_keys: Vec<(ConnectionId, InitialKeys)>,
    pub(super) ends: [End; 2],
    /// The CRYPTO streams of the server's Initial and Handshake packets, each until its first message is known.
    server_crypto: [Option<CryptoStream>; 2],
    /// Packets that came before the handshake message that says how to open them.
    pub(super) waiting: Vec<FoundPacket<Vec<u8>>>,
    pub(super) waiting_octets: usize,
    /// Connection IDs that an end has given out since they were last taken.
    pub(in crate::quic) new_ids: Vec<(ConnectionId, Side)>,
    /// The IDs that the server has named itself by.
    pub(super) server_ids: Vec<ConnectionId>,
    /// The IDs that packets were sent to.
    used_ids: [Vec<ConnectionId>; 2],
    /// The length of the first of several packets that were last found in one datagram.
    pub(super) merged_length: Option<usize>,
    pub(super) failed_merged_searches: usize,
}

impl QuicConnection {
    /// A connection that begins with this packet of the client.
    pub(in crate::quic) fn new(
        number: u64,
        place: Place,
        ends: [SocketAddr; 2],
        version: Version,
        destination: ConnectionId,
    ) -> Self {
        Self {
            report: ConnectionReport {
                number,
                paths: vec![AddressPair { ends, first: place }],
                first: place,
                last: place,
                original_destination: destination,
                first_version: version,
                version,
                suite: None,
                early_suite: None,
                client_random: None,
                version_negotiations: 0,
                is_closed: false,
                directions: [DirectionReport::default(), DirectionReport::default()],
            },
            initial_ids: vec![(destination, ClientHello::default())],
            initial_keys: Vec::new(),
            ends: [End::new(), End::new()],
            server_crypto: [Some(CryptoStream::default()), Some(CryptoStream::default())],
            waiting: Vec::new(),
            waiting_octets: 0,
            new_ids: vec![(destination, Side::Server)],
            server_ids: Vec::new(),
            used_ids: [Vec::new(), Vec::new()],
            merged_length: None,
            failed_merged_searches: 0,
        }
    }

    /// Whether the server has refused the version that the connection began with, so that the client may begin with this one.
    pub(in crate::quic) fn is_refused(&self, version: Version) -> bool {
        self.report.version_negotiations != 0 && self.report.first_version != version && !self.is_answered()
    }

    /// Whether the server has named the connection ID that the client is to use.
    pub(in crate::quic) fn is_answered(&self) -> bool {
        !self.server_ids.is_empty()
    }

    /// The report when nothing more comes.
    pub(in crate::quic) fn finish(mut self) -> ConnectionReport {
        for FoundPacket { place, sender, packet_type, .. } in std::mem::take(&mut self.waiting) {
            self.not_opened(sender, Some(packet_type.into()), Reason::HandshakeNotSeen, place);
        }
        if self.report.directions.iter().all(|direction| direction.opened_packets() == 0) {
            for direction in &mut self.report.directions {
                for not_opened in std::mem::take(&mut direction.not_opened) {
                    let reason = match not_opened.reason {
                        Reason::Forged => Reason::StartNotSeen,
                        reason => reason,
                    };
                    direction.not_opened.push(NotOpened { reason, ..not_opened });
                }
            }
        }
        self.report
    }

    pub(super) fn direction(&mut self, sender: Side) -> &mut DirectionReport {
        &mut self.report.directions[sender as usize]
    }

    pub(super) fn not_opened(
        &mut self,
        sender: Side,
        kind: Option<PacketKind>,
        reason: Reason,
        place: Place,
    ) {
        self.direction(sender).note_not_opened(kind, reason, place);
    }

    /// Notes the connection IDs of an authentic header.
    pub(super) fn note_ids(
        &mut self,
        sender: Side,
        destination: Option<ConnectionId>,
        source: Option<ConnectionId>,
    ) {
        if let Some(id) = source {
            self.new_ids.push((id, sender));
            let has_room = self.server_ids.len() < MOST_IDS;
            if sender == Side::Server && has_room && !self.server_ids.contains(&id) {
                self.server_ids.push(id);
            }
        }
        let used = &mut self.used_ids[sender as usize];
        let has_room = used.len() < MOST_IDS;
        if let Some(id) = destination.filter(|id| has_room && !id.is_empty() && !used.contains(id)) {
            used.push(id);
            self.direction(sender).connection_ids += 1;
            self.new_ids.push((id, sender.other()));
        }
    }

    /// Takes in a frame other than those of [`client_hello`](Self::client_hello).
    pub(super) fn frame(&mut self, sender: Side, packet_type: PacketType, frame: Frame<'_>) {
        match (frame, packet_type) {
            (Frame::Crypto { offset, data }, PacketType::Initial) if sender == Side::Server => {
                self.server_hello(offset, data);
            }
            (Frame::Crypto { offset, data }, PacketType::Handshake) if sender == Side::Server => {
                self.server_parameters(offset, data);
            }
            (Frame::Ack { largest }, PacketType::OneRtt) => {
                if let Some(keys) = &mut self.ends[sender.other() as usize].one_rtt_keys {
                    keys.note_sent(largest);
                }
            }
            // Anybody can make an Initial packet, and Handshake packets may not have this frame.
            (Frame::NewConnectionId { id, reset_token }, PacketType::ZeroRtt | PacketType::OneRtt) => {
                self.new_ids.push((id, sender));
                self.note_reset_token(sender, reset_token);
            }
            (Frame::Close, _) => self.report.is_closed = true,
            (Frame::Crypto { .. } | Frame::Ack { .. } | Frame::NewConnectionId { .. }, _) => {}
        }
    }

    fn note_reset_token(&mut self, sender: Side, token: [u8; 16]) {
        let tokens = &mut self.ends[sender as usize].reset_tokens;
        let token = StatelessResetToken::new(token);
        if !tokens.contains(&token) {
            if tokens.len() == MOST_TOKENS {
                tokens.remove(0);
            }
            tokens.push(token);
        }
    }

    /// Takes in a CRYPTO frame of the client under the Initial keys of this connection ID.
    pub(super) fn client_hello(
        &mut self,
        log: &KeyLogFile,
        initial_id: ConnectionId,
        offset: u64,
        data: &[u8],
    ) {
        let mut hellos = self.initial_ids.iter_mut().filter(|(id, _)| *id == initial_id);
        let Some(random) = hellos.find_map(|(_, hello)| hello.insert(offset, data)) else { return };
        let known = &mut self.report.client_random;
        if log.has(&random) || !known.is_some_and(|known| log.has(&known)) {
            *known = Some(random);
        }
    }

    fn server_hello(&mut self, offset: u64, data: &[u8]) {
        let [crypto, _] = &mut self.server_crypto;
        let Some(stream) = crypto else { return };
        if !stream.insert(offset, data) {
            return;
        }
        match stream.hello() {
            Some(Hello::Server(suite)) => self.report.suite = AeadAlgorithm::from_tls_cipher_suite(suite),
            None => return,
            // A stream that does not begin as it should is of no use.
            Some(Hello::Client(_)) => {}
        }
        *crypto = None;
    }

    /// The randoms of the client's complete ClientHellos, the latest first.
    pub(super) fn client_randoms(&self) -> impl Iterator<Item = ClientRandom> {
        self.initial_ids.iter().filter_map(|(_, hello)| hello.random())
    }

    fn server_parameters(&mut self, offset: u64, data: &[u8]) {
        let [_, crypto] = &mut self.server_crypto;
        let Some(stream) = crypto else { return };
        if !stream.insert(offset, data) {
            return;
        }
        let Some(parameters) = ServerParameters::read(&stream.start()) else { return };
        *crypto = None;
        let (id, preferred_token) = parameters.preferred.unzip();
        self.new_ids.extend(id.map(|id| (id, Side::Server)));
        for token in [parameters.reset_token, preferred_token].into_iter().flatten() {
            self.note_reset_token(Side::Server, token);
        }
    }
}
