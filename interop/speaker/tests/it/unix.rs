//! Two stacks that exchange Ethernet frames over Unix datagram sockets.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use speaker::link::{DEFAULT_IP_MTU, unix};
use tokio::time::sleep;

use super::stack::{connect, second, stack, transfer};

#[tokio::test(flavor = "multi_thread")]
async fn octets_arrive_over_datagram_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let [path_a, path_b] = ["a", "b"].map(|name| directory.path().join(name));
    let link = |local, peer| unix::open(DEFAULT_IP_MTU, local, peer).unwrap();
    let (a, b) = (stack(link(&path_a, &path_b), 1), stack(link(&path_b, &path_a), 2));
    for remote in second() {
        let (mut near, mut far) = connect(&a, &b, remote).await;
        transfer(&mut near, &mut far, 200_000).await;
    }
    drop((a, b));
    while path_a.exists() || path_b.exists() {
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_path_in_use_is_refused_and_a_stale_socket_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let [local, peer] = ["local", "peer"].map(|name| directory.path().join(name));
    let open = || unix::open(DEFAULT_IP_MTU, &local, &peer);
    let in_use = format!("{}: already in use", local.display());

    let living = open().unwrap();
    assert_eq!(format!("{:#}", open().unwrap_err()), in_use);
    drop(living);

    // A process that ended without cleaning up.
    drop(UnixDatagram::bind(&local).unwrap());
    assert!(local.exists());
    drop(open().unwrap());

    fs::write(&local, "precious").unwrap();
    assert_eq!(format!("{:#}", open().unwrap_err()), in_use);
    assert_eq!(fs::read_to_string(&local).unwrap(), "precious");
}
