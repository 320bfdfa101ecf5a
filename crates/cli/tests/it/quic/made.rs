//! A connection made packet by packet, so that it can show what real ones seldom do.

use std::net::{IpAddr, SocketAddr};

use etherparse::PacketBuilder;
use wireseal::capture::{Packet, Time};
use wireseal::quic::report::Side;
use wireseal::quic::{ConnectionReport, KeyLogFile, Observer, Totals};
use wireseal_quic::hazmat::PathId;
use wireseal_quic::{
    AeadAlgorithm, ConnectionId, InitialKeys, Keys, LongHeader, LongType, NumberLength, Outgoing,
    PacketNumberCounter, PacketType, Sealer, ShortHeader, TrafficSecret, Version,
};

/// A PING frame.
pub const PING: &[u8] = &[1];

/// What is known of a connection before it begins.
pub struct Made {
    pub version: Version,
    pub suite: AeadAlgorithm,
    /// The destination that the client begins with.
    pub original: ConnectionId,
    /// What client and server call themselves.
    pub ids: [ConnectionId; 2],
    pub random: [u8; 32],
    /// Makes its secrets differ from those of other connections.
    pub secret_mask: u8,
}

/// The key phases of a 1-RTT packet, and what may be wrong with it.
#[derive(Clone, Copy, Default)]
pub struct Short {
    pub number: u32,
    pub generation: u64,
    pub has_wrong_phase: bool,
    pub has_reserved_bits: bool,
}

/// A 1-RTT packet of the first phase.
pub fn short(number: u32) -> Short {
    Short { number, ..Short::default() }
}

/// A connection of version 1 with AES-128-GCM.
pub fn made() -> Made {
    Made::new(AeadAlgorithm::Aes128Gcm)
}

/// Two of the same kind.
pub fn two() -> [Made; 2] {
    let second = Made { original: id(&[0xd7; 9]), ids: [id(&[0xc7; 5]), id(&[0x57; 8])], ..made() };
    [made(), second]
}

pub fn id(octets: &[u8]) -> ConnectionId {
    ConnectionId::new(octets).unwrap()
}

impl Made {
    pub fn new(suite: AeadAlgorithm) -> Self {
        Self {
            version: Version::V1,
            suite,
            original: id(&[0xd0; 8]),
            ids: [id(&[0xc1; 5]), id(&[0x5e; 8])],
            random: [0x77; 32],
            secret_mask: 0,
        }
    }

    fn secret(&self, label: usize) -> Vec<u8> {
        vec![(label as u8 + 1) ^ self.secret_mask; self.suite.secret_length()]
    }

    /// Its key log.
    pub fn log(&self) -> KeyLogFile {
        let log = KeyLogFile::read(self.log_text().as_bytes());
        assert_eq!((log.connections(), log.unreadable_lines()), (1, &[][..]));
        log
    }

    /// The lines of its key log, and some others.
    pub fn log_text(&self) -> String {
        let labels = [
            "CLIENT_EARLY_TRAFFIC_SECRET",
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            "CLIENT_TRAFFIC_SECRET_0",
            "SERVER_TRAFFIC_SECRET_0",
        ];
        let hex = |octets: &[u8]| octets.iter().map(|octet| format!("{octet:02X}")).collect::<String>();
        let lines = labels
            .iter()
            .enumerate()
            .map(|(place, label)| format!("{label} {} {}\r\n", hex(&self.random), hex(&self.secret(place))));
        format!("# a comment\n\nEXPORTER_SECRET 00 11\n{}", lines.collect::<String>())
    }

    /// A CRYPTO frame with the first message of the handshake.
    pub fn hello(&self, sender: Side) -> Vec<u8> {
        let tail: Vec<u8> = match sender {
            Side::Client => {
                [&[0, 0, 2][..], &self.suite.tls_cipher_suite().to_be_bytes(), &[1, 0, 0, 0]].concat()
            }
            Side::Server => [&[0][..], &self.suite.tls_cipher_suite().to_be_bytes(), &[0, 0, 0]].concat(),
        };
        let body = [&[3, 3][..], &self.random, &tail].concat();
        let message = [&[sender as u8 + 1, 0, 0, body.len() as u8][..], &body].concat();
        [&[0x06, 0, message.len() as u8][..], &message].concat()
    }

    /// A packet with a long header; the number is that of the first packet.
    pub fn long(
        &self,
        sender: Side,
        long_type: LongType,
        destination: ConnectionId,
        payload: &[u8],
    ) -> Vec<u8> {
        self.long_from(sender, long_type, destination, self.original, payload)
    }

    /// The same, with Initial keys from this id.
    pub fn long_from(
        &self,
        sender: Side,
        long_type: LongType,
        destination: ConnectionId,
        initial_id: ConnectionId,
        payload: &[u8],
    ) -> Vec<u8> {
        let with_label = |packet_type, label| {
            Keys::new(self.version, packet_type, TrafficSecret::new(self.suite, &self.secret(label)).unwrap())
        };
        let keys = match (long_type, sender) {
            (LongType::Initial, Side::Client) => InitialKeys::new(self.version, &initial_id).client,
            (LongType::Initial, Side::Server) => InitialKeys::new(self.version, &initial_id).server,
            (LongType::ZeroRtt, _) => with_label(PacketType::ZeroRtt, 0),
            (LongType::Handshake, Side::Client) => with_label(PacketType::Handshake, 1),
            (LongType::Handshake, Side::Server) => with_label(PacketType::Handshake, 2),
        };
        let header = LongHeader {
            version: self.version,
            packet_type: long_type,
            destination,
            source: self.ids[sender as usize],
            token: &[],
        };
        let payload = [payload, &[0; 4]].concat();
        let length = NumberLength::Two;
        let mut packet = vec![0; header.overhead(length) + payload.len()];
        let number_offset = header.encode(&mut packet, length, payload.len()).unwrap();
        packet[number_offset + 2..][..payload.len()].copy_from_slice(&payload);
        let mut sealer = Sealer::new(keys, PacketNumberCounter::new());
        sealer.seal(Outgoing { packet: &mut packet, number_offset, number_length: length }).unwrap();
        packet
    }

