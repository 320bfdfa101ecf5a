//! What attackers, clocks and large tables must not do to sessions of the shim.

use std::time::Duration;

use crate::shim_support::{
    CLIENT_ISN, Link, Packet, SERVER_ISN, TestShim, hash_key, inbound, outbound, peer, shim, slots,
    with_ports,
};
use crate::support::{ACK, FIN, RST, SYN, ipv4_pair, mirrored, mkt, mkt_with_secret, mkts, pair};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::shim::{PeerSlot, Refusal, Shim, ShimConfig};
use wireseal_tcp_ao::{
    Connection, ConnectionIdentifier, Isn, KeyId, MktSet, Peer, PeerError, SocketPair, VerifyError,
};

const NOW: Duration = Duration::from_secs(10);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A SYN that the client's host has signed on another day, from the same port.
fn recorded_syn(isn: u32) -> Vec<u8> {
    let mut earlier = shim(ipv4_pair(), mkts(&[(1, 2)]), 1);
    outbound(&mut earlier, NOW, &Packet::new(ipv4_pair(), SYN, isn, 0).build()).unwrap()
}

#[test]
fn a_replayed_syn_does_not_disturb_a_handshake() {
    for replays in [1, 5] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        link.deliver_to_server(&Packet::new(link.pair, SYN, CLIENT_ISN, 0)).unwrap();
        for isn in 0..replays {
            inbound(&mut link.server, link.now, &recorded_syn(7000 + isn)).unwrap();
        }
        // The stack is in SYN-RECEIVED and answers the first SYN.
        let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, SERVER_ISN, CLIENT_ISN + 1);
        link.deliver_to_client(&syn_ack).unwrap();
        inbound(&mut link.server, link.now, &recorded_syn(8000)).unwrap();
        let ack = Packet::new(link.pair, ACK, CLIENT_ISN + 1, SERVER_ISN + 1);
        link.deliver_to_server(&ack).unwrap();
        assert!(link.server.connection(&link.pair.reversed()).unwrap().is_established());
        link.deliver_to_client(&link.server_data(b"data")).unwrap();
    }
}

#[test]
fn a_stack_that_drops_a_replayed_syn_answers_the_genuine_one_with_the_key_it_asks_for() {
    // The replay is of a time when another key, of another length, was in use.
    let key = |send_id, recv_id, algorithm, length| {
        mkt(send_id, recv_id, algorithm).with_mac_length(length).unwrap()
    };
    let client = [key(1, 2, TcpAoAlgorithm::Aes128Cmac, 16), key(3, 4, TcpAoAlgorithm::HmacSha1, 12)];
    let server = [key(2, 1, TcpAoAlgorithm::Aes128Cmac, 16), key(4, 3, TcpAoAlgorithm::HmacSha1, 12)];
    let only_new = MktSet::from_mkts([client[1].clone()]).unwrap();
    let mut link = Link::with_mkts(ipv4_pair(), only_new, MktSet::from_mkts(server).unwrap());
    let mut earlier = shim(ipv4_pair(), MktSet::from_mkts([client[0].clone()]).unwrap(), 1);
    let old = outbound(&mut earlier, NOW, &Packet::new(ipv4_pair(), SYN, 7000, 0).build()).unwrap();
    inbound(&mut link.server, link.now, &old).unwrap();
    let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, 1, 7001);
    link.server_sends(&syn_ack).unwrap();
    link.connect(ipv4_pair());
    link.deliver_to_client(&link.server_data(b"data")).unwrap();
}

#[test]
fn a_repeated_syn_may_get_another_isn_and_a_listener_that_is_gone_resets_it() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let (pair, back) = (link.pair, link.pair.reversed());
    let syn = Packet::new(pair, SYN, CLIENT_ISN, 0);
    link.deliver_to_server(&syn).unwrap();
    link.server_sends(&Packet::new(back, SYN | ACK, 0x4000, CLIENT_ISN + 1)).unwrap();
    link.deliver_to_server(&syn).unwrap();
    link.server_sends(&Packet::new(back, SYN | ACK, 0x5000, CLIENT_ISN + 1)).unwrap();
    link.deliver_to_server(&syn).unwrap();
    let reset = Packet::new(back, RST | ACK, 0, CLIENT_ISN + 1);
    link.deliver_to_client(&reset).unwrap();
}

