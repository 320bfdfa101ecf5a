//! Peers that overlap, that are added, removed and moved, and packets that belong to no peer.

use crate::shim_support::*;
use crate::support::*;

const NOW: Duration = Duration::from_secs(10);

fn hmac(ids: (u8, u8), secret: &str) -> Mkt {
    mkt_with_secret(ids.0, ids.1, TcpAoAlgorithm::HmacSha1, secret.as_bytes())
}

fn set(ids: (u8, u8), secret: &str) -> MktSet<4> {
    MktSet::from_mkts([hmac(ids, secret)]).unwrap()
}

fn of(remote: &str, mkts: MktSet<4>) -> Peer {
    between("192.0.2.1/32", remote, mkts)
}

/// A peer of the server's in `ipv4_pair()`.
fn of_server(remote: &str, mkts: MktSet<4>) -> Peer {
    between("192.0.2.2/32", remote, mkts)
}

fn between(local: &str, remote: &str, mkts: MktSet<4>) -> Peer {
    let connections = ConnectionIdentifier::between(local.parse().unwrap(), remote.parse().unwrap());
    Peer { connections, mkts }
}

fn with_room(peers: usize) -> TestShim {
    let peers: Vec<PeerSlot> = (0..peers).map(|_| PeerSlot::EMPTY).collect();
    shim_of(peers, 4)
}

/// A SYN from this address, signed with a key of this secret.
fn syn_from(remote: &str, secret: &str) -> Vec<u8> {
    let from = pair(remote, "192.0.2.1");
    signed_syn(from, set((2, 1), secret), 1)
}

#[test]
fn ao_24_a_host_and_the_networks_around_it_may_share_ids() {
    let peers = [("192.0.2.7/32", "host"), ("192.0.2.0/24", "network"), ("0.0.0.0/0", "anybody")];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut shim = with_room(3);
        for (index, place) in order.into_iter().enumerate() {
            let (remote, secret) = peers[place];
            assert_eq!(shim.add_peer(of(remote, set((1, 2), secret))), Ok(index));
        }
        for (remote, its) in [("192.0.2.7", "host"), ("192.0.2.8", "network"), ("203.0.113.1", "anybody")] {
            for (_, secret) in peers {
                let judged = inbound(&mut shim, NOW, &syn_from(remote, secret));
                assert_eq!(judged.is_ok(), secret == its, "{remote}: {secret}: {judged:?}");
                shim.forget(&pair("192.0.2.1", remote));
            }
        }
        // Keys under the same ids can be replaced, too.
        shim.set_mkts(order.iter().position(|place| *place == 0).unwrap(), set((1, 2), "anew")).unwrap();
        assert!(inbound(&mut shim, NOW, &syn_from("192.0.2.7", "anew")).is_ok());
        assert!(inbound(&mut shim, NOW, &syn_from("192.0.2.8", "network")).is_ok());
    }
}

#[test]
fn ao_24_equally_specific_peers_may_not_share_ids() {
    let port = |local_port, remote_port, ids| {
        let whole = of("192.0.2.7/32", set(ids, "secret"));
        Peer { connections: ConnectionIdentifier { local_port, remote_port, ..whole.connections }, ..whole }
    };
    let mut shim = with_room(4);
    assert_eq!(shim.add_peer(port(Some(179), None, (1, 2))), Ok(0));
    let clash = |error| Err(PeerError::Overlap { peer: 1, other: 0, error });
    // A connection from port 179 to port 179 could belong to either.
    assert_eq!(shim.add_peer(port(None, Some(179), (1, 3))), clash(MktError::SendIdInUse(KeyId(1))));
    assert_eq!(shim.add_peer(port(Some(179), None, (3, 2))), clash(MktError::RecvIdInUse(KeyId(2))));
    for fits in [port(None, Some(179), (3, 4)), port(Some(180), None, (1, 2)), port(None, None, (1, 2))] {
        shim.add_peer(fits).unwrap();
    }
    assert!(matches!(shim.set_mkts(1, set((1, 4), "secret")), Err(PeerError::Overlap { peer: 1, .. })));
}

