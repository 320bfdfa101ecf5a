//! Replays, keys that change and numbers that wrap, in the order in which an attacker would have them.

use std::time::Duration;

use wireseal_tcp_ao::shim::{PeerSlot, Refusal, Shim, ShimConfig};
use wireseal_tcp_ao::{Connection, ConnectionIdentifier, Isn, KeyId, Peer, SeqNum, VerifyError};

use crate::shim_support::{
    CLIENT_ISN, Link, Packet, SERVER_ISN, hash_key, inbound, outbound, shim, slots, with_ports,
};
use crate::support::{
    ACK, Ends, Parts, RST, SYN, ipv4_packet, ipv4_pair, ipv6_packet, ipv6_pair, mirrored, mkts, receive, view,
};

const TWO: [(u8, u8); 2] = [(1, 101), (2, 102)];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn recorded_syn(ids: &[(u8, u8)], isn: u32) -> Vec<u8> {
    let mut earlier = shim(ipv4_pair(), mkts(ids), 1);
    outbound(&mut earlier, seconds(1), &Packet::new(ipv4_pair(), SYN, isn, 0).build()).unwrap()
}

#[test]
fn keys_that_change_while_another_syn_waits_do_not_panic() {
    let server = mirrored(&[(1, 2), (3, 4)]);
    let mut link = Link::with_mkts(ipv4_pair(), mkts(&[(3, 4)]), server);
    inbound(&mut link.server, link.now, &recorded_syn(&[(1, 2)], 7000)).unwrap();
    link.deliver_to_server(&Packet::new(link.pair, SYN, CLIENT_ISN, 0)).unwrap();
    link.server.set_mkts(0, mirrored(&[(3, 4)])).unwrap();
    let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, SERVER_ISN, CLIENT_ISN + 1);
    link.deliver_to_client(&syn_ack).unwrap();
}

#[test]
fn a_key_removed_while_another_syn_waits_does_not_panic() {
    let mut link = Link::with_mkts(ipv4_pair(), mkts(&[(3, 4)]), mirrored(&[(1, 2), (3, 4)]));
    inbound(&mut link.server, link.now, &recorded_syn(&[(1, 2)], 7000)).unwrap();
    link.deliver_to_server(&Packet::new(link.pair, SYN, CLIENT_ISN, 0)).unwrap();
    link.server.connection_mut(&link.pair.reversed()).unwrap().remove_key(KeyId(4), None).unwrap();
    let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, SERVER_ISN, CLIENT_ISN + 1);
    let _ = link.server_sends(&syn_ack);
}

/// A receiver's pure ACKs all have one sequence number, and so one SNE. Recorded, and replayed over 2^31 octets later, one of them
/// looks newer than all, and what the peer asks for is ignored for the next 2 GiB, even in new data.
#[test]
fn ao_22_a_replayed_acknowledgment_of_two_gigabytes_ago_does_not_deafen() {
    let mut ends = Ends::<2>::with_ids(&TWO);
    let (start, peers) = (ends.active_next, ends.passive_next);
    let ack = |ends: &mut Ends<2>, octets: u32| {
        Parts::new(ipv4_pair().reversed(), ACK, peers, start.wrapping_add(octets)).signed(&mut ends.passive)
    };
    let recorded = ack(&mut ends, 1);
    receive(&mut ends.active, &recorded).unwrap();
    for octets in [0x4000_0000, 0x8000_0000, 0x9000_0000] {
        ends.active_next = start.wrapping_add(octets);
        drop(ends.active_data(b""));
        let segment = ack(&mut ends, octets);
        receive(&mut ends.active, &segment).unwrap();
    }
    let replay = receive(&mut ends.active, &recorded).unwrap();
    let keeps_alive = replay.makes_progress();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    for _ in 0..3 {
        let new_data = ends.passive_data(b"new data");
        receive(&mut ends.active, &new_data).unwrap();
    }
    assert_eq!(ends.active.current_key().send_id, KeyId(2), "the peer is not heard any more");
    assert!(!keeps_alive, "a replay makes progress");
}

