//! Captured connections from the point of view of both ends: the receiver opens every packet, and the sender seals its
//! payload again, to the same octets.

use std::net::SocketAddr;
use std::time::Duration;

use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, ConnectionId, HeaderError, InitialKeys, Keys, Now,
    OneRtt, Opened, Outgoing, PacketNumberCounter, PacketType, Protected, ReceiveSpace, Retry, RetryError,
    Sealer, Version,
};

use super::handshake::{CryptoStream, largest_acknowledged};
use super::recording::{Datagram, KeyLogFile, Level, datagrams};
use crate::support::{NUMBER_LENGTHS, Side};

/// What a capture held.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) packets: Vec<Seen>,
    /// Retry packets, which are genuine.
    pub(crate) retries: usize,
    /// Datagrams with octets behind their last packet, all of them zero in these captures.
    pub(crate) padded: usize,
    /// Packets whose sender had cleared the fixed bit.
    pub(crate) greased: usize,
    /// How many key updates the last connection saw, at both ends.
    pub(crate) updates: [u64; 2],
}

/// A packet that was opened, and sealed again.
pub(crate) struct Seen {
    /// Which connection of the capture it belongs to, from 0.
    pub(crate) connection: usize,
    pub(crate) sender: Side,
    pub(crate) packet_type: PacketType,
    pub(crate) number: u64,
    pub(crate) version: Version,
    pub(crate) algorithm: Option<AeadAlgorithm>,
}

/// Replays a capture that starts with the first packet of a client.
///
/// Datagrams are captured when they are sent. The client's are taken to arrive `latency` later, those of the server at once:
/// what a server sends before it has read of a key update is under its old keys.
pub(crate) fn replay(backend: Backend, capture: &[u8], log: &KeyLogFile, latency: Duration) -> Contents {
    let mut contents = Contents::default();
    let mut connections: Vec<Connection<'_>> = Vec::new();
    let mut datagrams = datagrams(capture);
    let server = datagrams[0].destination;
    for datagram in datagrams.iter_mut().filter(|datagram| datagram.destination == server) {
        datagram.time += latency;
    }
    datagrams.sort_by_key(|datagram| datagram.time);
    for datagram in datagrams {
        let (sender, client) = if datagram.destination == server {
            (Side::Client, datagram.source)
        } else {
            (Side::Server, datagram.destination)
        };
        let known = connections.iter().position(|connection| connection.client_address == client);
        let index = known.unwrap_or_else(|| {
            let resumed = connections.last().and_then(|last| last.secrets.algorithm);
            connections.push(Connection::new(backend, log, &datagram, resumed));
            connections.len() - 1
        });
        connections[index].read(index, sender, datagram, &mut contents);
    }
    if let Some(Connection { client, server, .. }) = connections.last() {
        contents.updates = [client, server].map(|end| end.one_rtt.as_ref().map_or(0, OneRtt::generation));
    }
    contents
}

/// All that the keys of a connection depend on.
struct Secrets<'a> {
    backend: Backend,
    log: &'a KeyLogFile,
    version: Version,
    /// The destination of the client's first packet, or the source of the server's Retry.
    initial_id: ConnectionId,
    client_random: Option<Vec<u8>>,
    /// Of the cipher suite; that of the session that is resumed until the server has chosen.
    algorithm: Option<AeadAlgorithm>,
}

