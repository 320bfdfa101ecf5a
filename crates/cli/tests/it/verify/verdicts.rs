//! Every verdict, and the life of a connection.

use wireseal::verify::VerifyOptions;
use wireseal::verify::report::{Sender, Standing, Verdict};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::Timestamp;
use wireseal_tcp_ao::{Endpoint, Isn, KeyId, OptionCoverage, OptionError, SeqNum, Sne};

use crate::support::files::Files;
use crate::support::generate::ip_packet;
use crate::support::session::{
    ACK, FIN, Found, IPV4_KEY, IPV4_SESSION, PSH, Recorded, Session, Signing, keys, recorded, session,
    set_checksum, verify, verify_with, with_isns,
};

fn verdict_of_last(session: &Session) -> Verdict {
    *verify(&session.packets, &[IPV4_KEY]).verdicts().last().unwrap()
}

#[test]
fn a_session_from_handshake_to_close_is_good() {
    let mut session = session();
    session.close();
    let found = session.all_good(1);
    assert!(found.diagnoses().is_empty());
    let [connection] = &found.connections[..] else { panic!("one connection") };
    assert_eq!(connection.ends, session.ends);
    assert_eq!([0, 1].map(|end| connection.directions[end].isn), [Some(Isn(1000)), Some(Isn(5000))]);
    assert_eq!([0, 1].map(|end| connection.directions[end].payload), [18, 20]);
    assert_eq!([0, 1].map(|end| connection.directions[end].sne), [Some(Sne(0)); 2]);
    assert_eq!((connection.first.packet, connection.last.packet), (1, 9));
}

#[test]
fn every_verdict_has_its_segment() {
    let mut bad = session();
    let mut tcp = bad.signed(0, ACK, &[], b"altered");
    tcp[20 + 4] ^= 1;
    bad.record(0, &tcp);
    assert_eq!(verdict_of_last(&bad), Verdict::BadMac);

    let mut unknown = session();
    unknown.signing[0].key_id = 9;
    unknown.send(0, ACK, b"of an id that no key has");
    assert_eq!(verdict_of_last(&unknown), Verdict::UnknownKeyId);

    let mut unsigned = session();
    unsigned.send_unsigned(1, ACK, &[], b"without an option");
    assert_eq!(verdict_of_last(&unsigned), Verdict::NoOption);

    let mut malformed = session();
    malformed.send_unsigned(1, ACK, &[29, 40, 100, 100], &[]);
    let error = OptionError::BadLength { kind: 29, offset: 0 };
    assert_eq!(verdict_of_last(&malformed), Verdict::MalformedOption(error));

    let mut both_kinds = session();
    let ao = [&[29, 8, 100, 100, 0, 0, 0, 0, 1, 1, 19, 18][..], &[0; 16]].concat();
    both_kinds.send_unsigned(1, ACK, &ao, &[]);
    assert_eq!(verdict_of_last(&both_kinds), Verdict::MalformedOption(OptionError::AoWithMd5));

    let mut two = session();
    two.send_unsigned(1, ACK, &[[29, 8, 100, 100, 1, 2, 3, 4]; 2].concat(), &[]);
    assert_eq!(verdict_of_last(&two), Verdict::TwoOptions);

    let mut late = session();
    late.packets.drain(..4);
    let found = verify(&late.packets, &[IPV4_KEY]);
    assert_eq!(found.count(Verdict::IsnNotSeen), 2, "{:?}", found.verdicts());
}

#[test]
fn a_mac_of_another_length_is_bad() {
    let mut session = session();
    session.signing[0].mac_length = 16;
    session.send(0, ACK, b"words");
    assert_eq!(verdict_of_last(&session), Verdict::BadMac);
}

/// What is found if the capture has only this many octets of the last packet.
fn cut(session: &Session, recorded: usize) -> Found {
    let last = session.packets.len() - 1;
    let octets = |index, length| if index == last { recorded } else { length };
    Found::cut(&session.packets, &keys(&[IPV4_KEY]), VerifyOptions::default(), octets)
}

