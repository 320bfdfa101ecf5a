//! Sizes: what the shim does with the other TCP options, and with the headers around them.

use crate::shim_support::*;
use crate::support::*;

/// The options of a Linux SYN: MSS, SACK permitted, timestamps, window scale.
fn syn_options(mss: u16) -> Vec<u8> {
    let [high, low] = mss.to_be_bytes();
    [&[2, 4, high, low, 4, 2, 8, 10][..], &[7; 8], &[1, 3, 3, 7]].concat()
}

fn sack(blocks: usize) -> Vec<u8> {
    let mut option = vec![1, 1, 5, 2 + 8 * blocks as u8];
    option.extend((0..8 * blocks as u8).map(|octet| 0x40 + octet));
    option
}

/// A connected link whose MACs have this many octets.
fn connected(pair: SocketPair, mac_length: usize) -> Link {
    let mkts = |send, recv| {
        let mkt = mkt(send, recv, TcpAoAlgorithm::HmacSha1).with_mac_length(mac_length).unwrap();
        MktSet::from_mkts([mkt]).unwrap()
    };
    let mut link = Link::with_mkts(pair, mkts(1, 2), mkts(2, 1));
    link.connect(pair);
    link
}

#[test]
fn ao_17_an_option_that_does_not_fit_says_how_many_octets_were_free() {
    for (mac_length, needed) in [(4, 8), (12, 16), (16, 20)] {
        let mut link = connected(ipv4_pair(), mac_length);
        for others in (0..=40).step_by(4) {
            // Options of kind 253 (RFC 4727), two octets or longer, to fill `others` octets.
            let options =
                if others == 0 { vec![] } else { [&[253, others as u8][..], &vec![9; others - 2]].concat() };
            let packet = Packet::new(ipv4_pair(), ACK, CLIENT_ISN + 1, SERVER_ISN + 1).options(&options);
            let free = 40 - others;
            if needed <= free {
                assert_eq!(read(&link.deliver_to_server(&packet).unwrap()), read(&packet.build()));
            } else {
                assert_eq!(link.deliver_to_server(&packet), Err(Refusal::NoRoom { needed, free }));
            }
        }
    }
}

/// Multipath TCP's other options leave no room for AO. Without MP_CAPABLE both ends fall back (RFC 8684 §3.7).
#[test]
fn multipath_tcp_is_offered_in_neither_direction() {
    let (pair, capable) = (ipv4_pair(), [30, 4, 0x01, 0x81]);
    let mut link = Link::with_ids(pair, &[(1, 2)]);
    let syn = Packet::new(pair, SYN, CLIENT_ISN, 0);
    let sent = link.client_sends(&syn.clone().options(&[&syn_options(1440)[..], &capable].concat())).unwrap();
    let kinds: Vec<_> = read(&sent).options.iter().map(|option| option[0]).collect();
    assert_eq!(kinds, [2, 4, 8, 3, 29]);
    // A SYN-ACK has a key, which takes 12 octets.
    let with_key = [&[30, 12, 0x01, 0x81][..], &[9; 8]].concat();
    let syn_ack = link.client_sends(&syn.options(&with_key)).unwrap();
    assert_eq!(read(&syn_ack).options.len(), 1);
    // From a peer whose own TCP has TCP-AO and Multipath TCP, so that the MAC covers MP_CAPABLE.
    let mut active = Connection::<4>::active(pair, Isn(7), &mkts(&[(1, 2)])).unwrap();
    let options = [&[2, 4, 5, 0xb4][..], &capable].concat();
    let segment = Parts::new(pair, SYN, 7, 0).options(&options).signed(&mut active);
    let received = link.server_gets(&packet(pair, &segment)).unwrap();
    assert_eq!(read(&received).options, [[2, 4, 5, 0xa0]]);
    // An option that joins another connection is signed unchanged, or does not fit.
    let join = [&[30, 12, 0x10, 1][..], &[9; 8]].concat();
    let syn = Packet::new(with_ports(pair, 5, 179), SYN, 1, 0);
    assert!(read(&link.client_sends(&syn.clone().options(&join)).unwrap()).option(30).is_some());
    let full = [syn_options(1440), join].concat();
    assert!(matches!(link.client_sends(&syn.options(&full)), Err(Refusal::NoRoom { .. })));
}

