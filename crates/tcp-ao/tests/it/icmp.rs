//! ICMP errors about a connection (RFC 5925 §7.8).

use crate::support::{
    ACK, Ends, Parts, SYN, ipv4_packet, ipv4_pair, ipv6_packet, ipv6_pair, mirrored, mkts, packet, view,
};
use wireseal_tcp_ao::{Connection, IcmpError, Isn, SocketPair};

const ROUTER: [u8; 4] = [198, 51, 100, 1];

/// The ICMP error that a router on the way sends back for a segment of `pair`'s local end, quoting `quoted` octets.
fn error(pair: SocketPair, kind: u8, code: u8, quoted: usize) -> Vec<u8> {
    let tcp = Parts::new(pair, ACK, 7, 8).payload(&[0x42; 100]).with_ao(12);
    let original = packet(pair, &tcp);
    let mut icmp = vec![kind, code, 0, 0, 0, 0, 0, 0];
    icmp.extend(&original[..quoted]);
    match pair.local.address() {
        std::net::IpAddr::V4(address) => ipv4_packet(ROUTER, address.octets(), 1, &icmp),
        std::net::IpAddr::V6(address) => ipv6_packet([0xfe; 16], address.octets(), 58, &icmp),
    }
}

#[test]
fn ao_34_hard_errors_are_those_of_rfc_5925() {
    for code in 0..16 {
        let icmp = IcmpError::parse(&error(ipv4_pair(), 3, code, 28)).unwrap();
        assert_eq!(icmp.is_hard(), (2..=4).contains(&code), "type 3 code {code}");
        assert_eq!((icmp.kind, icmp.code, icmp.pair), (3, code, ipv4_pair()));
        let icmp = IcmpError::parse(&error(ipv6_pair(), 1, code, 60)).unwrap();
        assert_eq!(icmp.is_hard(), code == 1 || code == 4, "ICMPv6 type 1 code {code}");
        assert_eq!((icmp.kind, icmp.code, icmp.pair), (1, code, ipv6_pair()));
    }
    for (pair, kind) in
        [(ipv4_pair(), 4), (ipv4_pair(), 11), (ipv4_pair(), 12), (ipv6_pair(), 2), (ipv6_pair(), 3)]
    {
        assert!(!IcmpError::parse(&error(pair, kind, 4, 60)).unwrap().is_hard(), "type {kind}");
    }
}

#[test]
fn ao_34_what_quotes_no_segment_is_no_error_about_one() {
    // Echo requests, and a quote that ends before both ports.
    assert_eq!(IcmpError::parse(&error(ipv4_pair(), 8, 0, 28)), None);
    assert_eq!(IcmpError::parse(&error(ipv6_pair(), 128, 0, 60)), None);
    assert_eq!(IcmpError::parse(&error(ipv4_pair(), 3, 3, 23)), None);
    assert_eq!(IcmpError::parse(&error(ipv6_pair(), 1, 4, 43)), None);
    assert!(IcmpError::parse(&error(ipv4_pair(), 3, 3, 24)).is_some());
    let udp = ipv4_packet([192, 0, 2, 1], [192, 0, 2, 2], 17, &[0; 8]);
    let icmp = ipv4_packet(ROUTER, [192, 0, 2, 1], 1, &[&[3, 3, 0, 0, 0, 0, 0, 0][..], &udp].concat());
    assert_eq!(IcmpError::parse(&icmp), None);
    // A later fragment has no ports where the first one has them.
    let mut fragment = error(ipv4_pair(), 3, 4, 28);
    fragment[28 + 6..28 + 8].copy_from_slice(&[0, 100]);
    assert_eq!(IcmpError::parse(&fragment), None);
    // The first fragment has.
    fragment[28 + 6..28 + 8].copy_from_slice(&[0x20, 0]);
    assert!(IcmpError::parse(&fragment).is_some());
}

#[test]
fn ao_34_synchronised_connections_ignore_hard_errors_and_count_them() {
    let mut ends = Ends::<1>::with_ids(&[(1, 2)]);
    let hard = IcmpError::parse(&error(ipv4_pair(), 3, 3, 28)).unwrap();
    let soft = IcmpError::parse(&error(ipv4_pair(), 3, 1, 28)).unwrap();
    assert!(ends.active.ignores_icmp(&hard) && ends.active.ignores_icmp(&hard));
    assert!(!ends.active.ignores_icmp(&soft));
    assert_eq!(ends.active.counters().dropped_icmp, 2);
    ends.exchange();
    assert_eq!(ends.active.counters().dropped_icmp, 2);
}

#[test]
fn ao_34_a_connection_not_yet_synchronised_hears_them() {
    let hard = IcmpError::parse(&error(ipv4_pair(), 3, 3, 28)).unwrap();
    let mut active = Connection::active(ipv4_pair(), Isn(1), &mkts::<1>(&[(1, 2)])).unwrap();
    assert!(!active.ignores_icmp(&hard));
    assert_eq!(active.counters().dropped_icmp, 0);
    let syn = Parts::new(ipv4_pair(), SYN, 1, 0).signed(&mut active);
    let listener = mirrored::<1>(&[(1, 2)]);
    let mut passive = Connection::passive(&listener.verify_syn(view(ipv4_pair(), &syn)).unwrap());
    let hard = IcmpError::parse(&error(ipv4_pair().reversed(), 3, 3, 28)).unwrap();
    assert!(!passive.ignores_icmp(&hard), "SYN-RECEIVED is no synchronised state (RFC 9293 §3.4.1)");
}
