//! Damaged captures: every packet is counted once, nothing panics, and the run ends in time.

use std::convert::Infallible;

use proptest::prelude::*;
use wireseal::verify::report::Diagnosis;
use wireseal::verify::{SearchLimits, Verifier, VerifyEvent, VerifyOptions};

use crate::support::session::{
    ACK, Found, IPV4_KEY, IPV4_SESSION, IPV6_KEY, IPV6_SESSION, PSH, Recorded, Session, keys, packet,
    recorded, set_checksum, verify_with,
};

const KEYS: [&str; 3] = [
    IPV4_KEY,
    "send=7,recv=9,alg=hmac-sha-1-96,secret=another,peer=10.0.0.0/8",
    "send=100,recv=1,alg=hmac(sha256),secret=first-secret,mac=4,options=excluded",
];

fn options() -> VerifyOptions {
    VerifyOptions {
        nat: vec!["10.9.0.1=192.0.2.1".parse().unwrap(), "10.9.0.2:56969=192.0.2.1:7".parse().unwrap()],
        keep_segments: true,
        ..VerifyOptions::default()
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Flip { packet: usize, at: usize, with: u8 },
    Swap(usize, usize),
    Repeat(usize),
    Drop(usize),
    Cut { packet: usize, length: usize },
    Delay { packet: usize, seconds: u64 },
}

fn operation() -> impl Strategy<Value = Operation> {
    let packet = 0..40usize;
    prop_oneof![
        // Mostly in the headers.
        4 => (packet.clone(), 0..80usize, any::<u8>()).prop_map(|(packet, at, with)| Operation::Flip { packet, at, with }),
        1 => (packet.clone(), packet.clone()).prop_map(|(a, b)| Operation::Swap(a, b)),
        1 => packet.clone().prop_map(Operation::Repeat),
        1 => packet.clone().prop_map(Operation::Drop),
        1 => (packet.clone(), 0..80usize).prop_map(|(packet, length)| Operation::Cut { packet, length }),
        1 => (packet, 0..200u64).prop_map(|(packet, seconds)| Operation::Delay { packet, seconds }),
    ]
}

fn apply(packets: &mut Vec<Recorded>, operation: &Operation) {
    let count = packets.len().max(1);
    match *operation {
        Operation::Flip { packet, at, with } => {
            if let Some(octet) = packets.get_mut(packet % count).and_then(|(_, octets)| octets.get_mut(at)) {
                *octet ^= with;
            }
        }
        Operation::Swap(a, b) => {
            if !packets.is_empty() {
                packets.swap(a % count, b % count);
            }
        }
        Operation::Repeat(packet) => {
            packets.extend(packets.get(packet % count).cloned());
        }
        Operation::Drop(packet) => {
            if !packets.is_empty() {
                packets.remove(packet % count);
            }
        }
        Operation::Cut { packet, length } => {
            if let Some((_, octets)) = packets.get_mut(packet % count) {
                octets.truncate(length);
            }
        }
        Operation::Delay { packet, seconds } => {
            for (time, _) in packets.iter_mut().skip(packet % count) {
                *time += seconds * 1_000_000_000;
            }
        }
    }
}

fn changed(ipv6: bool, operations: &[Operation]) -> Vec<Recorded> {
    let mut packets = recorded(if ipv6 { IPV6_SESSION } else { IPV4_SESSION });
    operations.iter().for_each(|operation| apply(&mut packets, operation));
    packets
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Judging several segments at a time gives the same verdicts as one at a time.
    #[test]
    fn verdicts_do_not_depend_on_the_segments_judged_together(
        ipv6 in any::<bool>(),
        operations in prop::collection::vec(operation(), 0..12),
        before in 1..16_usize,
    ) {
        let mut packets = changed(ipv6, &operations);
        let keys = keys(&[if ipv6 { IPV6_KEY } else { IPV4_KEY }]);
        let mut verifier = Verifier::new(&keys, options());
        let mut one_by_one = Vec::new();
        let mut each = |event: VerifyEvent<'_>| {
            if let VerifyEvent::Segment { mut segment, .. } = event {
                segment.place.packet += before as u64;
                one_by_one.push(segment);
            }
            Ok::<_, Infallible>(())
        };
        for (number, recorded) in (1..).zip(&packets) {
            verifier.packet(&packet(number, recorded), &mut each).unwrap();
            verifier.judge_queued(&mut each).unwrap();
        }
        // Other segments come first, so that the batches begin elsewhere each time.
        let mut stranger = Session::usual([1000, 5000]);
        stranger.send_unsigned(0, ACK, &[], b"unsigned");
        // At the earliest time, because connections are given up in the order in which they were seen.
        let time = packets.iter().map(|(time, _)| *time).min().unwrap_or(0);
        packets.splice(0..0, vec![(time, stranger.packets.remove(0).1); before]);
        let together = Found::cut(&packets, &keys, options(), |_, length| length);
        prop_assert_eq!(&together.segments[before..], one_by_one);
    }

    #[test]
    fn every_packet_is_counted_once(
        ipv6 in any::<bool>(),
        operations in prop::collection::vec(operation(), 1..12),
    ) {
        let packets = changed(ipv6, &operations);
        let found = verify_with(&packets, &KEYS, options());
        let totals = &found.totals;
        let segments: u64 = totals.counts.iter().sum();
        prop_assert_eq!(totals.packets, packets.len() as u64);
        prop_assert_eq!(segments, found.segments.len() as u64);
        let skipped = totals.fragments + totals.other + totals.unreadable + totals.left_out;
        let others = skipped + totals.reassembled;
        prop_assert_eq!(segments + others, totals.packets);
        prop_assert_eq!(totals.connections, found.connections.len() as u64);
        let of_connections: u64 = found
            .connections
            .iter()
            .flat_map(|connection| &connection.directions)
            .flat_map(|direction| direction.counts)
            .sum();
        prop_assert_eq!(of_connections, segments);
        for connection in &found.connections {
            let kept = connection.segments.len() as u64 + connection.segments_left_out;
            let counted: u64 = connection.directions.iter().flat_map(|direction| direction.counts).sum();
            prop_assert_eq!(kept, counted);
            for diagnosis in &connection.diagnoses {
                let of_sender: u64 = connection.directions[diagnosis.sender as usize].counts.iter().sum();
                prop_assert!(diagnosis.segments > 0 && diagnosis.segments <= of_sender);
                prop_assert!(!diagnosis.sentence().contains("first-secret"));
            }
        }
    }
}

