//! `wireseal keys`: what it prints, where secrets may go, and its exit codes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const GOOD: &str = "[[key-chain]]\nname = \"core\"\naccept-tolerance = 60\n\n[[key-chain.key]]\nsend-id = 100\nrecv-id = \
                    101\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"Vd8zqkT1p0wYhU3m\"\n";

fn wireseal(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wireseal")).args(arguments).output().expect("the program runs")
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).expect("UTF-8")
}

/// A file of this mode, in a directory that lasts as long as the test.
fn file(name: &str, content: &str, mode: u32) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    fs::write(&path, content).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    (directory, path)
}

fn as_text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn good_keys_are_explained() {
    let (_directory, path) = file("keys.toml", GOOD, 0o600);
    let output = wireseal(&["keys", "check", as_text(&path), "--now", "2026-06-01T00:00:00Z"]);
    let shown = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{shown}");
    let row = shown.lines().find(|line| line.contains("core/100")).expect("a row for the key");
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        cells,
        [
            "core/100",
            "100",
            "101",
            "AES-128-CMAC-96",
            "12",
            "covered",
            "16",
            "octets",
            "always",
            "always",
            "any",
            "yes"
        ]
    );
    assert!(!shown.contains("warning") && !shown.contains("Vd8z"), "{shown}");
    assert!(shown.contains("note: Junos numbers the keys of a chain from 0 to 63: core/100\n"), "{shown}");

    let output = wireseal(&["keys", "check", as_text(&path), "--for", "linux", "--for", "junos"]);
    assert_eq!(output.status.code(), Some(1));
    let warning = "warning: core/100: Junos numbers the keys of a chain from 0 to 63\n";
    assert!(text(&output.stdout).contains(warning), "{}", text(&output.stdout));
}

