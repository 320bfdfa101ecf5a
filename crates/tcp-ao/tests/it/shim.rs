//! What the shim lets through and what it does not: the rows of the conformance list that it is answerable for.

use std::time::Duration;

use crate::shim_support::{
    CLIENT_ISN, Link, Packet, SERVER_ISN, hash_key, inbound, outbound, peer, read, shim, slots, with_ports,
};
use crate::support::{ACK, FIN, RST, SYN, TIMESTAMPS, ipv4_pair, ipv6_pair, mirrored, mkts, pair};
use wireseal_tcp_ao::shim::{OPTION_ROOM, Refusal, Shim, ShimConfig, Unmatched};
use wireseal_tcp_ao::{
    Connection, ConnectionIdentifier, Counters, KeyId, MktSet, OptionError, ParseError, Peer, SignError,
    VerifyError,
};

const NOW: Duration = Duration::from_secs(5);

fn both_versions() -> [wireseal_tcp_ao::SocketPair; 2] {
    [ipv4_pair(), ipv6_pair()]
}

#[test]
fn ao_20_an_unknown_key_id_is_counted_apart_from_a_bad_mac() {
    let mut link = Link::connected(ipv4_pair());
    let before = *link.server.counters();
    let data = link.client_data(b"data");
    let signed = link.client_sends(&data).unwrap();
    let key_id_at = 40 + 2;
    assert_eq!(signed[key_id_at - 2], 29);

    let mut unknown = signed.clone();
    unknown[key_id_at] = 77;
    refresh_checksum(&mut unknown);
    let refusal = inbound(&mut link.server, link.now, &unknown);
    assert_eq!(refusal, Err(Refusal::Verify(VerifyError::UnknownKeyId(KeyId(77)))));
    assert_eq!(*link.server.counters(), Counters { key_not_found: before.key_not_found + 1, ..before });

    let mut bad = signed;
    *bad.last_mut().unwrap() ^= 1;
    refresh_checksum(&mut bad);
    let refusal = inbound(&mut link.server, link.now, &bad);
    assert_eq!(refusal, Err(Refusal::Verify(VerifyError::BadMac { key_id: KeyId(1) })));
    assert_eq!(link.server.counters().bad, before.bad + 1);
}

/// Makes the TCP checksum of an IPv4 packet without options right again, so that the MAC is what is judged.
fn refresh_checksum(packet: &mut [u8]) {
    let tcp = etherparse::TcpSlice::from_slice(&packet[20..]).unwrap();
    let [a, b, c, d, e, f, g, h] = packet[12..20] else { panic!("no IPv4 header") };
    let sum = tcp.calc_checksum_ipv4([a, b, c, d], [e, f, g, h]).unwrap();
    packet[36..38].copy_from_slice(&sum.to_be_bytes());
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
                assert_eq!(
                    inbound(shim, NOW, &forged),
                    Err(Refusal::Verify(VerifyError::Unsigned)),
                    "{flags:#x}"
                );
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
        assert_eq!(refusal, Err(Refusal::Verify(VerifyError::Unsigned)));
    }
}

#[test]
fn a_peer_with_mapped_addresses_is_protected_like_its_ipv4_self() {
    let net = |text: &str| text.parse().unwrap();
    let connections = ConnectionIdentifier::between(net("::ffff:192.0.2.1"), net("::ffff:192.0.2.0/120"));
    let mapped = Peer { connections, mkts: mkts(&[(1, 2)]) };
    assert!(connections.overlaps(&ConnectionIdentifier::between(net("192.0.2.1"), net("192.0.2.2"))));
    let mut shim = Shim::new(ShimConfig::new(1500), hash_key(), vec![mapped.into()], slots(1)).unwrap();
    let unsigned = Packet::new(ipv4_pair().reversed(), RST, 1, 0).build();
    assert_eq!(inbound(&mut shim, NOW, &unsigned), Err(Refusal::Verify(VerifyError::Unsigned)));
    let signed = outbound(&mut shim, NOW, &Packet::new(ipv4_pair(), SYN, 1, 0).build()).unwrap();
    assert!(read(&signed).is_signed());
    let stranger = Packet::new(pair("192.0.2.1", "192.0.3.2").reversed(), RST, 1, 0).build();
    assert!(inbound(&mut shim, NOW, &stranger).is_ok());
}

