//! What the shim lets through and what it refuses: its rows of the conformance list.

use etherparse::TcpOptions;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::shim_support::*;
use crate::support::*;

const NOW: Duration = Duration::from_secs(5);

fn both_versions() -> [SocketPair; 2] {
    [ipv4_pair(), ipv6_pair()]
}

#[test]
fn ao_20_an_unknown_key_id_is_counted_apart_from_a_bad_mac() {
    let mut link = Link::connected(ipv4_pair());
    let before = *link.server.counters();
    let signed = link.client_sends(&link.client_data(b"data")).unwrap();
    let key_id_at = 40 + 2;
    assert_eq!(signed[key_id_at - 2], 29);

    let mut unknown = signed.clone();
    unknown[key_id_at] = 77;
    refresh_checksum(&mut unknown);
    let refusal = link.server_gets(&unknown);
    assert_eq!(refusal, Err(unknown_key(77)));
    assert_eq!(*link.server.counters(), Counters { key_not_found: before.key_not_found + 1, ..before });

    let mut bad = signed;
    *bad.last_mut().unwrap() ^= 1;
    refresh_checksum(&mut bad);
    let refusal = link.server_gets(&bad);
    assert_eq!(refusal, Err(bad_mac(1)));
    assert_eq!(link.server.counters().bad, before.bad + 1);
}

#[test]
fn ao_20_a_signed_segment_without_peer_is_dropped_by_default_and_passed_on_request() {
    let signed =
        Link::with_ids(ipv4_pair(), &[(1, 2)]).client_sends(&Packet::new(ipv4_pair(), SYN, 7, 0)).unwrap();
    for (unmatched, expected) in
        [(Unmatched::Drop, Err(Refusal::NoPeer)), (Unmatched::Pass, Ok(signed.clone()))]
    {
        let config = ShimConfig { unmatched, ..ShimConfig::new(1500) };
        let mut without_peers = Shim::new(config, hash_key(), Vec::new(), slots(4)).unwrap();
        assert_eq!(inbound(&mut without_peers, NOW, &signed), expected);
        let key_not_found = u64::from(unmatched == Unmatched::Drop);
        assert_eq!(*without_peers.counters(), Counters { key_not_found, ..Counters::default() });
        assert_eq!(without_peers.connections().count(), 0);
    }
}

#[test]
fn ao_21_an_unsigned_segment_is_dropped_and_counted_in_every_state() {
    for pair in both_versions() {
        let mut fresh = shim(pair, mkts(&[(1, 2)]), 4);
        let mut half_open = shim(pair, mkts(&[(1, 2)]), 4);
        outbound(&mut half_open, NOW, &Packet::new(pair, SYN, CLIENT_ISN, 0).build()).unwrap();
        let mut open = Link::connected(pair).client;
        for shim in [&mut fresh, &mut half_open, &mut open] {
            let before = *shim.counters();
            let flags = [SYN, SYN | ACK, ACK, RST, RST | ACK, FIN | ACK, 0, 0xff];
            for (index, flags) in flags.into_iter().enumerate() {
                let forged =
                    Packet::new(pair.reversed(), flags, SERVER_ISN + 1, CLIENT_ISN + 1).payload(b"x").build();
                assert_eq!(inbound(shim, NOW, &forged), Err(UNSIGNED), "{flags:#x}");
                assert_eq!(shim.counters().required, before.required + index as u64 + 1);
            }
            assert_eq!(*shim.counters(), Counters { required: before.required + 8, ..before });
        }
    }
}

#[test]
fn ao_21_no_port_and_no_padding_hides_an_unsigned_segment() {
    let mut shim = shim(ipv4_pair(), mkts(&[(1, 2)]), 4);
    for (local, remote) in [(0, 0), (1, 65535), (179, 179), (49152, 179)] {
        let pair = with_ports(ipv4_pair(), local, remote);
        let packet =
            Packet::new(pair.reversed(), ACK, 1, 1).options(&[0, 29, 16, 2]).payload(&[29, 16, 2, 1]);
        let refusal = inbound(&mut shim, NOW, &packet.build());
        assert_eq!(refusal, Err(UNSIGNED));
    }
}

