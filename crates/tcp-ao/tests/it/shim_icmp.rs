//! ICMP errors about connections of the shim (RFC 5925 §7.8).

use crate::shim_support::*;
use crate::support::*;

/// An ICMP error from a router on the path that quotes the first `quoted` octets of a packet that the local end sent.
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

/// A hard error that quotes the first `quoted` octets of a packet.
fn hard(pair: SocketPair, sent: &[u8], quoted: usize) -> Vec<u8> {
    let (kind, code) = if pair.local.address().is_ipv4() { (3, 3) } else { (1, 4) };
    icmp(pair, kind, code, sent, quoted)
}

/// A connection, and a packet of the client's that a router may quote.
fn quotable(pair: SocketPair) -> (Link, Vec<u8>) {
    let mut link = Link::connected(pair);
    let sent = link.client_sends(&link.client_data(b"data that a router quotes")).unwrap();
    (link, sent)
}

/// A link whose client accepts hard errors.
fn accepting(pair: SocketPair) -> Link {
    let config = ShimConfig { accept_icmp: true, ..ShimConfig::new(1500) };
    let mut link = Link::with_ids(pair, &[(1, 2)]);
    link.client = Shim::new(config, hash_key(), vec![peer(pair, mkts(&[(1, 2)]))], slots(8)).unwrap();
    link.connect(pair);
    link
}

#[test]
fn ao_34_hard_errors_about_synchronised_connections_are_ignored_and_counted() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let (mut link, sent) = quotable(pair);
        let mut dropped = 0;
        for (kind, code) in (0..=255).flat_map(|kind| (0..=15).map(move |code| (kind, code))) {
            let error = icmp(pair, kind, code, &sent, usize::MAX);
            let verdict = link.client_gets(&error);
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
        let (mut link, sent) = quotable(pair);
        for quoted in 0..sent.len() {
            let is_dropped = link.client_gets(&hard(pair, &sent, quoted)) == Err(Refusal::Icmp);
            assert_eq!(is_dropped, quoted >= headers + 4, "{quoted} octets quoted");
        }
    }
}

#[test]
fn ao_34_before_the_connection_is_synchronised_errors_pass() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut link = Link::with_ids(pair, &[(1, 2)]);
        let sent = link.client_signs(SYN, CLIENT_ISN, 0).unwrap();
        let error = hard(pair, &sent, usize::MAX);
        assert_eq!(link.client_gets(&error), Ok(error.clone()));
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
    // A quote of what the peer sent, not of what this end sent.
    let theirs = Packet::new(ipv4_pair().reversed(), SYN, 1, 0).build();
    for quoted in [other, udp, theirs] {
        let error = icmp(ipv4_pair(), 3, 3, &quoted, 28);
        assert_eq!(link.client_gets(&error), Ok(error.clone()));
    }
    assert_eq!(link.client.counters().dropped_icmp, 0);
}

#[test]
fn ao_34_a_switch_lets_hard_errors_through() {
    let mut link = accepting(ipv4_pair());
    let sent = link.client_sends(&link.client_data(b"data")).unwrap();
    let error = hard(ipv4_pair(), &sent, 28);
    assert_eq!(link.client_gets(&error), Ok(error.clone()));
    assert_eq!(link.client.counters().dropped_icmp, 0);
}

/// An IPv6 packet that this end sent, with extension headers before its segment.
fn with_extensions(first: u8, extensions: &[u8]) -> Vec<u8> {
    let mut packet = Packet::new(ipv6_pair(), ACK, CLIENT_ISN + 1, 1);
    packet.extensions = (first, extensions.to_vec());
    packet.build()
}

/// A routing header of type 0 that names a further address and the next header.
fn routing(last: &str, next: u8) -> Vec<u8> {
    let mut header = vec![next, 2, 0, 1, 0, 0, 0, 0];
    header.extend(last.parse::<std::net::Ipv6Addr>().unwrap().octets());
    header
}

/// Destination options with a home address, and the number of the next header.
fn home(address: &str, next: u8) -> Vec<u8> {
    let mut options = vec![next, 2, 1, 2, 0, 0, 201, 16];
    options.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
    options
}

