//! Captures from both sides of a device: one segment with one MAC, before and after something was changed; and captures that only
//! look like it.

use wireseal::verify::report::Verdict;
use wireseal_tcp_ao::{Endpoint, OptionCoverage, Segment};

use crate::support::generate::ip_packet;
use crate::support::session::{
    ACK, Found, IPV4_KEY, Recorded, SYN, Session, Signing, session, set_checksum, verify, without_ao,
};

/// The packets, and each of them again after so many nanoseconds with a change.
fn on_both_sides(
    packets: &[Recorded],
    later: u64,
    change: impl Fn(bool, &mut [Endpoint; 2], &mut [u8]),
) -> Vec<Recorded> {
    let mut both = packets.to_vec();
    let opener = Segment::parse(&packets[0].1).unwrap().source();
    for (time, packet) in packets {
        let segment = Segment::parse(packet).unwrap();
        let (mut ends, mut tcp) = ([segment.source(), segment.destination()], segment.tcp().to_vec());
        change(segment.source() == opener, &mut ends, &mut tcp);
        tcp[..2].copy_from_slice(&ends[0].port().to_be_bytes());
        tcp[2..4].copy_from_slice(&ends[1].port().to_be_bytes());
        let addresses = (ends[0].address(), ends[1].address());
        set_checksum(addresses, &mut tcp);
        both.push((time + later, ip_packet(addresses, &tcp)));
    }
    both.sort_by_key(|(time, _)| *time);
    both
}

const MICROSECOND: u64 = 1000;

fn translated(outside: Endpoint) -> impl Fn(bool, &mut [Endpoint; 2], &mut [u8]) {
    move |is_opener, ends, _| ends[usize::from(!is_opener)] = outside
}

#[track_caller]
fn assert_rewritten(found: &Found, words: &[&str]) {
    let of: Vec<_> = found.connections[1].diagnoses.iter().collect();
    assert_eq!(
        of.iter().map(|diagnosis| diagnosis.kind).collect::<Vec<_>>(),
        ["addresses-rewritten"; 2],
        "{of:#?}"
    );
    for word in words {
        assert!(of.iter().all(|diagnosis| diagnosis.sentence().contains(word)), "{word:?}: {of:#?}");
    }
}

#[test]
fn addresses_are_translated_between_two_places() {
    let packets = session().packets;
    let outside = translated(Endpoint::new([198, 51, 100, 1], 50_000));
    let found = verify(&on_both_sides(&packets, MICROSECOND, outside), &[IPV4_KEY]);
    assert_eq!((found.count(Verdict::Good), found.count(Verdict::BadMac)), (6, 6));
    let words = [
        "connection 2 has the same ISNs and MACs as connection 1 under other addresses: addresses are translated on the path.",
        "RFC 5925 §9.2",
        "take the NAT out of the path",
    ];
    assert_rewritten(&found, &words);
    let last = found.last_line(&[IPV4_KEY]);
    assert!(last.starts_with("6 of 12 segments failed: connection 2 has the same ISNs and MACs"), "{last}");
    let outside = translated(Endpoint::new([192, 0, 2, 1], 61_000));
    let found = verify(&on_both_sides(&packets, MICROSECOND, outside), &[IPV4_KEY]);
    assert_rewritten(&found, &["under other ports: ports are translated on the path."]);
    // With a wrong key neither connection verifies, and what is seen remains true.
    let wrong = IPV4_KEY.replace("first-secret", "second-secret");
    let outside = translated(Endpoint::new([198, 51, 100, 1], 50_000));
    let found = verify(&on_both_sides(&packets, MICROSECOND, outside), &[&wrong]);
    assert_rewritten(
        &found,
        &["translated on the path, and neither of them verifies", "compare the secrets"],
    );
}

/// Beside a translation, the reason of the other connection counts as well.
#[test]
fn a_translation_beside_another_fault_refers_to_it() {
    let mut session = Session::usual([1000, 5000]);
    for signing in &mut session.signing {
        signing.secret = b"first-secret\n".to_vec();
    }
    session.shake_hands();
    session.talk();
    let outside = translated(Endpoint::new([198, 51, 100, 1], 50_000));
    let found = verify(&on_both_sides(&session.packets, MICROSECOND, outside), &[IPV4_KEY]);
    assert_eq!(found.connections[0].diagnoses[0].kind, "secret-form");
    assert_rewritten(
        &found,
        &["Also see why segments of connection 1 fail; if nothing explains them either"],
    );
}

