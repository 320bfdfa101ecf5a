//! A large capture of many connections, signed.

use std::io::{self, Write};
use std::net::IpAddr;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{
    Endpoint, Isn, KdfContext, KeyId, MasterKey, Mkt, Sne, SocketPair, TrafficKey, append_ao, checksum,
    sign_segment,
};

/// The key of every connection, as `--key` takes it.
pub const KEY: &str = "send=100,recv=100,alg=aes-128-cmac-96,secret=generated-secret";

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct Generate {
    /// How many segments.
    pub segments: u64,
    /// How many connections at once.
    pub connections: u32,
    /// Octets of payload.
    pub payload: usize,
    /// After how many segments a connection is reset and replaced by one from another address, if ever.
    pub lifetime: Option<u64>,
}

struct Connection {
    pair: SocketPair,
    isns: [Isn; 2],
    next: [u32; 2],
    /// Opener's, listener's.
    keys: [TrafficKey; 2],
    sent: u64,
}

impl Connection {
    fn new(number: u32, mkt: &Mkt) -> Self {
        let [_, a, b, c] = number.to_be_bytes();
        // 65,536 addresses with one port, then with the next port.
        let local = Endpoint::new([10, 1, b, c], 40_000 + u16::from(a));
        let remote = Endpoint::new([192, 0, 2, 1], 179);
        let isns = [Isn(number.wrapping_mul(0x9e37_79b9)), Isn(number.wrapping_mul(0x85eb_ca6b))];
        let mut connection = Self {
            pair: SocketPair { local, remote },
            isns,
            next: isns.map(|isn| isn.0),
            keys: [Isn(0); 2].map(|_| Self::key(mkt, local, remote, isns)),
            sent: 0,
        };
        connection.keys[1] = Self::key(mkt, remote, local, [isns[1], isns[0]]);
        connection
    }

    fn key(mkt: &Mkt, source: Endpoint, destination: Endpoint, isns: [Isn; 2]) -> TrafficKey {
        let context = KdfContext { source, destination, source_isn: isns[0], destination_isn: isns[1] };
        TrafficKey::derive(mkt, &context)
    }
}

/// Writes a pcap file of Ethernet frames, a microsecond apart.
pub fn write(output: &mut impl Write, what: Generate) -> io::Result<()> {
    let master_key = MasterKey::new(b"generated-secret").unwrap();
    let mkt = Mkt::new(KeyId(100), KeyId(100), TcpAoAlgorithm::Aes128Cmac, master_key).unwrap();
    let mut made = what.connections;
    let mut connections: Vec<_> = (0..what.connections).map(|number| Connection::new(number, &mkt)).collect();
    // pcap, little-endian, microseconds, version 2.4, LINKTYPE_ETHERNET.
    output.write_all(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
    output.write_all(&[0xff, 0xff, 0, 0, 1, 0, 0, 0])?;
    let mut frame = Vec::new();
    for number in 0..what.segments {
        let place = (number % u64::from(what.connections)) as usize;
        let connection = &mut connections[place];
        if what.lifetime.is_some_and(|lifetime| connection.sent == lifetime) {
            *connection = Connection::new(made, &mkt);
            made += 1;
        }
        let is_last = what.lifetime.is_some_and(|lifetime| connection.sent == lifetime - 1);
        write_frame(&mut frame, connection, &mkt, what.payload, is_last);
        let time = 1_780_000_000_000_000 + number;
        output.write_all(&((time / 1_000_000) as u32).to_le_bytes())?;
        output.write_all(&((time % 1_000_000) as u32).to_le_bytes())?;
        output.write_all(&(frame.len() as u32).to_le_bytes())?;
        output.write_all(&(frame.len() as u32).to_le_bytes())?;
        output.write_all(&frame)?;
    }
    Ok(())
}

/// The connection's next frame: three segments of a handshake, then data in both directions, and a reset in the end.
fn write_frame(frame: &mut Vec<u8>, connection: &mut Connection, mkt: &Mkt, payload: usize, is_last: bool) {
    let sent = connection.sent;
    let sender = usize::from(sent % 2 == 1);
    let (flags, payload) = match sent {
        0 => (0x02, 0),
        1 => (0x12, 0),
        2 => (0x10, 0),
        _ if is_last => (0x14, 0),
        _ => (0x18, payload),
    };
    let pair = if sender == 0 { connection.pair } else { connection.pair.reversed() };
    let (source, destination) = (pair.local.address(), pair.remote.address());
    frame.clear();
    frame.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00]);
    let mut tcp = Vec::with_capacity(60 + payload);
    tcp.extend(pair.local.port().to_be_bytes());
    tcp.extend(pair.remote.port().to_be_bytes());
    tcp.extend(connection.next[sender].to_be_bytes());
    tcp.extend(if flags & 0x10 == 0 { 0 } else { connection.next[1 - sender] }.to_be_bytes());
    tcp.extend([0, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.resize(60, 0);
    let options = append_ao(&mut tcp[20..], 0, 12).unwrap();
    tcp.truncate(20 + options);
    tcp[12] = ((tcp.len() / 4) as u8) << 4;
    tcp.resize(20 + options + payload, sent as u8);
    let addresses = (source, destination);
    let isns = [connection.isns[sender], connection.isns[1 - sender]];
    if flags == 0x02 {
        let key = Connection::key(mkt, pair.local, pair.remote, [isns[0], Isn::UNKNOWN]);
        sign_segment(&key, Sne(0), mkt.parameters(), KeyId(100), addresses, &mut tcp).unwrap();
    } else {
        let turns = connection.next[sender] < isns[0].0;
        let key = &connection.keys[sender];
        sign_segment(key, Sne(turns.into()), mkt.parameters(), KeyId(100), addresses, &mut tcp).unwrap();
    }
    let checksum = checksum::tcp_to_send(source, destination, &tcp);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    let packet = ip_packet(addresses, &tcp);
    frame.extend(packet);
    let taken = payload as u32 + u32::from(flags & 0x02 != 0);
    connection.next[sender] = connection.next[sender].wrapping_add(taken);
    connection.sent += 1;
}

/// The IP packet that carries a segment.
pub fn ip_packet((source, destination): (IpAddr, IpAddr), tcp: &[u8]) -> Vec<u8> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let length = (20 + tcp.len()) as u16;
            let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
            packet[2..4].copy_from_slice(&length.to_be_bytes());
            packet.extend(source.octets());
            packet.extend(destination.octets());
            let checksum = checksum::ipv4_header(&packet);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            packet.extend(tcp);
            packet
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend((tcp.len() as u16).to_be_bytes());
            packet.extend([6, 64]);
            packet.extend(source.octets());
            packet.extend(destination.octets());
            packet.extend(tcp);
            packet
        }
        _ => panic!("a packet of two families"),
    }
}
