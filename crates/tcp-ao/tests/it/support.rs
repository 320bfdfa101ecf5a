//! Shared by the tests of this crate: segments and packets from parts, short MKTs, and two ends with a handshake.

pub(crate) use std::net::IpAddr;
pub(crate) use std::time::Duration;

use etherparse::checksum::Sum16BitWords;
use wireseal_mac::Mac;
use wireseal_tcp_ao::option::TCP_HEADER_LENGTH;
pub(crate) use wireseal_tcp_ao::*;

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// The timestamp option as stacks send it, two NOPs before it.
pub(crate) const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0x15, 0x5a, 0xb7, 0x84, 0xa5, 0x0b, 0xeb];

/// The start of every secret of [`mkt`], long enough for each algorithm.
pub(crate) const SECRET: &[u8; 32] = b"correct-horse-battery-staple-064";

/// A socket pair of IPv4 addresses, 192.0.2.1 port 49152 to 192.0.2.2 port 179.
pub(crate) fn ipv4_pair() -> SocketPair {
    pair("192.0.2.1", "192.0.2.2")
}

/// A socket pair of IPv6 addresses.
pub(crate) fn ipv6_pair() -> SocketPair {
    pair("2001:db8::1", "2001:db8::2")
}

pub(crate) fn pair(local: &str, remote: &str) -> SocketPair {
    let endpoint = |address: &str, port| Endpoint::new(address.parse::<IpAddr>().unwrap(), port);
    SocketPair { local: endpoint(local, 49152), remote: endpoint(remote, 179) }
}

/// An MKT with a different secret for every pair of ids.
pub(crate) fn mkt(send_id: u8, recv_id: u8, algorithm: TcpAoAlgorithm) -> Mkt {
    let mut secret = SECRET.to_vec();
    // Both directions give the same octets, so that the peer's mirror image of the MKT has the same secret.
    secret.extend([send_id.min(recv_id), send_id.max(recv_id)]);
    mkt_with_secret(send_id, recv_id, algorithm, &secret)
}

pub(crate) fn mkt_with_secret(send_id: u8, recv_id: u8, algorithm: TcpAoAlgorithm, secret: &[u8]) -> Mkt {
    let master_key = MasterKey::new(secret).unwrap();
    Mkt::with_short_master_key(KeyId(send_id), KeyId(recv_id), algorithm, master_key).unwrap()
}

/// Pairs of SendID and RecvID.
pub(crate) const TWO: [(u8, u8); 2] = [(1, 101), (2, 102)];

pub(crate) fn hmac(send_id: u8, recv_id: u8) -> Mkt {
    mkt(send_id, recv_id, TcpAoAlgorithm::HmacSha1)
}

/// MKTs with HMAC-SHA-1 and these pairs of SendID and RecvID.
pub(crate) fn mkts<const N: usize>(ids: &[(u8, u8)]) -> MktSet<N> {
    MktSet::from_mkts(ids.iter().map(|(send, recv)| mkt(*send, *recv, TcpAoAlgorithm::HmacSha1))).unwrap()
}

/// The peer's version of the same set: SendID and RecvID exchanged.
pub(crate) fn mirrored<const N: usize>(ids: &[(u8, u8)]) -> MktSet<N> {
    mkts(&ids.iter().map(|(send, recv)| (*recv, *send)).collect::<Vec<_>>())
}

