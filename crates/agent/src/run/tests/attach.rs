//! Programs that run already. The supervisor is a process of its own, so that it can be killed.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;

use super::{Duration, Md5, ONE_BY_ONE, PoisonError, RunError, configured, fs, listener};

/// Set in a supervisor's process: the process to attach to, and a port.
const ATTACH_TO: &str = "WIRESEAL_TEST_ATTACH_TO";

/// Says what becomes of each order. Meanwhile it has threads that wait in the kernel in different ways, and children.
const PROGRAM: &str = r#"
import errno, os, select, socket, sys, threading, time
def forever(wait):
    while True:
        before = time.monotonic()
        wait()
        if time.monotonic() - before < 0.05: os._exit(9) # it did not wait to its end
a, b = socket.socketpair()
silent, other = socket.socketpair()
for wait in (lambda: time.sleep(0.1), lambda: select.select([silent], [], [], 0.1), lambda: threading.Event().wait(0.1)):
    threading.Thread(target=forever, args=(wait,), daemon=True).start()
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
child = os.fork()
if child == 0:
    os.close(1)
    os.read(a.fileno(), 1)
    s = socket.socket()
    os._exit(s.connect_ex(("127.0.0.1", int(sys.argv[1]))))
print("ready", flush=True)
for line in sys.stdin:
    order, port = line.split()
    s = socket.socket()
    try:
        if order == "connect": s.connect(("127.0.0.1", int(port)))
        elif order == "child":
            b.send(b"x")
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code: raise OSError(code, "child")
        else:
            s.bind(("127.0.0.1", int(port)))
            s.listen()
        print("OK", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
"#;

/// A process that is killed in the end.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Program {
    process: Killed,
    lines: BufReader<ChildStdout>,
}

impl Program {
    fn start(port: u16) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM, &port.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut program = Self { process: Killed(process), lines };
        assert_eq!(program.line(), "ready");
        program
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn order(&mut self, order: &str, port: u16) -> String {
        let input = self.process.0.stdin.as_mut().unwrap();
        writeln!(input, "{order} {port}").unwrap();
        self.line()
    }

    fn id(&self) -> u32 {
        self.process.0.id()
    }
}

/// Starts this test binary as a supervisor, and waits until it is one.
fn supervisor(of: &Program, port: u16) -> Killed {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "run::tests::attach::supervisor_process", "--nocapture"]);
    command.env(ATTACH_TO, format!("{} {port}", of.id())).stdout(Stdio::null()).stderr(Stdio::inherit());
    let process = Killed(command.spawn().unwrap());
    let id = of.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let filters = || {
        let of = children.split_whitespace().map(str::to_owned).chain([id.to_string()]);
        let filters = of.map(|process| {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
            let filters = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:")).unwrap();
            filters.trim().parse::<u32>().unwrap()
        });
        filters.min().unwrap()
    };
    let before = filters();
    for _ in 0..500 {
        if filters() > before {
            return process;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("the filter was not installed");
}

/// Not a test, but the supervisor's process, if the variable is set.
#[test]
fn supervisor_process() {
    let Ok(attach_to) = env::var(ATTACH_TO) else { return };
    let (pid, port) = attach_to.split_once(' ').unwrap();
    let (_folder, supervisor, config) = configured(&[port.parse().unwrap()], Md5::Refuse);
    supervisor.attach_to(pid.parse().unwrap(), config).unwrap();
}

#[test]
fn a_program_that_runs_already_opens_nothing_without_keys() {
    let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_ipv4, protected) = listener("127.0.0.1:0");
    let (_other, other) = listener("127.0.0.1:0");
    let mut program = Program::start(protected);
    assert_eq!(program.order("connect", protected), "OK", "before");
    let first = supervisor(&program, protected);
    let refused = if wireseal_linux::probe().unwrap().tcp_ao { "ETIMEDOUT" } else { "EKEYREJECTED" };
    assert_eq!(program.order("connect", protected), refused);
    assert_eq!(program.order("connect", other), "OK");
    assert_eq!(program.order("child", protected), refused, "a child from before has the filter too");
    // Another supervisor is refused while there is one, and the program does not notice.
    let (_folder, second, config) = configured(&[protected], Md5::Refuse);
    let error = second.attach_to(program.id(), config).unwrap_err();
    assert!(error.to_string().contains("it has a supervisor already"), "{error}");
    assert_eq!(program.order("connect", other), "OK");
    // Nothing opens once the supervisor is killed, until there is another.
    drop(first);
    assert_eq!(program.order("connect", other), "ENOSYS");
    let _next = supervisor(&program, protected);
    assert_eq!(program.order("connect", other), "OK");
    assert_eq!(program.order("connect", protected), refused);
}

#[test]
fn what_cannot_be_attached_to_stays_as_it_was() {
    let (_folder, supervisor, config) = configured(&[179], Md5::Refuse);
    for pid in [u32::MAX / 2, 4_194_304] {
        let error = supervisor.attach_to(pid, config.clone()).unwrap_err();
        assert!(matches!(error, RunError::NoProcess(_)) && error.exit_code() == 2, "{error}");
    }
    // A kernel's thread has no memory of its own.
    let error = supervisor.attach_to(2, config).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
}
