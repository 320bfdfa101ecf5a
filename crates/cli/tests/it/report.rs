//! Reports in every format: their content, that it is escaped, and that it has no secrets.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Write};

use serde_json::Value;
use sha2::{Digest, Sha256};
use wireseal::keys::Keys;
use wireseal::report::{Format, Report, Subject};
use wireseal::verify::report::{ConnectionReport, IsnSource, Standing, Totals, Verdict};
use wireseal_tcp_ao::{Endpoint, KeyId};

use crate::support::files::{Files, assert_documented, workspace_file};
use crate::support::reports::{SECRET, every_verdict, keys, options_excluded, rollover, totals};
use crate::support::session::{ACK, IPV4_KEY, Session, set_checksum, verify};

const TEXT: Format = Format::Text { colours: false, all: false };
const JSON: Format = Format::Json { segments: false };
const JSON_WITH_SEGMENTS: Format = Format::Json { segments: true };

/// The report of these connections in a format, with a line for each segment if `segments`, and their page.
fn report_of(
    subject: (&str, &Keys),
    connections: &[ConnectionReport],
    totals: &Totals,
    format: Format,
    segments: bool,
) -> (String, String) {
    let subject = Subject { capture: subject.0, keys: subject.1 };
    let files = Files::new();
    let path = files.path("page.html");
    let mut output = Vec::new();
    let mut report = Report::new(&mut output, format, subject).unwrap().with_page(&path, subject).unwrap();
    for connection in connections {
        for segment in connection.segments.iter().filter(|_| segments) {
            report.segment(connection.number, &connection.ends, segment).unwrap();
        }
        report.connection(connection).unwrap();
    }
    report.finish(totals).unwrap();
    (String::from_utf8(output).unwrap(), fs::read_to_string(path).unwrap())
}

/// The same for a capture whose name is markup, with fragments.
fn report(connections: &[ConnectionReport], format: Format, segments: bool) -> (String, String) {
    report_of(("<i>session</i>.pcap", &keys()), connections, &totals(connections), format, segments)
}

fn all() -> [ConnectionReport; 3] {
    [rollover(), options_excluded(), every_verdict()]
}

/// Asserts what the text's last line and the page say.
#[track_caller]
fn assert_answer(connections: &[ConnectionReport], expected: &str) {
    let (text, page) = report(connections, TEXT, false);
    assert_eq!(text.lines().last(), Some(expected));
    assert!(page.contains(&format!("<p>{expected}</p>")), "{page}");
}

#[test]
fn the_last_line_says_why_the_session_is_down() {
    let totals = Totals { fragments: 0, ..totals(&[rollover()]) };
    let (text, _) = report_of(("session.pcap", &keys()), &[rollover()], &totals, TEXT, false);
    assert_eq!(text.lines().last(), Some("all 32 segments are good"));
    assert_answer(&[rollover()], "all 32 segments are good, but part of the capture could not be read");
    assert_answer(&[], "no TCP segment to judge");

    let cause = &options_excluded().diagnoses[0].cause;
    assert!(cause.starts_with("192.0.2.2:179 excludes the other TCP options from the MAC"), "{cause}");
    assert_answer(&[options_excluded()], &format!("4 of 6 segments failed: {cause}"));
    let expected =
        format!("8 of 12 segments failed in 2 connections for reasons of one kind, for example: {cause}");
    assert_answer(&[options_excluded(), options_excluded()], &expected);
    let mut of_both_ends = options_excluded();
    let mut other = of_both_ends.diagnoses[0].clone();
    (other.cause, other.segments) = ("192.0.2.9:41022 does so as well".to_owned(), 1);
    of_both_ends.diagnoses[0].segments = 3;
    of_both_ends.diagnoses.push(other);
    let expected = format!("4 of 6 segments failed for reasons of one kind, for example: {cause}");
    assert_answer(&[of_both_ends], &expected);
    let mut in_part = options_excluded();
    in_part.diagnoses[0].segments = 3;
    assert_answer(&[in_part], &format!("4 of 6 segments failed, 3 of them for this reason: {cause}"));

    let mut connection = every_verdict();
    connection.diagnoses.clear();
    assert_answer(
        &[connection.clone()],
        "5 of 8 segments failed, and nothing that was tried explains it; 2 more could not be judged",
    );
    for direction in &mut connection.directions {
        direction.counts[Verdict::BadMac.index()..Verdict::IsnNotSeen.index()].fill(0);
    }
    assert_answer(&[connection], "no segment failed, but 2 of 3 segments could not be judged");
}

