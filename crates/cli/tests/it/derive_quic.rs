//! `wireseal derive quic` on the packets of RFC 9001 and RFC 9369: every value printed there appears. Packets with one difference are
//! explained, and those that nothing explains are reported as such.

use std::fmt::Write as _;

use serde_json::Value;
use wireseal_quic::hazmat::PathId;
use wireseal_quic::{AeadAlgorithm, ConnectionId, InitialKeys, Keys, PacketType, TrafficSecret, Version};

use crate::support::files::{Files, workspace_file};
use crate::support::program::{Run, wireseal, wireseal_reading};

/// Each document's version, as `--version` takes it, and its values.
fn appendices() -> [(&'static str, Value); 2] {
    [("1", "rfc9001"), ("2", "rfc9369")].map(|(version, name)| {
        let file = workspace_file(&format!("cli/data/{name}.json"));
        (version, serde_json::from_slice(&file).unwrap())
    })
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap()
}

fn derive(arguments: &[&str]) -> Run {
    wireseal([&["derive", "quic"], arguments].concat())
}

/// Asserts the exit code, and that a line begins with each of these names and has the value.
#[track_caller]
fn assert_lines(run: &Run, code: i32, lines: &[(&str, &str)]) {
    assert_eq!(run.code, code, "{}{}", run.err, run.out);
    for (name, value) in lines {
        let has = |line: &str| line.starts_with(name) && line.contains(value);
        assert!(run.out.lines().any(has), "{name} {value} is not in\n{}", run.out);
    }
}

/// The frames of the output. Lines that an asterisk stands for are like the one above it.
fn frames(out: &str) -> String {
    let (_, lines) = out.split_once("authentic, with ").unwrap();
    let (mut frames, mut last) = (String::new(), "");
    for line in lines.lines().skip(1).filter(|line| line.trim() != "*") {
        let mut words = line.split_whitespace();
        let offset = usize::from_str_radix(words.next().unwrap(), 16).unwrap();
        while frames.len() < 2 * offset {
            frames += last;
        }
        last = words.next().unwrap_or_default();
        frames += last;
    }
    frames
}

#[test]
fn every_value_of_the_initial_packets_is_printed() {
    for (_, vector) in appendices() {
        let id = text(&vector, "/destination_connection_id");
        for end in ["client", "server"] {
            let of = |name: &str| text(&vector, &format!("/{end}/{name}"));
            let packet = |name: &str| text(&vector, &format!("/{end}_initial/{name}"));
            let run = derive(&["--dcid", id, "--sender", end, packet("packet")]);
            let number = vector[format!("{end}_initial")]["number"].to_string();
            let lines = [
                ("salt", text(&vector, "/initial_salt")),
                ("initial", text(&vector, "/initial_secret")),
                ("secret", of("secret")),
                ("key", of("key")),
                ("IV", of("iv")),
                ("hp", of("hp")),
                ("sample", packet("sample")),
                ("mask", packet("mask")),
                ("first octet", &packet("header")[..2]),
                ("number", &format!("packet {number}, ")),
                ("AAD", packet("header")),
                ("in packet", "equal"),
            ];
            assert_lines(&run, 0, &lines);
            for label in ["key", "iv", "hp", &format!("{end}_in")] {
                assert!(run.out.contains(text(&vector, &format!("/labels/{label}"))), "{label}: {}", run.out);
            }
            assert_eq!(frames(&run.out), packet("payload"));
        }
    }
}

#[test]
fn every_value_of_the_short_packet_and_its_key_update_is_printed() {
    for (version, vector) in appendices() {
        let of = |name: &str| text(&vector, &format!("/chacha20_poly1305/{name}"));
        let suite = ["--suite", "chacha20-poly1305", "--version", version, "--largest", "654360563"];
        let run = derive(&[&suite[..], &["--secret", of("secret"), of("packet")]].concat());
        let lines = [
            ("key", of("key")),
            ("IV", of("iv")),
            ("hp", of("hp")),
            ("sample", of("sample")),
            ("mask", of("mask")),
            ("number", "packet 654360564, after 654360563"),
            ("nonce", of("nonce")),
            ("AAD", of("header")),
            ("tag", &of("packet")[10..]),
        ];
        assert_lines(&run, 0, &lines);
        assert_eq!(frames(&run.out), of("payload"));
        assert!(!run.out.contains(of("secret")), "{}", run.out);
        let updated =
            derive(&[&suite[..], &["--updates", "1", "--secret", of("secret"), of("packet")]].concat());
        assert_lines(
            &updated,
            1,
            &[("secret", "(32 octets, not shown)"), ("hp", of("hp")), ("in packet", "DIFFERENT")],
        );
        assert!(!updated.out.contains(of("ku")), "{}", updated.out);
    }
}

#[test]
fn retry_and_version_negotiation_packets_are_named() {
    for (_, vector) in appendices() {
        let (id, packet) = (text(&vector, "/destination_connection_id"), text(&vector, "/retry/packet"));
        let tag = &packet[packet.len() - 32..];
        let lines = [
            ("packet", "Retry of QUIC version"),
            ("token", "746f6b656e"),
            ("tag", tag),
            ("in packet", "equal"),
        ];
        assert_lines(&derive(&["--dcid", id, packet]), 0, &lines);
        assert_lines(&derive(&["--dcid", "00", packet]), 1, &[("in packet", "DIFFERENT")]);
        assert_lines(&derive(&[packet]), 3, &[("in packet", "to be checked with --dcid")]);
    }
    let run = derive(&["80 00000000 00 00 00000001 6b3343cf"]);
    assert_lines(
        &run,
        3,
        &[("packet", "Version Negotiation, which nothing protects: 0x00000001, 0x6b3343cf")],
    );
}

/// How a packet is made, and the options that are given for it.
#[derive(Clone, Copy)]
struct Made {
    version: Version,
    suite: AeadAlgorithm,
    number: u64,
    path: u32,
    updates: u32,
}

const USUAL: Made =
    Made { version: Version::V1, suite: AeadAlgorithm::Aes128Gcm, number: 7, path: 0, updates: 0 };
/// The secret of every packet, of which a suite takes as many octets as it needs.
const SECRET: [u8; 48] = [0x5a; 48];

fn digits(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        write!(text, "{octet:02x}").unwrap();
        text
    })
}

