//! Recorded segments, mostly SYNs, against handshakes, live connections, and peers that return after a restart.

use crate::shim_support::*;
use crate::support::*;

const HOURS: Duration = Duration::from_secs(3 * 3600);

/// The ISN of a restarted peer, lower than everything that it sent before.
const NEW_ISN: u32 = CLIENT_ISN - 0x0100_0000;

/// A connection without progress for three hours, and an earlier SYN of the client's.
fn silent(isn: u32) -> (Link, Vec<u8>) {
    let mut link = Link::connected(ipv4_pair());
    link.now += HOURS;
    (link, recorded_syn(&[(1, 2)], isn))
}

fn assert_alive(link: &mut Link) {
    link.deliver_to_client(&link.server_data(b"still there")).unwrap();
    link.deliver_to_server(&link.client_data(b"so am I")).unwrap();
}

#[test]
fn a_replayed_syn_does_not_take_a_silent_session() {
    for isn in [CLIENT_ISN, NEW_ISN] {
        let (mut link, recorded) = silent(isn);
        // A stack that has the connection drops the SYN, or acknowledges what it expects (RFC 5961 §4).
        let shown = link.server_gets(&recorded).unwrap();
        assert!(!read(&shown).is_signed());
        link.server_gets(&recorded).unwrap();
        link.server_sends(&link.server_data(b"")).unwrap();
        // The answer shows that the stack has it.
        assert_eq!(link.server_gets(&recorded), Err(Refusal::ConnectionExists));
        assert_alive(&mut link);
        // A late answer to the SYN does not help either.
        let _ =
            link.server_emits(&Packet::new(link.pair.reversed(), SYN | ACK, 5, isn.wrapping_add(1)).build());
        assert!(link.server.connection(&link.pair.reversed()).unwrap().is_established());
        assert_alive(&mut link);
    }
}

#[test]
fn a_replayed_syn_does_not_take_a_session_whose_fin_is_not_acknowledged() {
    let mut link = Link::connected(ipv4_pair());
    let fin = Packet::new(link.pair.reversed(), FIN | ACK, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 1);
    link.server_sends(&fin).unwrap();
    link.now += seconds(1000);
    link.server_gets(&recorded_syn(&[(1, 2)], NEW_ISN)).unwrap();
    link.deliver_to_client(&fin).unwrap();
    link.deliver_to_server(&link.client_data(b"half closed")).unwrap();
}

/// An older stack resets the connection for it (RFC 793).
#[test]
fn a_syn_in_a_silent_sessions_window_does_not_reach_the_stack() {
    for (ahead, passes) in
        [(0, false), (1, false), (0x4000_ffff, false), (0x4002_0000, true), (0xffff_ffff, true)]
    {
        let (mut link, recorded) = silent((CLIENT_ISN + 1).wrapping_add(ahead));
        link.deliver_to_server(&link.client_data(b"")).unwrap();
        link.now += HOURS;
        let verdict = link.server_gets(&recorded);
        assert_eq!(verdict.is_ok(), passes, "{ahead:#x} ahead: {verdict:?}");
        // Once the session is forgotten, the stack gets every SYN.
        link.server.expire(link.now);
        assert!(link.server_gets(&recorded).is_ok());
    }
}

#[test]
fn a_peer_that_restarted_comes_back_once_this_ends_stack_has_given_up() {
    for in_batch in [false, true] {
        let (Link { server, now, .. }, recorded) = silent(NEW_ISN);
        let mut told = Vec::new();
        let mut server = server.with_observer(|event: &Event| told.push(event.kind));
        let mut restarted = shim(ipv4_pair(), mkts(&[(1, 2)]), 1);
        let mut send = |packet: Packet| outbound(&mut restarted, now, &packet.build()).unwrap();
        assert_eq!(send(Packet::new(ipv4_pair(), SYN, NEW_ISN, 0)), recorded);
        inbound(&mut server, now, &recorded).unwrap();
        let syn_ack = Packet::new(ipv4_pair().reversed(), SYN | ACK, 0x6000, NEW_ISN + 1).build();
        let mut buffer = [&[0; OPTION_ROOM], &syn_ack[..]].concat();
        let place = if in_batch {
            let mut place = None;
            let mut packets = [(&mut buffer, OPTION_ROOM)];
            server.outbound_batch(now, &mut packets, |_, result| place = result.ok());
            place.unwrap()
        } else {
            server.outbound(now, &mut buffer, OPTION_ROOM).unwrap()
        };
        inbound(&mut restarted, now, &buffer[place]).unwrap();
        let ack = Packet::new(ipv4_pair(), ACK, NEW_ISN + 1, 0x6001).build();
        let ack = outbound(&mut restarted, now, &ack).unwrap();
        inbound(&mut server, now, &ack).unwrap();
        drop(server);
        assert_eq!(told, [EventKind::Ended(End::Replaced), EventKind::Opened]);
    }
}

