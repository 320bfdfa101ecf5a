//! The key manager on sockets.

use std::error::Error as _;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use wireseal_linux::key_chain::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_linux::{Error, KeyManager, TcpAoAlgorithm, TcpAoSocket};

use super::{has_tcp_ao, mkt, peer};

/// A moment, in seconds of the tests' own time.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(1_000_000_000 + seconds)
}

fn key(id: u8, algorithm: TcpAoAlgorithm, from: i64, until: i64) -> Key {
    let lifetime = Lifetime::new(Some(at(from)), Some(at(until))).unwrap();
    Key::new(id.into(), mkt(id, algorithm)).with_lifetimes(lifetime, lifetime).unwrap()
}

fn rolling() -> KeyChain {
    let keys = vec![key(1, TcpAoAlgorithm::HmacSha1, 0, 120), key(2, TcpAoAlgorithm::HmacSha1, 100, 220)];
    KeyChain::new("tested", keys).unwrap().with_accept_tolerance(20).unwrap()
}

fn manager(remote: &str) -> KeyManager {
    super::manager(remote, rolling())
}

#[test]
fn a_chain_with_an_algorithm_that_linux_lacks_is_refused() {
    let keys = || vec![key(1, TcpAoAlgorithm::HmacSha1, 0, 9), key(42, TcpAoAlgorithm::Kmac256_128, 0, 9)];
    let with_kmac = || KeyChain::new("tested", keys()).unwrap();
    let manager = manager("192.0.2.7");
    let error = manager.set_peer(peer("192.0.2.7"), with_kmac()).unwrap_err();
    assert!(matches!(error, Error::AlgorithmNotInLinux { key_id: Some(42), .. }));
    let message = error.to_string();
    assert!(message.starts_with("key 42: Linux has no ") && !message.contains('\n'), "{message}");
    assert_eq!(manager.step(at(50)).next_step, Some(at(80)), "the chain is the one before");
}

#[test]
fn a_network_of_mapped_addresses_is_the_ipv4_network() {
    for (remote, expected) in [("::ffff:192.0.2.0/120", "192.0.2.0/24"), ("2001:db8::/32", "2001:db8::/32")] {
        let shown = format!("{:?}", manager(remote));
        assert!(shown.contains(expected), "{shown}");
    }
}

#[test]
fn a_peer_that_is_given_twice_is_refused() {
    let twice = [("fe80::1", "fe80::1"), ("fe80::1%lo", "fe80::1%1"), ("192.0.2.7", "::ffff:192.0.2.7")];
    for (first, second) in twice {
        let manager = manager("198.51.100.1");
        let before = format!("{manager:?}");
        let peers = [first, second].map(|remote| (peer(remote), rolling()));
        let error = manager.set_peers(peers).unwrap_err();
        let twice = peer(first);
        assert!(matches!(error, Error::PeerTwice(named) if named == twice), "{error}");
        assert_eq!(format!("{manager:?}"), before);
    }
}

#[test]
fn a_step_without_sockets_says_when_the_chain_changes() {
    let manager = manager("192.0.2.7");
    for (now, next, expired) in
        [(-50, Some(-20), true), (50, Some(80), false), (230, Some(240), true), (240, None, true)]
    {
        let report = manager.step(at(now));
        assert_eq!((report.next_step, !report.expired.is_empty()), (next.map(at), expired), "at {now}");
        assert!(report.sockets.is_empty());
    }
}

