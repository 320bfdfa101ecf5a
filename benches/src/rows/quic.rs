//! Goals for QUIC: the AEAD with the header mask.

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

use crate::contenders::quic::{self, MaskContender, PacketContender};
use wireseal_quic::AeadAlgorithm::{self, Aes128Gcm, Aes256Gcm, ChaCha20Poly1305};

use super::row::{PEERS, Row, by_class};
use crate::timing::Timed;

/// The libraries that the goals for packets and for masks compare with.
const AEADS: &[&str] = &["boringssl", "ring", "aws-lc-rs"];
const MASKERS: &[&str] = &["ring", "aws-lc-rs"];

/// Packets with a payload of so many octets.
type Packets = fn(AeadAlgorithm, usize) -> Vec<Timed<'static>>;

pub(super) fn rows() -> Vec<Row> {
    const SEAL_128: &str = "AES-128-GCM seal + mask";
    let packets: [(_, _, Packets, _, _, _); 6] = [
        ("seal-128-1200", SEAL_128, seal, Aes128Gcm, 1200, by_class(0.65, 0.80)),
        ("seal-128-64", SEAL_128, seal, Aes128Gcm, 64, by_class(0.45, 0.45)),
        ("seal-128-1350", SEAL_128, seal, Aes128Gcm, 1350, by_class(0.62, 0.84)),
        ("open-128-1200", "AES-128-GCM open + unmask", open, Aes128Gcm, 1200, by_class(0.62, 0.82)),
        ("seal-256-1200", "AES-256-GCM seal + mask", seal, Aes256Gcm, 1200, by_class(0.70, 0.85)),
        (
            "seal-chacha20-1200",
            "ChaCha20-Poly1305 seal + mask",
            seal,
            ChaCha20Poly1305,
            1200,
            by_class(0.92, 0.85),
        ),
    ];
    let packets = packets.map(|(name, what, packets, algorithm, payload, goal)| {
        let partial = if payload % 16 == 0 { "" } else { " (a partial block)" };
        let title = format!("{what}, {payload} octets{partial}");
        let contenders = Box::new(move || packets(algorithm, payload));
        Row { name, title, peers: AEADS, goal, of: 1, contenders }
    });
    let masks = Row {
        name: "masks-chacha20",
        title: "ChaCha20 header mask, 16 at once, each".to_owned(),
        peers: MASKERS,
        goal: 0.25,
        of: MASKS,
        contenders: Box::new(|| masks(ChaCha20Poly1305)),
    };
    packets.into_iter().chain([masks]).collect()
}

/// How many masks are made at once.
const MASKS: usize = 16;

/// Whether a contender is Wireseal or has a column.
fn takes_part(name: &str) -> bool {
    name == "wireseal" || PEERS.contains(&name)
}

fn packets(algorithm: AeadAlgorithm) -> impl Iterator<Item = PacketContender> {
    quic::packet_contenders(algorithm).into_iter().filter(|contender| takes_part(contender.name))
}

fn seal(algorithm: AeadAlgorithm, payload: usize) -> Vec<Timed<'static>> {
    // One buffer for all: its address changes the time by some percent.
    let packet = Rc::new(RefCell::new(quic::packet(payload)));
    packets(algorithm)
        .map(|PacketContender { name, mut seal, .. }| {
            let packet = packet.clone();
            Timed::new(name, move || seal(black_box(&mut packet.borrow_mut())))
        })
        .collect()
}

/// Opens copies of one packet, made before each round.
fn open(algorithm: AeadAlgorithm, payload: usize) -> Vec<Timed<'static>> {
    // As many as fit the first-level cache.
    const COPIES: usize = 24;
    let mut contenders: Vec<_> = packets(algorithm).collect();
    let mut sealed = quic::packet(payload);
    (contenders[0].seal)(&mut sealed);
    let copies = Rc::new(RefCell::new(vec![sealed.clone(); COPIES]));
    let timed = contenders.into_iter().map(|PacketContender { name, mut open, .. }| {
        let (ours, for_rounds, sealed) = (copies.clone(), copies.clone(), sealed.clone());
        let mut turn = 0;
        let run = move || {
            turn = (turn + 1) % COPIES;
            assert!(open(black_box(&mut ours.borrow_mut()[turn])), "a copy opens once");
        };
        let prepare =
            move || for_rounds.borrow_mut().iter_mut().for_each(|copy| copy.copy_from_slice(&sealed));
        Timed::new(name, run).prepared(COPIES, prepare)
    });
    timed.collect()
}

fn masks(algorithm: AeadAlgorithm) -> Vec<Timed<'static>> {
    let samples: [[u8; 16]; MASKS] = std::array::from_fn(|i| [i as u8; 16]);
    quic::mask_contenders(algorithm)
        .into_iter()
        .filter(|contender| takes_part(contender.name))
        .map(|MaskContender { name, mut masks }| {
            let mut made = [[0; 5]; MASKS];
            Timed::new(name, move || masks(black_box(&samples), black_box(&mut made)))
        })
        .collect()
}