#[test]
fn a_listener_that_is_gone_refuses_a_peer_that_restarted() {
    let (Link { pair, server, now, .. }, recorded) = silent(NEW_ISN);
    let mut told = Vec::new();
    let mut server = server.with_observer(|event: &Event| told.push(event.kind));
    let mut restarted = shim(pair, mkts(&[(1, 2)]), 1);
    let syn = Packet::new(pair, SYN, NEW_ISN, 0).build();
    assert_eq!(outbound(&mut restarted, now, &syn).unwrap(), recorded);
    inbound(&mut server, now, &recorded).unwrap();
    let reset = Packet::new(pair.reversed(), RST | ACK, 0, NEW_ISN + 1).build();
    let reset = outbound(&mut server, now, &reset).unwrap();
    inbound(&mut restarted, now, &reset).unwrap();
    assert_eq!(server.connections().count(), 0);
    drop(server);
    // First the handshake that was refused, then the session before it.
    assert_eq!(told, [EventKind::HandshakeEnded(End::Closed), EventKind::Ended(End::Replaced)]);
}

/// A segment that was signed for the old connection and waits for its MAC gets it before that connection is removed.
#[test]
fn a_refusal_in_a_batch_leaves_no_segment_before_it_without_a_mac() {
    let mut link = Link::connected(ipv4_pair());
    let back = link.pair.reversed();
    let fin = || Packet::new(back, FIN | ACK, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 1).payload(&[1; 1000]);
    link.server_sends(&fin()).unwrap();
    link.now += seconds(240);
    link.server_gets(&recorded_syn(&[(1, 2)], NEW_ISN)).unwrap();
    let reset = Packet::new(back, RST | ACK, 0, NEW_ISN + 1);
    let mut packets =
        [fin(), fin(), reset].map(|packet| ([&[0; OPTION_ROOM], &packet.build()[..]].concat(), OPTION_ROOM));
    let mut places = Vec::new();
    link.server.outbound_batch(link.now, &mut packets, |_, result| places.push(result.unwrap()));
    for ((packet, _), place) in packets.iter().zip(places).take(2) {
        link.client_gets(&packet[place]).unwrap();
    }
}

#[test]
fn a_syn_that_was_replayed_during_the_handshake_opens_nothing_hours_later() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    link.server_gets(&recorded_syn(&[(1, 2)], NEW_ISN)).unwrap();
    link.connect(ipv4_pair());
    link.now += HOURS;
    let _ = link.server_emits(&Packet::new(link.pair.reversed(), SYN | ACK, 0x6000, NEW_ISN + 1).build());
    assert!(link.server.connection(&link.pair.reversed()).unwrap().is_established());
}