#[test]
fn a_peer_with_mapped_addresses_is_protected_like_its_ipv4_self() {
    let net = |text: &str| text.parse().unwrap();
    let connections = ConnectionIdentifier::between(net("::ffff:192.0.2.1"), net("::ffff:192.0.2.0/120"));
    let mapped = Peer { connections, mkts: mkts(&[(1, 2)]) };
    assert!(connections.overlaps(&ConnectionIdentifier::between(net("192.0.2.1"), net("192.0.2.2"))));
    let mut shim = shim_of(vec![mapped.into()], 1);
    let unsigned = Packet::new(ipv4_pair().reversed(), RST, 1, 0).build();
    assert_eq!(inbound(&mut shim, NOW, &unsigned), Err(UNSIGNED));
    let signed = outbound(&mut shim, NOW, &Packet::new(ipv4_pair(), SYN, 1, 0).build()).unwrap();
    assert!(read(&signed).is_signed());
    let stranger = Packet::new(pair("192.0.2.1", "192.0.3.2").reversed(), RST, 1, 0).build();
    assert!(inbound(&mut shim, NOW, &stranger).is_ok());
}

#[test]
fn ao_21_a_peer_of_all_ipv6_addresses_leaves_no_mapped_one_out() {
    let net = |text: &str| text.parse().unwrap();
    let connections = ConnectionIdentifier::between(net("2001:db8::1"), net("::/0"));
    let mut shim = shim_of(vec![Peer { connections, mkts: mkts(&[(1, 2)]) }.into()], 1);
    // An unsigned SYN over IPv6 from an IPv4-mapped source, built by hand because such an address is never on the wire.
    let mut packet = Packet::new(pair("2001:db8::2", "2001:db8::1"), SYN, 1, 0).build();
    let mapped: std::net::Ipv6Addr = "::ffff:198.51.100.7".parse().unwrap();
    packet[8..24].copy_from_slice(&mapped.octets());
    packet[56..58].fill(0);
    let local: IpAddr = "2001:db8::1".parse().unwrap();
    let sum = checksum::tcp(mapped.into(), local, &packet[40..]);
    packet[56..58].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(inbound(&mut shim, NOW, &packet), Err(UNSIGNED));
}

#[test]
fn ao_15_malformed_options_are_refused_before_anything_is_learned() {
    let mut link = Link::connected(ipv4_pair());
    let two_ao = [&[29, 16, 2, 1][..], &[0; 12], &[29, 16, 2, 1], &[0; 12]].concat();
    let md5 = [&[29, 8, 2, 1, 0, 0, 0, 0, 19, 18][..], &[0; 16]].concat();
    for (options, error) in [
        (two_ao, OptionError::TwoAoOptions),
        (md5, OptionError::AoWithMd5),
        (vec![29, 3, 0, 0], OptionError::AoTooShort),
        (vec![1, 8, 9, 0], OptionError::BadLength { kind: 8, offset: 1 }),
    ] {
        let packet = Packet::new(ipv4_pair(), ACK, CLIENT_ISN + 1, 0).options(&options).build();
        let (bad, refusal) = (link.server.counters().bad, inbound(&mut link.server, NOW, &packet));
        assert_eq!(refusal, Err(Refusal::Verify(VerifyError::Options(error))));
        assert_eq!(link.server.counters().bad, bad + 1);
        // The stack gets its own mistakes back, and nothing is sent.
        let refusal = outbound(&mut link.client, NOW, &packet);
        let is_signed = matches!(error, OptionError::BadLength { .. });
        let expected =
            if is_signed { Refusal::Sign(SignError::Options(error)) } else { Refusal::AlreadySigned };
        assert_eq!(refusal, Err(expected));
    }
}