/// A server with so many connections, which is full, and the same number of peers.
fn full(count: u32) -> (TestShim, TestShim) {
    let pair = |number: u32| address_pair(number);
    let peers = |is_client: bool| -> Vec<PeerSlot> {
        let peers = (0..count).map(|number| {
            if is_client {
                peer(pair(number), mkts(&[(1, 2)]))
            } else {
                peer(pair(number).reversed(), mirrored(&[(1, 2)]))
            }
        });
        peers.collect()
    };
    let new = |peers| Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(count as usize)).unwrap();
    let (mut client, mut server) = (new(peers(true)), new(peers(false)));
    for number in 0..count {
        let syn = outbound(&mut client, NOW, &Packet::new(pair(number), SYN, 1, 0).build()).unwrap();
        inbound(&mut server, NOW, &syn).unwrap();
        let syn_ack = Packet::new(pair(number).reversed(), SYN | ACK, 1, 2).build();
        let syn_ack = outbound(&mut server, NOW, &syn_ack).unwrap();
        inbound(&mut client, NOW, &syn_ack).unwrap();
        let ack = outbound(&mut client, NOW, &Packet::new(pair(number), ACK, 2, 2).build()).unwrap();
        inbound(&mut server, NOW, &ack).unwrap();
    }
    (client, server)
}

fn address_pair(number: u32) -> SocketPair {
    let [_, b, c, d] = number.to_be_bytes();
    pair(&format!("10.{b}.{c}.{d}"), "192.0.2.2")
}

#[test]
fn a_full_table_loses_nobody_to_replays_and_strangers() {
    let count = 500;
    let (mut client, mut server) = full(count);
    let mut earlier = shim(address_pair(7), mkts(&[(1, 2)]), 1);
    for port in 0..1000 {
        let pair = with_ports(address_pair(7), port, 179);
        let replay = outbound(
            &mut earlier,
            NOW + seconds(20 * u64::from(port)),
            &Packet::new(pair, SYN, 1, 0).build(),
        );
        assert_eq!(inbound(&mut server, NOW, &replay.unwrap()), Err(Refusal::TableFull));
        assert!(inbound(&mut server, NOW, &Packet::new(pair, ACK, 1, 1).build()).is_err());
    }
    for number in 0..count {
        let data = outbound(&mut client, NOW, &Packet::new(address_pair(number), ACK, 2, 2).build()).unwrap();
        inbound(&mut server, NOW, &data).unwrap();
    }
}

#[test]
fn a_peer_that_died_after_our_fin_makes_way() {
    let mut link = Link::connected(ipv4_pair());
    let recorded = link.client_sends(&link.client_data(b"recorded")).unwrap();
    inbound(&mut link.server, link.now, &recorded).unwrap();
    let fin = Packet::new(link.pair.reversed(), FIN | ACK, SERVER_ISN + 1, CLIENT_ISN + 9);
    let start = link.now;
    // The FIN again and again, and a replay from time to time, which makes no progress.
    for after in [0, 1, 3, 100, 200] {
        outbound(&mut link.server, start + seconds(after), &fin.build()).unwrap();
        inbound(&mut link.server, start + seconds(after), &recorded).unwrap();
    }
    link.server.expire(start + seconds(239));
    assert_eq!(link.server.connections().count(), 1);
    link.server.expire(start + seconds(240));
    assert_eq!(link.server.connections().count(), 0);
}

#[test]
fn replays_keep_no_dead_session_in_its_place() {
    let mut link = Link::connected(ipv4_pair());
    let recorded = link.client_sends(&link.client_data(b"recorded")).unwrap();
    inbound(&mut link.server, link.now, &recorded).unwrap();
    let start = link.now;
    inbound(&mut link.server, start + seconds(2 * 3600), &recorded).unwrap();
    link.server.expire(start + seconds(3 * 3600));
    assert_eq!(link.server.connections().count(), 0);
}

#[test]
fn our_unanswered_syns_make_way_for_a_live_peer() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let start = link.now;
    for number in 0..8 {
        let syn = Packet::new(with_ports(ipv4_pair().reversed(), 5000 + number, 179), SYN, 1, 0).build();
        outbound(&mut link.server, start + seconds(9 * u64::from(number)), &syn).unwrap();
    }
    link.now = start + seconds(72);
    link.connect(ipv4_pair());
    // One that is young keeps its place.
    assert_eq!(link.server.connections().count(), 8);
    assert!(link.server.connection(&with_ports(ipv4_pair().reversed(), 5007, 179)).is_some());
}

