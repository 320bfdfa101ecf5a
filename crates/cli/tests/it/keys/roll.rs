//! `wireseal keys roll`: what it writes and where, what it refuses, and the status from a capture.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::Format;

use crate::support::files::{Files, workspace_file};
use crate::support::program::{Run, program, wireseal_on_terminal};
use crate::support::session::{Session, Signing, packet};

const OLD: &str = "what both ends have today";
const AT: &str = "2026-12-01T00:00:00Z";
const NOW: &str = "2026-11-26T12:00:00Z";

/// Two ends' files with one key each, whose ids are these.
fn ends(ids: [u8; 2]) -> Files {
    let files = Files::new();
    for (name, [send, recv]) in [("left.toml", ids), ("right.toml", [ids[1], ids[0]])] {
        files.file(
            name,
            format!(
                "[[key-chain]]\nname = \"core\"\n\n[[key-chain.key]]\nsend-id = {send}\nrecv-id = {recv}\nalgorithm = \
                 \"AES-128-CMAC-96\"\nsecret = \"{OLD}\"\n"
            ),
        );
    }
    files
}

/// `wireseal keys roll` in the folder of the files.
fn roll(files: &Files, arguments: &str) -> Run {
    let mut command = program();
    command.args(["keys", "roll"]).args(arguments.split_whitespace()).current_dir(files.path("."));
    command.output().unwrap().into()
}

fn planned(files: &Files, more: &str) -> Run {
    roll(files, &format!("left.toml right.toml --at {AT} --now {NOW} {more}"))
}

fn new_secret(path: &Path) -> String {
    let chain = wireseal_keys::load(path, Some(Format::Toml)).unwrap().chains.swap_remove(0);
    let key = chain.keys.into_iter().find(|key| key.secret.expose() != OLD.as_bytes()).unwrap();
    String::from_utf8(key.secret.expose().to_vec()).unwrap()
}

#[test]
fn a_plan_and_its_files_are_for_their_owner_alone_and_replace_nothing() {
    let files = ends([10, 20]);
    let run = planned(&files, "--out roll");
    let expected = (0, "no segment is lost; follow roll/procedure.txt\n", "");
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), expected);
    let mode = |path: &str| fs::metadata(files.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("roll"), 0o700);
    let mut names: Vec<_> =
        fs::read_dir(files.path("roll")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let steps = ["1-left-add.toml", "1-right-add.toml", "3-left-remove.toml", "3-right-remove.toml"];
    assert_eq!(names, [&steps[..], &["plan.json", "procedure.txt"]].concat());
    let secret = new_secret(&files.path("roll/1-left-add.toml"));
    assert_eq!(secret, new_secret(&files.path("roll/3-right-remove.toml")));
    assert!(secret.len() == 32 && secret.bytes().all(|octet| octet.is_ascii_alphanumeric()), "{secret}");
    for name in names {
        let name = format!("roll/{}", name.to_str().unwrap());
        assert_eq!(mode(&name), 0o600, "{name}");
        let text = fs::read_to_string(files.path(&name)).unwrap();
        let has_secret = text.contains(&secret);
        assert_eq!(has_secret, name.ends_with(".toml"), "{name}");
        assert!(name.ends_with(".toml") || !text.contains(OLD), "{name}");
    }
    let run = planned(&files, "--out roll");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains("exists already, and nothing is replaced"), "{}", run.err);
    assert_eq!(new_secret(&files.path("roll/1-left-add.toml")), secret);
    // A link would lead elsewhere.
    fs::create_dir(files.path("linked")).unwrap();
    symlink("/nowhere", files.path("linked/1-left-add.toml")).unwrap();
    assert_eq!(planned(&files, "--out linked").code, 2);
    assert_eq!(fs::read_dir(files.path("linked")).unwrap().count(), 1, "nothing was written");
    // Another plan has another secret.
    assert_eq!(planned(&files, "--out other").code, 0);
    assert_ne!(new_secret(&files.path("other/1-left-add.toml")), secret);
}

