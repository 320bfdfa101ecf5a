//! ICMP errors about connections of the shim (RFC 5925 §7.8).

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod shim_support;
mod support;

use std::net::IpAddr;

use shim_support::{CLIENT_ISN, Link, Packet, inbound, peer, slots, with_ports};
use support::{SYN, ipv4_packet, ipv4_pair, ipv6_packet, ipv6_pair, mkts};
use wireseal_tcp_ao::SocketPair;
use wireseal_tcp_ao::shim::{Refusal, Shim, ShimConfig};

/// An ICMP error from a router on the way that quotes the first `quoted` octets of a packet the local end sent.
fn icmp(pair: SocketPair, kind: u8, code: u8, sent: &[u8], quoted: usize) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    message.extend(&sent[..sent.len().min(quoted)]);
    match pair.local.address() {
        IpAddr::V4(local) => ipv4_packet([203, 0, 113, 1], local.octets(), 1, &message),
        IpAddr::V6(local) => ipv6_packet([0x20; 16], local.octets(), 58, &message),
    }
}

fn is_hard(pair: SocketPair, kind: u8, code: u8) -> bool {
    match pair.local.address() {
        IpAddr::V4(_) => kind == 3 && (2..=4).contains(&code),
        IpAddr::V6(_) => kind == 1 && (code == 1 || code == 4),
    }
}

#[test]
fn ao_34_hard_errors_about_synchronised_connections_are_ignored_and_counted() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut link = Link::connected(pair);
        let data = link.client_data(b"data that a router quotes");
        let sent = link.client_sends(&data).unwrap();
        let mut dropped = 0;
        for (kind, code) in (0..=255).flat_map(|kind| (0..=15).map(move |code| (kind, code))) {
            let error = icmp(pair, kind, code, &sent, usize::MAX);
            let verdict = inbound(&mut link.client, link.now, &error);
            if is_hard(pair, kind, code) {
                dropped += 1;
                assert_eq!(verdict, Err(Refusal::Icmp), "type {kind} code {code}");
            } else {
                assert_eq!(verdict, Ok(error), "type {kind} code {code}");
            }
        }
        assert_eq!(dropped, if pair.local.address().is_ipv4() { 3 } else { 2 });
        assert_eq!(link.client.counters().dropped_icmp, dropped);
        assert_eq!(link.client.connection(&pair).unwrap().counters().dropped_icmp, dropped);
    }
}

#[test]
fn ao_34_a_quote_of_the_ports_is_enough_and_less_names_no_connection() {
    for (pair, headers) in [(ipv4_pair(), 20), (ipv6_pair(), 40)] {
        let mut link = Link::connected(pair);
        let data = link.client_data(b"data");
        let sent = link.client_sends(&data).unwrap();
        let (kind, code) = if headers == 20 { (3, 3) } else { (1, 4) };
        for quoted in 0..sent.len() {
            let error = icmp(pair, kind, code, &sent, quoted);
            let is_dropped = inbound(&mut link.client, link.now, &error) == Err(Refusal::Icmp);
            assert_eq!(is_dropped, quoted >= headers + 4, "{quoted} octets quoted");
        }
    }
}

#[test]
fn ao_34_before_the_connection_is_synchronised_errors_pass() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut link = Link::with_ids(pair, &[(1, 2)]);
        let sent = link.client_sends(&Packet::new(pair, SYN, CLIENT_ISN, 0)).unwrap();
        let (kind, code) = if pair.local.address().is_ipv4() { (3, 3) } else { (1, 4) };
        let error = icmp(pair, kind, code, &sent, usize::MAX);
        assert_eq!(inbound(&mut link.client, link.now, &error), Ok(error.clone()));
        assert_eq!(link.client.counters().dropped_icmp, 0);
    }
}

#[test]
fn ao_34_errors_about_other_connections_and_other_protocols_pass() {
    let mut link = Link::connected(ipv4_pair());
    let other = Packet::new(with_ports(ipv4_pair(), 49_153, 179), SYN, 1, 0).build();
    let mut udp = Vec::new();
    let builder = etherparse::PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64).udp(49_152, 179);
    builder.write(&mut udp, b"datagram").unwrap();
    // What the peer sent, not what this end sent.
    let theirs = Packet::new(ipv4_pair().reversed(), SYN, 1, 0).build();
    for quoted in [other, udp, theirs] {
        let error = icmp(ipv4_pair(), 3, 3, &quoted, 28);
        assert_eq!(inbound(&mut link.client, link.now, &error), Ok(error.clone()));
    }
    assert_eq!(link.client.counters().dropped_icmp, 0);
}

#[test]
fn ao_34_a_switch_lets_hard_errors_through() {
    let config = ShimConfig { accept_icmp: true, ..ShimConfig::new(1500) };
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    link.client = Shim::new(config, vec![peer(ipv4_pair(), mkts(&[(1, 2)]))], slots(2)).unwrap();
    link.connect(ipv4_pair());
    let data = link.client_data(b"data");
    let sent = link.client_sends(&data).unwrap();
    let error = icmp(ipv4_pair(), 3, 3, &sent, 28);
    assert_eq!(inbound(&mut link.client, link.now, &error), Ok(error.clone()));
    assert_eq!(link.client.counters().dropped_icmp, 0);
}
