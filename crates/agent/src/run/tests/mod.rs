//! Real programs under supervision. On a kernel without TCP-AO this tests that nothing that needs keys can open; the lab tests the rest.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::{process, thread};

use rustix::process::geteuid;
use tempfile::TempDir;

use super::*;
use crate::config::Md5;

mod calls;

/// Supervisors take turns, since each waits for all children of this process.
static ONE_BY_ONE: Mutex<()> = Mutex::new(());

const KEYS: &str = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"AES-128-CMAC-96\"\n\
                    secret = \"a secret of 16 o\"\n";

/// A supervisor whose peers are this machine, and the folder of its files.
fn configured(ports: &[u16], md5: Md5) -> (TempDir, Supervisor, Config) {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.toml");
    fs::write(&keys, KEYS).unwrap();
    let peers = ["127.0.0.1", "::1"].map(|peer| peer.parse().unwrap());
    let source = Source { keys: Some(keys), peers: peers.into(), ports: ports.to_vec(), ..Source::default() };
    let config = Config { md5, ..source.read().unwrap() };
    (folder, Supervisor { source, ..Supervisor::default() }, config)
}

fn supervised(program: &str, arguments: &[&str], ports: &[u16]) -> Result<u8, Error> {
    let _turn = lock(&ONE_BY_ONE);
    let (_folder, supervisor, config) = configured(ports, Md5::Refuse);
    let arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
    supervisor.supervise(program.as_ref(), &arguments, config)
}

/// Runs a Python program, in which `port` is this one.
fn python(port: u16, ports: &[u16], program: &str) {
    let program = format!("import errno, os, socket, sys, threading\nport = {port}\n{program}");
    assert_eq!(supervised("python3", &["-c", &program], ports).unwrap(), 0, "{program}");
}

/// A listener of this process, which is not supervised.
fn listener(address: &str) -> (TcpListener, u16) {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    (listener, port)
}

fn nobody_came(listener: &TcpListener) -> bool {
    listener.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn the_exit_code_is_the_programs() {
    for (line, code) in [("exit 7", 7), ("true", 0), ("kill -9 $$", 137), ("(sleep 0.3; exit 1) & exit 3", 3)]
    {
        assert_eq!(supervised("sh", &["-c", line], &[179]).unwrap(), code, "{line}");
    }
}

#[test]
fn a_program_can_be_killed_with_its_supervisor() {
    let _turn = lock(&ONE_BY_ONE);
    let left = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        lines.filter(|line| line.starts_with(b"sleep\x0061.61")).count()
    };
    let supervisor = |line: &str| stop_with(process::Command::new("sh").args(["-c", line])).unwrap();
    let start = "sleep 61.61 & (setsid sleep 61.61 &); sleep 0.1;";
    for (end, code) in [("kill -9 $$", 137), ("exit 3", 3)] {
        assert_eq!(supervisor(&format!("{start} {end}")), code);
        assert_eq!(left(), 0, "{end}");
    }
}

#[test]
fn what_cannot_be_started_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    fs::write(&path, "#!/bin/sh\n").unwrap();
    let run = |mode: u32| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        supervised(path.to_str().unwrap(), &[], &[179])
    };
    assert_eq!(run(0o755).unwrap(), 0);
    let setuid = run(0o4755).unwrap_err();
    assert!(matches!(setuid, Error::Privileged(_)) && setuid.exit_code() == 2, "{setuid}");
    assert_eq!(run(0o644).unwrap_err().exit_code(), 126);
    for missing in ["no-such-program", "/no/such/program", "./no-such-program"] {
        assert_eq!(supervised(missing, &[], &[179]).unwrap_err().exit_code(), 127, "{missing}");
    }
}

#[test]
fn a_container_that_refuses_duplicates_of_sockets_is_said_before_the_start() {
    use wireseal_linux::{CallAction, CallFilter, CallRule};

    let action = CallAction::Refuse(libc::EPERM as u16);
    let refused = thread::spawn(move || {
        let rule = CallRule { call: libc::SYS_pidfd_getfd, arguments: &[], action };
        let _calls = CallFilter(&[rule]).install().unwrap();
        supervised("true", &[], &[179])
    });
    let error = refused.join().unwrap().unwrap_err();
    assert!(error.exit_code() == 2 && error.to_string().contains("pidfd_getfd"), "{error}");
}