#[test]
fn sockets_that_cannot_be_attached_are_refused() {
    let (manager, local) = (manager("127.0.0.1"), IpAddr::from([127, 0, 0, 1]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let unsigned = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let error = self::manager("192.0.2.7").attach(&unsigned, at(50)).unwrap_err();
    assert!(matches!(error, Error::NoPeer(address) if address == local), "{error}");

    let error = manager.attach(&unsigned, at(50)).unwrap_err();
    match error {
        Error::Unsigned => assert!(has_tcp_ao()),
        Error::NotSupported => assert!(!has_tcp_ao()),
        error => panic!("{error}"),
    }
    let error = manager.attach(&UdpSocket::bind("127.0.0.1:0").unwrap(), at(50)).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error}");

    let closed = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let error = manager.attach_connecting(&closed, local, at(-50)).unwrap_err();
    assert!(matches!(error, Error::NoKeyToSendWith { next_change: Some(_), .. }));
    assert_eq!(
        error.to_string(),
        "peer 127.0.0.1, key chain tested: no key is valid for sending now, so the socket was not attached; give it another \
         key, or try again at 2001-09-09T01:46:20Z"
    );
    let elsewhere: IpAddr = "::ffff:192.0.2.7".parse().unwrap();
    let error = manager.attach_connecting(&closed, elsewhere, at(50)).unwrap_err();
    assert!(matches!(error, Error::NoPeer(address) if address == elsewhere.to_canonical()), "{error}");
}

/// Linux keeps the data of such a connection, but forgets its peer's address.
#[test]
fn a_connection_that_was_reset_before_it_was_accepted_is_not_attached() {
    let (manager, local) = (manager("127.0.0.1"), IpAddr::from([127, 0, 0, 1]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let accepted = |urgent: &[u8]| {
        let mut caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        SockRef::from(&caller).send_out_of_band(urgent).unwrap();
        caller.write_all(b"unsigned").unwrap();
        SockRef::from(&caller).set_linger(Some(Duration::ZERO)).unwrap();
        drop(caller);
        let (accepted, remote) = listener.accept().unwrap();
        assert!(remote.ip() == local && accepted.peer_addr().is_err());
        accepted
    };
    for error in [
        manager.attach_accepted(&accepted(b""), local, at(50)).unwrap_err(),
        manager.attach(&accepted(b""), at(50)).unwrap_err(),
        manager.attach(&accepted(b"!"), at(50)).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Ended), "{error}");
    }
    for urgent in [&b""[..], b"!"] {
        let mut ended = accepted(urgent);
        assert!(TcpAoSocket::new(&ended).has_received().unwrap());
        let mut received = [0; 8];
        ended.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"unsigned", "what may not be taken for the peer's");
    }
    let fresh = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    assert!(!TcpAoSocket::new(&fresh).has_received().unwrap());
    assert!(!TcpAoSocket::new(&listener).has_received().unwrap());
}

#[test]
fn a_listener_follows_its_chain_where_the_kernel_has_tcp_ao() {
    let manager = manager("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let again = listener.try_clone().unwrap();
    let attachment = match manager.attach(&listener, at(50)) {
        Ok(attachment) => attachment,
        Err(error) => {
            assert!(!has_tcp_ao(), "{error}");
            assert!(matches!(error, Error::NotSupported), "{error}");
            assert!(error.source().is_none(), "the message has it already");
            return;
        }
    };
    assert!(has_tcp_ao());
    assert!(matches!(manager.attach(&again, at(50)), Err(Error::AlreadyAttached)));
    assert!(TcpAoSocket::new(&listener).info().unwrap().unwrap().required);
    for (now, on_it) in [(50, vec![1]), (100, vec![1, 2]), (150, vec![2]), (300, vec![255]), (150, vec![2])] {
        let report = manager.step(at(now));
        assert!(report.sockets[0].failed.is_empty());
        assert_eq!(report.sockets[0].attachment, attachment.number());
        let mut ids: Vec<u8> = attachment.keys().unwrap().iter().map(|key| key.name.send_id.0).collect();
        ids.sort_unstable();
        assert_eq!(ids, on_it, "at {now}");
    }
    drop(attachment);
    assert!(manager.step(at(150)).sockets.is_empty());
    assert_eq!(TcpAoSocket::new(&listener).keys().unwrap().len(), 1, "detaching leaves the keys");
}

#[test]
fn no_secret_is_in_what_is_printed() {
    let manager = manager("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let attached = manager.attach(&listener, at(50));
    let printed = format!("{manager:?} {attached:?} {:?}", manager.step(at(100)));
    assert!(!printed.contains("secret of many octets"), "{printed}");
}

#[tokio::test]
async fn the_background_task_ends_with_the_last_handle() {
    let mut other_handle = Some(manager("127.0.0.1"));
    let manager = other_handle.clone().unwrap();
    let steps = std::cell::Cell::new(0);
    manager
        .run_reporting(|report| {
            assert_eq!(report.expired.len(), 1, "the chain ended long ago");
            steps.set(steps.get() + 1);
            other_handle = None;
        })
        .await;
    assert_eq!(steps.get(), 1);
}