#[test]
fn cut_off_segments_are_not_judged() {
    let mut session = session();
    session.send(0, ACK | PSH, &[7; 100]);
    let whole = session.packets.last().unwrap().1.len();
    cut(&session, whole).assert_all_good(1);
    // IP header 20, TCP header 20 and 16 of options.
    for recorded in 24..whole {
        let found = cut(&session, recorded);
        assert_eq!(found.verdicts()[6..], [Verdict::CutOff], "{recorded} octets");
        assert_eq!(found.totals.unreadable, 0);
    }
    for recorded in 0..24 {
        let found = cut(&session, recorded);
        assert_eq!((found.segments.len(), found.totals.unreadable), (6, 1), "{recorded} octets");
    }
    // The payload is not needed if there is no MAC to compute.
    let mut unsigned = Session::usual([1000, 5000]);
    unsigned.send_unsigned(0, ACK, &[], &[7; 100]);
    assert_eq!(cut(&unsigned, 60).verdicts(), [Verdict::NoOption]);
    let mut unknown = Session::usual([1000, 5000]);
    unknown.signing[0].key_id = 9;
    unknown.send(0, ACK, &[7; 100]);
    assert_eq!(cut(&unknown, 60).verdicts(), [Verdict::UnknownKeyId]);
}

#[test]
fn a_cut_off_segment_takes_its_whole_sequence_space() {
    let mut session = session();
    session.send(0, ACK | PSH, &[7; 100]);
    session.packets.extend(session.packets.last().cloned());
    let octets = |index, length| if index >= 6 { 60 } else { length };
    let found = Found::cut(&session.packets, &keys(&[IPV4_KEY]), VerifyOptions::default(), octets);
    assert_eq!([6, 7].map(|index| found.segments[index].payload_length), [100, 100]);
}

#[test]
fn one_sentence_says_that_both_ends_segments_are_cut_off() {
    let mut session = session();
    session.send(0, ACK | PSH, &[7; 100]);
    session.send(1, ACK | PSH, &[7; 100]);
    let options = VerifyOptions::default();
    let found = Found::cut(&session.packets, &keys(&[IPV4_KEY]), options, |_, length| length.min(100));
    let [opener, listener] = found.diagnoses()[..] else { panic!("{:?}", found.diagnoses()) };
    assert_eq!(opener.sentence(), listener.sentence());
    assert_eq!(
        opener.sentence(),
        "the capture has only the beginning of segments of both ends. Record whole packets (tcpdump -s 0)."
    );
}

#[test]
fn fragments_and_other_packets_are_counted() {
    let mut packets = session().packets;
    let mut fragment = packets[3].clone();
    fragment.1[6] = 0x20;
    packets.push(fragment.clone());
    fragment.1[9] = 17;
    packets.push(fragment);
    let mut icmp = packets[3].clone();
    icmp.1[9] = 1;
    packets.push(icmp);
    packets.push((0, vec![0x55; 40]));
    let found = verify(&packets, &[IPV4_KEY]);
    let totals = &found.totals;
    assert_eq!((totals.packets, totals.fragments, totals.other, totals.unreadable), (10, 1, 2, 1));
    assert_eq!(found.count(Verdict::Good), 6);
}

#[test]
fn the_selection_leaves_others_out() {
    let mut packets = session().packets;
    let mut other = Session::usual([1, 2]);
    other.ends = [Endpoint::new([198, 51, 100, 1], 4000), Endpoint::new([198, 51, 100, 2], 80)];
    other.shake_hands();
    packets.extend(other.packets);
    let found = verify(&packets, &[IPV4_KEY]);
    assert_eq!((found.totals.connections, found.totals.left_out), (2, 0));
    for options in [
        VerifyOptions { ports: vec![179], ..VerifyOptions::default() },
        VerifyOptions { ports: vec![1, 50_000], ..VerifyOptions::default() },
        VerifyOptions { peers: vec!["192.0.2.2".parse().unwrap()], ..VerifyOptions::default() },
        VerifyOptions {
            peers: vec!["10.0.0.0/8".parse().unwrap(), "192.0.2.0/24".parse().unwrap()],
            ..VerifyOptions::default()
        },
    ] {
        let found = verify_with(&packets, &[IPV4_KEY], options);
        assert_eq!((found.totals.connections, found.totals.left_out), (1, 3));
        found.assert_all_good(1);
    }
}

