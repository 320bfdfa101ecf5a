//! Every hypothesis, on recorded sessions signed again with its fault.

use wireseal::verify::VerifyOptions;
use wireseal::verify::report::Verdict;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Endpoint, OptionCoverage, Segment, Sne, checksum};

use crate::support::generate::ip_packet;
use crate::support::session::{
    ACK, Found, IPV4_KEY, IPV4_SESSION, IPV6_KEY, IPV6_SESSION, MSS, PSH, Recorded, SYN, Session, Signing,
    put_mac, recorded, session, set_checksum, signed_anew, verify, verify_with, with_ao,
};

/// The session over IPv4, with both ends signing in this way.
fn both(signing: &Signing) -> Vec<Recorded> {
    signed_anew(&recorded(IPV4_SESSION), signing, signing)
}

/// The session with its listener signing differently from its opener.
fn listener(signing: &Signing) -> Vec<Recorded> {
    signed_anew(&recorded(IPV4_SESSION), &Signing::ipv4(), signing)
}

/// A change at both ends, and at the listener alone; either way there is one diagnosis.
#[track_caller]
fn assert_both_and_listener(signing: &Signing, kind: &str, words: &[&str]) {
    let found = verify(&both(signing), &[IPV4_KEY]);
    assert_eq!(found.count(Verdict::Good), 0);
    found.assert_diagnosed(kind, words);
    found.assert_diagnosed(
        kind,
        &["each end ", "Each has acknowledged the other's segments, so they agree", "of the key given here"],
    );
    // One sentence for both ends.
    let sentences: Vec<_> = found.diagnoses().iter().map(|diagnosis| diagnosis.sentence()).collect();
    assert!(sentences.len() == 2 && sentences[0] == sentences[1]);
    let found = verify(&listener(signing)[..2], &[IPV4_KEY]);
    assert_eq!(found.verdicts(), [Verdict::Good, Verdict::BadMac]);
    found.assert_diagnosed(kind, words);
    found.assert_diagnosed(
        kind,
        &["10.9.0.2:56969's segments verify with the key as given, so the ends differ"],
    );
}

#[test]
fn sessions_signed_anew_are_what_they_were() {
    for (name, signing) in [(IPV4_SESSION, Signing::ipv4()), (IPV6_SESSION, Signing::ipv6())] {
        let session = recorded(name);
        for ((_, octets), (_, anew)) in session.iter().zip(signed_anew(&session, &signing, &signing)) {
            assert_eq!(Segment::parse(octets).unwrap().tcp(), Segment::parse(&anew).unwrap().tcp());
        }
    }
}

#[test]
fn options_are_covered_the_other_way_round() {
    let signing = Signing { options: OptionCoverage::Excluded, ..Signing::ipv4() };
    let found = verify(&both(&signing), &[IPV4_KEY]);
    found.assert_diagnosed(
        "options-coverage",
        &["excludes the other TCP options from the MAC, but key 100 covers them"],
    );
    let found = verify(&listener(&signing)[..2], &[IPV4_KEY]);
    found.assert_diagnosed("options-coverage", &["10.9.0.1:179", "so the ends differ"]);
}

#[test]
fn a_syn_without_answer_leaves_open_who_is_wrong() {
    let signing = Signing { options: OptionCoverage::Excluded, ..Signing::ipv4() };
    let found = verify(&both(&signing)[..1], &[IPV4_KEY]);
    found.assert_diagnosed("options-coverage", &["The capture does not show what 10.9.0.1:179 has"]);
}

