//! Goals for TCP-AO and for bare MACs.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use crate::contenders::segment::{self, Established, HASHED, LENGTH};
use crate::contenders::{mac, one_time};
use wireseal_algorithms::{MacAlgorithm, TcpAoAlgorithm};
use wireseal_mac::MacKey;
use wireseal_tcp_ao::{Connection, sign_batch};

use super::row::{Row, by_class};
use crate::timing::Timed;

/// How many segments are signed at once.
pub(crate) const BATCH: usize = 16;
/// The octets of a long message.
const LONG: usize = 1024;
/// How many contexts take turns.
const CONTEXTS: usize = 10_000;

/// The libraries that the goals for AES-128-CMAC and for HMAC compare with.
const CMACS: &[&str] = &["aws-lc-rs", "rustcrypto", "openssl", "nettle"];
const HMACS: &[&str] = &["ring", "aws-lc-rs", "rustcrypto", "openssl", "nettle"];
/// The same for Poly1305.
const POLY1305S: &[&str] = &["rustcrypto", "openssl"];

pub(super) fn rows() -> Vec<Row> {
    let signing = [
        ("sign-cmac", TcpAoAlgorithm::Aes128Cmac, CMACS, 1, by_class(0.40, 0.55)),
        ("sign-16-cmac", TcpAoAlgorithm::Aes128Cmac, CMACS, BATCH, by_class(0.20, 0.25)),
        ("sign-sha1", TcpAoAlgorithm::HmacSha1, HMACS, 1, by_class(0.90, 0.92)),
        ("sign-sha256", TcpAoAlgorithm::LinuxHmacSha256, HMACS, 1, by_class(0.88, 0.95)),
        ("sign-16-sha1", TcpAoAlgorithm::HmacSha1, HMACS, BATCH, 0.65),
        ("sign-16-sha256", TcpAoAlgorithm::LinuxHmacSha256, HMACS, BATCH, by_class(0.62, 0.65)),
    ];
    let signing = signing.map(|(name, algorithm, peers, of, goal)| {
        let mac = algorithm.mac().name();
        let title = match of {
            1 => format!("TCP-AO sign, 128 octets after the header (164 to hash), {mac}"),
            _ => format!("TCP-AO sign, 16 such segments of 16 connections (peers one by one), {mac}, each"),
        };
        let contenders = move || if of == 1 { sign(algorithm) } else { sign_many(algorithm) };
        Row { name, title, peers, goal, of, contenders: Box::new(contenders) }
    });
    let hmacs = [("hmac-sha1-1024", MacAlgorithm::HmacSha1), ("hmac-sha256-1024", MacAlgorithm::HmacSha256)];
    let hmacs = hmacs.map(|(name, algorithm)| {
        let title = format!("{}, {LONG} octets", algorithm.name());
        let contenders = Box::new(move || bare(algorithm));
        Row { name, title, peers: HMACS, goal: 1.0, of: 1, contenders }
    });
    let poly1305s = [("poly1305-64", 64, 0.6), ("poly1305-1024", LONG, by_class(0.90, 0.90))];
    let poly1305s = poly1305s.map(|(name, length, goal)| {
        let title = format!("Poly1305 one-shot, {length} octets");
        Row { name, title, peers: POLY1305S, goal, of: 1, contenders: Box::new(move || poly1305(length)) }
    });
    let contexts = Row {
        name: "contexts-cmac",
        title: "AES-128-CMAC, 164 octets, 10,000 contexts in turn against one".to_owned(),
        peers: &[],
        goal: 2.0,
        of: 1,
        contenders: Box::new(contexts),
    };
    signing.into_iter().chain(hmacs).chain(poly1305s).chain([contexts]).collect()
}

/// The peers with a connection's key, after checking that each makes the MAC of its segment.
fn peers(algorithm: TcpAoAlgorithm, ends: &Established) -> Vec<(&'static str, mac::Contender)> {
    let (input, expected) = (ends.mac_input(), ends.mac());
    assert_eq!(input.len(), HASHED, "the titles say how much is hashed");
    let key = segment::traffic_key(algorithm, ends.sender.pair());
    let libraries = mac::libraries(algorithm.mac());
    libraries[1..]
        .iter()
        .map(|library| {
            let mut contender = library.with_key(key.expose_secret());
            assert!(contender(&[&input]).starts_with(&expected), "{} signs differently", library.name);
            (library.name, contender)
        })
        .collect()
}

