//! Prints how Wireseal compares with other libraries, and its layers with one another, as ratios.
//!
//! Contenders take turns in short rounds and each one's best round counts, so that what else the machine does falls on
//! all alike. Outputs are compared before anything is timed.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::Instant;

use wireseal_algorithms::{AeadAlgorithm, MacAlgorithm, TcpAoAlgorithm};
use wireseal_benches::quic::{self, MaskContender, PAYLOADS, PacketContender};
use wireseal_benches::{contenders, established, mkts, pair, segment};
use wireseal_quic::{Keys, OneRtt};
use wireseal_tcp_ao::shim::ShimSlot;
use wireseal_tcp_ao::{Connection, Isn, KdfContext, MasterKey, Segment, TrafficKey};

/// Rounds of which the best counts, and repetitions in each.
const ROUNDS: usize = 400;
const REPETITIONS: usize = 500;

type Timed<'a> = (&'a str, Box<dyn FnMut() + 'a>);

/// Nanoseconds that each takes once, at best.
fn alternate(timed: &mut [Timed<'_>]) -> Vec<f64> {
    let mut best = vec![f64::INFINITY; timed.len()];
    for _ in 0..ROUNDS {
        for ((_, run), best) in timed.iter_mut().zip(&mut best) {
            let start = Instant::now();
            (0..REPETITIONS).for_each(|_| run());
            *best = best.min(start.elapsed().as_nanos() as f64 / REPETITIONS as f64);
        }
    }
    best
}

/// A row of a table: nanoseconds of the first, ratios of the others to it.
fn row(title: &str, timed: &mut [Timed<'_>]) {
    let best = alternate(timed);
    print!("| {title} | {:.0} ns", best[0]);
    for (time, (name, _)) in best.iter().zip(timed.iter()).skip(1) {
        print!(" | {name} {:.2}", time / best[0]);
    }
    println!(" |");
}

fn main() {
    // A word on the command line leaves out the sections without it in their name.
    let only = std::env::args().nth(1).unwrap_or_default();
    let wanted = |section: &str| section.contains(&only);
    println!("Nanoseconds of the first of each row; of the others, how many times as long they take.\n");
    if wanted("mac") {
        println!("## MAC over one slice, key set up before\n");
        MacAlgorithm::ALL.into_iter().for_each(macs);
    }
    if wanted("segment") {
        println!(
            "\n## A TCP segment of 128 octets over IPv4: the bare MAC on the same octets, and the segment layer\n"
        );
        TcpAoAlgorithm::ALL.into_iter().for_each(segments);
    }
    if wanted("connection") {
        println!("\n## Per connection and per SYN: one traffic key and its MAC set up\n");
        TcpAoAlgorithm::ALL.into_iter().for_each(connections);
    }
    if wanted("quic seal") {
        println!("\n## Sealing a QUIC packet: number, AEAD and header mask; octets of payload\n");
        AeadAlgorithm::ALL.into_iter().for_each(|algorithm| packets(algorithm, true));
    }
    if wanted("quic open") {
        println!(
            "\n## Copying a QUIC packet and opening it: header mask, number and AEAD; octets of payload\n"
        );
        AeadAlgorithm::ALL.into_iter().for_each(|algorithm| packets(algorithm, false));
    }
    if wanted("quic masks") {
        println!("\n## QUIC header masks alone\n");
        AeadAlgorithm::ALL.into_iter().for_each(masks);
    }
    if wanted("quic initial") {
        println!("\n## QUIC Initial keys of both directions from a connection ID, set up and dropped\n");
        initial();
    }
    println!("\n## Sizes\n");
    println!("| connection with room for two MKTs | {} octets |", size_of::<Connection<2>>());
    println!("| connection with room for four MKTs | {} octets |", size_of::<Connection<4>>());
    println!("| place in a shim's table | {} octets |", size_of::<ShimSlot>());
    println!("| QUIC keys of one direction of a level | {} octets |", size_of::<Keys>());
    println!("| QUIC 1-RTT keys of both directions, present and next | {} octets |", size_of::<OneRtt>());
}

fn packets(algorithm: AeadAlgorithm, is_sealing: bool) {
    let mut contenders = quic::packet_contenders(algorithm);
    for payload in PAYLOADS {
        let mut sealed = quic::packet(payload);
        (contenders[0].seal)(&mut sealed);
        // One place for all, since where a packet lies decides over some hundredths of its time.
        let packet = RefCell::new(sealed.clone());
        let (packet, sealed) = (&packet, &sealed);
        let mut timed: Vec<Timed<'_>> = contenders
            .iter_mut()
            .map(|PacketContender { name, seal, open }| -> Timed<'_> {
                let run: Box<dyn FnMut()> = if is_sealing {
                    Box::new(move || seal(black_box(&mut packet.borrow_mut())))
                } else {
                    Box::new(move || {
                        packet.borrow_mut().copy_from_slice(sealed);
                        assert!(open(black_box(&mut packet.borrow_mut())));
                    })
                };
                (name, run)
            })
            .collect();
        row(&format!("{algorithm}, {payload} octets: wireseal"), &mut timed);
    }
}

fn masks(algorithm: AeadAlgorithm) {
    let mut contenders = quic::mask_contenders(algorithm);
    for count in [1, 16] {
        let samples: Vec<[u8; 16]> = (0..count).map(|i| [i; 16]).collect();
        let mut timed: Vec<Timed<'_>> = contenders
            .iter_mut()
            .map(|MaskContender { name, masks }| -> Timed<'_> {
                let mut made = vec![[0; 5]; samples.len()];
                let samples = &samples;
                (name, Box::new(move || masks(black_box(samples), black_box(&mut made))))
            })
            .collect();
        row(&format!("{algorithm}, {count} at once: wireseal"), &mut timed);
    }
}

