//! `wireseal probe` about real sockets, in network and PID namespaces of their own, so that it sees no other process of this machine.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use wireseal::probe::is_roots_program;
use wireseal_agent::probe::Process;

use crate::support::files::{Files, set_mode, workspace_file};
use crate::support::namespace::{INSIDE, is_privileged, shell};
use crate::support::program::{Run, on_terminal, path, program, wireseal};

/// Names of other network namespaces are hidden, too.
const ALONE: &str = "mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && \
                     ip addr add 192.0.2.1/24 dev lo && ip -6 addr add 2001:db8::1/64 dev lo nodad && exec \"$@\"";

/// Whether this is the process in the namespaces. Otherwise runs a test again in them, in a user namespace of its own where this user is
/// not root; says so if that is not permitted.
fn is_alone(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut options = vec!["--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !is_privileged() {
        options.extend(["--user", "--map-root-user"]);
        let may = Command::new("unshare").args(&options).arg("true").stderr(Stdio::null()).status().unwrap();
        if !may.success() {
            println!("{test} was not run: it takes the right to make namespaces");
            return false;
        }
    }
    let mut command = Command::new("unshare");
    command.args(options).args(["sh", "-ec", ALONE, "sh"]).arg(std::env::current_exe().unwrap());
    let status = command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1").status().unwrap();
    assert!(status.success(), "{test}, in namespaces");
    false
}

/// A Python program that has sockets until it is dropped.
struct Sockets(Child);

impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// `listen` and `connect` make sockets, with TCP-MD5 keys for `md5`.
const SOCKETS: &str = "
import os, socket, struct, sys
kept = []
def protect(made, md5):
    if md5:
        address = struct.pack('HH4s120x', socket.AF_INET, 0, socket.inet_aton(md5))
        made.setsockopt(socket.IPPROTO_TCP, 14, address + struct.pack('2xH4x80s', 6, b'secret'))
def family(address):
    return socket.AF_INET6 if ':' in address else socket.AF_INET
def listen(address, port, md5=None):
    made = socket.create_server((address, port), family=family(address))
    protect(made, md5)
    kept.append(made)
def connect(address, port, md5=None):
    made = socket.socket(family(address))
    protect(made, md5)
    made.connect((address, port))
    kept.extend([made, kept[0].accept()[0]])
";

