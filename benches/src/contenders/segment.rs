//! TCP-AO connections, and segments to sign and to verify.

use std::net::Ipv4Addr;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{
    Connection, Endpoint, Isn, KdfContext, KeyId, MasterKey, Mkt, MktSet, Segment, SocketPair,
    TrafficKeyOctets, append_ao,
};

/// The length of the timed segments: 20 octets of header, 16 of AO option, 112 of data.
pub(crate) const LENGTH: usize = 20 + 16 + 112;
/// How many octets the MAC of such a segment covers: SNE, IPv4 pseudo-header, segment.
pub(crate) const HASHED: usize = 16 + LENGTH;

/// The ISNs of the two ends.
const ISNS: [Isn; 2] = [Isn(1000), Isn(5000)];

/// The MKTs that the benches use for an algorithm.
pub(crate) fn mkts(algorithm: TcpAoAlgorithm) -> MktSet<2> {
    MktSet::from_mkts([1, 2].map(|id| mkt(algorithm, id))).expect("two ids")
}

/// One of them.
pub(crate) fn mkt(algorithm: TcpAoAlgorithm, id: u8) -> Mkt {
    let mkt = MasterKey::new(&[id; 32]).and_then(|key| Mkt::new(KeyId(id), KeyId(id), algorithm, key));
    mkt.expect("32 octets are enough for all")
}

/// The socket pair of connection number `index`; each has its own address, and so its own traffic keys.
pub(crate) fn pair(index: u32) -> SocketPair {
    SocketPair {
        local: Endpoint::new(Ipv4Addr::from_bits(0x0a00_0000 + index), 50_000),
        remote: Endpoint::new(Ipv4Addr::new(192, 0, 2, 1), 179),
    }
}

/// The KDF context of an established connection's traffic keys.
pub(crate) fn kdf_context(pair: SocketPair) -> KdfContext {
    KdfContext::send_other(pair, ISNS[0], ISNS[1])
}

/// The send traffic key of the end that opened an established connection.
pub(crate) fn traffic_key(algorithm: TcpAoAlgorithm, pair: SocketPair) -> TrafficKeyOctets {
    TrafficKeyOctets::derive(&mkt(algorithm, 1), &kdf_context(pair))
}

/// An unsigned TCP segment from `pair.local` to `pair.remote`, with an AO option for `mac_length` octets of MAC.
pub(crate) fn segment(
    pair: &SocketPair,
    sequence: u32,
    flags: u8,
    mac_length: usize,
    payload: usize,
) -> Vec<u8> {
    let mut options = [0; 40];
    let options_length = append_ao(&mut options, 0, mac_length).expect("the option space is empty");
    let mut tcp = Vec::new();
    tcp.extend_from_slice(&pair.local.port().to_be_bytes());
    tcp.extend_from_slice(&pair.remote.port().to_be_bytes());
    tcp.extend_from_slice(&sequence.to_be_bytes());
    tcp.extend_from_slice(&[0, 0, 0, 1]);
    tcp.extend_from_slice(&[((20 + options_length) as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend_from_slice(&options[..options_length]);
    tcp.resize(tcp.len() + payload, 0x5a);
    tcp
}

/// The two ends of an established connection, and a segment that one has signed and the other verified.
#[derive(Debug)]
pub(crate) struct Established {
    /// The end that signs.
    pub(crate) sender: Connection<2>,
    /// The end that verifies.
    pub(crate) receiver: Connection<2>,
    /// The segment, signed.
    pub(crate) tcp: Vec<u8>,
}

impl Established {
    /// Runs the handshake of connection number `index`, and makes a segment of `length` octets, header included.
    ///
    /// # Panics
    /// If a signed segment does not verify.
    pub(crate) fn new(algorithm: TcpAoAlgorithm, mkts: &MktSet<2>, index: u32, length: usize) -> Self {
        let (pair, mac_length) = (pair(index), algorithm.default_mac_length());
        let mut sender = Connection::active(pair, ISNS[0], mkts).expect("there is a key");
        let mut syn = segment(&pair, ISNS[0].0, 0x02, mac_length, 0);
        sender.sign(&mut syn).expect("a SYN");
        let (source, destination) = (pair.local.address(), pair.remote.address());
        let syn = Segment::from_tcp(source, destination, &syn).expect("well-formed");
        let mut receiver = Connection::passive(&mkts.verify_syn(syn).expect("just signed"));
        let mut syn_ack = segment(&pair.reversed(), ISNS[1].0, 0x12, mac_length, 0);
        receiver.sign(&mut syn_ack).expect("a SYN-ACK");
        let syn_ack = Segment::from_tcp(destination, source, &syn_ack).expect("well-formed");
        sender.verify(&syn_ack).expect("just signed");
        let payload = length - segment(&pair, 0, 0, mac_length, 0).len();
        let mut tcp = segment(&pair, ISNS[0].0 + 1, 0x18, mac_length, payload);
        sender.sign(&mut tcp).expect("established");
        let mut ends = Self { sender, receiver, tcp };
        let signed = Segment::from_tcp(source, destination, &ends.tcp).expect("well-formed");
        ends.receiver.verify(&signed).expect("just signed");
        ends
    }

    /// The segment at its receiver.
    pub(crate) fn received(&self) -> Segment<'_> {
        let pair = self.sender.pair();
        Segment::from_tcp(pair.local.address(), pair.remote.address(), &self.tcp).expect("well-formed")
    }

    /// The MAC that the segment carries.
    pub(crate) fn mac(&self) -> Vec<u8> {
        self.received().ao_option().expect("well-formed").expect("signed").mac.to_vec()
    }

    /// The octets that the segment's MAC covers (RFC 5925 §5.1), put together by hand.
    pub(crate) fn mac_input(&self) -> Vec<u8> {
        let mut input = vec![0; 4];
        let pair = self.sender.pair();
        for end in [pair.local, pair.remote] {
            let std::net::IpAddr::V4(address) = end.address() else { unreachable!("the pairs are IPv4's") };
            input.extend_from_slice(&address.octets());
        }
        input.extend_from_slice(&[0, 6]);
        input.extend_from_slice(&(self.tcp.len() as u16).to_be_bytes());
        input.extend_from_slice(&self.tcp);
        let ao = self.received().ao_option().expect("well-formed").expect("signed");
        input[16 + 16..16 + 18].fill(0);
        input[16 + 20 + ao.offset + 4..][..ao.mac.len()].fill(0);
        input
    }
}

/// Connection number 0, with a segment of `length` octets, header included.
///
/// # Panics
/// If a signed segment does not verify.
pub(crate) fn established(algorithm: TcpAoAlgorithm, length: usize) -> Established {
    Established::new(algorithm, &mkts(algorithm), 0, length)
}

/// A signed SYN of connection number 0.
pub(crate) fn syn(algorithm: TcpAoAlgorithm, mkts: &MktSet<2>) -> Vec<u8> {
    let mut syn = segment(&pair(0), ISNS[0].0, 0x02, algorithm.default_mac_length(), 0);
    let mut connection = Connection::active(pair(0), ISNS[0], mkts).expect("there is a key");
    connection.sign(&mut syn).expect("a SYN");
    syn
}