#[test]
fn the_end_that_closed_second_takes_any_other_isn() {
    let mut link = Link::connected(ipv4_pair());
    let (pair, back) = (link.pair, link.pair.reversed());
    link.deliver_to_server(&Packet::new(pair, FIN | ACK, CLIENT_ISN + 1, SERVER_ISN + 1)).unwrap();
    link.deliver_to_client(&Packet::new(back, FIN | ACK, SERVER_ISN + 1, CLIENT_ISN + 2)).unwrap();
    link.deliver_to_server(&Packet::new(pair, ACK, CLIENT_ISN + 2, SERVER_ISN + 2)).unwrap();
    inbound(&mut link.server, link.now, &recorded_syn(CLIENT_ISN - 1000)).unwrap();
}

fn identifier(remote: &str) -> ConnectionIdentifier {
    ConnectionIdentifier::between("192.0.2.1/32".parse().unwrap(), remote.parse().unwrap())
}

#[test]
fn the_most_specific_peer_decides_and_then_the_key_id() {
    let remotes = ["192.0.2.0/24", "0.0.0.0/0", "192.0.2.2/32"];
    let peers = remotes.iter().zip([3, 5, 1]).map(|(remote, id)| {
        PeerSlot::from(Peer { connections: identifier(remote), mkts: mkts(&[(id, id + 1)]) })
    });
    let mut shim = Shim::new(ShimConfig::new(1500), hash_key(), peers.collect::<Vec<_>>(), slots(4)).unwrap();
    for (remote, id) in [("192.0.2.2", 1), ("192.0.2.9", 3), ("203.0.113.1", 5)] {
        let syn = Packet::new(pair("192.0.2.1", remote), SYN, 1, 0).build();
        let signed = outbound(&mut shim, NOW, &syn).unwrap();
        let read = crate::shim_support::read(&signed);
        assert_eq!(read.option(29).unwrap()[0], id, "{remote}");
    }
    // Of two that are equally specific, the KeyID decides; a key of a wider prefix is not for this one.
    let another = Peer { connections: identifier("192.0.2.2/32"), mkts: mkts(&[(7, 8)]) };
    let peers: Vec<PeerSlot> =
        shim.peers().map(|(_, peer)| peer.clone().into()).chain([another.into()]).collect();
    let mut shim = Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(4)).unwrap();
    let from = pair("192.0.2.2", "192.0.2.1");
    for (ids, is_its) in [((1, 2), true), ((7, 8), true), ((3, 4), false)] {
        let mut other = crate::shim_support::shim(from, mirrored(&[ids]), 1);
        let syn = outbound(&mut other, NOW, &Packet::new(from, SYN, 1, 0).build()).unwrap();
        assert_eq!(inbound(&mut shim, NOW, &syn).is_ok(), is_its);
        shim.forget(&from.reversed());
    }
    // Without keys, the specific peer is closed, whatever the wider ones have.
    shim.set_mkts(2, MktSet::new()).unwrap();
    shim.set_mkts(3, MktSet::new()).unwrap();
    let mut other = crate::shim_support::shim(from, mirrored(&[(3, 4)]), 1);
    let syn = outbound(&mut other, NOW, &Packet::new(from, SYN, 1, 0).build()).unwrap();
    assert_eq!(inbound(&mut shim, NOW, &syn), Err(Refusal::NoKey));
}

#[test]
fn peers_come_and_go_while_the_shim_runs() {
    let peers: Vec<PeerSlot> = (0..2).map(|_| PeerSlot::EMPTY).collect();
    let mut shim = Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(4)).unwrap();
    let unsigned = |remote: &str| Packet::new(pair(remote, "192.0.2.1"), RST, 1, 0).build();
    let required = Err(Refusal::Verify(VerifyError::Unsigned));
    assert!(inbound(&mut shim, NOW, &unsigned("192.0.2.2")).is_ok());
    let host = Peer { connections: identifier("192.0.2.2/32"), mkts: mkts(&[(1, 2)]) };
    assert_eq!(shim.add_peer(host.clone()), Ok(0));
    assert_eq!(inbound(&mut shim, NOW, &unsigned("192.0.2.2")), required);
    assert_eq!(shim.peer_counters(0).unwrap().required, 1);
    // Another for the same connections needs other ids.
    let wide = Peer { connections: identifier("192.0.2.0/24"), mkts: mkts(&[(1, 3)]) };
    assert!(matches!(shim.add_peer(host.clone()), Err(PeerError::Overlap { peer: 1, other: 0, .. })));
    outbound(&mut shim, NOW, &Packet::new(pair("192.0.2.1", "192.0.2.2"), SYN, 1, 0).build()).unwrap();
    assert_eq!(shim.remove_peer(0).unwrap().connections, host.connections);
    assert_eq!((shim.connections().count(), shim.remove_peer(0).is_err()), (0, true));
    assert_eq!(shim.add_peer(wide.clone()), Ok(0));
    assert_eq!(inbound(&mut shim, NOW, &unsigned("192.0.2.77")), required);
    let another = Peer { mkts: mkts(&[(7, 8)]), ..wide };
    assert_eq!(shim.add_peer(another.clone()), Ok(1));
    assert!(matches!(shim.set_mkts(1, mkts(&[(1, 8)])), Err(PeerError::Overlap { .. })));
    assert_eq!(shim.add_peer(another), Err(PeerError::TooMany { room: 2 }));
}

