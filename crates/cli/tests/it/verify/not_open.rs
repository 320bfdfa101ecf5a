//! Connections that never opened, ends that do not sign, and ends with different secrets.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use wireseal::verify::VerifyOptions;
use wireseal::verify::report::{Standing, Verdict};
use wireseal_tcp_ao::{Endpoint, Segment};

use crate::support::files::Files;
use crate::support::generate::ip_packet;
use crate::support::program::wireseal;
use crate::support::session::{
    ACK, Found, IPV4_KEY, IPV4_SESSION, MSS, RST, Recorded, SYN, Session, keys, recorded, session, verify,
    without_ao,
};

const OPENER: usize = 0;
const LISTENER: usize = 1;

/// A session with this many SYNs, as a stack repeats them.
fn syns(count: u32) -> Session {
    let mut session = Session::usual([1000, 5000]);
    let syn = session.signed(OPENER, SYN, &MSS, &[]);
    session.repeat(OPENER, &syn, count);
    session.advance(OPENER, SYN, 0);
    session
}

/// Adds a packet that is not TCP, so that the capture goes on.
fn go_on(session: &mut Session) {
    let mut icmp = session.packets[0].1.clone();
    icmp[9] = 1;
    session.packets.push((session.time, icmp));
}

/// What is found, after asserting the verdict on its only connection and whether that opened.
#[track_caller]
fn found(session: &Session, standing: Standing, has_opened: Option<bool>) -> Found {
    let found = verify(&session.packets, &[IPV4_KEY]);
    let [connection] = &found.connections[..] else { panic!("{} connections", found.connections.len()) };
    assert_eq!((connection.standing(), connection.has_opened), (standing, has_opened), "{connection:#?}");
    found
}

#[track_caller]
fn assert_not_open(session: &Session, kind: &str, words: &[&str]) {
    found(session, Standing::NotOpen, Some(false)).assert_diagnosed(kind, words);
}

#[track_caller]
fn assert_unknown(session: &Session, kind: &str, words: &[&str]) {
    found(session, Standing::NotJudged, None).assert_diagnosed(kind, words);
}

#[test]
fn a_syn_is_never_answered() {
    let words = [
        "192.0.2.2:179 did not answer any of the 3 SYNs of 192.0.2.1:50000 with KeyID 100",
        "most likely 192.0.2.2:179 has no such key or another one",
        "needs a key for 192.0.2.1 with RecvID 100",
        "Or the SYNs do not reach it, or its answers are not in the capture.",
    ];
    assert_not_open(&syns(3), "syn-unanswered", &words);
}

/// A capture of several interfaces has every packet several times, and a SYN at its end may still be answered.
#[test]
fn a_syn_at_the_end_of_the_capture_is_not_judged() {
    let words = ["too little after the SYN of 192.0.2.1:50000 to tell whether 192.0.2.2:179 answers"];
    for count in [1, 2] {
        let mut session = syns(count);
        assert_unknown(&session, "capture-ends", &words);
        let (time, syn) = session.packets.last().unwrap().clone();
        for copy in 1..=4 {
            session.packets.push((time + copy * 200_000_000, syn.clone()));
        }
        assert_unknown(&session, "capture-ends", &words);
        session.time = time + 9_000_000_000;
        go_on(&mut session);
        assert_unknown(&session, "capture-ends", &words);
    }
}

/// A stack repeats what is not answered. If it does not repeat, the capture may lack the answer.
#[test]
fn what_is_not_repeated_may_have_been_answered() {
    for count in [1, 2] {
        let mut session = syns(count);
        session.wait(10);
        go_on(&mut session);
        let words = ["192.0.2.1:50000 did not go on repeating its SYN", "whether 192.0.2.2:179 answered it"];
        assert_unknown(&session, "not-repeated", &words);
    }
}

