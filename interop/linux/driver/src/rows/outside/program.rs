//! Programs that fork for each connection, and that connect from many threads.

use agent::Counted;

use super::daemon::{FOLDER, LISTENING, start as start_wireseal, write};
use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::bgp::{FIRST, SECRET, evidence, key_chain, key_file};
use crate::wait::Program;

/// Threads, and the connections that each opens one after the other.
const THREADS: usize = 16;
const CONNECTIONS: usize = 5;

/// A child for each connection sends back what it receives.
const SERVER: &str = "
import os, signal, socket, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for family, address in (socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::'):
    l = socket.socket(family)
    l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6: l.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    l.bind((address, 179))
    l.listen(100)
    if family == socket.AF_INET and os.fork() == 0: break
while True:
    s, _ = l.accept()
    if os.fork() == 0:
        while True:
            octets = s.recv(1 << 16)
            if not octets: os._exit(0)
            s.sendall(octets)
    s.close()
";

/// Half of the threads block in `connect`, the others in `poll`.
const CLIENT: &str = "
import errno, select, socket, sys, threading
done = []
def connect(number):
    family, address = ((socket.AF_INET, sys.argv[1]), (socket.AF_INET6, sys.argv[2]))[number // 2 % 2]
    s = socket.socket(family)
    if number % 2:
        s.connect((address, 179))
    else:
        s.setblocking(False)
        s.connect_ex((address, 179))
        select.select([], [s], [])
        assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        s.setblocking(True)
    try: s.getsockopt(socket.IPPROTO_TCP, 41, 256)
    except OSError as error: assert error.errno == errno.ENOPROTOOPT, 'the keys can be read'
    else: raise AssertionError('the keys can be read')
    data = bytes([number]) * 20000
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
    got = b''
    while part := s.recv(1 << 16): got += part
    assert got == data
    done.append(number)
def run(number):
    for _ in range(int(sys.argv[4])): connect(number)
threads = [threading.Thread(target=run, args=(n,)) for n in range(int(sys.argv[3]))]
for t in threads: t.start()
for t in threads: t.join()
print('connections:', len(done), flush=True)
";

/// Sends back what it receives at a port that is not protected.
const ECHO: &str = "
import socket
l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(('', 8080))
l.listen()
while True:
    s, _ = l.accept()
    while octets := s.recv(100): s.sendall(octets)
";

/// Holds a session from a protected port to another for three seconds, and listens with TCP-MD5 for one that is no peer.
const BESIDE: &str = "
import errno, socket, sys, time
def at_179():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(('', 179))
    return s
s = at_179()
s.connect((sys.argv[1], 8080))
for _ in range(12):
    s.sendall(b'x')
    assert s.recv(1) == b'x'
    time.sleep(0.25)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\\1\\0\\0\\0\\0\\0\\0\\0')
s.close()
l = at_179()
def md5(address):
    octets = (b'\\2\\0\\0\\0' + socket.inet_aton(address)).ljust(128, b'\\0') + b'\\0\\0\\6\\0' + b'\\0' * 4 + b'secret'.ljust(80, b'\\0')
    try: l.setsockopt(socket.IPPROTO_TCP, 14, octets)
    except OSError as error: return errno.errorcode[error.errno]
    return 'OK'
said = [md5(address) for address in sys.argv[1:3]]
l.listen()
print('beside:', *said, *[md5(address) for address in sys.argv[1:3]], flush=True)
";

pub fn row() -> Row {
    Row::new(
        "run-threads-and-forks",
        format!(
            "wireseal run at both ends of a program that connects from {THREADS} threads at once; {CONNECTIONS} times from each, over IPv4 and IPv6, \
             and one that forks for each connection and sends back what it gets; then a session from port 179 to another port of the peer is left \
             alone, TCP-MD5 is refused for the peer and not for others, and a supervisor under a supervisor says that one is enough"
        ),
        run,
        "the client has no key for the server: its connections are refused",
        twin,
    )
}

async fn start<'a>(
    guest: &'a Guest,
    program: &str,
    keys: &str,
    peer: Port,
    arguments: &str,
) -> Result<Program<'a>> {
    write(guest, "program.py", program).await?;
    write(guest, "keys.toml", keys).await?;
    let peers = Family::ALL.map(|family| format!("--peer {} ", peer.address(family))).concat();
    let command = format!("run --keys {FOLDER}/keys.toml {peers} -- python3 {FOLDER}/program.py {arguments}");
    guest.set_clock(FIRST).await?;
    start_wireseal(guest, "run", &command).await
}