/// Signs a segment; the peers compute the MAC over the same octets, in one slice.
pub(crate) fn sign(algorithm: TcpAoAlgorithm) -> Vec<Timed<'static>> {
    let ends = segment::established(algorithm, LENGTH);
    let input = ends.mac_input();
    let mut timed: Vec<Timed<'static>> = peers(algorithm, &ends)
        .into_iter()
        .map(|(name, mut contender)| {
            let input = input.clone();
            Timed::new(name, move || {
                black_box(contender(&[black_box(&input)]));
            })
        })
        .collect();
    let mut sender = ends.sender;
    // Many copies, so that signing one does not wait for the result of the round before.
    let mut copies = vec![ends.tcp; 64];
    let mut turn = 0;
    let ours = move || {
        turn = (turn + 1) % copies.len();
        sender.sign(black_box(&mut copies[turn])).expect("established");
    };
    timed.insert(0, Timed::new("wireseal", ours));
    timed
}

/// Signs a segment of each of 16 connections; the peers compute one MAC after another.
pub(crate) fn sign_many(algorithm: TcpAoAlgorithm) -> Vec<Timed<'static>> {
    let mkts = segment::mkts(algorithm);
    let ends: Vec<Established> =
        (0..BATCH as u32).map(|index| Established::new(algorithm, &mkts, index, LENGTH)).collect();
    let inputs: Vec<Vec<u8>> = ends.iter().map(Established::mac_input).collect();
    let inputs = Rc::new(inputs);
    let mut by_library: Vec<(&'static str, Vec<mac::Contender>)> = Vec::new();
    for ends in &ends {
        for (name, contender) in peers(algorithm, ends) {
            match by_library.iter_mut().find(|(known, _)| *known == name) {
                Some((_, contenders)) => contenders.push(contender),
                None => by_library.push((name, vec![contender])),
            }
        }
    }
    let mut timed: Vec<Timed<'static>> = by_library
        .into_iter()
        .map(|(name, mut contenders)| {
            let inputs = inputs.clone();
            Timed::new(name, move || {
                for (contender, input) in contenders.iter_mut().zip(inputs.iter()) {
                    black_box(contender(&[black_box(input)]));
                }
            })
        })
        .collect();
    timed.insert(0, Timed::new("wireseal", ours_signing_many(ends)));
    timed
}

fn ours_signing_many(ends: Vec<Established>) -> impl FnMut() + 'static {
    let (mut connections, signed): (Vec<Connection<2>>, Vec<Vec<u8>>) =
        ends.into_iter().map(|ends| (ends.sender, ends.tcp)).unzip();
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
    assert_eq!(blank, signed, "a batch and single segments are signed alike");
    let mut copies = vec![signed; 4];
    let mut turn = 0;
    move || {
        turn = (turn + 1) % copies.len();
        sign(&mut copies[turn]);
    }
}

/// The MAC of a long message, without a segment around it.
fn bare(algorithm: MacAlgorithm) -> Vec<Timed<'static>> {
    let message = Rc::new(vec![0x5a; LONG]);
    mac::contenders(algorithm)
        .into_iter()
        .map(|(name, mut contender)| {
            let message = message.clone();
            Timed::new(name, move || {
                black_box(contender(&[black_box(&message)]));
            })
        })
        .collect()
}

fn poly1305(length: usize) -> Vec<Timed<'static>> {
    let message = Rc::new(vec![0x5a; length]);
    one_time::contenders()
        .into_iter()
        .map(|(name, mut contender)| {
            let message = message.clone();
            Timed::new(name, move || {
                black_box(contender(black_box(&[7; 32]), black_box(&message)));
            })
        })
        .collect()
}

/// The same MAC under 10,000 keys in random order, and under one of them.
fn contexts() -> Vec<Timed<'static>> {
    assert!(mac::libraries(MacAlgorithm::Aes128Cmac).len() > 1, "the outputs were compared");
    let key = |index: usize| MacKey::aes_128_cmac(&(index as u128).to_be_bytes());
    let keys: Rc<Vec<MacKey>> = Rc::new((0..CONTEXTS).map(key).collect());
    let mut order: Vec<usize> = (0..CONTEXTS).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let message = Rc::new(RefCell::new(vec![0x5a_u8; HASHED]));
    let timed = |name, keys: Rc<Vec<MacKey>>, order: Vec<usize>| {
        let message = message.clone();
        let mut turn = 0;
        Timed::new(name, move || {
            let index = order[turn];
            turn = if turn + 1 == order.len() { 0 } else { turn + 1 };
            black_box(keys[index].mac(&[black_box(&message.borrow())]));
        })
        .rounds_of(CONTEXTS)
    };
    vec![timed("wireseal", keys.clone(), order), timed("itself, hot", keys, vec![0; CONTEXTS])]
}
