//! The kernel's list of sockets (sock_diag) agrees with a slow reader: each socket of a known service is reported once, with its TCP-MD5 peers.
//!
//! Input: a datagram.
#![no_main]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use wireseal_agent::fuzzing::listed_sockets;
use wireseal_agent::probe::{Role, Service};
use wireseal_fuzz::netlink::{Message, attributes, messages, u32_at};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const LISTEN: u8 = 10;
const ESTABLISHED: u8 = 1;
const INET_DIAG_MD5SIG: u16 = 18;
/// Octets of `struct inet_diag_msg` and `struct tcp_diag_md5sig`.
const SOCKET: usize = 72;
const KEY: usize = 100;

fuzz_target!(|datagram: &[u8]| {
    let result = listed_sockets(datagram);
    let (all, is_whole) = messages(datagram);
    let end = all.iter().position(|Message { kind, .. }| matches!(*kind, NLMSG_DONE | NLMSG_ERROR));
    let before = &all[..end.unwrap_or(all.len())];
    let described: Vec<_> = before.iter().filter(|message| message.kind == SOCK_DIAG_BY_FAMILY).collect();
    let code = end.and_then(|end| u32_at(all[end].payload, 0)).unwrap_or_default().cast_signed();
    let is_readable = |message: &&Message<'_>| {
        message.payload.len() >= SOCKET && matches!(message.payload[0], AF_INET | AF_INET6)
    };
    let (told, is_last) = match result {
        Ok(told) => told,
        Err(error) if error.kind() == io::ErrorKind::InvalidData && error.raw_os_error().is_none() => {
            return assert!(!described.iter().all(is_readable) || (end.is_none() && !is_whole));
        }
        Err(error) => return assert_eq!(error.raw_os_error(), Some(code.saturating_neg())),
    };
    assert_eq!((is_last, code.min(0)), (end.is_some(), 0));
    let expected: Vec<_> = described.iter().filter(|message| is_of_a_service(message.payload)).collect();
    assert_eq!(told.len(), expected.len());
    for ((service, role, local, device, inode, md5), message) in told.into_iter().zip(expected) {
        let octets = message.payload;
        let (own, other) = (port(octets, 4), port(octets, 6));
        assert_eq!((local.port(), local.ip()), (own, address(octets, 8)));
        assert_eq!((Some(device), Some(inode)), (u32_at(octets, 40), u32_at(octets, 68).map(u64::from)));
        match role {
            Role::Listener => assert!(octets[1] == LISTEN && service.ports().contains(&own)),
            Role::Session { peer, is_opener, is_established } => {
                assert_eq!((peer.port(), peer.ip()), (other, address(octets, 24)));
                assert_eq!(is_established, octets[1] == ESTABLISHED);
                assert_eq!(is_opener == Some(true), of(own).is_none());
                assert_eq!(Some(service), of(own).or(of(other)));
            }
        }
        let Some(md5) = md5 else { continue };
        let values = attributes(&octets[SOCKET..]);
        let keys: Vec<_> = values.into_iter().filter(|(kind, _)| *kind == INET_DIAG_MD5SIG).collect();
        assert_eq!(keys.iter().map(|(_, keys)| keys.len()).sum::<usize>(), md5.len() * KEY);
        let keys = keys.iter().flat_map(|(_, keys)| keys.chunks_exact(KEY));
        for (key, network) in keys.zip(md5) {
            assert_eq!((key[0] == AF_INET, key[1]), (network.is_ipv4(), network.network_length()));
            let ip: IpAddr = match key[0] {
                AF_INET => Ipv4Addr::from(*key[4..].first_chunk::<4>().expect("100 octets")).into(),
                _ => Ipv6Addr::from(*key[4..].first_chunk::<16>().expect("100 octets")).into(),
            };
            assert!(network.contains(&ip));
        }
    }
});

fn port(octets: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([octets[at], octets[at + 1]])
}

fn address(octets: &[u8], at: usize) -> IpAddr {
    let address = &octets[at..];
    match octets[0] {
        AF_INET => Ipv4Addr::from(*address.first_chunk::<4>().expect("72 octets")).into(),
        _ => IpAddr::from(Ipv6Addr::from(*address.first_chunk::<16>().expect("72 octets"))).to_canonical(),
    }
}

fn of(port: u16) -> Option<Service> {
    Service::ALL.into_iter().find(|service| service.ports().contains(&port))
}

fn is_of_a_service(octets: &[u8]) -> bool {
    of(port(octets, 4)).is_some() || octets[1] != LISTEN && of(port(octets, 6)).is_some()
}