/// The key chain with its ids the other way round.
pub(super) fn mirrored(keys: &str) -> String {
    keys.replace("send-id", "own-id").replace("recv-id", "send-id").replace("own-id", "recv-id")
}

fn client_arguments() -> String {
    let at = |family| Port::East.address(family).to_string();
    format!("{} {} {THREADS} {CONNECTIONS}", at(Family::Ipv4), at(Family::Ipv6))
}

async fn run(lab: &Lab) -> Result<Evidence> {
    let (south, east) = (lab.south().await?, lab.east().await?);
    let (_, keys) = key_chain(SECRET)?;
    let before = Both::of(south, east).await?;
    let server = start(east, SERVER, &mirrored(&key_file(SECRET)), Port::South, "").await?;
    server.await_log(LISTENING, 2).await?;
    let client = start(south, CLIENT, &key_file(SECRET), Port::East, &client_arguments()).await?;
    client.await_log(&format!("connections: {}", THREADS * CONNECTIONS), 1).await?;
    client.await_end().await?;
    let counted = before.good().await?;
    east.shell("pkill python3").await?;
    server.await_end().await?;
    let counters = [("client's kernel", counted[0]), ("server's kernel", counted[1])];
    let evidence = evidence(lab, &keys[..1], &counters, 0.0)?;
    beside(south, east).await?;
    Ok(evidence.with_figures(format!("{} connections, 20,000 octets each way", THREADS * CONNECTIONS)))
}

/// Checks what `wireseal run` leaves alone beside the peer's sessions, and what it refuses.
async fn beside(south: &Guest, east: &Guest) -> Result<()> {
    write(east, "echo.py", ECHO).await?;
    let echo = Program::start(east, "echo", &format!("python3 {FOLDER}/echo.py")).await?;
    let is_up = async || Ok(east.shell("ss -tln | grep -q :8080").await.is_ok());
    echo.wait("the echo", is_up).await?;
    let arguments = format!("{} {}", Port::East.ipv4(), Port::North.ipv4());
    let supervised = start(south, BESIDE, &key_file(SECRET), Port::East, &arguments).await?;
    supervised.await_end().await?;
    let log = supervised.log().await?;
    ensure!(log.contains("beside: ENOPROTOOPT OK ENOPROTOOPT OK"), "beside the peer's sessions: {log}");
    // The reset may have ended it.
    east.shell("pkill python3; true").await?;
    let one = format!("wireseal run --keys {FOLDER}/keys.toml --peer {} --", Port::East.ipv4());
    let said = south.shell(&format!("{one} {one} true 2>&1; echo it returned $?")).await?;
    ensure!(
        said.contains("one is enough") && said.contains("it returned 2"),
        "a supervisor in another: {said}"
    );
    Ok(())
}

async fn twin(lab: &Lab) -> Result<Refusal> {
    let (south, east) = (lab.south().await?, lab.east().await?);
    let before = east.counters().await?;
    let server = start(east, SERVER, &mirrored(&key_file(SECRET)), Port::South, "").await?;
    server.await_log(LISTENING, 2).await?;
    // It has another peer configured, so it connects unsigned.
    let client = start(south, CLIENT, &key_file(SECRET), Port::North, &client_arguments()).await?;
    let counted = east.await_counted(&before, Counted::required(1)).await?;
    let log = client.log().await?;
    for guest in [south, east] {
        guest.shell("pkill -9 python3").await?;
    }
    client.await_end().await?;
    server.await_end().await?;
    ensure!(!log.contains("connections:"), "the client was served: {log}");
    Ok(Refusal::by("east", &counted))
}