#[test]
fn timestamps_of_all_segments_are_changed_between_two_places() {
    const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 7];
    let mut session = Session::usual([1000, 5000]);
    let segments: [(usize, u8, &[u8]); 6] = [
        (0, SYN, &[]),
        (1, SYN | ACK, &[]),
        (0, ACK, &[]),
        (0, ACK, b"one"),
        (1, ACK, b"two"),
        (0, ACK, &[]),
    ];
    for (sender, flags, payload) in segments {
        let tcp = session.signed(sender, flags, &TIMESTAMPS, payload);
        session.record(sender, &tcp);
        session.advance(sender, flags, payload.len());
    }
    let change = |_, _: &mut _, tcp: &mut [u8]| {
        let place = tcp.windows(2).position(|octets| octets == [8, 10]).unwrap();
        tcp[place + 2] ^= 0x55;
    };
    let found = verify(&on_both_sides(&session.packets, MICROSECOND, change), &[IPV4_KEY]);
    assert_eq!((found.count(Verdict::Good), found.count(Verdict::BadMac)), (6, 6));
    assert_eq!(found.kinds(), ["changed-on-the-path"]);
    assert_eq!(found.diagnoses().len(), 2);
    found.assert_diagnosed("changed-on-the-path", &["a device that changes timestamps"]);
}

#[test]
fn what_only_looks_like_translation_is_something_else() {
    // The same ISNs, signed with another secret.
    let mut other = Session::usual([1000, 5000]);
    other.ends[0] = Endpoint::new([198, 51, 100, 1], 50_000);
    other.signing = [0, 1].map(|_| Signing { secret: b"another secret".to_vec(), ..Signing::ipv4() });
    other.shake_hands();
    other.talk();
    let mut packets = session().packets;
    packets.extend(other.packets);
    packets.sort_by_key(|(time, _)| *time);
    assert_eq!(verify(&packets, &[IPV4_KEY]).kinds(), ["unexplained"]);
    // A SYN that is sent again from elsewhere, long after.
    let packets = session().packets;
    let outside = translated(Endpoint::new([198, 51, 100, 1], 50_000));
    let replayed = on_both_sides(&packets[..1], 5_000_000_000, outside);
    let found = verify(&[&packets[..], &replayed[1..]].concat(), &[IPV4_KEY]);
    let words = [
        "under other addresses, 5.0 s later: ",
        "are translated on the path, or someone has sent the segments again",
    ];
    found.assert_diagnosed("addresses-rewritten", &words);
    assert!(found.connections[0].diagnoses.is_empty());
}

#[test]
fn numbers_are_shifted_between_two_places() {
    let shift = |is_opener: bool, _: &mut [Endpoint; 2], tcp: &mut [u8]| {
        let place = if is_opener { 4 } else { 8 };
        let number: &mut [u8; 4] = tcp[place..].first_chunk_mut().unwrap();
        *number = u32::from_be_bytes(*number).wrapping_add(77_000).to_be_bytes();
    };
    let mut session = Session::usual([1000, 5000]);
    let syn = session.signed(0, SYN, &[], &[]);
    session.repeat(0, &syn, 3);
    let found = verify(&on_both_sides(&session.packets, MICROSECOND, shift), &[IPV4_KEY]);
    assert_eq!((found.connections.len(), found.count(Verdict::BadMac)), (1, 3));
    let unanswered =
        found.diagnoses().into_iter().find(|diagnosis| diagnosis.kind == "syn-unanswered").unwrap();
    assert!(unanswered.advice.contains("see why segments of this connection fail"), "{unanswered:#?}");
    let words = "packets 2 and 1 are one segment with one MAC, on both sides of a device that shifts the sequence numbers of \
                 192.0.2.1:50000 (by 77000)";
    let shifted = found.diagnoses().into_iter().find(|diagnosis| diagnosis.kind == "numbers-shifted");
    assert!(shifted.is_some_and(|shifted| shifted.cause == words), "{:#?}", found.diagnoses());
    // Another SYN with another ISN, of another secret.
    let mut other = Session::usual([78_000, 5000]);
    other.signing[0].secret = b"another secret".to_vec();
    let syn = other.signed(0, SYN, &[], &[]);
    other.repeat(0, &syn, 3);
    session.packets.truncate(3);
    let found = verify(&[session.packets, other.packets].concat(), &[IPV4_KEY]);
    assert!(!found.kinds().contains(&"numbers-shifted"), "{:#?}", found.diagnoses());
}

