//! The program itself: what it prints, and how it ends.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::real::{CAPTURES, capture, key_log, path, records};
use crate::support::document::assert_documented;
use crate::support::files::{Files, set_mode};
use crate::support::program::{Run, program, wireseal_reading};

const FIRST: &str = "quic-aioquic-v1-aes128-ku";

fn quic(capture: &Path, log: Option<&Path>, options: &[&str]) -> Run {
    let mut command = program();
    command.arg("quic").arg(capture).args(options);
    if let Some(log) = log {
        command.arg("--keylog").arg(log);
    }
    command.output().unwrap().into()
}

/// Asserts that with this key log the packets of [`FIRST`] that do not open have one sender, kind and reason.
#[track_caller]
fn assert_only_reason(log: &Path, code: i32, (sender, kind, reason, packets): (&str, &str, &str, u64)) {
    let run = quic(&path(FIRST, "pcap"), Some(log), &["--json"]);
    assert_eq!(run.code, code);
    assert_eq!(reasons(&run.json()), [(sender.to_owned(), kind.to_owned(), reason.to_owned(), packets)]);
}

/// The reasons in a report, with the sender, the kind, and how many.
fn reasons(report: &Value) -> Vec<(String, String, String, u64)> {
    let mut reasons = Vec::new();
    for connection in report["connections"].as_array().unwrap() {
        for sender in ["client", "server"] {
            for not_opened in connection[sender]["not_opened"].as_array().unwrap() {
                let text = |name: &str| not_opened[name].as_str().unwrap_or_default().to_owned();
                let packets = not_opened["packets"].as_u64().unwrap();
                reasons.push((sender.to_owned(), text("kind"), text("reason"), packets));
            }
        }
    }
    reasons
}

#[test]
fn all_captures_open_wholly() {
    let files = Files::new();
    for (name, packets, retries) in CAPTURES {
        let log = files.file("log", key_log(name));
        let run = quic(&path(name, "pcap"), Some(&log), &[]);
        assert_eq!((run.code, run.err), (0, String::new()), "{name}");
        let connections = if retries == 0 { "1 connection" } else { "2 connections" };
        let last = format!("{packets} packets of {connections}: everything opened\n");
        assert!(run.out.ends_with(&last), "{}", run.out);

        let run = quic(&path(name, "pcap"), Some(&log), &["--json"]);
        assert_eq!(run.code, 0);
        let report = run.json();
        assert_eq!(report["schema"], 1);
        let totals = &report["totals"];
        assert_eq!((&totals["opened"], &totals["retries"]), (&packets.into(), &retries.into()));
        assert_eq!(totals["outcome"], "good");
    }
}