/// The same numbers make a FIN look acknowledged, so that a replayed SYN may take the keys with which to repeat it.
#[test]
fn a_replayed_acknowledgment_of_two_gigabytes_ago_acknowledges_no_fin() {
    let fin = crate::support::FIN;
    let mut link = Link::connected(ipv4_pair());
    let (pair, back, base) = (link.pair, link.pair.reversed(), SERVER_ISN.wrapping_add(1));
    let ack = Packet::new(pair, ACK, CLIENT_ISN + 1, base);
    let recorded = link.client_sends(&ack).unwrap();
    for octets in [0x4000_0000, 0x8000_0000, 0x9000_0000_u32] {
        let next = base.wrapping_add(octets);
        link.deliver_to_client(&Packet::new(back, ACK, next, CLIENT_ISN + 1)).unwrap();
        link.deliver_to_server(&Packet::new(pair, ACK, CLIENT_ISN + 1, next)).unwrap();
    }
    let next = base.wrapping_add(0x9000_0000);
    link.deliver_to_client(&Packet::new(back, fin | ACK, next, CLIENT_ISN + 1)).unwrap();
    inbound(&mut link.server, link.now, &recorded).unwrap();
    link.deliver_to_server(&Packet::new(pair, fin | ACK, CLIENT_ISN + 1, next)).unwrap();
    // This end's FIN is not acknowledged.
    let replayed = recorded_syn(&[(1, 2)], CLIENT_ISN + 5000);
    assert_eq!(inbound(&mut link.server, link.now, &replayed), Err(Refusal::ConnectionExists));
}

/// Without its flag, the acknowledgment field means nothing.
#[test]
fn a_segment_without_acknowledgment_acknowledges_no_fin() {
    let fin = crate::support::FIN;
    for (flags, expected) in [(ACK, Ok(())), (0, Err(Refusal::ConnectionExists))] {
        let mut link = Link::connected(ipv4_pair());
        let (pair, back, next) = (link.pair, link.pair.reversed(), SERVER_ISN.wrapping_add(1));
        link.deliver_to_server(&Packet::new(pair, fin | ACK, CLIENT_ISN + 1, next)).unwrap();
        link.deliver_to_client(&Packet::new(back, fin | ACK, next, CLIENT_ISN + 2)).unwrap();
        link.deliver_to_server(&Packet::new(pair, flags, CLIENT_ISN + 2, next.wrapping_add(1))).unwrap();
        let another = recorded_syn(&[(1, 2)], CLIENT_ISN + 5000);
        assert_eq!(inbound(&mut link.server, link.now, &another).map(drop), expected);
    }
}

/// The reset of a listener that is gone has sequence number 0, which after an ISN in the upper half is in the next turn.
#[test]
fn a_listener_that_is_gone_resets_whatever_its_isn_was() {
    for isn in [700, 0x7fff_ffff, 0x8000_0001, 0xffff_fff0] {
        let mut active = Connection::<1>::active(ipv4_pair(), Isn(100), &mkts(&[(1, 2)])).unwrap();
        let syn = Parts::new(ipv4_pair(), SYN, 100, 0).signed(&mut active);
        let listener = mirrored::<1>(&[(1, 2)]);
        let mut passive = Connection::passive(&listener.verify_syn(view(ipv4_pair(), &syn)).unwrap());
        drop(Parts::new(ipv4_pair().reversed(), SYN | ACK, isn, 101).signed(&mut passive));
        receive(&mut passive, &syn).unwrap();
        let reset = Parts::new(ipv4_pair().reversed(), RST | ACK, 0, 101).signed(&mut passive);
        assert!(receive(&mut active, &reset).is_ok(), "ISN {isn:#x}");
    }
}