#[test]
fn a_peer_that_is_added_takes_over_the_connections_of_a_wider_one() {
    let server = |mkts| Peer { connections: server_identifier("192.0.2.0/24"), mkts };
    let host = |mkts| Peer { connections: server_identifier("192.0.2.1/32"), mkts };
    let connected = |also: u16| {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        let peers = vec![server(mirrored(&[(1, 2)])).into(), PeerSlot::EMPTY];
        link.server = Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(4)).unwrap();
        link.connect(ipv4_pair());
        link.deliver_to_server(&Packet::new(with_ports(ipv4_pair(), also, 179), SYN, 1, 0)).unwrap();
        link
    };
    // Whoever has the wider peer's key cannot speak for it any more.
    let mut link = connected(7);
    assert_eq!(link.server.add_peer(host(mirrored(&[(7, 8)]))), Ok(1));
    let refused = link.deliver_to_server(&link.client_data(b"under the wider peer's key"));
    assert_eq!(refused, Err(Refusal::Verify(VerifyError::UnknownKeyId(KeyId(1)))));
    assert!(link.server.connections_with_peers().all(|(peer, _)| peer == 1));
    assert_eq!(
        (
            link.server.peer_counters(0).unwrap().key_not_found,
            link.server.peer_counters(1).unwrap().key_not_found
        ),
        (0, 1)
    );
    // With the key at the other end too, the session goes on.
    link.client.set_mkts(0, mkts(&[(7, 8)])).unwrap();
    link.deliver_to_server(&link.client_data(b"under the new one")).unwrap();
    // It is the new peer's in every way.
    link.server.remove_peer(0).unwrap();
    assert_eq!(link.server.connections().count(), 2);
    link.server.remove_peer(1).unwrap();
    assert_eq!(link.server.connections().count(), 0);
    // One without keys is closed, and one for other ports or hosts takes nothing.
    let mut link = connected(7);
    link.server.add_peer(host(MktSet::new())).unwrap();
    assert_eq!(link.server.connections().count(), 0);
    let mut link = connected(7);
    let port = ConnectionIdentifier { remote_port: Some(7), ..server_identifier("192.0.2.1/32") };
    link.server.add_peer(Peer { connections: port, mkts: mirrored(&[(7, 8)]) }).unwrap();
    let peers: Vec<_> = link
        .server
        .connections_with_peers()
        .map(|(peer, connection)| (connection.pair().remote.port(), peer))
        .collect();
    assert!(peers.contains(&(7, 1)) && peers.contains(&(49_152, 0)), "{peers:?}");
    link.deliver_to_server(&link.client_data(b"still the wider peer's")).unwrap();
}

fn server_identifier(remote: &str) -> ConnectionIdentifier {
    ConnectionIdentifier::between("192.0.2.2/32".parse().unwrap(), remote.parse().unwrap())
}

#[test]
fn a_connection_is_adopted_with_the_keys_that_its_peer_has() {
    let back = ipv4_pair().reversed();
    let moved = |now: &[(u8, u8)]| {
        let mut link = Link::connected(ipv4_pair());
        let state = link.server.export(&back).unwrap();
        let connection = Connection::import(&state, &mirrored(&[(1, 2)])).unwrap();
        link.server.set_mkts(0, mirrored(now)).unwrap();
        let adopted = link.server.adopt(link.now, connection);
        (adopted, link)
    };
    let (adopted, mut link) = moved(&[(1, 2)]);
    assert_eq!(adopted, Ok(()));
    link.deliver_to_server(&link.client_data(b"moved")).unwrap();
    // The key was revoked on the way.
    let (adopted, mut link) = moved(&[(7, 8)]);
    assert_eq!(adopted, Ok(()));
    let refused = link.deliver_to_server(&link.client_data(b"under the revoked key"));
    assert_eq!(refused, Err(Refusal::Verify(VerifyError::UnknownKeyId(KeyId(1)))));
    // Another secret under the same ids.
    let mut link = Link::connected(ipv4_pair());
    let state = link.server.export(&back).unwrap();
    let connection = Connection::import(&state, &mirrored(&[(1, 2)])).unwrap();
    let other = mkt_with_secret(2, 1, TcpAoAlgorithm::HmacSha1, b"another secret");
    link.server.set_mkts(0, MktSet::from_mkts([other]).unwrap()).unwrap();
    link.server.adopt(link.now, connection).unwrap();
    let refused = link.deliver_to_server(&link.client_data(b"under the revoked secret"));
    assert!(matches!(refused, Err(Refusal::Verify(VerifyError::BadMac { .. }))), "{refused:?}");
    let (adopted, link) = moved(&[]);
    assert_eq!((adopted, link.server.connections().count()), (Err(Refusal::NoKey), 0));
}

