//! TCP-AO: keys, segments signed and verified, one connection and many.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread;

use wireseal_algorithms::{MacAlgorithm, TcpAoAlgorithm};
use wireseal_kernels::prefetch;
use wireseal_mac::{Mac, MacKey, MessageHead};
use wireseal_tcp_ao::{
    Connection, Endpoint, FieldName, Isn, KdfContext, KeyId, MacInput, MasterKey, Mkt, MktSet,
    OptionCoverage, Segment, Sne, SocketPair, TrafficKey, TrafficKeyOctets, append_ao, sign_batch,
    verify_batch,
};

use crate::contender::{Contender, assert_agree};
use crate::mac::{self, Keyed, Library};
use crate::packets::{ACK, SYN, ipv4, tcp};

/// The length of the timed segments: 20 octets of header, 16 of AO option, 112 of data.
pub const LENGTH: usize = 20 + 16 + 112;
/// The number of octets that the MAC of such a segment covers: SNE, IPv4 pseudo-header, segment.
pub const HASHED: usize = 16 + LENGTH;
/// The lengths of a segment without data, and of one that fills an IPv4 packet of 1500 octets.
pub const SHORT_AND_FULL: [usize; 2] = [20 + 16, 1500 - 20];
/// The number of segments signed at once.
pub const BATCH: usize = 16;

/// The ISNs of the two ends.
const ISNS: [Isn; 2] = [Isn(1000), Isn(5000)];

/// An MKT with this SendID and RecvID. Its master key is 32 times one letter, `id` places after "a".
#[must_use]
pub fn mkt(algorithm: TcpAoAlgorithm, id: u8) -> Mkt {
    let mkt = MasterKey::new(&[b'a' + id; 32]).and_then(|key| Mkt::new(KeyId(id), KeyId(id), algorithm, key));
    mkt.expect("32 octets are enough for all")
}

fn mkts(algorithm: TcpAoAlgorithm) -> MktSet<2> {
    MktSet::from_mkts([1, 2].map(|id| mkt(algorithm, id))).expect("two ids")
}

/// The socket pair of connection number `index`; each has its own address, and so its own traffic keys.
fn pair(index: u32) -> SocketPair {
    SocketPair {
        local: Endpoint::new(Ipv4Addr::from_bits(0x0a00_0000 + index), 50_000),
        remote: Endpoint::new(Ipv4Addr::new(192, 0, 2, 1), 179),
    }
}

/// An unsigned TCP segment from `pair.local` to `pair.remote`, with an AO option.
fn segment(
    algorithm: TcpAoAlgorithm,
    pair: &SocketPair,
    numbers: [u32; 2],
    flags: u8,
    payload: usize,
) -> Vec<u8> {
    let mut options = [0; 40];
    let length =
        append_ao(&mut options, 0, algorithm.default_mac_length()).expect("the option space is empty");
    tcp([pair.local.port(), pair.remote.port()], numbers, flags, &options[..length], payload)
}

/// A segment from `pair.local` to `pair.remote`.
fn parse<'a>(pair: &SocketPair, tcp: &'a [u8]) -> Segment<'a> {
    Segment::from_tcp(pair.local.address(), pair.remote.address(), tcp).expect("well-formed")
}

/// The two ends of an established connection, and the segments they sent.
struct Established {
    /// The end that signs.
    sender: Connection<2>,
    /// The end that verifies.
    receiver: Connection<2>,
    /// SYN, SYN-ACK, and a segment that the sender has signed and the receiver verified.
    sent: [Vec<u8>; 3],
}

impl Established {
    /// Connection number 0, with MKTs of its own and a segment of [`LENGTH`] octets.
    fn new(algorithm: TcpAoAlgorithm) -> Self {
        Self::with(algorithm, &mkts(algorithm), 0, LENGTH)
    }