#[test]
fn ao_35_the_links_own_mss_is_advertised_and_the_stack_gets_the_peers_less_the_option() {
    for (pair, headers) in [(ipv4_pair(), 40), (ipv6_pair(), 60)] {
        for stack_mss in [1480 - headers, 536, 65_535] {
            let mut link = Link::with_ids(pair, &[(1, 2)]);
            let syn = Packet::new(pair, SYN, CLIENT_ISN, 0).options(&syn_options(stack_mss));
            let signed = link.client_sends(&syn).unwrap();
            let room = OPTION_ROOM as u16;
            let advertised = read(&signed).mss().unwrap();
            assert_eq!(advertised, if stack_mss == 65_535 { 65_535 } else { stack_mss + room });
            let delivered = read(&link.server_gets(&signed).unwrap());
            assert_eq!(delivered.mss(), Some(advertised - room));
            let others = |options: &[Vec<u8>]| {
                options.iter().filter(|option| option[0] != 2).cloned().collect::<Vec<_>>()
            };
            assert_eq!(others(&delivered.options), others(&read(&syn.build()).options));
        }
    }
}

#[test]
fn ao_35_a_raised_mss_stays_within_the_mtu() {
    let config = ShimConfig { stack_mtu: 1000, ..ShimConfig::new(1500) };
    let peer = peer(ipv4_pair(), mkts(&[(1, 2)]));
    let mut shim = Shim::new(config, hash_key(), vec![peer], vec![ShimSlot::EMPTY]).unwrap();
    for (from_stack, on_link) in [(960, 1460), (1200, 1460), (1470, 1470), (500, 1000)] {
        let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).options(&syn_options(from_stack));
        assert_eq!(read(&outbound(&mut shim, Duration::ZERO, &syn.build()).unwrap()).mss(), Some(on_link));
    }
}

#[test]
fn ao_35_a_peer_that_advertises_no_mss_gets_the_default_less_the_option() {
    for (pair, default) in [(ipv4_pair(), 536), (ipv6_pair(), 1220)] {
        let mut link = Link::with_ids(pair, &[(1, 2)]);
        let delivered = link.forth(SYN, CLIENT_ISN, 0).unwrap();
        assert_eq!(read(&delivered).mss(), Some(default - OPTION_ROOM as u16));
        assert_eq!(
            read(&link.back(SYN | ACK, SERVER_ISN, CLIENT_ISN + 1).unwrap()).mss(),
            Some(default - OPTION_ROOM as u16)
        );
    }
}

#[test]
fn ao_35_an_mss_option_of_another_length_passes_as_it_is() {
    for option in [&[2, 3, 9, 1][..], &[2, 6, 1, 2, 3, 4, 1, 1]] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).options(option);
        let on_link = link.client_sends(&syn).unwrap();
        let got = link.server_gets(&on_link).unwrap();
        for packet in [&on_link, &got] {
            assert_eq!(read(packet).option(2), Some(&option[2..usize::from(option[1])]));
        }
    }
}

#[test]
fn ao_35_a_tiny_mss_does_not_wrap() {
    for mss in 0..=OPTION_ROOM as u16 + 1 {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        let config = ShimConfig { stack_mtu: 1500, ..ShimConfig::new(1500) };
        let peer = peer(ipv4_pair(), mkts(&[(1, 2)]));
        link.client = Shim::new(config, hash_key(), vec![peer], vec![ShimSlot::EMPTY]).unwrap();
        let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).options(&syn_options(mss));
        let delivered = link.deliver_to_server(&syn).unwrap();
        // Some stacks take zero for no limit.
        assert_eq!(read(&delivered).mss(), Some(mss.saturating_sub(OPTION_ROOM as u16).max(1)));
    }
}

