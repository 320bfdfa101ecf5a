//! Where connections begin and end, and captures with lost, repeated, forged or reordered segments.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use wireseal::verify::report::{Sender, Standing, Verdict};
use wireseal::verify::{Verifier, VerifyEvent, VerifyOptions};
use wireseal_tcp_ao::{Endpoint, Isn, KeyId};

use crate::support::session::{
    ACK, IPV4_KEY, MSS, PSH, RST, Recorded, SYN, Session, Signing, ignore, keys, packet, put_mac, session,
    set_checksum, verify, verify_with, with_ao, with_isns,
};

#[test]
fn both_ends_open_at_once() {
    let mut session = Session::usual([1000, 5000]);
    let syns = [0, 1].map(|sender| session.signed(sender, SYN, &MSS, &[]));
    session.record(0, &syns[0]);
    session.record(1, &syns[1]);
    session.next = [1001, 5001];
    for sender in [0, 1] {
        // The SYN once more, now acknowledging the other's.
        session.next[sender] -= 1;
        session.send(sender, SYN | ACK, &[]);
    }
    session.talk();
    let found = session.all_good(1);
    assert_eq!(found.connections[0].ends, session.ends);
}

#[test]
fn a_syn_sent_again_is_no_other_connection() {
    let mut session = Session::usual([1000, 5000]);
    let syn = session.signed(0, SYN, &MSS, &[]);
    session.record(0, &syn);
    session.record(0, &syn);
    session.advance(0, SYN, 0);
    let syn_ack = session.signed(1, SYN | ACK, &MSS, &[]);
    session.record(1, &syn_ack);
    session.record(1, &syn_ack);
    session.advance(1, SYN, 0);
    session.send(0, ACK, &[]);
    session.talk();
    let found = session.all_good(1);
    let [connection] = &found.connections[..] else { panic!("one connection") };
    assert_eq!([0, 1].map(|end| connection.directions[end].retransmissions), [1, 1]);
}

#[test]
fn addresses_are_used_again() {
    let mut session = session();
    session.close();
    session.again([7000, 9000]);
    session.shake_hands();
    session.talk();
    let found = session.all_good(2);
    assert_eq!(found.connections[1].directions[0].isn, Some(Isn(7000)));
}

#[test]
fn a_syn_ack_that_is_recorded_late_brings_its_isn() {
    let mut session = Session::new([1000, 5000], [Signing::ipv4(), Signing::ipv4()]);
    for signing in &mut session.signing {
        signing.secret = b"first-secret\n".to_vec();
    }
    session.shake_hands();
    session.packets.swap(1, 2);
    session.talk();
    let found = verify(&session.packets, &[IPV4_KEY]);
    // The third segment comes before anything is known; all others get an explanation.
    assert_eq!((found.count(Verdict::BadMac), found.count(Verdict::IsnNotSeen)), (5, 1));
    let kinds: Vec<_> = found.diagnoses().iter().map(|diagnosis| diagnosis.kind).collect();
    assert_eq!(kinds, ["secret-form", "secret-form", "isn-not-seen"]);
}

#[test]
fn a_restarted_end_opens_another_connection_over_a_live_one() {
    let mut session = session();
    session.again([7000, 9000]);
    session.shake_hands();
    session.talk();
    session.all_good(2);
}

#[test]
fn an_old_syn_does_not_end_a_connection() {
    let mut session = session();
    // Signed for an earlier connection, and replayed by anyone.
    let live = (session.isns, session.next);
    session.again([77, 99]);
    session.send(0, SYN, &[]);
    (session.isns, session.next) = live;
    session.talk();
    let found = session.all_good(1);
    assert_eq!(found.connections[0].directions[0].retransmissions, 0);
}

#[test]
fn a_syn_with_another_isn_is_another_attempt() {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    session.again([2000, 5000]);
    session.shake_hands();
    session.all_good(2);
}

