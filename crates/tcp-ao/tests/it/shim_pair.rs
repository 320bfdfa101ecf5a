//! Two shims back to back: what goes into the one comes out of the other.

use crate::shim_support::{CLIENT_ISN, Link, Packet, Read, SERVER_ISN, inbound, outbound, read};
use crate::support::{ACK, SYN, ipv4_pair, ipv6_pair, mirrored, mkt, mkts};
use etherparse::TcpOptions;
use proptest::collection::vec;
use proptest::prelude::*;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::shim::Refusal;
use wireseal_tcp_ao::{Connection, KeyId, MktSet, OptionCoverage, VerifyError};

#[test]
fn ao_06_simultaneous_open_works_through_two_shims() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut link = Link::with_ids(pair, &[(1, 2)]);
        let back = pair.reversed();
        let ours = link.client_sends(&Packet::new(pair, SYN, CLIENT_ISN, 0)).unwrap();
        let theirs = link.server_sends(&Packet::new(back, SYN, SERVER_ISN, 0)).unwrap();
        inbound(&mut link.client, link.now, &theirs).unwrap();
        inbound(&mut link.server, link.now, &ours).unwrap();
        let ours = link.client_sends(&Packet::new(pair, SYN | ACK, CLIENT_ISN, SERVER_ISN + 1)).unwrap();
        let theirs = link.server_sends(&Packet::new(back, SYN | ACK, SERVER_ISN, CLIENT_ISN + 1)).unwrap();
        inbound(&mut link.client, link.now, &theirs).unwrap();
        inbound(&mut link.server, link.now, &ours).unwrap();
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
        inbound(&mut link.server, link.now, &forth).unwrap();
        inbound(&mut link.client, link.now, &back).unwrap();
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
    // The client prefers the new key: it asks for it, and the server obeys.
    set(&mut link, true, &[(3, 4), (1, 2)]);
    assert_eq!(exchange(&mut link), ((1, 4), (2, 1)));
    assert_eq!(exchange(&mut link), ((1, 4), (4, 1)));
    set(&mut link, false, &[(3, 4), (1, 2)]);
    exchange(&mut link);
    assert_eq!(exchange(&mut link), ((3, 4), (4, 3)));
    // The old key goes.
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
    inbound(&mut link.server, link.now, &late).unwrap();
    link.server.set_mkts(0, mirrored(&[(3, 4)])).unwrap();
    let refusal = inbound(&mut link.server, link.now, &late);
    assert_eq!(refusal, Err(Refusal::Verify(VerifyError::UnknownKeyId(KeyId(1)))));
}

#[test]
fn ao_26_keys_change_in_the_midst_of_a_handshake() {
    let pair = ipv4_pair();
    let mut link = Link::with_ids(pair, &[(1, 2)]);
    link.deliver_to_server(&Packet::new(pair, SYN, CLIENT_ISN, 0)).unwrap();
    link.server.set_mkts(0, mirrored(&[(3, 4), (1, 2)])).unwrap();
    link.deliver_to_client(&Packet::new(pair.reversed(), SYN | ACK, SERVER_ISN, CLIENT_ISN + 1)).unwrap();
    link.client.set_mkts(0, mkts(&[(3, 4), (1, 2)])).unwrap();
    for _ in 0..3 {
        let (forth, back) = (link.client_data(b"forth"), link.server_data(b"back"));
        link.deliver_to_server(&forth).unwrap();
        link.deliver_to_client(&back).unwrap();
    }
    assert_eq!(link.client.connection(&pair).unwrap().current_key().send_id, KeyId(3));
}

/// Options that both ends hand through as they are: no AO, no MD5, no SACK.
fn options(max_length: usize) -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![Just(2u8), 3u8..5, 6u8..19, 20u8..29, 30u8..=255];
    let option = (kind, vec(any::<u8>(), 0..12), 0usize..4)
        .prop_map(|(kind, data, nops)| [&vec![1; nops][..], &[kind, data.len() as u8 + 2], &data].concat());
    vec(option, 0..5)
        .prop_map(|options| options.concat())
        .prop_filter("too long", move |octets| octets.len() <= max_length)
}

fn packet() -> impl Strategy<Value = Packet> {
    // On a SYN the MSS changes, and an open connection has none to send.
    let flags = any::<u8>().prop_map(|flags| flags & !SYN);
    let numbers = (any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>());
    (flags, numbers, options(20), vec(any::<u8>(), 0..1400)).prop_map(|(flags, numbers, options, payload)| {
        let mut packet =
            Packet::new(ipv4_pair(), flags, numbers.0, numbers.1).options(&options).payload(&payload);
        (packet.tcp.window_size, packet.tcp.urgent_pointer) = (numbers.2, numbers.3);
        packet
    })
}

/// Everything but where the options stand and what they make of the checksum and the data offset.
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
        let refused = outbound(&mut link.client, link.now, &Packet::new(pair, SYN, CLIENT_ISN, 0).build());
        prop_assert!(refused.is_err(), "an open connection's SYN is not signed again");
    }
}

#[test]
fn ao_38_a_connection_moves_from_one_shim_to_another() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut link = Link::connected(pair);
        let data = link.client_data(b"before");
        link.deliver_to_server(&data).unwrap();
        let state = link.server.export(&pair.reversed()).unwrap();
        assert_eq!(link.server.export(&pair.reversed()), None);
        // The new place knows the same peer and has the same keys, and nothing else but the state.
        link.server = crate::shim_support::shim(pair.reversed(), crate::support::mirrored(&[(1, 2)]), 1);
        let after = link.client_data(b"after");
        assert_eq!(link.deliver_to_server(&after), Err(Refusal::NoConnection));
        let connection = Connection::import(&state, &link.server.peer(0).unwrap().mkts).unwrap();
        link.server.adopt(link.now, connection).unwrap();
        link.deliver_to_server(&after).unwrap();
        assert_eq!(link.server.counters().bad, 0);
        let stranger = wireseal_tcp_ao::ConnectionState {
            pair: crate::support::pair("198.51.100.1", "198.51.100.2"),
            ..state
        };
        let stranger = Connection::import(&stranger, &link.server.peer(0).unwrap().mkts).unwrap();
        assert_eq!(link.server.adopt(link.now, stranger), Err(Refusal::NoPeer));
    }
}
