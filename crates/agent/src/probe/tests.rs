//! Real sockets in a network namespace of their own. TCP-AO is tested in the lab, whose kernels have it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{Domain, Socket, Type};
use wireseal_linux::MasterKey;

use super::*;

/// Set in the process that runs in its own network namespace.
const INSIDE: &str = "WIRESEAL_PROBE_INSIDE";
/// `/run` is empty, so that neither named namespaces nor instances of this host are seen. Nobody answers behind the device `sink`.
const HOST: &str = "mount -t tmpfs none /run && ip link set lo up && ip link add sink type veth peer name drain && \
                    ip address add 192.0.2.1/24 dev sink && ip link set sink up && ip link set drain up && \
                    ip neighbor add 192.0.2.9 lladdr 02:00:00:00:00:09 dev sink && exec \"$@\"";

/// Whether this is the process in the namespace. Otherwise runs a test again in one, behind a command that changes what it may do. If
/// this user may not make one, says so.
fn is_inside(test: &str, behind: &[&str]) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let options = ["--net", "--mount", "--pid", "--fork", "--mount-proc"];
    let privileged: &[&str] = if geteuid().is_root() { &[] } else { &["--user", "--map-root-user"] };
    let unshare = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(privileged).args(options).args(arguments);
        command
    };
    if !unshare(&["true"]).status().is_ok_and(|status| status.success()) {
        println!("{test} was not run: it takes the right to make namespaces");
        return false;
    }
    let mut command = unshare(&["sh", "-ec", HOST, "sh"]);
    command.args(behind).arg(env::current_exe().unwrap());
    let test = format!("probe::tests::{test}");
    let status = command.args(["--exact", &test, "--nocapture"]).env(INSIDE, "1").status().unwrap();
    assert!(status.success(), "{test}, in a namespace");
    false
}