#[test]
fn connections_that_are_over_are_handed_out_and_forgotten() {
    let keys = keys(&[IPV4_KEY]);
    let mut verifier = Verifier::new(&keys, VerifyOptions::default());
    let (mut number, mut finished) = (0, 0);
    let mut each = |event: VerifyEvent<'_>| {
        match event {
            VerifyEvent::Segment { segment, .. } => assert_eq!(segment.verdict, Verdict::Good),
            VerifyEvent::Connection(_) => finished += 1,
        }
        Ok::<_, Infallible>(())
    };
    for turn in 0..50u16 {
        let mut session = Session::usual([1000, 5000]);
        session.ends[0] = Endpoint::new([192, 0, 2, 1], 1000 + turn);
        session.wait(u64::from(turn) * 10);
        session.shake_hands();
        session.close();
        for recorded in &session.packets {
            number += 1;
            verifier.packet(&packet(number, recorded), &mut each).unwrap();
        }
        assert!(verifier.live() <= 8, "{} live connections after {turn}", verifier.live());
    }
    verifier.finish(None, each).unwrap();
    assert_eq!(finished, 50);
}

#[test]
fn attempts_that_come_to_nothing_are_forgotten() {
    let mut packets = Vec::new();
    for turn in 0..50u16 {
        let mut session = Session::usual([1000, 5000]);
        session.ends[0] = Endpoint::new([192, 0, 2, 1], 1000 + turn);
        session.wait(u64::from(turn) * 60);
        session.send(0, SYN, &[]);
        packets.extend(session.packets);
    }
    let keys = keys(&[IPV4_KEY]);
    let mut verifier = Verifier::new(&keys, VerifyOptions::default());
    for (number, recorded) in (1..).zip(&packets) {
        verifier.packet(&packet(number, recorded), ignore).unwrap();
        assert!(verifier.live() <= 4, "{}", verifier.live());
    }
}

#[test]
fn late_segments_belong_to_the_connection_that_was_closed() {
    let mut session = session();
    session.close();
    session.wait(30);
    let last = session.packets.last().unwrap().1.clone();
    session.packets.push((session.time, last));
    session.all_good(1);
}

#[test]
fn resets_are_counted_with_and_without_authentication() {
    let mut session = session();
    session.send_unsigned(1, RST, &[], &[]);
    session.send_unsigned(0, RST | ACK, &[], &[]);
    session.send(1, RST | ACK, &[]);
    let found = verify(&session.packets, &[IPV4_KEY]);
    let directions = &found.connections[0].directions;
    assert_eq!([0, 1].map(|end| directions[end].signed_resets), [0, 1]);
    assert_eq!([0, 1].map(|end| directions[end].other_resets), [1, 1]);
}

#[test]
fn a_listeners_signed_reset_stands_on_no_isn() {
    let mut session = Session::usual([1000, 0]);
    session.send(0, SYN, &[]);
    session.send(1, RST | ACK, &[]);
    verify(&session.packets, &[IPV4_KEY]).assert_all_good(1);
}

#[test]
fn a_reset_forged_before_anything_is_known_closes_nothing() {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    session.send_unsigned(1, RST | ACK, &[], &[]);
    session.send(1, SYN | ACK, &[]);
    for _ in 0..3 {
        session.wait(50);
        session.talk();
    }
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!((found.count(Verdict::Good), found.count(Verdict::NoOption)), (11, 1));
    assert_eq!(found.connections.len(), 1);
}

/// The packets of one end, by the last octet of its address.
fn of(packets: &[Recorded], sender: u8) -> Vec<Recorded> {
    packets.iter().filter(|(_, octets)| octets[15] == sender).cloned().collect()
}

/// A closed connection, and another one between the same ends.
fn twice() -> Session {
    let mut session = session();
    session.close();
    session.again([7000, 9000]);
    session.shake_hands();
    session.talk();
    session
}

#[test]
fn addresses_are_used_again_where_one_direction_is_recorded() {
    let session = twice();
    for sender in [1, 2] {
        let found = verify(&of(&session.packets, sender), &[IPV4_KEY]);
        found.assert_all_good(2);
    }
}

#[test]
fn addresses_are_used_again_and_the_syn_is_not_recorded() {
    let mut session = twice();
    session.packets.remove(9);
    let found = session.all_good(2);
    assert_eq!(found.connections[1].ends, session.ends);
}

#[test]
fn a_syn_forged_before_the_answer_does_not_set_the_isn() {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    let next = session.next;
    session.next[0] = 77;
    session.send_unsigned(0, SYN, &MSS, &[]);
    session.next = next;
    session.send(1, SYN | ACK, &[]);
    session.send(0, ACK, &[]);
    session.talk();
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!((found.count(Verdict::Good), found.count(Verdict::NoOption)), (6, 1));
}