/// A TCP segment to build, from the local to the remote end of its pair.
#[derive(Clone)]
pub(crate) struct Parts<'a> {
    pub(crate) pair: SocketPair,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) options: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Parts<'a> {
    pub(crate) fn new(pair: SocketPair, flags: u8, sequence: u32, acknowledgment: u32) -> Self {
        Self { pair, flags, sequence, acknowledgment, options: &[], payload: &[] }
    }

    pub(crate) fn options(self, options: &'a [u8]) -> Self {
        Self { options, ..self }
    }

    pub(crate) fn payload(self, payload: &'a [u8]) -> Self {
        Self { payload, ..self }
    }

    /// The segment without an AO option, with a correct checksum.
    pub(crate) fn unsigned(&self) -> Vec<u8> {
        self.build(self.options)
    }

    /// The segment with an AO option for a MAC of this length after the other options; MAC and checksum are zero.
    pub(crate) fn with_ao(&self, mac_length: usize) -> Vec<u8> {
        let mut space = [0; 40];
        space[..self.options.len()].copy_from_slice(self.options);
        let length = append_ao(&mut space, self.options.len(), mac_length).unwrap();
        self.build(&space[..length])
    }

    /// The segment signed by `connection`, with a correct checksum.
    pub(crate) fn signed<const N: usize>(&self, connection: &mut Connection<N>) -> Vec<u8> {
        let mut tcp = self.with_ao(connection.current_key().mac_length());
        connection.sign(&mut tcp).unwrap();
        set_checksum(self.pair, &mut tcp);
        tcp
    }

    fn build(&self, options: &[u8]) -> Vec<u8> {
        let header_length = TCP_HEADER_LENGTH + options.len();
        assert!(header_length.is_multiple_of(4) && header_length <= 60, "options do not fill words");
        let mut tcp = Vec::with_capacity(header_length + self.payload.len());
        tcp.extend(self.pair.local.port().to_be_bytes());
        tcp.extend(self.pair.remote.port().to_be_bytes());
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledgment.to_be_bytes());
        tcp.extend([(header_length as u8 / 4) << 4, self.flags, 0xfa, 0xf0, 0, 0, 0, 0]);
        tcp.extend(options);
        tcp.extend(self.payload);
        set_checksum(self.pair, &mut tcp);
        tcp
    }
}

pub(crate) fn set_checksum(pair: SocketPair, tcp: &mut [u8]) {
    tcp[16..18].fill(0);
    let checksum = checksum::tcp(pair.local.address(), pair.remote.address(), tcp);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
}

/// The segment from the local to the remote end of `pair`.
pub(crate) fn view(pair: SocketPair, tcp: &[u8]) -> Segment<'_> {
    Segment::from_tcp(pair.local.address(), pair.remote.address(), tcp).unwrap()
}

/// The whole MAC of a segment.
pub(crate) fn segment_mac(
    key: &TrafficKey,
    sne: Sne,
    options: OptionCoverage,
    segment: &Segment<'_>,
) -> Result<Mac, VerifyError> {
    Ok(segment.mac_input(sne, options)?.mac(key))
}

/// A signed segment of this connection.
pub(crate) fn sent<const N: usize>(
    connection: &mut Connection<N>,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
) -> Vec<u8> {
    sent_with(connection, flags, sequence, acknowledgment, &[])
}

/// The same with a payload.
pub(crate) fn sent_with<const N: usize>(
    connection: &mut Connection<N>,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
    payload: &[u8],
) -> Vec<u8> {
    Parts::new(connection.pair(), flags, sequence, acknowledgment).payload(payload).signed(connection)
}

/// Sends a segment from `from` to `to`, which must accept it.
pub(crate) fn pass<const N: usize>(
    from: &mut Connection<N>,
    to: &mut Connection<N>,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
) {
    pass_with(from, to, flags, sequence, acknowledgment, &[]);
}

/// The same with a payload.
pub(crate) fn pass_with<const N: usize>(
    from: &mut Connection<N>,
    to: &mut Connection<N>,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
    payload: &[u8],
) {
    receive(to, &sent_with(from, flags, sequence, acknowledgment, payload)).unwrap();
}

/// Gives `connection` a segment from its peer.
pub(crate) fn receive<'a, const N: usize>(
    connection: &mut Connection<N>,
    tcp: &'a [u8],
) -> Result<Verified<'a>, VerifyError> {
    let pair = connection.pair().reversed();
    connection.verify(&view(pair, tcp))
}

/// An IPv4 packet with a correct header checksum around this payload.
pub(crate) fn ipv4_packet(source: [u8; 4], destination: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.extend(source);
    packet.extend(destination);
    let checksum = checksum::ipv4_header(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(payload);
    if protocol == 1 {
        complete_icmp(&mut packet[20..], Sum16BitWords::new());
    }
    packet
}

/// Writes the checksum into an ICMP message; `sum` is that of the pseudo-header.
fn complete_icmp(message: &mut [u8], sum: Sum16BitWords) {
    if message.get(2..4) == Some(&[0, 0]) {
        let checksum = sum.add_slice(message).ones_complement().to_be();
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// An IPv6 packet; `next_header` says what `payload` starts with.
pub(crate) fn ipv6_packet(
    source: [u8; 16],
    destination: [u8; 16],
    next_header: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next_header, 64]);
    packet.extend(source);
    packet.extend(destination);
    packet.extend(payload);
    if next_header == 58 {
        let mut sum = Sum16BitWords::new().add_16bytes(source).add_16bytes(destination);
        sum = sum.add_4bytes((payload.len() as u32).to_be_bytes()).add_2bytes([0, 58]);
        complete_icmp(&mut packet[40..], sum);
    }
    packet
}

/// The IP packet that carries a segment from the local to the remote end of `pair`.
pub(crate) fn packet(pair: SocketPair, tcp: &[u8]) -> Vec<u8> {
    match (pair.local.address(), pair.remote.address()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ipv4_packet(source.octets(), destination.octets(), 6, tcp)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            ipv6_packet(source.octets(), destination.octets(), 6, tcp)
        }
        _ => panic!("a socket pair of two families"),
    }
}

