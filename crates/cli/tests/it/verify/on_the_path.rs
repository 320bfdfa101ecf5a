//! What devices on the path change, and MACs that leave something out; each beside a capture that is nearly the same and must not be
//! given that reason.

use wireseal::verify::VerifyOptions;
use wireseal::verify::report::Verdict;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{AoOption, Isn, OptionCoverage, Sne};

use crate::support::session::{
    ACK, Found, IPV4_KEY, MSS, PSH, SYN, Session, Signing, put_mac, set_checksum, verify, verify_with,
    with_isns,
};

/// The options of a Linux SYN without timestamps: MSS, NOP, NOP, SACK-permitted, NOP, window scale 7.
const SYN_OPTIONS: [u8; 12] = [2, 4, 0x05, 0xb4, 1, 1, 4, 2, 1, 3, 3, 7];

/// A SYN that was signed with these options and recorded with others, three times.
fn changed(signing: &Signing, signed: &[u8], recorded: &[u8]) -> Session {
    let mut session = Session::new([1000, 5000], [signing.clone(), Signing::ipv4()]);
    // The options stay in their places, with TCP-AO behind them.
    let header = session.header(0, SYN, signed, &[]);
    let mut syn = append_ao(&header, signed.len(), signing);
    let mac = signing.mac(session.addresses(0), &syn, session.isns, Sne(0));
    put_mac(&mut syn, &mac);
    syn[20..][..recorded.len()].copy_from_slice(recorded);
    set_checksum(session.addresses(0), &mut syn);
    session.repeat(0, &syn, 3);
    session
}

/// The segment with a TCP-AO option after its `options` octets of options, which keep their NOPs, and NOPs up to a multiple of four.
fn append_ao(tcp: &[u8], options: usize, signing: &Signing) -> Vec<u8> {
    let (header, payload) = tcp.split_at(20 + options);
    let length = AoOption::length_with(signing.mac_length);
    let mut appended = header.to_vec();
    appended.extend([29, length as u8, signing.key_id, signing.rnext_key_id]);
    appended.resize(header.len() + length, 0);
    appended.resize(appended.len().next_multiple_of(4), 1);
    appended[12] = ((appended.len() / 4) as u8) << 4;
    appended.extend(payload);
    appended
}

#[test]
fn options_are_cleared_on_the_path() {
    let rows: [(&[u8], &str); 5] = [
        (&[2, 4, 0x05, 0xb4, 1, 1, 1, 1, 1, 3, 3, 7], "SACK-permitted was replaced by NOPs on the path"),
        (&[2, 4, 0x05, 0xb4, 1, 1, 4, 2, 1, 1, 1, 1], "window scale (7) was replaced by NOPs on the path"),
        (&[1, 1, 1, 1, 1, 1, 4, 2, 1, 3, 3, 7], "MSS (1460) was replaced by NOPs on the path"),
        (
            &[2, 4, 0x05, 0xb4, 1, 1, 1, 1, 1, 1, 1, 1],
            "SACK-permitted and window scale (7) were replaced by NOPs on the path",
        ),
        (&[1; 12], "MSS (1460), SACK-permitted and window scale (7) were replaced by NOPs on the path"),
    ];
    for (recorded, words) in rows {
        let session = changed(&Signing::ipv4(), &SYN_OPTIONS, recorded);
        let found = verify(&session.packets, &[IPV4_KEY]);
        assert_eq!(found.kinds()[0], "options-cleared", "{:#?}", found.diagnoses());
        let sentence = found.diagnoses()[0].sentence();
        assert!(sentence.contains(words) && sentence.contains("exclude the TCP options"), "{sentence}");
        assert_eq!(found.diagnoses()[0].segments, 3);
    }
    // That the SYN has no answer does not mean that the other end lacks the key.
    let found = verify(&changed(&Signing::ipv4(), &SYN_OPTIONS, rows[0].0).packets, &[IPV4_KEY]);
    let unanswered = &found.diagnoses()[1].advice;
    assert!(unanswered.contains("fix the failing segments of 192.0.2.1:50000 first"), "{unanswered}");
    let fast_open = [34, 2, 1, 1];
    let session = changed(&Signing::ipv4(), &fast_open, &[1; 4]);
    assert_first(&session, "options-cleared", &["the Fast Open option was replaced"]);
}

