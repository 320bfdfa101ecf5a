//! Calls on sockets of all kinds, and what the probe reports about the kernel.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use socket2::{Domain, Protocol, Socket, Type};
use wireseal_linux::{
    Error, KeyId, KeyName, NetworkCounters, SocketKey, Successor, Support, TcpAoAlgorithm, TcpAoSocket,
    choose_isn, probe,
};
use wireseal_tcp_ao::Isn;

use super::{has_tcp_ao, mkt};

fn socket(domain: Domain) -> Socket {
    Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).unwrap()
}

/// Checks that every call on a closed or listening socket either works or reports that the kernel has no TCP-AO.
fn answers<S: AsFd + ?Sized>(socket: &S) {
    let has_tcp_ao = has_tcp_ao();
    let expect = |what: &str, result: Result<(), Error>| match result {
        Ok(()) => assert!(has_tcp_ao, "{what} works on a kernel without TCP-AO"),
        Err(Error::NotSupported) => assert!(!has_tcp_ao, "{what} is not supported by a kernel with TCP-AO"),
        Err(error) => panic!("{what}: {error}"),
    };
    let view = TcpAoSocket::new(socket);
    let mkt = mkt(1, TcpAoAlgorithm::HmacSha1);
    let key = SocketKey::new("127.0.0.0/8".parse().unwrap(), &mkt);
    expect("adding a key", view.add_key(&key));
    expect("reading keys", view.keys().map(|keys| assert!(keys.len() == 1 && keys[0].is(&mkt))));
    expect("reading", view.info().map(|info| assert!(info.is_some())));
    expect("requiring", view.set_required(true));
    expect("ICMP", view.set_accept_icmps(true));
    let state = view.info().map(|info| {
        let info = info.expect("there is a key");
        assert!(info.required && info.accept_icmps, "{info:?}");
    });
    expect("what was set", state);
    expect("deleting the key", view.delete_key(&key.name(), Successor::default()));
}

#[test]
fn ao_40_sockets_of_std_and_socket2_are_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    answers(&listener);
    answers(&listener.as_fd());
    answers(&socket(Domain::IPV4));
    answers(&socket(Domain::IPV6));
}

#[tokio::test]
async fn ao_40_sockets_of_tokio_are_taken() {
    answers(&tokio::net::TcpSocket::new_v4().unwrap());
    answers(&tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
}

#[test]
fn setting_the_defaults_leaves_a_socket_without_tcp_ao() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = socket(Domain::IPV4);
    let view = TcpAoSocket::new(&socket);
    match view.set_required(false).and_then(|()| view.set_accept_icmps(false)) {
        Ok(()) => assert_eq!(view.info().unwrap(), None),
        Err(error) => assert!(matches!(error, Error::NotSupported) && !has_tcp_ao(), "{error}"),
    }
    socket.connect(&listener.local_addr().unwrap().into()).expect("an ordinary connection");
}

#[test]
fn ao_40_a_connection_without_tcp_ao_cannot_be_given_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mkt = mkt(1, TcpAoAlgorithm::HmacSha1);
    let view = TcpAoSocket::new(&stream);
    let added = view.add_key(&SocketKey::new("127.0.0.1".parse().unwrap(), &mkt));
    match has_tcp_ao() {
        true => assert!(matches!(added, Err(Error::Connected)), "{added:?}"),
        false => assert!(matches!(added, Err(Error::NotSupported)), "{added:?}"),
    }
    if let Ok(info) = view.info() {
        assert_eq!(info, None);
        assert_eq!(view.keys().unwrap().len(), 0);
    }
}

#[test]
fn ao_40_draft_algorithms_are_refused_before_any_call() {
    // This descriptor is not a socket, so only the algorithm can be refused.
    let file = File::open("/dev/null").unwrap();
    for algorithm in TcpAoAlgorithm::ALL {
        let mkt = mkt(1, algorithm);
        let added = TcpAoSocket::new(&file).add_key(&SocketKey::new("192.0.2.1".parse().unwrap(), &mkt));
        match algorithm.linux_name() {
            Some(_) => assert!(matches!(added, Err(Error::NotATcpSocket)), "{algorithm}: {added:?}"),
            None => {
                let is_named = matches!(added, Err(Error::AlgorithmNotInLinux { algorithm: named, .. }) if named == algorithm);
                assert!(is_named, "{added:?}");
            }
        }
    }
}

