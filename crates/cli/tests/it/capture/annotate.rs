//! Captures written again with comments: nothing else changes, whatever the format.

use std::fs;
use std::io::Cursor;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use wireseal::capture::{CaptureError, annotate as annotate_octets};

use super::damage::{gzip, zstd};
use super::formats::{
    MICROSECONDS, NANOSECONDS, Order, block, enhanced_packet, interface, pcap, read, read_whole, record,
    section,
};
use crate::support::files::{Files, set_mode};
use crate::support::program::{Run, wireseal, wireseal_reading};
use crate::support::session::{IPV4_KEY, IPV4_SESSION, Session, capture_path, session};

const EXCLUDED: &str = "send=100,recv=100,alg=aes-128-cmac-96,secret=first-secret,options=excluded";
const GOOD: &str = "wireseal: good (100, SNE 0)";
/// An Ethernet frame that is no IP packet.
const ARP: [u8; 18] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0];

/// The session's packets as Ethernet frames.
fn frames(session: &Session) -> Vec<Vec<u8>> {
    let head = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    session.packets.iter().map(|(_, packet)| [&head[..], packet].concat()).collect()
}

fn annotate(capture: &Path, output: &Path, key: &str) -> Run {
    let [capture, output] = [capture, output].map(|path| path.to_str().unwrap());
    wireseal(["verify", capture, "--key", key, "--annotate", output])
}

/// The comment of a file's first section, read by another library.
fn section_comment(file: &[u8]) -> String {
    let reader = PcapNgReader::new(file).unwrap();
    let mut comments = reader.section().options.iter().filter_map(|option| match option {
        SectionHeaderOption::Comment(comment) => Some(comment.to_string()),
        _ => None,
    });
    comments.next().unwrap()
}

/// The comments of its packets.
fn comments(file: &[u8]) -> Vec<Option<String>> {
    let mut reader = PcapNgReader::new(file).unwrap();
    let mut of_packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            of_packets.push(packet.options.iter().find_map(|option| match option {
                EnhancedPacketOption::Comment(comment) => Some(comment.to_string()),
                _ => None,
            }));
        }
    }
    of_packets
}

/// A pcapng file without the comments that begin with "wireseal", which come before all other options.
fn without_comments(order: Order, file: &[u8]) -> Vec<u8> {
    let u32_at = |at: usize| {
        let octets: [u8; 4] = file[at..at + 4].try_into().unwrap();
        (if matches!(order, Order::Big) { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) })
            as usize
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while at < file.len() {
        let (kind, length) = (u32_at(at), u32_at(at + 4));
        let body = &file[at + 8..at + length - 4];
        assert_eq!(u32_at(at + length - 4), length);
        let options_at = match kind {
            0x0a0d_0d0a => 16,
            2 | 6 => 20 + u32_at(at + 20).next_multiple_of(4),
            _ => body.len(),
        };
        let (before, options) = body.split_at(options_at);
        let rest = match options {
            [a, b, c, d, rest @ ..] if [*a, *b] == order.u16(1) && rest.starts_with(b"wireseal") => {
                let octets = [*c, *d];
                let value = if matches!(order, Order::Big) {
                    u16::from_be_bytes(octets)
                } else {
                    u16::from_le_bytes(octets)
                };
                &rest[usize::from(value).next_multiple_of(4)..]
            }
            options => options,
        };
        // The end of options, where there are no others.
        let rest = if rest == [0; 4] { &[] } else { rest };
        found.extend(block(order, kind as u32, &[before, rest].concat()));
        at += length;
    }
    found
}

