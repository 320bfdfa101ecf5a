//! IP fragments: put together in any order, in tunnels too, and refused where they contradict each other.

use wireseal::capture::{Incomplete, Skipped};
use wireseal::verify::report::{Totals, Verdict};

use crate::support::session::{
    Found, IPV4_KEY, IPV4_SESSION, IPV6_KEY, IPV6_SESSION, Recorded, keys, recorded,
};
use crate::support::wrap::{frame, gre, ipv4, join, udp, vlan_frame, vxlan};

const RAW: u16 = 101;
const ETHERNET: u16 = 1;

/// A fragment of an IP packet: the octets `range` of its payload.
fn fragment(packet: &[u8], identification: u16, range: std::ops::Range<usize>) -> Vec<u8> {
    let header = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let payload = &packet[header..];
    let (content, is_last) = (&payload[range.clone()], range.end == payload.len());
    let mut octets = packet[..header].to_vec();
    if header == 20 {
        let length = (20 + content.len()) as u16;
        octets[2..4].copy_from_slice(&length.to_be_bytes());
        octets[4..6].copy_from_slice(&identification.to_be_bytes());
        let field = (range.start / 8) as u16 | if is_last { 0 } else { 0x2000 };
        octets[6..8].copy_from_slice(&field.to_be_bytes());
        octets.extend(content);
    } else {
        let field = (range.start as u16 | u16::from(!is_last)).to_be_bytes();
        let length = (8 + content.len()) as u16;
        octets[4..6].copy_from_slice(&length.to_be_bytes());
        let [a, b] = identification.to_be_bytes();
        let extension = [std::mem::replace(&mut octets[6], 44), 0, field[0], field[1], 0, 0, a, b];
        octets.extend(extension);
        octets.extend(content);
    }
    octets
}

/// A packet in fragments of this many octets.
fn fragments(packet: &[u8], identification: u16, size: usize) -> Vec<Vec<u8>> {
    let payload = packet.len() - if packet[0] >> 4 == 4 { 20 } else { 40 };
    let starts = (0..payload).step_by(size);
    starts.map(|start| fragment(packet, identification, start..payload.min(start + size))).collect()
}

/// A session whose packets are all replaced by what `change` makes of them, a microsecond apart.
fn changed(session: &[Recorded], change: impl Fn(&[u8], u16) -> Vec<Vec<u8>>) -> Vec<Recorded> {
    let change = |(number, (time, packet)): (u16, &Recorded)| {
        let time = *time;
        let pieces = change(packet, number).into_iter();
        (0..).zip(pieces).map(move |(after, piece)| (time + after * 1000, piece)).collect::<Vec<_>>()
    };
    (1..).zip(session).flat_map(change).collect()
}

fn found(link_type: u16, packets: &[Recorded], key: &str) -> Found {
    let found = Found::on(link_type, packets, &keys(&[key]));
    assert_counted(&found.totals);
    found
}

/// Each packet is counted once.
fn assert_counted(totals: &Totals) {
    let Totals { packets, counts, fragments, reassembled, other, unreadable, .. } = *totals;
    assert_eq!(
        counts.iter().sum::<u64>() + fragments + reassembled + other + unreadable,
        packets,
        "{totals:?}"
    );
    let skipped: u64 = totals.skipped.kinds().iter().map(|(_, packets)| packets).sum();
    assert_eq!(skipped, fragments + other + unreadable);
}

fn assert_skipped(found: &Found, expected: &[(Incomplete, u64)]) {
    let kinds: Vec<_> = found.totals.skipped.kinds();
    let expected: Vec<_> = expected
        .iter()
        .map(|(why, packets)| (Some(Skipped::Fragment { protocol: 6, why: *why }), *packets))
        .collect();
    assert_eq!(kinds, expected);
}