fn sockets(lines: &str) -> Sockets {
    let code = format!("{SOCKETS}{lines}\nprint('ready', flush=True)\nsys.stdin.read()\n");
    let mut command = Command::new("python3");
    let mut child = command.args(["-c", &code]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    Sockets(child)
}

fn found() -> (Run, Value) {
    let json = wireseal(["probe", "--json"]);
    let object = json.json();
    let text = wireseal(["probe"]);
    assert_eq!(text.code, json.code);
    assert!(text.out.starts_with(object["sentence"].as_str().unwrap()), "{}", text.out);
    let sockets = all_sockets(&object);
    for socket in &sockets {
        let local = socket["local"].as_str().unwrap();
        text.assert_says(&format!(" {local} "));
    }
    assert_eq!(object["unseen"], Value::Array(Vec::new()), "{object:#}");
    (text, object)
}

fn all_sockets(object: &Value) -> Vec<&Value> {
    let groups = object["groups"].as_array().unwrap().iter();
    groups.flat_map(|group| group["sockets"].as_array().unwrap()).collect()
}

#[test]
fn the_exit_code_says_whether_anything_is_unprotected() {
    if !is_alone("probe_sockets::the_exit_code_says_whether_anything_is_unprotected") {
        return;
    }
    let (run, object) = found();
    assert_eq!(run.code, 0, "there is nothing: {}", run.out);
    assert!(all_sockets(&object).is_empty());
    for (variable, is_coloured) in [("X", true), ("NO_COLOR", false)] {
        let run = on_terminal(
            program().arg("probe").env("TERM", "xterm").env_remove("NO_COLOR").env(variable, "1"),
        );
        assert_eq!((run.code, run.out.contains("\x1b[32m")), (0, is_coloured), "{:?}", run.out);
    }
    drop(sockets("listen('127.0.0.1', 3323); listen('192.0.2.1', 8080)"));

    let python = sockets("listen('127.0.0.1', 179)");
    let (run, object) = found();
    assert_eq!((run.code, &all_sockets(&object)[0]["protected-by"]), (0, &"only-local".into()));
    drop(python);

    let python = sockets("listen('2001:db8::1', 179); connect('2001:db8::1', 179)");
    let (run, object) = found();
    assert_eq!(run.code, 1, "{}", run.out);
    run.assert_says("2 of 2 sessions and 1 of 1 listener are not protected");
    let [listener, sessions @ ..] = &all_sockets(&object)[..] else { panic!("{object:#}") };
    assert_eq!((&listener["local"], &listener["peer"]), (&"[2001:db8::1]:179".into(), &Value::Null));
    assert!(sessions.iter().all(|session| session["protected-by"] == "none"), "{object:#}");
    let openers: Vec<_> = sessions.iter().map(|session| session["is-opener"].as_bool().unwrap()).collect();
    assert!(openers.contains(&true) && openers.contains(&false), "each end is one: {object:#}");
    assert_eq!(object["groups"][0]["process"]["pid"], python.0.id());
    assert_eq!(object["steps"][0]["peers"], Value::from(vec!["2001:db8::1"]));
    drop(python);

    if object["kernel"]["tcp-md5"]["ability"] == "yes" {
        let _python =
            sockets("listen('192.0.2.1', 179, '192.0.2.1'); connect('192.0.2.1', 179, '192.0.2.1')");
        let (run, object) = found();
        assert_eq!(run.code, 0, "{}", run.out);
        run.assert_says("2 sessions and 1 listener: all protected, 3 by TCP-MD5 alone");
        assert!(all_sockets(&object).iter().all(|socket| socket["protected-by"] == "tcp-md5"), "{object:#}");
        assert_eq!(all_sockets(&object)[0]["tcp-md5"], Value::from(vec!["192.0.2.1"]));
        let said = format!("{}{object}", run.out);
        assert!(!said.contains("secret"), "{said}");
    }
}

#[test]
fn the_commands_of_the_pages_work() {
    if !is_alone("probe_sockets::the_commands_of_the_pages_work") {
        return;
    }
    let _python = sockets("listen('192.0.2.1', 179)");
    let files = Files::new();
    for page in ["docs/probe.md", "docs/kernels.md"] {
        let text = String::from_utf8(workspace_file(&format!("../{page}"))).unwrap();
        let blocks: Vec<_> = text.split("```sh\n").skip(1).collect();
        assert!(!blocks.is_empty(), "{page}");
        for block in blocks {
            let commands = block.split("```").next().unwrap();
            let mut command = Command::new("sh");
            command.args(["-c", commands]).current_dir(files.path("."));
            let run = Run::from(command.env("PATH", path()).output().unwrap());
            let is_monitor = commands.contains("||");
            assert_eq!(run.code, i32::from(!is_monitor), "{commands}: {}{}", run.out, run.err);
            run.assert_says(if is_monitor { "exit code 1" } else { "1 of 1 listener is not protected" });
        }
    }
    let object: Value = serde_json::from_slice(&fs::read(files.path("probe.json")).unwrap()).unwrap();
    assert_eq!(object["answer"], "unprotected");
}

#[test]
fn without_root_it_says_what_it_could_not_see() {
    if !is_alone("probe_sockets::without_root_it_says_what_it_could_not_see") {
        return;
    }
    let files = Files::new();
    set_mode(&files.path("."), 0o755);
    let copy = files.path("wireseal");
    fs::copy(program().get_program(), &copy).unwrap();
    set_mode(&copy, 0o755);
    let as_nobody = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy).arg("probe");
        Run::from(command.output().unwrap())
    };
    // A user namespace may have no other user.
    if !is_user_mapped(65534) {
        println!("not run as another user: the user namespace has none");
        return;
    }
    let run = as_nobody();
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    run.assert_says("no session or listener was found, but not everything could be seen");
    run.assert_says("`sudo wireseal probe` sees more");
    let _python = sockets("listen('192.0.2.1', 179); connect('192.0.2.1', 179)");
    let run = as_nobody();
    assert_ne!(run.code, 0, "{}", run.out);
    run.assert_says("process that could not be seen");
    run.assert_says("     sudo wireseal probe\n");
}

fn is_user_mapped(user: u64) -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().unwrap());
        let (first, _, count) = (numbers.next().unwrap(), numbers.next().unwrap(), numbers.next().unwrap());
        (first..first + count).contains(&user)
    })
}