#[test]
fn ao_35_as_many_sack_blocks_are_kept_as_fit_the_newest_first() {
    // With timestamps and without, MAC lengths 4, 12 and 16: how many blocks the stack sends, and how many fit.
    for (mac_length, timestamps, sent, kept) in [
        (4, false, 4, 3),
        (4, true, 3, 2),
        (12, false, 4, 2),
        (12, true, 3, 1),
        (12, true, 1, 1),
        (16, false, 4, 2),
        (16, true, 3, 1),
        (16, true, 2, 1),
    ] {
        let mut link = connected(ipv4_pair(), mac_length);
        let options = [if timestamps { &TIMESTAMPS[..] } else { &[] }, &sack(sent)].concat();
        let acknowledgment = link.client_data(b"").options(&options);
        let signed = link.client_sends(&acknowledgment).unwrap();
        let (stack, on_link) = (read(&acknowledgment.build()), read(&signed));
        assert_eq!(on_link.option(5).unwrap(), &stack.option(5).unwrap()[..8 * kept]);
        assert_eq!(on_link.option(8), stack.option(8));
        assert_eq!(on_link.option(29).unwrap().len(), 2 + mac_length);
        let delivered = read(&link.server_gets(&signed).unwrap());
        assert_eq!(delivered.option(5), on_link.option(5));
        assert!(!delivered.is_signed());
    }
}

#[test]
fn ao_35_sack_blocks_that_cannot_stay_go_before_the_segment_is_refused() {
    let mut link = connected(ipv4_pair(), 16);
    let options = [&[253, 12][..], &[1; 10], &sack(2)].concat();
    let signed = read(&link.deliver_to_server(&link.client_data(b"").options(&options)).unwrap());
    assert_eq!((signed.option(5), signed.option(253)), (None, Some(&[1; 10][..])));
}

#[test]
fn ao_35_full_packets_fill_the_mtu_and_one_octet_more_is_refused() {
    for (pair, headers) in [(ipv4_pair(), 40), (ipv6_pair(), 60)] {
        let mut link = connected(pair, 16);
        for (options, added) in [(&[][..], 20), (&TIMESTAMPS[..], 20)] {
            let fits = 1500 - added - headers - options.len();
            let full = link.client_data(&vec![0x5a; fits]).options(options);
            let signed = link.client_sends(&full).unwrap();
            assert!((1498..=1500).contains(&signed.len()), "{}", signed.len());
            assert_eq!(read(&link.server_gets(&signed).unwrap()).payload, full.payload);
            for excess in [4, 5, 100] {
                let long = link
                    .client_data(&vec![0x5a; 1500 - headers - signed_options(&signed) + excess])
                    .options(options);
                assert_eq!(link.deliver_to_server(&long), Err(Refusal::TooLong { excess }));
            }
        }
    }
}

fn signed_options(packet: &[u8]) -> usize {
    Segment::parse(packet).unwrap().option_octets().len()
}

#[test]
fn ao_35_no_length_field_wraps_on_a_link_with_a_greater_mtu_than_ip_has() {
    let mkts = |send, recv| {
        let mkt = mkt(send, recv, TcpAoAlgorithm::HmacSha1).with_mac_length(16).unwrap();
        MktSet::from_mkts([mkt]).unwrap()
    };
    for (pair, headers, longest) in [(ipv4_pair(), 40, 65_535), (ipv6_pair(), 60, 65_575)] {
        let config = ShimConfig::new(65_600);
        assert!(config.stack_mtu + OPTION_ROOM <= 65_535);
        let mut link = Link::with_mkts(pair, mkts(1, 2), mkts(2, 1));
        let peer = peer(pair, mkts(1, 2));
        link.client = Shim::new(config, hash_key(), vec![peer], vec![ShimSlot::EMPTY]).unwrap();
        link.connect(pair);
        let full = link.client_data(&vec![1; longest - headers - 20]);
        assert_eq!(link.client_sends(&full).unwrap().len(), longest);
        let long = link.client_data(&vec![1; longest - headers - 20 + 1]);
        assert_eq!(link.client_sends(&long), Err(Refusal::TooLong { excess: 1 }));
    }
}

#[test]
fn ao_35_too_little_room_before_the_packet_is_said() {
    let mut client = shim(ipv4_pair(), mkts(&[(1, 2)]), 2);
    let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).build();
    for room in 0..24 {
        let mut buffer = [&vec![0; room][..], &syn].concat();
        let result = client.outbound(Duration::ZERO, &mut buffer, room);
        match room.checked_sub(16) {
            None => assert_eq!(result, Err(Refusal::TooLong { excess: 16 - room })),
            Some(start) => assert_eq!(result, Ok(start..buffer.len())),
        }
    }
}