#[test]
fn fragments_are_put_together_in_any_order() {
    for (session, key) in [(IPV4_SESSION, IPV4_KEY), (IPV6_SESSION, IPV6_KEY)] {
        let session = recorded(session);
        for size in [8, 16, 24, 32] {
            let forward = changed(&session, |packet, number| fragments(packet, number, size));
            let backward = changed(&session, |packet, number| {
                fragments(packet, number, size).into_iter().rev().collect()
            });
            // Odd ones first.
            let mixed = changed(&session, |packet, number| {
                let all = fragments(packet, number, size);
                let half = |odd| all.iter().skip(odd).step_by(2).cloned();
                half(1).chain(half(0)).collect()
            });
            for packets in [forward, backward, mixed] {
                let found = found(RAW, &packets, key);
                found.assert_all_good(1);
                assert_eq!(found.segments.len(), session.len());
                assert_eq!(found.totals.reassembled as usize, packets.len() - session.len());
                assert!(!found.totals.is_incomplete());
            }
        }
    }
}

#[test]
fn fragments_of_and_in_tunnels_are_put_together() {
    let session = recorded(IPV4_SESSION);
    let tunnel = |packet: &[u8]| udp(0, 4789, &vxlan(5, &frame(packet)));
    let outer = changed(&session, |packet, number| {
        fragments(&tunnel(packet), number, 40).iter().map(|piece| vlan_frame(3, piece)).collect()
    });
    let inner = changed(&session, |packet, number| {
        fragments(packet, number, 24).iter().map(|piece| frame(&tunnel(piece))).collect()
    });
    let both = changed(&session, |packet, number| {
        let pieces = fragments(packet, number, 24);
        let tunnels = (0..).zip(&pieces).flat_map(|(place, piece)| {
            fragments(&ipv4(0, 47, &gre(0, 0x0800, &[], piece)), number * 16 + place, 16)
        });
        tunnels.map(|piece| frame(&piece)).collect()
    });
    for (packets, scope) in [(outer, "VLAN 3, VNI 5"), (inner, "VNI 5"), (both, "")] {
        let found = found(ETHERNET, &packets, IPV4_KEY);
        found.assert_all_good(1);
        assert_eq!(found.segments.len(), session.len());
        assert_eq!(found.connections[0].scope.to_string(), scope);
    }
}

/// The same identification in two VLANs, and from two senders.
#[test]
fn fragments_of_different_packets_are_not_mixed() {
    let session = recorded(IPV4_SESSION);
    let interleaved = changed(&session, |packet, _| {
        let [one, two] = [10, 20].map(|vlan| {
            let pieces = fragments(packet, 7, 32).into_iter();
            pieces.map(move |piece| vlan_frame(vlan, &piece)).collect::<Vec<_>>()
        });
        one.into_iter().zip(two).flat_map(|(one, two)| [one, two]).collect()
    });
    let found = found(ETHERNET, &interleaved, IPV4_KEY);
    found.assert_all_good(2);
    assert_eq!(found.segments.len(), 2 * session.len());
}

#[test]
fn copies_of_fragments_are_no_others() {
    let session = recorded(IPV4_SESSION);
    // Both sides of a bridge: each fragment twice in a row, or the whole packet again.
    let twice = changed(&session, |packet, number| {
        fragments(packet, number, 24).into_iter().flat_map(|piece| [piece.clone(), piece]).collect()
    });
    let again = changed(&session, |packet, number| {
        let pieces = fragments(packet, number, 24);
        [pieces.clone(), pieces].concat()
    });
    for packets in [twice, again] {
        let found = found(RAW, &packets, IPV4_KEY);
        found.assert_all_good(1);
        assert_eq!(found.segments.len(), session.len());
        assert!(!found.totals.is_incomplete());
    }
}