#[test]
fn ids_are_swapped() {
    let opener = Signing { key_id: 100, rnext_key_id: 101, ..Signing::ipv4() };
    let listener = Signing { key_id: 101, rnext_key_id: 100, ..Signing::ipv4() };
    let packets = signed_anew(&recorded(IPV4_SESSION), &opener, &listener);
    let right = IPV4_KEY.replace("recv=100", "recv=101");
    verify(&packets, &[&right]).assert_all_good(1);
    verify(&packets, &[&format!("{right},peer=10.9.0.1")]).assert_all_good(1);
    // The end with peer 10.9.0.1 is the opener, and it does not send 101.
    let swapped = format!("{},peer=10.9.0.1", IPV4_KEY.replace("send=100", "send=101"));
    let found = verify(&packets, &[&swapped]);
    assert_eq!(found.count(Verdict::UnknownKeyId), 34);
    let words = [
        "with its SendID and RecvID swapped",
        "SendID 101, RecvID 100",
        "exchange the ids of the key given here",
    ];
    found.assert_diagnosed("ids-swapped", &words);
    let found = verify(&packets[..1], &[&swapped]);
    found.assert_diagnosed(
        "ids-swapped",
        &["Exchange SendID and RecvID at 10.9.0.2:56969, or at 10.9.0.1:179 and here"],
    );
}

#[test]
fn both_ends_send_the_same_id() {
    // The SYN-ACK is never accepted.
    let opener = Signing { key_id: 100, rnext_key_id: 101, ..Signing::ipv4() };
    let packets = signed_anew(&recorded(IPV4_SESSION), &opener, &opener);
    let found = verify(&packets[..2], &[&IPV4_KEY.replace("recv=100", "recv=101")]);
    assert_eq!(found.verdicts(), [Verdict::Good, Verdict::UnknownKeyId]);
    found.assert_diagnosed("same-key-id", &["both ends send KeyID 100", "The ids are swapped at one end"]);
}

#[test]
fn another_key_of_the_chain_signs() {
    let second = "send=101,recv=101,alg=hmac-sha-1-96,secret=second-secret";
    let signing = Signing { key_id: 100, ..Signing::new(TcpAoAlgorithm::HmacSha1, b"second-secret", 100) };
    let found = verify(&both(&signing), &[IPV4_KEY, second]);
    found.assert_diagnosed(
        "other-key",
        &["sends KeyID 100, which is key 100, but signs with key 101", "the secrets of these keys"],
    );
    let signing = Signing { options: OptionCoverage::Excluded, ..signing };
    let found = verify(&both(&signing)[..2], &[IPV4_KEY, second]);
    found
        .assert_diagnosed("other-key", &["signs with key 101", "besides, it excludes the other TCP options"]);
}

#[test]
fn a_key_is_used_under_an_id_that_no_key_has() {
    let signing = Signing { key_id: 7, rnext_key_id: 7, ..Signing::ipv4() };
    let found = verify(&both(&signing), &[IPV4_KEY]);
    assert_eq!(found.count(Verdict::UnknownKeyId), 34);
    let words =
        ["sends KeyID 7, which no key given here has", "the secret of key 100", "SendID 100, RecvID 100"];
    found.assert_diagnosed("other-key-id", &words);
}

#[test]
fn another_algorithm_signs_with_the_same_secret() {
    let secret = b"a secret of thirty-two octets ok";
    for signer in TcpAoAlgorithm::ALL {
        for given in TcpAoAlgorithm::ALL.into_iter().filter(|given| *given != signer) {
            let mut signing = Signing::new(signer, secret, 100);
            signing.mac_length = given.default_mac_length();
            let key = format!("send=100,recv=100,alg={given},secret={}", String::from_utf8_lossy(secret));
            let found = verify(&both(&signing), &[&key]);
            let words = [
                format!("signs with {signer}, but key 100 says {given}"),
                "the secret is the same".to_owned(),
            ];
            found.assert_diagnosed("algorithm", &words.each_ref().map(String::as_str));
        }
    }
}