#[test]
fn the_numbers_of_both_ends_are_shifted_between_two_places() {
    let shift = |is_opener: bool, _: &mut [Endpoint; 2], tcp: &mut [u8]| {
        let shifts: [u32; 2] = if is_opener { [77_000, 88_000] } else { [88_000, 77_000] };
        for (place, shift) in [4, 8].into_iter().zip(shifts) {
            let number: &mut [u8; 4] = tcp[place..].first_chunk_mut().unwrap();
            // A SYN has no acknowledgment.
            if *number != [0; 4] {
                *number = u32::from_be_bytes(*number).wrapping_add(shift).to_be_bytes();
            }
        }
    };
    let found = verify(&on_both_sides(&session().packets, MICROSECOND, shift), &[IPV4_KEY]);
    assert_eq!((found.count(Verdict::Good), found.count(Verdict::BadMac)), (6, 6));
    let [connection] = &found.connections[..] else { panic!("{:#?}", found.connections) };
    assert_eq!(connection.directions.each_ref().map(|direction| direction.isn.unwrap().0), [1000, 5000]);
    let both = ["shifts the sequence numbers of", "192.0.2.1:50000 (by 77000)", "192.0.2.2:179 (by 88000)"];
    found.assert_diagnosed("numbers-shifted", &both);
    // The side that does not verify comes first.
    let mut packets = on_both_sides(&session().packets, MICROSECOND, shift);
    packets.chunks_exact_mut(2).for_each(|two| two.swap(0, 1));
    let found = verify(&packets, &[IPV4_KEY]);
    assert_eq!((found.connections.len(), found.count(Verdict::Good)), (1, 6));
    found.assert_diagnosed("numbers-shifted", &both);
}

#[test]
fn the_option_is_removed_between_two_places() {
    let packets = session().packets;
    let removed = |packets: &[Recorded]| -> Vec<Recorded> {
        let remove = |(time, packet): &Recorded| {
            let segment = Segment::parse(packet).unwrap();
            let addresses = (segment.source_address(), segment.destination_address());
            (time + MICROSECOND, ip_packet(addresses, &without_ao(addresses, segment.tcp())))
        };
        packets.iter().map(remove).collect()
    };
    let mut both = [&packets[..], &removed(&packets)].concat();
    both.sort_by_key(|(time, _)| *time);
    let words = ["a device between 192.0.2.1", "removes TCP-AO", "is the same segment without it"];
    let found = verify(&both, &[IPV4_KEY]);
    assert_eq!((found.count(Verdict::Good), found.count(Verdict::NoOption)), (6, 6));
    found.assert_diagnosed("option-removed", &words);
    // On the far side only.
    assert_eq!(verify(&removed(&packets), &[IPV4_KEY]).kinds(), ["unsigned"]);
    // A SYN has no answer for that reason.
    let mut session = Session::usual([1000, 5000]);
    let syn = session.signed(0, SYN, &[], &[]);
    session.repeat(0, &syn, 3);
    let mut both = [&session.packets[..], &removed(&session.packets)].concat();
    both.sort_by_key(|(time, _)| *time);
    let found = verify(&both, &[IPV4_KEY]);
    assert_eq!(found.kinds(), ["syn-unanswered", "option-removed"]);
    assert!(found.diagnoses()[0].advice.contains("from removing TCP option 29: packet 1 has it"));
    // An unsigned SYN of another connection shows nothing.
    let mut other = Session::usual([77, 5000]);
    other.ends[0] = Endpoint::new([192, 0, 2, 1], 50_001);
    other.send_unsigned(0, SYN, &[], &[]);
    let found = verify(&[session.packets, other.packets].concat(), &[IPV4_KEY]);
    assert!(!found.kinds().contains(&"option-removed"), "{:#?}", found.diagnoses());
}

/// If the MAC leaves options out, a retransmission has the same MAC and another timestamp.
#[test]
fn a_retransmission_with_another_timestamp_is_no_copy() {
    let mut session = Session::usual([1000, 5000]);
    session.signing = [0, 1].map(|_| Signing { options: OptionCoverage::Excluded, ..Signing::ipv4() });
    for repeat in 0..4u8 {
        let timestamps = [8, 10, 1, 2, 3, repeat, 0, 0, 0, 0, 1, 1];
        let syn = session.signed(0, SYN, &timestamps, &[]);
        session.record(0, &syn);
    }
    for (packet, number) in session.packets.iter_mut().zip(0..) {
        packet.0 = 1_780_000_000_000_000_000 + number * 950_000_000;
    }
    let excluded = format!("{IPV4_KEY},options=excluded");
    let found = verify(&session.packets, &[&excluded]);
    assert_eq!(found.count(Verdict::Good), 4);
    found.assert_diagnosed("syn-unanswered", &["most likely 192.0.2.2:179 has no such key"]);
    let wrong = excluded.replace("first-secret", "second-secret");
    let found = verify(&session.packets, &[&wrong]);
    assert_eq!(found.kinds(), ["unexplained", "syn-unanswered"], "{:#?}", found.diagnoses());
}

