//! The small subcommands: selftest, bench, completions and man.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use clap::{CommandFactory, Parser, ValueEnum};
use serde_json::Value;
use wireseal::command::Arguments;
use wireseal::selftest::{self, Group};
use wireseal_algorithms::{AeadAlgorithm, TcpAoAlgorithm};
use wireseal_kernels::cpu::Path as CpuPath;
use wireseal_quic::Backend;

fn wireseal(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wireseal")).args(arguments).output().unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

fn subcommands() -> BTreeSet<String> {
    Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

#[test]
fn the_command_line_is_well_formed() {
    Arguments::command().debug_assert();
    for name in ["verify", "keys", "derive", "quic", "selftest", "bench", "completions", "man"] {
        assert!(subcommands().contains(name), "{name}");
    }
}

#[test]
fn the_arguments_do_not_show_the_secret_of_a_key() {
    let key = "send=1,alg=hmac(sha1),secret=hunter2";
    let shown = format!("{:?}", Arguments::parse_from(["wireseal", "verify", "session.pcap", "--key", key]));
    assert!(shown.contains("session.pcap") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn all_published_vectors_pass() {
    let groups = selftest::run();
    let counted: Vec<_> = groups.iter().map(|group| (group.source, group.vectors)).collect();
    let mut expected =
        vec![("RFC 4493", 4), ("RFC 2202", 7), ("RFC 4231", 7), ("RFC 8439", 12), ("RFC 9235", 32)];
    expected.push(("draft-ietf-tcpm-tcp-ao-algs-07", 64));
    expected.extend(Backend::ALL.iter().flat_map(|_| [("RFC 9001", 5), ("RFC 9369", 5)]));
    assert_eq!(counted, expected);
    for Group { source, subject, failures, .. } in &groups {
        assert!(failures.is_empty(), "{source}, {subject}: {failures:?}");
    }
}

#[test]
fn selftest_says_what_passed_and_what_the_processor_has() {
    let output = wireseal(&["selftest"]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let vectors: usize = selftest::run().iter().map(|group| group.vectors).sum();
    assert_eq!(printed.lines().last(), Some(format!("all {vectors} vectors passed").as_str()));
    let line = |start: &str| printed.lines().find(|line| line.starts_with(start)).unwrap();
    for path in CpuPath::ALL {
        let start = if path.is_available() { "CPU paths in use:" } else { "CPU paths not there:" };
        assert!(line(start).contains(path.name()), "{path}");
    }
    for backend in Backend::ALL {
        assert!(line("QUIC backends:").contains(backend.name()));
    }
    for algorithm in AeadAlgorithm::ALL {
        assert!(printed.contains(algorithm.name()));
    }
}

#[test]
fn the_programs_vectors_are_those_of_the_crates() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (folder, names) in
        [("tcp-ao", ["rfc9235.json", "draft-tcp-ao-algs.json"]), ("quic", ["rfc9001.json", "rfc9369.json"])]
    {
        for name in names {
            let original = fs::read(crates.join(folder).join("tests/data/vectors").join(name)).unwrap();
            assert_eq!(fs::read(crates.join("cli/data").join(name)).unwrap(), original, "{name}");
        }
    }
}

#[test]
fn bench_has_a_figure_for_every_algorithm() {
    let output = wireseal(&["bench", "--json", "--seconds", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut expected: Vec<_> = TcpAoAlgorithm::ALL
        .into_iter()
        .flat_map(|algorithm| [128, 1460].map(|payload| (algorithm.name(), payload)))
        .collect();
    for figure in figures["tcp_ao"].as_array().unwrap() {
        let found = (figure["algorithm"].as_str().unwrap(), figure["payload"].as_u64().unwrap());
        let place = expected.iter().position(|expected| *expected == found).unwrap();
        expected.remove(place);
        assert!(figure["signed"].as_f64().unwrap() > 1000.0 && figure["verified"].as_f64().unwrap() > 1000.0);
    }
    assert!(expected.is_empty(), "{expected:?}");
    assert_eq!(figures["schema"], 1);
    let suites: Vec<_> = figures["quic"].as_array().unwrap().iter().map(|figure| &figure["suite"]).collect();
    assert_eq!(suites, AeadAlgorithm::ALL.map(AeadAlgorithm::name));
    for figure in figures["quic"].as_array().unwrap() {
        assert!(figure["sealed"].as_f64().unwrap() > 0.001 && figure["opened"].as_f64().unwrap() > 0.001);
    }

    let printed = text(&wireseal(&["bench", "--seconds", "1"]).stdout);
    for name in ["AES-128-CMAC-96", "KMAC256-128", "QUIC, Gbit/s"] {
        assert!(printed.contains(name), "{printed}");
    }
}

#[test]
fn every_shell_has_completions_of_every_subcommand() {
    for shell in clap_complete::Shell::value_variants() {
        let output = wireseal(&["completions", &shell.to_string()]);
        assert_eq!(output.status.code(), Some(0));
        let script = text(&output.stdout);
        for name in subcommands() {
            assert!(script.contains(&name), "{name} for {shell}");
        }
    }
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("man1");
    let output = wireseal(&["man", "--output", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    let main = fs::read_to_string(path.join("wireseal.1")).unwrap();
    assert_eq!(text(&wireseal(&["man"]).stdout), main);
    assert!(main.contains(".SH NAME") && main.contains("wireseal"));
    for name in subcommands() {
        let page = fs::read_to_string(path.join(format!("wireseal-{name}.1"))).unwrap();
        assert!(page.contains(&format!("wireseal\\-{name}")), "{page}");
        assert!(main.contains(&format!("wireseal\\-{name}(1)")), "{name}");
    }
    assert!(path.join("wireseal-keys-check.1").exists());
    assert!(!main.contains("wireseal\\-help"), "{main}");

    // A folder that cannot be made.
    let output = wireseal(&["man", "--output", path.join("wireseal.1/man").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr).lines().count(), 1);
}

#[test]
fn errors_of_files_name_them() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let key = "send=1,recv=1,alg=aes-128-cmac-96,secret=0123456789abcdef";
    for arguments in [&["verify", manifest, "--key", key][..], &["quic", manifest]] {
        let output = wireseal(arguments);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(&format!("{manifest}: not a capture")), "{complaint}");
    }
    let output = wireseal(&["verify", "-", "--keys", "-"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot both come from standard input"));
}

#[test]
fn a_reader_that_leaves_is_no_panic() {
    for arguments in [&["completions", "zsh"][..], &["man"], &["selftest"]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_wireseal"));
        let child = command.args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stderr), "");
        assert_eq!(output.status.code(), Some(2));
    }
}