#[test]
fn a_peer_of_two_versions_of_ip_is_refused() {
    let between = |local, remote| between(local, remote, set((1, 2), "secret"));
    for [v4, v6] in
        [["192.0.2.7/32", "2000::/3"], ["0.0.0.0/0", "2001:db8::1/128"], ["::ffff:0:0/96", "2000::/3"]]
    {
        assert_eq!(with_room(1).add_peer(between(v4, v6)), Err(PeerError::NoConnection(0)));
        assert_eq!(with_room(1).add_peer(between(v6, v4)), Err(PeerError::NoConnection(0)));
    }
    for both in ["::/0", "::/80", "::fffe:0:0/95"] {
        for other in ["192.0.2.7/32", "2000::/3", both] {
            assert_eq!(with_room(1).add_peer(between(both, other)), Ok(0), "{both} {other}");
        }
    }
}

#[test]
fn peers_move_into_more_slots_and_are_found_there() {
    let network = |number: usize| format!("10.{}.{}.0/24", number >> 8, number & 255);
    let mut shim = with_room(3);
    for (index, remote) in ["192.0.2.0/24", "192.0.2.7/32", "10.255.0.0/16"].into_iter().enumerate() {
        assert_eq!(shim.add_peer(of(remote, set((1, 2), remote))), Ok(index));
    }
    shim.remove_peer(2).unwrap();
    inbound(&mut shim, NOW, &syn_from("192.0.2.7", "192.0.2.7/32")).unwrap();
    assert_eq!(shim.move_peers(vec![PeerSlot::EMPTY]), Err(PeerError::TooMany { room: 1 }));
    let unsigned = |remote: &str| Packet::new(pair(remote, "192.0.2.1"), RST, 1, 0).build();
    assert!(inbound(&mut shim, NOW, &unsigned("192.0.2.7")).is_err());
    // The old content of the new slots is dropped.
    let slots = |count| {
        let other = PeerSlot::from(of("203.0.113.0/24", set((1, 2), "other")));
        std::iter::once(other).chain((1..count).map(|_| PeerSlot::EMPTY)).collect::<Vec<_>>()
    };
    shim.move_peers(slots(20_000)).unwrap();
    assert!(inbound(&mut shim, NOW, &unsigned("203.0.113.1")).is_ok());
    assert_eq!((shim.peers().count(), shim.connections().count()), (2, 1));
    assert_eq!(shim.peer_counters(1).unwrap().required, 1);
    for number in 0..19_998 {
        let index = shim.add_peer(of(&network(number), set((1, 2), "many"))).unwrap();
        assert!(index >= 2);
    }
    let full = shim.add_peer(of("198.51.100.1/32", MktSet::new()));
    assert_eq!(full, Err(PeerError::TooMany { room: 20_000 }));
    for (remote, secret) in [
        ("192.0.2.8", "192.0.2.0/24"),
        ("10.0.5.1", "many"),
        ("10.15.100.9", "many"),
        ("192.0.2.7", "192.0.2.7/32"),
    ] {
        assert!(inbound(&mut shim, NOW, &syn_from(remote, secret)).is_ok(), "{remote}");
    }
    // A peer's connections still belong to it.
    shim.remove_peer(1).unwrap();
    assert!(shim.connection(&pair("192.0.2.1", "192.0.2.7")).is_none());
    assert!(inbound(&mut shim, NOW, &syn_from("192.0.2.7", "192.0.2.0/24")).is_ok());
}