#[test]
fn fragments_without_the_others_are_counted() {
    let session = recorded(IPV4_SESSION);
    let (first, rest) = session.split_at(4);
    let lost = |without: usize| {
        let mut packets = first.to_vec();
        let mut pieces = fragments(&rest[0].1, 9, 16);
        pieces.remove(without);
        packets.extend(pieces.into_iter().map(|piece| (rest[0].0, piece)));
        packets
    };
    for without in 0..3 {
        let packets = lost(without);
        let found = found(RAW, &packets, IPV4_KEY);
        assert_eq!(found.count(Verdict::Good), 4);
        assert!(found.totals.is_incomplete());
        assert_skipped(&found, &[(Incomplete::Missing, packets.len() as u64 - 4)]);
    }
    // 59 seconds later the missing one is still in time; after 60 it is not.
    for (seconds, good, missing) in [(59, 5, 0), (60, 4, 3)] {
        let mut packets = lost(1);
        let late = fragments(&rest[0].1, 9, 16).swap_remove(1);
        packets.push((rest[0].0 + seconds * 1_000_000_000, late));
        let all = packets.len() as u64;
        let found = found(RAW, &packets, IPV4_KEY);
        assert_eq!(found.count(Verdict::Good), good, "{seconds}");
        let expected = if missing == 0 { vec![] } else { vec![(Incomplete::Missing, all - 4)] };
        assert_skipped(&found, &expected);
    }
}

/// RFC 5722 §4: the whole packet is dropped, with fragments that come later.
#[test]
fn fragments_that_overlap_are_refused() {
    let (time, packet) = recorded(IPV4_SESSION).swap_remove(4);
    let all = packet.len() - 20;
    let with = |ranges: &[std::ops::Range<usize>]| {
        let pieces = ranges.iter().map(|range| (time, fragment(&packet, 9, range.clone())));
        found(RAW, &pieces.collect::<Vec<_>>(), IPV4_KEY)
    };
    let whole = with(&[0..24, 24..all]);
    assert_eq!(whole.segments.len(), 1);
    for ranges in
        [[0..24, 16..32, 24..all], [0..24, 8..16, 24..all], [8..24, 0..24, 24..all], [24..all, 16..32, 0..24]]
    {
        let found = with(&ranges);
        assert_eq!(found.segments.len(), 0);
        assert_skipped(&found, &[(Incomplete::Overlap, 3)]);
    }
    // Other octets in the same place.
    let mut forged = fragment(&packet, 9, 0..24);
    forged[30] ^= 1;
    let packets = [forged, fragment(&packet, 9, 0..24), fragment(&packet, 9, 24..all)];
    let found = found(RAW, &packets.map(|packet| (time, packet)), IPV4_KEY);
    assert_skipped(&found, &[(Incomplete::Overlap, 3)]);
}

#[test]
fn fragments_with_impossible_lengths_are_refused() {
    let packet = ipv4(0, 6, &[0; 200]);
    let last_at = |place: u16| {
        let mut last = fragment(&packet, 9, 160..200);
        last[6..8].copy_from_slice(&place.to_be_bytes());
        last
    };
    let not_of_eight = {
        let mut piece = fragment(&packet, 9, 0..20);
        piece[6..8].copy_from_slice(&[0x20, 0]);
        piece
    };
    let first = fragment(&packet, 9, 0..24);
    for packets in [
        // Two ends; an end before another fragment; longer than any packet; not a multiple of eight; empty.
        vec![first.clone(), last_at(40), last_at(80)],
        vec![first.clone(), fragment(&packet, 9, 160..168), last_at(3)],
        vec![first.clone(), last_at(0x1fff)],
        vec![not_of_eight],
        vec![fragment(&packet, 9, 0..0)],
    ] {
        let count = packets.len() as u64;
        let packets: Vec<_> = packets.into_iter().map(|packet| (0, packet)).collect();
        let found = found(RAW, &packets, IPV4_KEY);
        assert_eq!(found.segments.len(), 0);
        assert_eq!(found.totals.fragments, count, "{:?}", found.totals);
    }
}

#[test]
fn fragments_that_the_capture_cut_off_are_counted() {
    let session = recorded(IPV4_SESSION);
    let packets = changed(&session[..1], |packet, number| fragments(packet, number, 24));
    let found = Found::cut(&packets, &keys(&[IPV4_KEY]), Default::default(), |index, length| {
        length - usize::from(index == 0)
    });
    assert_counted(&found.totals);
    // The rest of them can no longer be put together either.
    assert_skipped(&found, &[(Incomplete::CutOff, packets.len() as u64)]);
}