    /// Runs the handshake of connection number `index`, and sends a segment of `length` octets, header included.
    fn with(algorithm: TcpAoAlgorithm, mkts: &MktSet<2>, index: u32, length: usize) -> Self {
        let pair = pair(index);
        let mut sender = Connection::active(pair, ISNS[0], mkts).expect("there is a key");
        let mut syn = segment(algorithm, &pair, [ISNS[0].0, 0], SYN, 0);
        sender.sign(&mut syn).expect("a SYN");
        let verified = mkts.verify_syn(parse(&pair, &syn)).expect("just signed");
        let mut receiver = Connection::passive(&verified);
        let mut syn_ack = segment(algorithm, &pair.reversed(), [ISNS[1].0, ISNS[0].0 + 1], SYN | ACK, 0);
        receiver.sign(&mut syn_ack).expect("a SYN-ACK");
        sender.verify(&parse(&pair.reversed(), &syn_ack)).expect("just signed");
        let header = segment(algorithm, &pair, [0, 0], ACK, 0).len();
        let mut tcp = segment(algorithm, &pair, [ISNS[0].0 + 1, ISNS[1].0 + 1], ACK, length - header);
        sender.sign(&mut tcp).expect("established");
        receiver.verify(&parse(&pair, &tcp)).expect("just signed");
        Self { sender, receiver, sent: [syn, syn_ack, tcp] }
    }

    /// The octets that the segment's MAC covers (RFC 5925 §5.1), assembled by hand, and the MAC.
    fn mac_input(&self) -> (Vec<u8>, Vec<u8>) {
        let pair = self.sender.pair();
        let tcp = &self.sent[2];
        let mut input = vec![0; 4];
        for end in [pair.local, pair.remote] {
            let IpAddr::V4(address) = end.address() else { unreachable!("the pairs are IPv4's") };
            input.extend_from_slice(&address.octets());
        }
        input.extend_from_slice(&[0, 6]);
        input.extend_from_slice(&(tcp.len() as u16).to_be_bytes());
        input.extend_from_slice(tcp);
        let ao = parse(&pair, tcp).ao_option().expect("well-formed").expect("signed");
        input[16 + 16..16 + 18].fill(0);
        input[16 + 20 + ao.offset + 4..][..ao.mac.len()].fill(0);
        (input, ao.mac.to_vec())
    }

    fn traffic_key(&self, algorithm: TcpAoAlgorithm) -> TrafficKeyOctets {
        TrafficKeyOctets::derive(
            &mkt(algorithm, 1),
            &KdfContext::send_other(self.sender.pair(), ISNS[0], ISNS[1]),
        )
    }
}

/// The packets of `connections` connections: their handshakes, then `segments` segments of each in turn, of [`LENGTH`] octets.
///
/// # Panics
/// If a signed segment does not verify.
#[must_use]
pub fn capture(algorithm: TcpAoAlgorithm, connections: u32, segments: u32) -> Vec<Vec<u8>> {
    let packet = |pair: SocketPair, tcp: &[u8]| match (pair.local.address(), pair.remote.address()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4(source, destination, tcp),
        _ => unreachable!("the pairs are IPv4's"),
    };
    let (mkts, mut packets, mut ends) = (mkts(algorithm), Vec::new(), Vec::new());
    for index in 0..connections {
        let established = Established::with(algorithm, &mkts, index, LENGTH);
        let pair = established.sender.pair();
        let [syn, syn_ack, tcp] = &established.sent;
        packets.extend([packet(pair, syn), packet(pair.reversed(), syn_ack), packet(pair, tcp)]);
        ends.push(established);
    }
    let payload = (LENGTH - segment(algorithm, &pair(0), [0, 0], ACK, 0).len()) as u32;
    for number in 1..segments {
        for Established { sender, .. } in &mut ends {
            let pair = sender.pair();
            let numbers = [ISNS[0].0 + 1 + number * payload, ISNS[1].0 + 1];
            let mut tcp = segment(algorithm, &pair, numbers, ACK, payload as usize);
            sender.sign(&mut tcp).expect("established");
            packets.push(packet(pair, &tcp));
        }
    }
    packets
}

