//! Which end has another secret, and what only looks like it.

use wireseal::verify::report::Verdict;

use crate::support::session::{
    ACK, Found, IPV4_KEY, MSS, PSH, RST, SYN, Session, session, set_checksum, verify,
};

fn found(session: &Session) -> Found {
    verify(&session.packets, &[IPV4_KEY])
}

/// Sends a segment that is altered on the path.
fn send_altered(session: &mut Session, sender: usize) {
    let mut tcp = session.signed(sender, ACK | PSH, &[], b"altered");
    *tcp.last_mut().unwrap() ^= 1;
    set_checksum(session.addresses(sender), &mut tcp);
    session.record(sender, &tcp);
}

#[test]
fn one_end_changes_its_secret_in_a_live_session() {
    let mut session = session();
    let from = session.packets.len() + 1;
    session.signing[0].secret = b"another secret".to_vec();
    for _ in 0..3 {
        let segment = session.signed(0, ACK | PSH, &[], b"not accepted");
        session.repeat(0, &segment, 1);
        let segment = session.signed(1, ACK | PSH, &[], b"repeated");
        session.repeat(1, &segment, 1);
    }
    let words = [
        &format!("since packet {from} most likely another secret at 192.0.2.1:50000"),
        "If the secret was changed at 192.0.2.1:50000, correct it there",
        "Tried: both coverages of options",
    ];
    found(&session).assert_diagnosed("secret-changed", &words);
    assert_eq!(found(&session).kinds(), ["secret-changed"]);
    // A good segment after them shows that the end still has the secret.
    session.signing[0] = Session::usual([1, 2]).signing[0].clone();
    session.send(0, ACK, &[]);
    assert_eq!(found(&session).kinds(), ["altered"]);
}

#[test]
fn failures_between_good_segments_and_forged_resets_are_no_change_of_keys() {
    let mut interleaved = session();
    for _ in 0..3 {
        (0..2).for_each(|sender| send_altered(&mut interleaved, sender));
        interleaved.talk();
    }
    (0..2).for_each(|sender| send_altered(&mut interleaved, sender));
    assert_eq!(found(&interleaved).kinds(), ["altered"]);
    let mut reset = session();
    for signing in &mut reset.signing {
        signing.secret = b"guessed".to_vec();
    }
    for number in [5, 7] {
        reset.next = [number, number];
        (0..2).for_each(|sender| reset.send(sender, RST, &[]));
    }
    assert_eq!(found(&reset).kinds(), ["altered"]);
    let mut last = session();
    (0..2).for_each(|sender| send_altered(&mut last, sender));
    assert_eq!(found(&last).kinds(), ["altered"]);
}

#[test]
fn the_secret_is_not_blamed_if_an_isn_is_a_guess() {
    // The SYN had 5 octets of payload, which the SYN-ACK acknowledges.
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, b"early");
    session.send(1, SYN | ACK, &[]);
    session.send(0, ACK, &[]);
    session.send(1, ACK | PSH, b"words");
    session.packets.remove(0);
    let without_syn = found(&session);
    assert_eq!(without_syn.count(Verdict::Good), 0);
    without_syn.assert_diagnosed("unexplained", &["an ISN that was only inferred", "--isn 192.0.2.1:50000-"]);
    for diagnosis in without_syn.diagnoses() {
        let sentence = diagnosis.sentence();
        assert!(!sentence.contains("most likely") && !sentence.contains("correct the secret"), "{sentence}");
    }
}

#[test]
fn one_direction_has_another_secret_that_both_ends_know() {
    let mut session = Session::usual([1000, 5000]);
    session.signing[1].secret = b"of the other direction".to_vec();
    session.shake_hands();
    session.talk();
    session.talk();
    let words = [
        "most likely another secret in this direction only: 192.0.2.1:50000's segments verify under key 100",
        "give the secret of this one as a second key",
    ];
    found(&session).assert_diagnosed("secret-of-one-direction", &words);
    // The same if the secret can be found.
    session = Session::usual([1000, 5000]);
    session.signing[1].secret = b"first-secret\n".to_vec();
    session.shake_hands();
    session.talk();
    let words = ["192.0.2.1:50000 has acknowledged these segments, and its own verify", "as a second key"];
    found(&session).assert_diagnosed("secret-form", &words);
}

#[test]
fn the_last_line_leaves_out_what_was_tried() {
    let mut session = Session::usual([1000, 5000]);
    session.signing[0].secret = b"another secret".to_vec();
    let syn = session.signed(0, SYN, &MSS, &[]);
    session.repeat(0, &syn, 3);
    let last = found(&session).last_line(&[IPV4_KEY]);
    let expected = "3 of 3 segments failed: most likely another secret: nothing that was tried explains 3 segments of \
                    192.0.2.1:50000 under key 100 (KeyID 100)";
    assert_eq!(last, expected);
}

/// What has no key and no TCP-AO is most of the capture, and not what an operator looks for.
#[test]
fn unsigned_connections_without_a_key_do_not_hide_a_failure() {
    let mut session = Session::usual([1000, 5000]);
    session.signing[0].secret = b"another secret".to_vec();
    let syn = session.signed(0, SYN, &MSS, &[]);
    session.repeat(0, &syn, 3);
    let mut other = Session::usual([7000, 9000]);
    other.ends = other.ends.map(|end| {
        let std::net::IpAddr::V4(address) = end.address() else { unreachable!("the session is over IPv4") };
        let [.., last] = address.octets();
        wireseal_tcp_ao::Endpoint::new([198, 51, 100, last], end.port())
    });
    (0..20).for_each(|_| other.send_unsigned(0, ACK, &[], b"of no interest"));
    session.packets.append(&mut other.packets);
    let key = format!("{IPV4_KEY},peer=192.0.2.2");
    let last = verify(&session.packets, &[&key]).last_line(&[&key]);
    let expected = "23 of 23 segments failed for 2 reasons, the first to look at (3 segments) being: most likely another secret";
    assert!(last.starts_with(expected), "{last}");
}