#[test]
fn a_mac_without_options_or_of_another_secret_shows_no_cleared_option() {
    let cleared = [2, 4, 0x05, 0xb4, 1, 1, 1, 1, 1, 3, 3, 7];
    let another = Signing { secret: b"another secret".to_vec(), ..Signing::ipv4() };
    let session = changed(&another, &SYN_OPTIONS, &cleared);
    assert_first(&session, "unexplained", &["most likely another secret", "options cleared on the path"]);
    // Nothing was cleared, and the MAC excludes the options: then it says nothing about them.
    let excluded = Signing { options: OptionCoverage::Excluded, ..Signing::ipv4() };
    let session = changed(&excluded, &SYN_OPTIONS, &cleared);
    assert_first(&session, "options-coverage", &["excludes the other TCP options"]);
    // An option whose contents nobody can guess: timestamps.
    let mut signed = [1; 12];
    signed[..10].copy_from_slice(&[8, 10, 1, 2, 3, 4, 0, 0, 0, 0]);
    let session = changed(&Signing::ipv4(), &signed, &[1; 12]);
    assert_first(&session, "unexplained", &["Not excluded:", "timestamps changed on the path"]);
}

/// Asserts the first diagnosis; others may follow.
#[track_caller]
fn assert_first(session: &Session, kind: &str, words: &[&str]) -> Found {
    let found = verify(&session.packets, &[IPV4_KEY]);
    let first = found.diagnoses()[0];
    assert_eq!(first.kind, kind, "{:#?}", found.diagnoses());
    for word in words {
        assert!(first.sentence().contains(word), "{word:?} is not in: {}", first.sentence());
    }
    found
}

#[test]
fn the_window_scale_is_rewritten_on_the_path() {
    let mut recorded = SYN_OPTIONS;
    recorded[11] = 2;
    let session = changed(&Signing::ipv4(), &SYN_OPTIONS, &recorded);
    assert_first(&session, "window-scale-rewritten", &["with a window scale of 7", "has changed it"]);
    // RFC 7323 §2.3 has no such scale, so a search finds none.
    let mut impossible = SYN_OPTIONS;
    impossible[11] = 15;
    assert_first(
        &changed(&Signing::ipv4(), &impossible, &recorded),
        "unexplained",
        &["another window scale"],
    );
}

#[test]
fn ecn_flags_are_cleared_on_the_path() {
    // A SYN with ECE and CWR asks for ECN (RFC 3168 §6.1.1). URG is another flag.
    for (flag, kind, word) in
        [(0xc0, "ecn-flags-rewritten", "with ECE and CWR set"), (0x20, "unexplained", "other ECN flags")]
    {
        let mut session = Session::usual([1000, 5000]);
        let mut syn = session.signed(0, SYN | flag, &MSS, &[]);
        syn[13] &= !flag;
        set_checksum(session.addresses(0), &mut syn);
        session.repeat(0, &syn, 3);
        assert_first(&session, kind, &[word]);
    }
}

/// A SYN whose MAC is that of `signed(syn)`, three times. `options` stand before TCP-AO, and `behind` after it.
fn with_input(options: &[u8], behind: &[u8], signed: impl Fn(&[u8], &[u8]) -> Vec<u8>) -> Session {
    let mut session = Session::usual([1000, 5000]);
    let signing = session.signing[0].clone();
    let mut syn = append_ao(&session.header(0, SYN, options, &[]), options.len(), &signing);
    syn.extend(behind);
    syn[12] = ((syn.len() / 4) as u8) << 4;
    let pseudo_header = [&[0, 0, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 6, 0][..], &[syn.len() as u8]].concat();
    let input = signed(&pseudo_header, &syn);
    let mac = signing.key(session.ends, [session.isns[0], Isn::UNKNOWN]).mac_key().mac(&[&input]);
    put_mac(&mut syn, mac.truncated(12));
    set_checksum(session.addresses(0), &mut syn);
    session.repeat(0, &syn, 3);
    session
}