#[test]
fn the_secret_is_put_down_in_another_way() {
    let rows: [(&[u8], &str); 12] = [
        (b"first-secret\n", "with a newline"),
        (b"first-secret\r\n", "line end of two octets"),
        (b"first-secret ", "with a blank at its end"),
        (b"first-secret\0", "NUL"),
        (b"\"first-secret\"", "double quotes"),
        (b"'first-secret'", "single quotes"),
        (b"66697273742d736563726574", "the secret's hexadecimal digits as text"),
        (b"66697273742D736563726574", "hexadecimal digits, in capitals"),
        (b"0x66697273742d736563726574", "with 0x in front"),
        (b"first-secret\0\0\0\0", "pads the secret with zeros"),
        (b"first-secret", ""),
        (b"something else", ""),
    ];
    for (secret, words) in &rows[..9] {
        let signing = Signing { secret: secret.to_vec(), ..Signing::ipv4() };
        assert_both_and_listener(&signing, "secret-form", &[words, "correct the secret"]);
        // The coverage of options is reversed as well.
        let found =
            verify(&both(&Signing { options: OptionCoverage::Excluded, ..signing })[..1], &[IPV4_KEY]);
        found.assert_diagnosed(
            "secret-form",
            &[words, "besides, it excludes the other TCP options from the MAC"],
        );
    }
    let signing = Signing { secret: rows[9].0.to_vec(), ..Signing::ipv4() };
    assert_both_and_listener(&signing, "cmac-key-derivation", &[rows[9].1, "RFC 5926"]);
    let signing = Signing { secret: rows[11].0.to_vec(), ..Signing::ipv4() };
    verify(&both(&signing), &[IPV4_KEY]).assert_diagnosed("unexplained", &["most likely another secret"]);
}

#[test]
fn the_secret_given_is_put_down_in_another_way() {
    let rows = [
        ("secret-hex=66697273742d7365637265740a", "without the white space or line end"),
        ("secret-hex=2066697273742d736563726574", "without the white space or line end"),
        ("secret-hex=2766697273742d73656372657427", "without the quotes"),
        ("secret=66697273742d736563726574", "takes the secret as hexadecimal digits"),
        ("secret=0x66697273742d736563726574", "takes the secret as hexadecimal digits"),
        ("secret=66:69:72:73:74:2d:73:65:63:72:65:74", "takes the secret as hexadecimal digits"),
    ];
    for (secret, words) in rows {
        let key = format!("send=100,recv=100,alg=aes-128-cmac-96,{secret}");
        verify(&recorded(IPV4_SESSION), &[&key]).assert_diagnosed("secret-form", &[words]);
    }
}

#[test]
fn aes_128_cmac_keys_are_cut_or_compressed() {
    let long = "a secret of more than sixteen octets";
    let signing = Signing { secret: long.as_bytes()[..16].to_vec(), ..Signing::ipv4() };
    let key = format!("send=100,recv=100,alg=aes-128-cmac-96,secret={long}");
    verify(&both(&signing), &[&key])
        .assert_diagnosed("cmac-key-derivation", &["cuts the secret to the 16 octets"]);
    let sixteen = "sixteen-octets-!";
    let compressed = wireseal_mac::MacKey::aes_128_cmac(&[0; 16]).mac(&[sixteen.as_bytes()]);
    let signing = Signing { secret: compressed.as_bytes().to_vec(), ..Signing::ipv4() };
    let key = format!("send=100,recv=100,alg=aes-128-cmac-96,secret={sixteen}");
    let found = verify(&both(&signing), &[&key]);
    found.assert_diagnosed("cmac-key-derivation", &["compresses the secret with AES-CMAC although"]);
}

#[test]
fn macs_have_another_length() {
    for length in [4, 8, 11, 13, 16] {
        let signing = Signing { mac_length: length, ..Signing::ipv4() };
        let words = format!("sends MACs of {length} octets, but key 100 says 12; everything else is right");
        assert_both_and_listener(&signing, "mac-length", &[&words]);
    }
    // Together with another difference.
    let signing = Signing { mac_length: 16, secret: b"first-secret\n".to_vec(), ..Signing::ipv4() };
    let found = verify(&both(&signing), &[IPV4_KEY]);
    found.assert_diagnosed(
        "secret-form",
        &["newline", "besides, its MACs have 16 octets, but the key says 12"],
    );
}

