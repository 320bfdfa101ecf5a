//! Two stacks that exchange Ethernet frames over Unix datagram sockets.

use std::fs;
use std::os::unix::net::UnixDatagram;

use smoltcp::phy::Medium;
use speaker::link::{DEFAULT_IP_MTU, Link, unix};

use super::stack::{connect, second, stack, transfer};

#[tokio::test(flavor = "multi_thread")]
async fn octets_arrive_over_datagram_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let [path_a, path_b] = ["a", "b"].map(|name| directory.path().join(name));
    let [link_a, link_b] = [(); 2].map(|()| Link::new(Medium::Ethernet, DEFAULT_IP_MTU));
    let cables = (
        unix::open(link_a.clone(), &path_a, &path_b).unwrap(),
        unix::open(link_b.clone(), &path_b, &path_a).unwrap(),
    );
    let (a, b) = (stack(link_a, 1), stack(link_b, 2));
    for remote in second() {
        let (mut near, mut far) = connect(&a, &b, remote).await;
        transfer(&mut near, &mut far, 200_000).await;
    }
    drop(cables);
    assert!(!path_a.exists() && !path_b.exists());
}

#[tokio::test]
async fn a_path_in_use_is_refused_and_a_stale_socket_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let [local, peer] = ["local", "peer"].map(|name| directory.path().join(name));
    let open = || unix::open(Link::new(Medium::Ethernet, DEFAULT_IP_MTU), &local, &peer);
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
