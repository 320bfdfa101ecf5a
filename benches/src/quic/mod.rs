//! QUIC packet protection by several libraries with the same keys.
//!
//! Every packet has a short header: first octet, a connection ID of eight octets, a packet number of four. With each library, numbers are
//! counted and headers written and masked, so all produce the same packets, octet for octet.

mod direct;
mod library;
mod wireseal;

use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Mutex;

use wireseal_quic::AeadAlgorithm;

use library::{CONNECTION_ID, FIRST, Library, NUMBER, PAYLOAD};

pub(crate) use direct::aeads;
pub(crate) use library::Aead;

use crate::contender::{Contender, assert_agree};

/// The payloads that the benches seal and open, in octets.
pub const PAYLOADS: [usize; 5] = [64, 256, 1200, 1350, 1500];

/// A packet to seal, with `payload` octets of payload and room for its tag.
fn packet(payload: usize) -> Vec<u8> {
    let mut packet = vec![FIRST];
    packet.extend_from_slice(&CONNECTION_ID);
    packet.extend_from_slice(&[0; 4]);
    packet.extend((0..payload).map(|i| (i * 31) as u8));
    packet.extend_from_slice(&[0; AeadAlgorithm::TAG_LENGTH]);
    packet
}

fn all(algorithm: AeadAlgorithm) -> Vec<Library> {
    let mut libraries = vec![wireseal::keys(algorithm), wireseal::one_rtt(algorithm)];
    libraries.extend(direct::libraries(algorithm));
    libraries
}

/// Wireseal first, then the other libraries that have the AEAD, all with the keys of the same secret.
///
/// # Panics
/// If two of them seal or mask differently, or if one refuses a sealed packet or opens an altered one.
fn libraries(algorithm: AeadAlgorithm) -> Vec<Library> {
    static COMPARED: Mutex<Vec<AeadAlgorithm>> = Mutex::new(Vec::new());
    let mut compared = COMPARED.lock().expect("no comparison has panicked");
    if !compared.contains(&algorithm) {
        compare(algorithm, &mut all(algorithm));
        compared.push(algorithm);
    }
    // New instances, so that the numbers and failures of the comparison do not affect the timed ones.
    all(algorithm)
}

fn compare(algorithm: AeadAlgorithm, libraries: &mut [Library]) {
    for payload in (1..100).chain(PAYLOADS) {
        let plain = packet(payload);
        let sealed = libraries.iter_mut().map(|library| {
            let mut sealed = plain.clone();
            (library.seal)(&mut sealed);
            (library.name, sealed)
        });
        let sealed: Vec<_> = sealed.collect();
        assert_agree(format_args!("{algorithm}, {payload} octets sealed"), sealed.iter().cloned());
        let end = PAYLOAD + payload;
        for (Library { name, open, .. }, (_, sealed)) in libraries.iter_mut().zip(sealed) {
            let mut opened = sealed.clone();
            assert!(open(&mut opened), "{name} opens {payload} octets under {algorithm}");
            assert_eq!(opened[PAYLOAD..end], plain[PAYLOAD..end], "{name}");
            assert_eq!((opened[0], &opened[1..NUMBER]), (FIRST, &plain[1..NUMBER]), "{name}");
            for at in [0, 1, NUMBER, PAYLOAD - 1, PAYLOAD, end, end + 15] {
                let mut forged = sealed.clone();
                forged[at] ^= 1;
                assert!(!open(&mut forged), "{name} opens a packet altered at {at}");
            }
        }
    }
    let samples: Vec<[u8; 16]> =
        (0..100_u8).map(|i| std::array::from_fn(|j| i.wrapping_mul(37) ^ j as u8)).collect();
    for count in [1, 2, 15, 16, 17, 100] {
        let masks = libraries.iter_mut().filter_map(|library| {
            let mut made = vec![[0; 5]; count];
            library.masks.as_mut()?(&samples[..count], &mut made);
            made.iter_mut().for_each(|mask| mask[0] &= 0x1f);
            Some((library.name, made))
        });
        assert_agree(format_args!("{algorithm}, {count} masks"), masks);
    }
}

/// Sealing a packet: number, AEAD and header mask.
#[must_use]
pub fn seal(algorithm: AeadAlgorithm, payload: usize) -> Vec<Contender> {
    // One buffer for all: its address changes the time by a few percent.
    let packet = Rc::new(RefCell::new(packet(payload)));
    let contender = |Library { name, mut seal, .. }| {
        let packet = packet.clone();
        Contender::new(name, move || seal(black_box(&mut packet.borrow_mut())))
    };
    libraries(algorithm).into_iter().map(contender).collect()
}

/// Sealing a packet whose payload is already in place, or is copied there first, from one slice or eight.
///
/// # Panics
/// If the payload is empty.
#[must_use]
pub fn seal_copied(algorithm: AeadAlgorithm, payload: usize) -> Vec<Contender> {
    let contender = |(name, slices): (_, Option<usize>)| {
        let (mut packet, source) = (packet(payload), vec![0x5a; payload]);
        let Library { mut seal, .. } = libraries(algorithm).swap_remove(0);
        Contender::new(name, move || {
            if let Some(slices) = slices {
                let mut to = &mut packet[PAYLOAD..];
                for part in black_box(&source).chunks(payload.div_ceil(slices)) {
                    to.split_off_mut(..part.len()).expect("room for the payload").copy_from_slice(part);
                }
            }
            seal(black_box(&mut packet));
        })
    };
    [("in place", None), ("copied first", Some(1)), ("copied from 8 slices", Some(8))].map(contender).into()
}

/// Opening a packet: header mask, number and AEAD. Each round opens copies that were made before it.
#[must_use]
pub fn open(algorithm: AeadAlgorithm, payload: usize) -> Vec<Contender> {
    // As many as fit in the first-level cache.
    const COPIES: usize = 20;
    let mut libraries = libraries(algorithm);
    let mut sealed = packet(payload);
    (libraries[0].seal)(&mut sealed);
    let copies = Rc::new(RefCell::new(vec![sealed.clone(); COPIES]));
    let contender = |Library { name, mut open, .. }| {
        let (ours, for_rounds, sealed) = (copies.clone(), copies.clone(), sealed.clone());
        let mut turn = 0;
        let run = move || {
            turn = (turn + 1) % COPIES;
            assert!(open(black_box(&mut ours.borrow_mut()[turn])), "a copy opens once");
        };
        let prepare =
            move || for_rounds.borrow_mut().iter_mut().for_each(|copy| copy.copy_from_slice(&sealed));
        Contender::new(name, run).prepared(COPIES as u64, prepare)
    };
    libraries.into_iter().map(contender).collect()
}

/// Header protection masks alone, `count` at once.
#[must_use]
pub fn masks(algorithm: AeadAlgorithm, count: u8) -> Vec<Contender> {
    let samples: Rc<Vec<[u8; 16]>> = Rc::new((0..count).map(|i| [i; 16]).collect());
    let contender = |Library { name, masks, .. }| {
        let (mut masks, samples) = (masks?, samples.clone());
        let mut made = vec![[0; 5]; samples.len()];
        Some(Contender::new(name, move || masks(black_box(&samples), black_box(&mut made))))
    };
    libraries(algorithm).into_iter().filter_map(contender).collect()
}

/// Deriving the keys of one direction from a traffic secret, and dropping them.
#[must_use]
pub fn keys(algorithm: AeadAlgorithm) -> Vec<Contender> {
    let contender = |Library { name, keys, .. }| Some(Contender::new(name, keys?));
    libraries(algorithm).into_iter().filter_map(contender).collect()
}
