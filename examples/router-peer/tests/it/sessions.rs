//! Routers that speak with each other, over every transport that needs no privilege.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;

use router_peer::certificate;
use speaker::protection::now;
use tempfile::TempDir;
use wireseal_linux::probe;

use super::program::{Router, edit, run, shipped, write};

#[test]
fn neighbours_in_memory_speak_and_stop_in_order() {
    let directory = shipped();
    let mut router = Router::start(directory.path(), "memory.toml", &[]);
    // The played end of the first session has the routes of the file.
    router.wait_for(&["east (played)", "ipv4=2 ipv6=1"], 1);
    while router.said.matches("session established").count() < 4 {
        router.wait_for(&["session established"], 1);
    }
    let log = router.stop();
    assert!(log.contains("AdministrativeShutdown") && !log.contains("not protected"), "{log}");
    // Ids are swapped at the played end.
    assert!(["preferred=10", "preferred=20"].iter().all(|id| log.contains(id)), "{log}");
}

#[test]
fn two_processes_speak_over_unix_sockets() {
    let directory = shipped();
    let mut west = Router::start(directory.path(), "unix-west.toml", &[]);
    let mut east = Router::start(directory.path(), "unix-east.toml", &[]);
    west.wait_for(&["ipv4=2 ipv6=1"], 1);
    east.wait_for(&["session established"], 1);
    east.stop();
    west.wait_for(&["session over", "received Cease"], 1);
    west.stop();
}

#[test]
fn a_peer_with_another_secret_gets_no_answer() {
    let (here, there) = (shipped(), shipped());
    edit(there.path(), "keys.toml", "the secret of", "another secret of");
    let place = format!("-path = \"{}/", here.path().display());
    edit(here.path(), "unix-west.toml", "-path = \"", &place);
    edit(there.path(), "unix-east.toml", "-path = \"", &place);
    let mut west = Router::start(here.path(), "unix-west.toml", &["-v"]);
    let east = Router::start(there.path(), "unix-east.toml", &[]);
    west.wait_for(&["packet dropped", "MAC does not verify"], 1);
    for log in [east.stop(), west.stop()] {
        assert!(!log.contains("session established") && !log.contains("secret of"), "{log}");
    }
}

#[test]
fn keys_roll_over_at_their_time_and_sessions_stay_up() {
    let directory = shipped();
    // After four seconds neither end accepts the first key any more.
    let change = now().later_by(3).to_string();
    edit(directory.path(), "keys.toml", "2027-01-01T00:00:00Z", &change);
    edit(directory.path(), "keys.toml", "86400", "1");
    edit(directory.path(), "memory.toml", "next-hop-ipv6", "hold-time = 3\nnext-hop-ipv6");
    let mut router = Router::start(directory.path(), "memory.toml", &[]);
    router.wait_for(&["chain=\"core\" preferred=1"], 2);
    router.wait_for(&["chain=\"core\" preferred=2", "acceptable=[2]"], 2);
    // Longer than the hold time, so that only KEEPALIVEs under the new key keep the session up.
    std::thread::sleep(std::time::Duration::from_secs(4));
    let log = router.stop();
    let (before, _) = log.split_once("stopping").unwrap();
    assert_eq!(before.matches("session established").count(), 4, "{log}");
    assert_eq!(before.matches("session over").count(), 0, "{log}");
}