#[test]
fn numbers_wrap_right_behind_the_isn() {
    let mut session = Session::usual([u32::MAX, u32::MAX]);
    session.shake_hands();
    session.talk();
    for packets in [&session.packets[..], &session.packets[2..], &of(&session.packets, 1)] {
        let found = verify(packets, &[IPV4_KEY]);
        found.assert_all_good(1);
    }
}

#[test]
fn keepalives_and_probes_stand_before_the_next_number() {
    let mut session = Session::usual([u32::MAX, u32::MAX - 1]);
    session.shake_hands();
    for payload in [&[][..], &[0]] {
        for sender in [0, 1] {
            let next = session.next[sender];
            session.next[sender] -= 1;
            session.send(sender, ACK, payload);
            session.next[sender] = next;
            session.send(1 - sender, ACK, &[]);
        }
    }
    session.talk();
    session.all_good(1);
}

#[test]
fn every_packet_is_recorded_twice() {
    let session = twice();
    let twice: Vec<_> = session.packets.iter().flat_map(|packet| [packet.clone(), packet.clone()]).collect();
    let found = verify(&twice, &[IPV4_KEY]);
    found.assert_all_good(2);
}

#[test]
fn a_forged_segment_is_no_change_of_keys() {
    let mut session = session();
    for key_id in [9, 100, 10, 9] {
        let (next, signing) = (session.next, session.signing[0].clone());
        session.signing[0].key_id = key_id;
        session.signing[0].secret = b"forger".to_vec();
        session.send(0, ACK, b"forged");
        (session.next, session.signing[0]) = (next, signing);
        session.send(0, ACK, b"signed");
    }
    let found = verify(&session.packets, &[IPV4_KEY]);
    let uses: Vec<_> = found.connections[0].directions[0]
        .key_uses
        .iter()
        .map(|key_use| (key_use.key_id, key_use.key, key_use.last.packet, key_use.segments))
        .collect();
    assert_eq!(uses, [(KeyId(100), Some(0), 14, 9), (KeyId(9), None, 13, 2), (KeyId(10), None, 11, 1)]);
}

#[test]
fn isns_that_are_given_do_not_replace_those_that_are_recorded() {
    let options = || with_isns("192.0.2.1:50000-192.0.2.2:179=1,2");
    let mut session = session();
    let syn = session.packets[0].clone();
    session.packets.insert(1, syn);
    let found = verify_with(&session.packets, &[IPV4_KEY], options());
    found.assert_all_good(1);
    // If they are needed and wrong, the diagnosis says so and does not suspect the secret.
    let found = verify_with(&session.packets[5..], &[IPV4_KEY], options());
    found.assert_diagnosed("unexplained", &["the ISNs given with --isn are of another connection"]);
}

/// Of many that close at once, some are forgotten before their time: what comes late is no new connection, but a SYN begins one.
#[test]
fn closed_connections_are_forgotten_for_others() {
    const CONNECTIONS: u8 = 40;
    let keys = keys(&[IPV4_KEY]);
    let options = VerifyOptions { most_connections: 64, ..VerifyOptions::default() };
    let mut verifier = Verifier::new(&keys, options);
    let (mut packets, mut late) = (Vec::new(), Vec::new());
    for number in 0..CONNECTIONS {
        let mut session = Session::usual([1000, 5000]);
        session.ends[0] = Endpoint::new([192, 0, 2, 100 + number], 1000);
        session.shake_hands();
        session.send(0, RST | ACK, &[]);
        late.push(session.packets[2].clone());
        packets.extend(session.packets);
    }
    let syn = packets[0].clone();
    packets.extend(late);
    packets.push(syn);
    let mut each = |_: VerifyEvent<'_>| Ok::<_, Infallible>(());
    for (number, recorded) in (1..).zip(&packets) {
        verifier.packet(&packet(number, recorded), &mut each).unwrap();
    }
    let totals = verifier.finish(None, &mut each).unwrap();
    assert_eq!((totals.connections, totals.given_up), (u64::from(CONNECTIONS) + 1, 0));
    assert!((30..40).contains(&totals.after_given_up), "{totals:?}");
}