#[test]
fn a_pcap_file_becomes_pcapng_with_the_same_packets() {
    let files = Files::new();
    let frames = frames(&session());
    for order in Order::BOTH {
        for magic in [MICROSECONDS, NANOSECONDS] {
            // Above the link type: a frame check sequence of 4 octets.
            let mut capture = pcap(order, magic, 0x2400_0001);
            capture.extend(record(order, [1_800_000_000, 7], &ARP, 60));
            for (number, frame) in (0..).zip(&frames) {
                capture.extend(record(order, [1_800_000_000, 999_999 - number], frame, frame.len() as u32));
            }
            let path = files.file("capture.pcap", &capture);
            let output = files.path("output.pcapng");
            assert_eq!(annotate(&path, &output, IPV4_KEY).code, 0);
            let written = fs::read(&output).unwrap();
            assert_eq!(read_whole(&written), read_whole(&capture));
            let (of_section, of_packets) = (section_comment(&written), comments(&written));
            assert!(of_section.contains(": all 6 segments are good\n6 segments: 6 good\n"), "{of_section}");
            assert_eq!(of_packets[0], None);
            assert!(of_packets[1..].iter().all(|comment| comment.as_deref() == Some(GOOD)), "{of_packets:?}");
            let resolution = if magic == NANOSECONDS { 9 } else { 6 };
            let interface: Vec<u8> =
                [order.u16(1), [0; 2]].concat().into_iter().chain(order.u32(65_535)).collect();
            let options = [
                &order.u16(9)[..],
                &order.u16(1),
                &[resolution, 0, 0, 0],
                &order.u16(13),
                &order.u16(1),
                &[4, 0, 0, 0],
                &[0; 4],
            ];
            let expected = block(order, 1, &[interface, options.concat()].concat());
            assert!(written.windows(expected.len()).any(|octets| octets == expected));
        }
    }
}

/// Other blocks, other options, sections in another byte order and packets without room for a comment stay as they are.
#[test]
fn a_pcapng_file_stays_as_it_is_but_for_the_comments() {
    let files = Files::new();
    let frames = frames(&session());
    for order in Order::BOTH {
        let old_packet = |frame: &[u8]| {
            let length = order.u32(frame.len() as u32);
            let head = [&order.u16(1)[..], &[0xff; 2], &[0; 8], &length, &length].concat();
            let padding = frame.len().next_multiple_of(4) - frame.len();
            block(order, 2, &[&head, frame, &[0; 3][..padding]].concat())
        };
        let capture = [
            section(order),
            interface(order, 1, 0, Some(9), 5),
            // Names, secrets of a decryption, custom blocks that may and may not be copied, and one that nobody knows, larger than memory
            // that is kept of any block.
            block(order, 4, &[1; 40]),
            block(order, 10, &[2; 61]),
            block(order, 0x0bad, &[3; 8]),
            block(order, 0x4000_0bad, &[4; 12]),
            block(order, 0x7fff_1234, &vec![5; 3_000_000]),
            interface(order, 1, 100_000, None, 0),
            enhanced_packet(order, 0, 1_800_000_000_000_000_001, &frames[0], 1500),
            block(order, 3, &[&order.u32(ARP.len() as u32)[..], &ARP].concat()),
            enhanced_packet(order, 1, 0xffff_ffff_ffff, &ARP, 18),
            old_packet(&frames[1]),
            block(order, 3, &[&order.u32(frames[2].len() as u32)[..], &frames[2]].concat()),
            block(order, 5, &[0; 12]),
            section(order),
            interface(order, 1, 0, Some(6), 0),
            enhanced_packet(order, 0, 7, &frames[3], frames[3].len() as u32),
            block(order, 5, &[0; 12]),
        ]
        .concat();
        let path = files.file("capture.pcapng", &capture);
        let output = files.path("output.pcapng");
        let run = annotate(&path, &output, IPV4_KEY);
        assert_eq!(run.code, 0, "{}", run.out);
        assert!(
            run.err.contains("1 packet without a comment: a Simple Packet Block has no room for one"),
            "{}",
            run.err
        );
        let written = fs::read(&output).unwrap();
        assert!(without_comments(order, &written) == capture);
        assert_eq!(written.len() - capture.len(), {
            let section = section_comment(&written).len().next_multiple_of(4) + 8;
            // The old packet had no options, so that it gets their end too.
            section + 3 * (GOOD.len().next_multiple_of(4) + 4) + 4
        });
    }
}