#[test]
fn ipv4_options_stay_and_link_padding_goes() {
    let mut link = Link::connected(ipv4_pair());
    let mut data = link.client_data(b"behind a router alert");
    data.ip_options = vec![0x94, 4, 0, 0, 1, 1, 1, 0];
    let signed = link.client_sends(&data).unwrap();
    assert_eq!(signed[20..28], data.ip_options);
    let padded = [&signed[..], &[0; 18]].concat();
    let delivered = link.server_gets(&padded).unwrap();
    assert_eq!(delivered, data.build());
    // Padding after what the stack sends is left out too.
    let sent = link.client_emits(&[&data.build()[..], &[0xee; 9]].concat()).unwrap();
    assert_eq!(sent, signed);
}

#[test]
fn ao_11_ipv6_extension_headers_stay() {
    let pair = ipv6_pair();
    let destination_options = [6, 0, 1, 4, 0, 0, 0, 0];
    let hop_by_hop = [60, 0, 5, 2, 0, 0, 1, 0];
    let atomic_fragment = [6, 0, 0, 0, 1, 2, 3, 4];
    let chains: [(u8, Vec<u8>); 3] = [
        (60, destination_options.to_vec()),
        (0, [hop_by_hop, destination_options].concat()),
        (44, atomic_fragment.to_vec()),
    ];
    for extensions in chains {
        let mut link = Link::connected(pair);
        let mut data = link.client_data(b"behind extension headers");
        data.extensions = extensions;
        let signed = link.client_sends(&data).unwrap();
        assert_eq!(signed[40..40 + data.extensions.1.len()], data.extensions.1);
        assert_eq!(link.server_gets(&signed).unwrap(), data.build());
        let forged = link.server_gets(&data.build());
        assert_eq!(forged, Err(UNSIGNED));
    }
}

#[test]
fn ao_21_a_routing_header_does_not_lead_an_unsigned_segment_past_the_check() {
    let pair = ipv6_pair();
    let mut link = Link::connected(pair);
    // The header's own field names the server; one segment is left, to an address that no peer is configured for.
    let elsewhere = [[0x20; 16], [0x30; 16]].concat();
    let mut reset = Packet::new(pair, RST, CLIENT_ISN + 1, SERVER_ISN.wrapping_add(1));
    reset.extensions = (43, [&[6, 4, 0, 1, 0, 0, 0, 0], &elsewhere[..]].concat());
    let packet = reset.build();
    assert_eq!(link.server_gets(&packet), Err(Refusal::SourceRouted));
    // Once it has arrived, the routing header has no effect, and the segment is unsigned like any other.
    let mut arrived = packet.clone();
    arrived[43] = 0;
    assert_eq!(link.server_gets(&arrived), Err(UNSIGNED));
}

#[test]
fn ao_21_a_fragment_behind_a_routing_header_does_not_pass() {
    let pair = ipv6_pair();
    let mut link = Link::connected(pair);
    let mut reset = Packet::new(pair, RST, CLIENT_ISN + 1, SERVER_ISN.wrapping_add(1));
    let routing = [&[44, 2, 2, 1, 0, 0, 0, 0], &[0x30; 16][..]].concat();
    for fragment in [[6, 0, 0, 1, 1, 2, 3, 4], [6, 0, 0, 0, 1, 2, 3, 4], [6, 0, 0, 8, 1, 2, 3, 4]] {
        reset.extensions = (43, [&routing[..], &fragment].concat());
        assert_eq!(link.server_gets(&reset.build()), Err(Refusal::SourceRouted));
    }
}

/// A mobile node's home address takes the place of the source before TCP sees the packet, on stacks that know it (RFC 6275 §9.3.1).
#[test]
fn ao_21_a_home_address_does_not_lead_an_unsigned_segment_past_the_check() {
    let pair = ipv6_pair();
    let mut link = Link::connected(pair);
    let IpAddr::V6(home) = pair.local.address() else { unreachable!() };
    let option = |home: [u8; 16]| [&[6, 2, 1, 2, 0, 0, 201, 16][..], &home].concat();
    let elsewhere = SocketPair { local: Endpoint::new([0x2001, 0xdb8, 9, 0, 0, 0, 0, 9], 49_152), ..pair };
    // From elsewhere in the peer's name, and from the peer's address in another's name.
    for (source, option) in [(elsewhere, option(home.octets())), (pair, option([0x20; 16]))] {
        let mut reset = Packet::new(source, RST, CLIENT_ISN + 1, SERVER_ISN.wrapping_add(1));
        reset.extensions = (60, option);
        assert_eq!(link.server_gets(&reset.build()), Err(Refusal::SourceRouted));
        let mut fragment = Packet::new(source, ACK, 1, 1);
        fragment.extensions = (60, [&reset.extensions.1[..], &[6, 0, 0, 8, 0, 0, 0, 9]].concat());
        fragment.extensions.1[0] = 44;
        assert_eq!(link.server_gets(&fragment.build()), Err(Refusal::SourceRouted));
    }
    // Between other addresses it passes.
    let mut others = Packet::new(elsewhere, RST, 1, 1);
    others.extensions = (60, option([0x20; 16]));
    assert!(link.server_gets(&others.build()).is_ok());
}

