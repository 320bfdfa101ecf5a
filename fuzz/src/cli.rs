//! Checks for the program: captures, and verification.

use std::convert::Infallible;
use std::io::{self, Cursor, Read};

use wireseal::capture::{Content, Packet, Reader, Scope, Time, annotate};
use wireseal::keys::from_argument;
use wireseal::verify::{SearchLimits, Verifier, VerifyEvent, VerifyOptions};
use wireseal_keys::Keys;

/// The maximum number of packets, which only compressed input can exceed.
const MOST_PACKETS: usize = 5000;
/// The length of the longest packet in octets.
const LONGEST_PACKET: usize = 262_144;

/// Returns a few octets at a time, as a pipe may.
struct Slow(Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(7);
        self.0.read(&mut buffer[..length])
    }
}

/// Reads a capture, all at once and slowly.
pub fn check_capture(file: &[u8]) {
    let length = file.len() as u64;
    let mut slow = Reader::new(Slow(Cursor::new(file.to_vec())), None);
    let mut reader = match Reader::new(Cursor::new(file.to_vec()), Some(length)) {
        Ok(reader) => reader,
        Err(error) => {
            let error = error.to_string();
            assert_eq!(slow.err().map(|error| error.to_string()), Some(error));
            return;
        }
    };
    let slow = slow.as_mut().expect("a file begins the same at any speed");
    let is_plain = !file.starts_with(&[0x1f, 0x8b]) && !is_zstd(file);
    let mut octets = 0;
    let mut packets = 0;
    let mut end = None;
    for number in 1..=MOST_PACKETS {
        match (reader.next_packet(), slow.next_packet()) {
            (Some(Ok(packet)), Some(Ok(again))) => {
                assert_eq!(packet.number, number as u64);
                packets = packet.number;
                assert!(packet.octets.len() <= packet.original_length.min(LONGEST_PACKET));
                let fields =
                    (packet.number, packet.time, packet.link_type, packet.octets, packet.original_length);
                assert_eq!(
                    fields,
                    (again.number, again.time, again.link_type, again.octets, again.original_length)
                );
                octets += packet.octets.len();
                assert!(!is_plain || octets <= file.len());
                let (held, whole) = match Content::of(&packet) {
                    Content::Tcp(segment) => (segment.octets.len(), segment.octets.len() + segment.missing),
                    _ => (0, 0),
                };
                // ERSPAN says that a frame was longer, but not how long.
                assert!(held <= packet.octets.len() && whole <= packet.original_length + 65_535);
            }
            (Some(Err(error)), Some(Err(again))) => {
                assert_eq!(error.to_string(), again.to_string());
                end = error.offset();
                assert!(reader.next_packet().is_none() && slow.next_packet().is_none());
                break;
            }
            (None, None) => break,
            (first, second) => panic!("{first:?} at once, but {second:?} slowly"),
        }
    }
    assert!(reader.progress().read <= length);
    if packets < MOST_PACKETS as u64 {
        check_copy(file, packets, end);
    }
}

/// Copies a capture with so many packets before `end`, with a comment on each, and counts those of the copy.
fn check_copy(file: &[u8], packets: u64, end: Option<u64>) {
    let mut copy = Vec::new();
    let comment = |_, text: &mut String| {
        text.push_str("a comment");
        Ok(())
    };
    let copied = annotate(Cursor::new(file.to_vec()), &mut copy, "the file's", end, comment).unwrap();
    assert_eq!(copied.packets, packets);
    let Ok(mut reader) = Reader::new(Cursor::new(copy), None) else { return assert_eq!(packets, 0) };
    let mut found = 0;
    while let Some(packet) = reader.next_packet() {
        // A block at the limit of what is read grows beyond it.
        let Ok(_) = packet else { return assert!(file.len() > 1 << 19) };
        found += 1;
    }
    assert_eq!(found, packets);
}

fn is_zstd(file: &[u8]) -> bool {
    let magic = file.first_chunk().map_or(0, |octets| u32::from_le_bytes(*octets));
    magic == 0xfd2f_b528 || magic & 0xffff_fff0 == 0x184d_2a50
}

/// A key that verifies the recorded session, one for some peers only, and one for short MACs.
const KEYS: [&str; 3] = [
    "send=100,recv=100,alg=aes-128-cmac-96,secret=first-secret",
    "send=7,recv=9,alg=hmac-sha-1-96,secret=another,peer=10.0.0.0/8",
    "send=100,recv=1,alg=hmac(sha256),secret=first-secret,mac=4,options=excluded",
];

/// LINKTYPE_RAW.
const RAW: u16 = 101;

/// The search limits for most inputs. With the program's limits, a segment that nothing explains takes tens of thousands of MACs, and a few
/// packets never reach them.
const LIMITS: SearchLimits = SearchLimits { searches: 5, size_searches: 1, sizes: 8, snes: 4 };