/// Whatever the capture lacks: filtered by flags, begun late, ended early, of one direction, with losses and copies.
#[test]
fn a_session_that_opened_is_never_not_open() {
    for talks in [false, true] {
        let mut session = syns(2);
        let syn_ack = session.signed(LISTENER, SYN | ACK, &MSS, &[]);
        session.repeat(LISTENER, &syn_ack, 2);
        session.advance(LISTENER, SYN, 0);
        session.send(OPENER, ACK, &[]);
        session.record(LISTENER, &syn_ack);
        session.record(LISTENER, &syn_ack);
        if talks {
            session.talk();
        }
        session.wait(1);
        for (sender, flags) in [(OPENER, RST), (LISTENER, RST | ACK), (OPENER, RST | ACK), (LISTENER, RST)] {
            session.send(sender, flags, &[]);
        }
        for chosen in 1_u32..1 << session.packets.len() {
            let packets = session.packets.iter().enumerate();
            let packets = packets.filter(|(place, _)| chosen & 1 << place != 0);
            let mut part =
                Session { packets: packets.map(|(_, packet)| packet.clone()).collect(), ..syns(0) };
            part.time = session.time + 60_000_000_000;
            if chosen & 1 == 0 {
                go_on(&mut part);
            }
            for connection in verify(&part.packets, &[IPV4_KEY]).connections {
                assert_ne!(connection.has_opened, Some(false), "{chosen:b}: {connection:#?}");
            }
        }
    }
}

/// A reset that is too truncated to verify may have been the answer.
#[test]
fn a_cut_off_reset_may_be_an_answer() {
    let mut session = syns(3);
    session.next[LISTENER] = 0;
    session.isns[LISTENER].0 = 0;
    session.send(LISTENER, RST | ACK, &[]);
    let keys = keys(&[IPV4_KEY]);
    for cut in [false, true] {
        // Truncate both SYN and reset, or the reset alone.
        let recorded = |index: usize, length: usize| if cut || index == 3 { 40 } else { length };
        let found = Found::cut(&session.packets, &keys, VerifyOptions::default(), recorded);
        let connection = &found.connections[0];
        assert_eq!((connection.standing(), connection.has_opened), (Standing::NotJudged, None), "{cut}");
        assert_eq!(found.kinds(), ["cut-off"]);
    }
}

#[test]
fn a_syn_ack_is_never_accepted() {
    let mut session = syns(1);
    let syn_ack = session.signed(LISTENER, SYN | ACK, &MSS, &[]);
    session.record(LISTENER, &syn_ack);
    let words = ["too little after the SYN-ACK of 192.0.2.2:179 to tell whether 192.0.2.1:50000 accepts"];
    assert_unknown(&session, "capture-ends", &words);
    // The rest of the handshake may not be in the capture.
    let mut filtered = Session { packets: session.packets.clone(), ..syns(0) };
    filtered.wait(60);
    go_on(&mut filtered);
    let words = ["192.0.2.2:179 did not go on repeating its SYN-ACK", "whether 192.0.2.1:50000 accepted it"];
    assert_unknown(&filtered, "not-repeated", &words);
    session.packets.pop();
    session.repeat(LISTENER, &syn_ack, 3);
    let words =
        ["192.0.2.1:50000 did not accept any of the 3 SYN-ACKs", "needs a key for 192.0.2.2 with RecvID 100"];
    assert_not_open(&session, "syn-ack-unanswered", &words);
}

#[test]
fn a_listener_that_accepts_nothing_repeats_its_syn_ack() {
    let mut session = session();
    session.packets.truncate(3);
    session.again([1000, 5000]);
    session.next[OPENER] = 1001;
    let syn_ack = session.signed(LISTENER, SYN | ACK, &MSS, &[]);
    session.record(LISTENER, &syn_ack);
    // Copies, and one retransmission that crossed the acknowledgment.
    for wait in [0, 0, 1] {
        session.wait(wait);
        session.record(LISTENER, &syn_ack);
        found(&session, Standing::Good, Some(true));
    }
    session.wait(2);
    session.record(LISTENER, &syn_ack);
    let words = ["192.0.2.2:179 repeats its SYN-ACK", "accepted nothing that 192.0.2.1:50000 sent after it"];
    assert_not_open(&session, "syn-ack-repeated", &words);
}

