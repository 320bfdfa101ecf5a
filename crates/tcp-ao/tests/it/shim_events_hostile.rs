//! What could deceive the shim's observer, or get through while mismatches are accepted.

use std::time::Duration;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::shim::{Direction, End, EventKind, Refusal, Shim, ShimConfig};
use wireseal_tcp_ao::{KeyId, MktSet, OptionError, Peer, SignError, VerifyError};

use crate::shim_events::{Log, UNSIGNED, kinds, migrating, passed};
use crate::shim_support::{
    CLIENT_ISN, Link, Packet, SERVER_ISN, hash_key, inbound, outbound, peer, read, shim, slots,
};
use crate::support::{ACK, FIN, RST, SYN, ipv4_pair, mirrored, mkt_with_secret, mkts};

/// The server's numbers begin so far behind its ISN.
fn server_at(offset: u32) -> u32 {
    SERVER_ISN.wrapping_add(1 + offset)
}

/// A connected link whose server has a key with RecvID 3 that the client lacks, and has just told nothing.
fn link_with_a_key_too_many() -> Link<Log> {
    let mut link = Link::with_mkts(ipv4_pair(), mkts(&[(1, 2)]), mirrored(&[(1, 2), (3, 4)])).observed();
    link.connect(ipv4_pair());
    assert_eq!(kinds(&mut link.server), [EventKind::Opened]);
    link
}

const STAYS_ON_1: EventKind = EventKind::PeerOnOldKey { signed_with: KeyId(1), asked_for: KeyId(3) };

#[test]
fn a_retransmission_that_asks_first_accuses_no_peer() {
    let mut link = link_with_a_key_too_many();
    let (pair, back) = (link.pair, link.pair.reversed());
    let data = |at| Packet::new(back, ACK, server_at(at), CLIENT_ISN + 1).payload(b"data");
    let ack = |at| Packet::new(pair, ACK, CLIENT_ISN + 1, server_at(at));
    link.deliver_to_client(&data(0)).unwrap();
    link.deliver_to_client(&data(4)).unwrap();
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(3)).unwrap();
    // The retransmission is lost; what the client acknowledges did not ask.
    link.server_sends(&data(0)).unwrap();
    link.deliver_to_server(&ack(8)).unwrap();
    assert_eq!(kinds(&mut link.server), []);
    link.deliver_to_client(&data(8)).unwrap();
    link.deliver_to_server(&ack(12)).unwrap();
    assert_eq!(kinds(&mut link.server), [STAYS_ON_1]);
}

#[test]
fn a_late_segment_under_the_key_asked_for_does_not_hide_that_the_peer_has_left_it() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2), (3, 4)]).observed::<Log>();
    link.connect(ipv4_pair());
    let (pair, back) = (link.pair, link.pair.reversed());
    let data = |at| Packet::new(back, ACK, server_at(at), CLIENT_ISN + 1).payload(b"data");
    let ack = |at| Packet::new(pair, ACK, CLIENT_ISN + 1, server_at(at));
    let late = link.client_sends(&ack(0)).unwrap();
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(3)).unwrap();
    link.deliver_to_client(&data(0)).unwrap();
    link.deliver_to_server(&ack(4)).unwrap();
    link.client.connection_mut(&pair).unwrap().remove_key(KeyId(1), Some(KeyId(3))).unwrap();
    link.deliver_to_server(&ack(4)).unwrap();
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(1)).unwrap();
    link.deliver_to_client(&data(4)).unwrap();
    link.deliver_to_client(&data(8)).unwrap();
    inbound(&mut link.server, link.now, &late).unwrap();
    kinds(&mut link.server);
    link.deliver_to_server(&ack(12)).unwrap();
    let behind = EventKind::PeerOnOldKey { signed_with: KeyId(3), asked_for: KeyId(1) };
    assert!(kinds(&mut link.server).contains(&behind));
}