#[test]
fn the_reason_is_on_each_segment_that_failed() {
    let files = Files::new();
    let output = files.path("output.pcapng");
    let run = annotate(&capture_path(IPV4_SESSION), &output, EXCLUDED);
    assert_eq!(run.code, 1, "{}", run.err);
    let written = fs::read(&output).unwrap();
    let (section, of_packets) = (section_comment(&written), comments(&written));
    let failed: Vec<_> =
        of_packets.iter().flatten().filter(|comment| *comment != "wireseal: good (100, SNE 0)").collect();
    assert_eq!(of_packets.iter().flatten().count(), 34);
    assert_eq!(failed.len(), 2);
    for comment in failed {
        assert!(
            comment.starts_with("wireseal: bad MAC: each end covers the other TCP options with the MAC"),
            "{comment}"
        );
        assert!(comment.ends_with("correct the TCP option coverage of the key given here."), "{comment}");
    }
    assert!(section.contains(": 2 of 34 segments failed: each end covers"), "{section}");
    assert!(
        section.contains(
            "\n34 segments: 32 good, 2 bad MAC\n1 connection: 1 failed\noptions-coverage, 2 segments"
        ),
        "{section}"
    );
    // Neither the capture's nor the key's secret.
    assert!(!String::from_utf8_lossy(&fs::read(&output).unwrap()).contains("first-secret"));
}

/// What is not known of a segment is not said of it: two reasons in one direction, a connection that did not open, a missing start.
#[test]
fn comments_say_no_more_than_is_known() {
    let files = Files::new();
    let output = files.path("output.pcapng");
    let of = |session: &Session| {
        let records = frames(session).into_iter().zip(&session.packets).map(|(frame, (time, _))| {
            let time = [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32];
            record(Order::Little, time, &frame, frame.len() as u32)
        });
        let capture = [vec![pcap(Order::Little, NANOSECONDS, 1)], records.collect()].concat().concat();
        annotate(&files.file("capture.pcap", capture), &output, IPV4_KEY);
        comments(&fs::read(&output).unwrap()).into_iter().map(Option::unwrap).collect::<Vec<_>>()
    };
    let mut two_reasons = session();
    two_reasons.signing[0].mac_length = 16;
    two_reasons.send(0, 0x18, b"one");
    two_reasons.signing[0].mac_length = 12;
    two_reasons.send_unsigned(0, 0x18, &[], b"two");
    let found = of(&two_reasons);
    assert!(
        found[6].starts_with("wireseal: bad MAC: of 2 segments of 192.0.2.1:50000 that failed, 1 because: "),
        "{}",
        found[6]
    );
    assert!(
        found[7].starts_with(
            "wireseal: no TCP-AO option: of 2 segments of 192.0.2.1:50000 that failed, 1 because: "
        ),
        "{}",
        found[7]
    );

    let mut unanswered = Session::usual([1000, 5000]);
    let syn = unanswered.signed(0, 2, &[], &[]);
    unanswered.repeat(0, &syn, 4);
    let found = of(&unanswered);
    assert!(
        found[0].starts_with("wireseal: good (100, SNE 0); the connection did not open: "),
        "{}",
        found[0]
    );
    assert_eq!(found[1..], ["wireseal: good (100, SNE 0)"; 3]);
    // After the sentence about a SYN that fails, a sentence about the connection.
    let mut failed = Session::usual([1000, 5000]);
    failed.signing[0].mac_length = 16;
    let syn = failed.signed(0, 2, &[], &[]);
    failed.repeat(0, &syn, 4);
    let found = of(&failed);
    assert!(found[0].starts_with("wireseal: bad MAC: "), "{}", found[0]);
    assert!(found[0].contains(". The connection did not open: ") && !found[0].contains(".;"), "{}", found[0]);

    let mut late = session();
    late.send(0, 0x18, &[0; 100]);
    late.packets.drain(..6);
    let found = of(&late);
    assert!(found[0].starts_with("wireseal: not judged: ISN not seen: the capture "), "{}", found[0]);
}

