//! Compressed captures.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use wireseal::capture::{CaptureError, Damage};

use super::files::{MICROSECONDS, Order, pcap, read, read_whole, record};
use crate::support::files::workspace_file;

const CAPTURE: &str = "tcp-ao/tests/data/captures/bird-ipv4-cmac.pcap";

fn gzip(octets: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(octets).unwrap();
    encoder.finish().unwrap()
}

fn zstd(octets: &[u8]) -> Vec<u8> {
    compress_to_vec(octets, CompressionLevel::Fastest)
}

/// A capture that hardly compresses, of many times what a compressor looks back on.
fn noise() -> Vec<u8> {
    let mut state = 1_u32;
    let mut octets = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    let mut file = pcap(Order::Little, MICROSECONDS, 1);
    for _ in 0..1000 {
        let packet: Vec<_> = octets.by_ref().take(1000).collect();
        file.extend(record(Order::Little, [0, 0], &packet, 1000));
    }
    file
}

#[test]
fn gzip_and_zstd_hold_the_same_packets() {
    let file = workspace_file(CAPTURE);
    let expected = read_whole(&file);
    assert!(expected.len() > 40);
    let (first, second) = file.split_at(3000);
    let skippable = [&0x184d_2a53_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"abc"].concat();
    let packed = [
        gzip(&file),
        // Several members and frames, empty ones among them, split in the midst of a packet.
        [gzip(first), gzip(b""), gzip(second)].concat(),
        zstd(&file),
        [zstd(first), skippable.clone(), zstd(second)].concat(),
        [skippable.clone(), zstd(&file), skippable].concat(),
        // Of zstd 1.5, level 19, with a checksum.
        workspace_file("cli/tests/data/captures/bird-ipv4-cmac.pcap.zst"),
    ];
    for packed in packed {
        assert_eq!(read_whole(&packed), expected);
    }
}

#[test]
fn all_packets_before_the_end_of_a_cut_off_file_are_delivered() {
    let file = noise();
    let expected = read_whole(&file);
    for (packed, slack) in [(gzip(&file), 1 << 16), (zstd(&file), 1 << 18)] {
        assert_eq!(read_whole(&packed), expected);
        for cut in [packed.len() - 1, packed.len() - 5, packed.len() / 2, packed.len() / 5] {
            let (packets, error) = read(&packed[..cut]);
            let Some(CaptureError::Damaged { packet, damage, .. }) = error else { panic!("{error:?}") };
            assert!(matches!(damage, Damage::Compression(_)), "{damage}");
            assert_eq!(packet, packets.len() as u64 + 1);
            assert_eq!(packets, expected[..packets.len()]);
            // The noise is as long packed as not; what was packed in the block that is cut is lost.
            assert!((packets.len() + 1) * 1016 + slack > cut, "{} packets of {cut} octets", packets.len());
        }
    }
}

#[test]
fn corrupt_data_are_found_by_their_checksum_at_the_latest() {
    let file = workspace_file(CAPTURE);
    let expected = read_whole(&file);
    for packed in [gzip(&file), workspace_file("cli/tests/data/captures/bird-ipv4-cmac.pcap.zst")] {
        // Not in the headers, which have fields that mean nothing for the data.
        for place in (20..packed.len()).step_by(7) {
            let mut corrupt = packed.clone();
            corrupt[place] ^= 0x10;
            let (packets, error) = read(&corrupt);
            assert!(error.is_some(), "octet {place} of {}", packed.len());
            assert!(packets.len() <= expected.len() + 1);
        }
    }
}

/// What follows the last member is no capture's.
#[test]
fn garbage_behind_compressed_data_is_named() {
    let file = workspace_file(CAPTURE);
    for packed in [gzip(&file), zstd(&file)] {
        let (packets, error) = read(&[&packed, &b"garbage!"[..]].concat());
        assert_eq!(packets, read_whole(&file));
        assert!(
            matches!(error, Some(CaptureError::Damaged { damage: Damage::Compression(_), .. })),
            "{error:?}"
        );
    }
}