#[test]
fn of_equally_specific_peers_one_without_keys_hides_no_other() {
    for is_first in [true, false] {
        let mut peers = vec![Peer { connections: identifier("192.0.2.2/32"), mkts: mkts(&[(1, 2)]) }];
        peers.insert(usize::from(is_first), Peer { mkts: MktSet::new(), ..peers[0].clone() });
        let peers: Vec<PeerSlot> = peers.into_iter().map(Into::into).collect();
        let mut shim = Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(4)).unwrap();
        let to = pair("192.0.2.1", "192.0.2.2");
        let syn = outbound(&mut shim, NOW, &Packet::new(to, SYN, 1, 0).build()).unwrap();
        assert!(crate::shim_support::read(&syn).is_signed());
        let with_key = usize::from(!is_first);
        assert_eq!(shim.connections_with_peers().map(|(peer, _)| peer).collect::<Vec<_>>(), [with_key]);
        let from = with_ports(to.reversed(), 5000, 179);
        let unsigned = Packet::new(from, SYN, 1, 0).build();
        assert_eq!(inbound(&mut shim, NOW, &unsigned), Err(Refusal::Verify(VerifyError::Unsigned)));
        let mut other = crate::shim_support::shim(from, mkts(&[(7, 8)]), 1);
        let unknown = outbound(&mut other, NOW, &Packet::new(from, SYN, 1, 0).build()).unwrap();
        let refused = Err(Refusal::Verify(VerifyError::UnknownKeyId(KeyId(7))));
        assert_eq!(inbound(&mut shim, NOW, &unknown), refused);
        assert_eq!(shim.peer_counters(with_key).unwrap().key_not_found, 1);
    }
}

#[test]
fn many_peers_are_found() {
    let count = 20_000;
    let peers = (0..count).map(|number| peer(address_pair(number).reversed(), mirrored(&[(1, 2)])));
    let mut shim = Shim::new(ShimConfig::new(1500), hash_key(), peers.collect::<Vec<_>>(), slots(1)).unwrap();
    let unsigned = Packet::new(address_pair(count - 1), SYN, 1, 0).build();
    assert_eq!(inbound(&mut shim, NOW, &unsigned), Err(Refusal::Verify(VerifyError::Unsigned)));
    let stranger = Packet::new(address_pair(count), SYN, 1, 0).build();
    assert!(inbound(&mut shim, NOW, &stranger).is_ok());
}

#[test]
fn a_fast_open_cookie_makes_way_for_the_signature() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    // MSS, SACK permitted, timestamps, window scale and a cookie of 16 octets fill 40 octets.
    let cookie = [&[34, 18][..], &[7; 16]].concat();
    let others = [&[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7, 1, 1][..]].concat();
    let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).options(&[&others[..], &cookie].concat());
    let received = crate::shim_support::read(&link.deliver_to_server(&syn).unwrap());
    assert_eq!(received.option(34), None);
    assert_eq!(received.option(3), Some(&[7][..]));
    assert_eq!(link.server.connection(&ipv4_pair().reversed()).unwrap().remote_isn(), Some(Isn(CLIENT_ISN)));
}

#[test]
fn several_fast_open_cookies_make_way_together() {
    // Each would fit next to the signature, all would not.
    let mut link = Link::with_mkts(ipv4_pair(), short_mac(1, 2), short_mac(2, 1));
    let cookies = [&[34, 6, 1, 2, 3, 4][..]; 3].concat();
    let syn = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).options(
        &[&[2, 4, 5, 0xb4, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 3, 3, 7, 4, 2, 1][..], &cookies, &[1, 1]].concat(),
    );
    let received = crate::shim_support::read(&link.deliver_to_server(&syn).unwrap());
    assert_eq!((received.option(34), received.option(3)), (None, Some(&[7][..])));
}

fn short_mac(send_id: u8, recv_id: u8) -> MktSet<4> {
    MktSet::from_mkts([mkt(send_id, recv_id, TcpAoAlgorithm::HmacSha1).with_mac_length(4).unwrap()]).unwrap()
}
