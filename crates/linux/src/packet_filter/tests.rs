//! The kernel runs the program on frames that are sent through a pair of sockets.

use std::io::ErrorKind;

use socket2::{Domain, Socket, Type};

use super::{MOST, PacketFilter};

/// Which frames pass.
fn passing(filter: &PacketFilter, frames: &[Vec<u8>]) -> Vec<bool> {
    let (from, to) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
    to.attach_filter(&filter.program(true)).unwrap();
    to.set_nonblocking(true).unwrap();
    let passes = |frame: &Vec<u8>| {
        from.send(frame).unwrap();
        let mut received = [std::mem::MaybeUninit::uninit(); 200];
        match to.recv(&mut received) {
            Ok(length) => {
                assert_eq!(length, frame.len());
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    };
    frames.iter().map(passes).collect()
}

fn assert_passing<const N: usize>(filter: &PacketFilter, frames: [(&str, bool, Vec<u8>); N]) {
    let expected = frames.clone().map(|(name, passes, _)| (name, passes));
    let found = passing(filter, &frames.clone().map(|(.., frame)| frame));
    assert_eq!(expected.map(|(name, _)| name).into_iter().zip(found).collect::<Vec<_>>(), expected);
}

fn wanted(peers: &[&str], ports: &[u16]) -> PacketFilter {
    PacketFilter { peers: peers.iter().map(|peer| peer.parse().unwrap()).collect(), ports: ports.to_vec() }
}

fn frame(ether_type: u16, rest: &[u8]) -> Vec<u8> {
    [&[2; 12], ether_type.to_be_bytes().as_slice(), rest].concat()
}

fn ports(source: u16, destination: u16) -> Vec<u8> {
    [source.to_be_bytes(), destination.to_be_bytes(), [0; 2], [0; 2]].concat()
}

/// An IPv4 packet between 192.0.2.1 and 192.0.2.2 with this many octets of options.
fn ipv4(protocol: u8, fragment: u16, options: usize, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 20 + options];
    header[0] = 0x40 | (5 + options / 4) as u8;
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[9] = protocol;
    header[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    [&header, rest].concat()
}

/// An IPv6 packet between 2001:db8::1:1 and 2001:db8::1:2.
fn ipv6(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 40];
    (header[0], header[6]) = (0x60, protocol);
    for (place, host) in [(8, 1), (24, 2)] {
        header[place..place + 4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        (header[place + 13], header[place + 15]) = (1, host);
    }
    [&header, rest].concat()
}

/// Without and with one and two VLAN tags.
fn tagged(ether_type: u16, rest: &[u8]) -> [Vec<u8>; 3] {
    let one = [&[0, 10], ether_type.to_be_bytes().as_slice(), rest].concat();
    let two = [&[0, 20, 0x81, 0x00], one.as_slice()].concat();
    [frame(ether_type, rest), frame(0x8100, &one), frame(0x88a8, &two)]
}

#[test]
fn tcp_of_the_ports_passes_whatever_the_tags() {
    let filter = wanted(&[], &[179, 646]);
    for packet in [ipv4(6, 0x4000, 0, &ports(50_000, 179)), ipv4(6, 0, 40, &ports(646, 50_000))] {
        assert_eq!(passing(&filter, &tagged(0x0800, &packet)), [true; 3]);
    }
    let other = ipv4(6, 0x4000, 0, &ports(50_000, 80));
    assert_eq!(passing(&filter, &tagged(0x0800, &other)), [false; 3]);
    // The port would be found if the options were taken for it.
    let other = ipv4(6, 0, 8, &ports(179 << 8, 80));
    assert_eq!(passing(&filter, &tagged(0x0800, &other)), [false; 3]);
    assert_eq!(passing(&filter, &tagged(0x86dd, &ipv6(6, &ports(179, 50_000)))), [true; 3]);
    assert_eq!(passing(&filter, &tagged(0x86dd, &ipv6(6, &ports(50_001, 50_000)))), [false; 3]);
}

#[test]
fn tcp_of_the_peers_passes() {
    let segment = ports(50_000, 179);
    let (v4, v6) = (frame(0x0800, &ipv4(6, 0, 0, &segment)), frame(0x86dd, &ipv6(6, &segment)));
    for (peers, expected) in [
        (&["192.0.2.1/32"][..], [true, false]),
        (&["192.0.2.2"], [true, false]),
        (&["192.0.2.3", "192.0.2.0/30"], [true, false]),
        (&["192.0.2.4/30"], [false, false]),
        (&["0.0.0.0/0"], [true, false]),
        (&["2001:db8::1:2"], [false, true]),
        (&["2001:db8::1:3", "2001:db8::/33"], [false, true]),
        (&["2001:db8:0:0:1::/80", "198.51.100.1"], [false, false]),
        (&["2001:db8::1:0/127"], [false, true]),
        (&["2001:db8::2:0/111"], [false, false]),
        (&["::/0", "192.0.2.1"], [true, true]),
    ] {
        let frames = [v4.clone(), v6.clone()];
        assert_eq!(passing(&wanted(peers, &[]), &frames), expected, "{peers:?}");
        assert_eq!(passing(&wanted(peers, &[179]), &frames), expected, "{peers:?}");
        assert_eq!(passing(&wanted(peers, &[180]), &frames), [false; 2], "{peers:?}");
    }
}

#[test]
fn what_cannot_be_decided_passes_and_what_is_surely_not_tcp_does_not() {
    let segment = ports(50_000, 80);
    let v4 = |protocol, fragment, rest: &[u8]| frame(0x0800, &ipv4(protocol, fragment, 0, rest));
    let v6 = |protocol, rest: &[u8]| frame(0x86dd, &ipv6(protocol, rest));
    assert_passing(
        &wanted(&["198.51.100.1"], &[179]),
        [
            ("first fragment", true, v4(6, 0x2000, &segment)),
            ("last fragment", true, v4(6, 0x0010, &segment)),
            ("IP in IP", true, v4(4, 0, &[0; 20])),
            ("GRE", true, v4(47, 0, &[0; 20])),
            ("ICMP", false, v4(1, 0, &[0; 20])),
            ("OSPF", false, v4(89, 0, &[0; 20])),
            ("UDP", false, v4(17, 0, &ports(50_000, 443))),
            ("VXLAN", true, v4(17, 0, &ports(50_000, 4789))),
            ("fragment of UDP", true, v4(17, 0x2000, &ports(50_000, 443))),
            ("Geneve over IPv6", true, v6(17, &ports(50_000, 6081))),
            ("UDP over IPv6", false, v6(17, &ports(6081, 443))),
            ("hop-by-hop options", true, v6(0, &[0; 20])),
            ("fragment header", true, v6(44, &[0; 20])),
            ("ICMPv6", false, v6(58, &[0; 20])),
            ("MPLS", true, frame(0x8847, &[0; 30])),
            ("PPPoE", true, frame(0x8864, &[0; 30])),
            ("LLC", true, frame(40, &[0; 40])),
            ("three tags", true, frame(0x8100, &[0, 1, 0x81, 0, 0, 1, 0x81, 0, 0, 1, 0x08, 0x06])),
            ("ARP", false, frame(0x0806, &[0; 46])),
            ("LLDP", false, frame(0x88cc, &[0; 46])),
            ("too short", false, vec![0; 8]),
        ],
    );
}

#[test]
fn more_peers_than_the_program_has_room_for_are_left_to_the_reader() {
    let peers: Vec<_> =
        (0..1000).map(|number| format!("10.{}.{}.0/24", number / 250, number % 250)).collect();
    let peers: Vec<_> = peers.iter().map(String::as_str).collect();
    let few = wanted(&peers[..200], &[179]);
    assert!(few.program(true).len() > 1000);
    let segment = |port| frame(0x0800, &ipv4(6, 0, 0, &ports(50_000, port)));
    assert_eq!(passing(&few, &[segment(179)]), [false]);
    let many = wanted(&peers, &[179]);
    assert!(many.program(true).len() < MOST && many.program(false).len() < MOST);
    assert_eq!(passing(&many, &[segment(179), segment(180)]), [true, false]);
}