#[test]
fn macs_of_fewer_than_four_octets_explain_nothing() {
    let signing = Signing { mac_length: 3, ..Signing::ipv4() };
    verify(&both(&signing), &[IPV4_KEY]).assert_diagnosed("mac-too-short", &["MACs of 3 octets"]);
}

/// A session whose opener's sequence numbers wrap, and whose SNEs are wrong by this much from then on.
fn wrapped(sne: u32, isn: u32) -> Found {
    let mut session = Session::usual([isn, 5000]);
    session.shake_hands();
    for number in 0..20 {
        let is_wrapped = session.next[0] >> 32 > 0;
        session.signing[0].sne = if is_wrapped { sne } else { 0 };
        session.send(0, ACK | PSH, &[number; 1000]);
        session.send(1, ACK, &[]);
    }
    verify(&session.packets, &[IPV4_KEY])
}

#[test]
fn the_sne_is_off() {
    let isn = u32::MAX - 5000;
    wrapped(0, isn).assert_all_good(1);
    let found = wrapped(u32::MAX, isn);
    found.assert_diagnosed(
        "sne",
        &["with SNE 0, but by the sequence numbers of the capture it is 1", "RFC 9187"],
    );
    let found = wrapped(1, isn);
    found.assert_diagnosed("sne", &["with SNE 2", "it is 1", "has not happened yet"]);
}

#[test]
fn addresses_and_ports_are_rewritten() {
    // The opener signs as 192.168.1.5 port 4000, and the capture is from the other side of the translation.
    let inside = Endpoint::new([192, 168, 1, 5], 56_969);
    let listener = Endpoint::new([10, 9, 0, 1], 179);
    let opener = Signing { ends: Some([inside, listener]), ..Signing::ipv4() };
    let packets = signed_anew(&recorded(IPV4_SESSION), &opener, &Signing::ipv4());
    let options = |hints: &[&str]| VerifyOptions {
        nat: hints.iter().map(|hint| hint.parse().unwrap()).collect(),
        ..VerifyOptions::default()
    };
    let found = verify_with(&packets[..2], &[IPV4_KEY], options(&["192.168.1.5=10.9.0.2"]));
    let words = [
        "addresses or ports are rewritten on the path",
        "192.168.1.5=10.9.0.2",
        "take the NAT out of the path",
    ];
    found.assert_diagnosed("addresses-rewritten", &words);
    // The hint that explains it among others, and reversed.
    let found =
        verify_with(&packets[..2], &[IPV4_KEY], options(&["10.1.1.1=10.2.2.2", "10.9.0.2=192.168.1.5"]));
    found.assert_diagnosed("addresses-rewritten", &["10.9.0.2=192.168.1.5"]);
    let without = verify(&packets[..2], &[IPV4_KEY]);
    without.assert_diagnosed("unexplained", &["nothing that was tried explains"]);
    // A key whose peer is the address inside.
    let key = format!("{IPV4_KEY},peer=192.168.1.5");
    let found = verify_with(&packets[..2], &[&key], options(&["192.168.1.5=10.9.0.2"]));
    found.assert_diagnosed("addresses-rewritten", &["192.168.1.5=10.9.0.2"]);
    // With the port, and both ends translated.
    let inside = Endpoint::new([192, 168, 1, 5], 4000);
    let far = Endpoint::new([172, 16, 0, 9], 1790);
    let opener = Signing { ends: Some([inside, far]), ..Signing::ipv4() };
    let packets = signed_anew(&recorded(IPV4_SESSION), &opener, &Signing::ipv4());
    let hints = ["192.168.1.5:4000=10.9.0.2:56969", "172.16.0.9:1790=10.9.0.1:179"];
    let found = verify_with(&packets[..2], &[IPV4_KEY], options(&hints));
    found.assert_diagnosed("addresses-rewritten", &[hints[0], " and ", hints[1]]);
}

