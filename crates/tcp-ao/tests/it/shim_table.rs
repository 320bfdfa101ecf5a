//! The shim's table of connections: which connections get a place, and for how long they keep it.

use proptest::prelude::*;

use crate::shim_support::*;
use crate::support::*;

const NOW: Duration = Duration::from_secs(10);

fn port(port: u16) -> SocketPair {
    with_ports(ipv4_pair(), port, 179)
}

/// The client's signed SYNs, one from each port.
fn verified_syns(ports: std::ops::Range<u16>) -> Vec<Vec<u8>> {
    let mut client = shim(ipv4_pair(), mkts(&[(1, 2)]), ports.len());
    ports.map(|port| open_from(&mut client, NOW, port, 1).unwrap()).collect()
}

fn open_from(client: &mut TestShim, now: Duration, from: u16, isn: u32) -> Result<Vec<u8>, Refusal> {
    outbound(client, now, &Packet::new(port(from), SYN, isn, 0).build())
}

fn server(slots: usize) -> TestShim {
    shim(ipv4_pair().reversed(), mirrored(&[(1, 2)]), slots)
}

/// Closes the link's connection with a FIN from each end.
fn finish(link: &mut Link) {
    link.forth(FIN | ACK, CLIENT_ISN + 1, SERVER_ISN + 1).unwrap();
    link.back(FIN | ACK, SERVER_ISN + 1, CLIENT_ISN + 2).unwrap();
    link.forth(ACK, CLIENT_ISN + 2, SERVER_ISN + 2).unwrap();
}

#[test]
fn a_connection_is_not_over_before_its_own_fin_is_acknowledged() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let (pair, back) = (link.pair, link.pair.reversed());
    let syn = link.client_signs(SYN, CLIENT_ISN, 0).unwrap();
    link.connect(pair);
    link.forth(FIN | ACK, CLIENT_ISN + 1, SERVER_ISN + 1).unwrap();
    let fin = Packet::new(back, FIN | ACK, SERVER_ISN + 1, CLIENT_ISN + 2);
    link.server_sends(&fin).unwrap();
    // The FIN was lost; a replayed SYN must not take the keys needed to send it again.
    assert_eq!(link.server_gets(&syn), Err(Refusal::ConnectionExists));
    link.deliver_to_client(&fin).unwrap();
    link.forth(ACK, CLIENT_ISN + 2, SERVER_ISN + 2).unwrap();
    // Both ends are done, but the end that closed first must answer in TIME-WAIT, and a replay is not a new connection.
    assert_eq!(link.server_gets(&syn), Err(Refusal::ConnectionExists));
    let later = CLIENT_ISN + 3;
    let mut twin = Link::with_ids(pair, &[(1, 2)]);
    let new = twin.client_sends(&Packet::new(pair, SYN, later, 0)).unwrap();
    assert!(link.server_gets(&new).is_ok(), "an ISN past the old connection's numbers is");
}

#[test]
fn a_replayed_syn_does_not_keep_a_port_from_its_owner() {
    let pair = ipv4_pair();
    let mut link = Link::with_ids(pair, &[(1, 2)]);
    let old = link.client_signs(SYN, CLIENT_ISN - 5_000_000, 0).unwrap();
    for _ in 0..3 {
        link.server_gets(&old).unwrap();
        link.now += seconds(60);
    }
    link.connect(pair);
}

fn pairs(shim: &TestShim) -> Vec<SocketPair> {
    let mut pairs: Vec<_> = shim.connections().map(Connection::pair).collect();
    pairs.sort_by_key(|pair| pair.remote.port());
    pairs
}

#[test]
fn syns_that_do_not_verify_leave_nothing() {
    let mut server = server(4);
    let signed = verified_syns(1000..1300);
    for (index, mut syn) in signed.into_iter().enumerate() {
        let verdict = match index % 3 {
            // The MAC's last octet, and the checksum adjusted to match.
            0 => {
                syn[55] ^= 1;
                refresh_checksum(&mut syn);
                inbound(&mut server, NOW, &syn)
            }
            1 => inbound(&mut server, NOW, &Packet::new(port(7), SYN, index as u32, 0).build()),
            _ => {
                syn[55] ^= 1;
                inbound(&mut server, NOW, &syn)
            }
        };
        assert!(verdict.is_err());
        assert_eq!(server.connections().count(), 0);
    }
    let counters = server.counters();
    assert_eq!((counters.good, counters.bad, counters.required), (0, 100, 100));
}

