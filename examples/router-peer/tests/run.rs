//! Configurations run until they are told to stop.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::program::{Router, shipped, write_keys};
use router_peer::protection::now;

#[test]
fn the_shipped_configuration_runs_and_stops_in_order() {
    let directory = shipped();
    let mut router = Router::start(directory.path(), "memory.toml", &[]);
    // Both ends of both sessions say that they are up; the played end of the first has the routes of the file.
    let mut established = 0;
    let mut received = false;
    router.wait_for(|line| {
        established += usize::from(line.contains("session established"));
        received |= line.contains("east (played)") && line.contains("ipv4=2 ipv6=1");
        established == 4 && received
    });
    let log = router.stop();
    assert!(log.contains("AdministrativeShutdown"), "{log}");
    assert!(!log.contains("not protected"), "{log}");
    // Ids are swapped at the played end.
    assert!(
        log.contains("chain=\"edge\" preferred=10") && log.contains("chain=\"edge\" preferred=20"),
        "{log}"
    );
}

#[test]
fn two_processes_speak_over_unix_sockets() {
    let directory = shipped();
    let mut west = Router::start(directory.path(), "unix-west.toml", &[]);
    let mut east = Router::start(directory.path(), "unix-east.toml", &[]);
    west.wait_for(|line| line.contains("ipv4=2 ipv6=1"));
    east.wait_for(|line| line.contains("session established"));
    east.stop();
    west.wait_for(|line| line.contains("session over"));
    west.stop();
}

#[test]
fn a_peer_with_another_secret_gets_no_answer() {
    let (here, there) = (shipped(), shipped());
    let keys = std::fs::read_to_string(there.path().join("keys.toml")).unwrap();
    write_keys(there.path(), &keys.replace("the secret of", "another secret of"));
    let sockets = |directory: &std::path::Path, config: &str| {
        let text = std::fs::read_to_string(directory.join(config)).unwrap();
        let place = here.path().to_str().unwrap();
        let text = text.replace("-path = \"", &format!("-path = \"{place}/"));
        std::fs::write(directory.join(config), text).unwrap();
    };
    sockets(here.path(), "unix-west.toml");
    sockets(there.path(), "unix-east.toml");
    let mut west = Router::start(here.path(), "unix-west.toml", &["-v"]);
    let east = Router::start(there.path(), "unix-east.toml", &[]);
    west.wait_for(|line| line.contains("packet dropped") && line.contains("MAC does not verify"));
    for log in [east.stop(), west.stop()] {
        assert!(!log.contains("session established"), "{log}");
        assert!(!log.contains("secret of"), "{log}");
    }
}

#[test]
fn keys_roll_over_at_their_time_and_sessions_stay_up() {
    let directory = shipped();
    // After four seconds nobody accepts the first key any more.
    let change = now().later_by(3);
    let keys = std::fs::read_to_string(directory.path().join("keys.toml")).unwrap();
    let keys = keys.replace("2027-01-01T00:00:00Z", &change.to_string()).replace("86400", "1");
    write_keys(directory.path(), &keys);
    let config = std::fs::read_to_string(directory.path().join("memory.toml")).unwrap();
    std::fs::write(
        directory.path().join("memory.toml"),
        config.replace("next-hop-ipv6", "hold-time = 3\nnext-hop-ipv6"),
    )
    .unwrap();
    let mut router = Router::start(directory.path(), "memory.toml", &[]);
    let mut first = 0;
    router.wait_for(|line| {
        first += usize::from(line.contains("chain=\"core\" preferred=1"));
        first == 2
    });
    let mut alone = 0;
    router.wait_for(|line| {
        alone += usize::from(line.contains("chain=\"core\" preferred=2") && line.contains("acceptable=[2]"));
        alone == 2
    });
    // Longer than the hold time, so that only KEEPALIVEs under the new key keep the session up.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let log = router.stop();
    let (before, _) = log.split_once("stopping").unwrap();
    assert_eq!(before.matches("session established").count(), 4, "{log}");
    assert_eq!(before.matches("session over").count(), 0, "{log}");
}
