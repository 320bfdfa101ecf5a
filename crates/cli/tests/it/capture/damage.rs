//! Files that are not captures, truncated and damaged captures, and compressed ones.

use std::io::{self, Cursor, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use wireseal::capture::{CaptureError, Damage, Reader};

use super::formats::{
    MICROSECONDS, Order, block, enhanced_packet, interface, pcap, read, read_whole, record, section,
};
use crate::support::files::workspace_file;

fn small_pcap() -> Vec<u8> {
    let mut file = pcap(Order::Little, MICROSECONDS, 1);
    for number in 0..5 {
        file.extend(record(Order::Little, [number, 0], &vec![0x55; 3 * number as usize], 20));
    }
    file
}

fn small_pcapng() -> Vec<u8> {
    let mut file = [section(Order::Big), interface(Order::Big, 1, 0, None, 0)].concat();
    for number in 0..5 {
        file.extend(enhanced_packet(Order::Big, 0, number, &vec![0x55; 3 * number as usize], 20));
        file.extend(block(Order::Big, 0x0bad_cafe, b"unknown"));
    }
    file
}

#[test]
fn a_file_cut_at_any_octet_keeps_what_came_before() {
    for file in [small_pcap(), small_pcapng()] {
        let expected = read_whole(&file);
        assert_eq!(expected.len(), 5);
        let mut delivered = 0;
        for cut in 0..file.len() {
            let (packets, error) = read(&file[..cut]);
            assert_eq!(packets, expected[..packets.len()]);
            assert!(packets.len() >= delivered, "more octets give no fewer packets");
            delivered = packets.len();
            match error {
                None => assert!(cut > 0),
                Some(CaptureError::Empty) => assert_eq!(cut, 0),
                Some(CaptureError::UnknownFormat { start }) => {
                    assert!(cut < 4, "{cut}");
                    assert_eq!(start[..cut], file[..cut]);
                }
                Some(CaptureError::Damaged {
                    packet,
                    offset,
                    damage: Damage::Truncated { got, expected },
                }) => {
                    assert_eq!(packet, delivered as u64 + 1);
                    // Octets from the start of the truncated part to the end of the file.
                    assert_eq!(offset as usize + got, cut);
                    assert!(got < expected);
                }
                Some(error) => panic!("{error} at {cut}"),
            }
        }
        assert_eq!(delivered, 5 - usize::from(file.len() == small_pcap().len()));
    }
}

#[test]
fn the_error_names_packet_and_octet() {
    let file = small_pcap();
    let (_, error) = read(&file[..file.len() - 1]);
    // After the file's header of 24 octets: four records with 16 octets of header, and 0, 3, 6 and 9 octets.
    assert_eq!(
        error.unwrap().to_string(),
        "the capture is damaged at packet 5 (octet 106): the file ends after 27 of at least 28 octets"
    );
}

#[test]
fn impossible_lengths() {
    let whole = small_pcap();
    for length in [262_145_u32, 0x0100_0000, u32::MAX] {
        let mut file = whole.clone();
        // The length field of the second record.
        file[24 + 16 + 8..][..4].copy_from_slice(&length.to_le_bytes());
        let (packets, error) = read(&[file, vec![0; 300_000]].concat());
        assert_eq!(packets.len(), 1);
        let Some(CaptureError::Damaged { packet: 2, offset: 40, damage: Damage::Length(named) }) = error
        else {
            panic!("{error:?}");
        };
        assert_eq!(named, u64::from(length));
    }
    for length in [0_u32, 8, 29, 0x7fff_fffc] {
        let mut file = small_pcapng();
        let last = file.len() - 20 - block(Order::Big, 6, &[0; 48]).len();
        file[last + 4..][..4].copy_from_slice(&length.to_be_bytes());
        let (_, error) = read(&file);
        let Some(CaptureError::Damaged { packet: 5, damage: Damage::Length(named), .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(named, u64::from(length));
    }
}

#[test]
fn blocks_that_contradict_themselves() {
    let start = [section(Order::Little), interface(Order::Little, 1, 0, None, 0)].concat();
    let damage = |end: Vec<u8>| match read(&[start.clone(), end].concat()) {
        (packets, Some(CaptureError::Damaged { packet: 1, damage, .. })) if packets.is_empty() => damage,
        other => panic!("{other:?}"),
    };
    // More octets of packet than the block has.
    let mut bad = enhanced_packet(Order::Little, 0, 0, b"12345", 5);
    bad[20] = 200;
    assert!(matches!(damage(bad), Damage::Block(6)));
    // Lengths before and after that differ.
    let mut bad = enhanced_packet(Order::Little, 0, 0, b"12345", 5);
    *bad.last_mut().unwrap() = 1;
    assert!(matches!(damage(bad), Damage::Block(6)));
    let bad = enhanced_packet(Order::Little, 1, 0, b"12345", 5);
    assert!(matches!(damage(bad), Damage::Interface(1)));
    let bad = block(Order::Little, 3, &9_u32.to_le_bytes());
    assert!(matches!(damage(bad), Damage::Block(3)));
    let bad = block(Order::Little, 2, &[0; 4]);
    assert!(matches!(damage(bad), Damage::Block(2)));
    let mut section = section(Order::Little);
    section[12] = 2;
    assert!(matches!(damage(section), Damage::Version(2)));
}

#[test]
fn what_is_no_capture_is_named() {
    for file in [&b"GET / HTTP/1.1"[..], b"\x7fELF", b"{}", b"\0"] {
        let (_, error) = read(file);
        let Some(CaptureError::UnknownFormat { start }) = error else { panic!("{error:?}") };
        assert!(file.starts_with(&start[..file.len().min(4)]));
    }
    for path in ["/no/such/file", env!("CARGO_MANIFEST_DIR")] {
        let error = Reader::open(Path::new(path)).unwrap_err();
        assert!(matches!(error, CaptureError::Open { .. }), "{error:?}");
        assert!(error.to_string().starts_with(&format!("{path}: ")), "{error}");
    }
}

/// A disk that fails in the middle of a file.
#[test]
fn errors_of_the_system_are_passed_on() {
    struct Failing(Cursor<Vec<u8>>);
    impl io::Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("the disk has failed")),
                read => Ok(read),
            }
        }
    }
    let mut reader = Reader::new(Failing(Cursor::new(small_pcap())), None).unwrap();
    for _ in 0..5 {
        reader.next_packet().unwrap().unwrap();
    }
    let error = reader.next_packet().unwrap().unwrap_err();
    assert!(matches!(&error, CaptureError::Damaged { packet: 6, damage: Damage::Read(_), .. }));
    assert!(error.to_string().ends_with("the disk has failed"), "{error}");
}