#[test]
fn the_mac_is_computed_with_the_checksum_in_place() {
    fn without_mac(segment: &Segment<'_>) -> u16 {
        checksum::tcp(segment.source_address(), segment.destination_address(), segment.tcp())
    }
    fn pseudo_header(segment: &Segment<'_>) -> u16 {
        let zeros = vec![0; segment.tcp().len()];
        !checksum::tcp(segment.source_address(), segment.destination_address(), &zeros)
    }
    let signing = Signing { checksum: Some(without_mac), ..Signing::ipv4() };
    let found = verify(&both(&signing), &[IPV4_KEY]);
    found.assert_diagnosed(
        "checksum-in-place",
        &["the checksum of the segment without its MAC", "RFC 5925 §5.1"],
    );
    let signing = Signing { checksum: Some(without_mac), ..Signing::ipv6() };
    let found = verify(&signed_anew(&recorded(IPV6_SESSION), &signing, &signing), &[IPV6_KEY]);
    assert_eq!(found.count(Verdict::Good), 0);
    found.assert_diagnosed("checksum-in-place", &["the checksum of the segment without its MAC"]);
    let signing = Signing { checksum: Some(pseudo_header), ..Signing::ipv4() };
    let found = verify(&both(&signing), &[IPV4_KEY]);
    found.assert_diagnosed("checksum-in-place", &["the sum over the pseudo-header", "implementation"]);
    // A checksum that was never right and that the MAC covers.
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    session.signing[0].checksum = Some(|_| 0x1234);
    for _ in 0..3 {
        let mut tcp = session.signed(0, ACK | PSH, &[], b"words");
        tcp[16..18].copy_from_slice(&[0x12, 0x34]);
        session.record(0, &tcp);
        session.advance(0, ACK, 5);
    }
    let found = session.assert_diagnosed("checksum-in-place", &["the segment's own checksum"]);
    assert_eq!(found.diagnoses()[0].segments, 3);
}

#[test]
fn the_mss_is_rewritten_on_the_way() {
    let mut session = Session::usual([1000, 5000]);
    let mut syn = session.signed(0, SYN, &MSS, &[]);
    syn[22..24].copy_from_slice(&1400u16.to_be_bytes());
    set_checksum(session.addresses(0), &mut syn);
    session.record(0, &syn);
    session.assert_diagnosed("mss-rewritten", &["with an MSS of 1460", "MSS clamping"]);
}

/// A payload of which no two parts are alike.
fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place % 251) as u8).collect()
}

#[test]
fn segments_are_merged_before_they_are_recorded() {
    // 1,440 is 1,460 less the options' 20 octets; 777 is no size that an MSS leads to.
    for part in [1440, 777] {
        let mut session = Session::usual([1000, 5000]);
        session.shake_hands();
        let payload = payload(part * 3);
        for _ in 0..2 {
            let mut first = session.signed(0, ACK, &[], &payload[..part]);
            first.extend(&payload[part..]);
            first[13] |= PSH;
            set_checksum(session.addresses(0), &mut first);
            session.record(0, &first);
            session.advance(0, ACK, payload.len());
        }
        let found = verify(&session.packets, &[IPV4_KEY]);
        let words = [
            format!("the first {part} octets of payload"),
            "this does not mean that the keys are wrong".to_owned(),
        ];
        found.assert_diagnosed("segments-merged", &words.each_ref().map(String::as_str));
        assert_eq!(found.diagnoses()[0].segments, 2);
    }
}