#[test]
fn ao_34_hard_errors_that_cannot_be_read_are_refused_when_in_doubt() {
    let stranger = with_ports(pair("192.0.2.1", "198.51.100.1"), 1, 2);
    let fragment = |pair| {
        let mut sent = Packet::new(pair, ACK, CLIENT_ISN + 1, 1).build();
        sent[6..8].copy_from_slice(&[0, 1]);
        sent
    };
    let mut rows = vec![
        // A later fragment: a stack may still look for ports in it.
        (ipv4_pair(), fragment(ipv4_pair()), usize::MAX),
        // A later fragment that names an extension header, which leads to TCP.
        (ipv6_pair(), with_extensions(44, &[60, 0, 0, 8, 0, 0, 0, 9, 6, 0, 1, 4, 0, 0, 0, 0]), usize::MAX),
        // Truncated options; a routing header of type 0 with a further destination.
        (ipv6_pair(), with_extensions(60, &[&[6, 124][..], &[1; 998]].concat()), 600),
        (ipv6_pair(), with_extensions(43, &routing("2001:db8::77", 6)), usize::MAX),
        // A home address: stacks that do not know the option use the source in the quoted header.
        (ipv6_pair(), with_extensions(60, &home("2020:2020::", 6)), usize::MAX),
    ];
    // Stacks go by the outer header, and many never check the version of a quote (Linux `icmp_unreach`, gVisor).
    for pair in [ipv4_pair(), ipv6_pair()] {
        let (_, sent) = quotable(pair);
        rows.extend((0..16_u8).map(|version| {
            let mut quoted = sent.clone();
            quoted[0] = version << 4 | quoted[0] & 0x0f;
            (pair, quoted, usize::MAX)
        }));
    }
    for (pair, quoted, length) in rows {
        let mut link = Link::connected(pair);
        assert_eq!(link.client_gets(&hard(pair, &quoted, length)), Err(Refusal::Icmp), "{quoted:02x?}");
        assert_eq!(link.client.counters().dropped_icmp, 1);
        // A soft error passes.
        let kind = if pair.local.address().is_ipv4() { 3 } else { 1 };
        assert!(link.client_gets(&icmp(pair, kind, 0, &quoted, length)).is_ok());
    }
    // Errors about other connections pass.
    let mut link = Link::connected(ipv4_pair());
    assert!(link.client_gets(&hard(ipv4_pair(), &fragment(stranger), usize::MAX)).is_ok());
}

#[test]
fn ao_34_a_first_fragment_without_its_icmp_header_is_refused() {
    let mut link = Link::connected(ipv6_pair());
    // A fragment header with more to come, then destination options that lead to ICMPv6 in the next fragment.
    let extensions = [60, 0, 0, 1, 0, 0, 0, 9, 58, 0, 1, 4, 0, 0, 0, 0];
    let IpAddr::V6(local) = ipv6_pair().local.address() else { panic!("not IPv6") };
    let first = ipv6_packet([0x20; 16], local.octets(), 44, &extensions);
    assert_eq!(link.client_gets(&first), Err(Refusal::Icmp));
}