#[test]
fn secrets_go_to_a_terminal_only_on_request() {
    let files = ends([10, 20]);
    let [left, right] = ["left.toml", "right.toml"].map(|name| files.path(name));
    let arguments =
        ["keys", "roll", left.to_str().unwrap(), right.to_str().unwrap(), "--at", AT, "--now", NOW];
    let run = wireseal_on_terminal("200", arguments);
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains("give --out DIR, or --show-secrets") && !run.out.contains("secret ="),
        "{}",
        run.out
    );
    let run = wireseal_on_terminal("200", [&arguments[..], &["--show-secrets"]].concat());
    assert!(run.code == 0 && run.out.contains("==> 1-left-add.toml <=="), "{}", run.out);
    let run = planned(&files, "");
    assert_eq!(run.out.matches(OLD).count(), 2, "the files of step 1 have the old key, too: {}", run.out);
}

#[test]
fn an_edited_plan_is_proved_again() {
    let files = ends([10, 20]);
    assert_eq!(planned(&files, "--out roll").code, 0);
    let check = |plan: &str, more: &str| roll(&files, &format!("--check {plan} left.toml right.toml {more}"));
    let run = check("roll/plan.json", "");
    assert!(run.code == 0 && run.out.starts_with("no segment is lost: left and right"), "{}", run.out);
    // The plan has its own.
    for option in ["--skew 10m", "--overlap 2h"] {
        let run = check("roll/plan.json", option);
        assert!(run.code == 2 && run.err.contains("cannot be used with"), "{option}: {}", run.err);
    }

    let text = fs::read_to_string(files.path("roll/plan.json")).unwrap();
    let edited = |name: &str, edit: &dyn Fn(&mut Value)| {
        let mut plan: Value = serde_json::from_str(&text).unwrap();
        edit(&mut plan);
        files.file(name, plan.to_string());
    };
    // Both ends may take their first step earlier: nothing is lost, and the files can be made anew.
    edited("early.json", &|plan| plan["ends"][0]["steps"][0]["until"] = "2026-11-28T00:00:00Z".into());
    let run = check("early.json", "--out anew");
    assert_eq!(run.code, 0, "{}", run.err);
    let procedure = fs::read_to_string(files.path("anew/procedure.txt")).unwrap();
    assert!(
        procedure.contains("left: from 2026-11-26T12:00:00Z on and before 2026-11-28T00:00:00Z:"),
        "{procedure}"
    );
    assert_ne!(
        new_secret(&files.path("anew/1-left-add.toml")),
        new_secret(&files.path("roll/1-left-add.toml"))
    );

    edited("lossy.json", &|plan| plan["ends"][1]["steps"][1]["from"] = NOW.into());
    let run = check("lossy.json", "--out lossy");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    let expected = "wireseal: refused: segments are lost between 2026-11-26T12:00:00Z and 2026-11-30T23:55:00Z: left signs with core/10, \
                    but right has no key with RecvID 10 (left before its first step, right after the step \"remove\")";
    assert!(run.err.lines().any(|line| line == expected), "{}", run.err);
    assert!(!files.path("lossy").exists());

    for (name, edit, expected) in [
        (
            "schema.json",
            &(|plan: &mut Value| plan["schema"] = 2.into()) as &dyn Fn(&mut Value),
            "only 1 is known",
        ),
        ("field.json", &|plan| plan["ends"][0]["secret"] = "x".into(), "unknown field `secret`"),
        (
            "name.json",
            &|plan| plan["ends"][0]["name"] = "../left".into(),
            "name: the two ends need different names",
        ),
        (
            "names.json",
            &|plan| plan["ends"][0]["name"] = "right".into(),
            "name: the two ends need different names",
        ),
        ("moment.json", &|plan| plan["at"] = "tomorrow".into(), "not a date and time"),
        ("chain.json", &|plan| plan["ends"][0]["chain"] = "edge".into(), "left: has no chain \"edge\""),
    ] {
        edited(name, edit);
        let run = check(name, "");
        assert_eq!((run.code, run.err.lines().count()), (2, 1), "{}", run.err);
        assert!(run.err.contains(expected), "{}", run.err);
    }
    files.file("left.toml", fs::read_to_string(files.path("roll/1-left-add.toml")).unwrap());
    let run = check("roll/plan.json", "");
    assert!(
        run.code == 2 && run.err.contains("left.toml: is not the file that the plan was made from"),
        "{}",
        run.err
    );
}