#[test]
fn other_connections_are_left_alone() {
    let (_ipv4, port) = listener("127.0.0.1:0");
    let (_ipv6, port6) = listener("[::1]:0");
    python(
        port,
        &[179],
        &format!(
            r#"
def connect(family, address, blocking):
    s = socket.socket(family)
    s.setblocking(blocking)
    code = s.connect_ex(address)
    assert code in ((0,) if blocking else (0, errno.EINPROGRESS)), errno.errorcode[code]
    if not blocking:
        import select
        select.select([], [s], [])
        assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert s.getpeername()[:2] == address
    s.shutdown(socket.SHUT_RDWR)
for blocking in True, False:
    connect(socket.AF_INET, ("127.0.0.1", port), blocking)
    connect(socket.AF_INET6, ("::1", {port6}), blocking)
    connect(socket.AF_INET6, ("::ffff:127.0.0.1", port), blocking)
threads = [threading.Thread(target=connect, args=(socket.AF_INET, ("127.0.0.1", port), True)) for _ in range(20)]
for t in threads: t.start()
for t in threads: t.join()
child = os.fork()
if child == 0:
    connect(socket.AF_INET, ("127.0.0.1", port), True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
s = socket.socket()
assert s.connect_ex(("127.0.0.1", 1)) == errno.ECONNREFUSED
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.connect(("127.0.0.1", 179))
a, b = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
a.bind("\0wireseal-agent-test-%d" % os.getpid()); a.listen(); b.connect(a.getsockname())
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
c = socket.create_connection(l.getsockname()); c.sendall(b"x"); d, _ = l.accept(); assert d.recv(1) == b"x"
d.close(); c.settimeout(5); assert c.recv(1) == b"", "closed at once, although it is supervised"
"#
        ),
    );
}

#[test]
fn without_keys_there_is_no_session() {
    let (ipv4, port) = listener("0.0.0.0:0");
    let has_tcp_ao = wireseal_linux::probe().unwrap().tcp_ao;
    let limit = if has_tcp_ao { "s.settimeout(2)" } else { "" };
    python(
        port,
        &[port],
        &format!(
            r#"
for family, address in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1"):
    for blocking in True, False:
        s = socket.socket(family)
        s.setblocking(blocking)
        {limit}
        code = s.connect_ex((address, port))
        assert {has_tcp_ao} or code == errno.EKEYREJECTED, errno.errorcode[code]
        assert code != 0
"#,
            has_tcp_ao = if has_tcp_ao { "True" } else { "False" },
        ),
    );
    assert!(nobody_came(&ipv4));
    drop(ipv4);
    if !has_tcp_ao {
        python(
            port,
            &[port],
            r#"
l = socket.socket()
l.bind(("127.0.0.1", port))
try:
    l.listen()
    sys.exit("it listens without keys")
except OSError as error:
    assert error.errno == errno.EKEYREJECTED, error
"#,
        );
    }
}

/// A socket of this process, as it is found.
fn open(socket: &TcpStream) -> HashMap<u64, (i32, i32)> {
    let inode = fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap().ino();
    HashMap::from([(inode, (process::id().cast_signed(), socket.as_raw_fd()))])
}

/// The port is the peer's where the program connects, and the program's own where it listens.
#[test]
fn a_session_from_a_protected_port_to_another_is_left_alone() {
    let own = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (listener, port) = listener("127.0.0.1:0");
    let (_folder, _, config) = configured(&[own.port()], Md5::Refuse);
    for (is_connected, is_left) in [(true, true), (false, false)] {
        let mut sockets = Sockets::new(config.clone()).unwrap();
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&own.into()).unwrap();
        let (remote, socket) = (SocketAddr::from(([127, 0, 0, 1], port)), OwnedFd::from(socket));
        if is_connected {
            sockets.protect_connecting(&socket, remote).unwrap();
        }
        rustix::net::connect(&socket, &remote).unwrap();
        let mut here = TcpStream::from(socket);
        let mut there = loop {
            if let Ok((there, _)) = listener.accept() {
                break there;
            }
        };
        there.set_nonblocking(false).unwrap();
        sockets.step(&open(&here));
        // After a new configuration all sockets are checked again.
        sockets.change(config.clone()).unwrap();
        sockets.step(&open(&here));
        let written = here.write_all(b"x");
        assert_eq!(written.is_ok() && there.read(&mut [0; 1]).is_ok_and(|read| read == 1), is_left);
        // Data that came before the session ended can be read.
        if is_left {
            there.write_all(b"y").unwrap();
            socket2::SockRef::from(&there).set_linger(Some(Duration::ZERO)).unwrap();
            drop(there);
            sockets.step(&open(&here));
        }
        socket2::SockRef::from(&here).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

/// A program can connect a socket unseen if it swaps the descriptor during its call, and can do so again with a socket that was looked at.
#[test]
fn a_session_that_was_opened_unseen_is_reset_each_time() {
    let (listener, port) = listener("127.0.0.1:0");
    let (_other, other_port) = self::listener("127.0.0.1:0");
    let (_folder, _, config) = configured(&[port], Md5::Refuse);
    for before in ["nothing", "a listener", "a session with another"] {
        let mut sockets = Sockets::new(config.clone()).unwrap();
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let mut here = TcpStream::from(OwnedFd::from(socket));
        match before {
            "a listener" => rustix::net::listen(&here, 1).unwrap(),
            "a session with another" => {
                rustix::net::connect(&here, &SocketAddr::from(([127, 0, 0, 1], other_port))).unwrap();
            }
            _ => {}
        }
        sockets.step(&open(&here));
        for time in 0..3 {
            rustix::net::connect_unspec(&here).unwrap();
            rustix::net::connect(&here, &SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
            let mut there = loop {
                if let Ok((there, _)) = listener.accept() {
                    break there;
                }
            };
            there.set_nonblocking(false).unwrap();
            sockets.step(&open(&here));
            assert!(here.write_all(b"x").is_err(), "{before}, time {time}");
            let read = there.read(&mut [0; 1]).map_err(|error| error.kind());
            assert_eq!(read, Err(ErrorKind::ConnectionReset), "{before}, time {time}");
        }
    }
}

/// The data may be unsigned, from before the listener had keys, and nobody can tell any more who sent it.
#[test]
fn what_came_before_a_reset_that_came_before_accept_is_not_read() {
    let (listener, port) = listener("127.0.0.1:0");
    let (_folder, _, config) = configured(&[port], Md5::Refuse);
    let mut sockets = Sockets::new(config).unwrap();
    // FIONREAD does not count data behind an urgent octet.
    for is_urgent in [false, true] {
        let mut caller = TcpStream::connect(("127.0.0.1", port)).unwrap();
        if is_urgent {
            socket2::SockRef::from(&caller).send_out_of_band(b"!").unwrap();
        }
        caller.write_all(b"unsigned").unwrap();
        socket2::SockRef::from(&caller).set_linger(Some(Duration::ZERO)).unwrap();
        drop(caller);
        let (mut accepted, _) = listener.accept().unwrap();
        assert!(accepted.peer_addr().is_err());
        sockets.step(&open(&accepted));
        let read = accepted.read(&mut [0; 8]).map_err(|error| error.kind());
        assert_eq!(read, Err(ErrorKind::ConnectionReset), "urgent: {is_urgent}");
    }
}

/// Set in a supervised process that tries to be a supervisor itself.
const NESTED: &str = "WIRESEAL_TEST_NESTED";

/// Is that process if the variable is set, and no test.
#[test]
fn nested_process() {
    if env::var(NESTED).is_ok() {
        let (_folder, supervisor, config) = configured(&[179], Md5::Refuse);
        let error = supervisor.supervise("true".as_ref(), &[], config).unwrap_err();
        let is_said = error.to_string().contains("one is enough") && matches!(error, Error::Supervised);
        process::exit(if is_said && filter::is_supervised() { 5 } else { 1 });
    }
}

#[test]
fn a_second_supervisor_says_that_one_is_enough() {
    let program = env::current_exe().unwrap();
    let program = [
        &format!("{NESTED}=1"),
        program.to_str().unwrap(),
        "--exact",
        "run::tests::nested_process",
        "--nocapture",
    ];
    assert_eq!(supervised("env", &program, &[179]).unwrap(), 5);
    assert!(!filter::is_supervised());
}

#[test]
fn ways_around_are_closed() {
    let (ipv4, port) = listener("127.0.0.1:0");
    let program = r#"
def refused(expected, call):
    try:
        call()
    except OSError as error:
        assert error.errno == expected, error
    else:
        sys.exit("not refused: %s" % expected)
s = socket.socket()
for protocol in 262, 256: # Multipath TCP, SMC
    refused(errno.EPROTONOSUPPORT, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol))
refused(errno.EAFNOSUPPORT, lambda: socket.socket(43, socket.SOCK_STREAM, 0))
refused(errno.EOPNOTSUPP, lambda: s.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port)))
refused(errno.EOPNOTSUPP, lambda: s.sendmsg([b"x"], [], socket.MSG_FASTOPEN, ("127.0.0.1", port)))
for option in 38, 39, 40:
    refused(errno.ENOPROTOOPT, lambda: s.setsockopt(socket.IPPROTO_TCP, option, b"\0" * 300))
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def fails(expected, *call): assert libc.syscall(*call) == -1 and ctypes.get_errno() == expected, (call, ctypes.get_errno())
fails(errno.ENOSYS, 425, 8, None) # io_uring_setup
fails(errno.ENOSYS, 435, None, 0) # clone3
fails(errno.EINVAL, 436, 1 << 30, 1 << 31, 2) # close_range, CLOSE_RANGE_UNSHARE
fails(errno.EPERM, {"x86_64": 56, "aarch64": 220}[os.uname().machine], 0x10900, None) # clone, a thread with descriptors of its own
def alone(): fails(errno.EPERM, {"x86_64": 272, "aarch64": 97}[os.uname().machine], 0x400) # unshare, CLONE_FILES
alone()
thread = threading.Thread(target=alone)
thread.start()
thread.join()
assert libc.syscall(436, 1 << 30, 1 << 31, 0) == 0
import subprocess
subprocess.run(["true"], check=True)
"#;
    python(port, &[port], program);
    assert!(nobody_came(&ipv4));
}