    /// A packet with a short header.
    pub fn short(&self, sender: Side, destination: ConnectionId, short: Short, payload: &[u8]) -> Vec<u8> {
        let secret = || TrafficSecret::new(self.suite, &self.secret(3 + sender as usize)).unwrap();
        let (_, header_key) = Keys::new(self.version, PacketType::OneRtt, secret()).into_parts();
        let secret = (0..short.generation).fold(secret(), |secret, _| secret.next(self.version));
        let (key, _) = Keys::new(self.version, PacketType::OneRtt, secret).into_parts();
        let mut packet = vec![0; 21];
        let offset = ShortHeader { destination, spin: true }.encode(&mut packet).unwrap();
        packet.truncate(offset);
        let phase = (short.generation & 1 == 1) != short.has_wrong_phase;
        packet[0] |= 0x01 | u8::from(phase) << 2 | u8::from(short.has_reserved_bits) << 3;
        packet.extend((short.number as u16).to_be_bytes());
        let mut body = [payload, &[0; 4]].concat();
        let tag = key.seal(PathId(0), short.number.into(), &packet, &mut body).unwrap();
        packet.extend([&body, &tag[..]].concat());
        let (start, rest) = packet.split_at_mut(offset);
        let sample: [u8; 16] = rest[4..20].try_into().unwrap();
        header_key.protect(&sample, &mut start[0], rest);
        packet
    }

    /// The datagrams of a handshake: what client and server begin with.
    pub fn handshake(&self) -> [(Side, Vec<u8>); 3] {
        let [client, server] = self.ids;
        let answer = [
            self.long(Side::Server, LongType::Initial, client, &self.hello(Side::Server)),
            self.long(Side::Server, LongType::Handshake, client, &[1]),
        ];
        [
            (
                Side::Client,
                self.long(Side::Client, LongType::Initial, self.original, &self.hello(Side::Client)),
            ),
            (Side::Server, answer.concat()),
            (Side::Client, self.long(Side::Client, LongType::Handshake, server, &[1])),
        ]
    }
}

/// A NEW_CONNECTION_ID frame.
pub fn new_connection_id(id: ConnectionId, token: [u8; 16]) -> Vec<u8> {
    [&[0x18, 1, 0, id.len() as u8][..], &id, &token].concat()
}

/// A capture of datagrams between a client and a server, watched.
pub struct Watch<'l> {
    observer: Observer<'l>,
    pub ends: [SocketAddr; 2],
    packets: u64,
    pub seconds: u64,
    pub finished: Vec<ConnectionReport>,
}

impl<'l> Watch<'l> {
    pub fn new(log: &'l KeyLogFile) -> Self {
        let ends = [([192, 0, 2, 1], 50_000).into(), ([192, 0, 2, 2], 4433).into()];
        Self { observer: Observer::new(log), ends, packets: 0, seconds: 1000, finished: Vec::new() }
    }

    pub fn send(&mut self, sender: Side, datagram: &[u8]) {
        let [from, to] = [sender, sender.other()].map(|side| self.ends[side as usize]);
        let [IpAddr::V4(source), IpAddr::V4(destination)] = [from.ip(), to.ip()] else { panic!("IPv4") };
        let builder =
            PacketBuilder::ipv4(source.octets(), destination.octets(), 64).udp(from.port(), to.port());
        let mut octets = Vec::new();
        builder.write(&mut octets, datagram).unwrap();
        self.packets += 1;
        self.observer.packet(&Packet {
            number: self.packets,
            time: Some(Time::from_unix_nanoseconds(self.seconds * 1_000_000_000)),
            link_type: 101,
            octets: &octets,
            original_length: octets.len(),
        });
        self.finished.extend(self.observer.take_finished());
    }

    /// A watch that has seen the handshake of `made`.
    pub fn after_handshake(log: &'l KeyLogFile, made: &Made) -> Self {
        let mut watch = Self::new(log);
        watch.handshake(made);
        watch
    }

    /// A watch that has seen the client's first datagram.
    pub fn after_first(log: &'l KeyLogFile, made: &Made) -> Self {
        let mut watch = Self::new(log);
        let [(sender, datagram), ..] = made.handshake();
        watch.send(sender, &datagram);
        watch
    }

    pub fn handshake(&mut self, made: &Made) {
        for (sender, datagram) in made.handshake() {
            self.send(sender, &datagram);
        }
    }

    /// Sends a 1-RTT packet to the connection ID that the other side begins with.
    pub fn short(&mut self, made: &Made, sender: Side, number: u32, payload: &[u8]) {
        self.send(sender, &made.short(sender, made.ids[sender.other() as usize], short(number), payload));
    }

    pub fn finish(self) -> (Vec<ConnectionReport>, Totals) {
        let (others, totals) = self.observer.finish();
        ([self.finished, others].concat(), totals)
    }
}