#[test]
fn a_signed_reset_refuses_the_connection() {
    let mut session = syns(1);
    session.next[LISTENER] = 0;
    session.isns[LISTENER].0 = 0;
    session.send(LISTENER, RST | ACK, &[]);
    let words = ["192.0.2.2:179 refused the connection", "Nothing listens on that port at 192.0.2.2:179"];
    assert_not_open(&session, "refused", &words);
}

/// An opener that signs ignores the reset; the segment without TCP-AO is what failed.
#[test]
fn an_unsigned_reset_answers_the_syn() {
    let mut session = syns(3);
    session.next[LISTENER] = 0;
    session.send_unsigned(LISTENER, RST | ACK, &[], &[]);
    let found = found(&session, Standing::Failed, Some(false));
    found.assert_diagnosed("reset-unsigned", &["answers the signed SYN with an unsigned reset"]);
}

#[test]
fn the_opener_gives_up() {
    let mut session = syns(1);
    session.send(LISTENER, SYN | ACK, &[]);
    session.send(OPENER, RST, &[]);
    assert_not_open(&session, "abandoned", &["192.0.2.1:50000 reset the connection before it was open"]);
}

#[test]
fn a_peer_without_tcp_ao_answers_unsigned() {
    let mut session = syns(2);
    for wait in [1, 2, 4] {
        session.next[LISTENER] = 5000;
        session.send_unsigned(LISTENER, SYN | ACK, &MSS, &[]);
        session.wait(wait);
    }
    let found = found(&session, Standing::Failed, Some(false));
    found.assert_diagnosed("peer-unsigned", &["192.0.2.1:50000 signs and 192.0.2.2:179 does not"]);
}

#[test]
fn one_direction_shows_what_it_shows() {
    // The opener goes on, so it was answered.
    let whole = session();
    let of = |sender: u8| -> Vec<Recorded> {
        whole.packets.iter().filter(|(_, octets)| octets[15] == sender).cloned().collect()
    };
    let opener = Session { packets: of(1), ..session() };
    found(&opener, Standing::Good, Some(true)).assert_all_good(1);
    // The listener goes on, too.
    let listener = Session { packets: of(2), ..session() };
    found(&listener, Standing::Good, Some(true)).assert_all_good(1);
    // The SYN-ACK alone shows nothing; repeated, it shows that it was not accepted.
    let mut session = syns(1);
    session.packets.clear();
    let syn_ack = session.signed(LISTENER, SYN | ACK, &MSS, &[]);
    session.record(LISTENER, &syn_ack);
    let word = "has the SYN-ACK of 192.0.2.2:179 and nothing of 192.0.2.1:50000";
    assert_unknown(&session, "only-listener", &[word]);
    session.wait(1);
    session.repeat(LISTENER, &syn_ack, 2);
    assert_not_open(&session, "syn-ack-unanswered", &["did not accept any of the 3 SYN-ACKs"]);
}

#[test]
fn what_began_before_the_capture_is_open() {
    let mut session = session();
    session.packets.drain(..3);
    assert_eq!(verify(&session.packets, &[IPV4_KEY]).connections[0].has_opened, Some(true));
    // A reset alone does not show it.
    session.packets.clear();
    session.send(OPENER, RST, &[]);
    found(&session, Standing::NotJudged, None).assert_diagnosed("isn-not-seen", &[]);
}

#[test]
fn both_ends_send_only_syns() {
    let mut session = syns(3);
    session.send(LISTENER, SYN, &[]);
    // They may have opened it at once.
    let words = ["too little after the SYN of 192.0.2.1:50000 to tell whether 192.0.2.2:179 answers"];
    assert_unknown(&session, "capture-ends", &words);
    session.next[OPENER] = 1000;
    let syn = session.signed(OPENER, SYN, &MSS, &[]);
    session.wait(4);
    session.repeat(OPENER, &syn, 2);
    assert_not_open(&session, "syn-unanswered", &["192.0.2.2:179 did not answer any of the 5 SYNs"]);
}