/// A half-open end that gives up resets with its next number (RFC 9293 §3.10.7.4), which is zero after an ISN of all ones.
#[test]
fn ao_30_a_half_open_end_with_the_highest_isn_resets_as_itself() {
    for isn in [700, 0xffff_fffe, 0xffff_ffff] {
        let mut active = Connection::<1>::active(ipv4_pair(), Isn(100), &mkts(&[(1, 2)])).unwrap();
        let syn = Parts::new(ipv4_pair(), SYN, 100, 0).signed(&mut active);
        let listener = mirrored::<1>(&[(1, 2)]);
        let mut passive = Connection::passive(&listener.verify_syn(view(ipv4_pair(), &syn)).unwrap());
        let syn_ack = Parts::new(ipv4_pair().reversed(), SYN | ACK, isn, 101).signed(&mut passive);
        receive(&mut active, &syn_ack).unwrap();
        let reset = Parts::new(ipv4_pair().reversed(), RST | ACK, isn.wrapping_add(1), 101);
        let reset = reset.signed(&mut passive);
        assert!(receive(&mut active, &reset).is_ok(), "ISN {isn:#x}");
    }
    // Both ends have sent a SYN, and the other SYN-ACK is still to come.
    for isn in [700, 0xffff_ffff] {
        let mut left = Connection::<1>::active(ipv4_pair(), Isn(100), &mkts(&[(1, 2)])).unwrap();
        let mut right =
            Connection::<1>::active(ipv4_pair().reversed(), Isn(isn), &mirrored(&[(1, 2)])).unwrap();
        let from_left = Parts::new(ipv4_pair(), SYN, 100, 0).signed(&mut left);
        let from_right = Parts::new(ipv4_pair().reversed(), SYN, isn, 0).signed(&mut right);
        receive(&mut left, &from_right).unwrap();
        receive(&mut right, &from_left).unwrap();
        let reset = Parts::new(ipv4_pair().reversed(), RST | ACK, isn.wrapping_add(1), 101);
        let reset = reset.signed(&mut right);
        assert!(receive(&mut left, &reset).is_ok(), "ISN {isn:#x}");
    }
}

/// The stack refuses the genuine SYN while a replayed one is what the shim goes by.
#[test]
fn a_reset_that_answers_another_syn_verifies() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    inbound(&mut link.server, link.now, &recorded_syn(&[(1, 2)], 7000)).unwrap();
    link.deliver_to_server(&Packet::new(link.pair, SYN, CLIENT_ISN, 0)).unwrap();
    link.deliver_to_client(&Packet::new(link.pair.reversed(), RST | ACK, 0, CLIENT_ISN + 1)).unwrap();
}

/// A SYN replayed to an end in SYN-SENT makes it deaf to the listener's refusal.
#[test]
fn a_replayed_syn_does_not_hide_a_listeners_reset() {
    for replayed in [7000, 0x9000_0000] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        let mut earlier = shim(ipv4_pair().reversed(), mirrored(&[(1, 2)]), 1);
        let replay = Packet::new(ipv4_pair().reversed(), SYN, replayed, 0).build();
        let replay = outbound(&mut earlier, seconds(1), &replay).unwrap();
        let syn = link.client_sends(&Packet::new(link.pair, SYN, CLIENT_ISN, 0)).unwrap();
        inbound(&mut link.client, link.now, &replay).unwrap();
        inbound(&mut link.server, link.now, &syn).unwrap();
        let reset = Packet::new(link.pair.reversed(), RST | ACK, 0, CLIENT_ISN + 1);
        assert!(link.deliver_to_client(&reset).is_ok(), "{replayed:#x}");
    }
}

/// Stacks go by the outer header, and many never look at the version of a quote (Linux `icmp_unreach`, gVisor).
#[test]
fn ao_34_the_version_of_a_quote_hides_no_hard_error() {
    let mut v4 = Link::connected(ipv4_pair());
    let mut v6 = Link::connected(ipv6_pair());
    let sent4 = v4.client_sends(&v4.client_data(&[7; 64])).unwrap();
    let sent6 = v6.client_sends(&v6.client_data(&[7; 64])).unwrap();
    let mut through = Vec::new();
    for version in 0..16_u8 {
        let mut quoted = sent4.clone();
        quoted[0] = version << 4 | 5;
        let message = [&[3, 3, 0, 0, 0, 0, 0, 0], &quoted[..]].concat();
        let error = ipv4_packet([203, 0, 113, 1], [192, 0, 2, 1], 1, &message);
        if inbound(&mut v4.client, v4.now, &error).is_ok() {
            through.push((4, version));
        }
        let mut quoted = sent6.clone();
        quoted[0] = version << 4;
        let message = [&[1, 4, 0, 0, 0, 0, 0, 0], &quoted[..]].concat();
        let std::net::IpAddr::V6(local) = ipv6_pair().local.address() else { unreachable!() };
        let error = ipv6_packet([0x20; 16], local.octets(), 58, &message);
        if inbound(&mut v6.client, v6.now, &error).is_ok() {
            through.push((6, version));
        }
    }
    assert!(through.is_empty(), "{through:?}");
}

