//! `wireseal keys`: its output, its exit codes, and where it writes secrets.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wireseal_keys::{Format, Implementation};

use crate::support::files::{Files, set_mode, workspace_file};
use crate::support::program::{Run, program, wireseal, wireseal_reading};

const GOOD: &str = "[[key-chain]]\nname = \"core\"\naccept-tolerance = 60\n\n[[key-chain.key]]\nsend-id = 100\nrecv-id = \
                    101\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"Vd8zqkT1p0wYhU3m\"\n";

fn as_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Keys in a file that only its owner can read.
fn file(keys: &str) -> (Files, PathBuf) {
    let files = Files::new();
    let path = files.file("keys.toml", keys);
    (files, path)
}

fn check(path: &Path, more: &[&str]) -> Run {
    wireseal([&["keys", "check", as_text(path)], more].concat())
}

fn convert(path: &Path, more: &[&str]) -> Run {
    wireseal([&["keys", "convert", as_text(path), "--to"], more].concat())
}

#[test]
fn good_keys_are_explained() {
    let (_files, path) = file(GOOD);
    let run = check(&path, &["--now", "2026-06-01T00:00:00Z"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    let row = run.out.lines().find(|line| line.contains("core/100")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        cells.join(" "),
        "core/100 100 101 AES-128-CMAC-96 12 covered 16 octets always always any yes"
    );
    assert!(!run.out.contains("warning") && !run.out.contains("Vd8z"), "{}", run.out);
    let note = "note: Junos numbers the keys of a chain from 0 to 63: core/100\n";
    run.assert_says(note);

    let run = check(&path, &["--for", "linux", "--for", "junos"]);
    assert_eq!(run.code, 1);
    let warning = "warning: core/100: Junos numbers the keys of a chain from 0 to 63\n";
    run.assert_says(warning);
}

#[test]
fn a_file_that_others_can_read_causes_a_warning() {
    let (_files, path) = file(GOOD);
    set_mode(&path, 0o644);
    let run = check(&path, &[]);
    let expected = format!(
        "wireseal: warning: {}: every user of this machine can read it (mode 0644); \"chmod o-r\" prevents that\n",
        path.display()
    );
    assert_eq!((run.code, run.err), (1, expected));
}

#[test]
fn warnings_have_exit_code_1_and_errors_2() {
    let (files, path) = file(&GOOD.replace("Vd8zqkT1p0wYhU3m", "hunter2"));
    let run = check(&path, &[]);
    assert_eq!(run.code, 1);
    run.assert_says("warning: core/100: the secret has 7 octets: ");
    assert!(!run.out.contains("hunter2"));

    files.file("keys.toml", "[[key-chain]]\nname = hunter2");
    let run = check(&path, &[]);
    assert_eq!((run.code, run.err.lines().count()), (2, 1), "{}", run.err);
    assert!(run.err.starts_with(&format!("wireseal: {}: line 2, column ", path.display())), "{}", run.err);
    assert!(!run.err.contains("hunter2"), "{}", run.err);
    assert_eq!(check(Path::new("/no/such/file"), &[]).code, 2);
    assert_eq!(wireseal(["keys", "check"]).code, 2);
    assert_eq!(check(&path, &["--now", "yesterday"]).code, 2);
}

#[test]
fn a_file_that_cannot_be_read_leaves_the_others_their_reports() {
    let (files, path) = file(GOOD);
    let bad = files.file("bad.toml", "[[key-chain]]\nname = 1\n");
    let missing = path.with_file_name("missing.toml");
    for arguments in [&["keys", "check"] as &[_], &["keys", "check", "--json"]] {
        let run = wireseal([arguments, &[as_text(&bad), as_text(&path), as_text(&missing)]].concat());
        assert_eq!(run.code, 2, "{}", run.out);
        assert!(run.out.contains("core/100"), "{}", run.out);
        let lines: Vec<_> = run.err.lines().collect();
        assert_eq!(lines.len(), 2, "{}", run.err);
        assert!(
            lines[0].contains("bad.toml: line 2") && lines[1].contains("missing.toml: No such file"),
            "{}",
            run.err
        );
    }
}

#[test]
fn the_report_is_also_json() {
    let (_files, path) = file(&GOOD.replace("Vd8zqkT1p0wYhU3m", "hunter2"));
    let run = check(&path, &["--json", "--now", "2026-06-01T00:00:00Z"]);
    assert!(!run.out.contains("hunter2"));
    let report = run.json();
    assert_eq!((&report["schema"], &report["now"]), (&1.into(), &"2026-06-01T00:00:00Z".into()));
    let file = &report["files"][0];
    assert_eq!((&file["format"], &file["readable_by_others"]), (&"toml".into(), &false.into()));
    let expected = json!({
        "name": "core/100", "chain": "core", "key_id": 100, "line": null, "send_id": 100, "recv_id": 101,
        "algorithm": "AES-128-CMAC-96", "mac_length": 12, "options": "covered", "secret_length": 7,
        "send": {"from": null, "until": null}, "accept": {"from": null, "until": null}, "peers": [], "usable": "yes", "clock": "utc",
    });
    assert_eq!(file["keys"], json!([expected]));
    let first = &file["findings"][0];
    assert_eq!((&first["weight"], &first["kind"]), (&"warning".into(), &"weak-secret".into()));
    assert_eq!((&first["subject"], &first["line"]), (&"core/100".into(), &Value::Null));
}

#[test]
fn keys_come_from_standard_input_too() {
    // Longer than the buffer that the program reads it with.
    let input = "# a comment\n".repeat(5000) + GOOD;
    let run = wireseal_reading(["keys", "convert", "-", "--to", "bird"], input.as_bytes());
    assert_eq!(run.code, 0);
    let expected = "send id 100;\n\t\t\trecv id 101;\n\t\t\tsecret \"Vd8zqkT1p0wYhU3m\";\n";
    run.assert_says(expected);
}

#[test]
fn only_their_owner_can_read_converted_keys() {
    let (files, path) = file(GOOD);
    // The old file, which everyone can read, is replaced.
    let written = files.file("bird.conf", "old");
    set_mode(&written, 0o666);
    let run = convert(&path, &["bird", "--output", as_text(&written)]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    assert_eq!(
        run.err,
        "wireseal: not carried over: chain \"core\": its tolerance, which BIRD does not have\nwireseal: not carried over: \
         chain \"core\": has no neighbor, which BIRD requires\n"
    );
    let comment = "\t# Add its neighbor too: \"neighbor ... as ...;\".\n";
    assert!(fs::read_to_string(&written).unwrap().contains(comment));
    assert_eq!(fs::metadata(&written).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(convert(&written, &["toml"]).out, GOOD.replace("accept-tolerance = 60\n", ""));

    let run = convert(&path, &["bird", "--output", as_text(&files.path("missing/bird.conf"))]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("bird.conf: "), "{}", run.err);
}

#[test]
fn secrets_are_shown_on_a_terminal_only_on_request() {
    let (_files, path) = file(GOOD);
    let on_terminal = |more: &str| {
        let program = env!("CARGO_BIN_EXE_wireseal");
        let command = format!("'{program}' keys convert '{}' --to bird {more}", path.display());
        // script(1) gives the command a terminal.
        let mut script = Command::new("script");
        Run::from(script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).output().unwrap())
    };
    let Run { code, out, .. } = on_terminal("");
    assert_eq!(code, 2);
    assert!(out.contains("give --output FILE, or --show-secrets") && !out.contains("Vd8z"), "{out}");
    let Run { out, .. } = on_terminal("--show-secrets");
    assert!(out.contains("Vd8zqkT1p0wYhU3m"), "{out}");
}

#[test]
fn keys_that_cannot_be_converted_are_reported_in_one_line() {
    let (_files, path) = file(&GOOD.replace("AES-128-CMAC-96", "hmac(sha256)"));
    let run = convert(&path, &["junos"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    let expected = format!(
        "wireseal: {}: no key can be written as junos: key core/100 is left out: Junos does not support hmac(sha256)\n",
        path.display()
    );
    assert_eq!(run.err, expected);
}

#[test]
fn only_regular_files_are_replaced() {
    let (files, path) = file(GOOD);
    let [link, socket] = ["link", "socket"].map(|name| files.path(name));
    symlink(files.path("elsewhere"), &link).unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    for output in [&link, &socket] {
        let before = fs::symlink_metadata(output).unwrap().file_type();
        let run = convert(&path, &["bird", "--output", as_text(output)]);
        assert_eq!(run.code, 2, "{}", run.err);
        assert!(run.err.contains("not a regular file, so it is not replaced"), "{}", run.err);
        assert_eq!(fs::symlink_metadata(output).unwrap().file_type(), before);
    }
    let arguments = ["keys", "convert", as_text(&path), "--to", "toml", "--output", "-"];
    let run = Run::from(program().args(arguments).current_dir(files.path(".")).output().unwrap());
    assert_eq!((run.code, run.out.as_str()), (0, GOOD));
    assert!(!files.path("-").exists());
}

#[test]
fn a_secret_in_the_wrong_place_of_the_command_line_is_not_repeated() {
    let (_files, path) = file(GOOD);
    for secret in ["secret=hunter2", "secret-hex=68756e74657232"] {
        let key = format!("send=1,alg=hmac(sha1),{secret},mac=12");
        for arguments in [
            &["verify", "session.pcap", "--keys", &key][..],
            &["verify", "session.pcap", &key],
            &["verify", &key, "--keys", as_text(&path)],
            &["verify", "session.pcap", "--port", &key],
            &["verify", "session.pcap", "--isn", &key],
            &["keys", "check", &key],
            &["keys", "check", &format!("--key={key}")],
            &["derive", &key, "--keys", as_text(&path)],
        ] {
            let Run { code, err, .. } = wireseal(arguments);
            assert_eq!(code, 2, "{arguments:?}: {err}");
            assert!(!err.contains("hunter2") && !err.contains("68756e"), "{arguments:?}: {err}");
            assert!(!err.is_empty());
        }
        let Run { err, .. } = wireseal(["verify", "session.pcap", "--keys", &key]);
        assert!(err.ends_with("where no key is expected: give keys with --key\n"), "{err}");
    }
}

#[test]
fn a_closed_standard_error_is_no_panic() {
    let (_files, path) = file(GOOD);
    set_mode(&path, 0o644);
    for (arguments, code) in [
        (&["keys", "check", "/no/such/file"][..], 2),
        (&["keys", "convert", as_text(&path), "--to", "bird"], 0),
        (&["keys", "no-such-command"], 2),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = program().args(arguments).stdout(Stdio::null()).stderr(writer).status();
        assert_eq!(status.unwrap().code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn an_error_is_one_line_and_names_the_file() {
    let files = Files::new();
    let long = format!("keys {{ key {{ id 1; secret \"{}\"; }}; }}", "x".repeat(81));
    let path = files.file("long\n\x1b[2J.conf", long);
    let Run { code, err, .. } = wireseal(["verify", "session.pcap", "--keys", as_text(&path)]);
    assert_eq!((code, err.lines().count()), (2, 1), "{err}");
    assert!(
        err.contains(as_text(path.parent().unwrap())) && err.contains("line 1, column 8, key 1, secret: "),
        "{err}"
    );
    assert!(!err.contains('\x1b'), "{err}");
}

#[test]
fn a_name_cannot_send_commands_to_the_terminal() {
    let twice = GOOD.replace("core", "a\\u001b[2Jb").replace("secret", "key-id = 1\nsecret");
    let (_, key) = twice.rsplit_once("[[key-chain.key]]").unwrap();
    let (_files, path) = file(&format!("{twice}\n[[key-chain.key]]{key}"));
    let Run { code, out, err } = check(&path, &[]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("with a\u{fffd}[2Jb/1") && !out.contains('\x1b'), "{out}");
}

#[test]
fn the_page_has_every_format_and_implementation() {
    let page = String::from_utf8(workspace_file("../docs/keys.md")).unwrap();
    let (_, table) = page.split_once("| `--format` |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<_> = rows.map(|row| row.split(" | ").collect::<Vec<_>>()).collect();
    let mut described: Vec<_> =
        rows.iter().map(|row| (row[0], row[2].trim_end_matches(" |") != "no")).collect();
    let mut known: Vec<_> =
        Format::ALL.iter().map(|format| (format!("| `{format}`"), format.is_written())).collect();
    described.sort_unstable();
    known.sort_unstable();
    assert!(
        described.into_iter().eq(known.iter().map(|(name, is_written)| (name.as_str(), *is_written))),
        "{known:?}"
    );
    let option = page.lines().find(|line| line.starts_with("| `--for IMPLEMENTATION`")).unwrap();
    for implementation in Implementation::all() {
        assert!(option.contains(&format!("`{}`", implementation.name())), "{implementation}");
    }
}