#[test]
fn a_flood_of_replayed_syns_takes_no_place_of_an_open_connection() {
    let mut link = Link::connected(ipv4_pair());
    let opened_here = with_ports(ipv4_pair().reversed(), 40_000, 179);
    link.server_emits(&Packet::new(opened_here, SYN, 5, 0).build()).unwrap();
    let syns = verified_syns(1000..1100);
    let replay = |link: &mut Link| {
        for syn in &syns {
            link.now += Duration::from_millis(1);
            let _ = link.server_gets(syn);
            assert!(link.server.connections().count() <= 8);
        }
        pairs(&link.server).iter().map(|pair| pair.remote.port()).collect::<Vec<_>>()
    };
    // Each handshake keeps its place for some time.
    assert_eq!(replay(&mut link), [179, 1000, 1001, 1002, 1003, 1004, 1005, 49_152]);
    link.now += seconds(15);
    let second = replay(&mut link);
    assert!(second.contains(&49_152) && second.contains(&179) && !second.contains(&1001), "{second:?}");
    link.deliver_to_server(&link.client_data(b"still here")).unwrap();
}

#[test]
fn a_flood_takes_the_places_of_closed_connections_first() {
    let mut link = Link::connected(ipv4_pair());
    let syns = verified_syns(1000..1010);
    for syn in &syns[..7] {
        link.server_gets(syn).unwrap();
    }
    link.now += seconds(1);
    finish(&mut link);
    link.server_gets(&syns[7]).unwrap();
    assert!(link.server.connection(&ipv4_pair().reversed()).is_none(), "the closed one was given up");
    assert_eq!(link.server.connections().count(), 8);
}

#[test]
fn with_open_connections_alone_there_is_no_place_for_another() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let syns = verified_syns(1000..1002);
    for from in 0..8 {
        link.connect(port(from));
    }
    for syn in &syns {
        assert_eq!(link.server_gets(syn), Err(Refusal::TableFull));
    }
    assert_eq!(link.server.connections().filter(|connection| connection.is_established()).count(), 8);
    // An open connection is evicted after three hours of silence, but not before.
    link.now += seconds(3 * 3600 - 1);
    assert_eq!(link.server_gets(&syns[0]), Err(Refusal::TableFull));
    link.now += seconds(1);
    link.server_gets(&syns[0]).unwrap();
}

#[test]
fn connections_expire_by_how_far_they_have_come() {
    let second = seconds(1);
    for (seconds, far) in [(75, "half open"), (240, "closed"), (3 * 3600, "open")] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        match far {
            "half open" => {
                drop(link.forth(SYN, CLIENT_ISN, 0).unwrap());
            }
            _ => link.connect(ipv4_pair()),
        }
        if far == "closed" {
            finish(&mut link);
        }
        let end = link.now + second * seconds;
        for shim in [&mut link.client, &mut link.server] {
            shim.expire(end - second);
            assert_eq!(shim.connections().count(), 1, "{far}");
            shim.expire(end);
            assert_eq!(shim.connections().count(), 0, "{far}");
        }
    }
}

#[test]
fn a_syn_for_an_open_connection_is_refused_and_changes_nothing() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut link = Link::with_ids(pair, &[(1, 2)]);
        let first = link.client_signs(SYN, CLIENT_ISN, 0).unwrap();
        let restart = signed_syn(pair, mkts(&[(1, 2)]), 77);
        link.connect(pair);
        for syn in [first, restart] {
            assert_eq!(link.server_gets(&syn), Err(Refusal::ConnectionExists));
        }
        assert_eq!(link.server_gets(&Packet::new(pair, SYN, 78, 0).build()), Err(UNSIGNED));
        link.deliver_to_server(&link.client_data(b"undisturbed")).unwrap();
    }
}

#[test]
fn a_port_can_be_used_again_after_both_ends_are_done() {
    let mut link = Link::connected(ipv4_pair());
    let again = |link: &mut Link| {
        let pair = link.pair;
        let isn = CLIENT_ISN + 0x5000;
        link.forth(SYN, isn, 0).unwrap();
        link.back(SYN | ACK, 0x6000, isn + 1).unwrap();
        link.deliver_to_server(&Packet::new(pair, ACK, isn + 1, 0x6001).payload(b"anew")).unwrap();
        assert_eq!(link.server.connections().count(), 1);
    };
    finish(&mut link);
    again(&mut link);
    // After a reset, any other ISN will do: a peer that restarted does not know the last one.
    link.forth(RST, CLIENT_ISN + 0x5005, 0).unwrap();
    link.connect(ipv4_pair());
}