/// Verifies packets. The input is a line with a hint, then packets. Before each packet come two octets of its length, one of the seconds
/// since the previous packet, and one of how many octets are missing. About one input in a thousand is verified with the program's limits.
pub fn check_verification(input: &[u8]) {
    let (line, rest) = match input.iter().position(|octet| *octet == b'\n') {
        Some(place) => (&input[..place], &input[place + 1..]),
        None => (&[][..], input),
    };
    let line = String::from_utf8_lossy(line);
    let sum: usize = input.iter().map(|octet| usize::from(*octet)).sum();
    let options = VerifyOptions {
        isns: line.parse().into_iter().collect(),
        nat: line.parse().into_iter().collect(),
        keep_segments: true,
        limits: if sum.is_multiple_of(1024) { SearchLimits::default() } else { LIMITS },
        ..VerifyOptions::default()
    };
    check_packets(options, RAW, rest, |_| ());
}

/// Verifies packets in encapsulations. The input is two octets of link type, then packets as for [`check_verification`].
///
/// What is found in a packet must be in it, and with the encapsulations around it cut off, the rest must be missing.
pub fn check_encapsulation(input: &[u8]) {
    let Some((link_type, rest)) = input.split_first_chunk() else { return };
    let options = VerifyOptions { keep_segments: true, limits: LIMITS, ..VerifyOptions::default() };
    check_packets(options, u16::from_le_bytes(*link_type), rest, |packet| {
        let Content::Tcp(segment) = Content::of(packet) else { return };
        let start = (segment.octets.as_ptr() as usize).wrapping_sub(packet.octets.as_ptr() as usize);
        assert!(segment.octets.is_empty() || start + segment.octets.len() <= packet.octets.len());
        assert!(segment.scope.networks().count() <= Scope::DEPTH);
        // The same packet, less its last octet of the segment.
        let Some(recorded) = (start + segment.octets.len()).checked_sub(1) else { return };
        if segment.octets.is_empty() {
            return;
        }
        let cut = Packet { octets: &packet.octets[..recorded], ..*packet };
        match Content::of(&cut) {
            Content::Tcp(again) => assert!(again.missing > 0),
            Content::Fragment { .. } | Content::Other(_) | Content::Unreadable(_) => {}
        }
    });
}

/// Verifies packets of this link type, and passes each to `each_packet` before.
///
/// Every packet must be counted once, with a verdict or otherwise, and every segment must be in its connection's report.
fn check_packets(options: VerifyOptions, link_type: u16, mut rest: &[u8], each_packet: impl Fn(&Packet<'_>)) {
    let keys = KEYS.iter().flat_map(|text| from_argument(text).ok()?.keys().ok());
    let keys = Keys { keys: keys.flat_map(|keys| keys.keys).collect() };
    let mut verifier = Verifier::new(&keys, options);
    let (mut number, mut seconds, mut judged) = (0, 1_780_000_000, 0);
    let mut connections = Vec::new();
    let mut each = |event: VerifyEvent<'_>| {
        match event {
            VerifyEvent::Segment { .. } => judged += 1,
            VerifyEvent::Connection(connection) => connections.push(connection),
        }
        Ok::<_, Infallible>(())
    };
    while let Some(([high, low, wait, missing], octets)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(octets.len());
        let (octets, behind) = octets.split_at(length);
        rest = behind;
        number += 1;
        seconds += u64::from(*wait);
        let time = Some(Time::from_unix_nanoseconds(seconds * 1_000_000_000));
        let original_length = octets.len() + usize::from(*missing);
        let packet = Packet { number, time, link_type, octets, original_length };
        each_packet(&packet);
        let Ok(()) = verifier.packet(&packet, &mut each);
    }
    let Ok(totals) = verifier.finish(None, each);
    let segments: u64 = totals.counts.iter().sum();
    assert_eq!(segments, judged);
    let skipped = totals.fragments + totals.other + totals.unreadable;
    assert_eq!(segments + totals.reassembled + skipped, number);
    assert_eq!(totals.skipped.kinds().iter().map(|(_, packets)| packets).sum::<u64>(), skipped);
    assert_eq!(connections.len() as u64, totals.connections);
    let counted = connections.iter().flat_map(|connection| &connection.directions);
    assert_eq!(counted.flat_map(|direction| direction.counts).sum::<u64>(), segments);
    for connection in &connections {
        let counted: u64 = connection.directions.iter().flat_map(|direction| direction.counts).sum();
        assert_eq!(connection.segments.len() as u64 + connection.segments_left_out, counted);
        assert!(connection.diagnoses.iter().all(|diagnosis| !diagnosis.sentence().contains("first-secret")));
    }
}
