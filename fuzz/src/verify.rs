//! Checks for the verification of captures.

use std::convert::Infallible;

use wireseal::capture::{Packet, Time};
use wireseal::keys::{Keys, from_argument};
use wireseal::verify::{SearchLimits, Verifier, VerifyEvent, VerifyOptions};

/// A key that verifies the recorded session, one for some peers, and one for short MACs.
const KEYS: [&str; 3] = [
    "send=100,recv=100,alg=aes-128-cmac-96,secret=first-secret",
    "send=7,recv=9,alg=hmac-sha-1-96,secret=another,peer=10.0.0.0/8",
    "send=100,recv=1,alg=hmac(sha256),secret=first-secret,mac=4,options=excluded",
];

/// LINKTYPE_RAW.
const RAW: u16 = 101;

/// How much is tried on most inputs. With the program's limits, a segment that nothing explains takes tens of thousands of MACs, and
/// a few packets never reach them.
const LIMITS: SearchLimits = SearchLimits { searches: 5, size_searches: 1, sizes: 8, snes: 4 };

/// Verifies packets. The input has a line with a hint, then packets, each after two octets of its length, one of the seconds since
/// the last, and one of how many octets are missing. About one input of a thousand is verified with the program's limits.
///
/// Every packet is counted once, by a verdict or as something else, and every segment is in its connection's report.
pub fn check(input: &[u8]) {
    let (line, mut rest) = match input.iter().position(|octet| *octet == b'\n') {
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
        let packet = Packet { number, time, link_type: RAW, octets, original_length };
        let Ok(()) = verifier.packet(&packet, &mut each);
    }
    let Ok(totals) = verifier.finish(None, each);
    let segments: u64 = totals.counts.iter().sum();
    assert_eq!(segments, judged);
    assert_eq!(segments + totals.fragments + totals.other + totals.unreadable, number);
    assert_eq!(connections.len() as u64, totals.connections);
    let counted = connections.iter().flat_map(|connection| &connection.directions);
    assert_eq!(counted.flat_map(|direction| direction.counts).sum::<u64>(), segments);
    for connection in &connections {
        let counted: u64 = connection.directions.iter().flat_map(|direction| direction.counts).sum();
        assert_eq!(connection.segments.len() as u64 + connection.segments_left_out, counted);
        assert!(connection.diagnoses.iter().all(|diagnosis| !diagnosis.sentence().contains("first-secret")));
    }
}