/// The libraries besides Wireseal, each with a function that computes the MACs of all these segments one by one.
fn peers(algorithm: TcpAoAlgorithm, ends: &[Established]) -> impl Iterator<Item = Contender> + use<> {
    let inputs: Vec<_> = ends.iter().map(Established::mac_input).collect();
    assert!(inputs.iter().all(|(input, _)| input.len() == HASHED), "the titles say how much is hashed");
    let keys: Vec<_> = ends.iter().map(|ends| ends.traffic_key(algorithm)).collect();
    let inputs = Rc::new(inputs);
    // In TCP-AO, KMAC256 has a customization string and an output length, which the other library does not get here.
    let count = if algorithm.mac() == MacAlgorithm::Kmac256 { 0 } else { usize::MAX };
    mac::libraries(algorithm.mac()).into_iter().skip(1).take(count).map(move |library: Library| {
        let mut keyed: Vec<Keyed> = keys.iter().map(|key| library.with_key(key.expose_secret())).collect();
        for (mac, (input, signed)) in keyed.iter_mut().zip(inputs.iter()) {
            let compared = signed.len().min(12);
            let outputs = [("wireseal", &signed[..compared]), (library.name, &mac(&[input])[..compared])];
            assert_agree(algorithm, outputs);
        }
        let inputs = inputs.clone();
        Contender::new(library.name, move || {
            for (mac, (input, _)) in keyed.iter_mut().zip(inputs.iter()) {
                black_box(mac(&[black_box(input)]));
            }
        })
    })
}

/// Signing a segment of [`LENGTH`] octets; the peers compute the MAC over the same octets, in one slice.
#[must_use]
pub fn sign(algorithm: TcpAoAlgorithm) -> Vec<Contender> {
    let ends = [Established::new(algorithm)];
    let peers = peers(algorithm, &ends);
    let [Established { mut sender, sent: [.., tcp], .. }] = ends;
    // Many copies, so that signing one does not wait for the previous round's result.
    let (mut copies, mut turn) = (vec![tcp; 64], 0);
    let wireseal = Contender::new("wireseal", move || {
        turn = (turn + 1) % copies.len();
        sender.sign(black_box(&mut copies[turn])).expect("established");
    });
    [wireseal].into_iter().chain(peers).collect()
}

/// Signing a segment of each of [`BATCH`] connections; the peers compute the MACs one by one.
#[must_use]
pub fn sign_many(algorithm: TcpAoAlgorithm) -> Vec<Contender> {
    let mkts = mkts(algorithm);
    let ends: Vec<_> =
        (0..BATCH as u32).map(|index| Established::with(algorithm, &mkts, index, LENGTH)).collect();
    let peers = peers(algorithm, &ends);
    let (mut connections, signed): (Vec<_>, Vec<Vec<u8>>) =
        ends.into_iter().map(|Established { sender, sent: [.., tcp], .. }| (sender, tcp)).unzip();
    let mut sign = move |segments: &mut [Vec<u8>]| {
        let mut segments = segments.iter_mut().enumerate();
        let mut batch: [(usize, &mut [u8]); BATCH] = std::array::from_fn(|_| {
            let (index, tcp) = segments.next().expect("as many as connections");
            (index, &mut tcp[..])
        });
        sign_batch(&mut connections, black_box(&mut batch), |_, outcome| outcome.expect("established"));
    };
    let mut blank = signed.clone();
    // The MAC is at the end of the header, before the payload.
    blank.iter_mut().for_each(|tcp| tcp[24..36].fill(0));
    sign(&mut blank);
    assert_agree(algorithm, [("single segments", &signed), ("a batch", &blank)]);
    let (mut copies, mut turn) = (vec![signed; 4], 0);
    let wireseal = Contender::new("wireseal", move || {
        turn = (turn + 1) % copies.len();
        sign(&mut copies[turn]);
    });
    [wireseal].into_iter().chain(peers).collect()
}