#[test]
fn a_replay_from_2_gib_ago_accuses_no_peer() {
    let mut link = link_with_a_key_too_many();
    let (pair, back) = (link.pair, link.pair.reversed());
    let old = link.client_sends(&Packet::new(pair, ACK, CLIENT_ISN + 1, server_at(0))).unwrap();
    let data = |at| Packet::new(back, ACK, server_at(at), CLIENT_ISN + 1).payload(b"data");
    for at in 1..4 {
        link.server_sends(&data(at << 30)).unwrap();
    }
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(3)).unwrap();
    link.server_sends(&data((3 << 30) + 4)).unwrap();
    inbound(&mut link.server, link.now, &old).unwrap();
    assert_eq!(kinds(&mut link.server), []);
}

#[test]
fn a_connection_that_is_closed_when_it_opens_has_ended_once() {
    let mut shim = shim(ipv4_pair(), mkts(&[(1, 2)]), 1).with_observer(Log::default());
    let odd = Packet::new(ipv4_pair(), SYN | RST, CLIENT_ISN, 0).build();
    outbound(&mut shim, Duration::from_secs(1), &odd).unwrap();
    assert_eq!(kinds(&mut shim).len(), 1);
}

#[test]
fn the_strictest_of_peers_that_cover_the_same_connections_decides() {
    let pair = ipv4_pair().reversed();
    let [own, other] = [mirrored(&[(1, 2)]), mirrored(&[(3, 4)])];
    for lenient in [0, 1] {
        let peers = vec![peer(pair, own.clone()), peer(pair, other.clone())];
        let mut server = Shim::new(ShimConfig::new(1500), hash_key(), peers, slots(8)).unwrap();
        let now = Duration::from_secs(1000);
        server.accept_mismatches(lenient, Duration::MAX).unwrap();
        let unsigned = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).build();
        assert_eq!(inbound(&mut server, now, &unsigned), Err(UNSIGNED));
        for id in [1, 3] {
            let wrong = mkt_with_secret(id, 9, TcpAoAlgorithm::HmacSha1, b"wrong");
            let mut forger = shim(ipv4_pair(), MktSet::from_mkts([wrong]).unwrap(), 1);
            let forged = outbound(&mut forger, now, &unsigned).unwrap();
            let bad = Refusal::Verify(VerifyError::BadMac { key_id: KeyId(id) });
            assert_eq!(inbound(&mut server, now, &forged), Err(bad), "{lenient} {id}");
        }
        // This end's SYN is signed each time.
        let syn = Packet::new(pair, SYN, SERVER_ISN, 0).build();
        for _ in 0..2 {
            assert!(read(&outbound(&mut server, now, &syn).unwrap()).is_signed());
        }
        server.accept_mismatches(1 - lenient, Duration::MAX).unwrap();
        assert!(inbound(&mut server, now, &unsigned).is_ok());
    }
    // One that covers them less specifically has no say.
    let mut server = shim(pair, own, 8);
    let mut wide: Peer = server.remove_peer(0).unwrap();
    server.add_peer(Peer { connections: wide.connections, mkts: other }).unwrap();
    wide.connections.remote = "192.0.2.0/24".parse().unwrap();
    let mut server = Shim::new(
        ShimConfig::new(1500),
        hash_key(),
        vec![server.remove_peer(0).unwrap().into(), wide.into()],
        slots(8),
    )
    .unwrap();
    server.accept_mismatches(0, Duration::MAX).unwrap();
    let unsigned = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).build();
    assert!(inbound(&mut server, Duration::ZERO, &unsigned).is_ok());
}