impl Made {
    fn secret(&self) -> TrafficSecret {
        TrafficSecret::new(self.suite, &SECRET[..self.suite.secret_length()]).unwrap()
    }

    /// A packet with a short header, a connection ID of four octets, two octets of packet number and 20 of frames.
    fn packet(&self) -> String {
        let keys = |secret| Keys::new(self.version, PacketType::OneRtt, secret).into_parts();
        let secret = (0..self.updates).fold(self.secret(), |secret, _| secret.peek_next(self.version));
        let ((packet_key, _), (_, header_key)) = (keys(secret), keys(self.secret()));
        let mut packet = [&[0x41, 1, 2, 3, 4, 0, 0][..], &[1; 20], &[0; 16]].concat();
        packet[0] |= (self.updates as u8 & 1) << 2;
        packet[5..7].copy_from_slice(&(self.number as u16).to_be_bytes());
        packet_key.seal_packet(&header_key, PathId(self.path), self.number, &mut packet, 7).unwrap();
        digits(&packet)
    }

    /// What is found about the packet with these options.
    fn derive(&self, packet: &str) -> Run {
        let secret = digits(&SECRET[..self.suite.secret_length()]);
        let version = if self.version == Version::V1 { "1" } else { "2" };
        let [largest, path, updates] = [self.number.saturating_sub(1), self.path.into(), self.updates.into()]
            .map(|number| number.to_string());
        derive(&[
            "--secret",
            &secret,
            "--suite",
            self.suite.name(),
            "--version",
            version,
            "--dcid-length",
            "4",
            "--largest",
            &largest,
            "--path",
            &path,
            "--updates",
            &updates,
            packet,
        ])
    }
}

