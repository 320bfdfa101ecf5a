//! Choosing an ISN: what shows without looking at the wire.

use std::net::{Ipv4Addr, TcpListener};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use wireseal_linux::{Error, choose_isn, probe};
use wireseal_tcp_ao::Isn;

fn socket() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap()
}

#[test]
fn a_socket_connects_afterwards_and_may_share_its_address_as_before() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for shares in [false, true] {
        let socket = socket();
        socket.set_reuse_address(shares).unwrap();
        match choose_isn(&socket, Isn(u32::MAX)) {
            Ok(()) => {
                assert_eq!(socket.reuse_address().unwrap(), shares);
                socket.connect(&SockAddr::from(listener.local_addr().unwrap())).unwrap();
            }
            // Without CAP_NET_ADMIN there is nothing else to see.
            Err(Error::NoPermission { .. }) => assert!(!probe().unwrap().repair),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_listener_and_a_connection_have_no_isn_to_choose() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let connected = socket();
    connected.connect(&SockAddr::from(listener.local_addr().unwrap())).unwrap();
    for result in [choose_isn(&listener, Isn(1)), choose_isn(&connected, Isn(1))] {
        assert!(matches!(result, Err(Error::NoPermission { .. })), "{result:?}");
    }
}