#[test]
fn the_mac_leaves_out_the_nops_after_tcp_ao() {
    let words = ["leaves the NOPs after TCP-AO out of the MAC", "IOS XE", "CSCvx41293"];
    let nops = [1; 4];
    // The data offset and the length still count them, neither does, or only one of them does.
    for (data_offset, length) in [(0, 0), (1, 4), (0, 4), (1, 0)] {
        let session = with_input(&MSS, &nops, |pseudo_header, syn| {
            let mut input = [pseudo_header, &syn[..syn.len() - 4]].concat();
            input[16 + 12] -= data_offset << 4;
            input[15] -= length;
            input
        });
        assert_first(&session, "padding-not-covered", &words);
    }
    let session = with_input(&MSS, &nops, |pseudo_header, syn| {
        [pseudo_header, &syn[..syn.len() - 4], &[0; 4]].concat()
    });
    assert_first(
        &session,
        "padding-not-covered",
        &["computes the MAC with zeros instead of the NOPs after TCP-AO"],
    );
    // Options follow the NOPs: what stands at the end is left out, or everything from the first NOP on.
    let behind = [1, 1, 3, 3, 7, 1, 1, 1];
    let session =
        with_input(&MSS, &behind, |pseudo_header, syn| [pseudo_header, &syn[..syn.len() - 3]].concat());
    assert_first(
        &session,
        "padding-not-covered",
        &["leaves the padding (NOPs) at the end of the options out of the MAC"],
    );
    let session =
        with_input(&MSS, &behind, |pseudo_header, syn| [pseudo_header, &syn[..syn.len() - 8]].concat());
    assert_first(&session, "padding-not-covered", &["leaves everything after TCP-AO out of the MAC"]);
}

#[test]
fn a_mac_that_leaves_out_something_else_is_not_said_to_leave_out_nops() {
    // An option that is no padding is left out.
    let session =
        with_input(&MSS, &[3, 3, 7, 1], |pseudo_header, syn| [pseudo_header, &syn[..syn.len() - 4]].concat());
    assert_first(&session, "unexplained", &["padding left out or zero", "most likely another secret"]);
    // Without padding there is nothing to try.
    let session = with_input(&MSS, &[], |pseudo_header, syn| [pseudo_header, &syn[..syn.len() - 1]].concat());
    let found = assert_first(&session, "unexplained", &["most likely another secret"]);
    assert!(!found.diagnoses()[0].sentence().contains("padding"));
}

/// A session whose recorded numbers are those of the ends plus these shifts.
fn shifted(shifts: [u32; 2]) -> Session {
    let mut session = Session::usual([u32::MAX - 2000, 5000]);
    session.shake_hands();
    for _ in 0..3 {
        session.send(0, ACK | PSH, &[7; 1000]);
        session.send(1, ACK | PSH, &[8; 1000]);
    }
    for (_, packet) in &mut session.packets {
        let sender = usize::from(packet[15] != 1);
        let mut tcp = packet.split_off(20);
        let add = |tcp: &mut Vec<u8>, place: usize, shift: u32| {
            let number: &mut [u8; 4] = tcp[place..].first_chunk_mut().unwrap();
            *number = u32::from_be_bytes(*number).wrapping_add(shift).to_be_bytes();
        };
        add(&mut tcp, 4, shifts[sender]);
        if tcp[13] & ACK != 0 {
            add(&mut tcp, 8, shifts[1 - sender]);
        }
        set_checksum(session_addresses(sender), &mut tcp);
        packet.extend(tcp);
    }
    session
}

fn session_addresses(sender: usize) -> (std::net::IpAddr, std::net::IpAddr) {
    Session::usual([0, 0]).addresses(sender)
}