#[test]
fn ao_26_an_expired_chain_fails_closed_in_both_directions() {
    for pair in both_versions() {
        let mut link = Link::connected(pair);
        let (forth, back) = (link.client_data(b"forth"), link.server_data(b"back"));
        let late = link.server_sends(&back).unwrap();
        link.client.set_mkts(0, MktSet::new()).unwrap();
        assert_eq!(link.client.connections().count(), 0, "keys of live connections are gone");

        for unsigned in [
            Packet::new(pair, SYN, 9, 0),
            Packet::new(pair, SYN | ACK, 9, 1),
            forth,
            Packet::new(pair, RST, 9, 0),
        ] {
            assert!(outbound(&mut link.client, NOW, &unsigned.build()).is_err(), "{unsigned:?}");
        }
        assert_eq!(
            outbound(&mut link.client, NOW, &Packet::new(pair, SYN, 9, 0).build()),
            Err(Refusal::NoKey)
        );
        assert_eq!(inbound(&mut link.client, NOW, &late), Err(Refusal::NoKey));
        for flags in [SYN, SYN | ACK, ACK, RST] {
            let unsigned = Packet::new(pair.reversed(), flags, 9, 0).build();
            assert_eq!(inbound(&mut link.client, NOW, &unsigned), Err(Refusal::NoKey));
        }
        assert_eq!(link.client.connections().count(), 0);

        // With keys again, a new handshake succeeds; the old connection stays forgotten.
        link.client.set_mkts(0, mkts(&[(1, 2)])).unwrap();
        assert_eq!(inbound(&mut link.client, NOW, &late), Err(Refusal::NoConnection));
        link.connect(with_ports(pair, 50_000, 179));
    }
}

/// A damaged packet is neither an attack nor a missing key.
#[test]
fn ao_20_a_damaged_segment_is_refused_and_not_counted_as_one_without_a_key() {
    let pair = ipv4_pair();
    let mut link = Link::connected(pair);
    let signed = link.client_sends(&link.client_data(b"data")).unwrap();
    let mut without_peers = shim_of(Vec::new(), 1);
    let from_elsewhere = link.client_sends(&Packet::new(with_ports(pair, 5, 179), SYN, 1, 0)).unwrap();
    // The KeyID, the kind of the option, the port, the IPv4 header, the payload.
    for at in [42, 40, 21, 8, signed.len() - 1] {
        for (has_peer, packet) in [(false, &signed), (true, &signed), (true, &from_elsewhere)] {
            let shim = if has_peer { &mut link.server } else { &mut without_peers };
            let mut damaged = packet.clone();
            damaged[at.min(packet.len() - 1)] ^= 0x20;
            let passes = at == 40 && !has_peer;
            let verdict = inbound(shim, link.now, &damaged);
            // A segment without an option to judge passes to a stack that checks for itself.
            assert_eq!(verdict, if passes { Ok(damaged) } else { Err(Refusal::Checksum) }, "octet {at}");
            assert_eq!(*shim.counters(), Counters { good: shim.counters().good, ..Counters::new() });
        }
    }
    let mut buffers = [signed.clone(), signed.clone()];
    buffers.iter_mut().for_each(|buffer| buffer[42] ^= 0x20);
    without_peers.inbound_batch(link.now, &mut buffers, |_, verdict| {
        assert_eq!(verdict, Err(Refusal::Checksum));
    });
    assert_eq!(*without_peers.counters(), Counters::new());
    // Undamaged, it is refused.
    assert_eq!(inbound(&mut without_peers, link.now, &signed), Err(Refusal::NoPeer));
    assert_eq!(without_peers.counters().key_not_found, 1);
}

#[test]
fn ao_26_the_expiry_of_one_peers_chain_leaves_the_others_alone() {
    let (first, second) = (pair("192.0.2.1", "192.0.2.2"), pair("192.0.2.1", "192.0.2.3"));
    let peers = vec![peer(first, mkts(&[(1, 2)])), peer(second, mkts(&[(3, 4)]))];
    let mut shim = shim_of(peers, 4);
    for pair in [first, second] {
        outbound(&mut shim, NOW, &Packet::new(pair, SYN, 1, 0).build()).unwrap();
    }
    shim.set_mkts(0, MktSet::new()).unwrap();
    assert_eq!(shim.connections().map(Connection::pair).collect::<Vec<_>>(), [second]);
    assert!(outbound(&mut shim, NOW, &Packet::new(second, SYN, 1, 0).build()).is_ok());
}

#[test]
fn ao_31_resets_are_signed_and_verified_like_any_segment() {
    for pair in both_versions() {
        let mut link = Link::connected(pair);
        let reset = Packet::new(pair, RST, CLIENT_ISN + 1, 0);
        let mut forged = link.client_sends(&reset).unwrap();
        let unsigned = link.server_gets(&reset.build());
        assert_eq!(unsigned, Err(UNSIGNED));
        let delivered = link.server_gets(&forged).unwrap();
        assert_eq!(delivered, reset.build());
        *forged.last_mut().unwrap() ^= 0x80;
        assert_eq!(link.server_gets(&forged), Err(Refusal::Checksum));
    }
}