#[test]
fn options_are_changed_between_two_places() {
    let timestamps = [8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 1];
    let signed = |session: &Session| session.signed(0, SYN, &timestamps, &[]);
    let mut session = Session::usual([1000, 5000]);
    let syn = signed(&session);
    session.repeat(0, &syn, 3);
    let change = |_: bool, _: &mut [Endpoint; 2], tcp: &mut [u8]| tcp[22] ^= 0x55;
    let found = verify(&on_both_sides(&session.packets, MICROSECOND, change), &[IPV4_KEY]);
    assert_eq!((found.count(Verdict::Good), found.count(Verdict::BadMac)), (3, 3));
    let cause = |found: &Found| {
        let changed = found.diagnoses().into_iter().find(|diagnosis| diagnosis.kind == "changed-on-the-path");
        changed.map(|changed| changed.cause.clone()).unwrap_or_default()
    };
    let words =
        "packets 2 and 1 are one segment with one MAC, on both sides of a device that changes timestamps";
    assert_eq!(cause(&found), words);
    // That the SYN has no answer does not make it another reason.
    let unanswered =
        found.diagnoses().into_iter().find(|diagnosis| diagnosis.kind == "syn-unanswered").unwrap();
    assert!(unanswered.advice.contains("A device on the path changes it"));
    // The window is no option.
    let change = |_: bool, _: &mut [Endpoint; 2], tcp: &mut [u8]| tcp[14] ^= 0x55;
    let found = verify(&on_both_sides(&session.packets, MICROSECOND, change), &[IPV4_KEY]);
    assert!(cause(&found).ends_with("a device that changes the TCP header"), "{:#?}", found.diagnoses());
    // A SYN that was damaged, as its checksum shows, and sent again.
    let mut damaged = syn.clone();
    damaged[14] ^= 0x55;
    session.packets.truncate(1);
    session.record(0, &damaged);
    let found = verify(&session.packets, &[IPV4_KEY]);
    found.assert_diagnosed("altered", &["The TCP checksum is wrong as well"]);
    // A forged segment among good ones has a MAC of its own.
    let mut session = session_with_forged_segment();
    session.send(0, ACK, &[]);
    session.assert_diagnosed("altered", &["altered on the path, or forged"]);
}

fn session_with_forged_segment() -> Session {
    let mut session = session();
    let mut forged = session.signed(0, ACK, &[], b"forged");
    *forged.last_mut().unwrap() ^= 1;
    set_checksum(session.addresses(0), &mut forged);
    session.record(0, &forged);
    session
}

#[test]
fn a_syn_that_is_changed_on_the_path_is_unanswered_for_that_reason() {
    let mut session = Session::usual([1000, 5000]);
    let syn = session.signed(0, SYN, &[], &[]);
    session.repeat(0, &syn, 3);
    let outside = translated(Endpoint::new([198, 51, 100, 1], 50_000));
    let packets = on_both_sides(&session.packets, MICROSECOND, outside);
    // A key for the peer inside is no key for connection 2, which does not matter.
    for key in [IPV4_KEY, &format!("{IPV4_KEY},peer=192.0.2.1")] {
        let found = verify(&packets, &[key]);
        let kinds: Vec<_> = found.diagnoses().iter().map(|diagnosis| diagnosis.kind).collect();
        assert_eq!(
            kinds,
            ["syn-unanswered", "addresses-rewritten", "syn-unanswered"],
            "{:#?}",
            found.diagnoses()
        );
        let advice = &found.connections[0].diagnoses[0].advice;
        assert!(
            advice.contains("A device on the path changes it") && advice.contains("connection 2 fail"),
            "{advice}"
        );
    }
    // Alone, it may have no answer for any reason.
    let found = verify(&session.packets, &[IPV4_KEY]);
    found.assert_diagnosed("syn-unanswered", &["most likely 192.0.2.2:179 has no such key"]);
}