#[test]
fn ao_20_what_belongs_to_no_peer_is_dropped_in_both_directions_on_request() {
    let config = ShimConfig { unmatched: Unmatched::DropAll, ..ShimConfig::new(1500) };
    let peers = vec![peer(ipv4_pair(), mkts(&[(1, 2)]))];
    let mut shim = Shim::new(config, hash_key(), peers, slots(4)).unwrap().with_observer(Log::default());
    let stranger = pair("192.0.2.1", "203.0.113.9");
    let mut fragment = Packet::new(stranger.reversed(), ACK, 1, 1).build();
    fragment[6] |= 0x20;
    let signed = signed_syn(stranger.reversed(), mkts(&[(1, 2)]), 1);
    let mut refused = 0;
    for packet in [Packet::new(stranger.reversed(), SYN, 1, 0).build(), signed, fragment] {
        assert_eq!(inbound(&mut shim, NOW, &packet), Err(Refusal::NoPeer));
        refused += 1;
        assert_eq!(shim.refused(Direction::Inbound).no_peer, refused);
    }
    let mut fragment = Packet::new(stranger, ACK, 1, 1).build();
    fragment[6] |= 0x20;
    for packet in [Packet::new(stranger, SYN, 1, 0).build(), fragment] {
        assert_eq!(outbound(&mut shim, NOW, &packet), Err(Refusal::NoPeer));
    }
    assert_eq!(shim.refused(Direction::Outbound).no_peer, 2);
    let events = shim.observer_mut().take();
    assert_eq!(events.len(), 5);
    assert!(events.iter().all(|Event { peer, .. }| peer.is_none()), "{events:?}");
    // Routers' errors may be about any connection, and a peer's own packets are judged as always.
    let icmp = ipv4_packet([198, 51, 100, 1], [192, 0, 2, 1], 1, &[3, 1, 0xfc, 0xfe, 0, 0, 0, 0]);
    assert!(inbound(&mut shim, NOW, &icmp).is_ok());
    assert!(outbound(&mut shim, NOW, &Packet::new(ipv4_pair(), SYN, 1, 0).build()).is_ok());
    let forged = Packet::new(with_ports(ipv4_pair(), 5, 179).reversed(), RST, 1, 0).build();
    assert_eq!(inbound(&mut shim, NOW, &forged), Err(UNSIGNED));
}

/// The longest prefix wins; among equals, a peer that can sign, as for a SYN that this end sends.
#[test]
fn the_peer_of_a_pair_is_known_beforehand() {
    let mut shim = with_room(4);
    let of_pair = |shim: &TestShim, remote| shim.peer_of(&pair("192.0.2.1", remote)).map(|(index, _)| index);
    assert_eq!(of_pair(&shim, "192.0.2.7"), None);
    for (remote, mkts) in
        [("0.0.0.0/0", mkts(&[(1, 2)])), ("192.0.2.0/24", MktSet::new()), ("192.0.2.0/24", mkts(&[(1, 2)]))]
    {
        shim.add_peer(of(remote, mkts)).unwrap();
    }
    assert_eq!(of_pair(&shim, "192.0.2.7"), Some(2));
    assert_eq!(of_pair(&shim, "203.0.113.1"), Some(0));
}

#[test]
fn the_most_specific_peer_decides_and_then_the_key_id() {
    let remotes = ["192.0.2.0/24", "0.0.0.0/0", "192.0.2.2/32"];
    let peers = remotes.iter().zip([3, 5, 1]).map(|(remote, id)| of(remote, mkts(&[(id, id + 1)])).into());
    let mut shim = shim_of(peers.collect(), 4);
    for (remote, id) in [("192.0.2.2", 1), ("192.0.2.9", 3), ("203.0.113.1", 5)] {
        let syn = Packet::new(pair("192.0.2.1", remote), SYN, 1, 0).build();
        let signed = read(&outbound(&mut shim, NOW, &syn).unwrap());
        assert_eq!(signed.option(29).unwrap()[0], id, "{remote}");
    }
    // Of two equally specific ones, the KeyID decides. A wider prefix's key is not valid for this one.
    let another = of("192.0.2.2/32", mkts(&[(7, 8)]));
    let peers = shim.peers().map(|(_, peer)| peer.clone().into()).chain([another.into()]);
    let mut shim = shim_of(peers.collect(), 4);
    let from = pair("192.0.2.2", "192.0.2.1");
    for (ids, is_its) in [((1, 2), true), ((7, 8), true), ((3, 4), false)] {
        let syn = signed_syn(from, mirrored(&[ids]), 1);
        assert_eq!(inbound(&mut shim, NOW, &syn).is_ok(), is_its);
        shim.forget(&from.reversed());
    }
    // Without keys, the specific peer is closed, whatever keys the wider ones have.
    shim.set_mkts(2, MktSet::new()).unwrap();
    shim.set_mkts(3, MktSet::new()).unwrap();
    let syn = signed_syn(from, mirrored(&[(3, 4)]), 1);
    assert_eq!(inbound(&mut shim, NOW, &syn), Err(Refusal::NoKey));
}