/// However many segments fail, only so many are searched, and what is said of the others is that they were not.
#[test]
fn of_many_connections_that_fail_some_are_not_searched() {
    const CONNECTIONS: u16 = 600;
    let mut template = Session::usual([1000, 5000]);
    template.signing[0].secret = b"another".to_vec();
    template.shake_hands();
    for _ in 0..4 {
        template.send(0, ACK | PSH, &[7; 1400]);
    }
    let keys = keys(&KEYS);
    let limits = SearchLimits { searches: 100, size_searches: 2, ..SearchLimits::default() };
    let mut verifier = Verifier::new(&keys, VerifyOptions { limits, ..VerifyOptions::default() });
    let (mut number, mut failed, mut not_searched) = (0, 0, 0);
    let mut each = |event: VerifyEvent<'_>| {
        match event {
            VerifyEvent::Segment { segment, .. } => failed += u64::from(segment.verdict.is_failure()),
            VerifyEvent::Connection(connection) => {
                let is_not_searched = |diagnosis: &Diagnosis| diagnosis.kind == "not-searched";
                not_searched += u16::from(connection.diagnoses.iter().any(is_not_searched));
            }
        }
        Ok::<_, Infallible>(())
    };
    for turn in 0..CONNECTIONS {
        for (time, octets) in &template.packets {
            number += 1;
            let mut octets = octets.clone();
            // Another port, so nothing verifies.
            let is_opener = octets[15] == 1;
            let place = if is_opener { 20 } else { 22 };
            octets[place..place + 2].copy_from_slice(&(turn + 1000).to_be_bytes());
            let addresses = if is_opener { template.addresses(0) } else { template.addresses(1) };
            set_checksum(addresses, &mut octets[20..]);
            verifier.packet(&packet(number, &(*time, octets)), &mut each).unwrap();
        }
    }
    let totals = verifier.finish(None, &mut each).unwrap();
    assert_eq!((totals.connections, failed), (CONNECTIONS.into(), number));
    assert!(not_searched > CONNECTIONS / 2, "{not_searched}");
}