/// The ones' complement sum of an ICMP message, with ICMPv6's pseudo-header; 0xffff if its checksum is right.
fn icmp_sum(packet: &[u8]) -> u16 {
    let (pseudo_header, message) = if packet[0] >> 4 == 4 {
        (Vec::new(), &packet[20..])
    } else {
        let length = (packet.len() - 40) as u32;
        ([&packet[8..40], &length.to_be_bytes(), &[0, 0, 0, 58]].concat(), &packet[40..])
    };
    let octets = [&pseudo_header, message].concat();
    let words = octets.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// An error that reports this MTU of a path or a link; its ICMP header is at `at`.
fn too_big(pair: SocketPair, sent: &[u8], mtu: u16) -> (Vec<u8>, usize) {
    let (kind, code, at) = if pair.local.address().is_ipv4() { (3, 4, 20) } else { (2, 0, 40) };
    let mut error = icmp(pair, kind, code, sent, usize::MAX);
    error[at + 6..at + 8].copy_from_slice(&mtu.to_be_bytes());
    error[at + 2..at + 4].fill(0);
    let sum = !icmp_sum(&error);
    error[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    (error, at)
}

#[test]
fn ao_35_the_path_mtu_that_a_router_tells_is_lowered_by_the_room_for_the_option() {
    // No IPv6 path MTU under 1280 octets is reported to a stack (RFC 8201 §4).
    for (pair, least) in [(ipv4_pair(), 1260), (ipv6_pair(), 1280)] {
        // IPv4's error is a hard one, which reaches the stack only if hard errors are accepted.
        let mut link = accepting(pair);
        let sent = link.client_sends(&link.client_data(b"data that a router quotes")).unwrap();
        for (told, expected) in [(1400, 1380_u16), (1300, 1280), (1280, least), (0, 0)] {
            let (error, at) = too_big(pair, &sent, told);
            let handed_on = link.client_gets(&error).unwrap();
            assert_eq!(handed_on[at + 6..at + 8], expected.to_be_bytes());
            assert_eq!(icmp_sum(&handed_on), 0xffff, "the checksum is corrected");
        }
        // Whatever the checksum, it carries at most once.
        for told in 1300..1400 {
            for identification in [0_u16, 1, 0x7fff, 0xffff] {
                let (mut error, at) = too_big(pair, &sent, told);
                error[at + 4..at + 6].copy_from_slice(&identification.to_be_bytes());
                error[at + 2..at + 4].fill(0);
                let sum = !icmp_sum(&error);
                error[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
                let handed_on = link.client_gets(&error).unwrap();
                assert_eq!(handed_on[at + 6..at + 8], (told - 20).max(least).to_be_bytes());
                assert_eq!(icmp_sum(&handed_on), 0xffff, "{told} {identification}");
            }
        }
        // The MTU for a connection without the option is unchanged.
        let other = Packet::new(with_ports(pair, 7, 8), SYN, CLIENT_ISN, 0).build();
        let (error, _) = too_big(pair, &other, 1400);
        assert_eq!(link.client_gets(&error), Ok(error));
    }
}

#[test]
fn ao_35_an_error_of_this_host_itself_tells_the_stack_of_a_link_that_is_too_small() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let (mut link, sent) = quotable(pair);
        let (mut error, at) = too_big(pair, &sent, 1500);
        // From the link, IPv4's is a hard error and is ignored.
        assert_eq!(link.client_gets(&error).is_ok(), pair.local.address().is_ipv6());
        link.client.own_icmp(&mut error);
        assert_eq!(error[at + 6..at + 8], 1480_u16.to_be_bytes());
        assert_eq!(icmp_sum(&error), 0xffff, "the checksum is corrected");
        let other = Packet::new(with_ports(pair, 7, 8), SYN, CLIENT_ISN, 0).build();
        for packet in [too_big(pair, &other, 1500).0, sent, other, vec![0; 9], Vec::new()] {
            let mut same = packet.clone();
            link.client.own_icmp(&mut same);
            assert_eq!(same, packet);
        }
    }
}

#[test]
fn ao_34_a_hard_error_cut_into_fragments_does_not_get_through() {
    let pair = ipv4_pair();
    let (mut link, sent) = quotable(pair);
    for (kind, code, passes) in [(3, 2, false), (3, 3, false), (3, 4, false), (3, 1, true), (8, 0, true)] {
        // Eight octets of ICMP, and the quote in the fragments that follow.
        let mut first = icmp(pair, kind, code, &sent, 0);
        first[6] |= 0x20;
        first[10..12].fill(0);
        let sum = checksum::ipv4_header(&first[..20]);
        first[10..12].copy_from_slice(&sum.to_be_bytes());
        let verdict = link.client_gets(&first);
        assert_eq!(verdict.is_ok(), passes, "type {kind} code {code}");
        let mut later = icmp(pair, kind, code, &sent, usize::MAX);
        later[7] = 1;
        assert!(link.client_gets(&later).is_ok(), "nothing comes of it without the first");
    }
    assert_eq!(link.client.counters().dropped_icmp, 3);
}

#[test]
fn ao_34_a_damaged_error_is_refused_and_not_counted_as_ignored() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let (mut link, sent) = quotable(pair);
        // The second quote cannot be read, and might be about the connection.
        let mut hidden = sent.clone();
        hidden[0] = 0x10 | hidden[0] & 0x0f;
        for quoted in [&sent, &hidden] {
            let mut damaged = hard(pair, quoted, usize::MAX);
            *damaged.last_mut().unwrap() ^= 0x40;
            assert_eq!(link.client_gets(&damaged), Err(Refusal::Checksum));
        }
        let mut header = hard(pair, &sent, usize::MAX);
        header[8] ^= 1;
        assert_eq!(link.client_gets(&header), Err(Refusal::Checksum));
        assert_eq!(link.client.counters().dropped_icmp, 0);
        assert_eq!(link.client.connection(&pair).unwrap().counters().dropped_icmp, 0);
    }
}