#[test]
fn isns_are_inferred_where_part_of_the_handshake_is_missing() {
    let whole = session().packets;
    // Without the SYN, without SYN and SYN-ACK, and the third segment alone.
    verify(&whole[1..], &[IPV4_KEY]).assert_all_good(1);
    verify(&whole[2..], &[IPV4_KEY]).assert_all_good(1);
    // One direction alone.
    let of = |sender: u8| -> Vec<Recorded> {
        whole.iter().filter(|(_, octets)| octets[15] == sender).cloned().collect()
    };
    let opener = verify(&of(1), &[IPV4_KEY]);
    opener.assert_all_good(1);
    assert_eq!(opener.connections[0].directions[1].isn, Some(Isn(5000)));
    let listener = verify(&of(2), &[IPV4_KEY]);
    listener.assert_all_good(1);
    assert_eq!(listener.connections[0].ends, session().ends);
    // In the middle of a connection nothing can be inferred, and nothing failed.
    let found = verify(&whole[4..], &[IPV4_KEY]);
    assert_eq!(found.count(Verdict::IsnNotSeen), found.segments.len() as u64);
    found.assert_diagnosed("isn-not-seen", &["lacks the start of the connection", "--isn 192.0.2."]);
}

#[test]
fn isns_can_be_given() {
    let whole = session().packets;
    let with = |hint: &str| verify_with(&whole[4..], &[IPV4_KEY], with_isns(hint));
    with("192.0.2.1:50000-192.0.2.2:179=1000,5000").assert_all_good(1);
    with("192.0.2.2:179-192.0.2.1:50000=0x1388,0x3e8").assert_all_good(1);
    let wrong = with("192.0.2.1:50000-192.0.2.2:179=1000,5001");
    assert_eq!(wrong.count(Verdict::BadMac), 2);
    let other = with("192.0.2.1:50001-192.0.2.2:179=1000,5000");
    assert_eq!(other.count(Verdict::IsnNotSeen), 2);
}

#[test]
fn with_given_isns_the_sne_is_searched() {
    let mut session = session();
    session.next = [session.next[0] + (41_000 << 32), session.next[1] + (3 << 32)];
    session.packets.clear();
    session.talk();
    session.talk();
    let options = with_isns("192.0.2.1:50000-192.0.2.2:179=1000,5000");
    let found = verify_with(&session.packets, &[IPV4_KEY], options);
    found.assert_all_good(1);
    let directions = &found.connections[0].directions;
    assert_eq!([directions[0].sne, directions[1].sne], [Some(Sne(41_000)), Some(Sne(3))]);
    assert_eq!(found.segments[0].sne, Some(Sne(41_000)));
}

#[test]
fn snes_follow_the_sequence_numbers() {
    let mut session = Session::usual([u32::MAX - 2000, u32::MAX]);
    session.shake_hands();
    for _ in 0..4 {
        session.send(0, ACK | PSH, &[1; 900]);
        session.send(1, ACK | PSH, &[2; 10]);
    }
    // A segment from before the wrap again.
    let early = session.packets[3].clone();
    session.packets.push(early);
    let found = session.all_good(1);
    let snes: Vec<_> = found.segments.iter().map(|segment| segment.sne.unwrap().0).collect();
    assert_eq!(snes, [0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1, 0]);
    assert!(found.segments[11].is_retransmission);
}