/// A flood of first fragments does not push out more than it must, and never grows without limit.
#[test]
fn few_packets_wait_at_a_time() {
    let (time, packet) = recorded(IPV4_SESSION).swap_remove(4);
    let flood = (0..5000).map(|number| (time, fragment(&packet, number, 0..24)));
    let mut packets: Vec<_> = flood.collect();
    // The newest 1,024 still wait; of these, one is completed.
    packets.push((time, fragment(&packet, 4900, 24..packet.len() - 20)));
    let found_of_flood = found(RAW, &packets, IPV4_KEY);
    assert_eq!(found_of_flood.segments.len(), 1);
    assert_skipped(&found_of_flood, &[(Incomplete::TooMany, 5000 - 1024), (Incomplete::Missing, 1023)]);
    // Long ones: 4 MiB wait.
    let long = join(&[&ipv4(0, 6, &[0; 60_000])]);
    let flood = (0..200).map(|number| (time, fragment(&long, number, 0..59_992)));
    let found = found(RAW, &flood.collect::<Vec<_>>(), IPV4_KEY);
    let most = (4 << 20) / 59_992;
    assert_skipped(&found, &[(Incomplete::TooMany, 200 - most), (Incomplete::Missing, most)]);
}

/// Headers count as well, and so does the list of the fragments.
#[test]
fn headers_of_fragments_count_for_the_limit() {
    let found = |flood: Vec<Recorded>| found(RAW, &flood, IPV6_KEY);
    let (time, packet) = recorded(IPV6_SESSION).swap_remove(4);
    let with_long_headers = |number| {
        let piece = fragment(&packet, number, 0..24);
        let mut options = vec![0; 2048];
        (options[0], options[1]) = (60, 255);
        let mut last = options.clone();
        last[0] = 44;
        let mut octets = join(&[&piece[..40], &options.repeat(27), &last, &piece[40..]]);
        octets[6] = 60;
        let length = (octets.len() - 40) as u16;
        octets[4..6].copy_from_slice(&length.to_be_bytes());
        octets
    };
    let most = (4 << 20) / (40 + 28 * 2048);
    let flood = (0..200).map(|number| (time, with_long_headers(number)));
    assert_skipped(
        &found(flood.collect()),
        &[(Incomplete::TooMany, 200 - most), (Incomplete::Missing, most)],
    );
}

/// IPv6 headers before the fragment header are those of the first fragment, and an atomic fragment is a whole packet (RFC 6946).
#[test]
fn extension_headers_around_fragments() {
    let session = recorded(IPV6_SESSION);
    let with_options = |packet: &[u8]| {
        let mut octets = join(&[&packet[..40], &[packet[6], 0, 1, 4, 0, 0, 0, 0], &packet[40..]]);
        octets[6] = 60;
        let length = (octets.len() - 40) as u16;
        octets[4..6].copy_from_slice(&length.to_be_bytes());
        octets
    };
    let before = changed(&session, |packet, number| {
        let pieces = fragments(packet, number, 24).into_iter();
        pieces.map(|piece| with_options(&piece)).collect()
    });
    let behind = changed(&session, |packet, number| fragments(&with_options(packet), number, 24));
    let atomic = changed(&session, |packet, number| vec![fragment(packet, number, 0..packet.len() - 40)]);
    let in_atomic = changed(&session, |packet, number| {
        let pieces = fragments(packet, number, 24).into_iter();
        pieces.map(|piece| fragment(&piece, number, 0..piece.len() - 40)).collect()
    });
    for packets in [before, behind, atomic, in_atomic] {
        let found = found(RAW, &packets, IPV6_KEY);
        found.assert_all_good(1);
        assert_eq!(found.segments.len(), session.len());
    }
}