#[test]
fn ao_21_a_peer_of_all_ipv6_addresses_leaves_no_mapped_one_out() {
    let net = |text: &str| text.parse().unwrap();
    let connections = ConnectionIdentifier::between(net("2001:db8::1"), net("::/0"));
    let mut shim = Shim::new(
        ShimConfig::new(1500),
        hash_key(),
        vec![Peer { connections, mkts: mkts(&[(1, 2)]) }.into()],
        slots(1),
    )
    .unwrap();
    // An unsigned SYN over IPv6, put together by hand since its source is no address for the wire.
    let mut packet = Packet::new(pair("2001:db8::2", "2001:db8::1"), SYN, 1, 0).build();
    let mapped: std::net::Ipv6Addr = "::ffff:198.51.100.7".parse().unwrap();
    packet[8..24].copy_from_slice(&mapped.octets());
    packet[56..58].fill(0);
    let local: std::net::IpAddr = "2001:db8::1".parse().unwrap();
    let sum = wireseal_tcp_ao::checksum::tcp(mapped.into(), local, &packet[40..]);
    packet[56..58].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(inbound(&mut shim, NOW, &packet), Err(Refusal::Verify(VerifyError::Unsigned)));
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
        // The stack's own mistakes come back to it, and go nowhere.
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

/// Damage on the way is no attack, and nobody's key is missing.
#[test]
fn ao_20_a_damaged_segment_is_refused_and_not_counted_as_one_without_a_key() {
    let pair = ipv4_pair();
    let mut link = Link::connected(pair);
    let signed = link.client_sends(&link.client_data(b"data")).unwrap();
    let mut without_peers = Shim::new(ShimConfig::new(1500), hash_key(), Vec::new(), slots(1)).unwrap();
    let from_elsewhere = link.client_sends(&Packet::new(with_ports(pair, 5, 179), SYN, 1, 0)).unwrap();
    // The KeyID, the kind of the option, the port, the IPv4 header, the payload.
    for at in [42, 40, 21, 8, signed.len() - 1] {
        for (has_peer, packet) in [(false, &signed), (true, &signed), (true, &from_elsewhere)] {
            let shim = if has_peer { &mut link.server } else { &mut without_peers };
            let mut damaged = packet.clone();
            damaged[at.min(packet.len() - 1)] ^= 0x20;
            let passes = at == 40 && !has_peer;
            let verdict = inbound(shim, link.now, &damaged);
            // What has no option to judge passes to a stack that checks for itself.
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
    // Undamaged, it is.
    assert_eq!(inbound(&mut without_peers, link.now, &signed), Err(Refusal::NoPeer));
    assert_eq!(without_peers.counters().key_not_found, 1);
}

#[test]
fn ao_26_the_expiry_of_one_peers_chain_leaves_the_others_alone() {
    let (first, second) = (pair("192.0.2.1", "192.0.2.2"), pair("192.0.2.1", "192.0.2.3"));
    let peers = vec![peer(first, mkts(&[(1, 2)])), peer(second, mkts(&[(3, 4)]))];
    let mut shim = Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(4)).unwrap();
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
        let unsigned = inbound(&mut link.server, link.now, &reset.build());
        assert_eq!(unsigned, Err(Refusal::Verify(VerifyError::Unsigned)));
        let delivered = inbound(&mut link.server, link.now, &forged).unwrap();
        assert_eq!(delivered, reset.build());
        *forged.last_mut().unwrap() ^= 0x80;
        assert_eq!(inbound(&mut link.server, link.now, &forged), Err(Refusal::Checksum));
    }
}

#[test]
fn ao_32_a_listeners_refusal_verifies_and_leaves_nothing() {
    for pair in both_versions() {
        let mut link = Link::with_ids(pair, &[(1, 2)]);
        link.deliver_to_server(&Packet::new(pair, SYN, CLIENT_ISN, 0)).unwrap();
        let reset = Packet::new(pair.reversed(), RST | ACK, 0, CLIENT_ISN + 1);
        assert_eq!(link.deliver_to_client(&reset).unwrap(), reset.build());
        assert_eq!(link.server.connections().count(), 0);
        // The port is free for another attempt, at both ends.
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
        link.now += Duration::from_secs(60);
        assert_eq!(link.deliver_to_client(&finish_back).unwrap(), finish_back.build());
        assert_eq!(link.deliver_to_server(&last).unwrap(), last.build());
        let forged = inbound(&mut link.client, link.now, &finish_back.build());
        assert_eq!(forged, Err(Refusal::Verify(VerifyError::Unsigned)));
    }
}

#[test]
fn ao_18_a_wrong_checksum_of_tcp_or_ipv4_is_not_laundered() {
    for pair in both_versions() {
        let mut link = Link::connected(pair);
        let data = link.client_data(b"octets");
        let signed = link.client_sends(&data).unwrap();
        let counters = *link.server.counters();
        // The last octet of the payload, and an octet of the IPv4 header that TCP's checksum does not see.
        let headers: &[usize] = if pair.local.address().is_ipv4() { &[1, 4, 8] } else { &[] };
        for at in headers.iter().copied().chain([signed.len() - 1]) {
            let mut altered = signed.clone();
            altered[at] ^= 0x10;
            assert_eq!(inbound(&mut link.server, link.now, &altered), Err(Refusal::Checksum), "octet {at}");
        }
        assert_eq!(*link.server.counters(), counters);
        assert_eq!(read(&inbound(&mut link.server, link.now, &signed).unwrap()).payload, b"octets");
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
fn a_stack_that_signs_already_is_refused() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0);
    let signed = link.client_sends(&syn).unwrap();
    assert_eq!(outbound(&mut link.client, NOW, &signed), Err(Refusal::AlreadySigned));
    let md5 = syn.options(&[&[19, 18][..], &[7; 16]].concat()).build();
    assert_eq!(outbound(&mut link.client, NOW, &md5), Err(Refusal::AlreadySigned));
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
        // A checksum that is wrong is the stack's to find.
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
