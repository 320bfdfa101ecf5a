//! Routers that talk to each other, over every transport that needs no privilege.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use router_peer::tls::create_certificate;
use wireseal_keys::Timestamp;
use wireseal_linux::probe;

use super::program::{Place, Router, last_words};

#[test]
fn neighbours_in_memory_talk_and_stop_in_order() {
    let mut router = Place::shipped().start("memory.toml", &[]);
    // The played end of the first session has the routes of the file.
    router.wait_for(&["east (played)", "ipv4=2 ipv6=1"]);
    while router.said.matches("session established").count() < 4 {
        router.wait_for(&["session established"]);
    }
    let log = router.stop();
    assert!(log.contains("AdministrativeShutdown") && !log.contains("not protected"), "{log}");
    // Ids are swapped at the played end.
    assert!(["preferred=10", "preferred=20"].iter().all(|id| log.contains(id)), "{log}");
}

#[test]
fn keys_roll_over_on_time_and_sessions_stay_up() {
    let place = Place::shipped();
    // After four seconds neither end accepts the first key any more.
    place.edit("keys.toml", "2027-01-01T00:00:00Z", &Timestamp::now().later_by(3).to_string());
    place.edit("keys.toml", "86400", "1");
    place.edit("memory.toml", "next-hop-ipv6", "hold-time = 3\nnext-hop-ipv6");
    let mut router = place.start("memory.toml", &[]);
    let first = ["chain=\"core\" preferred=1"];
    let second = ["chain=\"core\" preferred=2", "acceptable=[2]"];
    for words in [&first[..], &first, &second, &second] {
        router.wait_for(words);
    }
    // Longer than the hold time, so that only KEEPALIVEs under the new key keep the session up.
    sleep(Duration::from_secs(4));
    let log = router.stop();
    let (before, _) = log.split_once("stopping").unwrap();
    assert_eq!(before.matches("session established").count(), 4, "{log}");
    assert_eq!(before.matches("session over").count(), 0, "{log}");
}

/// A port that is currently free on loopback.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().port()
}

/// Runs two routers with kernel sockets on loopback and these lines for their peer, until the second has the routes of the
/// first. Returns their logs.
fn talk_over_kernel(protection: &str) -> [String; 2] {
    let port = free_port();
    let place = |own: &str, other: &str, more: &str| {
        let place = Place::shipped();
        place.edit("kernel.toml", "192.0.2.1/24", &format!("{own}/8"));
        place.edit("kernel.toml", "192.0.2.1", own);
        place.edit("kernel.toml", "192.0.2.2", other);
        place.edit("kernel.toml", "64513", &format!("64512\nport = {port}"));
        place.edit("kernel.toml", "key-chain = \"core\"", protection);
        place.edit("kernel.toml", "routes = \"routes.txt\"", more);
        place.write("old.md5", "old times");
        place
    };
    let mut west = place("127.0.0.2", "127.0.0.1", "passive = true").start("kernel.toml", &[]);
    west.wait_for(&["peer{name="]);
    let mut east = place("127.0.0.1", "127.0.0.2", "routes = \"routes.txt\"").start("kernel.toml", &[]);
    west.wait_for(&["ipv4=2 ipv6=1"]);
    east.wait_for(&["session established"]);
    let east = east.stop();
    west.wait_for(&["session over"]);
    [east, west.stop()]
}

/// What this machine's kernel does not support must give an error.
#[test]
fn two_processes_talk_over_kernel_sockets() {
    let support = probe().unwrap();
    for (is_supported, protection, words) in [
        (true, "", "no key chain: this session is not protected"),
        (support.md5, "md5-secret-file = \"old.md5\"", "TCP-MD5 is weak"),
        (support.tcp_ao, "key-chain = \"core\"", "bad=0 key_not_found=0 required=0"),
    ] {
        if is_supported {
            for log in talk_over_kernel(protection) {
                assert!(log.contains(words) && log.contains("Cease(AdministrativeShutdown)"), "{log}");
                assert!(!log.contains("old times"), "{log}");
            }
            continue;
        }
        let place = Place::shipped();
        place.write("old.md5", "old times");
        place.edit("kernel.toml", "key-chain = \"core\"", protection);
        let (line, code) = last_words(place.run(&["--config", "kernel.toml"]));
        let (field, _) = protection.split_once(' ').unwrap();
        let start = format!("router-peer: kernel.toml: peer[0].{field}: this kernel has no TCP-");
        assert!(line.starts_with(&start), "{line}");
        assert_eq!(code, Some(2));
    }
}

/// An unprotected router with kernel sockets on 127.0.0.1, which waits for its peer on this port.
fn passive_on_loopback(port: u16) -> Place {
    let place = Place::shipped();
    place.edit("kernel.toml", "192.0.2.1/24", "127.0.0.1/8");
    place.edit("kernel.toml", "192.0.2.2", "127.0.0.2");
    place.edit("kernel.toml", "key-chain = \"core\"", &format!("passive = true\nport = {port}"));
    place
}