#[test]
fn what_cannot_be_planned_is_said_in_one_line() {
    let files = ends([10, 20]);
    for (more, code, expected) in [
        ("--algorithm md5", 2, "algorithm"),
        ("--overlap 1w", 2, "expected a number and s, m, h or d"),
        ("--overlap 10000d", 2, "of a year at most"),
        ("--skew -1", 2, "unexpected argument"),
        ("--skew 6d", 2, "leaves no time for the first step"),
        ("--chain edge", 2, "the first file has no key chain \"edge\": it has core"),
        ("--chain core:edge", 2, "the second file has no key chain \"edge\""),
        ("--name edge", 2, "--name: give the names of both ends"),
        ("--status plan.json", 2, "cannot be used with"),
        ("--wait 3", 2, "go with --status"),
        ("--key send=1", 2, "go with --status"),
    ] {
        let run = planned(&files, more);
        assert_eq!((run.code, run.out.as_str()), (code, ""), "{more}: {}", run.err);
        assert!(run.err.contains(expected), "{more}: {}", run.err);
    }
    // Today's files do not fit together.
    let other = fs::read_to_string(files.path("right.toml")).unwrap().replace(OLD, "what only one end has");
    files.file("right.toml", other);
    let run = planned(&files, "--out roll");
    assert_eq!(run.code, 1);
    assert!(run.err.contains("has another secret") && !files.path("roll").exists(), "{}", run.err);
    assert!(!run.err.contains("what only"), "{}", run.err);
}

#[test]
fn an_end_that_cannot_change_keys_without_loss_is_refused() {
    let files = ends([7, 7]);
    let xe = format!(
        "key chain core tcp\n key 1\n  send-id 7\n  recv-id 7\n  cryptographic-algorithm aes-128-cmac\n  key-string {}\n  \
         include-tcp-options\n!\n",
        OLD.replace(' ', "-")
    );
    files.file("right.cfg", xe);
    let run = roll(&files, &format!("left.toml right.cfg --at {AT} --now {NOW} --out roll"));
    let expected = "wireseal: right.cfg: refused: IOS XE closes its sessions when a chain in use is edited, as its guide says\n";
    assert_eq!((run.code, run.err.as_str()), (1, expected));
    assert!(!files.path("roll").exists());
}

#[test]
fn names_of_ends_are_names_of_files() {
    let files = ends([7, 7]);
    assert_eq!(planned(&files, "--name ../edge,b/c --out roll --algorithm HMAC-SHA-1-96").code, 0);
    assert!(files.path("roll/1-.._edge-add.toml").exists() && files.path("roll/1-b_c-add.toml").exists());
    let keys = fs::read_to_string(files.path("roll/3-b_c-remove.toml")).unwrap();
    assert!(keys.contains("send-id = 8") && keys.contains("HMAC-SHA-1-96"), "{keys}");
    assert_eq!(planned(&files, "--name same,same --out both").code, 0);
    assert!(files.path("both/1-same-a-add.toml").exists() && files.path("both/1-same-b-add.toml").exists());
}