fn listener(address: &str) -> TcpListener {
    TcpListener::bind(address).unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn network(text: &str) -> IpCidr {
    text.parse().unwrap()
}

/// Puts TCP-MD5 keys on a socket, if the kernel has them.
fn set_md5(socket: &impl AsFd, networks: &[&str]) {
    let secret = MasterKey::new(b"a secret").unwrap();
    for text in networks {
        match TcpAoSocket::new(socket).set_md5_key(network(text), None, &secret) {
            Err(wireseal_linux::Error::Io(error)) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {}
            set => set.unwrap(),
        }
    }
}

/// What was found in the namespace of this process, in short.
fn found(host: &Host) -> Vec<(Service, Role, SocketAddr)> {
    host.sockets.iter().map(|socket| (socket.service, socket.role, socket.local)).collect()
}

#[test]
fn sockets_are_found_with_keys_and_processes() {
    if !is_inside("sockets_are_found_with_keys_and_processes", &[]) {
        return;
    }
    let bgp = listener("0.0.0.0:179");
    set_md5(&bgp, &["127.0.0.1", "10.0.0.0/8"]);
    let opener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    set_md5(&opener, &["127.0.0.1", "10.0.0.0/8"]);
    opener.connect(&address("127.0.0.1:179").into()).unwrap();
    let opener = TcpStream::from(opener);
    let (accepted, from) = bgp.accept().unwrap();
    // Of no known service.
    let _other = listener("127.0.0.1:8080");
    // IPv4 at an IPv6 socket; the other end closes it.
    let rtr = listener("[::]:323");
    let router = TcpStream::connect("127.0.0.1:323").unwrap();
    let router_from = router.local_addr().unwrap();
    let (kept, _) = rtr.accept().unwrap();
    drop(router);
    // Nobody answers.
    let opening = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    opening.set_nonblocking(true).unwrap();
    let _ = opening.connect(&address("192.0.2.9:179").into());
    let opening_from = opening.local_addr().unwrap().as_socket().unwrap();

    let host = probe();
    let session =
        |peer, is_opener, is_established| Role::Session { peer, is_opener: Some(is_opener), is_established };
    let mut expected = vec![
        (Service::Bgp, Role::Listener, address("0.0.0.0:179")),
        (Service::Bgp, session(from, false, true), address("127.0.0.1:179")),
        (Service::Bgp, session(address("127.0.0.1:179"), true, true), from),
        (Service::Bgp, session(address("192.0.2.9:179"), true, false), opening_from),
        (Service::Rtr, Role::Listener, address("[::]:323")),
        (Service::Rtr, session(router_from, false, false), address("127.0.0.1:323")),
    ];
    expected.sort();
    assert_eq!(found(&host), expected);
    assert_eq!(host.unseen, [""; 0]);
    for socket in &host.sockets {
        let networks: &[&str] = match (socket.service, socket.role) {
            _ if host.kernel.tcp_md5 == Ability::No => &[],
            (Service::Bgp, Role::Listener) => &["10.0.0.0/8", "127.0.0.1"],
            // A key for another peer does not protect it.
            (Service::Bgp, Role::Session { is_established: true, .. }) => &["127.0.0.1"],
            _ => &[],
        };
        let mut seen = socket.protection.tcp_md5.clone();
        seen.sort();
        assert_eq!(seen, networks.iter().map(|text| network(text)).collect::<Vec<_>>(), "{socket:?}");
        assert_eq!((socket.protection.tcp_ao.len(), &socket.protection.gateway), (0, &None));
        assert_eq!(socket.protection.unknown, [""; 0], "{socket:?}");
        let process = socket.process.as_ref().unwrap();
        assert_eq!((process.pid, process.user), (process::id(), Some(0)));
        assert_eq!(process.executable, env::current_exe().ok());
        assert!(!process.name.is_empty() && !process.is_in_container && !process.is_under_run);
        assert_eq!((&socket.namespace, &socket.device, &socket.vrf), (&None, &None, &None));
    }
    let _ = (opener, accepted, kept);
}

#[test]
fn a_socket_of_several_processes_is_the_daemons() {
    if !is_inside("a_socket_of_several_processes_is_the_daemons", &[]) {
        return;
    }
    let shared = listener("127.0.0.1:179");
    fcntl_setfd(&shared, FdFlags::empty()).unwrap();
    let mut children: Vec<_> = (0..2).map(|_| Started::start(&["sleep", "60"])).collect();
    let seen = |shared: &TcpListener| {
        let (host, address) = (probe(), shared.local_addr().unwrap());
        assert_eq!(found(&host), [(Service::Bgp, Role::Listener, address)]);
        host.sockets[0].process.clone().unwrap()
    };
    assert_eq!(seen(&shared).pid, process::id());
    // As with a socket that systemd has opened for its daemon.
    fs::write("/proc/self/comm", "systemd").unwrap();
    assert_eq!(seen(&shared).pid, children[0].pid());
    children.remove(0);
    let last = seen(&shared);
    assert_eq!((last.pid, last.name.as_str()), (children[0].pid(), "sleep"));
    children.clear();
    assert_eq!(seen(&shared).pid, process::id());
}

#[test]
fn what_ends_meanwhile_is_left_out() {
    if !is_inside("what_ends_meanwhile_is_left_out", &[]) {
        return;
    }
    let stays = listener("127.0.0.1:179");
    fcntl_setfd(&stays, FdFlags::empty()).unwrap();
    let is_over = AtomicBool::new(false);
    let until_over = |act: fn()| {
        let is_over = &is_over;
        move || {
            while !is_over.load(Relaxed) {
                act();
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(until_over(|| {
            // A child of the other threads has the one before until it executes its program.
            if let Ok(other) = TcpListener::bind("127.0.0.1:646") {
                drop((TcpStream::connect("127.0.0.1:646"), other));
            }
        }));
        // Each has the listener too, for a moment, and some have a network namespace.
        scope.spawn(until_over(|| assert!(Command::new("true").status().unwrap().success())));
        scope.spawn(until_over(|| {
            assert!(Command::new("unshare").args(["-n", "true"]).status().unwrap().success());
        }));
        for _ in 0..40 {
            let host = probe();
            let bgp = host.sockets.iter().filter(|socket| socket.service == Service::Bgp);
            let pids: Vec<_> = bgp.map(|socket| socket.process.as_ref().map(|process| process.pid)).collect();
            // Before the panic the threads must end.
            if pids != [Some(process::id())] {
                is_over.store(true, Relaxed);
                panic!("{host:?}");
            }
        }
        is_over.store(true, Relaxed);
    });
}

/// A process that is killed on drop.
struct Started(Child);

impl Started {
    fn start(words: &[&str]) -> Self {
        Self(Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// A program that listens on a port.
const LISTEN: &str = "import socket, sys, time
with socket.create_server(('', int(sys.argv[1]))): time.sleep(60)";

/// Looks until this many sockets are found.
fn await_sockets(count: usize) -> Host {
    let started = Instant::now();
    loop {
        let host = probe();
        if host.sockets.len() == count {
            return host;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{host:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn multipath_tcp_is_found_with_its_process() {
    if !is_inside("multipath_tcp_is_found_with_its_process", &[]) {
        return;
    }
    // As Go's listeners, which GoBGP has.
    let Ok(socket) = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::MPTCP)) else {
        println!("this kernel has no Multipath TCP");
        return;
    };
    socket.bind(&address("[::]:179").into()).unwrap();
    socket.listen(1).unwrap();
    let _opener = TcpStream::connect("127.0.0.1:179").unwrap();
    let _accepted = socket.accept().unwrap();
    let host = probe();
    assert_eq!(host.sockets.len(), 3, "{host:?}");
    assert!(
        host.sockets.iter().all(|socket| socket.process.as_ref().map(|it| it.pid) == Some(process::id()))
    );
    // On any kernel: no option of TCP-AO is asked of it.
    let all = listeners_and_sessions(false).unwrap();
    let found = all.iter().find(|found| found.role == Role::Listener).unwrap();
    assert_eq!(tcp_ao(found, &[(process::id(), socket.as_raw_fd())]), Ok((Vec::new(), false)));
}

#[test]
fn other_network_namespaces_and_devices_are_looked_at() {
    if !is_inside("other_network_namespaces_and_devices_are_looked_at", &[]) {
        return;
    }
    let bound = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    bound.bind_device(Some(b"sink")).unwrap();
    bound.bind(&address("0.0.0.0:639").into()).unwrap();
    bound.listen(1).unwrap();
    let named = Command::new("ip").args(["netns", "add", "core"]).status();
    assert!(named.unwrap().success());
    // Left by a restart: no namespace any more.
    fs::write("/run/netns/old", "").unwrap();
    let mut other = Started::start(&["ip", "netns", "exec", "core", "python3", "-c", LISTEN, "179"]);
    let nameless = Started::start(&["unshare", "--net", "python3", "-c", LISTEN, "4189"]);
    let host = await_sockets(3);
    assert_eq!(host.unseen, [""; 0]);
    let [own, first, second] = &host.sockets[..] else { unreachable!() };
    assert_eq!((&own.namespace, own.device.as_deref(), &own.vrf), (&None, Some("sink"), &None));
    let of = |socket: &ProbedSocket| {
        let Namespace { name, pid, inode } = socket.namespace.clone().unwrap();
        assert_eq!(Some(inode), crate::status::process_namespace(pid.unwrap()));
        (name, pid, socket.process.as_ref().map(|process| process.pid))
    };
    assert_eq!(of(first), (Some("core".to_owned()), Some(other.pid()), Some(other.pid())));
    assert_eq!(of(second), (None, Some(nameless.pid()), Some(nameless.pid())));
    assert_eq!((first.service, second.service), (Service::Bgp, Service::Pcep));
    // The named one stays without a process.
    other.0.kill().unwrap();
    other.0.wait().unwrap();
    assert_eq!(await_sockets(2).unseen, [""; 0]);
}

#[test]
fn a_device_that_is_gone_may_have_been_in_a_vrf() {
    // The loopback device is the first of each network namespace.
    assert_eq!((device(1).name.as_str(), device(1).vrf), ("lo", None));
    let gone = device(u32::MAX >> 1);
    assert_eq!(gone.vrf, Some(gone.name));
}

#[test]
fn without_capabilities_nothing_is_guessed() {
    let without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let mut behind = vec!["sh", "-ec", "unshare --net sleep 60 & sleep 0.3; exec \"$@\"", "sh"];
    behind.extend(without);
    if !is_inside("without_capabilities_nothing_is_guessed", &behind) {
        return;
    }
    let listener = listener("127.0.0.1:3323");
    let host = probe();
    assert_eq!(found(&host), [(Service::Rtr, Role::Listener, listener.local_addr().unwrap())]);
    let protection = &host.sockets[0].protection;
    if host.kernel.tcp_md5 == Ability::Yes {
        assert_eq!(protection.unknown, ["its TCP-MD5 keys: seeing them needs CAP_NET_ADMIN"]);
    }
    assert_eq!(host.kernel.packet_queues, Ability::Unknown("testing it needs CAP_NET_ADMIN".to_owned()));
    let [unseen] = &host.unseen[..] else { panic!("{:?}", host.unseen) };
    assert!(unseen.contains("network namespace"), "{unseen}");
}

#[test]
fn more_md5_keys_than_a_datagram_holds_hide_no_socket() {
    if !is_inside("more_md5_keys_than_a_datagram_holds_hide_no_socket", &[]) {
        return;
    }
    let (first, second) = (listener("127.0.0.1:179"), listener("127.0.0.1:639"));
    set_md5(&second, &["192.0.2.1"]);
    let peers: Vec<String> = (0..400).map(|peer| format!("10.0.{}.{}", peer / 200, peer % 200)).collect();
    for (number, peer) in peers.iter().enumerate() {
        let secret = MasterKey::new(b"a secret").unwrap();
        // Linux before 6.7 gives a socket less memory by default, and not every kernel has TCP-MD5.
        if TcpAoSocket::new(&first).set_md5_key(network(peer), None, &secret).is_err() {
            println!("only {number} keys");
            break;
        }
    }
    let host = probe();
    let keys: Vec<_> = host.sockets.iter().map(|socket| socket.protection.tcp_md5.len()).collect();
    match host.kernel.tcp_md5 {
        Ability::No => assert_eq!(keys, [0, 0]),
        _ => assert!(keys[0] > 100 && keys[1] == 1, "{keys:?}"),
    }
    assert!(host.sockets.iter().all(|socket| socket.protection.unknown.is_empty()));
}