#[test]
fn a_forged_number_does_not_turn_the_sne() {
    let mut session = Session::usual([0xf000_0000, 5000]);
    session.shake_hands();
    let mut forged = session.signed(0, ACK, &[], b"forged");
    forged[4..8].copy_from_slice(&0x0000_1000u32.to_be_bytes());
    set_checksum(session.addresses(0), &mut forged);
    session.record(0, &forged);
    session.send(0, ACK, b"words");
    let verdicts = verify(&session.packets, &[IPV4_KEY]).verdicts();
    assert_eq!(verdicts[3..], [Verdict::BadMac, Verdict::Good]);
}

#[test]
fn options_that_are_forbidden_are_diagnosed() {
    let mut session = session();
    session.send_unsigned(1, ACK, &[[29, 8, 100, 100, 1, 2, 3, 4]; 2].concat(), &[]);
    session.assert_diagnosed("malformed-options", &["1 segment of 192.0.2.2:179", "RFC 5925 §2.2"]);
}

const SECOND_KEY: &str = "send=101,recv=101,alg=hmac-sha-1-96,secret=second-secret";

#[test]
fn keys_are_rolled_over() {
    let mut session = session();
    let second = Signing::new(TcpAoAlgorithm::HmacSha1, b"second-secret", 101);
    session.signing[1] = second.clone();
    session.wait(5);
    session.talk();
    session.signing[0] = second;
    session.talk();
    let found = verify(&session.packets, &[IPV4_KEY, SECOND_KEY]);
    found.assert_all_good(1);
    let uses = |end: usize| {
        let uses = &found.connections[0].directions[end].key_uses;
        uses.iter()
            .map(|key_use| (key_use.key_id, key_use.key, key_use.first.packet, key_use.segments))
            .collect::<Vec<_>>()
    };
    assert_eq!(uses(0), [(KeyId(100), Some(0), 1, 6), (KeyId(101), Some(1), 10, 2)]);
    assert_eq!(uses(1), [(KeyId(100), Some(0), 2, 2), (KeyId(101), Some(1), 8, 2)]);
}

#[test]
fn of_keys_with_one_id_the_one_that_verifies_is_named() {
    let mut session = session();
    let other = "send=100,recv=100,alg=hmac-sha-1-96,secret=second-secret";
    session.signing[1] = Signing::new(TcpAoAlgorithm::HmacSha1, b"second-secret", 100);
    session.talk();
    let found = verify(&session.packets, &[IPV4_KEY, other]);
    found.assert_all_good(1);
    let uses = &found.connections[0].directions[1].key_uses;
    assert_eq!(uses.iter().map(|key_use| key_use.key).collect::<Vec<_>>(), [Some(0), Some(1)]);
}

#[test]
fn among_many_keys_with_one_id_the_right_one_is_found() {
    let key = |number: usize| format!("send=100,recv=100,alg=hmac-sha-1-96,secret=secret-{number}");
    let all: Vec<_> = (0..30).map(key).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    let mut session = session();
    session.packets.clear();
    session.next = [1000, 5000];
    let signing =
        |number: usize| Signing::new(TcpAoAlgorithm::HmacSha1, format!("secret-{number}").as_bytes(), 100);
    session.signing = [signing(29), signing(29)];
    session.shake_hands();
    for number in [3, 17, 29, 5, 6, 7, 8, 9, 3, 17] {
        session.signing = [signing(number), signing(number)];
        session.talk();
    }
    let found = verify(&session.packets, &all);
    found.assert_all_good(1);
    let uses = &found.connections[0].directions[1].key_uses;
    let keys: Vec<_> = uses.iter().map(|key_use| key_use.key.unwrap()).collect();
    assert_eq!(keys, [29, 3, 17, 29, 5, 6, 7, 8, 9, 3, 17]);
}

