//! A configuration runs until it is told to stop.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn the_shipped_configuration_runs_and_stops_in_order() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/memory.toml");
    let mut router = Command::new(env!("CARGO_BIN_EXE_router-peer"))
        .arg("--config")
        .arg(config)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(router.stderr.take().unwrap());
    // Both ends of both sessions say that they are up; the played end of the first has the routes of the file.
    let mut established = 0;
    let mut received = false;
    let mut line = String::new();
    while established < 4 || !received {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "the router stopped by itself");
        established += usize::from(line.contains("session established"));
        received |= line.contains("east (played)") && line.contains("ipv4=2 ipv6=1");
    }
    let terminated = Command::new("kill").arg(router.id().to_string()).status().unwrap();
    assert!(terminated.success());
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("AdministrativeShutdown"), "{rest}");
    assert_eq!(router.wait().unwrap().code(), Some(0));
}