#[test]
fn ao_32_a_listeners_refusal_verifies_and_leaves_nothing() {
    for pair in both_versions() {
        let mut link = Link::with_ids(pair, &[(1, 2)]);
        link.forth(SYN, CLIENT_ISN, 0).unwrap();
        let reset = Packet::new(pair.reversed(), RST | ACK, 0, CLIENT_ISN + 1);
        assert_eq!(link.deliver_to_client(&reset).unwrap(), reset.build());
        assert_eq!(link.server.connections().count(), 0);
        // Both ends can use the port for another attempt.
        link.connect(pair);
    }
}

#[test]
fn ao_33_segments_in_time_wait_are_verified_and_answered() {
    let mut link = Link::connected(ipv4_pair());
    let finish = Packet::new(link.pair, FIN | ACK, CLIENT_ISN + 1, SERVER_ISN + 1);
    let finish_back = Packet::new(link.pair.reversed(), FIN | ACK, SERVER_ISN + 1, CLIENT_ISN + 2);
    link.deliver_to_server(&finish).unwrap();
    link.deliver_to_client(&finish_back).unwrap();
    let last = Packet::new(link.pair, ACK, CLIENT_ISN + 2, SERVER_ISN + 2);
    link.deliver_to_server(&last).unwrap();
    for _ in 0..3 {
        link.now += seconds(60);
        assert_eq!(link.deliver_to_client(&finish_back).unwrap(), finish_back.build());
        assert_eq!(link.deliver_to_server(&last).unwrap(), last.build());
        let forged = link.client_gets(&finish_back.build());
        assert_eq!(forged, Err(UNSIGNED));
    }
}

#[test]
fn ao_18_a_wrong_checksum_of_tcp_or_ipv4_is_not_laundered() {
    for pair in both_versions() {
        let mut link = Link::connected(pair);
        let signed = link.client_sends(&link.client_data(b"octets")).unwrap();
        let counters = *link.server.counters();
        // The last octet of the payload, and octets of the IPv4 header that TCP's checksum does not cover.
        let headers: &[usize] = if pair.local.address().is_ipv4() { &[1, 4, 8] } else { &[] };
        for at in headers.iter().copied().chain([signed.len() - 1]) {
            let mut altered = signed.clone();
            altered[at] ^= 0x10;
            assert_eq!(link.server_gets(&altered), Err(Refusal::Checksum), "octet {at}");
        }
        assert_eq!(*link.server.counters(), counters);
        assert_eq!(read(&link.server_gets(&signed).unwrap()).payload, b"octets");
    }
}

#[test]
fn checksums_that_the_device_has_checked_are_not_looked_at() {
    let config = ShimConfig { check_checksum: false, ..ShimConfig::new(1500) };
    let mut link = Link::connected(ipv4_pair());
    let mut syn = link.client_sends(&Packet::new(with_ports(ipv4_pair(), 4000, 179), SYN, 8, 0)).unwrap();
    syn[36..38].fill(0);
    let peers = vec![peer(ipv4_pair().reversed(), mirrored(&[(1, 2)]))];
    let mut offloaded = Shim::new(config, hash_key(), peers, slots(2)).unwrap();
    read(&inbound(&mut offloaded, NOW, &syn).unwrap());
}

#[test]
fn a_segment_without_handshake_is_refused_in_both_directions() {
    let mut link = Link::connected(ipv4_pair());
    let (data, back) = (link.client_data(b"data"), link.server_data(b"back"));
    let signed = link.server_sends(&back).unwrap();
    let mut restarted = shim(ipv4_pair(), mkts(&[(1, 2)]), 4);
    assert_eq!(inbound(&mut restarted, NOW, &signed), Err(Refusal::NoConnection));
    assert_eq!(outbound(&mut restarted, NOW, &data.build()), Err(Refusal::NoConnection));
    link.client.forget(&ipv4_pair());
    assert_eq!(inbound(&mut link.client, NOW, &signed), Err(Refusal::NoConnection));
}