#[test]
fn neighbors_that_the_plan_is_not_for_are_named() {
    let files = ends([7, 7]);
    let xr = "key chain core\n key 1\n  accept-lifetime 00:00:00 january 01 2026 infinite\n  key-string clear what-both-have-today\n  \
              send-lifetime 00:00:00 january 01 2026 infinite\n  cryptographic-algorithm AES-128-CMAC-96\n !\n!\ntcp ao\n keychain core\n  key 1 \
              SendID 7 ReceiveID 7\n !\n!\nrouter bgp 65000\n neighbor 192.0.2.1\n  ao core include-tcp-options enable\n !\n neighbor \
              192.0.2.9\n  ao core include-tcp-options enable\n !\n!\n";
    files.file("right.cfg", xr);
    files.file(
        "left.toml",
        fs::read_to_string(files.path("left.toml")).unwrap().replace(OLD, "what-both-have-today"),
    );
    let run = roll(&files, &format!("left.toml right.cfg --at {AT} --now {NOW} --out roll"));
    let note = "chain \"core\" of right has 2 neighbors (192.0.2.1, 192.0.2.9). The plan is for left alone: each other one needs the new \
                key in step 1, too\n";
    assert_eq!((run.code, run.err), (0, format!("wireseal: warning: {note}")));
    let procedure = fs::read_to_string(files.path("roll/procedure.txt")).unwrap();
    assert!(procedure.contains(&format!("\nNote: {note}")), "{procedure}");
    assert!(procedure.contains("    load 1-right-add.txt\n    commit\n"), "{procedure}");
}

/// A pcap file of IP packets (LINKTYPE_RAW).
fn pcap(session: &Session) -> Vec<u8> {
    let mut file =
        Vec::from([0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0]);
    for (index, recorded) in session.packets.iter().enumerate() {
        let (time, octets) = (recorded.0, packet(index as u64, recorded).octets);
        let length = (octets.len() as u32).to_le_bytes();
        let time = [time / 1_000_000_000, time % 1_000_000_000 / 1000];
        file.extend(time.into_iter().flat_map(|part| (part as u32).to_le_bytes()));
        file.extend([length, length].concat());
        file.extend(octets);
    }
    file
}

#[test]
fn a_capture_tells_when_both_ends_have_changed_over() {
    let files = ends([10, 20]);
    assert_eq!(planned(&files, "--out roll").code, 0);
    let new = new_secret(&files.path("roll/1-left-add.toml"));
    let [old, new] = [(OLD, 0), (new.as_str(), 1)].map(|(secret, more)| {
        [10, 20].map(|id| Signing::new(TcpAoAlgorithm::Aes128Cmac, secret.as_bytes(), id + more))
    });
    let mut session = Session::new([1000, 5000], old.clone());
    let mut status = |change: &dyn Fn(&mut Session), now: &str| {
        change(&mut session);
        session.talk();
        files.file("session.pcap", pcap(&session));
        roll(
            &files,
            &format!(
                "--status roll/plan.json --capture session.pcap --keys roll/1-left-add.toml --now {now}"
            ),
        )
    };
    let run = status(&Session::shake_hands, NOW);
    assert_eq!(run.code, 1, "{}", run.err);
    let expected = "192.0.2.1:50000, to 192.0.2.2:179, signs with the old key (KeyID 10)\n192.0.2.2:179, to 192.0.2.1:50000, signs with the old key (KeyID \
                    20)\nnot yet: the change is at 2026-12-01T00:00:00Z\n";
    assert_eq!(run.out, expected);
    let after = "2026-12-01T02:00:00Z";
    let run = status(&|session| session.signing[0] = new[0].clone(), after);
    assert_eq!(run.code, 1);
    run.assert_says("not yet: the old key is still in use, so it must stay");
    run.assert_says("192.0.2.1:50000, to 192.0.2.2:179, signs with the new key (KeyID 11)");
    let run = status(&|session| session.signing[1] = new[1].clone(), "2026-12-01T00:30:00Z");
    assert_eq!(run.code, 1);
    run.assert_says("not yet: both ends have changed over; the old key may go from 2026-12-01T01:05:00Z on");
    let run = status(&|_| {}, after);
    assert_eq!(run.code, 0, "{}", run.out);
    run.assert_says("done: the old key may go");
    // With the key of one direction, nothing is known of the other.
    let of_one = format!(
        "--key send=11,recv=99,alg=aes-128-cmac-96,secret={}",
        String::from_utf8(new[0].secret.clone()).unwrap()
    );
    let run = roll(&files, &format!("--status roll/plan.json --capture session.pcap --now {after} {of_one}"));
    assert_eq!(run.code, 1, "{}", run.out);
    run.assert_says("192.0.2.2:179, to 192.0.2.1:50000, signs with nothing that verifies\nnot yet");
    // Forged segments with the old KeyID change nothing.
    let forged = Signing::new(TcpAoAlgorithm::Aes128Cmac, b"a guess", 10);
    let run = status(&|session| session.signing[0] = forged.clone(), after);
    assert_eq!(run.code, 0, "{}", run.out);
    let run = roll(
        &files,
        "--status roll/plan.json --capture session.pcap --key send=99,alg=aes-128-cmac-96,secret=x",
    );
    assert!(run.code == 2 && run.err.contains("no segment verifies with these keys"), "{}", run.err);
    // Another connection of the same hosts, which came before and still uses the old key, is not hidden by this one.
    let mut both = Session::new([7000, 9000], old);
    both.ends[0] = wireseal_tcp_ao::Endpoint::new([192, 0, 2, 1], 50_001);
    both.shake_hands();
    both.talk();
    both.packets.extend(session.packets.iter().cloned());
    files.file("both.pcap", pcap(&both));
    let with_both = "--status roll/plan.json --capture both.pcap --keys roll/1-left-add.toml --now";
    let run = roll(&files, &format!("{with_both} {after}"));
    assert_eq!(run.code, 1, "{}", run.out);
    run.assert_says("192.0.2.1:50001, to 192.0.2.2:179, signs with the old key (KeyID 10)");
}