/// The peer's present keys decide, not those of the old connection.
#[test]
fn a_peer_that_restarted_comes_back_with_new_keys() {
    let (mut link, _) = silent(NEW_ISN);
    link.server.set_mkts(0, mirrored(&[(3, 4), (1, 2)])).unwrap();
    let mut restarted = shim(ipv4_pair(), mkts(&[(3, 4)]), 1);
    let syn = outbound(&mut restarted, link.now, &Packet::new(ipv4_pair(), SYN, NEW_ISN, 0).build()).unwrap();
    link.server_gets(&syn).unwrap();
    let syn_ack = link.server_signs(SYN | ACK, 0x6000, NEW_ISN + 1).unwrap();
    inbound(&mut restarted, link.now, &syn_ack).unwrap();
    // A key that has been removed by the time of the answer signs nothing.
    let (mut link, recorded) = silent(NEW_ISN);
    link.server_gets(&recorded).unwrap();
    link.server.set_mkts(0, mirrored(&[(3, 4)])).unwrap();
    assert_eq!(link.server_signs(SYN | ACK, 0x6000, NEW_ISN + 1), Err(Refusal::NoKey));
    // Nor does one that the SYN asked for.
    let (mut link, _) = silent(NEW_ISN);
    link.server.set_mkts(0, mirrored(&[(1, 2), (3, 4)])).unwrap();
    let mut restarted: Connection<4> =
        Connection::active(ipv4_pair(), Isn(NEW_ISN), &mkts(&[(1, 2), (3, 4)])).unwrap();
    restarted.set_rnext_key(KeyId(4)).unwrap();
    link.server_gets(&packet(ipv4_pair(), &sent(&mut restarted, SYN, NEW_ISN, 0))).unwrap();
    link.server.set_mkts(0, mirrored(&[(1, 2)])).unwrap();
    assert_eq!(link.server_signs(SYN | ACK, 0x6000, NEW_ISN + 1), Err(Refusal::NoKey));
}

/// The earlier SYN asks for a key that this connection was never asked for, whether the stack answers it or not.
#[test]
fn ao_22_a_replayed_syn_does_not_stop_a_later_rollover() {
    let ids = [(1, 101), (2, 102)];
    for is_answered in [false, true] {
        let mut link = Link::with_ids(ipv4_pair(), &ids);
        let mut earlier = shim(ipv4_pair(), mkts(&ids), 1);
        let syn = Packet::new(link.pair, SYN, NEW_ISN, 0).build();
        outbound(&mut earlier, link.now, &syn).unwrap();
        earlier.connection_mut(&link.pair).unwrap().set_rnext_key(KeyId(102)).unwrap();
        let recorded = outbound(&mut earlier, link.now, &syn).unwrap();
        if is_answered {
            link.forth(SYN, CLIENT_ISN, 0).unwrap();
        }
        link.server_gets(&recorded).unwrap();
        if is_answered {
            link.server_signs(SYN | ACK, 5, NEW_ISN + 1).unwrap();
        }
        link.connect(link.pair);
        let lost = link.client_data(b"lost");
        link.client_sends(&lost).unwrap();
        let mut next = link.client_data(b"received");
        next.tcp.sequence_number += 4;
        link.deliver_to_server(&next).unwrap();
        let client = link.client.connection_mut(&link.pair).unwrap();
        client.set_rnext_key(KeyId(102)).unwrap();
        client.remove_key(KeyId(1), Some(KeyId(2))).unwrap();
        link.deliver_to_server(&lost).unwrap();
        let server = link.server.connection(&link.pair.reversed()).unwrap();
        assert_eq!(server.current_key().send_id, KeyId(102), "answered: {is_answered}");
    }
}

#[test]
fn keys_that_change_while_another_syn_waits_do_not_panic() {
    let server = mirrored(&[(1, 2), (3, 4)]);
    let mut link = Link::with_mkts(ipv4_pair(), mkts(&[(3, 4)]), server);
    link.server_gets(&recorded_syn(&[(1, 2)], 7000)).unwrap();
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    link.server.set_mkts(0, mirrored(&[(3, 4)])).unwrap();
    link.back(SYN | ACK, SERVER_ISN, CLIENT_ISN + 1).unwrap();
}

#[test]
fn a_key_removed_while_another_syn_waits_does_not_panic() {
    let mut link = Link::with_mkts(ipv4_pair(), mkts(&[(3, 4)]), mirrored(&[(1, 2), (3, 4)]));
    link.server_gets(&recorded_syn(&[(1, 2)], 7000)).unwrap();
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    link.server.connection_mut(&link.pair.reversed()).unwrap().remove_key(KeyId(4), None).unwrap();
    let _ = link.server_signs(SYN | ACK, SERVER_ISN, CLIENT_ISN + 1);
}