#[test]
fn a_port_can_be_used_again_after_a_handshake_that_was_reset_or_given_up() {
    for is_reset in [true, false] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        link.forth(SYN, 0x5000, 0).unwrap();
        if is_reset {
            // The server answers, but its application closes before the acknowledgment comes.
            link.server_signs(SYN | ACK, 0x6000, 0x5001).unwrap();
            link.back(RST, 0x6001, 0).unwrap_err();
        } else {
            // The SYN-ACK never comes, and the client gives up.
            link.now += seconds(75);
        }
        link.connect(ipv4_pair());
    }
}

/// Moves the server's connection to a restarted server.
fn restart_server(link: &mut Link) -> bool {
    let back = link.pair.reversed();
    let state = link.server.export(&back);
    link.server = server(8);
    let Some(state) = state else { return false };
    let connection = Connection::import(&state, &mirrored(&[(1, 2)])).unwrap();
    link.server.adopt(link.now, connection).unwrap();
    true
}

/// An adopted connection may have ended, so a SYN goes to this end's stack, as from a peer that has restarted.
#[test]
fn ao_38_an_adopted_connection_that_has_ended_keeps_no_port() {
    let mut link = Link::connected(ipv4_pair());
    let pair = link.pair;
    assert!(restart_server(&mut link));
    // An older stack that still has the connection would reset it for a SYN in its window, which may be a replay.
    let near = Packet::new(pair, SYN, CLIENT_ISN + 0x100, 0);
    let mut twin = Link::with_ids(pair, &[(1, 2)]);
    let near = twin.client_sends(&near).unwrap();
    assert_eq!(link.server_gets(&near), Err(Refusal::ConnectionExists));
    link.client = shim(pair, mkts(&[(1, 2)]), 8);
    let isn = CLIENT_ISN.wrapping_add(1 << 31);
    link.forth(SYN, isn, 0).unwrap();
    link.back(SYN | ACK, 0x6000, isn.wrapping_add(1)).unwrap();
    link.deliver_to_server(&Packet::new(pair, ACK, isn.wrapping_add(1), 0x6001).payload(b"anew")).unwrap();
    assert_eq!(link.server.connections().count(), 1);
}

#[test]
fn ao_38_an_adopted_connection_that_goes_on_is_not_given_up_for_a_syn() {
    for is_sent in [true, false] {
        let mut link = Link::connected(ipv4_pair());
        let syn = {
            let mut twin = Link::with_ids(link.pair, &[(1, 2)]);
            twin.client_sends(&Packet::new(link.pair, SYN, CLIENT_ISN.wrapping_add(1 << 31), 0)).unwrap()
        };
        let replayed = link.client_signs(ACK, CLIENT_ISN, SERVER_ISN + 1).unwrap();
        assert!(restart_server(&mut link));
        // A replay shows nothing. The SYN goes to the stack, which may answer that it still has the connection.
        link.server_gets(&replayed).unwrap();
        link.server_gets(&syn).unwrap();
        if is_sent {
            link.back(ACK, SERVER_ISN + 1, CLIENT_ISN + 1).unwrap();
        } else {
            let mut data = link.client_data(b"it goes on");
            data.tcp.sequence_number += 1;
            link.deliver_to_server(&data).unwrap();
        }
        assert_eq!(link.server_gets(&syn), Err(Refusal::ConnectionExists), "{is_sent}");
        link.deliver_to_client(&link.server_data(b"undisturbed")).unwrap();
    }
}

#[test]
fn ao_38_a_connection_that_is_being_closed_is_not_exported() {
    let fin =
        |pair: SocketPair, sequence, acknowledgment| Packet::new(pair, FIN | ACK, sequence, acknowledgment);
    let ways: [fn(&mut Link, Packet, Packet); 4] = [
        |link, client, _| drop(link.deliver_to_server(&client).unwrap()),
        |link, _, server| drop(link.deliver_to_client(&server).unwrap()),
        |link, _, _| finish(link),
        |link, _, _| drop(link.forth(RST, CLIENT_ISN + 1, 0).unwrap()),
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let mut link = Link::connected(ipv4_pair());
        let (pair, back) = (link.pair, link.pair.reversed());
        assert_eq!(link.server.connections_with_peers().count(), 1);
        way(&mut link, fin(pair, CLIENT_ISN + 1, SERVER_ISN + 1), fin(back, SERVER_ISN + 1, CLIENT_ISN + 1));
        assert!(link.server.export(&back).is_none(), "{number}");
        // It stays for late segments, but only a connection that is not closed is a session.
        assert!(link.server.connection(&back).is_some());
        assert_eq!(link.server.connections_with_peers().count(), usize::from(number < 2), "{number}");
        assert!(!restart_server(&mut link));
        link.client = shim(pair, mkts(&[(1, 2)]), 8);
        link.connect(pair);
    }
}