#[test]
fn segments_are_split_after_they_were_signed() {
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    let parts = [1460, 1460, 1460, 1460, 1460, 700];
    let payload = payload(parts.iter().sum());
    for _ in 0..2 {
        let whole = session.signed(0, ACK | PSH, &[], &payload);
        let (header, mut rest) = whole.split_at(whole.len() - payload.len());
        for part in parts {
            let (now, later) = rest.split_at(part);
            rest = later;
            let mut tcp = [header, now].concat();
            tcp[4..8].copy_from_slice(&(session.next[0] as u32).to_be_bytes());
            if !rest.is_empty() {
                tcp[13] &= !PSH;
            }
            set_checksum(session.addresses(0), &mut tcp);
            session.record(0, &tcp);
            session.advance(0, ACK, part);
        }
    }
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!(found.count(Verdict::BadMac), 12);
    found.assert_diagnosed("segments-split", &["signed as one segment", "6 the first time", "tso off"]);
    let diagnosis = found.diagnoses()[0];
    assert_eq!((diagnosis.segments, diagnosis.first.packet), (12, 4));
}

#[test]
fn segments_that_were_altered_are_told_from_a_wrong_secret() {
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    session.talk();
    let mut forged = session.signed(1, ACK, &[], b"forged");
    *forged.last_mut().unwrap() ^= 1;
    set_checksum(session.addresses(1), &mut forged);
    session.record(1, &forged);
    session.assert_diagnosed(
        "altered",
        &["1 segment of 192.0.2.2:179", "others verify", "The TCP checksum is right"],
    );
    let mut damaged = session.signed(1, ACK, &[], b"damaged");
    *damaged.last_mut().unwrap() ^= 1;
    session.packets.pop();
    session.record(1, &damaged);
    session.assert_diagnosed("altered", &["The TCP checksum is wrong as well"]);
}

/// Every diagnosis has this sentence, and there is one for each end.
fn assert_one_sentence(found: &Found, kind: &str, sentence: &str) {
    let diagnoses = found.diagnoses();
    assert_eq!((diagnoses.len(), found.kinds()), (2, vec![kind]));
    assert!(diagnoses.iter().all(|diagnosis| diagnosis.sentence() == sentence), "{diagnoses:?}");
}

#[test]
fn what_is_the_same_with_both_ends_is_said_once() {
    let wrong = IPV4_KEY.replace("first-secret", "second-secret");
    let sentence = "most likely another secret: nothing that was tried explains the segments of both ends under key 100 \
                    (KeyID 100). Each has acknowledged the other's segments, so they agree: correct the secret given here. \
                    Tried: both coverages of options, the other algorithms, 15 forms of the secret, other SNEs, \
                    a checksum in the MAC input, other ECN flags, algorithm and form together, another MSS, merged and split \
                    segments.";
    assert_one_sentence(&verify(&session().packets, &[&wrong]), "unexplained", sentence);
    let sentence = "no key given here is for 192.0.2.1 and 192.0.2.2. All keys are for other peers, and each end sends KeyID \
                    100.";
    let elsewhere = format!("{IPV4_KEY},peer=198.51.100.0/24");
    assert_one_sentence(&verify(&session().packets, &[&elsewhere]), "no-key", sentence);
}

#[test]
fn after_a_few_failures_no_more_are_searched() {
    // Were each of these searched, this would take minutes.
    let mut session = Session::new(
        [1000, 5000],
        [Signing::new(TcpAoAlgorithm::Aes128Cmac, b"other", 100), Signing::ipv4()],
    );
    session.shake_hands();
    for _ in 0..3000 {
        session.send(0, ACK | PSH, &[7; 1400]);
    }
    session.assert_diagnosed(
        "secret-of-one-direction",
        &[
            "3,002 segments of 192.0.2.1:50000",
            "so the ends agree",
            "most likely another secret",
            "Tried on 4 of them: ",
        ],
    );
}