/// The program `sleep` itself, not a link to it.
fn sleep() -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&folders).find_map(|folder| folder.join("sleep").canonicalize().ok()).unwrap()
}

#[test]
fn a_daemons_program_is_read_and_not_executed() {
    if !is_alone("probe_sockets::a_daemons_program_is_read_and_not_executed") {
        return;
    }
    let files = Files::new();
    set_mode(&files.path("."), 0o777);
    // A program that says it is BIRD, and has a listener that it inherits.
    let bird = files.path("bird");
    fs::copy(sleep(), &bird).unwrap();
    let mut program_file = OpenOptions::new().append(true).open(&bird).unwrap();
    program_file.write_all(b"\0BIRD version 2.0.12\n\0").unwrap();
    drop(program_file);
    set_mode(&bird, 0o755);
    // Whoever executes it afterwards, by its path or its name, leaves a mark.
    let mark = files.path("mark");
    let trap = files.file("trap", format!("#!/bin/sh\ntouch {}\necho BIRD version 9.9.9\n", mark.display()));
    set_mode(&trap, 0o777);
    let code = format!(
        "{SOCKETS}listen('192.0.2.1', 179); kept[0].set_inheritable(True); os.execv(sys.argv[1], [sys.argv[1], '1000'])"
    );
    let child = Command::new("python3").args(["-c", &code]).arg(&bird).spawn().unwrap();
    let link = format!("/proc/{}/exe", child.id());
    let child = Sockets(child);
    await_link(&link, &bird);
    shell(&format!("mount --bind {} {}", trap.display(), bird.display()));
    for owner in [0, 65534].into_iter().filter(|owner| is_user_mapped((*owner).into())) {
        chown(&trap, Some(owner), None).unwrap();
        let path = format!("{}:{}", files.path(".").display(), std::env::var("PATH").unwrap());
        let run = Run::from(program().arg("probe").env("PATH", path).output().unwrap());
        assert_eq!(run.code, 1, "{}", run.out);
        run.assert_says(&format!("BIRD 2.0.12, process {} (bird,", child.0.id()));
        assert!(!mark.exists(), "it was executed, owned by {owner}");
    }
    // The trap does leave its mark.
    assert!(Command::new(&bird).arg("--version").status().unwrap().success());
    assert!(mark.exists());
    shell(&format!("umount {}", bird.display()));
}

fn await_link(link: &str, target: &Path) {
    for _ in 0..200 {
        if fs::read_link(link).is_ok_and(|found| found == target) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("{link} is not {}", target.display());
}

#[test]
fn a_program_is_roots_if_nobody_else_can_write_to_it_or_its_folders() {
    let files = Files::new();
    let copy = files.path("sleep");
    let sleep = sleep();
    fs::copy(&sleep, &copy).unwrap();
    for (path, expected) in [(&sleep, true), (&copy, false)] {
        let mut child = Command::new(path).arg("1000").spawn().unwrap();
        let running = Process {
            pid: child.id(),
            name: "sleep".to_owned(),
            executable: Some(path.to_owned()),
            user: None,
            is_in_container: false,
            is_under_run: false,
            unit: None,
        };
        let in_container = Process { is_in_container: true, ..running.clone() };
        // Another file than the one that it executes.
        let other = Process { executable: Some("/proc/version".into()), ..running.clone() };
        let are_roots = [running, in_container, other].map(|process| is_roots_program(&process));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(are_roots, [expected, false, false], "{}", path.display());
    }
}

#[test]
fn a_hostile_name_reaches_no_terminal() {
    if !is_alone("probe_sockets::a_hostile_name_reaches_no_terminal") {
        return;
    }
    let lines = "open('/proc/self/comm', 'wb').write(b'\\x1b[31m\\x07\\r\\xff\\xc2\\x9b`id`')\nlisten('192.0.2.1', 179)";
    let _python = sockets(lines);
    let (run, object) = found();
    let name = object["groups"][0]["process"]["name"].as_str().unwrap();
    assert!(name.starts_with("\x1b[31m\x07\r"), "JSON has it as it is: {name:?}");
    assert!(!run.out.contains(|letter: char| letter.is_control() && letter != '\n'), "{:?}", run.out);
    run.assert_says("\u{fffd}[31m\u{fffd}\u{fffd}");
}