/// A caller that is interrupted just as it is answered may miss the answer, and the kernel does not tell: a few in a thousand here.
#[test]
fn signals_do_not_change_what_connect_says() {
    let (_ipv4, port) = listener("127.0.0.1:0");
    let program = r#"
import ctypes, signal
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
address = (2).to_bytes(2, sys.byteorder) + port.to_bytes(2, "big") + socket.inet_aton("127.0.0.1") + b"\0" * 8
signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
unheard = 0
for n in range(100): # as many as a listener keeps that nobody accepts
    s = socket.socket()
    s.setblocking(n % 2 == 0)
    code = libc.connect(s.fileno(), address, 16) and ctypes.get_errno()
    unheard += code in (errno.EALREADY, errno.EISCONN)
    assert code in (0, errno.EINPROGRESS, errno.EALREADY, errno.EISCONN), (n, errno.errorcode[code])
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.close()
signal.setitimer(signal.ITIMER_REAL, 0)
assert unheard < 6, unheard
"#;
    python(port, &[179], program);
}

#[test]
fn an_abandoned_connect_does_not_last() {
    // A full listener does not answer.
    let program = r#"
import signal, time
l = socket.socket()
l.bind(("127.0.0.1", 0))
l.listen(0)
address = l.getsockname()
full = [socket.socket() for _ in range(3)]
for s in full:
    s.setblocking(False)
    s.connect_ex(address)
def opening():
    remote = "0100007F:%04X 02" % address[1]
    return sum(remote in line for line in open("/proc/net/tcp"))
before = opening()
child = os.fork()
if child == 0:
    for s in full: s.close()
    l.close()
    socket.socket().connect(address)
    os._exit(0)
while opening() == before: time.sleep(0.01)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
for _ in range(500):
    if opening() == before: sys.exit(0)
    time.sleep(0.01)
sys.exit("it is still being opened")
"#;
    python(4, &[179], program);
}