#[test]
fn what_no_peer_protects_passes_octet_for_octet() {
    let mut shim = shim(ipv4_pair(), mkts(&[(1, 2)]), 4);
    let stranger = pair("192.0.2.1", "198.51.100.9");
    let stranger_v6 = pair("2001:db8::1", "2001:db8::9");
    let mut packets = vec![
        Packet::new(stranger, SYN, 1, 0).options(&[1, 1, 1, 2, 4, 5, 0xb4, 1]).build(),
        Packet::new(stranger_v6, ACK, 1, 2).options(&TIMESTAMPS).payload(b"open to all").build(),
    ];
    // UDP between the protected addresses.
    let mut udp = Vec::new();
    let builder = etherparse::PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64).udp(179, 179);
    builder.write(&mut udp, b"datagram").unwrap();
    packets.push(udp);
    for packet in packets {
        assert_eq!(outbound(&mut shim, NOW, &packet), Ok(packet.clone()));
        assert_eq!(inbound(&mut shim, NOW, &packet), Ok(packet.clone()));
        // The stack finds a wrong checksum itself.
        let mut altered = packet;
        *altered.last_mut().unwrap() ^= 1;
        assert_eq!(inbound(&mut shim, NOW, &altered), Ok(altered.clone()));
    }
    assert_eq!(*shim.counters(), Counters::default());
}

#[test]
fn what_is_no_packet_is_refused() {
    let mut shim = shim(ipv4_pair(), mkts(&[(1, 2)]), 4);
    let whole = Packet::new(ipv4_pair(), ACK, 1, 1).payload(b"payload").build();
    for length in 0..whole.len() {
        let cut = &whole[..length];
        assert!(matches!(inbound(&mut shim, NOW, cut), Err(Refusal::Malformed(_))), "{length} octets");
        assert!(matches!(outbound(&mut shim, NOW, cut), Err(Refusal::Malformed(_))), "{length} octets");
    }
    assert!(matches!(
        shim.outbound(NOW, &mut [], 99),
        Err(Refusal::Malformed(ParseError::IpTooShort | ParseError::IpVersion(_)))
    ));
    let mut buffer = vec![0; OPTION_ROOM];
    assert!(matches!(
        shim.outbound(NOW, &mut buffer, OPTION_ROOM),
        Err(Refusal::Malformed(ParseError::IpTooShort | ParseError::IpVersion(_)))
    ));
}

#[test]
fn a_packet_whose_tcp_header_is_cut_off_is_refused_in_both_directions() {
    let mut shim = shim(ipv4_pair(), mkts(&[(1, 2)]), 4);
    let whole = Parts::new(ipv4_pair(), ACK, 1, 2).unsigned();
    let mut short_offset = whole.clone();
    short_offset[12] = 0x40;
    let mut long_offset = whole.clone();
    long_offset[12] = 0x60;
    for (tcp, error) in [
        (&whole[..19], ParseError::TcpTooShort),
        (&[], ParseError::TcpTooShort),
        (&short_offset, ParseError::DataOffset),
        (&long_offset, ParseError::TcpTooShort),
    ] {
        let packet = crate::support::packet(ipv4_pair(), tcp);
        assert_eq!(outbound(&mut shim, NOW, &packet), Err(Refusal::Malformed(error)));
        assert_eq!(inbound(&mut shim, NOW, &packet), Err(Refusal::Malformed(error)));
    }
}

/// Without the ISNs there is no key, but what needs no MAC is judged and counted.
#[test]
fn ao_20_a_segment_without_handshake_is_judged_as_far_as_possible() {
    let from = ipv4_pair().reversed();
    let two = [29, 4, 2, 1, 29, 4, 2, 1];
    for (options, refusal, counted) in [
        (&[][..], UNSIGNED, Counters { required: 1, ..Counters::default() }),
        (&[29, 4, 9, 1], unknown_key(9), Counters { key_not_found: 1, ..Counters::default() }),
        (&two, Refusal::Verify(OptionError::TwoAoOptions.into()), Counters { bad: 1, ..Counters::default() }),
        (&[29, 4, 2, 1], Refusal::NoConnection, Counters::default()),
    ] {
        let mut shim = shim(ipv4_pair(), mkts(&[(1, 2)]), 4);
        let segment = Packet::new(from, ACK, 1, 1).options(options).build();
        assert_eq!(inbound(&mut shim, NOW, &segment), Err(refusal));
        assert_eq!((*shim.counters(), *shim.peer_counters(0).unwrap()), (counted, counted));
    }
}

