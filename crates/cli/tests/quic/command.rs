//! The program itself: what it prints, and how it ends.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::real::{CAPTURES, capture, key_log, path, records};

const FIRST: &str = "quic-aioquic-v1-aes128-ku";

struct Run {
    output: Output,
}

impl Run {
    fn new(capture: &Path, log: Option<&Path>, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wireseal"));
        command.arg("quic").arg(capture).args(options);
        if let Some(log) = log {
            command.arg("--keylog").arg(log);
        }
        Self { output: command.output().unwrap() }
    }

    fn code(&self) -> i32 {
        self.output.status.code().unwrap()
    }

    fn text(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    fn errors(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.output.stdout).unwrap()
    }
}

/// Files of one test, which nobody else can read.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, octets: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, octets).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn key_log(&self, text: &str) -> PathBuf {
        self.file("log", text)
    }
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
        let log = files.key_log(&key_log(name));
        let run = Run::new(&path(name, "pcap"), Some(&log), &[]);
        assert_eq!((run.code(), run.errors()), (0, String::new()), "{name}");
        let connections = if retries == 0 { "1 connection" } else { "2 connections" };
        let last = format!("{packets} packets of {connections}: everything opened\n");
        assert!(run.text().ends_with(&last), "{}", run.text());

        let run = Run::new(&path(name, "pcap"), Some(&log), &["--json"]);
        assert_eq!(run.code(), 0);
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
    let log = files.key_log(&key_log(FIRST));
    let text = Run::new(&path(FIRST, "pcap"), Some(&log), &[]).text();
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
    let log = files.key_log(&key_log("quic-aioquic-v2-aes256-ku"));
    let text = Run::new(&path("quic-aioquic-v2-aes256-ku", "pcap"), Some(&log), &[]).text();
    assert!(text.contains("QUIC version 2, TLS_AES_256_GCM_SHA384"), "{text}");
}

#[test]
fn a_flipped_octet_is_forged() {
    let files = Files::new();
    let log = files.key_log(&key_log(FIRST));
    let mut records = records(&capture(FIRST));
    *records[30].last_mut().unwrap() ^= 0x80;
    let file = files.file("capture", records.concat());
    let run = Run::new(&file, Some(&log), &["--json"]);
    assert_eq!(run.code(), 1);
    let report = run.json();
    let [(sender, kind, reason, 1)] = &reasons(&report)[..] else { panic!("{report}") };
    assert_eq!((kind.as_str(), reason.as_str()), ("1-rtt", "forged"));
    let first = &report["connections"][0][sender.as_str()]["not_opened"][0]["first"];
    assert_eq!(first["packet"], 30);
    assert_eq!((&report["totals"]["opened"], &report["totals"]["failed"]), (&52.into(), &1.into()));
    let text = Run::new(&file, Some(&log), &[]).text();
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
    let run = Run::new(&path(FIRST, "pcap"), Some(&files.key_log(&text)), &["--json"]);
    assert_eq!(run.code(), 3);
    let expected = ("server".to_owned(), "1-rtt".to_owned(), "no-key".to_owned(), 32);
    assert_eq!(reasons(&run.json()), [expected]);
}

#[test]
fn a_wrong_secret_opens_nothing_of_its_own() {
    let files = Files::new();
    let text = key_log(FIRST);
    let place = text.find("CLIENT_TRAFFIC_SECRET_0").unwrap() + "CLIENT_TRAFFIC_SECRET_0 ".len() + 65;
    let mut text = text.into_bytes();
    text[place] = if text[place] == b'0' { b'1' } else { b'0' };
    let log = files.key_log(std::str::from_utf8(&text).unwrap());
    let run = Run::new(&path(FIRST, "pcap"), Some(&log), &["--json"]);
    assert_eq!(run.code(), 1);
    let expected = ("client".to_owned(), "1-rtt".to_owned(), "forged".to_owned(), 16);
    assert_eq!(reasons(&run.json()), [expected]);
}