/// Another peer may leave a handshake on the same ports; an error about it would pass.
#[test]
fn ao_34_a_handshake_that_a_quote_leads_on_to_hides_no_hard_error() {
    let (here, there, other, stranger) = ("2001:db8::1", "2001:db8::2", "2001:db8::66", "2001:db8:1::1");
    let quote = |from: &str, to: &str, (first, extensions): (u8, Vec<u8>)| {
        let mut quoted = Packet::new(pair(from, to), ACK, CLIENT_ISN + 1, 1);
        quoted.extensions = (first, extensions);
        quoted.build()
    };
    let mut link = Link::with_ids(pair(here, there), &[(1, 2)]);
    let peers = [there, other].map(|remote| peer(pair(here, remote), mkts(&[(1, 2)])));
    link.client = shim_of(peers.into(), 8);
    link.connect(link.pair);
    link.client_gets(&signed_syn(pair(here, other).reversed(), mirrored(&[(1, 2)]), 7)).unwrap();
    let both = (60, [home(here, 43), routing(other, 6)].concat());
    for (quoted, is_about_another) in [
        (quote(here, other, (6, Vec::new())), false),
        (quote(here, there, (43, routing(other, 6))), true),
        // One stack uses both headers, another only the home address.
        (quote(stranger, there, both), true),
    ] {
        let error = icmp(link.pair, 1, 4, &quoted, usize::MAX);
        let verdict = link.client_gets(&error);
        assert_eq!(verdict, if is_about_another { Err(Refusal::Icmp) } else { Ok(error) });
    }
    // It passes if neither the header's address, nor the home address, nor a routing header's destination is a peer's.
    for (extensions, is_ours) in [(home(here, 6), true), (home("2001:db8:1::2", 6), false)] {
        let quoted = quote(stranger, there, (60, extensions));
        let error = icmp(link.pair, 1, 1, &quoted, usize::MAX);
        assert_eq!(link.client_gets(&error).is_err(), is_ours);
    }
}

/// The octets of the MTU mean something else in other errors: in ICMPv6's "parameter problem", where the problem is.
#[test]
fn ao_35_an_error_without_an_mtu_passes_octet_for_octet() {
    for (pair, kind, code) in [(ipv4_pair(), 12, 0), (ipv4_pair(), 3, 1), (ipv6_pair(), 4, 1)] {
        let (mut link, sent) = quotable(pair);
        let mut error = icmp(pair, kind, code, &sent, usize::MAX);
        let at = if pair.local.address().is_ipv4() { 20 } else { 40 };
        error[at + 6..at + 8].copy_from_slice(&1400_u16.to_be_bytes());
        assert_eq!(link.client_gets(&error), Ok(error.clone()));
    }
}

#[test]
fn ao_34_a_message_that_ends_in_its_own_header_is_refused_once_it_is_a_hard_error() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let (mut link, sent) = quotable(pair);
        let whole = hard(pair, &sent, 0);
        let at = whole.len() - 8;
        for length in 0..8 {
            let message = &whole[at..at + length];
            let packet = match pair.local.address() {
                IpAddr::V4(local) => ipv4_packet([198, 51, 100, 1], local.octets(), 1, message),
                IpAddr::V6(local) => ipv6_packet([0xfe; 16], local.octets(), 58, message),
            };
            let is_dropped = link.client_gets(&packet).is_err();
            assert_eq!(is_dropped, length >= 2, "{length} octets");
        }
    }
}

#[test]
fn ao_34_without_peers_no_error_is_hidden_from_the_stack() {
    let first = with_offset(hard(ipv4_pair(), &Packet::new(ipv4_pair(), ACK, 1, 1).build(), 20));
    let mut shim = shim_of(vec![PeerSlot::EMPTY], 4);
    assert_eq!(inbound(&mut shim, seconds(1), &first), Ok(first.clone()));
    let Peer { connections, mkts } = Link::with_ids(ipv4_pair(), &[(1, 2)]).client.remove_peer(0).unwrap();
    shim.add_peer(Peer { connections, mkts }).unwrap();
    assert_eq!(inbound(&mut shim, seconds(1), &first), Err(Refusal::Icmp));
    shim.remove_peer(0).unwrap();
    assert_eq!(inbound(&mut shim, seconds(1), &first), Ok(first));
}

/// The packet as the first of several fragments.
fn with_offset(mut packet: Vec<u8>) -> Vec<u8> {
    packet[6..8].copy_from_slice(&[0x20, 0]);
    packet[10..12].fill(0);
    let checksum = checksum::ipv4_header(&packet[..20]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}