/// In the last line failures come first, even if more segments could not be judged.
#[test]
fn the_last_line_says_what_failed_before_what_could_not_be_judged() {
    let mut session = Session::usual([1000, 5000]);
    session.shake_hands();
    session.packets.clear();
    // Right after the handshake, the numbers would show the ISNs.
    session.next[0] += 5000;
    (0..5).for_each(|_| session.send(0, ACK, b"of a connection that began before"));
    let mut second = Session::usual([7000, 9000]);
    second.ends[0] = Endpoint::new([192, 0, 2, 1], 50_001);
    second.time = session.time + 1_000_000_000;
    second.shake_hands();
    second.talk();
    for _ in 0..2 {
        let mut tcp = second.signed(1, ACK, &[], b"altered");
        *tcp.last_mut().unwrap() ^= 1;
        set_checksum(second.addresses(1), &mut tcp);
        second.record(1, &tcp);
    }
    second.send(1, ACK, &[]);
    session.packets.append(&mut second.packets);
    let found = verify(&session.packets, &[IPV4_KEY]);
    let answer = "2 of 14 segments failed: 2 segments of 192.0.2.2:179 under key 100 (KeyID 100) fail while others verify: \
                  altered on the path, or forged; 5 more could not be judged: the capture lacks the start of the connection, \
                  and with it the ISNs that the traffic keys depend on";
    assert_eq!(found.last_line(&[IPV4_KEY]), answer);
}

#[test]
fn a_connection_that_did_not_open_is_said_to_be_down() {
    let mut connection = rollover();
    connection.diagnoses = options_excluded().diagnoses;
    connection.diagnoses[0].cause = "192.0.2.2:179 did not answer".to_owned();
    connection.diagnoses[0].about = Standing::NotOpen;
    connection.has_opened = Some(false);
    let answer = "all 32 segments are good, but the connection did not open: 192.0.2.2:179 did not answer";
    assert_answer(&[connection.clone()], answer);
    let of_two =
        "all 64 segments are good, but 1 of 2 connections did not open: 192.0.2.2:179 did not answer";
    assert_answer(&[connection.clone(), rollover()], of_two);
    let (text, page) = report(&[connection.clone()], TEXT, false);
    assert!(
        text.contains("192.0.2.2:179  NOT OPEN\n") && text.contains(" 1 connection, 1 not open\n"),
        "{text}"
    );
    assert_eq!(page.matches("<span class=\"badge not-open\">not open</span>").count(), 2);
    assert!(!page.contains("accepted it") && page.contains("tried to open a connection"));
    let (json, _) = report(&[connection], JSON, false);
    let json: Value = serde_json::from_str(&json).unwrap();
    for verdict in [&json["connections"][0]["verdict"], &json["totals"]["verdict"]] {
        assert_eq!(verdict, "not-open");
    }
    assert_eq!(json["connections"][0]["open"], false);
    assert_eq!(json["totals"]["connections"]["not_open"], 1);
}

#[test]
fn a_segment_that_does_not_verify_is_no_rollover() {
    let mut connection = rollover();
    let uses = &mut connection.directions[0].key_uses;
    let mut forged = uses[0].clone();
    (forged.key_id, forged.key, forged.key_name) = (KeyId(7), None, None);
    let after = uses[0].clone();
    uses.splice(1..1, [forged, after]);
    let (text, page) = report(&[connection], TEXT, false);
    let starts: Vec<_> = text.lines().filter(|line| line.contains("KeyID")).take(4).collect();
    for (line, start) in starts.iter().zip([
        "      KeyID 100 (core/100): ",
        "      then KeyID 7: ",
        "      then KeyID 100 (core/100): ",
        "      rolled over to KeyID 101 (core/101): ",
    ]) {
        assert!(line.starts_with(start), "{line}");
    }
    assert_eq!(page.matches("<dt>then</dt>").count(), 2);
}

#[test]
fn a_closed_pipe_does_not_damage_the_page() {
    let keys = keys();
    let subject = Subject { capture: "session.pcap", keys: &keys };
    let files = Files::new();
    let path = files.path("page.html");
    let report = Report::new(Breaking(0), TEXT, subject).unwrap().with_page(&path, subject).unwrap();
    let result = report.finish(&totals(&[]));
    assert_eq!(result.map_err(|error| error.kind()), Err(ErrorKind::BrokenPipe));
    assert!(fs::read_to_string(&path).unwrap().ends_with("</html>\n"));

    let nowhere = files.path("missing/page.html");
    let error = Report::new(Vec::new(), TEXT, subject).unwrap().with_page(&nowhere, subject).unwrap_err();
    assert!(error.to_string().starts_with(nowhere.to_str().unwrap()), "{error}");
}