#[test]
fn connections_are_given_up_for_others_and_counted_once() {
    const MOST: u64 = 64;
    let keys = keys(&[IPV4_KEY]);
    let options = VerifyOptions { most_connections: MOST as usize, ..VerifyOptions::default() };
    let mut verifier = Verifier::new(&keys, options);
    let mut good = session();
    let mut packets = good.packets.clone();
    let mut unsigned = Vec::new();
    for number in 1..1000u64 {
        let mut session = Session::usual([1000, 5000]);
        let [.., high, low] = number.to_be_bytes();
        session.ends[0] = Endpoint::new([10, 1, high, low], 1000);
        session.send_unsigned(0, ACK | PSH, &[], b"unsigned");
        session.packets[0].0 += number;
        unsigned.extend(session.packets);
    }
    good.wait(1);
    let before = good.packets.len();
    good.talk();
    packets.extend(unsigned.iter().cloned());
    packets.extend_from_slice(&good.packets[before..]);
    // Again: the first of these were given up, and are no new connections.
    packets.extend(unsigned.into_iter().take(500));
    let (mut number, mut reported) = (0, Vec::new());
    let mut each = |event: VerifyEvent<'_>| {
        if let VerifyEvent::Connection(connection) = event {
            reported.push(connection.number);
        }
        Ok::<_, Infallible>(())
    };
    for recorded in &packets {
        number += 1;
        verifier.packet(&packet(number, recorded), &mut each).unwrap();
        assert!(verifier.live() <= MOST as usize);
    }
    let totals = verifier.finish(None, each).unwrap();
    // Of those that failed, a quarter of the most are kept.
    assert_eq!((totals.connections, totals.given_up), (1000, 999 - MOST / 4));
    // What has a good segment stays.
    assert_eq!(totals.counts[Verdict::Good.index()], good.packets.len() as u64);
    assert_eq!(totals.counts[Verdict::NoOption.index()] + totals.after_given_up, 999 + 500);
    assert!(totals.after_given_up >= 500 - MOST && totals.is_incomplete());
    reported.sort_unstable();
    assert_eq!(reported, (1..=1000).collect::<Vec<_>>());
}

/// Anyone can begin connections that fail, so they take neither much memory nor the place of others.
#[test]
fn connections_that_never_had_a_good_segment_are_given_up_first() {
    const MOST: usize = 64;
    let keys = keys(&[IPV4_KEY]);
    let options = VerifyOptions { most_connections: MOST, ..VerifyOptions::default() };
    let mut verifier = Verifier::new(&keys, options);
    let (mut packets, mut later) = (Vec::new(), Vec::new());
    for number in 0..60 {
        let mut session = Session::usual([1000, 5000]);
        session.ends[0] = Endpoint::new([192, 0, 2, 100 + number], 1000);
        session.shake_hands();
        let before = session.packets.len();
        session.talk();
        later.extend(session.packets.split_off(before));
        packets.extend(session.packets);
    }
    let good = packets.len() + later.len();
    for number in 0..500u16 {
        let mut session = Session::usual([1000, 5000]);
        let [high, low] = number.to_be_bytes();
        session.ends[0] = Endpoint::new([192, 0, high + 3, low], 1000);
        session.signing[0].secret = b"another-secret\n".to_vec();
        session.send(0, SYN, &[]);
        packets.extend(session.packets);
        if number == 30 {
            packets.append(&mut later);
        }
    }
    let mut given_up = 0;
    let mut each = |event: VerifyEvent<'_>| {
        if let VerifyEvent::Connection(connection) = event {
            given_up += u64::from(connection.diagnoses.iter().any(|diagnosis| diagnosis.kind == "given-up"));
        }
        Ok::<_, Infallible>(())
    };
    for (number, recorded) in (1..).zip(&packets) {
        verifier.packet(&packet(number, recorded), &mut each).unwrap();
    }
    let totals = verifier.finish(None, &mut each).unwrap();
    // Nothing of those with good segments is lost.
    assert_eq!(totals.counts[Verdict::Good.index()], good as u64);
    assert_eq!((totals.connections, totals.given_up, totals.after_given_up), (560, 500 - 4, 0));
    assert_eq!(given_up, totals.given_up);
}

