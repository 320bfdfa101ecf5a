//! Real connections of other stacks, replayed at both ends: the receiver opens every packet, and the sender seals its payload again and
//! must get the same octets.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcap::PcapReader;
use wireseal_quic::AeadAlgorithm::{self, Aes128Ccm, Aes128Gcm, Aes256Gcm, ChaCha20Poly1305};
use wireseal_quic::{
    AuthenticationFailures, Backend, ConnectionId, HeaderError, InitialKeys, Keys, Now, OneRtt, OneRttSealer,
    Opened, Outgoing, PacketNumberCounter, PacketType, Protected, ReceiveSpace, Retry, Sealer, TrafficSecret,
    Version, decode_varint,
};

use crate::support::{NUMBER_LENGTHS, Side, for_each_backend, hex};

struct Capture {
    name: &'static str,
    algorithm: AeadAlgorithm,
    /// The one-way delay of the client's datagrams in microseconds. It matters where a key update crosses packets from the server.
    latency: u64,
}

const fn capture(name: &'static str, algorithm: AeadAlgorithm, latency: u64) -> Capture {
    Capture { name, algorithm, latency }
}

const AIOQUIC_AES_128_GCM: Capture = capture("quic-aioquic-v1-aes128-ku", Aes128Gcm, 0);
const AIOQUIC_V2_AES_256_GCM: Capture = capture("quic-aioquic-v2-aes256-ku", Aes256Gcm, 0);
const NGTCP2_CHACHA20_POLY1305: Capture = capture("quic-ngtcp2-v1-chacha-ku", ChaCha20Poly1305, 0);
const NGTCP2_AES_128_CCM: Capture = capture("quic-ngtcp2-v1-ccm-ku", Aes128Ccm, 500);
const NGTCP2_RETRY_0RTT: Capture = capture("quic-ngtcp2-retry-0rtt", Aes128Gcm, 0);

impl Capture {
    fn replay(&self, backend: Backend) -> Contents {
        let path = |extension: &str| format!("tests/data/captures/{}.{extension}", self.name);
        let (packets, keys) = (fs::read(path("pcap")).unwrap(), fs::read_to_string(path("keys")).unwrap());
        replay(backend, self.algorithm, &packets, &key_log(&keys), Duration::from_micros(self.latency))
    }
}

#[test]
fn q_26_every_packet_of_other_stacks_opens_and_is_sealed_to_the_same_octets() {
    for (capture, version, packets, updates) in [
        (AIOQUIC_AES_128_GCM, Version::V1, 53, 3),
        (AIOQUIC_V2_AES_256_GCM, Version::V2, 44, 2),
        (NGTCP2_CHACHA20_POLY1305, Version::V1, 76, 1),
        (NGTCP2_AES_128_CCM, Version::V1, 131, 1),
        (NGTCP2_RETRY_0RTT, Version::V1, 138, 0),
    ] {
        for_each_backend(|backend| {
            let contents = capture.replay(backend);
            assert_eq!((contents.packets.len(), contents.updates), (packets, [updates; 2]));
            let mut one_rtt = contents.packets.iter().filter(|seen| seen.packet_type == PacketType::OneRtt);
            assert!(one_rtt.all(|seen| seen.version == version));
        });
    }
}

/// The packet numbers that a client sent, in order.
fn client_numbers(packets: &[Seen], connection: usize, packet_type: PacketType) -> Vec<u64> {
    let of_client =
        packets.iter().filter(|seen| seen.connection == connection && seen.sender == Side::Client);
    of_client.filter(|seen| seen.packet_type == packet_type).map(|seen| seen.number).collect()
}

#[test]
fn q_08_packet_numbers_go_on_after_a_retry_and_after_0_rtt() {
    for_each_backend(|backend| {
        let Contents { packets, retries, .. } = NGTCP2_RETRY_0RTT.replay(backend);
        assert_eq!(retries, 2);
        for (connection, first) in [(0, 598_868_931), (1, 1_084_515_298)] {
            let initial = client_numbers(&packets, connection, PacketType::Initial);
            assert_eq!(initial, [first, first + 1, first + 2]);
        }
        let early = client_numbers(&packets, 1, PacketType::ZeroRtt);
        let late = client_numbers(&packets, 1, PacketType::OneRtt);
        assert_eq!(early.last().map(|last| last + 1), late.first().copied());
    });
}