const CAPTURE: &str = "tcp-ao/tests/data/captures/bird-ipv4-cmac.pcap";

pub fn gzip(octets: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(octets).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(octets: &[u8]) -> Vec<u8> {
    compress_to_vec(octets, CompressionLevel::Fastest)
}

/// A capture that hardly compresses, many times as long as a compressor's window.
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
pub fn gzip_and_zstd_hold_the_same_packets() {
    let file = workspace_file(CAPTURE);
    let expected = read_whole(&file);
    assert!(expected.len() > 40);
    let (first, second) = file.split_at(3000);
    let skippable = [&0x184d_2a53_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"abc"].concat();
    let packed = [
        gzip(&file),
        // Several members and frames, some of them empty, split in the middle of a packet.
        [gzip(first), gzip(b""), gzip(second)].concat(),
        zstd(&file),
        [zstd(first), skippable.clone(), zstd(second)].concat(),
        [skippable.clone(), zstd(&file), skippable].concat(),
        // Made by zstd 1.5, level 19, with a checksum.
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
            // Noise does not compress, so only the data of the truncated block is lost.
            assert!((packets.len() + 1) * 1016 + slack > cut, "{} packets of {cut} octets", packets.len());
        }
    }
}

#[test]
fn corrupt_data_are_found_by_their_checksum_at_the_latest() {
    let file = workspace_file(CAPTURE);
    let expected = read_whole(&file);
    for packed in [gzip(&file), workspace_file("cli/tests/data/captures/bird-ipv4-cmac.pcap.zst")] {
        // Not in the headers, because some of their fields do not affect the data.
        for place in (20..packed.len()).step_by(7) {
            let mut corrupt = packed.clone();
            corrupt[place] ^= 0x10;
            let (packets, error) = read(&corrupt);
            assert!(error.is_some(), "octet {place} of {}", packed.len());
            assert!(packets.len() <= expected.len() + 1);
        }
    }
}

/// Octets after the last member or frame are an error.
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