#[test]
fn failed_connections_are_named_at_the_end() {
    let failed = |number| ConnectionReport { number, ..options_excluded() };
    let (text, _) = report(&[rollover(), failed(2)], TEXT, false);
    assert!(text.contains("\nfailed: connection 2\n"));
    let connections: Vec<_> = std::iter::once(rollover()).chain((2..=13).rev().map(failed)).collect();
    let (text, _) = report(&connections, TEXT, false);
    assert!(text.contains("\nfailed: connections 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more\n"));
    let (text, _) = report(&[failed(1)], TEXT, false);
    assert!(!text.contains("\nfailed: "));
}

#[test]
fn segments_that_are_not_judged_have_a_colour_of_their_own() {
    let mut connection = options_excluded();
    let counts = &mut connection.directions[1].counts;
    counts.swap(Verdict::BadMac.index(), Verdict::IsnNotSeen.index());
    let (_, page) = report(&[connection], TEXT, false);
    assert!(page.contains("<div class=\"diagnosis not-judged\">"));
    let (_, page) = report(&[options_excluded()], TEXT, false);
    assert!(page.contains("<div class=\"diagnosis failed\">"));
}

#[test]
fn the_text_has_what_an_engineer_looks_for() {
    let (text, _) = report(&all(), TEXT, false);
    for line in [
        "connection 1: 192.0.2.1:50000 -> 192.0.2.2:179  good",
        "  packets 1 to 32, 2026-03-01T12:00:01.001000Z, 4 min 4 s",
        "  192.0.2.1:50000 sent 16 segments: 16 good",
        "      175 octets, 1 retransmission, ISN 268435456, SNE 0",
        "      KeyID 100 (core/100): 10 segments, first packet 1 at 12:00:01.001000, last packet 21 at 12:02:01.021000",
        "      rolled over to KeyID 101 (core/101): 6 segments, first packet 22 at 12:02:31.022000, last packet 32 at 12:04:05.032000",
        "connection 2: 192.0.2.9:41022 -> 192.0.2.2:179  FAILED",
        "  192.0.2.2:179 sent 4 segments: 4 bad MAC",
        "      0 octets, ISN 5, SNE 0, 1 verified reset",
        "      (4 segments of 192.0.2.2:179, from packet 2 on)",
        "      319 octets, ISN 77, 1 unverified reset",
        "  [2001:db8::2]:179 sent 4 segments: 1 bad MAC, 1 no TCP-AO option, 1 two TCP-AO options, 1 cut off",
        " bad MAC                     5 ",
        "<i>session</i>.pcap: 49 packets, 3 connections, 1 good, 2 failed",
        "skipped: 2 IP fragments of TCP (IP protocol 6), without the rest of their packet",
        "skipped: 1 packet of ARP (EtherType 0x0806)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
    }
    assert!(!text.contains('\x1b'));
    let (coloured, _) = report(&all(), Format::Text { colours: true, all: false }, false);
    let stripped = coloured.split('\x1b').enumerate().map(|(place, part)| match place {
        0 => part,
        _ => part.split_once('m').unwrap().1,
    });
    assert_eq!(stripped.collect::<String>(), text);
}

#[test]
fn every_segment_has_a_line_on_request() {
    let (text, _) = report(&[every_verdict()], TEXT, true);
    let expected = [
        "#1 2026-03-01T12:00:03.001000Z connection 3 [2001:db8::1]:50001 > [2001:db8::2]:179 [SYN] seq 4294967195 \
         length 0 KeyID 101 RNextKeyID 101 SNE 0 good",
        "#5 2026-03-01T12:00:03.005000Z connection 3 [2001:db8::2]:179 > [2001:db8::1]:50001 [ACK] seq 78 ack \
         4294967196 length 300 no TCP-AO option",
    ];
    for line in expected {
        assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with('#')).count(), 8);
}