#[test]
fn octets_of_zero_behind_the_last_packet_are_no_packet() {
    for_each_backend(|backend| {
        for (capture, padded) in [(&AIOQUIC_AES_128_GCM, 2), (&AIOQUIC_V2_AES_256_GCM, 2)] {
            assert_eq!(capture.replay(backend).padded, padded);
        }
    });
}

#[test]
fn packets_with_a_cleared_fixed_bit_open() {
    for_each_backend(|backend| {
        let greased = [&NGTCP2_CHACHA20_POLY1305, &NGTCP2_AES_128_CCM, &NGTCP2_RETRY_0RTT]
            .map(|capture| capture.replay(backend).greased);
        assert_eq!(greased, [57, 110, 56]);
    });
}

struct Datagram {
    time: Duration,
    source: SocketAddr,
    destination: SocketAddr,
    octets: Vec<u8>,
}

/// The datagrams of a capture, which contains nothing else.
fn datagrams(capture: &[u8]) -> Vec<Datagram> {
    let mut reader = PcapReader::new(capture).unwrap();
    let mut datagrams = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let frame = frame.unwrap();
        let sliced = SlicedPacket::from_ethernet(&frame.data).unwrap();
        let (source, destination) = match sliced.net {
            Some(NetSlice::Ipv4(ip)) => {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            }
            Some(NetSlice::Ipv6(ip)) => {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            }
            _ => panic!("a frame without IP"),
        };
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("a packet without UDP") };
        datagrams.push(Datagram {
            time: frame.timestamp,
            source: SocketAddr::new(source, udp.source_port()),
            destination: SocketAddr::new(destination, udp.destination_port()),
            octets: udp.payload().to_vec(),
        });
    }
    datagrams
}

/// The secrets of one connection, by label.
type Secrets = BTreeMap<String, Vec<u8>>;

/// The connections of a file in SSLKEYLOGFILE format (RFC 9850), in order: each has a client random of its own.
fn key_log(text: &str) -> Vec<Secrets> {
    let mut connections: Vec<(&str, Secrets)> = Vec::new();
    for line in text.lines() {
        let [label, random, secret]: [&str; 3] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        if connections.last().is_none_or(|(last, _)| *last != random) {
            connections.push((random, Secrets::new()));
        }
        let (_, secrets) = connections.last_mut().unwrap();
        secrets.insert(label.to_owned(), hex(secret));
    }
    connections.into_iter().map(|(_, secrets)| secrets).collect()
}

#[derive(Default)]
struct Contents {
    packets: Vec<Seen>,
    /// Genuine Retry packets.
    retries: usize,
    /// Datagrams with zeros after their last packet.
    padded: usize,
    /// Packets with a cleared fixed bit.
    greased: usize,
    /// The key updates of the last connection, at both ends.
    updates: [u64; 2],
}

/// A packet that was opened, and sealed again.
struct Seen {
    /// The connection of the capture, from 0.
    connection: usize,
    sender: Side,
    packet_type: PacketType,
    number: u64,
    version: Version,
}

/// Replays a capture that starts with a client's first packet.
///
/// Datagrams are captured when they are sent. The client's arrive `latency` later, the server's at once: until a key update has arrived,
/// the server sends under its old keys.
fn replay(
    backend: Backend,
    algorithm: AeadAlgorithm,
    capture: &[u8],
    secrets: &[Secrets],
    latency: Duration,
) -> Contents {
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
            let keys = Schedule::new(backend, algorithm, &secrets[connections.len()], &datagram);
            let ends = [End::default(), End::default()];
            connections.push(Connection { client_address: client, keys, ends });
            connections.len() - 1
        });
        connections[index].read(index, sender, datagram, &mut contents);
    }
    if let Some(last) = connections.last() {
        contents.updates = last.ends.each_ref().map(|end| end.one_rtt.as_ref().map_or(0, OneRtt::generation));
    }
    contents
}