#[test]
fn a_replayed_segment_passes_for_tcp_to_judge_and_turns_nothing() {
    let mut link = Link::connected(ipv4_pair());
    let data = link.client_data(b"once");
    let signed = link.client_sends(&data).unwrap();
    for _ in 0..3 {
        assert_eq!(link.server_gets(&signed).unwrap(), data.build());
    }
    // A segment of another connection does not, even between the same hosts.
    let other = with_ports(ipv4_pair(), 50_000, 179);
    link.connect(other);
    let mut moved = signed;
    moved[20..22].copy_from_slice(&50_000_u16.to_be_bytes());
    refresh_checksum(&mut moved);
    assert!(matches!(link.server_gets(&moved), Err(Refusal::Verify(VerifyError::BadMac { .. }))));
}

/// An operation on a table.
#[derive(Clone, Debug)]
enum Step {
    Open { from: u16, isn: u32 },
    Forget { from: u16 },
    Wait { seconds: u64 },
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    let from = 0u16..24;
    prop_oneof![
        6 => (from.clone(), 1u32..3).prop_map(|(from, isn)| Step::Open { from, isn }),
        4 => from.prop_map(|from| Step::Forget { from }),
        2 => (0u64..60).prop_map(|seconds| Step::Wait { seconds }),
        1 => Just(Step::Expire),
    ]
}

proptest! {
    #[test]
    fn the_table_finds_what_a_map_would(slots in 0usize..14, steps in proptest::collection::vec(step(), 0..120)) {
        let mut client = shim(ipv4_pair(), mkts(&[(1, 2)]), slots);
        // Ports with their ISNs and start times, the oldest first.
        let mut model: Vec<(u16, u32, Duration)> = Vec::new();
        let mut now = Duration::ZERO;
        for step in steps {
            match step {
                Step::Open { from, isn } => {
                    // A repeated SYN changes nothing; one with another ISN is another connection.
                    let is_known = model.iter().any(|known| (known.0, known.1) == (from, isn));
                    if !is_known {
                        model.retain(|known| known.0 != from);
                        if slots > 0 && model.len() == slots && now - model[0].2 >= seconds(15) {
                            model.remove(0);
                        }
                    }
                    let is_room = is_known || model.len() < slots;
                    if is_room && !is_known {
                        model.push((from, isn, now));
                    }
                    let opened = open_from(&mut client, now, from, isn).map(drop);
                    prop_assert_eq!(opened, if is_room { Ok(()) } else { Err(Refusal::TableFull) });
                }
                Step::Forget { from } => {
                    model.retain(|known| known.0 != from);
                    client.forget(&port(from));
                }
                Step::Wait { seconds } => now += Duration::from_secs(seconds),
                Step::Expire => {
                    model.retain(|known| now - known.2 < seconds(75));
                    client.expire(now);
                }
            }
            prop_assert_eq!(client.connections().count(), model.len());
            for from in 0..24 {
                let found = client.connection(&port(from)).and_then(Connection::local_isn);
                let known = model.iter().find(|known| known.0 == from);
                prop_assert_eq!(found, known.map(|known| Isn(known.1)));
            }
        }
    }
}

#[test]
fn a_peer_that_died_after_our_fin_makes_way() {
    let mut link = Link::connected(ipv4_pair());
    let recorded = link.client_sends(&link.client_data(b"recorded")).unwrap();
    link.server_gets(&recorded).unwrap();
    let fin = Packet::new(link.pair.reversed(), FIN | ACK, SERVER_ISN + 1, CLIENT_ISN + 9);
    let start = link.now;
    // The FIN is repeated, and sometimes a segment is replayed; neither is progress.
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
fn neither_replays_nor_forgeries_keep_a_dead_session_in_its_place() {
    let mut link = Link::connected(ipv4_pair());
    let recorded = link.client_sends(&link.client_data(b"recorded")).unwrap();
    link.server_gets(&recorded).unwrap();
    let start = link.now;
    inbound(&mut link.server, start + seconds(2 * 3600), &recorded).unwrap();
    let forged = link.client_data(b"forged").build();
    inbound(&mut link.server, start + seconds(10_000), &forged).unwrap_err();
    link.server.expire(start + seconds(3 * 3600));
    assert_eq!(link.server.connections().count(), 0);
}

/// Only the head of a queue is examined, so the oldest must be there.
#[test]
fn a_full_table_finds_the_connection_that_has_expired() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    (link.client, link.server) =
        (shim(ipv4_pair(), mkts(&[(1, 2)]), 101), shim(ipv4_pair().reversed(), mirrored(&[(1, 2)]), 100));
    for port in 0..100 {
        link.connect(with_ports(ipv4_pair(), 1000 + port, 179));
    }
    // All but the one in the middle make progress.
    for _ in 0..4 {
        link.now += seconds(3600);
        for port in (0..100).filter(|port| *port != 50) {
            let back = with_ports(ipv4_pair(), 1000 + port, 179).reversed();
            link.server_sends(&Packet::new(back, ACK, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 1)).unwrap();
        }
    }
    let mut refused = 0;
    while link
        .deliver_to_server(&Packet::new(with_ports(ipv4_pair(), 5000, 179), SYN, CLIENT_ISN, 0))
        .is_err()
    {
        refused += 1;
    }
    assert_eq!(refused, 0, "SYNs refused although a connection has expired");
}