/// In whichever order they were added.
#[test]
fn of_two_peers_with_one_prefix_the_one_with_a_port_decides() {
    let any = of("192.0.2.2/32", mkts(&[(1, 2)]));
    let mut of_port = of("192.0.2.2/32", mkts(&[(3, 4)]));
    of_port.connections.remote_port = Some(179);
    for peers in [[any.clone(), of_port.clone()], [of_port, any]] {
        let mut shim = shim_of(peers.into_iter().map(PeerSlot::from).collect(), 4);
        for (port, id) in [(179, 3), (646, 1)] {
            let mut pair = pair("192.0.2.1", "192.0.2.2");
            pair.remote = Endpoint::new(pair.remote.address(), port);
            let signed = read(&outbound(&mut shim, NOW, &Packet::new(pair, SYN, 1, 0).build()).unwrap());
            assert_eq!(signed.option(29).unwrap()[0], id, "{port}");
        }
    }
}

#[test]
fn peers_come_and_go_while_the_shim_runs() {
    let mut shim = with_room(2);
    let unsigned = |remote: &str| Packet::new(pair(remote, "192.0.2.1"), RST, 1, 0).build();
    assert!(inbound(&mut shim, NOW, &unsigned("192.0.2.2")).is_ok());
    let host = of("192.0.2.2/32", mkts(&[(1, 2)]));
    assert_eq!(shim.add_peer(host.clone()), Ok(0));
    assert_eq!(inbound(&mut shim, NOW, &unsigned("192.0.2.2")), Err(UNSIGNED));
    assert_eq!(shim.peer_counters(0).unwrap().required, 1);
    // Another peer for the same connections needs other ids.
    let wide = of("192.0.2.0/24", mkts(&[(1, 3)]));
    assert!(matches!(shim.add_peer(host.clone()), Err(PeerError::Overlap { peer: 1, other: 0, .. })));
    outbound(&mut shim, NOW, &Packet::new(pair("192.0.2.1", "192.0.2.2"), SYN, 1, 0).build()).unwrap();
    assert_eq!(shim.remove_peer(0).unwrap().connections, host.connections);
    assert_eq!((shim.connections().count(), shim.remove_peer(0).is_err()), (0, true));
    assert_eq!(shim.add_peer(wide.clone()), Ok(0));
    assert_eq!(inbound(&mut shim, NOW, &unsigned("192.0.2.77")), Err(UNSIGNED));
    let another = Peer { mkts: mkts(&[(7, 8)]), ..wide };
    assert_eq!(shim.add_peer(another.clone()), Ok(1));
    assert!(matches!(shim.set_mkts(1, mkts(&[(1, 8)])), Err(PeerError::Overlap { .. })));
    assert_eq!(shim.add_peer(another), Err(PeerError::TooMany { room: 2 }));
}

#[test]
fn a_peer_that_is_added_takes_over_the_connections_of_a_wider_one() {
    let host = |mkts| of_server("192.0.2.1/32", mkts);
    let connected = || {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        let wider = of_server("192.0.2.0/24", mirrored(&[(1, 2)]));
        link.server = shim_of(vec![wider.into(), PeerSlot::EMPTY], 4);
        link.connect(ipv4_pair());
        link.deliver_to_server(&Packet::new(with_ports(ipv4_pair(), 7, 179), SYN, 1, 0)).unwrap();
        link
    };
    // A holder of the wider peer's key can no longer speak for it.
    let mut link = connected();
    assert_eq!(link.server.add_peer(host(mirrored(&[(7, 8)]))), Ok(1));
    let refused = link.deliver_to_server(&link.client_data(b"under the wider peer's key"));
    assert_eq!(refused, Err(unknown_key(1)));
    assert!(link.server.connections_with_peers().all(|(peer, _)| peer == 1));
    let not_found = [0, 1].map(|peer| link.server.peer_counters(peer).unwrap().key_not_found);
    assert_eq!(not_found, [0, 1]);
    // Once the other end has the key too, the session goes on.
    link.client.set_mkts(0, mkts(&[(7, 8)])).unwrap();
    link.deliver_to_server(&link.client_data(b"under the new one")).unwrap();
    // It now belongs to the new peer in every way.
    link.server.remove_peer(0).unwrap();
    assert_eq!(link.server.connections().count(), 2);
    link.server.remove_peer(1).unwrap();
    assert_eq!(link.server.connections().count(), 0);
    // A new peer without keys is closed; one for other ports or hosts takes nothing over.
    let mut link = connected();
    link.server.add_peer(host(MktSet::new())).unwrap();
    assert_eq!(link.server.connections().count(), 0);
    let mut link = connected();
    let mut port = host(mirrored(&[(7, 8)]));
    port.connections.remote_port = Some(7);
    link.server.add_peer(port).unwrap();
    for (peer, connection) in link.server.connections_with_peers() {
        assert_eq!(peer, usize::from(connection.pair().remote.port() == 7));
    }
    link.deliver_to_server(&link.client_data(b"still the wider peer's")).unwrap();
}