/// Derives the keys of a connection.
struct Schedule<'a> {
    backend: Backend,
    algorithm: AeadAlgorithm,
    secrets: &'a Secrets,
    version: Version,
    /// The destination of the client's first packet, or the source of the server's Retry.
    initial_id: ConnectionId,
}

impl<'a> Schedule<'a> {
    fn new(backend: Backend, algorithm: AeadAlgorithm, secrets: &'a Secrets, first: &Datagram) -> Self {
        let mut octets = first.octets.clone();
        let (packet, _) = Protected::split_first(&mut octets, 0).unwrap();
        let initial_id = ConnectionId::new(packet.destination()).unwrap();
        Self { backend, algorithm, secrets, version: packet.version().unwrap(), initial_id }
    }

    fn secret(&self, packet_type: PacketType, sender: Side) -> TrafficSecret {
        let level = match packet_type {
            PacketType::ZeroRtt => "EARLY_TRAFFIC_SECRET",
            PacketType::Handshake => "HANDSHAKE_TRAFFIC_SECRET",
            _ => "TRAFFIC_SECRET_0",
        };
        let label = format!("{}_{level}", sender.of("CLIENT", "SERVER"));
        TrafficSecret::new(self.algorithm, &self.secrets[&label]).unwrap()
    }

    /// For packets with a long header.
    fn keys(&self, packet_type: PacketType, sender: Side) -> Keys {
        if packet_type == PacketType::Initial {
            let keys = InitialKeys::with_backend(self.backend, self.version, &self.initial_id);
            return sender.of(keys.client, keys.server);
        }
        Keys::with_backend(self.backend, self.version, packet_type, self.secret(packet_type, sender))
    }
}

/// One end of a connection.
#[derive(Default)]
struct End {
    /// The length of the connection IDs it chose.
    connection_id_length: usize,
    /// By packet type: Initial, 0-RTT, Handshake.
    sealers: [Option<Sealer>; 3],
    one_rtt: Option<OneRtt>,
    /// By packet type; 1-RTT uses the same one as 0-RTT.
    spaces: [ReceiveSpace; 3],
    failures: AuthenticationFailures,
}

/// The index of a packet type in the arrays of [`End`].
fn place(packet_type: PacketType) -> usize {
    match packet_type {
        PacketType::Initial => 0,
        PacketType::ZeroRtt | PacketType::OneRtt => 1,
        PacketType::Handshake => 2,
    }
}

impl End {
    /// Its 1-RTT keys, which continue the packet numbers of 0-RTT. Nothing here depends on when the handshake was confirmed.
    fn one_rtt(&mut self, keys: &Schedule<'_>, side: Side) -> &mut OneRtt {
        self.one_rtt.get_or_insert_with(|| {
            let early = self.sealers[place(PacketType::ZeroRtt)].take();
            let counter = early.map_or(PacketNumberCounter::new(), Sealer::into_counter);
            let [local, remote] = [side, side.other()].map(|side| keys.secret(PacketType::OneRtt, side));
            let early = OneRttSealer::with_backend(keys.backend, keys.version, local, remote, counter);
            let mut end = early.complete_handshake();
            end.confirm_handshake();
            end
        })
    }

    /// Opens a packet from the other end, `sender`.
    fn open<'a>(&mut self, keys: &Schedule<'_>, sender: Side, packet: Protected<'a>, now: Now) -> Opened<'a> {
        let packet_type = packet.packet_type();
        if packet_type != PacketType::OneRtt {
            let space = &mut self.spaces[place(packet_type)];
            return keys.keys(packet_type, sender).open(packet, space, &mut self.failures).unwrap();
        }
        self.one_rtt(keys, sender.other());
        let Self { one_rtt, spaces, failures, .. } = self;
        let one_rtt = one_rtt.as_mut().unwrap();
        let opened = one_rtt.open(packet, now, &mut spaces[place(packet_type)], failures).unwrap();
        if let Some(largest) = largest_acknowledged(opened.payload) {
            one_rtt.acknowledged(largest, opened.generation, now).unwrap();
        }
        opened
    }

