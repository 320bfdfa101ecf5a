//! One connection: which keys its packets take, as far as it has shown, and what became of them.

mod merged;
mod open;

use std::net::SocketAddr;

use wireseal_quic::{
    AeadAlgorithm, ConnectionId, HeaderError, InitialKeys, PacketType, Protected, Retry, RetryError,
    StatelessResetToken, Version,
};

use self::merged::Merged;
use super::end::{End, Opened};
use super::frames::{Frame, Frames};
use super::handshake::Hello;
use super::key_log::KeyLog;
use super::report::{ConnectionReport, DirectionReport, Kind, NotOpened, Path, Place, Reason, Side};
use super::transport_parameters::ServerParameters;

/// A connection that is still watched.
pub(super) struct Connection {
    pub(super) report: ConnectionReport,
    /// What the Initial keys come from: the client's first destination, after a Retry the server's choice before it.
    initial_ids: Vec<ConnectionId>,
    /// Those that were needed so far.
    initial_keys: Vec<(ConnectionId, InitialKeys)>,
    ends: [End; 2],
    waiting: Vec<Waiting>,
    waiting_octets: usize,
    /// Connection IDs that an end has given out since they were last taken.
    pub(super) new_ids: Vec<(ConnectionId, Side)>,
    /// Those that the server has called itself.
    server_ids: Vec<ConnectionId>,
    /// Those that packets were sent to.
    used_ids: [Vec<ConnectionId>; 2],
    merged: Merged,
}

/// A packet as it was found in a datagram.
#[derive(Clone, Copy)]
struct Found<'a> {
    place: Place,
    sender: Side,
    packet_type: PacketType,
    /// Of a long header.
    version: Option<Version>,
    destination: Option<ConnectionId>,
    /// The peer has given that out.
    is_id_known: bool,
    octets: &'a [u8],
}

/// A datagram as it was found to belong to the connection.
pub(super) struct Arrival {
    pub(super) place: Place,
    pub(super) sender: Side,
    /// Octets of the receiver's connection IDs, as a short header has them.
    pub(super) id_length: usize,
    /// The receiver has given the connection ID out, or uses none.
    pub(super) is_id_known: bool,
    pub(super) is_cut_off: bool,
}

/// A packet that came before the message of the handshake which says how it is to be opened.
struct Waiting {
    place: Place,
    sender: Side,
    packet_type: PacketType,
    version: Option<Version>,
    destination: Option<ConnectionId>,
    octets: Vec<u8>,
}

/// More than servers send before they know the client's address, with some 0-RTT packets beside it.
const MOST_OCTETS_WAITING: usize = 1 << 18;

/// Why a packet cannot be opened yet, or not at all.
enum Stop {
    Wait,
    Never(Reason),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Self::Never(reason)
    }
}