#[test]
fn a_file_that_others_can_read_is_warned_of() {
    let (_directory, path) = file("keys.toml", GOOD, 0o644);
    let output = wireseal(&["keys", "check", as_text(&path)]);
    let warning = text(&output.stderr);
    assert_eq!(
        warning,
        format!(
            "wireseal: warning: {}: every user of this machine can read it (mode 0644); \"chmod o-r\" keeps its secrets from \
             them\n",
            path.display()
        )
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn warnings_have_exit_code_1_and_errors_2() {
    let (_directory, path) = file("keys.toml", &GOOD.replace("Vd8zqkT1p0wYhU3m", "hunter2"), 0o600);
    let output = wireseal(&["keys", "check", as_text(&path)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("warning: core/100: the secret has 7 octets: "),
        "{}",
        text(&output.stdout)
    );
    assert!(!text(&output.stdout).contains("hunter2"));

    let (_directory, path) = file("keys.toml", "[[key-chain]]\nname = hunter2", 0o600);
    let output = wireseal(&["keys", "check", as_text(&path)]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(error.starts_with(&format!("wireseal: {}: line 2, column ", path.display())), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
    assert_eq!(wireseal(&["keys", "check", "/no/such/file"]).status.code(), Some(2));
    assert_eq!(wireseal(&["keys", "check"]).status.code(), Some(2));
    assert_eq!(wireseal(&["keys", "check", as_text(&path), "--now", "yesterday"]).status.code(), Some(2));
}

#[test]
fn the_report_is_also_json() {
    let (_directory, path) = file("keys.toml", &GOOD.replace("Vd8zqkT1p0wYhU3m", "hunter2"), 0o600);
    let output = wireseal(&["keys", "check", as_text(&path), "--json", "--now", "2026-06-01T00:00:00Z"]);
    assert!(!text(&output.stdout).contains("hunter2"));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["schema"], &report["now"]), (&1.into(), &"2026-06-01T00:00:00Z".into()));
    let file = &report["files"][0];
    assert_eq!((&file["format"], &file["readable_by_others"]), (&"toml".into(), &false.into()));
    let expected = serde_json::json!({
        "name": "core/100", "chain": "core", "key_id": 100, "line": null, "send_id": 100, "recv_id": 101,
        "algorithm": "AES-128-CMAC-96", "mac_length": 12, "options": "covered", "secret_length": 7,
        "send": {"from": null, "until": null}, "accept": {"from": null, "until": null}, "peers": [], "usable": "yes",
    });
    assert_eq!(file["keys"], serde_json::json!([expected]));
    let first = &file["findings"][0];
    assert_eq!((&first["weight"], &first["kind"]), (&"warning".into(), &"weak-secret".into()));
    assert_eq!((&first["subject"], &first["line"]), (&"core/100".into(), &Value::Null));
}

#[test]
fn keys_come_from_standard_input_too() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_wireseal"))
        .args(["keys", "convert", "-", "--to", "bird"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    // More than one buffer of a growing read.
    let padding = "# a comment\n".repeat(5000);
    let mut input = program.stdin.take().expect("a pipe");
    input.write_all(padding.as_bytes()).and_then(|()| input.write_all(GOOD.as_bytes())).expect("it reads");
    drop(input);
    let output = program.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    assert!(
        shown.contains("send id 100;\n\t\t\trecv id 101;\n\t\t\tsecret \"Vd8zqkT1p0wYhU3m\";\n"),
        "{shown}"
    );
}

#[test]
fn converted_keys_are_for_their_owner_alone() {
    let (directory, path) = file("keys.toml", GOOD, 0o600);
    let written = directory.path().join("bird.conf");
    // What was there before, for all to read, is replaced as a whole.
    fs::write(&written, "old").expect("a file");
    fs::set_permissions(&written, fs::Permissions::from_mode(0o666)).expect("its mode");
    let output =
        wireseal(&["keys", "convert", as_text(&path), "--to", "bird", "--output", as_text(&written)]);
    let lost = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{lost}");
    assert_eq!(output.stdout, b"");
    assert_eq!(
        lost,
        "wireseal: not carried over: chain \"core\": its tolerance, which BIRD does not have\nwireseal: not carried over: \
         chain \"core\": its neighbor, which is not given and which BIRD wants\n"
    );
    let comment = "\t# Its neighbor is lacking too: \"neighbor ... as ...;\".\n";
    assert!(fs::read_to_string(&written).expect("the file").contains(comment));
    let mode = fs::metadata(&written).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let back = wireseal(&["keys", "convert", as_text(&written), "--to", "toml"]);
    assert_eq!(text(&back.stdout), GOOD.replace("accept-tolerance = 60\n", ""));

    let nowhere = directory.path().join("missing/bird.conf");
    let output =
        wireseal(&["keys", "convert", as_text(&path), "--to", "bird", "--output", as_text(&nowhere)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("bird.conf: "), "{}", text(&output.stderr));
}

#[test]
fn secrets_do_not_go_to_a_terminal_unasked() {
    let (_directory, path) = file("keys.toml", GOOD, 0o600);
    let on_terminal = |more: &str| {
        let program = env!("CARGO_BIN_EXE_wireseal");
        let command = format!("'{program}' keys convert '{}' --to bird {more}", path.display());
        // script(1) gives the command a terminal.
        Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(Stdio::null())
            .output()
            .expect("script(1)")
    };
    let refused = on_terminal("");
    assert_eq!(refused.status.code(), Some(2));
    let shown = text(&refused.stdout);
    assert!(shown.contains("give --output FILE, or --show-secrets") && !shown.contains("Vd8z"), "{shown}");
    let shown = text(&on_terminal("--show-secrets").stdout);
    assert!(shown.contains("Vd8zqkT1p0wYhU3m"), "{shown}");
}

#[test]
fn what_cannot_be_converted_says_why_in_one_line() {
    let (_directory, path) = file("keys.toml", &GOOD.replace("AES-128-CMAC-96", "hmac(sha256)"), 0o600);
    let output = wireseal(&["keys", "convert", as_text(&path), "--to", "junos"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]));
    assert_eq!(
        text(&output.stderr),
        format!(
            "wireseal: {}: no key can be written as junos: key core/100 is left out: Junos has no hmac(sha256)\n",
            path.display()
        )
    );
}

#[test]
fn a_device_or_a_link_is_not_replaced_by_secrets() {
    let (directory, path) = file("keys.toml", GOOD, 0o600);
    let [link, socket] = ["link", "socket"].map(|name| directory.path().join(name));
    std::os::unix::fs::symlink(directory.path().join("elsewhere"), &link).expect("a link");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    for output in [&link, &socket] {
        let before = fs::symlink_metadata(output).expect("it is there").file_type();
        let run = wireseal(&["keys", "convert", as_text(&path), "--to", "bird", "--output", as_text(output)]);
        let error = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{error}");
        assert!(error.contains("is no regular file"), "{error}");
        assert_eq!(fs::symlink_metadata(output).expect("it is still there").file_type(), before);
    }
    let run = Command::new(env!("CARGO_BIN_EXE_wireseal"))
        .args(["keys", "convert", as_text(&path), "--to", "toml", "--output", "-"])
        .current_dir(directory.path())
        .output()
        .expect("the program runs");
    assert_eq!((run.status.code(), text(&run.stdout)), (Some(0), GOOD.to_owned()));
    assert!(!directory.path().join("-").exists());
}

#[test]
fn a_secret_in_a_wrong_place_of_the_command_line_is_not_repeated() {
    let (_directory, path) = file("keys.toml", GOOD, 0o600);
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
            let run = wireseal(arguments);
            let error = text(&run.stderr);
            assert_eq!(run.status.code(), Some(2), "{arguments:?}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("68756e"), "{arguments:?}: {error}");
            assert!(!error.is_empty());
        }
        let error = text(&wireseal(&["verify", "session.pcap", "--keys", &key]).stderr);
        assert!(error.ends_with("where no key is expected: a key goes behind --key\n"), "{error}");
    }
}

#[test]
fn an_error_that_nobody_reads_is_no_panic() {
    let (_directory, path) = file("keys.toml", GOOD, 0o644);
    for (arguments, code) in [
        (&["keys", "check", "/no/such/file"][..], 2),
        (&["keys", "convert", as_text(&path), "--to", "bird"], 0),
        (&["keys", "no-such-order"], 2),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_wireseal"));
        let status = command.args(arguments).stdout(Stdio::null()).stderr(writer).status();
        assert_eq!(status.expect("the program runs").code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn an_error_is_one_line_and_names_the_file() {
    let long = format!("keys {{ key {{ id 1; secret \"{}\"; }}; }}", "x".repeat(81));
    let (directory, path) = file("long\n\x1b[2J.conf", &long, 0o600);
    let run = wireseal(&["verify", "session.pcap", "--keys", as_text(&path)]);
    let error = text(&run.stderr);
    assert_eq!((run.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(error.contains(as_text(directory.path())) && error.contains("key 1 (line 1, "), "{error}");
    assert!(!error.contains('\x1b'), "{error}");
}

#[test]
fn a_terminal_is_not_told_what_to_do_by_a_name() {
    let twice = GOOD.replace("core", "a\\u001b[2Jb").replace("secret", "key-id = 1\nsecret");
    let text_of_keys =
        format!("{twice}\n[[key-chain.key]]{}", twice.rsplit("[[key-chain.key]]").next().expect("a key"));
    let (_directory, path) = file("keys.toml", &text_of_keys, 0o600);
    let run = wireseal(&["keys", "check", as_text(&path)]);
    let shown = text(&run.stdout);
    assert_eq!(run.status.code(), Some(1), "{shown}{}", text(&run.stderr));
    assert!(shown.contains("in common with a\u{fffd}[2Jb/1") && !shown.contains('\x1b'), "{shown}");
}
