//! `wireseal keys new`, and `convert --other-end` of what it makes.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::thread;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Format, KeyFile};
use wireseal_linux::{CallAction, CallFilter, CallRule};

use crate::support::files::Files;
use crate::support::program::{Run, program, wireseal, wireseal_on_terminal};

/// A run in the folder of the files.
fn in_folder(files: &Files, arguments: &str) -> Run {
    program().args(arguments.split_whitespace()).current_dir(files.path(".")).output().unwrap().into()
}

fn read(files: &Files, name: &str) -> KeyFile {
    wireseal_keys::load(&files.path(name), None).unwrap()
}

#[test]
fn a_new_key_is_readable_by_its_owner_and_good_for_every_implementation() {
    let files = Files::new();
    let run = in_folder(&files, "keys new core --output keys.toml");
    let said = "wireseal: made keys.toml: key chain core, SendID 1, RecvID 1, AES-128-CMAC-96, a random secret of 32 characters\n\
                wireseal: for the other end, copy it there, or convert it to that end's format: wireseal keys convert keys.toml --to \
                FORMAT --other-end --output NEW\n";
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", said));
    assert_eq!(fs::metadata(files.path("keys.toml")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(files.path(".")).unwrap().count(), 1, "nothing else is left");
    let run = in_folder(&files, "keys check keys.toml");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    assert!(!run.out.contains("warning") && !run.out.contains("note"), "{}", run.out);
    for format in Format::ALL.into_iter().filter(|format| format.is_written() && *format != Format::Bird) {
        let run = in_folder(&files, &format!("keys convert keys.toml --other-end --to {format}"));
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{format}");
    }
    let run = in_folder(&files, "keys diff keys.toml keys.toml");
    assert!(run.code == 0 && run.out.starts_with("the session works"), "{}", run.out);
}

#[test]
fn each_secret_is_another_and_as_long_as_its_algorithm_wants() {
    let files = Files::new();
    let mut seen = HashSet::new();
    for (number, algorithm) in TcpAoAlgorithm::ALL.into_iter().cycle().take(20).enumerate() {
        let name = format!("{number}.toml");
        let output = files.path(&name);
        let run = wireseal([
            "keys",
            "new",
            "core",
            "--algorithm",
            algorithm.name(),
            "--output",
            output.to_str().unwrap(),
        ]);
        assert_eq!(run.code, 0, "{}", run.err);
        let file = read(&files, &name);
        let [key] = &file.chains[0].keys[..] else { panic!("one key") };
        let secret = key.secret.expose();
        assert!(secret.iter().all(u8::is_ascii_alphanumeric) && secret[0].is_ascii_alphabetic());
        let least = if algorithm.min_master_key_length() == 32 { 44 } else { 32 };
        assert_eq!((key.algorithm, secret.len()), (algorithm, least));
        assert!(!run.err.contains(str::from_utf8(secret).unwrap()), "{}", run.err);
        assert!(seen.insert(secret.to_vec()), "a secret came twice");
    }
}

#[test]
fn the_other_end_has_the_ids_the_other_way_round() {
    let files = Files::new();
    let run = in_folder(&files, "keys new core --send-id 100 --recv-id 200 --output keys.toml");
    assert!(run.code == 0 && !run.err.contains("copy it there"), "{}", run.err);
    assert_eq!(in_folder(&files, "keys convert keys.toml --to ios-xr --other-end --output peer.cfg").code, 0);
    let ids = |name: &str| {
        let key = &read(&files, name).chains[0].keys[0];
        (key.send_id.0, key.recv_id.0)
    };
    assert_eq!((ids("keys.toml"), ids("peer.cfg")), ((100, 200), (200, 100)));
    assert_eq!(in_folder(&files, "keys diff keys.toml peer.cfg").code, 0);
    // Without the option it is the same end's.
    assert_eq!(in_folder(&files, "keys convert keys.toml --to ios-xr --output same.cfg").code, 0);
    let run = in_folder(&files, "keys diff keys.toml same.cfg");
    assert!(run.code == 1 && run.out.contains("ids"), "{}", run.out);
}

#[test]
fn the_neighbors_of_one_end_are_not_those_of_the_other() {
    let files = Files::new();
    let bird = "router id 192.0.2.1;\nprotocol bgp core {\n\tlocal 192.0.2.1 as 64512;\n\tneighbor 192.0.2.2 as 64513;\n\t\
                authentication ao;\n\tkeys {\n\t\tkey {\n\t\t\tsend id 10;\n\t\t\trecv id 20;\n\t\t\tsecret \
                \"Vd8zqkT1p0wYhU3m\";\n\t\t\talgorithm cmac aes128;\n\t\t};\n\t};\n}\n";
    files.file("bird.conf", bird);
    let run = in_folder(&files, "keys convert bird.conf --to junos --other-end");
    assert!(run.code == 0 && run.out.contains("send-id 20") && !run.out.contains("192.0.2"), "{}", run.out);
    let run = in_folder(&files, "keys convert bird.conf --to junos");
    assert!(run.code == 0 && run.out.contains("send-id 10") && run.out.contains("192.0.2.2"), "{}", run.out);
}

/// Or the file would be empty after a power cut. Here the disk refuses the file or the folder, by the descriptor that it happens to have.
#[test]
fn a_new_key_is_on_the_disk_before_it_is_said_to_be_made() {
    let refused = |descriptor: u32| {
        let fsync = if cfg!(target_arch = "x86_64") { 74 } else { 82 };
        let files = Files::new();
        let arguments = [(0, u32::MAX, descriptor)];
        let rule = CallRule { call: fsync, arguments: &arguments, action: CallAction::Refuse(5) };
        let _calls = CallFilter(&[rule]).install().unwrap();
        let run = in_folder(&files, "keys new core --output keys.toml");
        let is_there = fs::read_dir(files.path(".")).unwrap().count() > 0;
        (run.code != 0).then_some((run.code, run.err, is_there))
    };
    let refused: Vec<_> =
        (3..12).filter_map(|descriptor| thread::spawn(move || refused(descriptor)).join().unwrap()).collect();
    let error = "Input/output error (os error 5)\n";
    let folders = format!("wireseal: keys.toml: written, but would be lost if the power failed: {error}");
    let expected = [(2, folders, true), (2, format!("wireseal: keys.toml: {error}"), false)];
    assert_eq!(refused, expected);
}

#[test]
fn nothing_is_replaced() {
    let files = Files::new();
    files.file("keys.toml", "mine");
    symlink("/nowhere", files.path("link")).unwrap();
    for name in ["keys.toml", "link"] {
        let run = in_folder(&files, &format!("keys new core --output {name}"));
        let said = format!("wireseal: {name}: exists already, and nothing is replaced\n");
        assert_eq!((run.code, run.out.as_str(), run.err), (2, "", said));
    }
    assert_eq!(fs::read_to_string(files.path("keys.toml")).unwrap(), "mine");
    assert_eq!(fs::read_dir(files.path(".")).unwrap().count(), 2, "nothing else is left");
    let run = in_folder(&files, "keys new core --output missing/keys.toml");
    let said = "wireseal: missing/keys.toml: No such file or directory (os error 2)\n";
    assert_eq!((run.code, run.err.as_str()), (2, said));
}

#[test]
fn a_secret_goes_to_a_terminal_only_on_request() {
    let run = wireseal_on_terminal("200", ["keys", "new", "core"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains("give --output FILE, or --show-secrets"), "{}", run.err);
    let run = wireseal_on_terminal("200", ["keys", "new", "core", "--show-secrets"]);
    assert!(run.code == 0 && run.out.contains("secret = \""), "{}", run.err);
    // Into a pipe or a file, for instance to add a chain to a file.
    let (files, run) = (Files::new(), wireseal(["keys", "new", "core"]));
    files.file("keys.toml", run.out + &wireseal(["keys", "new", "edge", "--output", "-"]).out);
    let chains = read(&files, "keys.toml").chains;
    assert_eq!(chains.iter().map(|chain| chain.name.as_str()).collect::<Vec<_>>(), ["core", "edge"]);
}

#[test]
fn what_cannot_be_a_key_is_refused() {
    for (arguments, why) in [
        ("", "required"),
        ("core --send-id 256", "0..=255"),
        ("core --recv-id 2", "--send-id"),
        ("core --algorithm md5", "md5"),
        ("core edge", "edge"),
    ] {
        let run = wireseal(["keys", "new"].into_iter().chain(arguments.split_whitespace()));
        assert!(run.code == 2 && run.out.is_empty() && run.err.contains(why), "{arguments}: {}", run.err);
    }
    assert_eq!(wireseal(["keys", "new", ""]).code, 2, "a name is needed");
}