/// A later fragment that names an extension header which leads to TCP.
#[test]
fn ao_34_an_extension_header_in_a_quoted_later_fragment_hides_no_hard_error() {
    let mut link = Link::connected(ipv6_pair());
    let mut packet = Packet::new(ipv6_pair(), ACK, CLIENT_ISN + 1, 1);
    packet.extensions = (44, vec![60, 0, 0, 8, 0, 0, 0, 9, 6, 0, 1, 4, 0, 0, 0, 0]);
    let mut quoted = link.client_sends(&link.client_data(b"x")).unwrap();
    let at = quoted.len().min(40);
    quoted[6] = 44;
    quoted.splice(at..at, packet.extensions.1.clone());
    let message = [&[1, 4, 0, 0, 0, 0, 0, 0], &quoted[..]].concat();
    let std::net::IpAddr::V6(local) = ipv6_pair().local.address() else { unreachable!() };
    let error = ipv6_packet([0x20; 16], local.octets(), 58, &message);
    assert_eq!(inbound(&mut link.client, link.now, &error), Err(Refusal::Icmp));
}

fn identifier(remote: &str) -> ConnectionIdentifier {
    ConnectionIdentifier::between("192.0.2.2/32".parse().unwrap(), remote.parse().unwrap())
}

/// Whoever has a key of a wider prefix cannot speak for a peer that has keys of its own.
#[test]
fn a_wider_peers_key_is_not_for_the_specific_peer() {
    let wide = Peer { connections: identifier("192.0.2.0/24"), mkts: mirrored(&[(3, 4)]) };
    let host = Peer { connections: identifier("192.0.2.1/32"), mkts: mirrored(&[(1, 2)]) };
    let peers: Vec<PeerSlot> = vec![host.into(), wide.into()];
    let mut server = Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(8)).unwrap();
    let now = seconds(1000);
    let refused = inbound(&mut server, now, &recorded_syn(&[(3, 4)], 7000));
    assert_eq!(refused, Err(Refusal::Verify(VerifyError::UnknownKeyId(KeyId(3)))));
    assert!(inbound(&mut server, now + seconds(1), &recorded_syn(&[(1, 2)], CLIENT_ISN)).is_ok());
}

/// A stack with SYN cookies answers every SYN at once. The client is open after the first SYN-ACK and sends no further SYN.
#[test]
fn a_replay_that_a_stack_with_syn_cookies_answers_kills_no_handshake() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let (pair, back) = (link.pair, link.pair.reversed());
    link.deliver_to_server(&Packet::new(pair, SYN, CLIENT_ISN, 0)).unwrap();
    link.deliver_to_client(&Packet::new(back, SYN | ACK, 0x4000, CLIENT_ISN + 1)).unwrap();
    inbound(&mut link.server, link.now, &recorded_syn(&[(1, 2)], 7000)).unwrap();
    link.server_sends(&Packet::new(back, SYN | ACK, 0x5000, 7001)).unwrap();
    let ack = Packet::new(pair, ACK, CLIENT_ISN + 1, 0x4001);
    assert!(link.deliver_to_server(&ack).is_ok(), "the genuine handshake is dead for good");
}

/// The same without an attacker: the SYN was repeated, and the cookie of the second SYN-ACK is another one.
#[test]
fn the_first_of_two_syn_acks_may_be_acknowledged() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let (pair, back) = (link.pair, link.pair.reversed());
    let syn = Packet::new(pair, SYN, CLIENT_ISN, 0);
    link.deliver_to_server(&syn).unwrap();
    link.deliver_to_server(&syn).unwrap();
    link.deliver_to_client(&Packet::new(back, SYN | ACK, 0x4000, CLIENT_ISN + 1)).unwrap();
    link.server_sends(&Packet::new(back, SYN | ACK, 0x5000, CLIENT_ISN + 1)).unwrap();
    assert!(link.deliver_to_server(&Packet::new(pair, ACK, CLIENT_ISN + 1, 0x4001)).is_ok());
    let acknowledged = link.server.connection(&back).unwrap().newest_acknowledgment();
    assert_eq!(acknowledged, Some(SeqNum(0x4001)));
}