fn initial() {
    let contenders = quic::initial_contenders();
    let mut timed: Vec<Timed<'_>> = contenders
        .iter()
        .map(|contender| -> Timed<'_> {
            (contender.name, Box::new(|| (contender.set_up)(black_box(&[0x5a; 8]))))
        })
        .collect();
    row("Initial keys: wireseal", &mut timed);
}

fn macs(algorithm: MacAlgorithm) {
    let contenders = contenders(algorithm);
    for length in [64, 164, 256, 1024, 1500] {
        let message = vec![0x5a; length];
        let mut timed: Vec<Timed<'_>> = contenders
            .iter()
            .map(|(name, contender)| -> Timed<'_> {
                (
                    name,
                    Box::new(|| {
                        black_box(contender(&[black_box(&message)]));
                    }),
                )
            })
            .collect();
        row(&format!("{}, {length} octets: wireseal", algorithm.name()), &mut timed);
    }
}

fn segments(algorithm: TcpAoAlgorithm) {
    const LENGTH: usize = 128;
    let pair = pair();
    let (source, destination) = (pair.local.address(), pair.remote.address());
    let mut ends = established(algorithm, LENGTH);
    let master_key = MasterKey::new(&[1; 32]).expect("32 octets");
    let key = TrafficKey::derive(algorithm, &master_key, &KdfContext::send_other(pair, Isn(1000), Isn(5000)));
    let signed = ends.tcp.clone();
    let parsed = Segment::from_tcp(source, destination, &signed).expect("well-formed");
    let ao = parsed.ao_option().expect("well-formed").expect("signed");
    let mut prefix = vec![0, 0, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 6, 0, LENGTH as u8];
    prefix.extend_from_slice(parsed.header());
    prefix[16 + 16..16 + 18].fill(0);
    prefix[16 + 20 + ao.offset + 4..][..ao.mac.len()].fill(0);
    let bare = key.mac_key().mac(&[&prefix, parsed.payload()]);
    assert_eq!(ao.mac, bare.truncated(ao.mac.len()), "the octets are those that were signed");
    let payload = parsed.payload();
    // Many copies, so that signing one does not wait for its own result of the round before.
    let mut ring = vec![ends.tcp.clone(); 64];
    let mut turn = 0;
    let (sender, receiver) = (&mut ends.sender, &mut ends.receiver);
    let mut timed: [Timed<'_>; 3] = [
        ("bare", Box::new(|| drop(black_box(key.mac_key().mac(&[black_box(&prefix), black_box(payload)]))))),
        (
            "sign",
            Box::new(|| {
                turn = (turn + 1) % ring.len();
                sender.sign(black_box(&mut ring[turn])).expect("established");
            }),
        ),
        (
            "verify",
            Box::new(|| {
                let segment =
                    Segment::from_tcp(source, destination, black_box(&signed)).expect("well-formed");
                receiver.verify(&segment).map(drop).expect("signed");
            }),
        ),
    ];
    row(&format!("{algorithm}: bare MAC"), &mut timed);
}

fn connections(algorithm: TcpAoAlgorithm) {
    let pair = pair();
    let (source, destination) = (pair.local.address(), pair.remote.address());
    let master_key = MasterKey::new(&[1; 32]).expect("32 octets");
    let context = KdfContext::send_other(pair, Isn(1000), Isn(5000));
    let state = established(algorithm, 128).sender.export().expect("established");
    let mkts = mkts(algorithm);
    let mut syn = segment(&pair, 1000, 0x02, algorithm.default_mac_length(), 0);
    Connection::active(pair, Isn(1000), &mkts).expect("a key").sign(&mut syn).expect("a SYN");
    let mut forged = syn.clone();
    *forged.last_mut().expect("not empty") ^= 1;
    let parse = |tcp| Segment::from_tcp(source, destination, tcp).expect("well-formed");
    let (good, forged) = (parse(&syn), parse(&forged));
    assert!(mkts.verify_syn(good).is_ok() && mkts.verify_syn(forged).is_err());
    let mut timed: [Timed<'_>; 4] = [
        (
            "key",
            Box::new(|| drop(black_box(TrafficKey::derive(algorithm, &master_key, black_box(&context))))),
        ),
        ("whole connection, two MKTs", Box::new(|| drop(black_box(Connection::import(&state, &mkts))))),
        ("good SYN", Box::new(|| assert!(mkts.verify_syn(black_box(good)).is_ok()))),
        ("forged SYN", Box::new(|| assert!(mkts.verify_syn(black_box(forged)).is_err()))),
    ];
    row(&format!("{algorithm}: one key"), &mut timed);
}