#[test]
fn json_is_one_object_of_a_stable_schema() {
    let (plain, _) = report(&all(), JSON, true);
    let plain: Value = serde_json::from_str(&plain).unwrap();
    assert!(plain.get("segments").is_none());
    let (with_segments, _) = report(&all(), JSON_WITH_SEGMENTS, true);
    let mut with_segments: Value = serde_json::from_str(&with_segments).unwrap();
    let segments = with_segments.as_object_mut().unwrap().remove("segments").unwrap();
    assert_eq!(plain, with_segments);

    assert_eq!(plain["schema"], 1);
    let segments = segments.as_array().unwrap();
    let of_last = segments.iter().filter(|segment| segment["connection"] == 3);
    let verdicts: BTreeSet<_> = of_last.map(|segment| segment["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, Verdict::NAMES.into());
    assert_eq!(segments[0]["acknowledgment"], Value::Null);
    assert_eq!(plain["connections"][1]["verdict"], "failed");
    assert_eq!(plain["connections"][0]["directions"][1]["key_uses"][1]["key_name"], "core/101");
    assert_eq!(plain["totals"]["segments"]["bad-mac"], 5);
    assert_eq!(plain["totals"]["connections"]["failed"], 2);
    assert_eq!(plain["totals"]["causes"][0]["kind"], "options-coverage");
}

#[test]
fn the_documented_example_of_json_is_real() {
    let (written, _) = report(&[options_excluded()], JSON_WITH_SEGMENTS, true);
    let written = written.replace("<i>session</i>", "session");
    let document = String::from_utf8(workspace_file("../docs/verify-json.md")).unwrap();
    assert_documented(&document, &serde_json::from_str(&written).unwrap());
}

#[test]
fn no_report_has_a_secret() {
    let digits: String = SECRET.bytes().map(|octet| format!("{octet:02x}")).collect();
    for format in [TEXT, JSON, JSON_WITH_SEGMENTS] {
        let (output, page) = report(&all(), format, true);
        for text in [output, page] {
            assert!(text.contains("core/100"));
            assert!(!text.contains(SECRET) && !text.to_lowercase().contains(&digits));
        }
    }
}

#[test]
fn the_page_escapes_what_it_shows_and_loads_nothing() {
    let (_, page) = report(&all(), TEXT, false);
    assert!(!page.contains("<script>alert") && !page.contains("<i>session") && !page.contains("<b>so on"));
    assert!(page.contains(
        "&lt;script&gt;alert('core/&quot;101&quot;')&lt;/script&gt; &amp; &lt;b&gt;so on&lt;/b&gt;"
    ));
    assert_eq!(page.matches("<script>").count(), 1);
    for reference in ["http:", "https:", "src=", "url(", "@import", "<link", "<img"] {
        assert!(!page.contains(reference), "{reference}");
    }
    let references = page.split("href=\"").skip(1);
    assert!(references.into_iter().all(|reference| reference.starts_with("#mark-")));
}

/// The page's policy has the hash of its script, so a browser runs no other.
#[test]
fn the_page_allows_only_its_own_script() {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (_, page) = report(&all(), TEXT, false);
    let (_, rest) = page.split_once("<script>").unwrap();
    let (script, _) = rest.split_once("</script>").unwrap();
    let mut hash = String::new();
    for octets in Sha256::digest(script).chunks(3) {
        let bits =
            octets.iter().fold(0, |bits, octet| bits << 8 | usize::from(*octet)) << (8 * (3 - octets.len()));
        for digit in 0..4 {
            let digit = if digit <= octets.len() { DIGITS[bits >> (18 - 6 * digit) & 63] } else { b'=' };
            hash.push(char::from(digit));
        }
    }
    assert!(page.contains(&format!("script-src 'sha256-{hash}'\"")), "{hash}");
}

#[test]
fn the_page_is_bounded_and_says_what_it_leaves_out() {
    let kinds = [options_excluded(), rollover()];
    let numbered = |number| ConnectionReport { number, ..kinds[number as usize % 2].clone() };
    let connections: Vec<_> = (1..=1200).map(numbered).collect();
    let (text, page) = report(&connections, Format::Text { colours: false, all: true }, false);
    assert_eq!(text.matches("connection ").count(), 1200);
    assert_eq!(page.matches("<article").count(), 600);
    assert!(page.contains(": 100 more connections that failed or did not open."));
    assert!(page.contains(": 500 more connections that are good."));

    // A long connection shows only as many segments as a browser can handle.
    let mut connection = rollover();
    let segment = connection.segments[5];
    connection.segments = vec![segment; 5000];
    connection.directions[0].counts[Verdict::Good.index()] = 7_000;
    connection.directions[1].counts[Verdict::Good.index()] = 0;
    let (_, page) = report(&[connection], TEXT, false);
    assert_eq!(page.matches("<g class=\"mark\"").count(), 2000);
    assert!(page.contains("5,000 segments not drawn"));
}

#[test]
fn many_changes_of_key_id_are_bounded_too() {
    let mut connection = rollover();
    let uses = connection.directions[0].key_uses.clone();
    connection.directions[0].key_uses = uses.iter().cycle().take(1000).cloned().collect();
    let (text, page) = report(&[connection], TEXT, false);
    assert!(text.contains("\n      and 968 more changes of KeyID\n"));
    assert_eq!(text.matches("rolled over to").count(), 31 + 1);
    assert!(page.contains("and 968 more changes of KeyID"));
}

#[test]
fn captures_without_times_have_a_page() {
    let mut connection = every_verdict();
    for segment in &mut connection.segments {
        segment.place.time = None;
    }
    connection.first.time = None;
    connection.last.time = None;
    let (text, page) = report(&[connection], TEXT, true);
    assert!(text.contains("\n  packets 1 to 8\n"));
    assert_eq!(page.matches("<g class=\"mark\"").count(), 8);
}

#[test]
fn an_isn_that_was_not_seen_looks_different() {
    let rows = [
        (IsnSource::Seen, "seen", ""),
        (IsnSource::Inferred { is_confirmed: true }, "inferred", " (inferred: confirmed by a MAC)"),
        (IsnSource::Inferred { is_confirmed: false }, "inferred", " (inferred)"),
        (IsnSource::Given, "given", " (given)"),
    ];
    for (source, name, words) in rows {
        let mut connection = rollover();
        let isn = connection.directions[1].isn.unwrap().0;
        connection.directions[1].isn_source = Some(source);
        let (text, page) = report(&[connection.clone()], TEXT, false);
        assert!(text.contains(&format!(", ISN {isn}{words}, SNE")), "{text}");
        assert!(page.contains(&format!("<dd>{isn}{words}</dd>")));
        let (json, _) = report(&[connection], JSON, false);
        assert!(json.contains(&format!("\"isn\":{isn},\"isn_source\":\"{name}\"")), "{json}");
    }
}

#[test]
fn damage_is_reported() {
    let totals = Totals { damage: Some("packet 7 of <8> is cut off".to_owned()), ..totals(&[rollover()]) };
    for format in [TEXT, JSON] {
        let (output, page) = report_of(("broken.pcap", &keys()), &[], &totals, format, false);
        assert!(output.contains("packet 7 of <8> is cut off"));
        assert!(page.contains("packet 7 of &lt;8&gt; is cut off"));
    }
}

#[test]
fn unused_hints_are_reported() {
    let hint = "--nat 10.0.0.9=198.51.100.9";
    let totals = Totals { unused_hints: vec![hint.to_owned()], ..totals(&[rollover()]) };
    let (text, page) = report_of(("capture.pcap", &keys()), &[], &totals, TEXT, false);
    let words = ": no such connection in this capture";
    assert!(text.contains(&format!("\n{hint}{words}\n")), "{text}");
    assert!(page.contains(&format!("<code>{hint}</code>{words}.")));
    let (json, _) = report_of(("capture.pcap", &keys()), &[], &totals, JSON, false);
    assert!(json.contains(&format!("\"unused_hints\":[\"{hint}\"]")), "{json}");
}

#[test]
fn a_name_cannot_send_commands_to_the_terminal() {
    let mut keys = keys();
    keys.keys[0].name = "core\x1b[2J/100".to_owned();
    let mut connection = options_excluded();
    connection.diagnoses[0].cause = "correct key core\x1b[2J/100".to_owned();
    let totals = Totals { damage: Some("\x1bc".to_owned()), ..totals(&[connection.clone()]) };
    let (text, _) = report_of(("a\x07b\n.pcap", &keys), &[connection], &totals, TEXT, false);
    assert!(text.contains("core\u{fffd}[2J/100") && text.contains("a\u{fffd}b\u{fffd}.pcap"));
    assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'));
}

/// An output that fails after this many octets.
struct Breaking(usize);

impl Write for Breaking {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(octets.len()).ok_or(ErrorKind::BrokenPipe)?;
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_breaks_is_an_error_and_no_panic() {
    let (keys, all) = (keys(), all());
    let subject = Subject { capture: "session.pcap", keys: &keys };
    for format in [TEXT, JSON, JSON_WITH_SEGMENTS] {
        let (whole, _) = report(&all, format, true);
        for octets in (0..whole.len() - 100).step_by(97) {
            let run = || -> io::Result<()> {
                let mut report = Report::new(Breaking(octets), format, subject)?;
                for connection in &all {
                    for segment in &connection.segments {
                        report.segment(connection.number, &connection.ends, segment)?;
                    }
                    report.connection(connection)?;
                }
                report.finish(&totals(&all))
            };
            assert_eq!(run().map_err(|error| error.kind()), Err(ErrorKind::BrokenPipe), "{octets}");
        }
    }
}