#[test]
fn the_first_good_segment_shows_which_end_a_key_is_of() {
    let key = "send=100,recv=101,alg=aes-128-cmac-96,secret=first-secret";
    let of = |opener, listener| {
        let mut session = Session::usual([1000, 5000]);
        session.signing[0].key_id = opener;
        session.signing[1].key_id = listener;
        session.shake_hands();
        session.talk();
        session
    };
    for (opener, listener) in [(100, 101), (101, 100)] {
        verify(&of(opener, listener).packets, &[key]).assert_all_good(1);
    }
    // The opener has SendID 100, so its peer must not send that.
    let mut session = of(100, 101);
    session.signing[1].key_id = 100;
    session.talk();
    let found = verify(&session.packets, &[key]);
    assert_eq!(found.count(Verdict::UnknownKeyId), 1);
    assert_eq!(found.segments[7].sender, Sender::Listener);
    // A key with a peer shows it at once.
    let found = verify(&of(101, 100).packets, &[&format!("{key},peer=192.0.2.2")]);
    assert_eq!(found.count(Verdict::UnknownKeyId), 6);
    verify(&of(101, 100).packets, &[&format!("{key},peer=192.0.2.1")]).assert_all_good(1);
    // Both ends in the prefix: not known.
    verify(&of(101, 100).packets, &[&format!("{key},peer=192.0.2.0/24")]).assert_all_good(1);
}

#[test]
fn good_segments_outside_the_accept_lifetime_are_counted() {
    let toml = r#"
        [[key-chain]]
        name = "core"
        accept-tolerance = 10

        [[key-chain.key]]
        send-id = 100
        algorithm = "AES-128-CMAC-96"
        secret = "first-secret"
        send = { until = 2026-06-01T00:00:00Z }
        accept = { until = 2026-06-01T00:00:00Z }
    "#;
    let keys = wireseal_keys::load(&Files::new().file("keys.toml", toml), None).unwrap().keys().unwrap();
    let end: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    let mut session = Session::usual([1000, 5000]);
    session.time = end.unix_seconds() as u64 * 1_000_000_000;
    session.shake_hands();
    session.wait(10);
    session.talk();
    let found = Found::cut(&session.packets, &keys, VerifyOptions::default(), |_, length| length);
    found.assert_all_good(1);
    let directions = &found.connections[0].directions;
    assert_eq!([0, 1].map(|end| directions[end].key_uses[0].outside_lifetime), [2, 1]);
}

#[test]
fn segments_are_kept_up_to_a_bound_with_the_changes_among_the_rest() {
    let mut session = session();
    for turn in 0..2000 {
        if turn % 500 == 499 {
            session.send_unsigned(0, ACK, &[], b"unsigned");
        } else {
            session.send(0, ACK, b"signed");
        }
    }
    let options = VerifyOptions { keep_segments: true, ..VerifyOptions::default() };
    let found = verify_with(&session.packets, &[IPV4_KEY], options);
    let connection = &found.connections[0];
    assert_eq!(connection.segments.len() as u64 + connection.segments_left_out, 2006);
    assert!(connection.segments.len() <= 800);
    let unsigned = connection.segments.iter().filter(|segment| segment.verdict == Verdict::NoOption);
    assert_eq!(unsigned.count(), 4);
}

#[test]
fn a_segment_says_what_it_is() {
    let mut session = session();
    session.send(1, FIN | ACK, b"last words");
    let found = verify(&session.packets, &[IPV4_KEY]);
    let segment = found.segments.last().unwrap();
    assert_eq!((segment.place.packet, segment.sender, segment.payload_length), (7, Sender::Listener, 10));
    assert_eq!((segment.sequence, segment.acknowledgment), (SeqNum(5021), Some(SeqNum(1019))));
    assert!(segment.flags.fin() && segment.flags.ack() && !segment.is_retransmission);
    assert_eq!(segment.key_ids, Some([KeyId(100), KeyId(100)]));
}