#[test]
fn the_last_line_names_what_did_not_open() {
    let mut both = session();
    let mut down = syns(0);
    down.ends[0] = Endpoint::new([192, 0, 2, 1], 50_001);
    down.next[OPENER] = 1000;
    let syn = down.signed(OPENER, SYN, &MSS, &[]);
    down.repeat(OPENER, &syn, 3);
    both.packets.append(&mut down.packets);
    let found = verify(&both.packets, &[IPV4_KEY]);
    assert_eq!(found.count(Verdict::Good), 9);
    let line = "all 9 segments are good, but 1 of 2 connections did not open: 192.0.2.2:179 did not answer any of the 3 SYNs of \
                192.0.2.1:50001 with KeyID 100";
    assert_eq!(found.last_line(&[IPV4_KEY]), line);
}

/// Text, JSON, page and exit code agree.
#[test]
fn the_program_says_that_the_session_is_down() {
    let files = Files::new();
    let written = |name: &str, packets: &[Recorded]| {
        let header = PcapHeader { datalink: DataLink::RAW, ..PcapHeader::default() };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        for (time, octets) in packets {
            let (time, length) = (Duration::from_nanos(*time), octets.len() as u32);
            writer.write_packet(&PcapPacket::new(time, length, octets)).unwrap();
        }
        files.file(name, writer.into_writer())
    };
    let page = files.path("page.html");
    let run = |capture: &Path, more: &[&str]| {
        let arguments =
            ["verify", capture.to_str().unwrap(), "--key", IPV4_KEY, "--html", page.to_str().unwrap()];
        wireseal([&arguments[..], more].concat())
    };
    let down = written("down.pcap", &syns(3).packets);
    let text = run(&down, &[]);
    assert_eq!(text.code, 1, "{}", text.out);
    text.assert_says("connection 1: 192.0.2.1:50000 -> 192.0.2.2:179  NOT OPEN\n");
    text.assert_says("why: 192.0.2.2:179 did not answer any of the 3 SYNs of 192.0.2.1:50000 with KeyID 100. An end with TCP-AO");
    let html = fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("badge not-open") && !html.contains("accepted it") && !html.contains(">good, but<"),
        "{html}"
    );
    let json = run(&down, &["--json"]);
    assert_eq!((json.code, json.json()["totals"]["verdict"].as_str()), (1, Some("not-open")));
    let cut_short = written("cut-short.pcap", &syns(1).packets);
    let text = run(&cut_short, &[]);
    assert_eq!(text.code, 3, "{}", text.out);
    text.assert_says("the only segment is good, but 1 connection could not be judged: the capture shows too little after the SYN");
    assert_eq!(run(&cut_short, &["--json"]).json()["totals"]["verdict"], "not-judged");
}