/// Two ends of one connection, which the active end opens. Their next sequence numbers are those after the SYNs.
pub(crate) struct Ends<const N: usize = 3> {
    pub(crate) active: Connection<N>,
    pub(crate) passive: Connection<N>,
    pub(crate) active_next: u32,
    pub(crate) passive_next: u32,
}

impl<const N: usize> Ends<N> {
    /// Shakes hands with SYN, SYN-ACK and ACK, every one signed and verified.
    pub(crate) fn connect(
        pair: SocketPair,
        isns: (u32, u32),
        active_mkts: &MktSet<N>,
        passive_mkts: &MktSet<N>,
    ) -> Self {
        let mut active = Connection::active(pair, Isn(isns.0), active_mkts).unwrap();
        let syn = Parts::new(pair, SYN, isns.0, 0).signed(&mut active);
        let mut passive = Connection::passive(&passive_mkts.verify_syn(view(pair, &syn)).unwrap());
        let (active_next, passive_next) = (isns.0.wrapping_add(1), isns.1.wrapping_add(1));
        let syn_ack = Parts::new(pair.reversed(), SYN | ACK, isns.1, active_next).signed(&mut passive);
        receive(&mut active, &syn_ack).unwrap();
        let ack = Parts::new(pair, ACK, active_next, passive_next).signed(&mut active);
        receive(&mut passive, &ack).unwrap();
        assert!(active.is_established() && passive.is_established());
        Self { active, passive, active_next, passive_next }
    }

    /// With HMAC-SHA-1 MKTs of these ids as the active end has them.
    pub(crate) fn with_ids(ids: &[(u8, u8)]) -> Self {
        Self::connect(ipv4_pair(), (0x1000_0000, 0x7000_0000), &mkts(ids), &mirrored(ids))
    }

    /// A signed data segment of the active end; advances its sequence number by the payload.
    pub(crate) fn active_data(&mut self, payload: &[u8]) -> Vec<u8> {
        let parts = Parts::new(self.active.pair(), ACK, self.active_next, self.passive_next);
        self.active_next = self.active_next.wrapping_add(payload.len() as u32);
        parts.options(&TIMESTAMPS).payload(payload).signed(&mut self.active)
    }

    /// The same for the passive end.
    pub(crate) fn passive_data(&mut self, payload: &[u8]) -> Vec<u8> {
        let parts = Parts::new(self.passive.pair(), ACK, self.passive_next, self.active_next);
        self.passive_next = self.passive_next.wrapping_add(payload.len() as u32);
        parts.options(&TIMESTAMPS).payload(payload).signed(&mut self.passive)
    }

    /// A segment of the passive end, `sequence` octets after its next number, that acknowledges nothing new.
    pub(crate) fn numbered(&mut self, sequence: u32, payload: &[u8]) -> Vec<u8> {
        sent_with(&mut self.passive, ACK, self.passive_next + sequence, self.active_next, payload)
    }

    /// Whether the active end accepts a segment and switches keys for it.
    pub(crate) fn obeys(&mut self, segment: &[u8]) -> bool {
        receive(&mut self.active, segment).unwrap().current_key_changed()
    }

    /// One segment each way, both of which must verify.
    pub(crate) fn exchange(&mut self) {
        self.forth(b"forth");
        self.back(b"and back");
    }

    /// Sends data of the active end, which the passive one must accept.
    pub(crate) fn forth(&mut self, payload: &[u8]) {
        let segment = self.active_data(payload);
        receive(&mut self.passive, &segment).unwrap();
    }

    /// Sends data of the passive end, which the active one must accept.
    pub(crate) fn back(&mut self, payload: &[u8]) {
        let segment = self.passive_data(payload);
        receive(&mut self.active, &segment).unwrap();
    }
}