/// With the same numbers, the FIN looks acknowledged, and a replayed SYN could take the keys needed to repeat it.
#[test]
fn a_replayed_acknowledgment_of_two_gigabytes_ago_acknowledges_no_fin() {
    let mut link = Link::connected(ipv4_pair());
    let base = SERVER_ISN.wrapping_add(1);
    let recorded = link.client_signs(ACK, CLIENT_ISN + 1, base).unwrap();
    for octets in [0x4000_0000, 0x8000_0000, 0x9000_0000_u32] {
        let next = base.wrapping_add(octets);
        link.back(ACK, next, CLIENT_ISN + 1).unwrap();
        link.forth(ACK, CLIENT_ISN + 1, next).unwrap();
    }
    let next = base.wrapping_add(0x9000_0000);
    link.back(FIN | ACK, next, CLIENT_ISN + 1).unwrap();
    link.server_gets(&recorded).unwrap();
    link.forth(FIN | ACK, CLIENT_ISN + 1, next).unwrap();
    // This end's FIN is not acknowledged.
    assert_eq!(link.server_gets(&recorded_syn(&[(1, 2)], CLIENT_ISN + 5000)), Err(Refusal::ConnectionExists));
}

/// The acknowledgment field means nothing without its flag. After both FINs, the end that closed second accepts any other ISN.
#[test]
fn a_segment_without_acknowledgment_acknowledges_no_fin() {
    for (flags, expected) in [(ACK, Ok(())), (0, Err(Refusal::ConnectionExists))] {
        let mut link = Link::connected(ipv4_pair());
        let next = SERVER_ISN.wrapping_add(1);
        link.forth(FIN | ACK, CLIENT_ISN + 1, next).unwrap();
        link.back(FIN | ACK, next, CLIENT_ISN + 2).unwrap();
        link.forth(flags, CLIENT_ISN + 2, next.wrapping_add(1)).unwrap();
        assert_eq!(link.server_gets(&recorded_syn(&[(1, 2)], CLIENT_ISN - 1000)).map(drop), expected);
    }
}

/// The stack refuses the genuine SYN while the shim follows a replayed one.
#[test]
fn a_reset_that_answers_another_syn_verifies() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    link.server_gets(&recorded_syn(&[(1, 2)], 7000)).unwrap();
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    link.back(RST | ACK, 0, CLIENT_ISN + 1).unwrap();
}

/// Without this, a SYN replayed to an end in SYN-SENT would keep it from hearing the listener's refusal.
#[test]
fn a_replayed_syn_does_not_hide_a_listeners_reset() {
    for replayed in [7000, 0x9000_0000] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        let mut earlier = shim(ipv4_pair().reversed(), mirrored(&[(1, 2)]), 1);
        let replay = Packet::new(ipv4_pair().reversed(), SYN, replayed, 0).build();
        let replay = outbound(&mut earlier, seconds(1), &replay).unwrap();
        let syn = link.client_signs(SYN, CLIENT_ISN, 0).unwrap();
        link.client_gets(&replay).unwrap();
        link.server_gets(&syn).unwrap();
        assert!(link.back(RST | ACK, 0, CLIENT_ISN + 1).is_ok(), "{replayed:#x}");
    }
}

/// The same without an attacker: the SYN was repeated, and the second SYN-ACK has another cookie.
#[test]
fn the_first_of_two_syn_acks_may_be_acknowledged() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let (pair, back) = (link.pair, link.pair.reversed());
    let syn = Packet::new(pair, SYN, CLIENT_ISN, 0);
    link.deliver_to_server(&syn).unwrap();
    link.deliver_to_server(&syn).unwrap();
    link.back(SYN | ACK, 0x4000, CLIENT_ISN + 1).unwrap();
    link.server_signs(SYN | ACK, 0x5000, CLIENT_ISN + 1).unwrap();
    assert!(link.forth(ACK, CLIENT_ISN + 1, 0x4001).is_ok());
    let acknowledged = link.server.connection(&back).unwrap().newest_acknowledgment();
    assert_eq!(acknowledged, Some(SeqNum(0x4001)));
}

