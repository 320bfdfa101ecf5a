//! Choosing an ISN, as far as it shows without looking at the wire.

use std::net::{Ipv4Addr, TcpListener};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use wireseal_linux::{Error, choose_isn};
use wireseal_tcp_ao::Isn;

fn socket() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap()
}

/// Without CAP_NET_ADMIN there is nothing to be seen but the refusal.
fn is_allowed(result: Result<(), Error>) -> bool {
    match result {
        Ok(()) => true,
        Err(Error::NoPermission { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_socket_connects_afterwards_and_may_share_its_address_as_before() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for shares in [false, true] {
        let socket = socket();
        socket.set_reuse_address(shares).unwrap();
        if is_allowed(choose_isn(&socket, Isn(u32::MAX))) {
            assert_eq!(socket.reuse_address().unwrap(), shares);
            socket.connect(&SockAddr::from(listener.local_addr().unwrap())).unwrap();
        }
    }
}

#[test]
fn a_listener_has_no_isn_to_choose() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    assert!(matches!(choose_isn(&listener, Isn(1)), Err(Error::NoPermission { .. })));
}

#[test]
fn a_connection_has_begun_already() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let socket = socket();
    socket.connect(&SockAddr::from(listener.local_addr().unwrap())).unwrap();
    assert!(matches!(choose_isn(&socket, Isn(1)), Err(Error::NoPermission { .. })));
}