/// `connection_mut` lets a caller put a connection of another pair into a bucket.
#[test]
fn a_connection_replaced_in_place_does_not_panic() {
    let mut link = Link::connected(ipv4_pair());
    let other = Ends::connect(with_ports(link.pair, 7, 179), (1, 2), &mkts(&[(1, 2)]), &mirrored(&[(1, 2)]));
    *link.server.connection_mut(&link.pair.reversed()).unwrap() = other.passive;
    link.server.expire(seconds(1_000_000));
    assert_eq!(link.server.connections().count(), 0);
}

#[test]
fn a_shim_without_slots_passes_nothing() {
    let mut shim = shim_of(vec![peer(ipv4_pair(), mkts(&[(1, 2)])), PeerSlot::EMPTY], 0);
    let pair = ipv4_pair();
    let syn = Packet::new(pair, SYN, CLIENT_ISN, 0).build();
    assert_eq!(outbound(&mut shim, seconds(1), &syn), Err(Refusal::TableFull));
    let theirs = signed_syn(pair.reversed(), mirrored(&[(1, 2)]), SERVER_ISN);
    assert_eq!(inbound(&mut shim, seconds(1), &theirs), Err(Refusal::TableFull));
    let unsigned = Packet::new(pair.reversed(), ACK, 1, 1).build();
    assert_eq!(inbound(&mut shim, seconds(1), &unsigned), Err(UNSIGNED));
    shim.forget(&pair);
    shim.expire(seconds(9));
    // Keys and peers change as ever.
    shim.set_mkts(0, mkts(&[(3, 4)])).unwrap();
    let port = ConnectionIdentifier { remote_port: Some(179), ..shim.peer(0).unwrap().connections };
    assert_eq!(shim.add_peer(Peer { connections: port, mkts: mkts(&[(5, 6)]) }), Ok(1));
    shim.remove_peer(0).unwrap();
    assert_eq!((shim.peers().count(), shim.connections().count()), (1, 0));
}

#[test]
fn a_full_table_of_open_connections_adopts_no_other() {
    let mut link = Link::connected(ipv4_pair());
    let state = link.server.export(&link.pair.reversed()).unwrap();
    link.client.forget(&ipv4_pair());
    for from in 0..8 {
        link.connect(port(from));
    }
    let moved = Connection::import(&state, &mirrored(&[(1, 2)])).unwrap();
    assert_eq!(link.server.adopt(link.now, moved), Err(Refusal::TableFull));
    assert_eq!(link.server.connections().count(), 8);
}

#[test]
fn connections_are_listed_from_any_slot_on() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    for from in 0..3 {
        link.connect(port(from));
    }
    let all: Vec<_> = link.server.connections_from(0).collect();
    assert!(all.iter().all(|(_, peer, _)| *peer == 0));
    let places = |from| link.server.connections_from(from).map(|(place, ..)| place).collect::<Vec<_>>();
    assert_eq!(places(0), [0, 1, 2]);
    assert_eq!((places(1), places(3)), (vec![1, 2], vec![]));
    let ports = |connection: &Connection<MKTS_PER_PEER>| connection.pair().remote.port();
    assert_eq!(all.iter().map(|(.., connection)| ports(connection)).collect::<Vec<_>>(), [0, 1, 2]);
}

/// Drawn by the operating system, so that nobody can tell which connections share a bucket.
#[test]
fn a_shim_with_a_random_hash_key_finds_its_connections() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let peers = vec![peer(ipv4_pair().reversed(), mirrored(&[(1, 2)]))];
    link.server = Shim::new(ShimConfig::new(1500), HashKey::random(), peers, slots(8)).unwrap();
    for from in 0..8 {
        link.connect(port(from));
    }
}
