//! Segments with the option fit what they go through: the own link, the peer's, and what is between.

use crate::net::{Net, Side};
use crate::{IPV4, first, pairs};

#[test]
fn full_segments_fit_whatever_the_mtu() {
    for mtu in [1280, 9000] {
        let net = Net::new(mtu);
        let gateways = Side::BOTH.map(|side| net.gateway(side, &first(), &[]));
        for (at, address, from) in pairs() {
            net.transfer(at, &address, from, 4 << 20);
        }
        for gateway in gateways {
            let log = gateway.end();
            assert!(!log.contains("WARN"), "{log}");
        }
    }
}

#[test]
fn a_peer_with_a_larger_mtu_gets_no_segment_that_does_not_fit_the_own_link() {
    let net = Net::new(1500);
    net.run(Side::B, "ip link set wire mtu 9000");
    let _gateways = Side::BOTH.map(|side| net.gateway(side, &first(), &[]));
    for (at, address, from) in pairs() {
        net.transfer(at, &address, from, 1 << 20);
    }
}

#[test]
fn a_routers_packet_too_big_is_heeded_if_wanted() {
    let net = Net::routed(1500, 1300);
    let _gateways = Side::BOTH.map(|side| net.gateway(side, &first(), &["--accept-icmp"]));
    for (at, address, from) in net.far_pairs() {
        net.transfer(at, &address, from, 1 << 20);
        let route = net.run(from, &format!("ip route get {address}"));
        assert!(route.contains("mtu 1280"), "with room for the option: {route}");
    }
}

#[test]
fn past_a_noted_path_mtu_packets_go_where_their_source_and_mark_lead() {
    let net = Net::routed(1500, 1300);
    // Nobody is where the main table leads.
    for line in [
        "ip rule add from 198.51.1.2 fwmark 7 lookup 100; ip -6 rule add from 2001:db8:1::2 fwmark 7 lookup 100",
        "ip route add default via 198.51.1.1 table 100; ip -6 route add default via 2001:db8:1::1 table 100",
        "ip route replace default via 198.51.1.9; ip -6 route replace default via 2001:db8:1::9",
        "for program in iptables ip6tables; do $program -t mangle -A OUTPUT -p tcp -j MARK --set-mark 7; done",
    ] {
        net.run(Side::A, line);
    }
    let gateways = Side::BOTH.map(|side| net.gateway(side, &first(), &["--accept-icmp"]));
    for (at, address, from) in net.far_pairs() {
        net.transfer(at, &address, from, 1 << 20);
        let route = net.run(from, &format!("ip route get {address} mark 7"));
        assert!(route.contains("mtu 1280"), "there was one: {route}");
    }
    for gateway in gateways {
        let log = gateway.end();
        assert!(!log.contains("WARN"), "{log}");
    }
}

#[test]
fn without_ipv6_in_the_kernel_it_carries_ipv4() {
    let net = Net::new(1500);
    let _gateways = [net.gateway(Side::A, &first(), &[]), net.gateway_without_ipv6(Side::B, &first())];
    net.transfer(Side::B, IPV4[1], Side::A, 1 << 20);
}
