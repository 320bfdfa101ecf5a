//! Programs that go into the background, under a supervisor that is a process of its own.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::{Md5, ONE_BY_ONE, PoisonError, Supervisor, configured, listener, run_in_background};

/// Set in a supervisor's process: the shell's command line to run.
const LINE: &str = "WIRESEAL_TEST_IN_BACKGROUND";

/// Not a test, but the supervisor's process, if the variable is set.
#[test]
fn supervisor_process() {
    let Ok(line) = env::var(LINE) else { return };
    let (_folder, supervisor, _) = configured(&[179], Md5::Refuse);
    let config = supervisor.read().unwrap();
    let supervisor = Supervisor { in_background: true, ..supervisor };
    let code = supervisor.supervise("sh".as_ref(), &["-c".into(), line.into()], config).unwrap();
    std::process::exit(code.into());
}

fn in_background(line: &str) -> u8 {
    in_background_with(line, &[])
}

fn in_background_with(line: &str, variables: &[(&str, &str)]) -> u8 {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "run::tests::background::supervisor_process", "--nocapture"]);
    command.env(LINE, line).envs(variables.iter().copied()).stdout(Stdio::null());
    run_in_background(&mut command).unwrap()
}

#[test]
fn the_caller_goes_on_when_the_program_is_in_the_background() {
    let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let [going, gone] = ["going", "gone"].map(|name| folder.path().join(name));
    // A daemon, which does not end before it is told to. It is still under the filter: io_uring_setup is refused.
    let script = format!(
        "import ctypes, os, time\nlibc = ctypes.CDLL(None, use_errno=True)\nwhile not os.path.exists({going:?}): time.sleep(0.01)\n\
         libc.syscall(425, 8, None)\nopen({gone:?}, \"w\").write(str(ctypes.get_errno()))"
    );
    let script_path = folder.path().join("daemon.py");
    fs::write(&script_path, script).unwrap();
    assert_eq!(in_background(&format!("python3 {} & exit 5", script_path.display())), 5);
    assert!(!gone.exists());
    fs::write(going, "").unwrap();
    assert_eq!(await_content(&gone), "38", "ENOSYS");
    // One that does not go there is waited for, and so is a supervisor that cannot start it.
    assert_eq!(in_background("sleep 0.1; exit 6"), 6);
    assert_eq!(in_background("kill -9 $PPID; sleep 1"), 1);
}

/// Runs a command line under a supervisor, which is started by other programs, and returns its exit code.
fn started_by(starter: &[&str], line: &str) -> Option<i32> {
    let folder = tempfile::tempdir().unwrap();
    // Where everybody can execute it.
    let program = folder.path().join("supervisor");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(starter[0]);
    command.args(&starter[1..]).arg(program);
    command.args(["--exact", "run::tests::background::supervisor_process", "--nocapture"]);
    command.env(LINE, line).stdin(Stdio::null()).stdout(Stdio::null());
    command.status().unwrap().code()
}

#[test]
fn the_program_has_its_own_limit_of_open_files_and_the_supervisor_a_higher_one() {
    let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let line = "[ $(ulimit -Sn) = 200 ] || exit 1; [ $(ulimit -Hn) = 700 ] || exit 2; sleep 0.3; \
                grep -q 'Max open files *700 *700' /proc/$PPID/limits || exit 3";
    assert_eq!(started_by(&["prlimit", "--nofile=200:700"], line), Some(0));
}

#[test]
fn it_can_be_the_first_process_of_a_container() {
    let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let container = ["unshare", "--pid", "--fork", "--mount-proc"];
    assert_eq!(started_by(&container, "(sleep 0.2 &) ; exit 4"), Some(4));
}

#[test]
fn it_needs_no_privileges_if_the_program_needs_none() {
    let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (ipv4, port) = listener("127.0.0.1:0");
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"];
    let program = format!(
        "import errno, os, socket\nassert os.getuid() == 65534\nassert socket.socket().connect_ex((\"127.0.0.1\", {port})) == 0\n\
         s = socket.socket()\ns.settimeout(1)\nassert s.connect_ex((\"127.0.0.1\", 179)) in (errno.EKEYREJECTED, errno.EAGAIN, errno.ECONNREFUSED)"
    );
    assert_eq!(started_by(&user, &format!("/usr/bin/python3 -c '{program}'")), Some(0));
    assert!(ipv4.accept().is_ok());
}

/// Those of systemd's variables that name the supervisor name the program.
#[test]
fn the_program_has_its_own_number_in_the_variables_of_systemd() {
    let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let named = ["sh", "-c", "export LISTEN_PID=$$ WATCHDOG_PID=$$ LISTEN_PIDFDID=7; exec \"$@\"", "sh"];
    let is_named = "test \"$LISTEN_PID,$WATCHDOG_PID,$LISTEN_PIDFDID\" = \"$$,$$,\" || exit 9; exit 3";
    assert_eq!(started_by(&named, is_named), Some(3));
    // They may name the one that has started it.
    let own = process::id().to_string();
    let variables = [("LISTEN_PID", own.as_str()), ("WATCHDOG_PID", &own)];
    assert_eq!(in_background_with(is_named, &variables), 3);
    // Another's number stays.
    let others = "test \"$LISTEN_PID,$LISTEN_PIDFDID\" = 1,7 || exit 9; exit 3";
    assert_eq!(in_background_with(others, &[("LISTEN_PID", "1"), ("LISTEN_PIDFDID", "7")]), 3);
}

/// The supervisor and the program are of one user.
#[test]
fn the_supervisors_memory_cannot_be_read() {
    let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"];
    for file in ["mem", "environ", "maps"] {
        let line = format!("(: </proc/$$/{file}) || exit 8; (: </proc/$PPID/{file}) && exit 9; exit 3");
        assert_eq!(started_by(&user, &line), Some(3), "{file}");
    }
}

fn await_content(path: &Path) -> String {
    for _ in 0..500 {
        match fs::read_to_string(path) {
            Ok(content) if !content.is_empty() => return content,
            _ => sleep(Duration::from_millis(10)),
        }
    }
    panic!("{} has not come", path.display())
}
