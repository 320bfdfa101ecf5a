//! Recorded SYNs against connections that have been silent for hours, and peers that come back after a restart.

use std::time::Duration;

use wireseal_tcp_ao::KeyId;
use wireseal_tcp_ao::shim::{End, Event, EventKind, OPTION_ROOM, Refusal};

use crate::shim_support::{CLIENT_ISN, Link, Packet, SERVER_ISN, inbound, outbound, read, shim};
use crate::support::{ACK, FIN, RST, SYN, ipv4_pair, mirrored, mkts};

const HOURS: Duration = Duration::from_secs(3 * 3600);
/// The ISN of a peer that has restarted, behind everything that it sent before.
const NEW_ISN: u32 = CLIENT_ISN - 0x0100_0000;

/// A connection that has made no progress for three hours, and the client's SYN from another day.
fn silent(isn: u32) -> (Link, Vec<u8>) {
    let mut link = Link::connected(ipv4_pair());
    link.now += HOURS;
    (link, recorded_syn(isn))
}

fn recorded_syn(isn: u32) -> Vec<u8> {
    let mut earlier = shim(ipv4_pair(), mkts(&[(1, 2)]), 1);
    let now = Duration::from_secs(1);
    outbound(&mut earlier, now, &Packet::new(ipv4_pair(), SYN, isn, 0).build()).unwrap()
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
        let shown = inbound(&mut link.server, link.now, &recorded).unwrap();
        assert!(!read(&shown).is_signed());
        inbound(&mut link.server, link.now, &recorded).unwrap();
        link.server_sends(&link.server_data(b"")).unwrap();
        // The answer shows that the stack has it.
        assert_eq!(inbound(&mut link.server, link.now, &recorded), Err(Refusal::ConnectionExists));
        assert_alive(&mut link);
        // Nor does an answer to the SYN that comes too late.
        let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, 5, isn.wrapping_add(1)).build();
        let _ = outbound(&mut link.server, link.now, &syn_ack);
        assert!(link.server.connection(&link.pair.reversed()).unwrap().is_established());
        assert_alive(&mut link);
    }
}

#[test]
fn a_replayed_syn_does_not_take_a_session_whose_fin_is_not_acknowledged() {
    let mut link = Link::connected(ipv4_pair());
    let fin = Packet::new(link.pair.reversed(), FIN | ACK, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 1);
    link.server_sends(&fin).unwrap();
    link.now += Duration::from_secs(1000);
    inbound(&mut link.server, link.now, &recorded_syn(NEW_ISN)).unwrap();
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
        let verdict = inbound(&mut link.server, link.now, &recorded);
        assert_eq!(verdict.is_ok(), passes, "{ahead:#x} ahead: {verdict:?}");
        // Once the session is forgotten, any SYN is for the stack.
        link.server.expire(link.now);
        assert!(inbound(&mut link.server, link.now, &recorded).is_ok());
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
    // The handshake that was refused, and the session before it.
    assert_eq!(told, [EventKind::HandshakeEnded(End::Closed), EventKind::Ended(End::Replaced)]);
}

/// What was signed for the old connection and waits for its MAC gets it before that goes.
#[test]
fn a_refusal_in_a_batch_leaves_no_segment_before_it_without_a_mac() {
    let mut link = Link::connected(ipv4_pair());
    let back = link.pair.reversed();
    let fin = Packet::new(back, FIN | ACK, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 1);
    link.server_sends(&fin).unwrap();
    link.now += Duration::from_secs(240);
    inbound(&mut link.server, link.now, &recorded_syn(NEW_ISN)).unwrap();
    let reset = Packet::new(back, RST | ACK, 0, NEW_ISN + 1);
    let mut packets =
        [fin, reset].map(|packet| ([&[0; OPTION_ROOM], &packet.build()[..]].concat(), OPTION_ROOM));
    let mut places = Vec::new();
    link.server.outbound_batch(link.now, &mut packets, |_, result| places.push(result.unwrap()));
    inbound(&mut link.client, link.now, &packets[0].0[places[0].clone()]).unwrap();
}

#[test]
fn a_syn_that_was_replayed_during_the_handshake_opens_nothing_hours_later() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]);
    inbound(&mut link.server, link.now, &recorded_syn(NEW_ISN)).unwrap();
    link.connect(ipv4_pair());
    link.now += HOURS;
    let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, 0x6000, NEW_ISN + 1).build();
    let _ = outbound(&mut link.server, link.now, &syn_ack);
    assert!(link.server.connection(&link.pair.reversed()).unwrap().is_established());
}

/// The peer's keys of today decide, not those of the connection that is over.
#[test]
fn a_peer_that_restarted_comes_back_with_new_keys() {
    let (mut link, _) = silent(NEW_ISN);
    link.server.set_mkts(0, mirrored(&[(3, 4), (1, 2)])).unwrap();
    let mut restarted = shim(ipv4_pair(), mkts(&[(3, 4)]), 1);
    let syn = outbound(&mut restarted, link.now, &Packet::new(ipv4_pair(), SYN, NEW_ISN, 0).build()).unwrap();
    inbound(&mut link.server, link.now, &syn).unwrap();
    let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, 0x6000, NEW_ISN + 1);
    let syn_ack = link.server_sends(&syn_ack).unwrap();
    inbound(&mut restarted, link.now, &syn_ack).unwrap();
    // A key that is gone by the time of the answer signs nothing.
    let (mut link, recorded) = silent(NEW_ISN);
    inbound(&mut link.server, link.now, &recorded).unwrap();
    link.server.set_mkts(0, mirrored(&[(3, 4)])).unwrap();
    let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, 0x6000, NEW_ISN + 1);
    assert_eq!(link.server_sends(&syn_ack), Err(Refusal::NoKey));
}

/// The SYN of another day asks for a key that this connection was never asked for, whether the stack answers it or not.
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
            link.deliver_to_server(&Packet::new(link.pair, SYN, CLIENT_ISN, 0)).unwrap();
        }
        inbound(&mut link.server, link.now, &recorded).unwrap();
        if is_answered {
            let syn_ack = Packet::new(link.pair.reversed(), SYN | ACK, 5, NEW_ISN + 1);
            link.server_sends(&syn_ack).unwrap();
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