impl Secrets<'_> {
    /// The keys by which `sender` protects its packets with a long header.
    fn keys(&self, packet_type: PacketType, sender: Side) -> Keys {
        let level = match packet_type {
            PacketType::Initial => {
                let keys = InitialKeys::with_backend(self.backend, self.version, &self.initial_id);
                return sender.of(keys.client, keys.server);
            }
            PacketType::ZeroRtt => Level::ZeroRtt,
            PacketType::Handshake => Level::Handshake,
            PacketType::OneRtt => panic!("1-RTT packets have a short header"),
        };
        let secret = self.log.secret(level, sender, self.client_random(), self.algorithm());
        Keys::with_backend(self.backend, self.version, packet_type, secret)
    }

    /// The end `local` of the connection once it has 1-RTT keys. When exactly the handshake was confirmed is not looked at.
    fn one_rtt(&self, local: Side, counter: PacketNumberCounter) -> OneRtt {
        let [local, remote] = [local, local.other()]
            .map(|side| self.log.secret(Level::OneRtt, side, self.client_random(), self.algorithm()));
        let mut end = OneRtt::with_backend(self.backend, self.version, local, remote, counter);
        end.confirm_handshake();
        end
    }

    fn algorithm(&self) -> AeadAlgorithm {
        self.algorithm.expect("a ServerHello, or a session that is resumed, before a packet that needs it")
    }

    fn client_random(&self) -> &[u8] {
        self.client_random.as_deref().expect("a ClientHello before a packet that needs it")
    }
}

/// One end of a connection.
#[derive(Default)]
struct End {
    /// How long the connection IDs are that it has chosen.
    connection_id_length: usize,
    /// What it has sent in Initial packets.
    crypto: CryptoStream,
    initial: Option<Sealer>,
    early: Option<Sealer>,
    handshake: Option<Sealer>,
    one_rtt: Option<OneRtt>,
    initial_space: ReceiveSpace,
    handshake_space: ReceiveSpace,
    application_space: ReceiveSpace,
    failures: AuthenticationFailures,
}

impl End {
    /// Its 1-RTT keys, whose packet numbers go on after those of 0-RTT.
    fn one_rtt(&mut self, secrets: &Secrets<'_>, side: Side) -> &mut OneRtt {
        self.one_rtt.get_or_insert_with(|| {
            let counter = self.early.take().map_or(PacketNumberCounter::new(), Sealer::into_counter);
            secrets.one_rtt(side, counter)
        })
    }

    /// Opens what the other end, `sender`, has sent.
    fn open<'a>(
        &mut self,
        secrets: &Secrets<'_>,
        sender: Side,
        packet: Protected<'a>,
        now: Now,
    ) -> Opened<'a> {
        let packet_type = packet.packet_type();
        if packet_type == PacketType::OneRtt {
            self.one_rtt(secrets, sender.other());
        }
        let Self { one_rtt, initial_space, handshake_space, application_space, failures, .. } = self;
        if let (PacketType::OneRtt, Some(keys)) = (packet_type, one_rtt) {
            let opened = keys.open(packet, now, application_space, failures).unwrap();
            if let Some(largest) = largest_acknowledged(opened.payload) {
                keys.acknowledged(largest, opened.generation, now).unwrap();
            }
            return opened;
        }
        let space = match packet_type {
            PacketType::Initial => initial_space,
            PacketType::Handshake => handshake_space,
            PacketType::ZeroRtt | PacketType::OneRtt => application_space,
        };
        secrets.keys(packet_type, sender).open(packet, space, failures).unwrap()
    }

    /// Seals what this end has sent: `opened` is how the other end got it.
    fn seal(&mut self, secrets: &Secrets<'_>, side: Side, opened: &Opened<'_>, now: Duration) -> Vec<u8> {
        let number_length = NUMBER_LENGTHS[usize::from(opened.header[0] & 0x03)];
        let number_offset = opened.header.len() - number_length.octets();
        let mut packet = [opened.header, &*opened.payload, &[0xa5; 16]].concat();
        // Sealing is to write the number, and the bits of the first octet that are protected.
        packet[number_offset..opened.header.len()].fill(0xa5);
        packet[0] |= if packet[0] & 0x80 == 0 { 0x1f } else { 0x0f };
        let outgoing = Outgoing { packet: &mut packet, number_offset, number_length };
        let keys = || secrets.keys(opened.packet_type, side);
        let sealer = match opened.packet_type {
            PacketType::Initial => &mut self.initial,
            PacketType::ZeroRtt => &mut self.early,
            PacketType::Handshake => &mut self.handshake,
            PacketType::OneRtt => {
                let one_rtt = self.one_rtt(secrets, side);
                if opened.key_phase != one_rtt.key_phase() {
                    one_rtt.initiate_update(now).unwrap();
                }
                one_rtt.skip_numbers(opened.number - one_rtt.next_number().unwrap());
                assert_eq!(one_rtt.seal(outgoing).unwrap(), opened.number);
                return packet;
            }
        };
        let sealer = sealer.get_or_insert_with(|| Sealer::new(keys(), PacketNumberCounter::new()));
        sealer.skip_numbers(opened.number - sealer.next_number().unwrap());
        assert_eq!(sealer.seal(outgoing).unwrap(), opened.number);
        packet
    }
}