#[test]
fn while_mismatches_are_accepted_an_old_signed_connection_does_not_sign_a_new_unsigned_one() {
    let no_connection = passed(Direction::Outbound, Refusal::NoConnection);
    for is_closed in [true, false] {
        let mut link = migrating(mkts(&[(1, 2)]));
        let (pair, back) = (link.pair, link.pair.reversed());
        link.connect(pair);
        if is_closed {
            let fin = Packet::new(pair, FIN | ACK, CLIENT_ISN + 1, server_at(0));
            link.deliver_to_server(&fin).unwrap();
            link.deliver_to_client(&Packet::new(back, FIN | ACK, server_at(0), CLIENT_ISN + 2)).unwrap();
            link.deliver_to_server(&Packet::new(pair, ACK, CLIENT_ISN + 2, server_at(1))).unwrap();
        } else {
            // The peer restarts without keys; its reset ends the connection for this end's stack alone.
            inbound(&mut link.server, link.now, &Packet::new(pair, RST, CLIENT_ISN + 1, 0).build()).unwrap();
        }
        kinds(&mut link.server);
        let syn = Packet::new(pair, SYN, 7000, 0).build();
        assert_eq!(inbound(&mut link.server, link.now, &syn), Ok(syn));
        for packet in [
            Packet::new(back, SYN | ACK, 9000, 7001),
            Packet::new(back, SYN | ACK, 9000, 7001),
            Packet::new(back, ACK, 9001, 7001).payload(b"data"),
        ] {
            let packet = packet.build();
            assert_eq!(outbound(&mut link.server, link.now, &packet), Ok(packet));
        }
        let mut told = vec![passed(Direction::Inbound, UNSIGNED)];
        told.extend(Some(EventKind::Ended(End::Replaced)).filter(|_| !is_closed));
        told.extend([no_connection; 3]);
        assert_eq!(kinds(&mut link.server), told);
    }
}

#[test]
fn while_mismatches_are_accepted_a_repeated_syn_ack_is_still_signed() {
    let mut link = migrating(mkts(&[(1, 2)]));
    link.connect(ipv4_pair());
    link.server_sends(&Packet::new(link.pair.reversed(), SYN | ACK, SERVER_ISN, CLIENT_ISN + 1)).unwrap();
}

#[test]
fn while_mismatches_are_accepted_what_breaks_the_format_is_refused() {
    let mut link = migrating(mkts(&[(1, 2)]));
    link.connect(ipv4_pair());
    kinds(&mut link.server);
    let both = [29, 4, 1, 1, 19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    let with_md5 = link.client_data(b"data").options(&both).build();
    let refusal = Refusal::Verify(OptionError::AoWithMd5.into());
    assert_eq!(inbound(&mut link.server, link.now, &with_md5), Err(refusal));
    let cut = link.server_data(b"data").options(&[1, 1, 2, 9]).build();
    let error = OptionError::BadLength { kind: 2, offset: 2 };
    let refusal = Refusal::Sign(SignError::Options(error));
    assert_eq!(outbound(&mut link.server, link.now, &cut), Err(refusal));
    assert_eq!(link.server.passed().total(), 0);
}

#[test]
fn while_mismatches_are_accepted_a_stack_that_still_uses_tcp_md5_goes_on_with_it() {
    let mut link = migrating(MktSet::new());
    let md5 = [19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    for _ in 0..2 {
        let syn = Packet::new(link.pair.reversed(), SYN, SERVER_ISN, 0).options(&md5).build();
        assert_eq!(outbound(&mut link.server, link.now, &syn), Ok(syn));
    }
    let told = passed(Direction::Outbound, Refusal::AlreadySigned);
    assert_eq!(kinds(&mut link.server), [told; 2]);
}

#[test]
fn while_mismatches_are_accepted_no_peer_is_told_an_mss_that_the_stack_cannot_take() {
    let mut link = migrating(MktSet::new());
    let syn = Packet::new(link.pair.reversed(), SYN, SERVER_ISN, 0).options(&[2, 4, 0x05, 0x8c]).build();
    for _ in 0..2 {
        assert_eq!(read(&outbound(&mut link.server, link.now, &syn).unwrap()).mss(), Some(1420));
    }
}