/// The IPv4 packet as a fragment: the upper octet of flags and offset is `flags`.
fn ipv4_fragment(mut packet: Vec<u8>, flags: u8) -> Vec<u8> {
    packet[6] = flags;
    packet[10..12].fill(0);
    let sum = etherparse::Ipv4Header::from_slice(&packet).unwrap().0.calc_header_checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn fragments_between_protected_addresses_are_refused_and_others_pass() {
    let mut link = Link::connected(ipv4_pair());
    let signed = link.client_sends(&link.client_data(b"in pieces")).unwrap();
    let stranger = Packet::new(pair("198.51.100.1", "192.0.2.2"), ACK, 1, 1).payload(b"in pieces").build();
    for flags in [0x20, 0x01] {
        let fragment = ipv4_fragment(signed.clone(), flags);
        assert_eq!(link.server_gets(&fragment), Err(Refusal::Malformed(ParseError::Fragment)));
        assert_eq!(link.client_emits(&fragment), Err(Refusal::Malformed(ParseError::Fragment)));
        let fragment = ipv4_fragment(stranger.clone(), flags);
        assert_eq!(link.server_gets(&fragment), Ok(fragment.clone()));
        assert_eq!(link.client_emits(&fragment), Ok(fragment.clone()));
    }
}

#[test]
fn ao_21_a_header_behind_the_fragment_header_does_not_hide_tcp() {
    let pair = ipv6_pair();
    let destination_options = [6, 0, 1, 4, 0, 0, 0, 0];
    for (fragment, refusal) in [
        ([60, 0, 0, 1, 9, 9, 9, 9], Err(Refusal::Malformed(ParseError::Fragment))),
        // An atomic fragment is a whole segment, unsigned.
        ([60, 0, 0, 0, 9, 9, 9, 9], Err(UNSIGNED)),
    ] {
        let mut link = Link::connected(pair);
        let mut forged = link.client_data(b"forged");
        forged.extensions = (44, [fragment, destination_options].concat());
        assert_eq!(link.server_gets(&forged.build()).map(|_| ()), refusal);
    }
}

#[test]
fn a_checksum_of_zero_goes_out_in_its_other_form() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        // The MAC does not cover the timestamps, so they can give any checksum.
        let mkts = |send, recv| {
            let mkt = mkt(send, recv, TcpAoAlgorithm::HmacSha1).with_options(OptionCoverage::Excluded);
            MktSet::from_mkts([mkt]).unwrap()
        };
        let mut link = Link::with_mkts(pair, mkts(1, 2), mkts(2, 1));
        link.connect(pair);
        let packet = |value: u32| {
            let options = [&[1, 1, 8, 10][..], &value.to_be_bytes(), &[0; 4]].concat();
            Packet::new(pair, ACK, CLIENT_ISN + 1, SERVER_ISN + 1).options(&options)
        };
        let first = read(&link.client_sends(&packet(0)).unwrap()).header.checksum;
        let signed = link.client_sends(&packet(first.into())).unwrap();
        assert_eq!(read(&signed).header.checksum, 0xffff);
        assert!(link.server_gets(&signed).is_ok());
    }
}

#[test]
fn a_fast_open_cookie_makes_way_for_the_signature() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    // MSS, SACK permitted, timestamps, window scale and a cookie of 16 octets fill 40 octets.
    let cookie = [&[34, 18][..], &[7; 16]].concat();
    let others = [&[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7, 1, 1][..]].concat();
    let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).options(&[&others[..], &cookie].concat());
    let received = read(&link.deliver_to_server(&syn).unwrap());
    assert_eq!(received.option(34), None);
    assert_eq!(received.option(3), Some(&[7][..]));
    assert_eq!(link.server.connection(&ipv4_pair().reversed()).unwrap().remote_isn(), Some(Isn(CLIENT_ISN)));
}