#[test]
fn headers_that_contradict_themselves_are_unreadable() {
    let mut session = Session::usual([1000, 5000]);
    let mut short = session.header(0, ACK, &[], &[]);
    short[12] = 0x40;
    session.record(0, &short);
    let mut long = session.header(0, ACK, &[], &[]);
    long[12] = 0xf0;
    session.record(0, &long);
    session.packets.push((session.time, ip_packet(session.addresses(0), &[0; 3])));
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!((found.segments.len(), found.totals.unreadable), (0, 3));
}

#[test]
fn real_sessions_without_their_beginning_are_not_judged() {
    let session = &recorded(IPV4_SESSION)[12..];
    assert_eq!(verify(session, &[IPV4_KEY]).count(Verdict::IsnNotSeen), 22);
    let options = with_isns("10.9.0.2:56969-10.9.0.1:179=2114306659,915357935");
    verify_with(session, &[IPV4_KEY], options).assert_all_good(1);
}

/// A session whose last segment, of the listener, has these octets behind a TCP-AO option with a MAC of 13 octets.
fn with_odd_end(behind: &[u8], coverage: OptionCoverage) -> Session {
    let mut session = Session::usual([1000, 5000]);
    for signing in &mut session.signing {
        (signing.mac_length, signing.options) = (13, coverage);
    }
    session.shake_hands();
    session.talk();
    let header = session.header(1, ACK, &[], &[]);
    let option = [&[29, 17, 100, 100][..], &[0; 13], behind].concat();
    let mut tcp = [&header[..20], &option].concat();
    tcp[12] = ((tcp.len() / 4) as u8) << 4;
    // A reader of the test's own, because the octets cannot be read.
    let (ends, signing) = (session.ends, &session.signing[1]);
    let pseudo_header = [&[0, 0, 0, 0, 192, 0, 2, 2, 192, 0, 2, 1, 0, 6, 0][..], &[tcp.len() as u8]].concat();
    let covered = if coverage == OptionCoverage::Covered { tcp.len() } else { 37 };
    let key = signing.key([ends[1], ends[0]], [session.isns[1], session.isns[0]]);
    let mac = key.mac_key().mac(&[&pseudo_header, &tcp[..covered]]);
    tcp[24..37].copy_from_slice(mac.truncated(13));
    set_checksum(session.addresses(1), &mut tcp);
    session.record(1, &tcp);
    session
}

#[test]
fn octets_behind_the_option_that_are_no_padding_are_noted() {
    let key = format!("{IPV4_KEY},mac=13");
    let excluded = format!("{key},options=excluded");
    for (coverage, key) in [(OptionCoverage::Covered, &key), (OptionCoverage::Excluded, &excluded)] {
        let found = verify(&with_odd_end(&[167, 99, 3], coverage).packets, &[key]);
        found.assert_all_good(1);
        found.assert_diagnosed(
            "octets-behind-option",
            &["1 segment of 192.0.2.2:179 is good, but", "not padding"],
        );
        assert_eq!(found.connections[0].standing(), Standing::Good);
        assert_eq!(found.last_line(&[key]), "all 7 segments are good");
    }
    // More octets than Linux leaves unread; a MAC of another secret; and padding, which is not worth a remark.
    let malformed = Verdict::MalformedOption(OptionError::BadLength { kind: 167, offset: 17 });
    let found = verify(&with_odd_end(&[167, 99, 3, 4, 5, 6, 7], OptionCoverage::Covered).packets, &[&key]);
    assert_eq!(found.verdicts().last(), Some(&malformed));
    found.assert_diagnosed("malformed-options", &["1 segment of 192.0.2.2:179", "cannot be read"]);
    let mut forged = with_odd_end(&[167, 99, 3], OptionCoverage::Covered);
    let last = forged.packets.last_mut().unwrap();
    last.1[20 + 30] ^= 1;
    let found = verify(&forged.packets, &[&key]);
    assert_eq!(found.verdicts().last(), Some(&malformed));
    let found = verify(&with_odd_end(&[1, 1, 1], OptionCoverage::Covered).packets, &[&key]);
    found.assert_all_good(1);
    assert!(found.diagnoses().is_empty());
}