#[test]
fn ao_06_simultaneous_open_works_through_two_shims() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut link = Link::with_ids(pair, &[(1, 2)]);
        let ours = link.client_signs(SYN, CLIENT_ISN, 0).unwrap();
        let theirs = link.server_signs(SYN, SERVER_ISN, 0).unwrap();
        link.client_gets(&theirs).unwrap();
        link.server_gets(&ours).unwrap();
        let ours = link.client_signs(SYN | ACK, CLIENT_ISN, SERVER_ISN + 1).unwrap();
        let theirs = link.server_signs(SYN | ACK, SERVER_ISN, CLIENT_ISN + 1).unwrap();
        link.client_gets(&theirs).unwrap();
        link.server_gets(&ours).unwrap();
        for _ in 0..2 {
            let (forth, back) = (link.client_data(b"forth"), link.server_data(b"back"));
            assert_eq!(link.deliver_to_server(&forth).unwrap(), forth.build());
            assert_eq!(link.deliver_to_client(&back).unwrap(), back.build());
        }
    }
}

/// KeyID and RNextKeyID of a packet.
fn ids(packet: &[u8]) -> (u8, u8) {
    let read = read(packet);
    let option = read.option(29).unwrap();
    (option[0], option[1])
}

#[test]
fn ao_22_keys_roll_over_through_set_mkts_without_a_lost_segment() {
    let mut link = Link::connected(ipv4_pair());
    let exchange = |link: &mut Link| {
        let (forth, back) = (link.client_data(b"forth"), link.server_data(b"back"));
        let (forth, back) = (link.client_sends(&forth).unwrap(), link.server_sends(&back).unwrap());
        link.server_gets(&forth).unwrap();
        link.client_gets(&back).unwrap();
        (ids(&forth), ids(&back))
    };
    let set = |link: &mut Link, is_client: bool, ids: &[(u8, u8)]| match is_client {
        true => link.client.set_mkts(0, mkts(ids)).unwrap(),
        false => link.server.set_mkts(0, mirrored(ids)).unwrap(),
    };
    assert_eq!(exchange(&mut link), ((1, 2), (2, 1)));
    // The client has the new key first; nothing changes until the server has it too.
    set(&mut link, true, &[(1, 2), (3, 4)]);
    assert_eq!(exchange(&mut link), ((1, 2), (2, 1)));
    set(&mut link, false, &[(1, 2), (3, 4)]);
    assert_eq!(exchange(&mut link), ((1, 2), (2, 1)));
    // The client prefers the new key and asks for it; the server obeys.
    set(&mut link, true, &[(3, 4), (1, 2)]);
    assert_eq!(exchange(&mut link), ((1, 4), (2, 1)));
    assert_eq!(exchange(&mut link), ((1, 4), (4, 1)));
    set(&mut link, false, &[(3, 4), (1, 2)]);
    exchange(&mut link);
    assert_eq!(exchange(&mut link), ((3, 4), (4, 3)));
    // The old key is removed.
    set(&mut link, true, &[(3, 4)]);
    set(&mut link, false, &[(3, 4)]);
    assert_eq!(exchange(&mut link), ((3, 4), (4, 3)));
    let counters = link.server.counters();
    assert_eq!((counters.bad, counters.key_not_found), (0, 0));
}

#[test]
fn ao_23_a_late_segment_of_the_previous_key_verifies_until_that_key_is_removed() {
    let mut link = Link::connected(ipv4_pair());
    let late = link.client_sends(&link.client_data(b"late")).unwrap();
    link.server.set_mkts(0, mirrored(&[(3, 4), (1, 2)])).unwrap();
    link.server_gets(&late).unwrap();
    link.server.set_mkts(0, mirrored(&[(3, 4)])).unwrap();
    let refusal = link.server_gets(&late);
    assert_eq!(refusal, Err(unknown_key(1)));
}

#[test]
fn ao_26_keys_change_in_the_midst_of_a_handshake() {
    let pair = ipv4_pair();
    let mut link = Link::with_ids(pair, &[(1, 2)]);
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    link.server.set_mkts(0, mirrored(&[(3, 4), (1, 2)])).unwrap();
    link.back(SYN | ACK, SERVER_ISN, CLIENT_ISN + 1).unwrap();
    link.client.set_mkts(0, mkts(&[(3, 4), (1, 2)])).unwrap();
    for _ in 0..3 {
        let (forth, back) = (link.client_data(b"forth"), link.server_data(b"back"));
        link.deliver_to_server(&forth).unwrap();
        link.deliver_to_client(&back).unwrap();
    }
    assert_eq!(link.client.connection(&pair).unwrap().current_key().send_id, KeyId(3));
}