#[test]
fn short_macs_that_many_tries_match_are_said_to() {
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    session.signing[0].mac_length = 4;
    let payload = payload(1500);
    let isns = session.isns;
    let header = with_ao(&session.header(0, ACK, &[], &payload), 100, 100, 4);
    let mac = session.signing[0].mac(session.addresses(0), &header[..header.len() - 5], isns, Sne(0));
    let mut tcp = header.clone();
    put_mac(&mut tcp, &mac);
    set_checksum(session.addresses(0), &mut tcp);
    session.record(0, &tcp);
    // Many other segments were tried before.
    for _ in 0..3 {
        let place = session.packets.len() - 1;
        let mut forged = tcp.clone();
        let last = forged.len() - 1500 - 1;
        forged[last] ^= 0xff;
        set_checksum(session.addresses(0), &mut forged);
        let recorded = (session.time, ip_packet(session.addresses(0), &forged));
        session.packets.insert(place, recorded);
    }
    let found =
        verify(&session.packets, &["send=100,recv=100,alg=aes-128-cmac-96,mac=4,secret=first-secret"]);
    let merged = found.diagnoses().into_iter().find(|diagnosis| diagnosis.kind == "segments-merged").unwrap();
    assert!(
        merged.sentence().contains("By chance, a MAC of 4 octets matches in one of 4294967296 tries"),
        "{}",
        merged.sentence()
    );
}

#[test]
fn a_key_id_and_a_secret_that_nobody_has() {
    let signing = Signing { secret: b"third-secret".to_vec(), key_id: 7, rnext_key_id: 7, ..Signing::ipv4() };
    let found = verify(&both(&signing), &[IPV4_KEY]);
    found.assert_diagnosed(
        "unknown-key-id",
        &["sends KeyID 7", "100 (SendID 100, RecvID 100)", "give it here as well"],
    );
    let found = verify(&both(&signing)[..1], &[IPV4_KEY]);
    found.assert_diagnosed("unknown-key-id", &["10.9.0.1:179 needs a key with RecvID 7"]);
}

#[test]
fn a_key_that_one_end_has_rolled_over_to_is_not_known_of_the_other() {
    let second = "send=101,recv=101,alg=hmac-sha-1-96,secret=second-secret";
    let mut session = session();
    session.signing[0] = Signing::new(TcpAoAlgorithm::HmacSha1, b"second-secret\n", 101);
    session.send(0, ACK | PSH, b"words");
    let words = ["newline", "The capture does not show what 192.0.2.2:179 has"];
    verify(&session.packets, &[IPV4_KEY, second]).assert_diagnosed("secret-form", &words);
    // It is acknowledged when sent again with the right key, which says nothing about the wrong one.
    session.next[0] -= 5;
    session.signing[0] = Signing::new(TcpAoAlgorithm::HmacSha1, b"second-secret", 101);
    session.send(0, ACK | PSH, b"words");
    session.send(1, ACK, &[]);
    verify(&session.packets, &[IPV4_KEY, second]).assert_diagnosed("secret-form", &words);
    session.packets.remove(7);
    verify(&session.packets, &[IPV4_KEY, second])
        .assert_diagnosed("secret-form", &["192.0.2.2:179 has acknowledged these segments"]);
}

#[test]
fn both_ends_change_to_a_key_that_is_not_given() {
    let changed = |key_id| {
        let mut session = session();
        session.signing = [0, 1].map(|_| Signing::new(TcpAoAlgorithm::HmacSha1, b"not given", key_id));
        session.talk();
        session.talk();
        session
    };
    let words = ["KeyID 101", "Both ends have changed to keys that are not given here"];
    verify(&changed(101).packets, &[IPV4_KEY]).assert_diagnosed("unknown-key-id", &words);
    let words = ["from packet ", "both ends have changed to another secret under the same KeyID"];
    verify(&changed(100).packets, &[IPV4_KEY]).assert_diagnosed("unexplained", &words);
    // A single forged segment among good ones is different.
    let mut session = session();
    let signing = session.signing[0].clone();
    session.signing[0].secret = b"forged".to_vec();
    session.send(0, ACK, b"forged");
    session.signing[0] = signing;
    session.talk();
    session.assert_diagnosed("altered", &["altered on the path, or forged"]);
}