#[test]
fn several_fast_open_cookies_make_way_together() {
    // Each fits next to the signature, but not all of them.
    let mut link = Link::with_mkts(ipv4_pair(), short_mac(1, 2), short_mac(2, 1));
    let cookies = [&[34, 6, 1, 2, 3, 4][..]; 3].concat();
    let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).options(
        &[&[2, 4, 5, 0xb4, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 3, 3, 7, 4, 2, 1][..], &cookies, &[1, 1]].concat(),
    );
    let received = read(&link.deliver_to_server(&syn).unwrap());
    assert_eq!((received.option(34), received.option(3)), (None, Some(&[7][..])));
}

fn short_mac(send_id: u8, recv_id: u8) -> MktSet<4> {
    MktSet::from_mkts([mkt(send_id, recv_id, TcpAoAlgorithm::HmacSha1).with_mac_length(4).unwrap()]).unwrap()
}

/// What is kept beside the signature: of a segment with these options, the kinds on the link.
fn kinds_on_the_link(flags: u8, options: &[u8]) -> Vec<u8> {
    let mut link =
        if flags == SYN { Link::with_ids(ipv4_pair(), &[(1, 2)]) } else { Link::connected(ipv4_pair()) };
    let sequence = CLIENT_ISN + u32::from(flags != SYN);
    let packet = Packet::new(ipv4_pair(), flags, sequence, SERVER_ISN.wrapping_add(1)).options(options);
    read(&link.client_sends(&packet).unwrap()).options.iter().map(|option| option[0]).collect()
}

#[test]
fn only_options_that_do_not_fit_beside_ao_are_removed() {
    let cookie = [34, 8, 1, 2, 3, 4, 5, 6];
    let capable = [30, 4, 0x01, 0x81];
    // A cookie that fits stays; an MP_CAPABLE that goes takes no room from it.
    let syn = [&syn_options(1440)[..16], &cookie].concat();
    assert_eq!(kinds_on_the_link(SYN, &syn), [2, 4, 8, 34, 29]);
    assert_eq!(kinds_on_the_link(SYN, &[&syn[..], &capable].concat()), [2, 4, 8, 34, 29]);
    // Other options of Multipath TCP stay, and leave less room for SACK blocks.
    let multipath = [30, 8, 0x20, 1, 2, 3, 4, 5];
    let options = [&multipath[..], &sack(3)].concat();
    let mut link = Link::connected(ipv4_pair());
    let sent = link.client_sends(&link.client_data(b"").options(&options)).unwrap();
    assert_eq!(read(&sent).option(5).unwrap().len(), 8);
    let received = read(&link.server_gets(&sent).unwrap());
    assert_eq!(received.option(30), Some(&multipath[2..]));
    // MP_CAPABLE beside SACK blocks takes none of their room.
    let options = [&capable[..], &sack(3)].concat();
    let sent = link.client_sends(&link.client_data(b"").options(&options)).unwrap();
    assert_eq!(read(&sent).option(5).unwrap().len(), 16);
}

#[test]
fn ao_35_the_default_mss_is_inserted_beside_other_options() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let without_mss = [&TIMESTAMPS[2..], &[3, 3, 7, 4, 2, 1]].concat();
    let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).options(&without_mss);
    let received = read(&link.deliver_to_server(&syn).unwrap());
    assert_eq!((received.mss(), received.option(3)), (Some(536 - OPTION_ROOM as u16), Some(&[7][..])));
}

#[test]
fn ao_35_the_missing_headroom_is_reported_exactly() {
    let mut client = shim(ipv4_pair(), mkts(&[(1, 2)]), 2);
    // 20 octets of options become 36.
    let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).options(&syn_options(1440)).build();
    let grows = 16;
    for room in 0..=grows {
        let mut buffer = [&vec![0; room][..], &syn].concat();
        let result = client.outbound(seconds(1), &mut buffer, room).map(|place| place.start);
        let expected = if room == grows { Ok(0) } else { Err(Refusal::TooLong { excess: grows - room }) };
        assert_eq!(result, expected, "{room} octets of room");
    }
}
