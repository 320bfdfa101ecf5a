//! The small subcommands, and the session that the README shows.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::{fs, io};

use clap::{CommandFactory, Parser, ValueEnum};
use wireseal::command::Arguments;
use wireseal::selftest::{self, Group};
use wireseal_algorithms::AeadAlgorithm;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_quic::Backend;

use crate::support::files::{Files, crates, workspace_file};
use crate::support::program::{Run, program, wireseal, wireseal_on_terminal};
use crate::support::session::{IPV4_SESSION, capture_path};

fn subcommands() -> BTreeSet<String> {
    Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

#[test]
fn the_command_line_is_well_formed() {
    Arguments::command().debug_assert();
    let names =
        ["verify", "keys", "derive", "explain", "run", "gateway", "status", "selftest", "completions", "man"];
    for name in names {
        assert!(subcommands().contains(name), "{name}");
    }
}

#[test]
fn the_version_names_the_commit_and_what_is_used() {
    let short = wireseal(["-V"]);
    let version = concat!("wireseal ", env!("CARGO_PKG_VERSION"));
    assert!(
        short.code == 0 && short.out.starts_with(version) && short.out.lines().count() == 1,
        "{}",
        short.out
    );
    let git = |arguments: &[&str]| std::process::Command::new("git").args(arguments).output();
    if git(&["ls-files", "--error-unmatch", "build.rs"]).is_ok_and(|output| output.status.success()) {
        let head = String::from_utf8(git(&["rev-parse", "HEAD"]).unwrap().stdout).unwrap();
        assert!(short.out.contains(&format!("({}", &head[..12])), "{} at {head}", short.out);
    }
    let long = wireseal(["--version"]);
    assert_eq!((long.code, long.out.lines().next()), (0, short.out.lines().next()));
    let machine = wireseal(["selftest"]).out;
    for line in machine.lines().take_while(|line| !line.starts_with('─')) {
        assert!(long.out.contains(line), "{line}: {}", long.out);
    }
    for word in [std::env::consts::ARCH, "AES-128-CMAC-96", "KMAC256-128"] {
        assert!(long.out.contains(word), "{word}: {}", long.out);
    }
    // Manual pages are the same wherever they are made.
    assert!(!wireseal(["man"]).out.contains("CPU paths"));
}

#[test]
fn lines_fit_the_terminal_and_no_word_is_broken() {
    let capture = capture_path(IPV4_SESSION);
    let [capture, keys] =
        [capture.to_str().unwrap(), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/core.toml")];
    let bird = concat!(env!("CARGO_MANIFEST_DIR"), "/../keys/tests/data/routers/bird.conf");
    let packet = "4500003c1d2c400040060000c0000201c0000202c35000b3000003e800000000c002ffff00000000020405b41d10646400000000000000000000000000";
    for arguments in [
        &["verify", capture, "--keys", keys][..],
        &["keys", "check", bird],
        &["keys", "check", keys],
        &["derive", packet, "--keys", keys, "--explain"],
        &["selftest"],
        &["help", "verify"],
        &["--help"],
    ] {
        let words = |run: &Run| {
            let words = run.out.split_whitespace().filter(|word| !word.contains(['─', '═']));
            words.map(|word| word.trim_end_matches(':').to_owned()).collect::<BTreeSet<_>>()
        };
        let whole = wireseal_on_terminal("400", arguments);
        for columns in [60_usize, 80, 100, 200] {
            let run = wireseal_on_terminal(&columns.to_string(), arguments);
            let fits = |line: &str| line.chars().count() <= columns || !line.trim_start().contains(' ');
            assert!(run.out.lines().all(fits), "{columns}: {}", run.out);
            let (narrow, wide) = (words(&run), words(&whole));
            assert_eq!(narrow, wide, "{columns}: {}", run.out);
        }
    }
    // Files and pipes get whole lines, whether or not the shell exports COLUMNS.
    let piped = || {
        let mut command = program();
        command.args(["keys", "check", bird]);
        command
    };
    let [without, with] = [piped().env_remove("COLUMNS").output(), piped().env("COLUMNS", "60").output()];
    let [without, with] = [without, with].map(|output| Run::from(output.unwrap()));
    assert!(without.out.lines().any(|line| line.chars().count() > 150));
    assert_eq!(with.out, without.out);
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

    let run = wireseal(["selftest"]);
    assert_eq!(run.code, 0, "{}", run.out);
    let vectors: usize = groups.iter().map(|group| group.vectors).sum();
    assert_eq!(run.out.lines().last(), Some(format!("all {vectors} vectors passed").as_str()));
    let line = |start: &str| run.out.lines().find(|line| line.starts_with(start)).unwrap();
    for path in InstructionSet::ALL {
        let start = if path.is_available() { "CPU paths in use:" } else { "CPU paths unavailable:" };
        assert!(line(start).contains(path.name()), "{path}");
    }
    for backend in Backend::ALL {
        assert!(line("QUIC backends:").contains(backend.name()));
    }
    for algorithm in AeadAlgorithm::ALL {
        assert!(run.out.contains(algorithm.name()));
    }
}

#[test]
fn the_programs_vectors_are_copies_of_the_crates() {
    for (folder, names) in
        [("tcp-ao", ["rfc9235.json", "draft-tcp-ao-algs.json"]), ("quic", ["rfc9001.json", "rfc9369.json"])]
    {
        for name in names {
            let original = workspace_file(&format!("{folder}/tests/data/vectors/{name}"));
            assert_eq!(workspace_file(&format!("cli/data/{name}")), original, "{name}");
        }
    }
}

#[test]
fn every_shell_has_completions_of_every_subcommand() {
    for shell in clap_complete::Shell::value_variants() {
        let run = wireseal(["completions", &shell.to_string()]);
        assert_eq!(run.code, 0);
        for name in subcommands() {
            assert!(run.out.contains(&name), "{name} for {shell}");
        }
    }
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let files = Files::new();
    let path = files.path("man1");
    let run = wireseal(["man", "--output", path.to_str().unwrap()]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    let main = fs::read_to_string(path.join("wireseal.1")).unwrap();
    assert_eq!(wireseal(["man"]).out, main);
    assert!(main.contains(".SH NAME") && main.contains("wireseal"));
    for name in subcommands() {
        let page = fs::read_to_string(path.join(format!("wireseal-{name}.1"))).unwrap();
        assert!(page.contains(&format!("wireseal\\-{name}")), "{page}");
        assert!(main.contains(&format!("wireseal\\-{name}(1)")), "{name}");
    }
    assert!(path.join("wireseal-keys-check.1").exists());
    assert!(!main.contains("wireseal\\-help"), "{main}");

    // A folder cannot be made inside a file.
    let run = wireseal(["man", "--output", path.join("wireseal.1/man").to_str().unwrap()]);
    assert_eq!((run.code, run.err.lines().count()), (2, 1));
}

#[test]
fn errors_of_files_name_them() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let key = "send=1,recv=1,alg=aes-128-cmac-96,secret=0123456789abcdef";
    let run = wireseal(["verify", manifest, "--key", key]);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.err.contains(&format!("{manifest}: not a capture")), "{}", run.err);
    let run = wireseal(["verify", "-", "--keys", "-"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("cannot both come from standard input"), "{}", run.err);
}

#[test]
fn a_closed_pipe_is_no_panic() {
    for arguments in [&["completions", "zsh"][..], &["man"], &["selftest"]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let child = program().args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let run = Run::from(child.wait_with_output().unwrap());
        assert_eq!((run.code, run.err.as_str()), (2, ""));
    }
}

#[test]
fn the_session_in_the_readme_is_real() {
    let workspace = crates().join("..");
    let readme = fs::read_to_string(workspace.join("README.md")).unwrap();
    let command = readme.lines().find_map(|line| line.strip_prefix("wireseal verify docs/example/")).unwrap();
    let files = Files::new();
    let page = files.path("session.html");
    let command = format!("verify docs/example/{}", command.replace("session.html", page.to_str().unwrap()));
    let run = Run::from(program().current_dir(&workspace).args(command.split(' ')).output().unwrap());
    assert_eq!(run.code, 1);
    let shown = format!("```text\n{}\n```\n", run.out.lines().last().unwrap());
    assert!(readme.contains(&shown), "the README shows another last line than:\n{}", run.out);
    assert!(fs::read_to_string(page).unwrap().contains("core/100"));
}