impl Connection {
    /// Begins with the client's first packet.
    pub(super) fn new(
        number: u64,
        place: Place,
        ends: [SocketAddr; 2],
        version: Version,
        destination: ConnectionId,
    ) -> Self {
        Self {
            report: ConnectionReport {
                number,
                paths: vec![Path { ends, first: place }],
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
            initial_ids: vec![destination],
            initial_keys: Vec::new(),
            ends: [End::new(), End::new()],
            waiting: Vec::new(),
            waiting_octets: 0,
            new_ids: vec![(destination, Side::Server)],
            server_ids: Vec::new(),
            used_ids: [Vec::new(), Vec::new()],
            merged: Merged::default(),
        }
    }

    /// Whether the server has refused the version that the connection began with, and the client may begin with this one.
    pub(super) fn is_refused(&self, version: Version) -> bool {
        self.report.version_negotiations != 0 && self.report.first_version != version && !self.is_answered()
    }

    /// Whether the server has named the connection ID that the client is to use.
    pub(super) fn is_answered(&self) -> bool {
        !self.server_ids.is_empty()
    }

    /// What was not opened at all, when nothing more comes.
    pub(super) fn finish(mut self) -> ConnectionReport {
        for Waiting { place, sender, packet_type, .. } in std::mem::take(&mut self.waiting) {
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

    pub(super) fn not_opened(&mut self, sender: Side, kind: Option<Kind>, reason: Reason, place: Place) {
        self.direction(sender).note_not_opened(kind, reason, place);
    }

    /// Takes the packets of a datagram apart and opens them. Returns whether one of them was opened, or is not for want of its
    /// key alone: that its sender has moved to another address can be believed then.
    pub(super) fn datagram(
        &mut self,
        log: &KeyLog,
        datagram: &mut [u8],
        arrival: &Arrival,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let Arrival { place, sender, id_length, is_id_known, is_cut_off } = *arrival;
        let mut is_ours = false;
        let mut first_destination = None;
        let mut rest = &mut *datagram;
        while !rest.is_empty() {
            // Behind the last packet, some stacks fill the datagram up.
            if first_destination.is_some() && rest.iter().all(|octet| *octet == 0) {
                break;
            }
            if first_destination.is_none()
                && !is_cut_off
                && let Some(is_authentic) = self.retry(place, sender, rest)
            {
                return is_authentic;
            }
            let (packet, behind) = match Protected::split_first(rest, id_length) {
                Ok(split) => split,
                Err(error) => {
                    let reason = match error {
                        HeaderError::Truncated { .. } | HeaderError::Retry if is_cut_off => Reason::CutOff,
                        _ => Reason::Malformed,
                    };
                    self.not_opened(sender, None, reason, place);
                    break;
                }
            };
            let destination = ConnectionId::new(packet.destination()).ok();
            if first_destination.is_some_and(|first| Some(first) != destination) {
                self.not_opened(sender, None, Reason::Malformed, place);
                break;
            }
            first_destination = first_destination.or(destination);
            let packet_type = packet.packet_type();
            // A short header has no length: it takes what is left.
            if is_cut_off && packet_type == PacketType::OneRtt {
                self.not_opened(sender, Some(Kind::OneRtt), Reason::CutOff, place);
                break;
            }
            let source = packet.version().and_then(|_| ConnectionId::new(packet.source()).ok());
            let found = Found {
                place,
                sender,
                packet_type,
                version: packet.version(),
                destination,
                is_id_known,
                octets: packet.octets(),
            };
            let is_opened = self.packet(log, &found, scratch);
            is_ours |= is_opened;
            if is_opened {
                self.note_ids(sender, destination, source);
            }
            rest = behind;
        }
        is_ours
    }

    /// The ids of an authentic header.
    fn note_ids(&mut self, sender: Side, destination: Option<ConnectionId>, source: Option<ConnectionId>) {
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

    /// Whether the datagram is an authentic Retry of this connection; `None` if it is no Retry.
    fn retry(&mut self, place: Place, sender: Side, datagram: &[u8]) -> Option<bool> {
        let opened = Retry::open(self.report.first_version, &self.report.original_destination, datagram);
        match opened {
            Ok(retry) => {
                self.direction(sender).opened[Kind::Retry as usize] += 1;
                if !self.initial_ids.contains(&retry.source) {
                    self.initial_ids.insert(0, retry.source);
                    self.new_ids.push((retry.source, Side::Server));
                }
                Some(true)
            }
            Err(RetryError::NotRetry | RetryError::Header(_)) => None,
            Err(_) => {
                self.not_opened(sender, Some(Kind::Retry), Reason::Forged, place);
                Some(false)
            }
        }
    }

    /// Opens a packet, or lets it wait, or says why not. Returns as [`datagram`](Self::datagram) does.
    fn packet(&mut self, log: &KeyLog, found: &Found<'_>, scratch: &mut Vec<u8>) -> bool {
        let known_before = self.known();
        match self.open(log, found, scratch) {
            Ok(()) => {
                if self.known() != known_before {
                    self.open_waiting(log, scratch);
                }
                true
            }
            Err(Stop::Wait) => {
                self.wait(found);
                true
            }
            Err(Stop::Never(reason)) => {
                let Found { place, sender, packet_type, is_id_known, octets, .. } = *found;
                let is_short = packet_type == PacketType::OneRtt;
                let tokens = &self.ends[sender as usize].reset_tokens;
                if is_short && tokens.iter().any(|token| token.matches(octets)) {
                    self.direction(sender).resets += 1;
                    return false;
                }
                let reason = match reason {
                    Reason::Forged | Reason::TooShort if is_short && !is_id_known => Reason::PossibleReset,
                    reason => reason,
                };
                self.not_opened(sender, Some(packet_type.into()), reason, place);
                reason == Reason::NoKey
            }
        }
    }

    /// Whether it is known what packets wait for: the client's random, and the suite.
    fn known(&self) -> (bool, bool) {
        (self.report.client_random.is_some(), self.report.suite.is_some())
    }

    fn wait(&mut self, found: &Found<'_>) {
        let Found { place, sender, packet_type, version, destination, octets, .. } = *found;
        if self.waiting_octets + octets.len() > MOST_OCTETS_WAITING {
            self.not_opened(sender, Some(packet_type.into()), Reason::HandshakeNotSeen, place);
            return;
        }
        self.waiting_octets += octets.len();
        let octets = octets.to_vec();
        self.waiting.push(Waiting { place, sender, packet_type, version, destination, octets });
    }

    /// Once more is known of the handshake.
    fn open_waiting(&mut self, log: &KeyLog, scratch: &mut Vec<u8>) {
        self.waiting_octets = 0;
        for waiting in std::mem::take(&mut self.waiting) {
            let Waiting { place, sender, packet_type, version, destination, octets } = &waiting;
            let found = Found {
                place: *place,
                sender: *sender,
                packet_type: *packet_type,
                version: *version,
                destination: *destination,
                is_id_known: true,
                octets,
            };
            match self.open(log, &found, scratch) {
                Ok(()) => {}
                Err(Stop::Wait) => self.wait(&found),
                Err(Stop::Never(reason)) => {
                    self.not_opened(*sender, Some((*packet_type).into()), reason, *place);
                }
            }
        }
    }

    fn open(&mut self, log: &KeyLog, found: &Found<'_>, scratch: &mut Vec<u8>) -> Result<(), Stop> {
        match self.open_one(log, found, scratch) {
            Err(Stop::Never(Reason::Forged)) if found.packet_type == PacketType::OneRtt => {
                self.open_merged(log, found, scratch)
            }
            result => result,
        }
    }

    fn open_one(&mut self, log: &KeyLog, found: &Found<'_>, scratch: &mut Vec<u8>) -> Result<(), Stop> {
        let Found { place, sender, packet_type, octets, .. } = *found;
        let Opened { number, generation, payload } = match packet_type {
            PacketType::Initial => self.open_initial(found, scratch),
            PacketType::ZeroRtt => self.open_early(log, found, scratch),
            PacketType::Handshake => self.open_handshake(log, found, scratch),
            PacketType::OneRtt => self.open_one_rtt(log, found, scratch),
        }?;
        let direction = self.direction(sender);
        direction.opened[Kind::from(packet_type) as usize] += 1;
        direction.greased += u64::from(octets[0] & FIXED_BIT == 0);
        if packet_type == PacketType::OneRtt {
            direction.note_phase(generation, number, place);
        }
        for frame in Frames::new(&scratch[payload]) {
            self.frame(sender, packet_type, frame);
        }
        Ok(())
    }

    fn frame(&mut self, sender: Side, packet_type: PacketType, frame: Frame<'_>) {
        match (frame, packet_type) {
            (Frame::Crypto { offset, data }, PacketType::Initial) => self.hello(sender, offset, data),
            (Frame::Crypto { offset, data }, PacketType::Handshake) if sender == Side::Server => {
                self.server_parameters(offset, data);
            }
            (Frame::Ack { largest }, PacketType::OneRtt) => {
                if let Some(keys) = &mut self.ends[sender.other() as usize].one_rtt_keys {
                    keys.note_sent(largest);
                }
            }
            // Anybody can make an Initial packet, and no Handshake packet may have one.
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

    fn hello(&mut self, sender: Side, offset: u64, data: &[u8]) {
        let [crypto, _] = &mut self.ends[sender as usize].crypto;
        let Some(stream) = crypto else { return };
        if !stream.insert(offset, data) {
            return;
        }
        match (stream.hello(), sender) {
            (Some(Hello::Client(random)), Side::Client) => self.report.client_random = Some(random),
            (Some(Hello::Server(suite)), Side::Server) => {
                self.report.suite = AeadAlgorithm::from_tls_cipher_suite(suite);
            }
            (None, _) => return,
            // Nothing more can come of a stream that does not begin as it should.
            (Some(_), _) => {}
        }
        *crypto = None;
    }

    fn server_parameters(&mut self, offset: u64, data: &[u8]) {
        let [_, crypto] = &mut self.ends[Side::Server as usize].crypto;
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

const FIXED_BIT: u8 = 0x40;

/// Connection IDs of a direction that are counted.
const MOST_IDS: usize = 1 << 10;
/// More than an end lets its peer hold (active_connection_id_limit).
const MOST_TOKENS: usize = 64;