/// A stack with SYN cookies answers every SYN at once. The client is open after the first SYN-ACK and sends no more SYNs.
#[test]
fn three_answered_replays_do_not_push_out_the_genuine_syn() {
    for replays in [1, 3, 4] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        link.forth(SYN, CLIENT_ISN, 0).unwrap();
        link.back(SYN | ACK, 0x4000, CLIENT_ISN + 1).unwrap();
        for isn in (7000..).step_by(1000).take(replays) {
            link.server_gets(&recorded_syn(&[(1, 2)], isn)).unwrap();
            link.server_signs(SYN | ACK, 0x5000 + isn, isn + 1).unwrap();
        }
        let completes = link.forth(ACK, CLIENT_ISN + 1, 0x4001).is_ok();
        assert_eq!(completes, replays < 4, "four handshakes are kept");
    }
}

/// The handshake's time began with a replay. The stack's answer to the genuine SYN does not restart it.
#[test]
fn the_time_of_a_replay_is_not_that_of_the_handshake_after_it() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    link.server_gets(&recorded_syn(&[(1, 2)], 7000)).unwrap();
    link.now += seconds(74);
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    link.back(SYN | ACK, SERVER_ISN, CLIENT_ISN + 1).unwrap();
    link.now += seconds(1);
    link.server_gets(&recorded_syn(&[(1, 2)], 7000)).unwrap();
    assert!(link.forth(ACK, CLIENT_ISN + 1, SERVER_ISN.wrapping_add(1)).is_ok());
}

#[test]
fn a_replayed_syn_does_not_disturb_a_handshake() {
    for replays in [1, 5] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        link.forth(SYN, CLIENT_ISN, 0).unwrap();
        for isn in 0..replays {
            link.server_gets(&recorded_syn(&[(1, 2)], 7000 + isn)).unwrap();
        }
        // The stack is in SYN-RECEIVED and answers the first SYN.
        link.back(SYN | ACK, SERVER_ISN, CLIENT_ISN + 1).unwrap();
        link.server_gets(&recorded_syn(&[(1, 2)], 8000)).unwrap();
        link.forth(ACK, CLIENT_ISN + 1, SERVER_ISN + 1).unwrap();
        assert!(link.server.connection(&link.pair.reversed()).unwrap().is_established());
        link.deliver_to_client(&link.server_data(b"data")).unwrap();
    }
}

#[test]
fn a_stack_that_drops_a_replayed_syn_answers_the_genuine_one_with_the_key_it_asks_for() {
    // The replay is from a time when another key, of another length, was in use.
    let key = |send_id, recv_id, algorithm, length| {
        mkt(send_id, recv_id, algorithm).with_mac_length(length).unwrap()
    };
    let client = [key(1, 2, TcpAoAlgorithm::Aes128Cmac, 16), key(3, 4, TcpAoAlgorithm::HmacSha1, 12)];
    let server = [key(2, 1, TcpAoAlgorithm::Aes128Cmac, 16), key(4, 3, TcpAoAlgorithm::HmacSha1, 12)];
    let only_new = MktSet::from_mkts([client[1].clone()]).unwrap();
    let mut link = Link::with_mkts(ipv4_pair(), only_new, MktSet::from_mkts(server).unwrap());
    let mut earlier = shim(ipv4_pair(), MktSet::from_mkts([client[0].clone()]).unwrap(), 1);
    let old = outbound(&mut earlier, seconds(1), &Packet::new(ipv4_pair(), SYN, 7000, 0).build()).unwrap();
    link.server_gets(&old).unwrap();
    link.server_signs(SYN | ACK, 1, 7001).unwrap();
    link.connect(ipv4_pair());
    link.deliver_to_client(&link.server_data(b"data")).unwrap();
    // It asks for the key of the genuine SYN, too.
    let rnext_key = link.server.connection(&link.pair.reversed()).unwrap().rnext_key();
    assert_eq!(rnext_key.recv_id, KeyId(3));
}