#[test]
fn ao_40_a_socket_that_is_not_tcp_is_named_so() {
    let unix = UnixStream::pair().unwrap().0;
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let file = File::open("/dev/null").unwrap();
    let mkt = mkt(1, TcpAoAlgorithm::HmacSha1);
    let key = SocketKey::new("127.0.0.1".parse().unwrap(), &mkt);
    for view in [TcpAoSocket::new(&unix), TcpAoSocket::new(&udp), TcpAoSocket::new(&file)] {
        let results = [
            view.add_key(&key),
            view.delete_key(&key.name(), Successor::default()),
            view.keys().map(drop),
            view.info().map(drop),
            view.set_current_key(KeyId(1)),
            view.set_required(true),
        ];
        for result in results {
            assert!(matches!(result, Err(Error::NotATcpSocket)), "{view:?}: {result:?}");
        }
    }
}

#[test]
fn networks_that_no_kernel_takes_are_refused_before_the_call() {
    let ipv4 = socket(Domain::IPV4);
    let ipv6 = socket(Domain::IPV6);
    let mkt = mkt(1, TcpAoAlgorithm::Aes128Cmac);
    let add = |socket: &Socket, remote: &str| {
        TcpAoSocket::new(socket).add_key(&SocketKey::new(remote.parse().unwrap(), &mkt)).unwrap_err()
    };
    for (socket, remote) in [(&ipv4, "2001:db8::/32"), (&ipv6, "0.0.0.0/0"), (&ipv4, "0.0.0.0/1")] {
        let error = add(socket, remote);
        assert!(matches!(error, Error::UnusableNetwork { .. }), "{error}");
    }
    let name = KeyName { remote: "::1".parse().unwrap(), vrf: None, send_id: KeyId(1), recv_id: KeyId(1) };
    let deleted = TcpAoSocket::new(&ipv4).delete_key(&name, Successor::default());
    assert!(matches!(deleted, Err(Error::UnusableNetwork { .. })), "{deleted:?}");
}

#[test]
fn a_socket_connects_afterwards_and_may_share_its_address_as_before() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for shares in [false, true] {
        let socket = socket(Domain::IPV4);
        socket.set_reuse_address(shares).unwrap();
        match choose_isn(&socket, Isn(u32::MAX)) {
            Ok(()) => {
                assert_eq!(socket.reuse_address().unwrap(), shares);
                socket.connect(&listener.local_addr().unwrap().into()).unwrap();
            }
            // Without CAP_NET_ADMIN there is nothing else to test.
            Err(Error::NoPermission { .. }) => assert!(!probe().unwrap().repair),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_listener_and_a_connection_have_no_isn_to_choose() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let connected = socket(Domain::IPV4);
    connected.connect(&listener.local_addr().unwrap().into()).unwrap();
    for result in [choose_isn(&listener, Isn(1)), choose_isn(&connected, Isn(1))] {
        assert!(matches!(result, Err(Error::NoPermission { .. })), "{result:?}");
    }
}

#[test]
fn ao_40_the_probe_says_what_this_kernel_has() {
    let support = probe().unwrap();
    assert!(support.kernel.contains('.'), "{support:?}");
    assert!(support.algorithms.iter().all(|algorithm| algorithm.linux_name().is_some()), "{support:?}");
    assert_eq!(support.tcp_ao, !support.algorithms.is_empty(), "{support:?}");
    assert_eq!(probe().unwrap(), support, "probing leaves nothing behind");
}

#[test]
fn ao_38_support_says_which_kernels_restore_connections() {
    let support = |tcp_ao, kernel: &str| {
        let kernel = kernel.to_owned();
        Support { tcp_ao, algorithms: Vec::new(), md5: true, repair: true, kernel }
    };
    assert!(support(true, "6.18.15").can_restore());
    assert!(!support(true, "6.12.48").can_restore());
    assert!(!support(false, "6.18.15").can_restore());
}

#[test]
fn this_machines_counters_are_read_or_it_has_none() {
    match NetworkCounters::read() {
        Ok(_) => {}
        Err(error) => assert!(!has_tcp_ao(), "{error}"),
    }
}

#[test]
fn a_connection_is_reset_whatever_other_descriptors_it_has() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut near, _) = listener.accept().unwrap();
    let mut other = near.try_clone().unwrap();
    far.write_all(b"not read").unwrap();
    near.read_exact(&mut [0]).unwrap();
    TcpAoSocket::new(&near).reset().unwrap();
    assert_eq!(near.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(far.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    // What was not read is gone.
    assert!(matches!(other.read(&mut [0; 9]), Ok(0) | Err(_)));
    assert!(other.write_all(b"late").is_err());
    // A listening socket is left alone.
    assert!(TcpAoSocket::new(&listener).reset().is_err());
    TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    listener.accept().unwrap();
}