#[test]
fn one_end_does_not_sign() {
    let packets: Vec<_> = recorded(IPV4_SESSION)
        .into_iter()
        .map(|(time, octets)| {
            let segment = Segment::parse(&octets).unwrap();
            let addresses = (segment.source_address(), segment.destination_address());
            let strip = segment.source().port() == 179;
            let tcp = without_ao(addresses, segment.tcp());
            (time, if strip { ip_packet(addresses, &tcp) } else { octets.clone() })
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
    session.assert_diagnosed("unsigned", &["TCP-AO is configured at neither end"]);
    let found = verify(&session.packets, &[&format!("{IPV4_KEY},peer=10.0.0.0/8")]);
    found.assert_diagnosed("unsigned-without-key", &["no key given here is for them", "--peer"]);
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

/// A connection whose listener does not sign with TCP-AO, and sends this option in its SYN-ACK and, if `always`, in every segment.
fn with_option(option: [u8; 16], always: bool) -> Found {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    session.send_unsigned(1, SYN | ACK, &option, &[]);
    session.send(0, ACK, &[]);
    for number in 0..2 {
        let mut option = option;
        option[15] = number;
        session.send_unsigned(1, ACK, if always { &option } else { &[] }, b"words");
    }
    verify(&session.packets, &[IPV4_KEY])
}

#[test]
fn the_older_enhanced_authentication_option_is_seen_in_place_of_tcp_ao() {
    let words =
        ["192.0.2.2:179 signs with the older TCP Enhanced Authentication Option", "draft-bonica-tcp-auth"];
    for kind in [253, 254] {
        // Algorithm 1 with the options left out, and key 63.
        let mut option = [0x5a; 16];
        option[..4].copy_from_slice(&[kind, 16, 0x81, 63]);
        let found = with_option(option, true);
        found.assert_diagnosed("tcp-enhanced-authentication", &words);
        assert!(!found.diagnoses()[0].sentence().contains("most likely"));
        // Another experiment of the same length, by its identifier: Fast Open's.
        option[2..4].copy_from_slice(&[0xf9, 0x89]);
        with_option(option, true).assert_diagnosed("peer-unsigned", &["signs and 192.0.2.2:179 does not"]);
        // What is in the SYN-ACK alone authenticates nothing.
        option[2..4].copy_from_slice(&[1, 63]);
        with_option(option, false).assert_diagnosed("peer-unsigned", &[]);
    }
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    session.send_unsigned(1, SYN | ACK, &[&[254, 16, 1, 1][..], &[0x5a; 12]].concat(), &[]);
    session
        .assert_diagnosed("tcp-enhanced-authentication", &["most likely 192.0.2.2:179 signs with the older"]);
}

#[test]
fn a_syn_is_answered_with_an_unsigned_reset() {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    session.next[1] = 0;
    session.send_unsigned(1, RST | ACK, &[], &[]);
    session.assert_diagnosed(
        "reset-unsigned",
        &["answers the signed SYN with an unsigned reset", "Nothing listens", "keys do not matter yet"],
    );
    // With another fault they do matter.
    let mut session = Session::usual([1000, 5000]);
    session.signing[0].secret = b"first-secret\n".to_vec();
    session.send(0, SYN, &[]);
    session.next[1] = 0;
    session.send_unsigned(1, RST | ACK, &[], &[]);
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!(found.kinds(), ["secret-form", "reset-unsigned"]);
    assert!(found.diagnoses().iter().all(|it| !it.advice.contains("do not matter")));
}

/// Of a likely and a certain reason for as many segments, the certain one is in the last line.
#[test]
fn an_end_that_does_not_sign_comes_before_a_likely_other_secret() {
    let mut session = Session::usual([1000, 5000]);
    session.signing[0].secret = b"another secret".to_vec();
    let syn = session.signed(0, SYN, &MSS, &[]);
    session.repeat(0, &syn, 2);
    for _ in 0..2 {
        session.next[1] = 5000;
        session.send_unsigned(1, SYN | ACK, &MSS, &[]);
    }
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!(found.kinds(), ["unexplained", "peer-unsigned"]);
    assert!(found.diagnoses()[1].advice.contains("such as a SYN proxy, or removes the option"));
    let last = found.last_line(&[IPV4_KEY]);
    assert!(last.ends_with("192.0.2.1:50000 signs and 192.0.2.2:179 does not"), "{last}");
}

#[test]
fn unsigned_segments_between_signed_ones() {
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    session.talk();
    session.send_unsigned(1, RST, &[], &[]);
    session.talk();
    let found = session.assert_diagnosed(
        "unsigned-resets",
        &[
            "1 reset of 192.0.2.2:179 without TCP-AO",
            "192.0.2.2:179 goes on with signed segments, so a firewall",
        ],
    );
    assert_eq!(found.connections[0].directions[1].other_resets, 1);
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    session.send_unsigned(0, ACK, &[], b"forged");
    session.assert_diagnosed("unsigned-segments", &["1 segment of 192.0.2.1:50000 without TCP-AO"]);
    // One segment with TCP-MD5 does not mean that an end that signs with TCP-AO uses TCP-MD5.
    let md5 = [&[1, 1, 19, 18][..], &[0xaa; 16]].concat();
    session.send_unsigned(0, ACK, &md5, b"forged");
    let words = ["2 segments of 192.0.2.1:50000 without TCP-AO", "1 of them is signed with TCP-MD5"];
    assert_eq!(session.assert_diagnosed("unsigned-segments", &words).kinds(), ["unsigned-segments"]);
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

/// The ends of a connection opened by the usual listener.
fn the_other_way() -> [Endpoint; 2] {
    [Endpoint::new([192, 0, 2, 2], 50_001), Endpoint::new([192, 0, 2, 1], 179)]
}

/// What is found if 192.0.2.2 has another secret, and each end sends three SYNs to the other.
fn each_end_opens(order: [usize; 2]) -> Found {
    let mut sessions = [Session::usual([1000, 5000]), Session::usual([7000, 9000])];
    sessions[1].ends = the_other_way();
    sessions[1].signing[0].secret = b"another secret".to_vec();
    let mut packets = Vec::new();
    for place in order {
        let syn = sessions[place].signed(0, SYN, &MSS, &[]);
        sessions[place].repeat(0, &syn, 3);
        packets.append(&mut sessions[place].packets);
    }
    verify(&packets, &[IPV4_KEY])
}

#[test]
fn the_first_line_says_that_the_ends_have_different_secrets() {
    let different = "most likely the two ends have different secrets: 192.0.2.1's segments verify under key 100 (KeyID 100), and \
                     nothing that was tried explains 3 segments of 192.0.2.2:50001";
    for order in [[0, 1], [1, 0]] {
        let found = each_end_opens(order);
        assert_eq!((found.count(Verdict::Good), found.count(Verdict::BadMac)), (3, 3));
        assert_eq!(found.last_line(&[IPV4_KEY]), format!("3 of 6 segments failed: {different}"));
        let sentences: Vec<_> = found.diagnoses().iter().map(|it| (it.kind, it.sentence())).collect();
        let advice = "192.0.2.1 agrees with the key given here: correct the secret at 192.0.2.2, or at 192.0.2.1 and here. \
                      Not excluded: address translation (give --nat), sequence numbers shifted by a firewall (give the sender's with \
                      --isn). Tried: both coverages of options, the other algorithms, 15 forms of the secret, other SNEs, a checksum in \
                      the MAC input, other ECN flags, algorithm and form together, another MSS.";
        assert!(sentences.contains(&("secrets-differ", format!("{different}. {advice}"))), "{sentences:#?}");
        let unanswered = "192.0.2.2:179 did not answer any of the 3 SYNs of 192.0.2.1:50000, which verify under key 100 (KeyID 100); its \
                          own segments do not, so most likely the two ends have different secrets. Correct the secret at \
                          192.0.2.2, or at 192.0.2.1 and here.";
        assert!(sentences.contains(&("syn-unanswered", unanswered.to_owned())), "{sentences:#?}");
    }
}

#[test]
fn one_end_of_a_connection_has_another_secret() {
    let mut session = Session::usual([1000, 5000]);
    session.signing[1].secret = b"another secret".to_vec();
    session.send(0, SYN, &[]);
    let syn_ack = session.signed(1, SYN | ACK, &MSS, &[]);
    session.repeat(1, &syn_ack, 4);
    let found = verify(&session.packets, &[IPV4_KEY]);
    let first = "4 of 5 segments failed: nothing that was tried explains 4 segments of 192.0.2.2:179 under key 100 (KeyID 100), \
                 although 192.0.2.2:179 answers 192.0.2.1:50000's segments, which verify under that key";
    assert_eq!(found.last_line(&[IPV4_KEY]), first);
    assert_eq!(found.kinds(), ["unexplained", "syn-ack-unanswered"]);
    assert!(found.diagnoses()[0].advice.contains("look for a second key with SendID 100 there"));
}

/// An end whose segments verify elsewhere has the secret: the others are forged.
#[test]
fn forged_syns_do_not_show_another_secret() {
    let mut genuine = session();
    let mut forged = Session::usual([7000, 9000]);
    forged.ends = the_other_way();
    forged.signing[0].secret = b"guessed".to_vec();
    forged.time = genuine.time;
    let syn = forged.signed(0, SYN, &MSS, &[]);
    forged.repeat(0, &syn, 3);
    genuine.packets.append(&mut forged.packets);
    let found = verify(&genuine.packets, &[IPV4_KEY]);
    assert_eq!(found.kinds(), ["unexplained", "syn-unanswered"]);
}
