//! Segments of an established connection, signed and verified one by one.

use std::hint::black_box;
use std::time::Duration;

use serde::Serialize;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Connection, Endpoint, Isn, KeyId, MasterKey, Mkt, MktSet, Segment, SocketPair};

use super::rate::per_second;

/// Octets of payload.
const LENGTHS: [usize; 2] = [128, 1460];
pub(super) const MEASURED: u32 = 2 * (TcpAoAlgorithm::ALL.len() * LENGTHS.len()) as u32;
/// How many segments between two looks at the clock.
const AT_ONCE: u32 = 64;
/// Long enough for every algorithm.
const MASTER_KEY: [u8; 32] = [0x5a; 32];
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// The speed of one core with TCP-AO.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TcpAoFigure {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// Octets of payload per segment.
    pub payload: usize,
    /// Segments signed per second.
    pub signed: f64,
    /// Segments verified per second.
    pub verified: f64,
}

pub(super) fn run(window: Duration) -> Vec<TcpAoFigure> {
    let all = TcpAoAlgorithm::ALL.into_iter();
    all.flat_map(|algorithm| LENGTHS.map(|payload| measure(algorithm, payload, window))).collect()
}

fn measure(algorithm: TcpAoAlgorithm, payload: usize, window: Duration) -> TcpAoFigure {
    let pair = SocketPair {
        local: Endpoint::new([192, 0, 2, 1], 50_000),
        remote: Endpoint::new([192, 0, 2, 2], 179),
    };
    let (mut sender, mut receiver) = connect(algorithm, pair);
    let mut tcp = header(&sender, 1001, 5001, ACK);
    tcp.resize(tcp.len() + payload, 0xa5);
    let signed = per_second(window, AT_ONCE, || {
        for _ in 0..AT_ONCE {
            sender.sign(black_box(&mut tcp)).expect("the connection is established");
        }
    });
    let (source, destination) = (pair.local.address(), pair.remote.address());
    let verified = per_second(window, AT_ONCE, || {
        for _ in 0..AT_ONCE {
            let segment =
                Segment::from_tcp(source, destination, black_box(&tcp)).expect("the segment is well-formed");
            receiver.verify(&segment).map(drop).expect("the segment is signed");
        }
    });
    TcpAoFigure { algorithm: algorithm.name(), payload, signed, verified }
}

/// Both ends of a connection after its handshake.
fn connect(algorithm: TcpAoAlgorithm, pair: SocketPair) -> (Connection<1>, Connection<1>) {
    let master_key = MasterKey::new(&MASTER_KEY).expect("32 octets are a master key");
    let mkt = Mkt::new(KeyId(1), KeyId(1), algorithm, master_key).expect("32 octets are enough for all");
    let mkts = MktSet::<1>::from_mkts([mkt]).expect("there is room for one");
    let (source, destination) = (pair.local.address(), pair.remote.address());

    let mut active = Connection::active(pair, Isn(1000), &mkts).expect("there is a key");
    let mut syn = header(&active, 1000, 0, SYN);
    active.sign(&mut syn).expect("a SYN opens a connection");
    let syn = Segment::from_tcp(source, destination, &syn).expect("the segment is well-formed");
    let mut passive = Connection::passive(&mkts.verify_syn(syn).expect("the SYN is signed"));
    let mut syn_ack = header(&passive, 5000, 1001, SYN | ACK);
    passive.sign(&mut syn_ack).expect("a SYN-ACK follows");
    let syn_ack = Segment::from_tcp(destination, source, &syn_ack).expect("the segment is well-formed");
    active.verify(&syn_ack).map(drop).expect("the SYN-ACK is signed");
    (active, passive)
}

/// A TCP header with an empty TCP-AO option.
fn header(connection: &Connection<1>, sequence: u32, acknowledgment: u32, flags: u8) -> Vec<u8> {
    let pair = connection.pair();
    let mut tcp = Vec::new();
    tcp.extend(pair.local.port().to_be_bytes());
    tcp.extend(pair.remote.port().to_be_bytes());
    tcp.extend(sequence.to_be_bytes());
    tcp.extend(acknowledgment.to_be_bytes());
    tcp.extend([0, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.resize(60, 0);
    let options = connection.append_ao(&mut tcp[20..], 0).expect("there are 40 octets of room");
    tcp.truncate(20 + options);
    tcp[12] = (tcp.len() as u8 / 4) << 4;
    tcp
}