/// Options that both ends pass unchanged: no AO, no MD5, no SACK, no Multipath TCP.
fn options(max_length: usize) -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![Just(2u8), 3u8..5, 6u8..19, 20u8..29, 31u8..=255];
    let option = (kind, vec(any::<u8>(), 0..12), 0usize..4)
        .prop_map(|(kind, data, nops)| [&vec![1; nops][..], &[kind, data.len() as u8 + 2], &data].concat());
    vec(option, 0..5)
        .prop_map(|options| options.concat())
        .prop_filter("too long", move |octets| octets.len() <= max_length)
}

fn packet() -> impl Strategy<Value = Packet> {
    // On a SYN the shim changes the MSS, and an open connection cannot send one.
    let flags = any::<u8>().prop_map(|flags| flags & !SYN);
    let numbers = (any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>());
    (flags, numbers, options(20), vec(any::<u8>(), 0..1400)).prop_map(|(flags, numbers, options, payload)| {
        let mut packet =
            Packet::new(ipv4_pair(), flags, numbers.0, numbers.1).options(&options).payload(&payload);
        (packet.tcp.window_size, packet.tcp.urgent_pointer) = (numbers.2, numbers.3);
        packet
    })
}

/// Everything but where the options are, the checksum, and the data offset.
fn essence(packet: &[u8]) -> Read {
    let mut read = read(packet);
    read.header.options = TcpOptions::new();
    read.header.checksum = 0;
    read
}

fn mkt_set(
    send: u8,
    recv: u8,
    algorithm: TcpAoAlgorithm,
    mac_length: usize,
    coverage: OptionCoverage,
) -> MktSet<4> {
    let mkt = mkt(send, recv, algorithm).with_mac_length(mac_length).unwrap().with_options(coverage);
    MktSet::from_mkts([mkt]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ao_35_what_goes_in_comes_out(
        is_ipv6: bool,
        algorithm in proptest::sample::select(&TcpAoAlgorithm::ALL[..]),
        mac_length in 4usize..=16,
        is_covered: bool,
        packets in vec((any::<bool>(), packet()), 1..12),
    ) {
        let pair = if is_ipv6 { ipv6_pair() } else { ipv4_pair() };
        let coverage = if is_covered { OptionCoverage::Covered } else { OptionCoverage::Excluded };
        let set = |send, recv| mkt_set(send, recv, algorithm, mac_length, coverage);
        let mut link = Link::with_mkts(pair, set(1, 2), set(2, 1));
        link.connect(pair);
        for (is_clients, packet) in packets {
            let packet = Packet { pair: if is_clients { pair } else { pair.reversed() }, ..packet };
            let delivered = if is_clients { link.deliver_to_server(&packet) } else { link.deliver_to_client(&packet) };
            prop_assert_eq!(essence(&delivered.unwrap()), essence(&packet.build()));
        }
        let refused = link.client_emits(&Packet::new(pair, SYN, CLIENT_ISN, 0).build());
        prop_assert!(refused.is_err(), "an open connection's SYN is not signed again");
    }
}

#[test]
fn ao_38_a_connection_moves_from_one_shim_to_another() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut link = Link::connected(pair);
        link.deliver_to_server(&link.client_data(b"before")).unwrap();
        let state = link.server.export(&pair.reversed()).unwrap();
        assert_eq!(link.server.export(&pair.reversed()), None);
        // The new place has the same peer and keys, and of the connection only its state.
        link.server = shim(pair.reversed(), mirrored(&[(1, 2)]), 1);
        let after = link.client_data(b"after");
        assert_eq!(link.deliver_to_server(&after), Err(Refusal::NoConnection));
        let connection = Connection::import(&state, &link.server.peer(0).unwrap().mkts).unwrap();
        link.server.adopt(link.now, connection).unwrap();
        link.deliver_to_server(&after).unwrap();
        assert_eq!(link.server.counters().bad, 0);
        let stranger =
            ConnectionState { pair: crate::support::pair("198.51.100.1", "198.51.100.2"), ..state };
        let stranger = Connection::import(&stranger, &link.server.peer(0).unwrap().mkts).unwrap();
        assert_eq!(link.server.adopt(link.now, stranger), Err(Refusal::NoPeer));
    }
}