#[test]
fn standard_input_and_compressed_captures_are_annotated_too() {
    let files = Files::new();
    let capture = fs::read(capture_path(IPV4_SESSION)).unwrap();
    let [from_file, output] = ["file.pcapng", "output.pcapng"].map(|name| files.path(name));
    assert_eq!(annotate(&capture_path(IPV4_SESSION), &from_file, IPV4_KEY).code, 0);
    let expected = fs::read(&from_file).unwrap();
    for octets in [capture.clone(), gzip(&capture), zstd(&capture)] {
        let arguments = ["verify", "-", "--key", IPV4_KEY, "--annotate", output.to_str().unwrap()];
        let run = wireseal_reading(arguments, &octets);
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(fs::read(&output).unwrap(), expected);
        let path = files.file("capture", &octets);
        assert_eq!(annotate(&path, &output, IPV4_KEY).code, 0);
        assert_eq!(fs::read(&output).unwrap(), expected);
    }
}

#[test]
fn what_comes_before_damage_is_annotated() {
    let files = Files::new();
    let capture = fs::read(capture_path(IPV4_SESSION)).unwrap();
    let (whole, output) = (read_whole(&capture), files.path("output.pcapng"));
    for cut in [10, 100, 2000] {
        let path = files.file("capture.pcap", &capture[..capture.len() - cut]);
        let run = annotate(&path, &output, IPV4_KEY);
        assert_eq!(run.code, 3, "{}", run.err);
        let written = read_whole(&fs::read(&output).unwrap());
        assert_eq!(written, whole[..written.len()]);
        assert_eq!(written.len(), read(&capture[..capture.len() - cut]).0.len());
        let said = format!("ends where the capture is damaged, after {} packets", written.len());
        assert!(run.err.contains(&said), "{}", run.err);
        assert!(section_comment(&fs::read(&output).unwrap()).contains("\nthe capture is damaged at packet "));
    }
}

/// Damage of a kind that only the reader of packets finds, and damage before the first packet.
#[test]
fn the_copy_ends_where_the_reader_found_damage() {
    let files = Files::new();
    let (order, output) = (Order::Little, files.path("output.pcapng"));
    let start = [section(order), interface(order, 1, 0, None, 0), block(order, 4, &[1; 40])].concat();
    let packet = enhanced_packet(order, 0, 7, &ARP, 18);
    let of_unknown_interface = enhanced_packet(order, 9, 7, &ARP, 18);
    let broken_interface = block(order, 1, &[0; 4]);
    for damage in [&packet[..20], &of_unknown_interface, &broken_interface] {
        for packets in 0..3 {
            let sound = [&start[..], &packet.repeat(packets)].concat();
            let path = files.file("capture.pcapng", [&sound, damage, &packet].concat());
            let run = annotate(&path, &output, IPV4_KEY);
            assert_eq!(run.code, 3, "{}", run.err);
            assert!(without_comments(order, &fs::read(&output).unwrap()) == sound);
        }
    }
}