#[test]
fn the_report_names_version_suite_and_phases() {
    let files = Files::new();
    let log = files.file("log", key_log(FIRST));
    let text = quic(&path(FIRST, "pcap"), Some(&log), &[]).out;
    for line in [
        "connection 1  127.0.0.1:43523 -> 127.0.0.1:5701",
        "  QUIC version 1, TLS_AES_128_GCM_SHA256",
        "  opened   Initial     0-RTT Handshake     1-RTT     Retry  not opened",
        "  client         2         0         1        16         0           0",
        "  server         1         0         1        32         0           0",
        "  client's key phases 0 from number 3 (packet 3), 1 from number 7 (packet 14), 2 from number 11 (packet 27), \
         3 from number 15 (packet 39)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let log = files.file("log", key_log("quic-aioquic-v2-aes256-ku"));
    let text = quic(&path("quic-aioquic-v2-aes256-ku", "pcap"), Some(&log), &[]).out;
    assert!(text.contains("QUIC version 2, TLS_AES_256_GCM_SHA384"), "{text}");
}

#[test]
fn a_flipped_octet_is_forged() {
    let files = Files::new();
    let log = files.file("log", key_log(FIRST));
    let mut records = records(&capture(FIRST));
    *records[30].last_mut().unwrap() ^= 0x80;
    let file = files.file("capture", records.concat());
    let run = quic(&file, Some(&log), &["--json"]);
    assert_eq!(run.code, 1);
    let report = run.json();
    let [(sender, kind, reason, 1)] = &reasons(&report)[..] else { panic!("{report}") };
    assert_eq!((kind.as_str(), reason.as_str()), ("1-rtt", "forged"));
    let first = &report["connections"][0][sender.as_str()]["not_opened"][0]["first"];
    assert_eq!(first["packet"], 30);
    assert_eq!((&report["totals"]["opened"], &report["totals"]["failed"]), (&52.into(), &1.into()));
    let text = quic(&file, Some(&log), &[]).out;
    let line = "1-RTT packets not opened: 1, from packet 30 on: forged or damaged";
    assert!(text.contains(line), "{text}");
    assert!(
        text.ends_with("52 packets of 1 connection: opened; 1 failed, 0 could not be judged\n"),
        "{text}"
    );
}

#[test]
fn a_missing_label_leaves_its_packets_unjudged() {
    let files = Files::new();
    let text: String = key_log(FIRST)
        .lines()
        .filter(|line| !line.starts_with("SERVER_TRAFFIC"))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_only_reason(&files.file("log", &text), 3, ("server", "1-rtt", "no-key", 32));
}

#[test]
fn a_wrong_secret_opens_nothing_of_its_own() {
    let files = Files::new();
    let text = key_log(FIRST);
    let place = text.find("CLIENT_TRAFFIC_SECRET_0").unwrap() + "CLIENT_TRAFFIC_SECRET_0 ".len() + 65;
    let mut text = text.into_bytes();
    text[place] = if text[place] == b'0' { b'1' } else { b'0' };
    let log = files.file("log", std::str::from_utf8(&text).unwrap());
    assert_only_reason(&log, 1, ("client", "1-rtt", "forged", 16));
}

#[test]
fn without_its_secrets_only_initial_packets_of_a_connection_open() {
    let files = Files::new();
    let other = files.file("log", key_log("quic-ngtcp2-v1-ccm-ku"));
    for (log, has_warning) in
        [(None, false), (Some(other), false), (Some(files.file("empty", "# nothing\n")), true)]
    {
        let run = quic(&path(FIRST, "pcap"), log.as_deref(), &["--json"]);
        assert_eq!(run.code, 3);
        assert_eq!(run.err.contains("it has no secrets of QUIC connections"), has_warning);
        let report = run.json();
        assert_eq!(report["totals"]["opened"], 3);
        let reasons = reasons(&report);
        assert!(reasons.iter().all(|(_, _, reason, _)| reason == "no-key"), "{reasons:?}");
        let packets: u64 = reasons.iter().map(|(.., packets)| packets).sum();
        assert_eq!(packets, 50);
        assert_eq!(report["connections"][0]["suite"], "TLS_AES_128_GCM_SHA256");
    }
}

#[test]
fn what_comes_before_the_damage_is_reported() {
    let files = Files::new();
    let log = files.file("log", key_log(FIRST));
    let whole = capture(FIRST);
    let file = files.file("capture", &whole[..whole.len() - 10]);
    let run = quic(&file, Some(&log), &[]);
    assert_eq!(run.code, 3);
    assert!(run.out.contains("the capture is damaged at packet 50 (octet "), "{}", run.out);
    run.assert_says("52 packets of 1 connection: opened");
    let report = quic(&file, Some(&log), &["--json"]).json();
    let damage = report["totals"]["damage"].as_str().unwrap();
    assert!(damage.starts_with("the capture is damaged at packet 50"), "{damage}");
}

#[test]
fn what_cannot_be_used_is_named_in_one_line() {
    let files = Files::new();
    let garbage = files.file("garbage", "not a capture at all");
    let empty = files.file("empty", "");
    let missing = files.path("missing");
    let good = path(FIRST, "pcap");
    for (capture, log, words) in [
        (&garbage, None, "not a capture: it begins with 6e 6f 74 20"),
        (&empty, None, "the capture is empty"),
        (&missing, None, "No such file"),
        (&good, Some(missing.as_path()), "No such file"),
    ] {
        let run = quic(capture, log, &[]);
        assert_eq!((run.code, run.out), (2, String::new()));
        let errors = run.err;
        assert!(errors.starts_with("wireseal: ") && errors.contains(words), "{errors}");
        assert_eq!(errors.lines().count(), 1);
    }
}

#[test]
fn captures_come_from_standard_input_and_compressed() {
    let files = Files::new();
    let log = files.file("log", key_log(FIRST));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&capture(FIRST)).unwrap();
    let packed = encoder.finish().unwrap();
    let run = wireseal_reading(["quic", "-", "--keylog", log.to_str().unwrap()], &packed);
    assert_eq!(run.code, 0);
    assert!(run.out.contains("53 packets"));
}

#[test]
fn secrets_are_in_no_output() {
    let files = Files::new();
    for (name, ..) in CAPTURES {
        let text = key_log(name);
        // One line that cannot be read, whose octets are as secret as the others'.
        let log = files.file("log", format!("{text}SERVER_TRAFFIC_SECRET_0 00 5ec2e75ec2e75ec2e75ec2e7\n"));
        for options in [&[][..], &["--json"]] {
            let run = quic(&path(name, "pcap"), Some(&log), options);
            let output = run.out + &run.err;
            let secrets = text.lines().filter_map(|line| line.split(' ').nth(2)).chain(["5ec2e75e"]);
            for secret in secrets {
                assert!(!output.contains(secret));
            }
            let line = text.lines().count() + 1;
            assert!(run.err.contains(&format!("line {line} cannot be read")), "{}", run.err);
        }
    }
}

#[test]
fn a_key_log_that_others_can_read_causes_a_warning() {
    let files = Files::new();
    let log = files.file("log", key_log(FIRST));
    set_mode(&log, 0o644);
    let run = quic(&path(FIRST, "pcap"), Some(&log), &[]);
    assert_eq!(run.code, 0);
    assert!(run.err.starts_with("wireseal: warning: "), "{}", run.err);
    assert!(run.err.contains("every user of this machine can read it"), "{}", run.err);
}

#[test]
fn the_documented_example_is_real() {
    let files = Files::new();
    let log = files.file("log", key_log(FIRST));
    let mut report = quic(&path(FIRST, "pcap"), Some(&log), &["--json"]).json();
    report["capture"] = "capture.pcap".into();
    assert_documented(include_str!("../../../docs/quic-json.md"), &report);
}

/// Longer than one read, with the border in any line.
#[test]
fn long_key_logs() {
    let files = Files::new();
    let secrets = key_log(FIRST);
    for comment in [65_400, 65_536, 131_000] {
        let log = format!("{}\n{secrets}", "#".repeat(comment));
        let log = files.file("log", &log);
        let run = quic(&path(FIRST, "pcap"), Some(&log), &[]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    }
}