/// Set in a supervisor's process: the shell's command line to run.
const LINE: &str = "WIRESEAL_TEST_IN_BACKGROUND";

/// Starts a process as a user without privileges: as this one, unless that is root.
fn unprivileged() -> &'static [&'static str] {
    if geteuid().is_root() {
        &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]
    } else {
        &["env"]
    }
}

/// The arguments of such a process.
const SUPERVISOR: [&str; 3] = ["--exact", "run::tests::supervisor_process", "--nocapture"];

/// Is the supervisor's process if the variable is set, and no test.
#[test]
fn supervisor_process() {
    let Ok(line) = env::var(LINE) else { return };
    let (_folder, supervisor, _) = configured(&[179], Md5::Refuse);
    let config = supervisor.read().unwrap();
    let supervisor = Supervisor { in_background: true, ..supervisor };
    let code = supervisor.supervise("sh".as_ref(), &["-c".into(), line.into()], config).unwrap();
    process::exit(code.into());
}

fn in_background(line: &str) -> u8 {
    in_background_with(line, &[])
}

fn in_background_with(line: &str, variables: &[(&str, &str)]) -> u8 {
    let _turn = lock(&ONE_BY_ONE);
    let mut command = process::Command::new(env::current_exe().unwrap());
    command.args(SUPERVISOR).env(LINE, line).envs(variables.iter().copied()).stdout(process::Stdio::null());
    run_in_background(&mut command).unwrap()
}