/// The cost of signing a segment of [`LENGTH`] octets beyond its MAC: the MAC alone; parsing and MAC, with the head written block by block
/// or field by field; and signing.
#[must_use]
pub fn layers(algorithm: TcpAoAlgorithm) -> Vec<Contender> {
    type Way = fn(&MacKey, &Segment<'_>) -> Mac;
    fn input<'a>(segment: &'a Segment<'_>) -> MacInput<'a> {
        segment.mac_input(Sne(0), OptionCoverage::Covered).expect("signed")
    }
    let by_blocks: Way = |key, segment| key.mac(&input(segment).message(&mut MessageHead::new()));
    let by_fields: Way = |key, segment| {
        let mut head = MessageHead::new();
        let fields = input(segment).fields().filter(|field| field.name != FieldName::Payload);
        key.mac(&[head.concatenate(fields), segment.payload()])
    };
    let ends = Established::new(algorithm);
    let (octets, signed) = ends.mac_input();
    let new_key = || TrafficKey::new(&ends.traffic_key(algorithm));
    let contender = |name, compute: Box<dyn Fn() -> Mac>| {
        let computed = compute();
        assert_agree(algorithm, [("signing", &signed[..]), (name, &computed.as_bytes()[..signed.len()])]);
        Contender::new(name, move || drop(black_box(compute())))
    };
    let on_segment = |name, way: Way| {
        let (key, pair, tcp) = (new_key(), ends.sender.pair(), ends.sent[2].clone());
        contender(name, Box::new(move || way(key.mac_key(), &parse(&pair, black_box(&tcp)))))
    };
    let key = new_key();
    vec![
        contender("bare MAC", Box::new(move || key.mac_key().mac(&[black_box(&octets)]))),
        on_segment("head by blocks", by_blocks),
        on_segment("head by fields", by_fields),
        sign(algorithm).swap_remove(0).named("sign"),
    ]
}

/// Deriving a traffic key and preparing its MAC; and the same for a whole connection, with two MKTs.
#[must_use]
pub fn keys(algorithm: TcpAoAlgorithm) -> Vec<Contender> {
    let (mkt, context) = (mkt(algorithm, 1), KdfContext::send_other(pair(0), ISNS[0], ISNS[1]));
    let state = Established::new(algorithm).sender.export().expect("established");
    let mkts = mkts(algorithm);
    vec![
        Contender::new("one traffic key", move || {
            drop(black_box(TrafficKey::derive(&mkt, black_box(&context))));
        }),
        Contender::new("a connection with two MKTs", move || {
            drop(black_box(Connection::import(black_box(&state), &mkts)));
        }),
    ]
}

/// Verifying a segment of [`LENGTH`] octets and a SYN, good and forged.
///
/// # Panics
/// If a forged one verifies.
#[must_use]
pub fn verify(algorithm: TcpAoAlgorithm) -> Vec<Contender> {
    let mkts = mkts(algorithm);
    let ends = Established::with(algorithm, &mkts, 0, LENGTH);
    let pair = ends.sender.pair();
    let [syn, _, tcp] = ends.sent;
    let forged = |tcp: &[u8]| {
        let mut forged = tcp.to_vec();
        *forged.last_mut().expect("not empty") ^= 1;
        forged
    };
    let (forged_syn, forged_tcp) = (forged(&syn), forged(&tcp));
    let other = Established::with(algorithm, &mkts, 0, LENGTH).receiver;
    let of_connection = |name, mut receiver: Connection<2>, tcp: Vec<u8>, is_good| {
        Contender::new(name, move || {
            assert_eq!(receiver.verify(&parse(&pair, black_box(&tcp))).is_ok(), is_good);
        })
    };
    let of_mkts = |name, syn: Vec<u8>, is_good| {
        let mkts = mkts.clone();
        Contender::new(name, move || {
            assert_eq!(mkts.verify_syn(parse(&pair, black_box(&syn))).is_ok(), is_good);
        })
    };
    vec![
        of_connection("segment", ends.receiver, tcp, true),
        of_connection("forged segment", other, forged_tcp, false),
        of_mkts("SYN", syn, true),
        of_mkts("forged SYN", forged_syn, false),
    ]
}

/// Verifying a segment of [`LENGTH`] octets; the peers compute the MAC over the same octets, in one slice.
#[must_use]
pub fn verify_beside_peers(algorithm: TcpAoAlgorithm) -> Vec<Contender> {
    let peers = peers(algorithm, &[Established::new(algorithm)]);
    [verify(algorithm).swap_remove(0).named("wireseal")].into_iter().chain(peers).collect()
}

/// Verifying a segment of each of [`BATCH`] connections; the peers compute the MACs one by one.
///
/// # Panics
/// If a signed segment does not verify.
#[must_use]
pub fn verify_many(algorithm: TcpAoAlgorithm) -> Vec<Contender> {
    let mkts = mkts(algorithm);
    let ends: Vec<_> =
        (0..BATCH as u32).map(|index| Established::with(algorithm, &mkts, index, LENGTH)).collect();
    let peers = peers(algorithm, &ends);
    let (mut connections, sent): (Vec<_>, Vec<Vec<u8>>) =
        ends.into_iter().map(|Established { receiver, sent: [.., tcp], .. }| (receiver, tcp)).unzip();
    let wireseal = Contender::new("wireseal", move || {
        let segments: [_; BATCH] =
            std::array::from_fn(|index| (index, parse(&connections[index].pair().reversed(), &sent[index])));
        verify_batch(&mut connections, black_box(&segments), |_, verdict| assert!(verdict.is_ok(), "signed"));
    });
    [wireseal].into_iter().chain(peers).collect()
}

/// How many packets a router takes from its network card at once; Linux takes at most this many.
const POLLED: usize = 64;

/// Connections, and at least 1,000 segments in the order of arrival, at least one for each connection.
#[derive(Debug)]
pub struct Router {
    connections: Vec<Connection<2>>,
    arriving: Vec<(usize, Vec<u8>)>,
}

impl Router {
    /// `length` gives the length of a connection's segments by its index.
    ///
    /// # Panics
    /// If a signed segment does not verify.
    #[must_use]
    pub fn new(algorithm: TcpAoAlgorithm, count: usize, length: fn(usize) -> usize) -> Self {
        let mkts = mkts(algorithm);
        let ends = (0..count).map(|index| {
            let Established { receiver, sent: [.., tcp], .. } =
                Established::with(algorithm, &mkts, index as u32, length(index));
            (receiver, (index, tcp))
        });
        let (connections, segments): (Vec<_>, Vec<_>) = ends.unzip();
        let again = std::iter::repeat_n(segments, 1_000_usize.div_ceil(count));
        let mut arriving: Vec<(usize, Vec<u8>)> = again.flatten().collect();
        fastrand::Rng::with_seed(1).shuffle(&mut arriving);
        Self { connections, arriving }
    }

    /// Verifies every segment once, in order.
    pub fn one_by_one(&mut self) {
        for (index, tcp) in &self.arriving {
            let connection = &mut self.connections[*index];
            let pair = connection.pair().reversed();
            connection.verify(black_box(&parse(&pair, tcp))).expect("signed");
        }
    }

    /// Verifies every segment once, 64 at a time, like a router that takes many packets from its network card at once and prefetches the
    /// connections and headers of the next packets.
    pub fn in_batches(&mut self) {
        let mut chunks = self.arriving.chunks(POLLED).peekable();
        while let Some(arriving) = chunks.next() {
            for (index, tcp) in chunks.peek().copied().unwrap_or_default() {
                self.connections[*index].prefetch();
                prefetch(&tcp[..], SHORT_AND_FULL[0]);
            }
            let segments: [_; POLLED] = std::array::from_fn(|i| {
                let (index, tcp) = &arriving[i % arriving.len()];
                (*index, parse(&self.connections[*index].pair().reversed(), tcp))
            });
            verify_batch(&mut self.connections, black_box(&segments[..arriving.len()]), |_, verdict| {
                assert!(verdict.is_ok(), "signed");
            });
        }
    }
}

/// Runs two routers on two threads; each has half of the connections.
pub fn on_two_threads(halves: &Arc<[Mutex<Router>; 2]>) {
    thread::scope(|scope| {
        for half in halves.iter() {
            scope.spawn(|| half.lock().expect("no thread has panicked").in_batches());
        }
    });
}