#[test]
fn without_its_secrets_only_initial_packets_of_a_connection_open() {
    let files = Files::new();
    let other = files.key_log(&key_log("quic-ngtcp2-v1-ccm-ku"));
    for (log, has_warning) in
        [(None, false), (Some(other), false), (Some(files.file("empty", "# nothing\n")), true)]
    {
        let run = Run::new(&path(FIRST, "pcap"), log.as_deref(), &["--json"]);
        assert_eq!(run.code(), 3);
        assert_eq!(run.errors().contains("it has no secret of a QUIC connection"), has_warning);
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
    let log = files.key_log(&key_log(FIRST));
    let whole = capture(FIRST);
    let file = files.file("capture", &whole[..whole.len() - 10]);
    let run = Run::new(&file, Some(&log), &[]);
    assert_eq!(run.code(), 3);
    assert!(run.text().contains("the capture is damaged at packet 50 (octet "), "{}", run.text());
    assert!(run.text().contains("52 packets of 1 connection: opened"), "{}", run.text());
    let report = Run::new(&file, Some(&log), &["--json"]).json();
    let damage = report["totals"]["damage"].as_str().unwrap();
    assert!(damage.starts_with("the capture is damaged at packet 50"), "{damage}");
}

#[test]
fn what_cannot_be_used_is_named_in_one_line() {
    let files = Files::new();
    let garbage = files.file("garbage", "not a capture at all");
    let empty = files.file("empty", "");
    let missing = files.0.path().join("missing");
    let good = path(FIRST, "pcap");
    for (capture, log, words) in [
        (&garbage, None, "not a capture: it begins with 6e 6f 74 20"),
        (&empty, None, "the capture is empty"),
        (&missing, None, "No such file"),
        (&good, Some(missing.as_path()), "No such file"),
    ] {
        let run = Run::new(capture, log, &[]);
        assert_eq!((run.code(), run.text()), (2, String::new()));
        let errors = run.errors();
        assert!(errors.starts_with("wireseal: ") && errors.contains(words), "{errors}");
        assert_eq!(errors.lines().count(), 1);
    }
}

#[test]
fn captures_come_from_standard_input_and_compressed() {
    let files = Files::new();
    let log = files.key_log(&key_log(FIRST));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&capture(FIRST)).unwrap();
    let packed = encoder.finish().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_wireseal"))
        .args(["quic", "-", "--keylog"])
        .arg(&log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&packed).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("53 packets"));
}

#[test]
fn secrets_are_in_no_output() {
    let files = Files::new();
    for (name, ..) in CAPTURES {
        let text = key_log(name);
        // One line that cannot be read, whose octets are as secret as the others'.
        let log = files.key_log(&format!("{text}SERVER_TRAFFIC_SECRET_0 00 5ec2e75ec2e75ec2e75ec2e7\n"));
        for options in [&[][..], &["--json"]] {
            let run = Run::new(&path(name, "pcap"), Some(&log), options);
            let output = run.text() + &run.errors();
            let secrets = text.lines().filter_map(|line| line.split(' ').nth(2)).chain(["5ec2e75e"]);
            for secret in secrets {
                assert!(!output.contains(secret));
            }
            let line = text.lines().count() + 1;
            assert!(run.errors().contains(&format!("line {line} cannot be read")), "{}", run.errors());
        }
    }
}

#[test]
fn a_key_log_that_everybody_can_read_is_warned_of() {
    let files = Files::new();
    let log = files.key_log(&key_log(FIRST));
    fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).unwrap();
    let run = Run::new(&path(FIRST, "pcap"), Some(&log), &[]);
    assert_eq!(run.code(), 0);
    assert!(run.errors().starts_with("wireseal: warning: "), "{}", run.errors());
    assert!(run.errors().contains("every user of this machine can read it"), "{}", run.errors());
}

/// The example of the documentation is what the program prints.
#[test]
fn the_documented_example_is_right() {
    let files = Files::new();
    let log = files.key_log(&key_log(FIRST));
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/quic-json.md")).unwrap();
    let example = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let mut printed = Run::new(&path(FIRST, "pcap"), Some(&log), &["--json"]).json();
    printed["capture"] = "capture.pcap".into();
    assert_eq!(serde_json::from_str::<Value>(example).unwrap(), printed);
    // Every member is explained.
    fn names(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| {
                into.push(name.clone());
                names(value, into);
            }),
            Value::Array(values) => values.iter().for_each(|value| names(value, into)),
            _ => {}
        }
    }
    let mut members = Vec::new();
    names(&printed, &mut members);
    for member in members {
        assert!(page.contains(&format!("`{member}`")), "{member} is not explained");
    }
}

/// Longer than what is read of it at a time, whatever line the border falls into.
#[test]
fn long_key_logs() {
    let files = Files::new();
    let secrets = key_log(FIRST);
    for comment in [65_400, 65_536, 131_000] {
        let log = format!("{}\n{secrets}", "#".repeat(comment));
        let log = files.key_log(&log);
        let run = Run::new(&path(FIRST, "pcap"), Some(&log), &[]);
        assert_eq!((run.code(), run.errors().as_str()), (0, ""), "{}", run.text());
    }
}
