//! What is evident without a MAC: ends that do not sign, or use TCP-MD5.

use wireseal::verify::report::Verdict;
use wireseal_tcp_ao::Segment;

use crate::support::found::{IPV4_KEY, IPV4_SESSION, recorded, verify};
use crate::support::packet::packet;
use crate::support::session::{ACK, MSS, RST, SYN, Session};
use crate::support::sign::without_ao;

#[test]
fn one_end_does_not_sign() {
    let packets: Vec<_> = recorded(IPV4_SESSION)
        .into_iter()
        .map(|(time, octets)| {
            let segment = Segment::parse(&octets).unwrap();
            let addresses = (segment.source_address(), segment.destination_address());
            let strip = segment.source().port() == 179;
            let tcp = without_ao(addresses, segment.tcp());
            (time, if strip { packet(addresses, &tcp) } else { octets.clone() })
        })
        .collect();
    let found = verify(&packets[..2], &[IPV4_KEY]);
    assert_eq!(found.verdicts(), [Verdict::Good, Verdict::NoOption]);
    found.assert_diagnosed(
        "peer-unsigned",
        &["10.9.0.2:56969 signs and 10.9.0.1:179 does not", "configure the key there"],
    );
}

#[test]
fn neither_end_signs() {
    let mut session = Session::usual([1000, 5000]);
    session.send_unsigned(0, SYN, &MSS, &[]);
    session.send_unsigned(1, SYN | ACK, &MSS, &[]);
    let found = verify(&session.packets, &[IPV4_KEY]);
    found.assert_diagnosed("unsigned", &["TCP-AO is configured at neither end"]);
    let found = verify(&session.packets, &[&format!("{IPV4_KEY},peer=10.0.0.0/8")]);
    found.assert_diagnosed("unsigned", &["no key given here is for them", "--peer"]);
}

#[test]
fn tcp_md5_is_seen_in_place_of_tcp_ao() {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    let md5 = [&[1, 1, 19, 18][..], &[0xaa; 16]].concat();
    session.send_unsigned(1, SYN | ACK, &md5, &[]);
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!(found.verdicts(), [Verdict::Good, Verdict::NoOption]);
    found.assert_diagnosed("tcp-md5", &["192.0.2.2:179 signs with TCP-MD5"]);
}

#[test]
fn a_syn_is_answered_with_an_unsigned_reset() {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    session.next[1] = 0;
    session.send_unsigned(1, RST | ACK, &[], &[]);
    let found = verify(&session.packets, &[IPV4_KEY]);
    found.assert_diagnosed(
        "reset-unsigned",
        &["answers the signed SYN with an unsigned reset", "Nothing listens"],
    );
}

#[test]
fn unsigned_segments_between_signed_ones() {
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    session.talk();
    session.send_unsigned(1, RST, &[], &[]);
    session.talk();
    let found = verify(&session.packets, &[IPV4_KEY]);
    found.assert_diagnosed(
        "unsigned-resets",
        &["1 reset of 192.0.2.2:179 without TCP-AO", "someone forges them"],
    );
    assert_eq!(found.connections[0].directions[1].other_resets, 1);
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    session.send_unsigned(0, ACK, &[], b"forged");
    let found = verify(&session.packets, &[IPV4_KEY]);
    found.assert_diagnosed("unsigned-segments", &["1 segment of 192.0.2.1:50000 without TCP-AO"]);
}

#[test]
fn no_key_is_for_these_peers() {
    let found = verify(&recorded(IPV4_SESSION), &[&format!("{IPV4_KEY},peer=192.0.2.0/24")]);
    assert_eq!(found.count(Verdict::UnknownKeyId), 34);
    found.assert_diagnosed("no-key", &["no key given here is for 10.9.0.", "KeyID 100"]);
}

#[test]
fn an_answer_of_an_unsigned_end_says_nothing_about_its_key() {
    // The listener answers a SYN with a wrong secret, which does not mean that it has that secret.
    let mut session = Session::usual([1000, 5000]);
    session.signing[0].secret = b"first-secret\n".to_vec();
    session.send(0, SYN, &[]);
    session.send_unsigned(1, SYN | ACK, &MSS, &[]);
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!(found.kinds(), ["secret-form", "peer-unsigned"]);
    let sentence = found.diagnoses()[0].sentence();
    assert!(sentence.contains("The capture does not show what 192.0.2.2:179 has"), "{sentence}");
}

#[test]
fn unsigned_syns_are_not_answered() {
    let mut session = Session::usual([1000, 5000]);
    for _ in 0..3 {
        session.next[0] = 1000;
        session.send_unsigned(0, SYN, &MSS, &[]);
    }
    let found = verify(&session.packets, &[IPV4_KEY]);
    let words = ["192.0.2.1:50000 does not sign", "configure it at 192.0.2.1:50000 as well"];
    found.assert_diagnosed("unsigned-unanswered", &words);
}

#[test]
fn an_end_that_was_restarted_answers_with_unsigned_resets() {
    let mut session = Session::usual([1000, 5000]);
    session.next = [9000, 9000];
    for _ in 0..2 {
        session.send(0, ACK, b"keepalive");
        session.send_unsigned(1, RST, &[], &[]);
    }
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!(found.kinds(), ["unsigned-resets", "isn-not-seen"]);
    let sentence = found.diagnoses()[0].sentence();
    assert!(sentence.contains("192.0.2.2:179 has lost the connection"), "{sentence}");
}