#[test]
fn a_port_in_use_is_named() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let line = format!(
        "router-peer: kernel.toml: peer[0].port: cannot open TCP socket 127.0.0.1:{port}: Address already in use (os error 98)"
    );
    assert_eq!(last_words(passive_on_loopback(port).run(&["--config", "kernel.toml"])), (line, Some(2)));
}

#[test]
fn a_stranger_is_reset_by_kernel_sockets() {
    let port = free_port();
    let mut router = passive_on_loopback(port).start("kernel.toml", &[]);
    router.wait_for(&["not protected"]);
    // The call comes from 127.0.0.1, too, which is not the peer.
    let mut stream = loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            break stream;
        }
    };
    router.wait_for(&["not a configured peer"]);
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    router.stop();
}

/// The shipped configurations for QUIC on a free port, changed, and a running west.
fn quic(change: impl FnOnce(&Place)) -> (Place, Router) {
    let place = Place::shipped();
    let port = free_port().to_string();
    for config in ["quic-east.toml", "quic-west.toml"] {
        place.edit(config, "17900", &port);
    }
    change(&place);
    let mut west = place.start("quic-west.toml", &[]);
    west.wait_for(&["peers know this router by"]);
    (place, west)
}

#[test]
fn two_processes_talk_over_quic_and_part_in_order() {
    let (place, mut west) = quic(|_| ());
    let mut east = place.start("quic-east.toml", &[]);
    // Both offer this suite, and east prefers it.
    let protected = "suite=TLS_AES_128_GCM_SHA256 wireseal=true";
    east.wait_for(&["connecting to 127.0.0.2:"]);
    east.wait_for(&["connected, waiting for the peer's OPEN"]);
    east.wait_for(&["session established", protected]);
    west.wait_for(&["session established", protected]);
    west.wait_for(&["ipv4=2 ipv6=1"]);
    east.stop();
    // The NOTIFICATION arrives before the connection is closed.
    west.wait_for(&["session over", "received Cease(AdministrativeShutdown)"]);
    let log = west.stop();
    assert!(!log.contains("connection lost"), "{log}");
}

#[test]
fn a_peer_with_another_certificate_gets_no_session() {
    let verifies = "the peer's certificate is not the configured one";
    let is_refused = "the peer refused our certificate";
    for (stranger, in_east, in_west) in [("east", is_refused, verifies), ("west", verifies, is_refused)] {
        let (place, mut west) = quic(|place| {
            create_certificate(&place.0.path().join("stranger"), stranger).unwrap();
            let pair =
                |from| format!("certificate = \"{from}/{stranger}.pem\"\nkey = \"{from}/{stranger}.key\"");
            place.edit(&format!("quic-{stranger}.toml"), &pair("certificates"), &pair("stranger"));
        });
        let mut east = place.start("quic-east.toml", &[]);
        west.wait_for(&["no connection", in_west]);
        east.wait_for(&["WARN", in_east]);
        for (router, words) in [(&east, in_east), (&west, in_west)] {
            let line = router.said.lines().find(|line| line.contains("expected="));
            assert_eq!(line.is_some(), words == verifies, "{}", router.said);
            let is_whole =
                |line: &str| [verifies, "shown=", "peer{name="].iter().all(|word| line.contains(word));
            assert!(line.is_none_or(is_whole), "{line:?}");
        }
        for log in [east.stop(), west.stop()] {
            for words in ["session established", "session over", "took leave"] {
                assert!(!log.contains(words), "{log}");
            }
        }
    }
}

#[test]
fn a_peer_that_dies_is_missed_after_the_hold_time_and_welcome_again() {
    let (place, mut west) =
        quic(|place| place.edit("quic-east.toml", "as = 64513", "as = 64513\nhold-time = 3"));
    let mut east = place.start("quic-east.toml", &[]);
    east.wait_for(&["session established"]);
    west.wait_for(&["ipv4=2 ipv6=1"]);
    // Killed, so that it sends nothing more.
    drop(east);
    let east = place.start("quic-east.toml", &[]);
    west.wait_for(&["called; a session that is up has to end first"]);
    west.wait_for(&["session over", "sent HoldTimerExpired"]);
    west.wait_for(&["ipv4=2 ipv6=1"]);
    east.stop();
    west.stop();
}

#[test]
fn a_router_without_its_peer_stops_without_complaint() {
    let (place, west) = quic(|_| ());
    drop(west);
    let mut east = place.start("quic-east.toml", &[]);
    east.wait_for(&["connecting to 127.0.0.2:"]);
    let log = east.stop();
    assert!(!log.contains("took leave"), "{log}");
}