    /// Seals a packet of this end again, from what the other end opened.
    fn seal(&mut self, keys: &Schedule<'_>, side: Side, opened: &Opened<'_>, now: Duration) -> Vec<u8> {
        let number_length = NUMBER_LENGTHS[usize::from(opened.header()[0] & 0x03)];
        let number_offset = opened.header().len() - number_length.octets();
        let mut packet = [opened.header(), &*opened.payload, &[0xa5; 16]].concat();
        // Sealing must write the number and the protected bits of the first octet, so both start as 0xa5.
        packet[number_offset..opened.header().len()].fill(0xa5);
        packet[0] |= if packet[0] & 0x80 == 0 { 0x1f } else { 0x0f };
        let outgoing = Outgoing { packet: &mut packet, number_offset, number_length };
        let number = if opened.packet_type() == PacketType::OneRtt {
            let one_rtt = self.one_rtt(keys, side);
            if opened.key_phase != one_rtt.key_phase() {
                one_rtt.initiate_update(now).unwrap();
            }
            one_rtt.skip_numbers(opened.number - one_rtt.next_number().unwrap());
            one_rtt.seal(outgoing)
        } else {
            let sealer = self.sealers[place(opened.packet_type())].get_or_insert_with(|| {
                Sealer::new(keys.keys(opened.packet_type(), side), PacketNumberCounter::new())
            });
            sealer.skip_numbers(opened.number - sealer.next_number().unwrap());
            sealer.seal(outgoing)
        };
        assert_eq!(number, Ok(opened.number));
        packet
    }
}

/// The largest number in the ACK frame at the start of a payload (RFC 9000 §19.3), where these stacks put it.
fn largest_acknowledged(payload: &[u8]) -> Option<u64> {
    let (frame_type, length) = decode_varint(payload)?;
    matches!(frame_type, 0x02 | 0x03).then(|| decode_varint(&payload[length..]).unwrap().0)
}

struct Connection<'a> {
    client_address: SocketAddr,
    keys: Schedule<'a>,
    /// Client and server.
    ends: [End; 2],
}

impl Connection<'_> {
    fn read(&mut self, index: usize, sender: Side, mut datagram: Datagram, contents: &mut Contents) {
        match Retry::open(self.keys.version, &self.keys.initial_id, &datagram.octets) {
            Ok(retry) => {
                // After a Retry the client's Initial keys change, and its packet numbers continue (RFC 9000 §17.2.5.3).
                self.keys.initial_id = retry.source;
                let initial = &mut self.ends[0].sealers[place(PacketType::Initial)];
                let counter = initial.take().unwrap().into_counter();
                *initial = Some(Sealer::new(self.keys.keys(PacketType::Initial, Side::Client), counter));
                contents.retries += 1;
                return;
            }
            Err(error) => assert_eq!(error, HeaderError::NotRetry),
        }
        let connection_id_length = self.ends[sender.other() as usize].connection_id_length;
        for packet in Protected::split(&mut datagram.octets, connection_id_length) {
            if packet.as_ref().is_err_and(|error| *error == HeaderError::OtherDestination) {
                contents.padded += 1;
                break;
            }
            let packet = packet.unwrap();
            contents.greased += usize::from(packet.octets()[0] & 0x40 == 0);
            let (packet_type, number) = self.packet(sender, packet, datagram.time);
            let version = self.keys.version;
            contents.packets.push(Seen { connection: index, sender, packet_type, number, version });
        }
    }

    fn packet(&mut self, side: Side, packet: Protected<'_>, time: Duration) -> (PacketType, u64) {
        let Self { keys, ends: [client, server], .. } = self;
        let (sender, receiver) = match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        if let Some(version) = packet.version() {
            keys.version = version;
            sender.connection_id_length = packet.source().len();
        }
        let protected = packet.octets().to_vec();
        // These stacks update sooner than RFC 9001 §6.5 allows, so the probe timeout is shorter than a real one.
        let now = Now { time, probe_timeout: Duration::from_micros(1) };
        let opened = receiver.open(keys, side, packet, now);
        assert_eq!(sender.seal(keys, side, &opened, time), protected);
        (opened.packet_type(), opened.number)
    }
}