/// A second replay pushes the genuine SYN out of the one place for another.
#[test]
fn two_replays_do_not_push_out_the_genuine_syn() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    inbound(&mut link.server, link.now, &recorded_syn(&[(1, 2)], 7000)).unwrap();
    link.deliver_to_server(&Packet::new(link.pair, SYN, CLIENT_ISN, 0)).unwrap();
    inbound(&mut link.server, link.now, &recorded_syn(&[(1, 2)], 8000)).unwrap();
    let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, SERVER_ISN, CLIENT_ISN + 1);
    link.deliver_to_client(&syn_ack).unwrap();
}

/// Three, all answered as by SYN cookies, are not too many.
#[test]
fn three_answered_replays_do_not_push_out_the_genuine_syn() {
    for replays in [3, 4] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        let (pair, back) = (link.pair, link.pair.reversed());
        link.deliver_to_server(&Packet::new(pair, SYN, CLIENT_ISN, 0)).unwrap();
        link.deliver_to_client(&Packet::new(back, SYN | ACK, 0x4000, CLIENT_ISN + 1)).unwrap();
        for isn in (7000..).step_by(1000).take(replays) {
            inbound(&mut link.server, link.now, &recorded_syn(&[(1, 2)], isn)).unwrap();
            link.server_sends(&Packet::new(back, SYN | ACK, 0x5000 + isn, isn + 1)).unwrap();
        }
        let completes = link.deliver_to_server(&Packet::new(pair, ACK, CLIENT_ISN + 1, 0x4001)).is_ok();
        assert_eq!(completes, replays == 3, "four handshakes are kept");
    }
}

/// The stack's answer to the genuine SYN does not begin the handshake's time anew, which began with a replay.
#[test]
fn the_time_of_a_replay_is_not_that_of_the_handshake_after_it() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    inbound(&mut link.server, link.now, &recorded_syn(&[(1, 2)], 7000)).unwrap();
    link.now += seconds(74);
    link.deliver_to_server(&Packet::new(link.pair, SYN, CLIENT_ISN, 0)).unwrap();
    let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, SERVER_ISN, CLIENT_ISN + 1);
    link.deliver_to_client(&syn_ack).unwrap();
    link.now += seconds(1);
    inbound(&mut link.server, link.now, &recorded_syn(&[(1, 2)], 7000)).unwrap();
    let ack = Packet::new(link.pair, ACK, CLIENT_ISN + 1, SERVER_ISN.wrapping_add(1));
    assert!(link.deliver_to_server(&ack).is_ok());
}

/// Only the head of a queue is looked at, so that the oldest has to be there.
#[test]
fn a_full_table_finds_the_connection_that_has_expired() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    (link.client, link.server) =
        (shim(ipv4_pair(), mkts(&[(1, 2)]), 101), shim(ipv4_pair().reversed(), mirrored(&[(1, 2)]), 100));
    for port in 0..100 {
        link.connect(with_ports(ipv4_pair(), 1000 + port, 179));
    }
    // All but the one in the middle go on.
    for _ in 0..4 {
        link.now += seconds(3600);
        for port in (0..100).filter(|port| *port != 50) {
            let back = with_ports(ipv4_pair(), 1000 + port, 179).reversed();
            link.server_sends(&Packet::new(back, ACK, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 1)).unwrap();
        }
    }
    let syn = Packet::new(with_ports(ipv4_pair(), 5000, 179), SYN, CLIENT_ISN, 0);
    let mut refused = 0;
    while link.deliver_to_server(&syn).is_err() {
        refused += 1;
    }
    assert_eq!(refused, 0, "SYNs refused although a connection has expired");
}

/// A pure ACK with the numbers of the newest segment: a replay moves the current key back to one the peer may have removed.
#[test]
fn ao_22_a_replay_with_the_newest_numbers_does_not_bring_the_old_key_back() {
    let mut ends = Ends::<2>::with_ids(&TWO);
    let (peers, next) = (ends.passive_next, ends.active_next);
    let ack =
        |ends: &mut Ends<2>| Parts::new(ipv4_pair().reversed(), ACK, peers, next).signed(&mut ends.passive);
    let old = ack(&mut ends);
    receive(&mut ends.active, &old).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let new = ack(&mut ends);
    assert!(receive(&mut ends.active, &new).unwrap().current_key_changed());
    assert!(!receive(&mut ends.active, &old).unwrap().current_key_changed());
}