/// Two routers on kernel sockets over loopback, with these lines for the peer; the second has been called by the first, and
/// has had its routes.
fn speak_over_kernel(peer: &str) -> [String; 2] {
    let [east, west] = [(); 2].map(|()| shipped());
    let port = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port();
    for (directory, [own, other], more) in [
        (east.path(), ["127.0.0.1", "127.0.0.2"], "routes = \"routes.txt\"\n"),
        (west.path(), ["127.0.0.2", "127.0.0.1"], "passive = true\n"),
    ] {
        let text = fs::read_to_string(directory.join("kernel.toml")).unwrap();
        let (start, _) = text.split_once("as = 64513").unwrap();
        let config = start.replace("192.0.2.2", other).replace("192.0.2.1/24", "192.0.2.1/8");
        let config = config.replace("192.0.2.1", own).replace(other, other);
        let config =
            format!("{config}as = 64512\nport = {port}\nnext-hop-ipv6 = \"2001:db8::1\"\n{more}{peer}\n");
        write(directory, "peer.toml", &config, 0o644);
        write(directory, "old.md5", "old times", 0o600);
    }
    let mut west = Router::start(west.path(), "peer.toml", &[]);
    west.wait_for(&["peer{name="], 1);
    let mut east = Router::start(east.path(), "peer.toml", &[]);
    west.wait_for(&["ipv4=2 ipv6=1"], 1);
    east.wait_for(&["session established"], 1);
    let east = east.stop();
    west.wait_for(&["session over"], 1);
    [east, west.stop()]
}