#[test]
fn a_connection_is_adopted_with_the_keys_that_its_peer_has() {
    let other_secret = mkt_with_secret(2, 1, TcpAoAlgorithm::HmacSha1, b"another secret");
    for (now, adopted, verdict) in [
        (mirrored(&[(1, 2)]), Ok(()), Ok(())),
        // In the meantime the key was revoked, or replaced under its ids.
        (mirrored(&[(7, 8)]), Ok(()), Err(unknown_key(1))),
        (MktSet::from_mkts([other_secret]).unwrap(), Ok(()), Err(bad_mac(1))),
        (MktSet::new(), Err(Refusal::NoKey), Err(Refusal::NoKey)),
    ] {
        let mut link = Link::connected(ipv4_pair());
        let state = link.server.export(&link.pair.reversed()).unwrap();
        let connection = Connection::import(&state, &mirrored(&[(1, 2)])).unwrap();
        link.server.set_mkts(0, now).unwrap();
        assert_eq!(link.server.adopt(link.now, connection), adopted);
        assert_eq!(link.server.connections().count(), usize::from(adopted.is_ok()));
        assert_eq!(link.deliver_to_server(&link.client_data(b"moved")).map(drop), verdict);
    }
}

#[test]
fn of_equally_specific_peers_one_without_keys_hides_no_other() {
    for is_first in [true, false] {
        let mut peers = vec![of("192.0.2.2/32", mkts(&[(1, 2)]))];
        peers.insert(usize::from(is_first), Peer { mkts: MktSet::new(), ..peers[0].clone() });
        let mut shim = shim_of(peers.into_iter().map(Into::into).collect(), 4);
        let to = pair("192.0.2.1", "192.0.2.2");
        let syn = outbound(&mut shim, NOW, &Packet::new(to, SYN, 1, 0).build()).unwrap();
        assert!(read(&syn).is_signed());
        let with_key = usize::from(!is_first);
        assert_eq!(shim.connections_with_peers().map(|(peer, _)| peer).collect::<Vec<_>>(), [with_key]);
        let from = with_ports(to.reversed(), 5000, 179);
        let unsigned = Packet::new(from, SYN, 1, 0).build();
        assert_eq!(inbound(&mut shim, NOW, &unsigned), Err(UNSIGNED));
        let unknown = signed_syn(from, mkts(&[(7, 8)]), 1);
        assert_eq!(inbound(&mut shim, NOW, &unknown), Err(unknown_key(7)));
        assert_eq!(shim.peer_counters(with_key).unwrap().key_not_found, 1);
    }
}

#[test]
fn ao_24_connection_identifiers_overlap_in_either_order() {
    let identifier = |local: &str, remote: &str, ports: (u16, u16)| ConnectionIdentifier {
        local_port: Some(ports.0).filter(|port| *port != 0),
        remote_port: Some(ports.1).filter(|port| *port != 0),
        ..between(local, remote, MktSet::new()).connections
    };
    let wide = identifier("192.0.2.0/24", "198.51.100.0/24", (0, 0));
    for (other, overlaps) in [
        (identifier("192.0.2.1/32", "198.51.100.7/32", (0, 0)), true),
        (identifier("192.0.0.0/16", "198.51.0.0/16", (179, 179)), true),
        (identifier("192.0.2.1/32", "198.51.0.0/16", (0, 179)), true),
        (identifier("192.0.3.1/32", "198.51.100.7/32", (0, 0)), false),
        (identifier("192.0.2.1/32", "198.51.101.7/32", (0, 0)), false),
        (identifier("::/0", "::/0", (0, 0)), true),
        (identifier("::ffff:192.0.2.0/120", "::ffff:198.51.100.0/120", (0, 0)), true),
        (identifier("2001:db8::/32", "2001:db8::/32", (0, 0)), false),
    ] {
        assert_eq!((wide.overlaps(&other), other.overlaps(&wide)), (overlaps, overlaps), "{other:?}");
    }
    let port = |ports| identifier("192.0.2.1/32", "198.51.100.7/32", ports);
    for (one, other, overlaps) in [
        ((179, 0), (179, 0), true),
        ((179, 0), (0, 179), true),
        ((179, 0), (180, 0), false),
        ((179, 5), (179, 5), true),
        ((179, 5), (179, 6), false),
    ] {
        assert_eq!(port(one).overlaps(&port(other)), overlaps, "{one:?} {other:?}");
    }
}