#[test]
fn each_near_miss_is_named_and_opens_when_it_is_given() {
    for (other, found) in [
        (Made { updates: 1, ..USUAL }, "it opens with the secret of the next key phase (--updates 1)"),
        (Made { version: Version::V2, ..USUAL }, "it opens with the labels of QUIC version 2 (--version 2)"),
        (
            Made { suite: AeadAlgorithm::Aes128Ccm, ..USUAL },
            "it opens under TLS_AES_128_CCM_SHA256 (--suite TLS_AES_128_CCM_SHA256)",
        ),
        (
            Made { suite: AeadAlgorithm::ChaCha20Poly1305, ..USUAL },
            "it opens under TLS_CHACHA20_POLY1305_SHA256 (--suite TLS_CHACHA20_POLY1305_SHA256)",
        ),
        (
            Made { number: 7 + (40_000 << 16), ..USUAL },
            "it opens as packet 2621440007: give --largest, such as 2621440006",
        ),
        (Made { path: 3, ..USUAL }, "it opens on path 3 (--path 3)"),
    ] {
        let packet = other.packet();
        let line = format!("does not open as given: {found}");
        assert_lines(&USUAL.derive(&packet), 1, &[("in packet", "DIFFERENT"), (&line, "")]);
        assert_lines(&other.derive(&packet), 0, &[("in packet", "equal")]);
        assert_eq!(frames(&other.derive(&packet).out), "01".repeat(20));
    }
    let late = Made { updates: 1, ..USUAL }.derive(&USUAL.packet());
    let found = "does not open as given: it opens with the secret of the previous key phase (--updates 0)";
    assert_lines(&late, 1, &[(found, "")]);
    for suite in AeadAlgorithm::ALL {
        for version in [Version::V1, Version::V2] {
            let made = Made { suite, version, ..USUAL };
            assert_lines(&made.derive(&made.packet()), 0, &[("suite", suite.name())]);
        }
    }
    let (id, initial) = ("8394c8f03e515708", appendices()[0].1.clone());
    let refused = derive(&["--dcid", id, "--updates", "1", text(&initial, "/server_initial/packet")]);
    assert_eq!(refused.code, 2, "{}", refused.out);
    assert!(refused.err.contains("only packets with a short header have key updates"), "{}", refused.err);
    assert_eq!(derive(&["--secret", "-", "-"]).code, 2);
    let run = derive(&["--dcid", id, text(&initial, "/server_initial/packet")]);
    assert_lines(
        &run,
        1,
        &[("does not open as given: it opens with the server's keys (--sender server)", "")],
    );
}

/// A long header that says one version, with keys of the other.
#[test]
fn labels_of_another_version_than_the_header_says_are_named() {
    let vector = &appendices()[0].1;
    let id = ConnectionId::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]).unwrap();
    let (packet_key, header_key) = InitialKeys::new(Version::V2, &id).client.into_parts();
    let mut packet = base16ct::lower::decode_vec(text(vector, "/client_initial/header")).unwrap();
    let offset = packet.len();
    packet.extend([0; 1162 + 16]);
    packet_key.seal_packet(&header_key, PathId(0), 2, &mut packet, offset).unwrap();
    let run = derive(&["--dcid", &digits(&id), &digits(&packet)]);
    let found = "it opens with the labels of QUIC version 2, but its header says QUIC version 1";
    assert_lines(&run, 1, &[("does not open as given", found)]);
}

#[test]
fn what_nothing_explains_is_said_to_be_so() {
    // Two differences at the same time.
    let other = Made { version: Version::V2, path: 3, ..USUAL };
    let tried = "tried the next key phase, the labels of QUIC version 2, TLS_CHACHA20_POLY1305_SHA256, TLS_AES_128_CCM_SHA256, 65536 \
                 packet numbers that end in these octets, paths 0 to 255";
    let line = ("does not open, and none of these fits", tried);
    assert_lines(&USUAL.derive(&other.packet()), 1, &[line]);
    let sha384 = Made { suite: AeadAlgorithm::Aes256Gcm, ..USUAL };
    let mut packet = sha384.packet();
    packet.replace_range(40..42, if &packet[40..42] == "00" { "01" } else { "00" });
    let run = sha384.derive(&packet);
    assert_lines(
        &run,
        1,
        &[("does not open, and none of these fits", "QUIC version 2, 65536 packet numbers")],
    );
}

