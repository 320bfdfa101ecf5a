//! Listeners that do not require TCP-AO: who gets in without it.

use std::net::TcpListener;

use fastrand::Rng;
use proptest::prelude::*;

use super::*;

/// Whether Linux takes a SYN without TCP-AO from this address (`tcp_ao_required` in include/net/tcp.h): none of the socket's keys is for it.
fn lets_in_unsigned(kernel: &Kernel, address: &str) -> bool {
    let address: IpAddr = address.parse().unwrap();
    kernel.keys.iter().all(|key| !key.name.remote.contains(&address))
}

/// The manager's peers, and what a step needs of them.
fn apply(manager: &KeyManager, kernel: &mut Kernel, memories: &mut PeerTable<Memory>, now: i64) -> Outcome {
    let peers = Arc::clone(&manager.shared.state().peers);
    kernel.apply_all(&scope(&peers, now), memories).0
}

#[test]
fn a_peer_that_has_lost_its_keys_stays_out_of_a_mixed_listener_and_a_removed_one_gets_in() {
    let (manager, mut kernel, mut memories) =
        (KeyManager::default(), Kernel::new(Listener), PeerTable::new());
    let (one, other) = (peer("192.0.2.7"), peer("198.51.100.0/24"));
    manager.set_peer(one, one_key(1, None, 100)).unwrap();
    manager.set_peer(other, one_key(1, None, None)).unwrap();
    let mut step = |manager: &KeyManager, now| {
        assert!(apply(manager, &mut kernel, &mut memories, now).failed.is_empty());
        ["192.0.2.7", "198.51.100.9", "203.0.113.1"].map(|address| lets_in_unsigned(&kernel, address))
    };
    assert_eq!(step(&manager, 50), [false, false, true], "strangers get in");
    assert_eq!(step(&manager, 150), [false, false, true], "its chain has expired");
    manager.block_peer(other);
    assert_eq!(step(&manager, 150), [false, false, true], "it is blocked");
    manager.remove_peer(one).unwrap();
    assert_eq!(step(&manager, 150), [true, false, true], "it is a stranger now");
    manager.block_peer(one);
    assert_eq!(step(&manager, 151), [false, false, true], "it never had a key here");
    manager.set_peer(one, one_key(1, None, None)).unwrap();
    assert_eq!(step(&manager, 152), [false, false, true]);
}

/// Changes peers at random, and checks between any two calls to the kernel that those which were and stay peers are kept out.
fn change(seed: u64) {
    let (mut random, manager) = (Rng::with_seed(seed), KeyManager::default());
    let (mut kernel, mut memories) = (Kernel::new(Listener), PeerTable::new());
    let addresses = ["192.0.2.7", "192.0.2.8", "198.51.100.1"];
    let mut before: Vec<&str> = Vec::new();
    for _ in 0..12 {
        for address in addresses {
            match random.u8(0..5) {
                0 => manager.set_peer(peer(address), super::pair::any_chain(&mut random)).map(drop).unwrap(),
                1 => drop(manager.block_peer(peer(address))),
                2 => drop(manager.remove_peer(peer(address))),
                _ => {}
            }
        }
        let peers = Arc::clone(&manager.shared.state().peers);
        let now = random.i64(0..500);
        let kept_out: Vec<_> = before.iter().filter(|address| peers.contains_key(&peer(address))).collect();
        let (outcome, _) = kernel.apply_all_with(&scope(&peers, now), &mut memories, |kernel, call| {
            let called = kernel.call(call);
            assert!(kept_out.iter().all(|address| !lets_in_unsigned(kernel, address)), "after {call:?}");
            called
        });
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        for address in addresses {
            assert_eq!(lets_in_unsigned(&kernel, address), !peers.contains_key(&peer(address)), "{address}");
        }
        before = addresses.into_iter().filter(|address| peers.contains_key(&peer(address))).collect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_mixed_listener_lets_strangers_in_and_no_peer(seed: u64) {
        change(seed);
    }
}

#[test]
fn a_socket_that_cannot_be_attached_is_not_on_the_list() {
    let manager = manager([(peer("192.0.2.7"), one_key(1, None, None))]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    match manager.attach_mixed(&listener, at(0)) {
        Ok(_attachment) => {
            let twice = manager.attach_mixed(&listener, at(0));
            assert!(matches!(twice.map(drop), Err(Error::AlreadyAttached)));
            assert!(!crate::TcpAoSocket::new(&listener).info().unwrap().unwrap().required);
        }
        // A kernel without TCP-AO.
        Err(error) => {
            assert!(matches!(error, Error::NotSupported), "{error}");
            assert!(manager.shared.state().sockets.is_empty());
        }
    }
    // A pipe.
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(matches!(
        manager.attach_mixed(&reader, at(0)).map(drop),
        Err(Error::Io(_) | Error::NotATcpSocket)
    ));
}