struct Connection<'a> {
    client_address: SocketAddr,
    secrets: Secrets<'a>,
    client: End,
    server: End,
}

impl<'a> Connection<'a> {
    fn new(backend: Backend, log: &'a KeyLogFile, first: &Datagram, resumed: Option<AeadAlgorithm>) -> Self {
        let mut octets = first.octets.clone();
        let (packet, _) = Protected::split_first(&mut octets, 0).unwrap();
        let secrets = Secrets {
            backend,
            log,
            version: packet.version().unwrap(),
            initial_id: ConnectionId::new(packet.destination()).unwrap(),
            client_random: None,
            algorithm: resumed,
        };
        Self { client_address: first.source, secrets, client: End::default(), server: End::default() }
    }

    fn read(&mut self, index: usize, sender: Side, mut datagram: Datagram, contents: &mut Contents) {
        match Retry::open(self.secrets.version, &self.secrets.initial_id, &datagram.octets) {
            Ok(retry) => {
                self.retry(&retry);
                contents.retries += 1;
                return;
            }
            Err(error) => assert_eq!(error, RetryError::NotRetry),
        }
        let connection_id_length = sender.of(&self.server, &self.client).connection_id_length;
        for packet in Protected::split(&mut datagram.octets, connection_id_length) {
            if packet.as_ref().is_err_and(|error| *error == HeaderError::OtherDestination) {
                contents.padded += 1;
                break;
            }
            let packet = packet.unwrap();
            contents.greased += usize::from(packet.octets()[0] & 0x40 == 0);
            let (packet_type, number) = self.packet(sender, packet, datagram.time);
            contents.packets.push(Seen {
                connection: index,
                sender,
                packet_type,
                number,
                version: self.secrets.version,
                algorithm: self.secrets.algorithm,
            });
        }
    }

    /// The client's Initial keys change, and its packet numbers go on (RFC 9000 §17.2.5.3).
    fn retry(&mut self, retry: &Retry<'_>) {
        self.secrets.initial_id = retry.source;
        let counter = self.client.initial.take().unwrap().into_counter();
        let keys = self.secrets.keys(PacketType::Initial, Side::Client);
        self.client.initial = Some(Sealer::new(keys, counter));
    }

    fn packet(&mut self, side: Side, packet: Protected<'_>, time: Duration) -> (PacketType, u64) {
        let Self { secrets, client, server, .. } = self;
        let (sender, receiver) = match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        if let Some(version) = packet.version() {
            secrets.version = version;
            sender.connection_id_length = packet.source().len();
        }
        let protected = packet.octets().to_vec();
        // Shorter than any real one, because these stacks update sooner than RFC 9001 §6.5, would have them.
        let now = Now { time, probe_timeout: Duration::from_micros(1) };
        let opened = receiver.open(secrets, side, packet, now);
        assert_eq!(sender.seal(secrets, side, &opened, time), protected);
        if opened.packet_type == PacketType::Initial {
            sender.crypto.read_initial(opened.payload);
            match side {
                Side::Client => secrets.client_random = sender.crypto.client_random(),
                Side::Server => {
                    secrets.algorithm = sender.crypto.cipher_suite().or(secrets.algorithm);
                }
            }
        }
        (opened.packet_type, opened.number)
    }
}