/// Every octet changed in three ways: whatever the reader makes of the file, the copy has the same packets.
#[test]
fn copies_of_altered_files_have_the_packets_that_were_read() {
    let order = Order::Big;
    let pcapng = [
        section(order),
        interface(order, 1, 100, Some(6), 3),
        enhanced_packet(order, 0, 7, &ARP, 18),
        block(order, 3, &[&order.u32(5)[..], b"short"].concat()),
        block(order, 0x0bad_cafe, b"unknown"),
        enhanced_packet(order, 0, 8, b"odd", 1500),
    ]
    .concat();
    let pcap = [
        pcap(Order::Little, MICROSECONDS, 1),
        record(Order::Little, [1, 2], &ARP, 18),
        record(Order::Little, [3, 4], b"odd", 1500),
    ]
    .concat();
    let mut copies = 0;
    for file in [pcap, pcapng] {
        for (at, change) in (0..file.len()).flat_map(|at| [1, 0x80, 0xff].map(|change| (at, change))) {
            let mut file = file.clone();
            file[at] ^= change;
            let (packets, error) = read(&file);
            let end = error.as_ref().and_then(CaptureError::offset);
            let mut copy = Vec::new();
            let comment = |_, text: &mut String| {
                text.push_str("a comment");
                Ok(())
            };
            match annotate_octets(Cursor::new(file), &mut copy, "the file's", end, comment) {
                Ok(copied) => {
                    assert_eq!(copied.packets, packets.len() as u64, "octet {at} ^ {change:#x}");
                    // Nothing but damage before the first block leaves nothing.
                    let found = if copy.is_empty() { Vec::new() } else { read_whole(&copy) };
                    assert_eq!(found, packets, "octet {at} ^ {change:#x}");
                    copies += 1;
                }
                Err(refused) => assert!(packets.is_empty(), "octet {at} ^ {change:#x}: {refused}"),
            }
        }
    }
    assert!(copies > 500, "{copies}");
}

#[test]
fn a_file_that_cannot_be_written_changes_nothing() {
    let files = Files::new();
    let capture = files.file("capture.pcap", fs::read(capture_path(IPV4_SESSION)).unwrap());
    let (folder, link) = (files.path("folder"), files.path("link.pcapng"));
    fs::create_dir(&folder).unwrap();
    symlink("elsewhere", &link).unwrap();
    fs::hard_link(&capture, files.path("same.pcap")).unwrap();
    let before = fs::read_dir(files.path("")).unwrap().count();
    for (output, words) in [
        (capture.clone(), "this is the capture; name another file"),
        (files.path("same.pcap"), "this is the capture; name another file"),
        (folder.clone(), "not a regular file, so it is not replaced"),
        (link, "not a regular file, so it is not replaced"),
        (files.path("missing/output.pcapng"), "No such file or directory"),
    ] {
        let run = annotate(&capture, &output, IPV4_KEY);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
        assert!(run.err.contains(words) && run.err.contains(output.to_str().unwrap()), "{}", run.err);
    }
    for input in ["not a capture", ""] {
        let input = files.file("input", input);
        assert_eq!(annotate(&input, &files.path("output.pcapng"), IPV4_KEY).code, 2);
        fs::remove_file(input).unwrap();
    }
    assert_eq!(fs::read_dir(files.path("")).unwrap().count(), before);
    assert_eq!(fs::read(&capture).unwrap(), fs::read(capture_path(IPV4_SESSION)).unwrap());

    let keys = files.file("keys.toml", "[[key-chain]]\nname = \"core\"\n");
    let [input, output] = [&capture, &keys].map(|path| path.to_str().unwrap());
    for (arguments, words) in [
        (["--keys", output, "--annotate", output], "this is a key file; name another file"),
        (["--html", "one", "--annotate", "one"], "--html and --annotate name the same file"),
    ] {
        let run = wireseal(["verify", input, "--key", IPV4_KEY].into_iter().chain(arguments));
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
        assert!(run.err.contains(words), "{}", run.err);
    }

    let run = wireseal(["verify", "-i", "lo", "--key", IPV4_KEY, "--annotate", output]);
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains("'--interface <INTERFACE>' cannot be used with '--annotate <FILE>'"),
        "{}",
        run.err
    );

    // As private as the capture; an older file is replaced.
    let output = files.file("output.pcapng", "an older file");
    for mode in [0o600, 0o640] {
        set_mode(&capture, mode);
        assert_eq!(annotate(&capture, &output, IPV4_KEY).code, 0);
        assert_eq!(fs::metadata(&output).unwrap().mode() & 0o777, mode);
    }
}
