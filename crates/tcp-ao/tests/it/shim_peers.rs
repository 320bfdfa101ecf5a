//! Peers that overlap, peers that come, go and move, and what belongs to no peer.

use std::time::Duration;

use crate::shim_events::Log;
use crate::shim_support::{Packet, TestShim, hash_key, inbound, outbound, peer, shim, slots, with_ports};
use crate::support::{ACK, RST, SYN, ipv4_pair, mkt_with_secret, mkts, pair};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::shim::{Direction, Event, PeerSlot, Refusal, Shim, ShimConfig, Unmatched};
use wireseal_tcp_ao::{ConnectionIdentifier, KeyId, Mkt, MktError, MktSet, Peer, PeerError, VerifyError};

const NOW: Duration = Duration::from_secs(10);

fn hmac(ids: (u8, u8), secret: &str) -> Mkt {
    mkt_with_secret(ids.0, ids.1, TcpAoAlgorithm::HmacSha1, secret.as_bytes())
}

fn set(ids: (u8, u8), secret: &str) -> MktSet<4> {
    MktSet::from_mkts([hmac(ids, secret)]).unwrap()
}

fn of(remote: &str, mkts: MktSet<4>) -> Peer {
    let local = "192.0.2.1/32".parse().unwrap();
    Peer { connections: ConnectionIdentifier::between(local, remote.parse().unwrap()), mkts }
}

fn with_room(peers: usize) -> TestShim {
    let peers: Vec<PeerSlot> = (0..peers).map(|_| PeerSlot::EMPTY).collect();
    Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(4)).unwrap()
}

/// A SYN from this address, signed with a key of this secret.
fn syn_from(remote: &str, secret: &str) -> Vec<u8> {
    let from = pair(remote, "192.0.2.1");
    let mut caller = shim(from, set((2, 1), secret), 1);
    outbound(&mut caller, NOW, &Packet::new(from, SYN, 1, 0).build()).unwrap()
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
        // The keys change over under ids in common, too.
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
    // What is in the new slots is gone.
    let slots = |count| {
        let other = PeerSlot::from(of("203.0.113.0/24", set((1, 2), "other")));
        std::iter::once(other).chain((1..count).map(|_| PeerSlot::EMPTY)).collect::<Vec<_>>()
    };
    shim.move_peers(slots(4000)).unwrap();
    assert!(inbound(&mut shim, NOW, &unsigned("203.0.113.1")).is_ok());
    assert_eq!((shim.peers().count(), shim.connections().count()), (2, 1));
    assert_eq!(shim.peer_counters(1).unwrap().required, 1);
    for number in 0..3998 {
        let index = shim.add_peer(of(&network(number), set((1, 2), "many"))).unwrap();
        assert!(index >= 2);
    }
    let full = shim.add_peer(of("198.51.100.1/32", MktSet::new()));
    assert_eq!(full, Err(PeerError::TooMany { room: 4000 }));
    for (remote, secret) in [
        ("192.0.2.8", "192.0.2.0/24"),
        ("10.0.5.1", "many"),
        ("10.15.100.9", "many"),
        ("192.0.2.7", "192.0.2.7/32"),
    ] {
        assert!(inbound(&mut shim, NOW, &syn_from(remote, secret)).is_ok(), "{remote}");
    }
    // A peer's connections are still its own.
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
    let signed = {
        let mut caller = crate::shim_support::shim(stranger.reversed(), mkts(&[(1, 2)]), 1);
        outbound(&mut caller, NOW, &Packet::new(stranger.reversed(), SYN, 1, 0).build()).unwrap()
    };
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
    // Routers' errors are about anybody, and a peer's own packets are judged as always.
    let icmp =
        crate::support::ipv4_packet([198, 51, 100, 1], [192, 0, 2, 1], 1, &[3, 1, 0xfc, 0xfe, 0, 0, 0, 0]);
    assert!(inbound(&mut shim, NOW, &icmp).is_ok());
    assert!(outbound(&mut shim, NOW, &Packet::new(ipv4_pair(), SYN, 1, 0).build()).is_ok());
    let forged = Packet::new(with_ports(ipv4_pair(), 5, 179).reversed(), RST, 1, 0).build();
    assert_eq!(inbound(&mut shim, NOW, &forged), Err(Refusal::Verify(VerifyError::Unsigned)));
}

/// The longest prefix, and of equals one that can sign, as for a SYN that this end sends.
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