/// What the kernel's TCP-AO does is for a laboratory; where this machine has it, two processes use it here too.
#[test]
fn two_processes_speak_over_kernel_sockets() {
    let support = probe().unwrap();
    for (has_it, peer, words) in [
        (true, "", "no key chain: this session is not protected"),
        (support.md5, "md5-secret-file = \"old.md5\"", "TCP-MD5 is weak"),
        (support.tcp_ao, "key-chain = \"core\"", "bad=0 key_not_found=0 required=0"),
    ] {
        if has_it {
            for log in speak_over_kernel(peer) {
                assert!(log.contains(words) && log.contains("Cease(AdministrativeShutdown)"), "{log}");
                assert!(!log.contains("old times"), "{log}");
            }
            continue;
        }
        let directory = shipped();
        write(directory.path(), "old.md5", "old times", 0o600);
        edit(directory.path(), "kernel.toml", "key-chain = \"core\"", peer);
        let output = run(directory.path(), &["--config", "kernel.toml"]);
        let said = String::from_utf8(output.stderr).unwrap();
        let (field, _) = peer.split_once(' ').unwrap();
        assert!(
            said.contains(&format!("router-peer: kernel.toml: peer[0].{field}: this kernel has no TCP-")),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn a_port_in_use_is_named() {
    let directory = shipped();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    edit(directory.path(), "kernel.toml", "192.0.2.1/24", "127.0.0.1/8");
    edit(directory.path(), "kernel.toml", "key-chain = \"core\"", &format!("passive = true\nport = {port}"));
    let output = run(directory.path(), &["--config", "kernel.toml"]);
    let line = format!(
        "router-peer: kernel.toml: peer[0].port: cannot open TCP socket 127.0.0.1:{port}: Address already in use (os error 98)"
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().last(), Some(line.as_str()));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_stranger_is_reset_by_kernel_sockets() {
    let directory = shipped();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    edit(directory.path(), "kernel.toml", "192.0.2.1/24", "127.0.0.1/8");
    edit(directory.path(), "kernel.toml", "192.0.2.2", "127.0.0.2");
    edit(directory.path(), "kernel.toml", "key-chain = \"core\"", &format!("passive = true\nport = {port}"));
    let mut router = Router::start(directory.path(), "kernel.toml", &[]);
    router.wait_for(&["not protected"], 1);
    // Called on 127.0.0.1, and that is where the call comes from too.
    let mut stream = loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            break stream;
        }
    };
    router.wait_for(&["not a configured peer"], 1);
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    router.stop();
}

/// The shipped configurations for QUIC, on a port that is free for the moment, and the second router.
fn quic(alter: impl FnOnce(&Path)) -> (TempDir, Router) {
    let directory = shipped();
    let port = UdpSocket::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port().to_string();
    for config in ["quic-east.toml", "quic-west.toml"] {
        edit(directory.path(), config, "17900", &port);
    }
    alter(directory.path());
    let mut west = Router::start(directory.path(), "quic-west.toml", &[]);
    west.wait_for(&["peers know this router by"], 1);
    (directory, west)
}

#[test]
fn two_processes_speak_over_quic_and_part_in_order() {
    let (directory, mut west) = quic(|_| ());
    let mut east = Router::start(directory.path(), "quic-east.toml", &[]);
    // What both offer, and east prefers.
    let protected = "suite=TLS_AES_128_GCM_SHA256 wireseal=true";
    east.wait_for(&["connecting to 127.0.0.2:"], 1);
    east.wait_for(&["connected, waiting for the peer's OPEN"], 1);
    east.wait_for(&["session established", protected], 1);
    west.wait_for(&["ipv4=2 ipv6=1"], 1);
    let is_protected = |line: &str| line.contains("session established") && line.contains(protected);
    assert!(west.said.lines().any(is_protected), "{}", west.said);
    east.stop();
    // It has arrived before the connection was closed.
    west.wait_for(&["session over", "received Cease(AdministrativeShutdown)"], 1);
    let log = west.stop();
    assert!(!log.contains("connection lost"), "{log}");
}

#[test]
fn a_peer_with_another_certificate_gets_no_session() {
    for stranger in ["east", "west"] {
        let (directory, mut west) = quic(|directory| {
            certificate::create(&directory.join("stranger"), stranger).unwrap();
            let pair =
                |place| format!("certificate = \"{place}/{stranger}.pem\"\nkey = \"{place}/{stranger}.key\"");
            edit(directory, &format!("quic-{stranger}.toml"), &pair("certificates"), &pair("stranger"));
        });
        let mut east = Router::start(directory.path(), "quic-east.toml", &[]);
        let verifies = "the peer's certificate is not the configured one";
        let is_shown = "the peer refused our certificate";
        let (in_east, in_west) = if stranger == "east" { (is_shown, verifies) } else { (verifies, is_shown) };
        west.wait_for(&["no connection", in_west], 1);
        east.wait_for(&["WARN", in_east], 1);
        let (seen, unseen) = if stranger == "east" { (&west, &east) } else { (&east, &west) };
        let line = seen.said.lines().find(|line| line.contains("expected=")).unwrap();
        assert!([verifies, "shown=", "peer{name="].iter().all(|word| line.contains(word)), "{line}");
        assert!(!unseen.said.contains("expected="), "{}", unseen.said);
        for log in [east.stop(), west.stop()] {
            for words in ["session established", "session over", "took leave"] {
                assert!(!log.contains(words), "{log}");
            }
        }
    }
}

#[test]
fn a_peer_that_dies_is_missed_after_the_hold_time_and_welcome_again() {
    let hold_time = "as = 64513\nhold-time = 3";
    let (directory, mut west) = quic(|directory| edit(directory, "quic-east.toml", "as = 64513", hold_time));
    let mut east = Router::start(directory.path(), "quic-east.toml", &[]);
    east.wait_for(&["session established"], 1);
    west.wait_for(&["ipv4=2 ipv6=1"], 1);
    // It is killed, and says nothing.
    drop(east);
    let east = Router::start(directory.path(), "quic-east.toml", &[]);
    west.wait_for(&["called; a session that is up has to end first"], 1);
    west.wait_for(&["session over", "sent HoldTimerExpired"], 1);
    west.wait_for(&["ipv4=2 ipv6=1"], 1);
    east.stop();
    west.stop();
}

#[test]
fn a_router_whose_peer_is_not_there_stops_without_complaint() {
    let (directory, west) = quic(|_| ());
    drop(west);
    let mut east = Router::start(directory.path(), "quic-east.toml", &[]);
    east.wait_for(&["connecting to 127.0.0.2:"], 1);
    let log = east.stop();
    assert!(!log.contains("took leave"), "{log}");
}
