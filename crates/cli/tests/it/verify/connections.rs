//! Where connections begin and end, and what happens in between.

use std::convert::Infallible;

use wireseal::verify::report::Verdict;
use wireseal::verify::{Verifier, VerifyEvent, VerifyOptions};
use wireseal_tcp_ao::{Endpoint, Isn};

use crate::support::found::{IPV4_KEY, ignore, keys, packet, verify};
use crate::support::session::{ACK, MSS, RST, SYN, Session, session};
use crate::support::sign::Signing;

#[test]
fn both_ends_open_at_once() {
    let mut session = Session::usual([1000, 5000]);
    let syns = [0, 1].map(|sender| session.signed(sender, SYN, &MSS, &[]));
    session.record(0, &syns[0]);
    session.record(1, &syns[1]);
    session.next = [1001, 5001];
    for sender in [0, 1] {
        // The SYN once more, with the acknowledgment of the other.
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
    // The third segment comes before anything is known; all others are explained.
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
    // Signed for a connection of the past, and sent again by anyone.
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