/// With room for them, those that fail are fewer than a quarter all the same.
#[test]
fn few_of_the_live_connections_are_those_that_fail() {
    const MOST: usize = 64;
    let keys = keys(&[IPV4_KEY]);
    let options = VerifyOptions { most_connections: MOST, ..VerifyOptions::default() };
    let mut verifier = Verifier::new(&keys, options);
    for number in 0..60 {
        let mut session = Session::usual([1000, 5000]);
        session.ends[0] = Endpoint::new([192, 0, 2, 100 + number], 1000);
        session.signing[0].secret = b"another-secret\n".to_vec();
        session.send(0, SYN, &[]);
        let recorded = &session.packets[0];
        verifier.packet(&packet(number.into(), recorded), |_| Ok::<_, Infallible>(())).unwrap();
        verifier.judge_queued(|_| Ok::<_, Infallible>(())).unwrap();
        assert!(verifier.live() <= MOST / 4);
    }
    assert_eq!(verifier.live(), MOST / 4);
}

#[test]
fn a_connection_without_a_good_segment_is_not_given_up_for_being_idle() {
    let mut session = Session::usual([1000, 5000]);
    session.signing[0].secret = b"first-secret\n".to_vec();
    session.signing[1].secret = b"first-secret\n".to_vec();
    session.shake_hands();
    for _ in 0..4 {
        session.wait(3600);
        session.talk();
    }
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!((found.connections.len(), found.count(Verdict::BadMac)), (1, 15));
}

#[test]
fn single_octets_with_one_mac_take_linear_time() {
    let mut session = session();
    for _ in 0..40_000 {
        let mut tcp = with_ao(&session.header(0, ACK, &[], b"x"), 100, 100, 12);
        put_mac(&mut tcp, &[0xaa; 12]);
        set_checksum(session.addresses(0), &mut tcp);
        session.record(0, &tcp);
        session.advance(0, ACK, 1);
    }
    let start = Instant::now();
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!(found.count(Verdict::BadMac), 40_000);
    // This takes a fraction of a second, unless each segment causes a MAC over all segments before it.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(found.connections[0].diagnoses[0].sender, Sender::Opener);
}

/// An end that lost its connection opens another one with the same ports, and the other end still has the old one.
#[test]
fn an_open_connection_is_begun_again_without_an_answer() {
    let begun_again = |goes_on: bool, count| {
        let mut session = session();
        let next = session.next;
        let old = session.isns;
        session.again([77_000, 5000]);
        let syn = session.signed(0, SYN, &[], &[]);
        session.repeat(0, &syn, count);
        (session.isns, session.next) = (old, next);
        session.talk();
        let end = session.packets.len();
        session.packets.drain(if goes_on { end..end } else { end - 3..end });
        verify(&session.packets, &[IPV4_KEY])
    };
    let found = begun_again(false, 3);
    assert_eq!(found.count(Verdict::Good), found.segments.len() as u64);
    assert_eq!(found.connections[0].standing(), Standing::NotOpen);
    let words = ["from packet 7 on it opens another one with the same ports", "did not answer any of its"];
    found.assert_diagnosed("syn-unanswered", &words);
    assert_eq!(found.connections[0].diagnoses[0].segments, found.segments.len() as u64 - 6);
    // The answer to the last one may come after the capture; and an end that goes on has lost nothing.
    assert!(begun_again(false, 0).diagnoses().is_empty());
    assert!(begun_again(true, 3).diagnoses().is_empty());
}

/// The opener goes over to another key, which the listener does not have.
#[test]
fn segments_under_a_new_key_are_not_acknowledged() {
    let other_key = "send=7,recv=7,alg=aes-128-cmac-96,secret=third-secret";
    let rolled_over = |repeats: u32, is_acknowledged| {
        let mut session = session();
        let old = session.signing[0].clone();
        session.signing[0] = Signing { secret: b"third-secret".to_vec(), key_id: 7, rnext_key_id: 7, ..old };
        let data = session.signed(0, ACK | PSH, &[], b"more words");
        session.repeat(0, &data, repeats);
        // The listener goes on, under the old key.
        if is_acknowledged {
            session.advance(0, ACK, 10);
        }
        session.send(1, ACK | PSH, b"other words");
        let found = verify(&session.packets, &[IPV4_KEY, other_key]);
        found.assert_all_good(1);
        found
    };
    let words = ["signs with KeyID 7, and 192.0.2.2:179 has acknowledged nothing", "sent 2 segments again"];
    let found = rolled_over(3, false);
    found.assert_diagnosed("rollover-not-accepted", &words);
    assert_eq!(found.connections[0].standing(), Standing::Good);
    assert!(rolled_over(2, false).diagnoses().is_empty());
    assert!(rolled_over(3, true).diagnoses().is_empty());
}