#[test]
fn sequence_numbers_are_shifted_as_isns_that_are_given_say() {
    let given = with_isns("192.0.2.1:50000-192.0.2.2:179=4294965295,5000");
    for (shifts, words) in [
        ([123_456, 0], "shifts the sequence numbers of 192.0.2.1:50000"),
        ([123_456, 99], "shifts the sequence numbers of"),
    ] {
        let session = shifted(shifts);
        let found = verify_with(&session.packets, &[IPV4_KEY], given.clone());
        assert_eq!(found.count(Verdict::Good), 0);
        found.assert_diagnosed(
            "numbers-shifted",
            &["with the ISNs of --isn", "switch off their randomisation"],
        );
        assert!(found.diagnoses()[0].sentence().contains(words), "{:?}", found.diagnoses());
    }
    // Without them no search finds that, and it is not said to be certain.
    let mut session = shifted([123_456, 0]);
    session.packets.truncate(1);
    session.packets = vec![session.packets[0].clone(); 3];
    let words = ["Not excluded:", "sequence numbers shifted by a firewall (give the sender's with --isn)"];
    session.assert_diagnosed("unexplained", &words);
    let found = verify_with(&session.packets, &[IPV4_KEY], given);
    found.assert_diagnosed("numbers-shifted", &["shifts the sequence numbers of 192.0.2.1:50000"]);
    // Other numbers than those of the ends prove nothing.
    let wrong = with_isns("192.0.2.1:50000-192.0.2.2:179=77,88");
    let found = verify_with(&shifted([123_456, 0]).packets, &[IPV4_KEY], wrong);
    found.assert_diagnosed("unexplained", &["the ISNs of --isn"]);
}

#[test]
fn another_algorithm_takes_the_secret_in_another_form() {
    let signing = Signing::new(TcpAoAlgorithm::HmacSha1, b"first-secret\n", 100);
    let session = |signing: Signing| {
        let mut session = Session::new([1000, 5000], [signing.clone(), signing]);
        session.shake_hands();
        session.talk();
        session
    };
    session(signing.clone()).assert_diagnosed(
        "algorithm-and-secret-form",
        &[
            "signs with HMAC-SHA-1-96, but key 100 says AES-128-CMAC-96",
            "besides, it takes the secret with a newline",
        ],
    );
    let other = Signing { secret: b"first-secret\n\n".to_vec(), ..signing };
    session(other).assert_diagnosed("unexplained", &["algorithm and form together"]);
}

#[test]
fn one_segment_alone_is_not_said_to_be_of_another_secret() {
    let mut session = Session::usual([1000, 5000]);
    session.signing[0].secret = b"another secret".to_vec();
    session.send(0, SYN, &[]);
    session.assert_diagnosed(
        "unexplained",
        &["that one segment may be forged or altered on the path, or of another secret"],
    );
    session.wait(1);
    session.packets.push(session.packets[0].clone());
    session.assert_diagnosed("unexplained", &["most likely another secret"]);
}

#[test]
fn what_a_limit_left_out_is_said() {
    let mut session = Session::usual([1000, 5000]);
    session.signing[0].secret = b"another secret".to_vec();
    session.shake_hands();
    let mut options = VerifyOptions::default();
    options.limits.size_searches = 0;
    let found = verify_with(&session.packets, &[IPV4_KEY], options.clone());
    let sentence = found.diagnoses()[0].sentence();
    assert!(
        sentence.contains("the search limit was reached before everything was tried")
            && sentence.ends_with("Not tried: algorithm and form together, another MSS."),
        "{sentence}"
    );
    assert!(!sentence.contains("most likely"), "{sentence}");
    options.limits.searches = 0;
    let found = verify_with(&session.packets, &[IPV4_KEY], options);
    assert_eq!(found.kinds()[0], "not-searched");
    assert!(found.diagnoses()[0].sentence().contains("because 0 others had been searched before"));
}

#[test]
fn more_explanations_than_are_listed_are_counted() {
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    let ends = ["\n", "\r\n", " ", "\0"].map(|end| format!("first-secret{end}"));
    let others =
        ["\"first-secret\"", "'first-secret'", "66697273742d736563726574", "66697273742D736563726574"];
    let secrets: Vec<_> =
        ends.iter().map(String::as_str).chain(others).chain(["0x66697273742d736563726574"]).collect();
    for options in [OptionCoverage::Covered, OptionCoverage::Excluded] {
        for secret in &secrets {
            session.signing[0] = Signing { secret: secret.as_bytes().to_vec(), options, ..Signing::ipv4() };
            // An option, so that the coverage matters.
            let tcp = session.signed(0, ACK, &[30, 4, 0, 0], b"words");
            session.record(0, &tcp);
            session.advance(0, ACK, 5);
        }
    }
    let found = verify(&session.packets, &[IPV4_KEY]);
    assert_eq!((found.count(Verdict::BadMac), found.diagnoses().len()), (18, 16));
    let last = found.diagnoses()[15].sentence();
    assert!(last.contains("2 more segments have other causes, which are not listed."), "{last}");
}