#[test]
fn the_page_has_every_implementation() {
    let document = String::from_utf8(workspace_file("../docs/rollover.md")).unwrap();
    for format in Format::ALL.into_iter().filter(|format| format.cannot_change().is_none()) {
        let name = if matches!(format, Format::Toml | Format::Json) {
            "Wireseal"
        } else {
            format.about().split(" configuration").next().unwrap()
        };
        let row = document
            .lines()
            .find(|line| line.starts_with(&format!("| {}", name.trim_start_matches("Cisco "))));
        assert!(row.is_some_and(|row| row.contains("| yes |")), "no row for {format}");
    }
}

#[test]
fn routers_get_commands_that_no_device_has_seen() {
    let files = ends([7, 7]);
    let secret = OLD.replace(' ', "-");
    files.file("left.toml", fs::read_to_string(files.path("left.toml")).unwrap().replace(OLD, &secret));
    let eos = format!(
        "management security\n   session shared-secret profile core\n      secret 7 0 {secret} infinite\nrouter bgp 1\n   neighbor 192.0.2.1 \
         password shared-secret profile core algorithm aes-128-cmac-96\n"
    );
    files.file("right.cfg", eos);
    let run = roll(&files, &format!("left.toml right.cfg --at {AT} --now {NOW} --out roll"));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let procedure = fs::read_to_string(files.path("roll/procedure.txt")).unwrap();
    let note = "The commands for right are as its guides have them, not seen on a device: try them on one without traffic first.\n";
    assert!(procedure.contains(note) && !procedure.contains("commands for left"), "{procedure}");
    assert!(procedure.contains("    copy flash:1-right-add.txt session-config\n"), "{procedure}");
    let commands = fs::read_to_string(files.path("roll/1-right-add.txt")).unwrap();
    let new = new_secret(&files.path("roll/3-left-remove.toml"));
    assert!(commands.contains(&format!("secret 8 0 {new} ")), "{commands}");

    // The commands of another CLI are not known.
    let classic = format!(
        "/configure system security keychain \"core\"\n tcp-option-number send tcp-ao receive tcp-ao\n direction bi entry 7 key \"{secret}\" \
         algorithm aes-128-cmac-96\n begin-time 2020-01-01T00:00:00Z\n"
    );
    files.file("right.cfg", classic);
    let run = roll(&files, &format!("left.toml right.cfg --at {AT} --now {NOW} --out classic"));
    let expected = "wireseal: right.cfg: key chain \"core\": this is the classic CLI, and only commands of MD-CLI are written: give the output of MD-CLI's \
                    admin show configuration\n";
    assert_eq!((run.code, run.err.as_str()), (2, expected));
    assert!(!files.path("classic").exists());
}