#[test]
fn the_caller_goes_on_when_the_program_is_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let [going, gone] = ["going", "gone"].map(|name| folder.path().join(name));
    // A daemon that runs until it is told to end. It is still under the filter: io_uring_setup is refused.
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
    // Waits for a program that stays in the foreground, and for a supervisor that is killed.
    assert_eq!(in_background("sleep 0.1; exit 6"), 6);
    assert_eq!(in_background("kill -9 $PPID; sleep 1"), 1);
}

/// Runs a command line under a supervisor, which is started by other programs, and returns its exit code.
fn started_by(starter: &[&str], line: &str) -> Option<i32> {
    let _turn = lock(&ONE_BY_ONE);
    let folder = tempfile::tempdir().unwrap();
    // A copy that every user can execute.
    let program = folder.path().join("supervisor");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = process::Command::new(starter[0]);
    command.args(&starter[1..]).arg(program);
    command.args(SUPERVISOR).env(LINE, line).stdin(process::Stdio::null()).stdout(process::Stdio::null());
    command.status().unwrap().code()
}

#[test]
fn the_program_has_its_own_limit_of_open_files_and_the_supervisor_a_higher_one() {
    let line = "[ $(ulimit -Sn) = 200 ] || exit 1; [ $(ulimit -Hn) = 700 ] || exit 2; sleep 0.3; \
                grep -q 'Max open files *700 *700' /proc/$PPID/limits || exit 3";
    assert_eq!(started_by(&["prlimit", "--nofile=200:700"], line), Some(0));
}

#[test]
fn it_can_be_the_first_process_of_a_container() {
    let container = ["unshare", "--pid", "--fork", "--mount-proc", "--user", "--map-root-user"];
    let container = if geteuid().is_root() { &container[..4] } else { &container };
    assert_eq!(started_by(container, "(sleep 0.2 &) ; exit 4"), Some(4));
}

#[test]
fn it_needs_no_privileges_if_the_program_needs_none() {
    let (ipv4, port) = listener("127.0.0.1:0");
    let program = format!(
        "import errno, os, socket\nassert os.getuid() != 0\nassert socket.socket().connect_ex((\"127.0.0.1\", {port})) == 0\n\
         s = socket.socket()\ns.settimeout(1)\nassert s.connect_ex((\"127.0.0.1\", 179)) in (errno.EKEYREJECTED, errno.EAGAIN, errno.ECONNREFUSED)"
    );
    assert_eq!(started_by(unprivileged(), &format!("/usr/bin/python3 -c '{program}'")), Some(0));
    assert!(ipv4.accept().is_ok());
}

/// Variables of systemd that name the supervisor are changed to name the program.
#[test]
fn the_program_has_its_own_number_in_the_variables_of_systemd() {
    let named = ["sh", "-c", "export LISTEN_PID=$$ WATCHDOG_PID=$$ LISTEN_PIDFDID=7; exec \"$@\"", "sh"];
    let is_named = "test \"$LISTEN_PID,$WATCHDOG_PID,$LISTEN_PIDFDID\" = \"$$,$$,\" || exit 9; exit 3";
    assert_eq!(started_by(&named, is_named), Some(3));
    // They may name the supervisor's parent.
    let own = process::id().to_string();
    let variables = [("LISTEN_PID", own.as_str()), ("WATCHDOG_PID", &own)];
    assert_eq!(in_background_with(is_named, &variables), 3);
    // The number of another process stays.
    let others = "test \"$LISTEN_PID,$LISTEN_PIDFDID\" = 1,7 || exit 9; exit 3";
    assert_eq!(in_background_with(others, &[("LISTEN_PID", "1"), ("LISTEN_PIDFDID", "7")]), 3);
}

/// The supervisor and the program belong to one user.
#[test]
fn the_supervisors_memory_cannot_be_read() {
    for file in ["mem", "environ", "maps"] {
        let line = format!("(: </proc/$$/{file}) || exit 8; (: </proc/$PPID/{file}) && exit 9; exit 3");
        assert_eq!(started_by(unprivileged(), &line), Some(3), "{file}");
    }
}

fn await_content(path: &Path) -> String {
    for _ in 0..500 {
        match fs::read_to_string(path) {
            Ok(content) if !content.is_empty() => return content,
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
    panic!("{} has not come", path.display())
}
