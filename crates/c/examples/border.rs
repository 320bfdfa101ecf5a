//! What the border between C and Rust costs for each QUIC packet: the functions that C calls, and the methods behind them, in turns.
//!
//! `cargo run --release -p wireseal-c --example border`

use std::hint::black_box;
use std::time::Instant;

use wireseal_aead::AeadAlgorithm;
use wireseal_c::*;
use wireseal_quic::Protected;
use wireseal_quic::hazmat::{HeaderKey, KeyOctets, PacketKey, PathId};
use wireseal_quic::{TrafficSecret, Version};

const PACKETS: u64 = 100;
const ROUNDS: usize = 10_000;
/// A short header with a connection ID of 8 octets and a packet number of two.
const PAYLOAD_OFFSET: usize = 11;

/// Memory for a handle.
#[repr(align(64))]
struct Memory([u8; WIRESEAL_QUIC_PACKET_KEY_SIZE]);
const _: () = assert!(align_of::<Memory>() == WIRESEAL_ALIGN);

fn main() {
    println!("| AEAD | octets | | C, ns | Rust, ns |");
    println!("| ---- | ------ | - | ----- | -------- |");
    for algorithm in [AeadAlgorithm::Aes128Gcm, AeadAlgorithm::ChaCha20Poly1305] {
        let secret = TrafficSecret::new(algorithm, &[7; 32]).expect("32 octets");
        let octets = KeyOctets::derive(Version::V1, &secret);
        let packet_key = PacketKey::new(algorithm, octets.key(), octets.iv()).expect("derived");
        let header_key = HeaderKey::new(algorithm, octets.header_protection_key()).expect("derived");

        let (mut for_packet_key, mut for_header_key) =
            (Memory([0; WIRESEAL_QUIC_PACKET_KEY_SIZE]), Memory([0; WIRESEAL_QUIC_PACKET_KEY_SIZE]));
        let (mut c_packet_key, mut c_header_key) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (number, size) = (algorithm.tls_cipher_suite().into(), size_of::<Memory>());
        let (memory, secret) = (for_packet_key.0.as_mut_ptr().cast(), [7; 32]);
        // SAFETY: all pointers lead to memory of the lengths given, which outlives the handles.
        unsafe {
            let made = wireseal_quic_packet_key_from_secret(
                memory,
                size,
                1,
                number,
                secret.as_ptr(),
                32,
                &raw mut c_packet_key,
            );
            assert_eq!(made, wireseal_status::Ok);
            let memory = for_header_key.0.as_mut_ptr().cast();
            let made = wireseal_quic_header_key_from_secret(
                memory,
                size,
                1,
                number,
                secret.as_ptr(),
                32,
                &raw mut c_header_key,
            );
            assert_eq!(made, wireseal_status::Ok);
        }

        for length in [64, 1200] {
            let mut packet = vec![0; PAYLOAD_OFFSET + length + AeadAlgorithm::TAG_LENGTH];
            let header = [0x41, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0];
            let draft = |packet: &mut [u8], number: u64| {
                packet[..PAYLOAD_OFFSET].copy_from_slice(&header);
                packet[9..PAYLOAD_OFFSET].copy_from_slice(&(number as u16).to_be_bytes());
            };
            let seal_in_c = |packet: &mut [u8], number| {
                draft(packet, number);
                // SAFETY: the keys are there, and the packet has its length.
                let sealed = unsafe {
                    wireseal_quic_seal(
                        c_packet_key,
                        c_header_key,
                        0,
                        number,
                        packet.as_mut_ptr(),
                        packet.len(),
                        PAYLOAD_OFFSET,
                    )
                };
                assert_eq!(sealed, wireseal_status::Ok);
            };
            let seal_in_rust = |packet: &mut [u8], number| {
                draft(packet, number);
                packet_key
                    .seal_packet(&header_key, PathId(0), number, packet, PAYLOAD_OFFSET)
                    .expect("sealed");
            };
            let open_in_c = |packet: &mut [u8], largest| {
                let mut opened = std::mem::MaybeUninit::<wireseal_quic_opened>::uninit();
                // SAFETY: as above; and there is a place for the result.
                let status = unsafe {
                    wireseal_quic_open(
                        c_packet_key,
                        c_header_key,
                        0,
                        packet.as_mut_ptr(),
                        packet.len(),
                        8,
                        largest,
                        0,
                        opened.as_mut_ptr(),
                    )
                };
                assert_eq!(status, wireseal_status::Ok);
                // SAFETY: it was opened, so the result was written.
                unsafe { opened.assume_init() }.number
            };
            let open_in_rust = |packet: &mut [u8], largest| {
                let (protected, _) = Protected::split_first(packet, 8).expect("a packet");
                let unmasked = header_key.unmask(protected, Some(largest)).expect("long enough");
                assert!(!unmasked.key_phase());
                unmasked.open_by(&packet_key, PathId(0)).expect("authentic").number
            };

            let mut other = packet.clone();
            for number in 1..300 {
                seal_in_c(&mut packet, number);
                seal_in_rust(&mut other, number);
                assert_eq!(packet, other);
                assert_eq!(open_in_c(&mut packet, number - 1), number);
                assert_eq!(open_in_rust(&mut other, number - 1), number);
                assert_eq!(packet, other);
            }

            let mut best = [f64::INFINITY; 4];
            // Opening changes the packet, so each is a copy: the same work on both sides.
            let mut sealed = packet.clone();
            seal_in_rust(&mut sealed, 7);
            for _ in 0..ROUNDS {
                let times = [
                    time(|number| seal_in_c(&mut packet, number)),
                    time(|number| seal_in_rust(&mut packet, number)),
                    time(|_| {
                        packet.copy_from_slice(&sealed);
                        black_box(open_in_c(&mut packet, 6));
                    }),
                    time(|_| {
                        packet.copy_from_slice(&sealed);
                        black_box(open_in_rust(&mut packet, 6));
                    }),
                ];
                best = std::array::from_fn(|i| best[i].min(times[i]));
            }
            println!("| {algorithm} | {length} | seal | {:.0} | {:.0} |", best[0], best[1]);
            println!("| | | open | {:.0} | {:.0} |", best[2], best[3]);
        }
        // SAFETY: they were made above, and are not used again.
        unsafe {
            wireseal_quic_packet_key_end(c_packet_key);
            wireseal_quic_header_key_end(c_header_key);
        }
    }
}

/// Nanoseconds for each of many packets.
fn time(mut packet: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    (0..PACKETS).for_each(&mut packet);
    start.elapsed().as_nanos() as f64 / PACKETS as f64
}