#[test]
fn ao_24_a_shim_is_not_made_of_peers_that_clash() {
    let host = |ids| PeerSlot::from(of("192.0.2.2/32", set(ids, "secret")));
    let shim = |peers| Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(1)).map(|_: TestShim| ());
    let error = MktError::RecvIdInUse(KeyId(2));
    let clash = PeerError::Overlap { peer: 0, other: 1, error };
    assert_eq!(shim(vec![host((1, 2)), host((3, 2))]), Err(clash));
    assert_eq!(shim(vec![host((1, 2)), host((3, 4))]), Ok(()));
}

#[test]
fn peers_are_listed_from_any_index_on() {
    let shim = shim_of(
        vec![
            of("192.0.2.2/32", set((1, 2), "secret")).into(),
            PeerSlot::EMPTY,
            of("192.0.2.3/32", set((1, 2), "secret")).into(),
        ],
        1,
    );
    for (from, expected) in [(0, &[0, 2][..]), (1, &[2]), (2, &[2]), (3, &[]), (99, &[])] {
        assert_eq!(shim.peers_from(from).map(|(index, _)| index).collect::<Vec<_>>(), expected);
    }
    assert!(shim.peer(1).is_none() && shim.peer_counters(1).is_none() && shim.peer_counters(99).is_none());
    assert_eq!(*shim.config(), ShimConfig::new(1500));
    assert_eq!((shim.config().limits, TimeLimits::default().turn), (TimeLimits::default(), seconds(2)));
}

/// Peers that share a bucket are linked, and any of them may go first.
#[test]
fn peers_are_removed_in_any_order_and_the_others_are_still_found() {
    let host = |number: usize| format!("192.0.2.{}", number + 2);
    let count = 64;
    for step in [1, 63, 37] {
        let mut shim = with_room(count);
        for number in 0..count {
            let secret = host(number);
            assert_eq!(shim.add_peer(of(&format!("{secret}/32"), set((1, 2), &secret))), Ok(number));
        }
        let mut left: Vec<usize> = (0..count).collect();
        for turn in 0..count {
            let gone = turn * step % count;
            shim.remove_peer(gone).unwrap();
            left.retain(|number| *number != gone);
            let found =
                |number: &usize| shim.peer_of(&pair("192.0.2.1", &host(*number))).map(|(index, _)| index);
            assert!(left.iter().all(|number| found(number) == Some(*number)), "step {step}, {turn} removed");
            assert_eq!(found(&gone), None);
        }
    }
}

#[test]
fn ao_24_a_connection_identifier_covers_what_all_of_its_parts_cover() {
    let identifier = ConnectionIdentifier {
        local_port: Some(179),
        remote_port: Some(49152),
        ..between("192.0.2.0/24", "198.51.100.0/24", MktSet::new()).connections
    };
    let pair = |local: &str, remote: &str| SocketPair {
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
    };
    let covered = pair("192.0.2.1:179", "198.51.100.1:49152");
    assert!(identifier.contains(&covered));
    for other in [
        pair("192.0.3.1:179", "198.51.100.1:49152"),
        pair("192.0.2.1:180", "198.51.100.1:49152"),
        pair("192.0.2.1:179", "198.51.101.1:49152"),
        pair("192.0.2.1:179", "198.51.100.1:49153"),
        covered.reversed(),
    ] {
        assert!(!identifier.contains(&other), "{other}");
    }
}
