//! Two stacks that exchange Ethernet frames over Unix datagram sockets.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod common;

use std::time::Duration;

use ipnet::IpNet;
use router_peer::link::LinkDevice;
use router_peer::transport::unix::UnixTransport;
use router_peer::transport::{DEFAULT_IP_MTU, OpenError, frame_mtu};
use smoltcp::phy::Medium;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use common::{ADDRESSES_OF_A, ADDRESSES_OF_B, pattern, stack};

const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn octets_arrive_over_datagram_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let (path_a, path_b) = (directory.path().join("a"), directory.path().join("b"));
    let mtu = frame_mtu(Medium::Ethernet, DEFAULT_IP_MTU);
    let (device_a, port_a) = LinkDevice::new(Medium::Ethernet, mtu);
    let (device_b, port_b) = LinkDevice::new(Medium::Ethernet, mtu);
    let transports = (
        UnixTransport::open(port_a, mtu, &path_a, &path_b).unwrap(),
        UnixTransport::open(port_b, mtu, &path_b, &path_a).unwrap(),
    );
    let (a, b) = (stack(device_a, 1, ADDRESSES_OF_A), stack(device_b, 2, ADDRESSES_OF_B));
    let mut listener = b.listen(None, 179).unwrap();
    for net in ADDRESSES_OF_B {
        let remote = (net.parse::<IpNet>().unwrap().addr(), 179).into();
        let opened = timeout(PATIENCE, async { tokio::join!(a.connect(remote, None), listener.accept()) });
        let (near, far) = opened.await.unwrap();
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        let sent = pattern(200_000, 3);
        let mut received = vec![0; sent.len()];
        let both = async { tokio::join!(near.write_all(&sent), far.read_exact(&mut received)) };
        let (written, read) = timeout(PATIENCE, both).await.unwrap();
        written.unwrap();
        read.unwrap();
        assert!(received == sent);
    }
    drop(transports);
    assert!(!path_a.exists() && !path_b.exists());
}

#[tokio::test]
async fn a_path_in_use_is_refused_and_a_stale_socket_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let (local, peer) = (directory.path().join("local"), directory.path().join("peer"));
    let open = || UnixTransport::open(LinkDevice::new(Medium::Ethernet, 1514).1, 1514, &local, &peer);

    let living = open().unwrap();
    assert!(matches!(open(), Err(OpenError::PathInUse { .. })));
    drop(living);

    // A process that ended without cleaning up.
    drop(std::os::unix::net::UnixDatagram::bind(&local).unwrap());
    assert!(local.exists());
    drop(open().unwrap());

    std::fs::write(&local, "precious").unwrap();
    assert!(matches!(open(), Err(OpenError::PathInUse { .. })));
    assert_eq!(std::fs::read_to_string(&local).unwrap(), "precious");
}
