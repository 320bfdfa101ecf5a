//! Network namespaces with programs and gateways in them.

use std::cell::{Cell, RefCell};
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{IPV4, first};

/// The program under test.
pub const WIRESEAL: &str = env!("CARGO_BIN_EXE_wireseal");

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    A,
    B,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::A, Self::B];
}

/// Two hosts on one cable, or with a router between them.
pub struct Net {
    names: [String; 3],
    folder: TempDir,
    gateways: Cell<u32>,
    is_routed: bool,
}

pub fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LIMIT, "timed out waiting for {what}");
        sleep(Duration::from_millis(20));
    }
}

fn shell(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

impl Net {
    fn empty(is_routed: bool) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b", "r"].map(|host| format!("wireseal-{}-{number}-{host}", std::process::id()));
        for name in &names {
            shell(&format!("ip netns add {name} && ip -n {name} link set lo up"));
        }
        Self { names, folder: tempfile::tempdir().unwrap(), gateways: Cell::new(0), is_routed }
    }

    pub fn new(mtu: u32) -> Self {
        let net = Self::empty(false);
        let [a, b, _] = &net.names;
        shell(&format!("ip link add wire netns {a} type veth peer name wire netns {b}"));
        for (index, name) in [a, b].into_iter().enumerate() {
            net.configure(
                name,
                "wire",
                mtu,
                &[format!("192.0.2.{}/24", index + 1), format!("2001:db8::{}/64", index + 1)],
            );
        }
        net
    }

    /// The router has this smaller MTU towards the second host.
    pub fn routed(mtu: u32, far: u32) -> Self {
        let net = Self::empty(true);
        let [a, b, router] = &net.names;
        shell(&format!(
            "ip netns exec {router} sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
        ));
        for (number, name) in [(1, a), (2, b)] {
            shell(&format!("ip link add wire netns {name} type veth peer name wire{number} netns {router}"));
            let at = |host| [format!("198.51.{number}.{host}/24"), format!("2001:db8:{number}::{host}/64")];
            net.configure(name, "wire", mtu, &at(2));
            net.configure(router, &format!("wire{number}"), mtu, &at(1));
            shell(&format!("ip -n {name} route add default via 198.51.{number}.1"));
            shell(&format!("ip -n {name} -6 route add default via 2001:db8:{number}::1"));
        }
        shell(&format!("ip -n {router} route add 198.51.2.2 dev wire2 mtu lock {far}"));
        shell(&format!("ip -n {router} -6 route add 2001:db8:2::2 dev wire2 mtu {far}"));
        net
    }

    fn configure(&self, name: &str, device: &str, mtu: u32, addresses: &[String; 2]) {
        let [ipv4, ipv6] = addresses;
        shell(&format!(
            "ip -n {name} link set {device} mtu {mtu} && ip -n {name} addr add {ipv4} dev {device} && \
             ip -n {name} -6 addr add {ipv6} dev {device} nodad && ip -n {name} link set {device} up"
        ));
    }

    /// As `pairs`, but only from the side that has to learn the smaller MTU.
    pub fn far_pairs(&self) -> impl Iterator<Item = (Side, String, Side)> {
        assert!(self.is_routed);
        ["198.51.2.2", "2001:db8:2::2"].into_iter().map(|address| (Side::B, address.to_owned(), Side::A))
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn command(&self, side: Side, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[side as usize], program]);
        command
    }

    /// Runs a command line to its end.
    pub fn run(&self, side: Side, line: &str) -> String {
        shell(&format!("ip netns exec {} sh -c '{}'", self.names[side as usize], line.replace('\'', "'\\''")))
    }

    /// A configuration file with these peers, one on each line.
    pub fn peers(&self, peers: &str) -> String {
        let file = self.folder().join("gateway.toml");
        fs::write(&file, format!("[peers]\n{peers}")).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// The command that starts a gateway, and its file of keys.
    pub fn gateway_command(&self, side: Side, keys: &str, arguments: &[&str]) -> (Command, PathBuf) {
        let number = self.gateways.replace(self.gateways.get() + 1);
        let file = self.folder().join(format!("keys-{number}"));
        fs::write(&file, keys).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let mut command = self.command(side, WIRESEAL);
        command.arg("gateway").arg("--keys").arg(&file);
        let peers = match (self.is_routed, side) {
            (true, Side::A) => ["198.51.2.2", "2001:db8:2::2"],
            (true, Side::B) => ["198.51.1.2", "2001:db8:1::2"],
            (false, Side::A) => ["192.0.2.2", "2001:db8::2"],
            (false, Side::B) => ["192.0.2.1", "2001:db8::1"],
        };
        command.args(peers.iter().flat_map(|peer| ["--peer", peer])).args(arguments);
        (command, file)
    }

    /// Starts a gateway, and waits until it carries packets.
    pub fn gateway(&self, side: Side, keys: &str, arguments: &[&str]) -> Gateway {
        self.started(self.gateway_command(side, keys, arguments))
    }

    /// Starts one at each side.
    pub fn gateways(&self, arguments: &[&str]) -> [Gateway; 2] {
        Side::BOTH.map(|side| self.gateway(side, &first(), arguments))
    }

    /// A folder with only these programs, under these names.
    pub fn programs<'a>(&self, programs: impl IntoIterator<Item = (&'a str, &'a str)>) -> PathBuf {
        let folder = self.folder().join(format!("bin-{}", self.gateways.replace(self.gateways.get() + 1)));
        fs::create_dir(&folder).unwrap();
        for (program, name) in programs {
            shell(&format!("ln -s $(command -v {program}) {}/{name}", folder.display()));
        }
        folder
    }

    /// A folder with the programs of iptables, and without nft.
    pub fn without_nft(&self) -> PathBuf {
        let names = ["ip", "iptables", "ip6tables", "iptables-restore", "ip6tables-restore"];
        self.programs(names.map(|name| (name, name)))
    }

    /// Starts a gateway that finds only the programs of this folder, and waits until it carries packets.
    pub fn gateway_with_path(&self, side: Side, keys: &str, arguments: &[&str], programs: &Path) -> Gateway {
        let (mut command, keys) = self.gateway_command(side, keys, arguments);
        command.env("PATH", programs);
        self.started((command, keys))
    }

    /// Starts this command, and waits until it carries packets.
    pub fn started(&self, (mut command, keys): (Command, PathBuf)) -> Gateway {
        let log = keys.with_extension("log");
        // The socket that systemd would have.
        let told = keys.with_extension("notify");
        let systemd = UnixDatagram::bind(&told).unwrap();
        systemd.set_read_timeout(Some(LIMIT)).unwrap();
        command.env("NOTIFY_SOCKET", &told);
        let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        let gateway = Gateway { child, log, keys };
        await_that("the gateway", || {
            let log = gateway.log();
            assert!(!log.contains("wireseal: "), "{log}");
            log.contains("carries the packets of its peers")
        });
        let mut said = [0; 100];
        let length = systemd.recv(&mut said).unwrap();
        assert_eq!(str::from_utf8(&said[..length]).unwrap().trim(), "READY=1");
        gateway
    }

    /// Runs a Python program until it is ready, and then until this is dropped.
    pub fn hold(&self, side: Side, program: &str) -> impl Drop + use<> {
        let held = self.python(side, program, "hold");
        held.await_ready();
        held
    }

    /// What `wireseal status` prints, whether or not it finds instances.
    pub fn status(&self, arguments: &[&str]) -> String {
        let status = Command::new(WIRESEAL).arg("status").args(arguments).output().unwrap();
        assert_ne!(status.status.code(), Some(2), "{status:?}");
        String::from_utf8(status.stdout).unwrap()
    }

    /// Starts a gateway that cannot run; returns its message.
    pub fn refused_gateway(&self, side: Side, keys: &str, arguments: &[&str]) -> String {
        let (mut command, _) = self.gateway_command(side, keys, arguments);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    }

    /// The exit code of `gateway --check` at the first host, and the line that it prints.
    pub fn check(&self) -> (i32, String) {
        let output = self.command(Side::A, WIRESEAL).args(["gateway", "--check"]).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap().trim_end().to_owned())
    }

    /// Removes the rules; returns the message.
    pub fn remove_rules(&self, side: Side) -> String {
        self.run(side, &format!("{WIRESEAL} gateway --remove-rules 2>&1"))
    }

    pub fn transfer(&self, at: Side, address: &str, from: Side, octets: usize) {
        self.transfer_at(at, address, 179, from, octets);
    }

    /// Sends this many octets each way through a connection to a port at this address, and checks each.
    pub fn transfer_at(&self, at: Side, address: &str, port: u16, from: Side, octets: usize) {
        let program = format!(
            "import hashlib, os, socket, sys, threading\naddress, port, octets = '{address}', {port}, {octets}\n{TRANSFER}"
        );
        let [serve, connect] = self.pair(at, from, &program);
        for program in [connect, serve] {
            program.succeeds();
        }
    }

    /// Whether a connection opens within a few seconds.
    pub fn connects(&self, at: Side, address: &str, from: Side) -> bool {
        self.connects_to(at, address, 179, from)
    }

    /// The same with another port, which is redirected to the one that the server listens on.
    pub fn connects_to(&self, at: Side, address: &str, port: u16, from: Side) -> bool {
        self.echoing(at, from, &format!("'{address}', {port}, 2.5, [None]")).1
    }

    /// A connection that stays open.
    pub fn session(&self, at: Side, address: &str, from: Side) -> Session {
        let (session, is_open) = self.echoing(at, from, &format!("'{address}', 179, 10, [None]"));
        assert!(is_open);
        session
    }

    /// Connections to the first host from this many addresses of the second, those after 10.1.0.0.
    pub fn sessions(&self, count: usize) -> Session {
        self.run(Side::B, "ip route add local 10.1.0.0/16 dev lo");
        self.run(Side::A, "ip route add 10.1.0.0/16 via 192.0.2.2");
        let sources = format!("[(str(ipaddress.ip_address('10.1.0.1') + n), 0) for n in range({count})]");
        let (sessions, are_open) =
            self.echoing(Side::A, Side::B, &format!("'{}', 179, 10, {sources}", IPV4[0]));
        assert!(are_open);
        sessions
    }

    /// Connections to an address and port from these sources, and whether all opened within a few seconds.
    fn echoing(&self, at: Side, from: Side, values: &str) -> (Session, bool) {
        let modules = "ipaddress, resource, selectors, socket, sys";
        let program = format!("import {modules}\naddress, port, patience, sources = {values}\n{ECHO}");
        let [serve, connect] = self.pair(at, from, &program);
        let is_open = connect.line() == "connected";
        (Session { connect, _serve: serve }, is_open)
    }

    /// A program that serves at one side, once it is ready, and one that connects from the other.
    fn pair(&self, at: Side, from: Side, program: &str) -> [Python; 2] {
        let serve = self.python(at, program, "serve");
        serve.await_ready();
        [serve, self.python(from, program, "connect")]
    }

    pub fn python(&self, side: Side, program: &str, role: &str) -> Python {
        let mut command = self.command(side, "python3");
        command.args(["-c", &format!("role = '{role}'\n{program}")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = RefCell::new(BufReader::new(child.stdout.take().unwrap()));
        let input = RefCell::new(child.stdin.take().unwrap());
        Python { child, lines, input }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// Sends and checks at both ends.
const TRANSFER: &str = "
family = socket.AF_INET6 if ':' in address else socket.AF_INET
def pattern(seed):
    return b''.join(hashlib.sha256(b'%d %d' % (seed, n)).digest() for n in range(octets // 32))
def exchange(s, own, other):
    s.settimeout(25)
    sender = threading.Thread(target=lambda: (s.sendall(pattern(own)), s.shutdown(socket.SHUT_WR)))
    sender.start()
    got = bytearray()
    while True:
        part = s.recv(1 << 20)
        if not part: break
        got += part
    sender.join()
    assert got == pattern(other), (len(got), octets)
if role == 'serve':
    l = socket.create_server((address, port), family=family)
    print('ready', flush=True)
    l.settimeout(25)
    s, _ = l.accept()
    exchange(s, 1, 2)
else:
    exchange(socket.create_connection((address, port), 25), 2, 1)
";

/// Echoes on all connections, and prints whether what was sent has come back.
const ECHO: &str = "
count = len(sources)
family = socket.AF_INET6 if ':' in address else socket.AF_INET
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
if role == 'serve':
    l = socket.create_server((address, 179), family=family, backlog=count)
    print('ready', flush=True)
    ready = selectors.DefaultSelector()
    ready.register(l, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.fileobj is l:
                ready.register(l.accept()[0], selectors.EVENT_READ)
                continue
            part = key.fileobj.recv(100)
            if part: key.fileobj.sendall(part)
            else: ready.unregister(key.fileobj)
else:
    try:
        connections = [socket.create_connection((address, port), patience, source) for source in sources]
        print('connected', flush=True)
    except OSError as error:
        sys.exit(print(error, flush=True))
    for line in sys.stdin:
        try:
            for s in connections:
                s.settimeout(5)
                s.sendall(line.encode())
            print('echo' if all(s.recv(100).decode() == line for s in connections) else 'another', flush=True)
        except OSError as error:
            print(error, flush=True)
";

pub struct Python {
    child: Child,
    lines: RefCell<BufReader<ChildStdout>>,
    input: RefCell<ChildStdin>,
}

impl Python {
    pub fn line(&self) -> String {
        let mut line = String::new();
        self.lines.borrow_mut().read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Writes a line to its standard input.
    pub fn say(&self, line: &str) {
        writeln!(self.input.borrow_mut(), "{line}").unwrap();
    }

    pub fn await_ready(&self) {
        assert_eq!(self.line(), "ready");
    }

    fn succeeds(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct Session {
    connect: Python,
    _serve: Python,
}

impl Session {
    /// Whether what is sent comes back within a few seconds on each connection.
    pub fn echoes(&self) -> bool {
        self.connect.say("hello");
        self.connect.line() == "echo"
    }
}

/// A gateway that runs.
pub struct Gateway {
    child: Child,
    log: PathBuf,
    keys: PathBuf,
}

impl Gateway {
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub fn await_log(&self, words: &str) {
        await_that(&format!("the log to say {words:?}"), || self.log().contains(words));
    }

    pub fn assert_no_warning(&self) {
        assert!(!self.log().contains("WARN"), "{}", self.log());
    }

    pub fn end_without_warning(self) {
        let log = self.end();
        assert!(!log.contains("WARN"), "{log}");
    }

    /// The program that has installed the rules.
    pub fn backend(&self) -> String {
        backend_of(&self.log())
    }

    pub fn keys(&self) -> &Path {
        &self.keys
    }

    pub fn signal(&self, signal: &str) {
        shell(&format!("kill -{signal} {}", self.child.id()));
    }

    pub fn reload(&self) {
        self.signal("HUP");
    }

    /// Makes it read other keys.
    pub fn change_keys(&self, keys: &str) {
        let times = || self.log().matches("the configuration was read again").count();
        let before = times();
        fs::write(&self.keys, keys).unwrap();
        self.reload();
        await_that("the keys to be read", || times() > before);
    }

    /// Ends it with SIGTERM; returns its log.
    pub fn end(mut self) -> String {
        self.signal("TERM");
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
        self.log()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program that has installed the rules, according to a gateway's log.
pub fn backend_of(log: &str) -> String {
    let (_, rest) = log.split_once("by=\"").unwrap();
    rest.split_once('"').unwrap().0.to_owned()
}