/// After a move in the midst of a rollover, the retransmission is still the first segment under its key.
#[test]
fn ao_22_a_lost_segment_does_not_stop_a_rollover_after_a_move() {
    let mut ends = Ends::<2>::with_ids(&TWO);
    let (lost, acknowledges) = (ends.passive_next, ends.active_next);
    drop(ends.passive_data(b"lost at first"));
    let next = ends.passive_data(b"received");
    receive(&mut ends.active, &next).unwrap();
    ends.active = Connection::import(&ends.active.export().unwrap(), &mkts(&TWO)).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    ends.passive.set_current_key(KeyId(102)).unwrap();
    ends.passive.remove_key(KeyId(101), None).unwrap();
    let again = Parts::new(ipv4_pair().reversed(), ACK, lost, acknowledges)
        .payload(b"lost at first")
        .signed(&mut ends.passive);
    receive(&mut ends.active, &again).unwrap();
    let acknowledgment = ends.active_data(b"");
    assert!(receive(&mut ends.passive, &acknowledgment).is_ok());
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

/// Anything in any order: nothing is lost, doubled, looped over or panics.
#[test]
fn the_links_survive_anything() {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    for round in 0..60 {
        let slots = 1 + round % 9;
        let mut server = shim(ipv4_pair().reversed(), mirrored(&[(1, 2)]), slots);
        let mut client = shim(ipv4_pair(), mkts(&[(1, 2)]), 64);
        let mut now = seconds(1000);
        let mut recorded: Vec<Vec<u8>> = Vec::new();
        for _ in 0..1500 {
            let there = with_ports(ipv4_pair(), 1 + random(12) as u16, 179);
            let back = there.reversed();
            let (isn, mine) = (100 + random(3) as u32 * 1000, 0x9000_0000);
            let flags = [SYN, SYN | ACK, ACK, crate::support::FIN | ACK, RST | ACK, RST][random(6) as usize];
            match random(12) {
                0..=3 => {
                    let sequence = if flags == SYN { isn } else { isn + 1 };
                    let sent = Packet::new(there, flags, sequence, mine + 1 + random(3) as u32);
                    if let Ok(sent) = outbound(&mut client, now, &sent.build()) {
                        recorded.push(sent.clone());
                        let _ = inbound(&mut server, now, &sent);
                    }
                }
                4..=6 => {
                    let sequence = if flags == SYN || flags == SYN | ACK { mine } else { mine + 1 };
                    let sent = Packet::new(back, flags, sequence, isn + 1);
                    if let Ok(sent) = outbound(&mut server, now, &sent.build()) {
                        let _ = inbound(&mut client, now, &sent);
                    }
                }
                7 | 8 if !recorded.is_empty() => {
                    let which = random(recorded.len() as u64) as usize;
                    let _ = inbound(&mut server, now, &recorded[which].clone());
                }
                9 => now += seconds([1, 16, 76, 241, 11_000][random(5) as usize]),
                10 => match random(4) {
                    0 => server.forget(&back),
                    1 => client.forget(&there),
                    2 => server.expire(now),
                    _ => {
                        if let Some(state) = server.export(&back) {
                            // The second time it takes the place of the first.
                            for _ in 0..2 {
                                let again = Connection::import(&state, &mirrored(&[(1, 2)])).unwrap();
                                server.adopt(now, again).unwrap();
                            }
                        }
                    }
                },
                _ => server.set_mkts(0, mirrored(&[(1, 2)])).unwrap(),
            }
            let pairs: Vec<_> = server.connections().map(Connection::pair).collect();
            assert!(pairs.len() <= slots);
            for (index, pair) in pairs.iter().enumerate() {
                assert_eq!(server.connection(pair).unwrap().pair(), *pair);
                assert!(!pairs[..index].contains(pair));
            }
        }
        server.expire(now + seconds(100_000));
        assert_eq!(server.connections().count(), 0);
        for port in 0..slots as u16 {
            let syn = Packet::new(with_ports(ipv4_pair(), 1000 + port, 179).reversed(), SYN, 1, 0);
            outbound(&mut server, now, &syn.build()).unwrap();
        }
        assert_eq!(server.connections().count(), slots);
    }
}