#[test]
fn truncated_packets_are_one_line_and_exit_code_2() {
    let vector = &appendices()[0].1;
    let (id, long) = (text(vector, "/destination_connection_id"), text(vector, "/server_initial/packet"));
    let short = USUAL.packet();
    let secret = digits(&SECRET[..32]);
    let given = ["--secret", secret.as_str(), "--dcid-length", "4"];
    let cut = |arguments: &[&str], packet: &str| {
        let run = derive(&[arguments, &[packet]].concat());
        assert_eq!(
            (run.code, run.out.as_str(), run.err.lines().count()),
            (2, "", 1),
            "{packet}: {}",
            run.err
        );
        assert!(run.err.starts_with("wireseal: packet: "), "{}", run.err);
    };
    for octets in 1..long.len() / 2 {
        cut(&["--dcid", id], &long[..2 * octets]);
    }
    // From this length on it has a sample, and is like any packet that does not open.
    for octets in 1..1 + 4 + 4 + 16 {
        cut(&given, &short[..2 * octets]);
    }
    let run = derive(&[&given[..], &[&short[..short.len() - 2]]].concat());
    assert_eq!(run.code, 1, "{}", run.err);
}

#[test]
fn what_cannot_be_used_is_an_error() {
    let vector = &appendices()[0].1;
    let packet = USUAL.packet();
    let secret = digits(&SECRET[..32]);
    let initial = text(vector, "/client_initial/packet");
    for (arguments, expected) in [
        (&[packet.as_str()][..], "no keys: give --secret, or --dcid"),
        (&["--dcid", "0102", &packet], "only Initial packets have keys from a connection ID"),
        (&["--secret", &secret[..62], &packet], "secret: 31 octets; TLS_AES_128_GCM_SHA256 takes one of 32"),
        (&["--secret", &secret, "--suite", "aes-256-gcm", &packet], "takes one of 48"),
        (&["--secret", &secret, "--suite", "rc4", &packet], "expected one of TLS_AES_128_GCM_SHA256, "),
        (&["--secret", &secret, "--dcid", "01", &packet], "cannot be used with"),
        (
            &["--secret", "no such file", &packet],
            "secret: neither pairs of hexadecimal digits nor an existing file",
        ),
        (&["--dcid", "0102030405060708090a0b0c0d0e0f101112131415", initial], "at most 20"),
        (&["--dcid", "01", "--suite", "aes-256-gcm", initial], "cannot be used with"),
        (&["--dcid", "01", "--version", "2", initial], "--version: the packet is of QUIC version 1"),
        (&["--secret", &secret, "c0 0a0a0a0a 00 00 00"], "unknown QUIC version 0x0a0a0a0a"),
    ] {
        let run = derive(arguments);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?}");
        assert!(run.err.contains(expected), "{expected}: {}", run.err);
    }
}

#[test]
fn the_secret_may_come_from_a_file_or_standard_input_and_a_datagram_may_go_on() {
    let (packet, secret) = (USUAL.packet(), digits(&SECRET[..32]));
    let files = Files::new();
    let path = files.file("secret", format!("{}\n{}\n", &secret[..20], &secret[20..]));
    let given = ["derive", "quic", "--dcid-length", "4", &packet, "--secret"];
    let from_file = wireseal([&given[..], &[path.to_str().unwrap()]].concat());
    assert_lines(&from_file, 0, &[("number", ": packet 7, with none before")]);
    assert_eq!(wireseal_reading([&given[..], &["-"]].concat(), secret.as_bytes()).out, from_file.out);

    let vector = &appendices()[0].1;
    let coalesced = format!("{}{packet}", text(vector, "/client_initial/packet"));
    let run = derive(&["--dcid", text(vector, "/destination_connection_id"), &coalesced]);
    assert_lines(&run, 0, &[("note", "43 octets follow the packet: give them alone")]);
}