/// The stack acknowledges the payload of the SYN together with it (RFC 7413 §4.2).
#[test]
fn a_replayed_syn_does_not_disturb_the_handshake_of_a_syn_with_payload() {
    let request = b"a request";
    let after = CLIENT_ISN + 1 + request.len() as u32;
    for is_replayed_first in [false, true] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        let replay = recorded_syn(&[(1, 2)], 7000);
        if is_replayed_first {
            link.server_gets(&replay).unwrap();
        }
        link.deliver_to_server(&Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).payload(request)).unwrap();
        if !is_replayed_first {
            link.server_gets(&replay).unwrap();
        }
        link.back(SYN | ACK, SERVER_ISN, after).unwrap();
        link.server_gets(&replay).unwrap();
        link.forth(ACK, after, SERVER_ISN.wrapping_add(1)).unwrap();
        assert!(link.server.connection(&link.pair.reversed()).unwrap().is_established());
        // An answer to more than the SYN had answers another one.
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        link.server_gets(&replay).unwrap();
        link.deliver_to_server(&Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).payload(request)).unwrap();
        assert!(link.back(SYN | ACK, SERVER_ISN, after + 1).is_err());
    }
}

#[test]
fn a_peer_that_restarted_comes_back_with_a_syn_with_payload() {
    let (mut link, _) = silent(NEW_ISN);
    let mut restarted = shim(ipv4_pair(), mkts(&[(1, 2)]), 1);
    let syn = Packet::new(ipv4_pair(), SYN, NEW_ISN, 0).payload(b"a request").build();
    link.server_gets(&outbound(&mut restarted, link.now, &syn).unwrap()).unwrap();
    let syn_ack = link.server_signs(SYN | ACK, 0x6000, NEW_ISN + 10).unwrap();
    inbound(&mut restarted, link.now, &syn_ack).unwrap();
}

/// The time of a handshake starts with the first answer. Neither repeated answers nor those with another ISN extend it.
#[test]
fn repeated_answers_do_not_extend_a_handshake() {
    for second_isn in [0x4000, 0x5000] {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
        link.forth(SYN, CLIENT_ISN, 0).unwrap();
        link.server_signs(SYN | ACK, 0x4000, CLIENT_ISN + 1).unwrap();
        link.now += seconds(70);
        link.server_signs(SYN | ACK, second_isn, CLIENT_ISN + 1).unwrap();
        link.server.expire(link.now + seconds(4));
        assert_eq!(link.server.connections().count(), 1);
        link.server.expire(link.now + seconds(5));
        assert_eq!(link.server.connections().count(), 0);
    }
}

/// Only a SYN-ACK and a listener's reset answer a SYN.
#[test]
fn a_bare_ack_does_not_answer_a_replayed_syn() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    let back = link.pair.reversed();
    link.server_gets(&recorded_syn(&[(1, 2)], NEW_ISN)).unwrap();
    link.server_signs(SYN | ACK, 0x4000, NEW_ISN + 1).unwrap();
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    link.server_signs(SYN | ACK, 0x5000, CLIENT_ISN + 1).unwrap();
    link.server_signs(ACK, 0x5001, NEW_ISN + 1).unwrap();
    assert_eq!(link.server.connection(&back).unwrap().remote_isn(), Some(Isn(CLIENT_ISN)));
}

/// A number in a segment without the ACK flag acknowledges nothing (RFC 9293 §3.1).
#[test]
fn an_acknowledgment_number_without_the_ack_flag_is_ignored() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    link.back(SYN | ACK, 0x4000, CLIENT_ISN + 1).unwrap();
    link.server_signs(SYN | ACK, 0x5000, CLIENT_ISN + 1).unwrap();
    // The client knows the first SYN-ACK alone.
    assert_eq!(link.forth(RST, CLIENT_ISN + 1, 0x4001), Err(bad_mac(1)));
    assert!(link.forth(RST | ACK, CLIENT_ISN + 1, 0x4001).is_ok());
}

/// The stack refuses a replay while the genuine SYN has its answer.
#[test]
fn a_reset_for_a_replayed_syn_does_not_end_the_handshake() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    link.back(SYN | ACK, 0x4000, CLIENT_ISN + 1).unwrap();
    link.server_gets(&recorded_syn(&[(1, 2)], NEW_ISN)).unwrap();
    link.server_signs(RST | ACK, 0, NEW_ISN + 1).unwrap();
    assert_eq!(link.server.connections().count(), 1);
    link.forth(ACK, CLIENT_ISN + 1, 0x4001).unwrap();
}
