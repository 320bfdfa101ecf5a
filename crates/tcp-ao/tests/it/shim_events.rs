//! The events that the shim's observer gets, its counters, and peers whose mismatches are accepted.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::shim_support::*;
use crate::support::*;

fn refused(refusal: Refusal) -> EventKind {
    EventKind::Refused { direction: Direction::Inbound, refusal }
}

pub(crate) fn passed(direction: Direction, refusal: Refusal) -> EventKind {
    EventKind::Passed { direction, refusal }
}

#[test]
fn a_connection_is_told_once_when_it_opens_and_once_when_it_closes() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]).observed::<Log>();
    let pair = link.pair;
    link.connect(pair);
    link.deliver_to_server(&link.client_data(b"data")).unwrap();
    assert_eq!(
        (kinds(&mut link.client), kinds(&mut link.server)),
        (vec![EventKind::Opened], vec![EventKind::Opened])
    );
    link.forth(FIN | ACK, CLIENT_ISN + 1, SERVER_ISN.wrapping_add(1)).unwrap();
    link.back(FIN | ACK, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 2).unwrap();
    link.forth(ACK, CLIENT_ISN + 2, SERVER_ISN.wrapping_add(2)).unwrap();
    link.now += seconds(500);
    link.server.expire(link.now);
    let closed = vec![EventKind::Ended(End::Closed)];
    assert_eq!((kinds(&mut link.client), kinds(&mut link.server)), (closed.clone(), closed));
}

#[test]
fn every_other_end_is_told_too() {
    let after = |action: fn(&mut TestShim<Log>, Duration)| {
        let mut link = Link::connected(ipv4_pair()).observed::<Log>();
        action(&mut link.server, link.now);
        kinds(&mut link.server)
    };
    let ended = |end| vec![EventKind::Ended(end)];
    let at = ipv4_pair().reversed();
    assert_eq!(after(|shim, _| shim.forget(&ipv4_pair().reversed())), ended(End::Forgotten));
    assert_eq!(
        after(|shim, _| assert!(shim.export(&ipv4_pair().reversed()).is_some())),
        ended(End::Forgotten)
    );
    assert_eq!(after(|shim, _| drop(shim.remove_peer(0))), ended(End::Forgotten));
    assert_eq!(after(|shim, _| shim.set_mkts(0, MktSet::new()).unwrap()), ended(End::NoKey));
    assert_eq!(after(|shim, now| shim.expire(now + seconds(4 * 3600))), ended(End::Expired));
    let adopted = after(|shim, now| {
        shim.adopt(now, Ends::with_ids(&[(1, 2)]).passive).unwrap();
    });
    assert_eq!(adopted, [EventKind::Ended(End::Replaced), EventKind::Opened]);
    // A full table: an old handshake is evicted for another, and an open connection only after its time.
    let mut full = shim(at, mirrored(&[(1, 2)]), 1).with_observer(Log::default());
    let mut client = shim(ipv4_pair(), mkts(&[(1, 2)]), 8);
    let mut syn = |port, now| {
        let packet = Packet::new(with_ports(ipv4_pair(), port, 179), SYN, CLIENT_ISN, 0).build();
        outbound(&mut client, now, &packet).unwrap()
    };
    for (port, now) in [(1000, 1), (1001, 16), (1002, 100)] {
        let now = seconds(now);
        inbound(&mut full, now, &syn(port, now)).unwrap();
    }
    let told: Vec<_> = full
        .observer_mut()
        .take()
        .iter()
        .map(|event| (event.pair.unwrap().remote.port(), event.kind))
        .collect();
    let [evicted, expired] = [End::Evicted, End::Expired].map(EventKind::HandshakeEnded);
    assert_eq!(told, [(1000, evicted), (1001, expired)]);
}

#[test]
fn each_refusal_is_told_and_counted_by_reason_and_direction() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]).observed::<Log>();
    let server = &mut link.server;
    let forged = Packet::new(ipv4_pair(), RST, 1, 0).build();
    assert_eq!(inbound(server, link.now, &forged), Err(UNSIGNED));
    let signed = link.client_signs(SYN, CLIENT_ISN, 0).unwrap();
    let mut altered = signed.clone();
    *altered.last_mut().unwrap() ^= 1;
    assert_eq!(link.server_gets(&altered), Err(Refusal::Checksum));
    let data = Packet::new(ipv4_pair().reversed(), ACK, 1, 1).build();
    assert_eq!(link.server_emits(&data), Err(Refusal::NoConnection));
    assert!(link.server_gets(&signed[..20]).is_err());
    let events = link.server.observer_mut().take();
    let outbound = EventKind::Refused { direction: Direction::Outbound, refusal: Refusal::NoConnection };
    assert_eq!(
        events[..3].iter().map(|event| event.kind).collect::<Vec<_>>(),
        [refused(UNSIGNED), refused(Refusal::Checksum), outbound,]
    );
    assert_eq!((events[3].pair, events[3].peer, events.len()), (None, None, 4));
    let text = format!("{}\n{}", events[0], events[2]);
    assert_eq!(
        text,
        "192.0.2.2:179 <-> 192.0.2.1:49152: inbound packet refused: segment is unsigned\n\
         192.0.2.2:179 <-> 192.0.2.1:49152: outbound packet refused: segment of a protected connection whose \
         handshake was not seen"
    );
    let counted = RefusalCounters { verify: 1, checksum: 1, malformed: 1, ..RefusalCounters::default() };
    assert_eq!((*link.server.refused(Direction::Inbound), counted.total()), (counted, 3));
    let counted = RefusalCounters { no_connection: 1, ..RefusalCounters::default() };
    assert_eq!(*link.server.refused(Direction::Outbound), counted);
}

#[test]
fn a_key_that_the_peer_takes_up_is_told_and_one_that_it_does_not() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2), (3, 4)]).observed::<Log>();
    link.connect(ipv4_pair());
    let keys = |shim: &mut TestShim<Log>| {
        kinds(shim).into_iter().filter(|kind| *kind != EventKind::Opened).collect::<Vec<_>>()
    };
    // Both ends ask for the other key. The client has not yet received a segment that does.
    let (pair, back) = (link.pair, link.pair.reversed());
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(3)).unwrap();
    link.deliver_to_client(&link.server_data(b"ask")).unwrap();
    assert_eq!(keys(&mut link.client), [EventKind::KeySwitched { from: KeyId(1), to: KeyId(3) }]);
    link.deliver_to_server(&link.client_data(b"answer")).unwrap();
    assert_eq!((keys(&mut link.server), keys(&mut link.client)), (vec![], vec![]));

    // The client removes the first key, and the server asks for it again.
    let client = link.client.connection_mut(&pair).unwrap();
    client.remove_key(KeyId(1), Some(KeyId(3))).unwrap();
    link.deliver_to_server(&link.client_data(b"answer")).unwrap();
    assert_eq!(keys(&mut link.server), [EventKind::KeySwitched { from: KeyId(2), to: KeyId(4) }]);
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(1)).unwrap();
    let next = Packet::new(back, ACK, SERVER_ISN.wrapping_add(4), CLIENT_ISN + 7);
    link.deliver_to_client(&next.clone().payload(b"ask")).unwrap();
    // Data in flight at the time of the request proves nothing; an acknowledgment of the request does.
    let answer =
        |acknowledgment: u32| Packet::new(pair, ACK, CLIENT_ISN + 7, SERVER_ISN.wrapping_add(acknowledgment));
    link.deliver_to_client(
        &Packet::new(back, ACK, SERVER_ISN.wrapping_add(7), CLIENT_ISN + 7).payload(b"more"),
    )
    .unwrap();
    link.deliver_to_server(&answer(4)).unwrap();
    link.deliver_to_server(&answer(7)).unwrap();
    assert_eq!(keys(&mut link.server), []);
    for _ in 0..2 {
        link.deliver_to_server(&answer(11)).unwrap();
    }
    let behind = EventKind::PeerOnOldKey { signed_with: KeyId(3), asked_for: KeyId(1) };
    assert_eq!(keys(&mut link.server), [behind]);
}

/// A link whose server has keys that the client does not have, or that has none, and accepts mismatches for an hour.
pub(crate) fn migrating(client: MktSet<4>) -> Link<Log> {
    let mut link = Link::with_mkts(ipv4_pair(), client, mirrored(&[(1, 2)])).observed::<Log>();
    link.server.accept_mismatches(0, link.now + seconds(3600)).unwrap();
    link
}

#[test]
fn while_mismatches_are_accepted_a_session_without_keys_works_and_is_told_of() {
    let mut link = migrating(MktSet::new());
    let (pair, back) = (link.pair, link.pair.reversed());
    let sent = [
        Packet::new(pair, SYN, CLIENT_ISN, 0).build(),
        Packet::new(back, SYN | ACK, SERVER_ISN, CLIENT_ISN + 1).build(),
        link.client_data(b"data").build(),
        link.server_data(b"data").build(),
    ];
    for (packet, is_from_client) in sent.iter().zip([true, false, true, false]) {
        let way = if is_from_client { inbound } else { outbound };
        assert_eq!(way(&mut link.server, link.now, packet).as_ref(), Ok(packet), "unchanged");
    }
    let (unsigned, unknown) =
        (passed(Direction::Inbound, UNSIGNED), passed(Direction::Outbound, Refusal::NoConnection));
    assert_eq!(kinds(&mut link.server), [unsigned, unknown, unsigned, unknown]);
    let counted = RefusalCounters { verify: 2, no_connection: 2, ..RefusalCounters::default() };
    assert_eq!((*link.server.passed(), link.server.peer_counters(0).unwrap().required), (counted, 2));
    assert_eq!(link.server.refused(Direction::Inbound).total(), 0);
    assert!(Event { peer: Some(0), pair: None, kind: unsigned }.to_string().contains("NOT PROTECTED"));
    // Nothing passes once the time is over, or after the mode was ended early.
    assert_eq!(inbound(&mut link.server, link.now + seconds(3600), &sent[2]), Err(UNSIGNED));
    link.server.accept_mismatches(0, Duration::ZERO).unwrap();
    assert_eq!(link.server_gets(&sent[2]), Err(UNSIGNED));
    assert_eq!(link.server.accept_mismatches(1, Duration::MAX), Err(PeerError::NoSuchPeer(1)));
}

#[test]
fn while_mismatches_are_accepted_what_verifies_is_protected_as_ever() {
    let mut link = migrating(mkts(&[(1, 2)]));
    link.connect(ipv4_pair());
    link.deliver_to_client(&link.server_data(b"signed")).unwrap();
    assert_eq!(kinds(&mut link.server), [EventKind::Opened]);
    // Its keys can change without ending the mode; a segment with another secret passes and is reported.
    link.server.set_mkts(0, mirrored(&[(1, 2)])).unwrap();
    let wrong = MktSet::from_mkts([mkt(1, 7, TcpAoAlgorithm::HmacSha1)]).unwrap();
    let syn = signed_syn(ipv4_pair(), wrong, CLIENT_ISN);
    link.server.forget(&link.pair.reversed());
    kinds(&mut link.server);
    assert_eq!(link.server_gets(&syn), Ok(syn));
    let bad = bad_mac(1);
    assert_eq!(kinds(&mut link.server), [passed(Direction::Inbound, bad)]);
    assert_eq!(link.server.connections().count(), 0);
    // A packet that is itself malformed or damaged is refused as always.
    let mut damaged = link.client_data(b"data").build();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(link.server_gets(&damaged), Err(Refusal::Checksum));
}

#[test]
fn while_mismatches_are_accepted_this_end_opens_sessions_with_peers_of_every_kind() {
    // A peer that drops signed SYNs gets every second one unsigned. A peer that ignores the option answers the first.
    let mut link = migrating(MktSet::new());
    let (pair, back) = (link.pair, link.pair.reversed());
    let syn = Packet::new(back, SYN, SERVER_ISN, 0).build();
    let is_signed: Vec<bool> = (0..4).map(|_| read(&link.server_emits(&syn).unwrap()).is_signed()).collect();
    assert_eq!(is_signed, [true, false, true, false]);
    let syn_ack = Packet::new(pair, SYN | ACK, CLIENT_ISN, SERVER_ISN + 1).build();
    assert_eq!(link.server_gets(&syn_ack), Ok(syn_ack));
    let data = link.server_data(b"data").build();
    assert_eq!(link.server_emits(&data), Ok(data));
    let cannot_sign = passed(Direction::Outbound, Refusal::Sign(SignError::State));
    assert_eq!(kinds(&mut link.server), [passed(Direction::Inbound, UNSIGNED), cannot_sign]);
    // A peer that has the key gets a signed session.
    let mut link = migrating(mkts(&[(1, 2)]));
    link.back(SYN, SERVER_ISN, 0).unwrap();
    link.forth(SYN | ACK, CLIENT_ISN, SERVER_ISN.wrapping_add(1)).unwrap();
    link.deliver_to_client(&link.server_data(b"data")).unwrap();
    assert_eq!(kinds(&mut link.server), [EventKind::Opened]);
}

#[test]
fn an_index_that_another_peer_takes_over_starts_strict() {
    let mut link = migrating(MktSet::new());
    let peer = link.server.remove_peer(0).unwrap();
    assert_eq!(link.server.add_peer(peer), Ok(0));
    let forged = Packet::new(ipv4_pair(), RST, 1, 0).build();
    assert_eq!(link.server_gets(&forged), Err(UNSIGNED));
}

/// A subscriber that keeps the level and the message of each event.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = event.metadata().level().to_string();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            if field.name() == "message" {
                line += &format!(" {value:?}");
            }
        });
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn tracing_gets_each_event_and_attackers_fill_no_log() {
    let lines = Arc::new(Lines::default());
    tracing::subscriber::with_default(Arc::clone(&lines), || {
        let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]).observed::<TracingObserver>();
        let forged = Packet::new(ipv4_pair(), RST, 1, 0).build();
        link.server_gets(&forged).unwrap_err();
        // An attacker can replay a recorded SYN to a closed port any number of times.
        link.forth(SYN, CLIENT_ISN, 0).unwrap();
        link.server_signs(RST | ACK, 0, CLIENT_ISN + 1).unwrap();
        link.connect(ipv4_pair());
        link.server.accept_mismatches(0, Duration::MAX).unwrap();
        link.server_gets(&forged).unwrap();
    });
    assert_eq!(
        lines.0.lock().unwrap()[..],
        [
            "DEBUG 192.0.2.2:179 <-> 192.0.2.1:49152: inbound packet refused: segment is unsigned",
            "DEBUG 192.0.2.2:179 <-> 192.0.2.1:49152: handshake closed",
            "INFO 192.0.2.1:49152 <-> 192.0.2.2:179: established",
            "INFO 192.0.2.2:179 <-> 192.0.2.1:49152: established",
            "WARN 192.0.2.2:179 <-> 192.0.2.1:49152: inbound packet passed, NOT PROTECTED (mismatches are accepted): \
             segment is unsigned",
        ]
    );
}

/// The server's sequence number `offset` octets after its SYN.
fn server_at(offset: u32) -> u32 {
    SERVER_ISN.wrapping_add(1 + offset)
}

/// A connected link whose server has a key with RecvID 3 that the client lacks, and whose events so far have been read.
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
    // Nor does it when more has been sent since.
    link.server_sends(&data(8)).unwrap();
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
    link.server_gets(&late).unwrap();
    kinds(&mut link.server);
    link.deliver_to_server(&ack(12)).unwrap();
    let behind = EventKind::PeerOnOldKey { signed_with: KeyId(3), asked_for: KeyId(1) };
    assert!(kinds(&mut link.server).contains(&behind));
}

#[test]
fn a_replay_from_2_gib_ago_accuses_no_peer() {
    let mut link = link_with_a_key_too_many();
    let back = link.pair.reversed();
    let old = link.client_signs(ACK, CLIENT_ISN + 1, server_at(0)).unwrap();
    let data = |at| Packet::new(back, ACK, server_at(at), CLIENT_ISN + 1).payload(b"data");
    for at in 1..4 {
        link.server_sends(&data(at << 30)).unwrap();
    }
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(3)).unwrap();
    link.server_sends(&data((3 << 30) + 4)).unwrap();
    link.server_gets(&old).unwrap();
    assert_eq!(kinds(&mut link.server), []);
}

#[test]
fn a_connection_that_is_closed_when_it_opens_has_ended_once() {
    let mut shim = shim(ipv4_pair(), mkts(&[(1, 2)]), 1).with_observer(Log::default());
    let odd = Packet::new(ipv4_pair(), SYN | RST, CLIENT_ISN, 0).build();
    outbound(&mut shim, seconds(1), &odd).unwrap();
    assert_eq!(kinds(&mut shim).len(), 1);
}

#[test]
fn the_strictest_of_peers_that_cover_the_same_connections_decides() {
    let pair = ipv4_pair().reversed();
    let [own, other] = [mirrored(&[(1, 2)]), mirrored(&[(3, 4)])];
    for lenient in [0, 1] {
        let peers = vec![peer(pair, own.clone()), peer(pair, other.clone())];
        let mut server = shim_of(peers, 8);
        let now = seconds(1000);
        server.accept_mismatches(lenient, Duration::MAX).unwrap();
        let unsigned = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).build();
        assert_eq!(inbound(&mut server, now, &unsigned), Err(UNSIGNED));
        for id in [1, 3] {
            let wrong = mkt_with_secret(id, 9, TcpAoAlgorithm::HmacSha1, b"wrong");
            let mut forger = shim(ipv4_pair(), MktSet::from_mkts([wrong]).unwrap(), 1);
            let forged = outbound(&mut forger, now, &unsigned).unwrap();
            let bad = bad_mac(id);
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
    // A less specific peer that covers them has no effect.
    let mut server = shim(pair, own, 8);
    let mut wide: Peer = server.remove_peer(0).unwrap();
    server.add_peer(Peer { connections: wide.connections, mkts: other }).unwrap();
    wide.connections.remote = "192.0.2.0/24".parse().unwrap();
    let mut server = shim_of(vec![server.remove_peer(0).unwrap().into(), wide.into()], 8);
    server.accept_mismatches(0, Duration::MAX).unwrap();
    let unsigned = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).build();
    assert!(inbound(&mut server, Duration::ZERO, &unsigned).is_ok());
}

#[test]
fn accepting_mismatches_stays_over_when_the_clock_goes_back() {
    let pair = ipv4_pair().reversed();
    let unsigned = Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).build();
    let calls: [&dyn Fn(&mut TestShim); 3] = [
        &|shim| assert_eq!(inbound(shim, seconds(100), &unsigned), Err(UNSIGNED)),
        &|shim| assert!(outbound(shim, seconds(100), &[]).is_err()),
        &|shim| shim.expire(seconds(100)),
    ];
    for call in calls {
        let mut server =
            shim_of(vec![peer(pair, mirrored(&[(1, 2)])), peer(ipv6_pair(), mirrored(&[(3, 4)]))], 8);
        // Another's goes on.
        server.accept_mismatches(1, Duration::MAX).unwrap();
        server.accept_mismatches(0, seconds(100)).unwrap();
        assert!(inbound(&mut server, seconds(99), &unsigned).is_ok());
        call(&mut server);
        assert_eq!(inbound(&mut server, seconds(50), &unsigned), Err(UNSIGNED));
    }
}

#[test]
fn while_mismatches_are_accepted_an_old_signed_connection_does_not_sign_a_new_unsigned_one() {
    let no_connection = passed(Direction::Outbound, Refusal::NoConnection);
    for is_closed in [true, false] {
        let mut link = migrating(mkts(&[(1, 2)]));
        let (pair, back) = (link.pair, link.pair.reversed());
        link.connect(pair);
        if is_closed {
            link.forth(FIN | ACK, CLIENT_ISN + 1, server_at(0)).unwrap();
            link.back(FIN | ACK, server_at(0), CLIENT_ISN + 2).unwrap();
            link.forth(ACK, CLIENT_ISN + 2, server_at(1)).unwrap();
        } else {
            // The peer restarts without keys. Its reset ends the connection only for this end's stack.
            link.server_gets(&Packet::new(pair, RST, CLIENT_ISN + 1, 0).build()).unwrap();
        }
        kinds(&mut link.server);
        let syn = Packet::new(pair, SYN, 7000, 0).build();
        assert_eq!(link.server_gets(&syn), Ok(syn));
        for packet in [
            Packet::new(back, SYN | ACK, 9000, 7001),
            Packet::new(back, SYN | ACK, 9000, 7001),
            Packet::new(back, ACK, 9001, 7001).payload(b"data"),
        ] {
            let packet = packet.build();
            assert_eq!(link.server_emits(&packet), Ok(packet));
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
    link.server_signs(SYN | ACK, SERVER_ISN, CLIENT_ISN + 1).unwrap();
}

#[test]
fn while_mismatches_are_accepted_what_breaks_the_format_is_refused() {
    let mut link = migrating(mkts(&[(1, 2)]));
    link.connect(ipv4_pair());
    kinds(&mut link.server);
    let both = [29, 4, 1, 1, 19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    let with_md5 = link.client_data(b"data").options(&both).build();
    let refusal = Refusal::Verify(OptionError::AoWithMd5.into());
    assert_eq!(link.server_gets(&with_md5), Err(refusal));
    let cut = link.server_data(b"data").options(&[1, 1, 2, 9]).build();
    let error = OptionError::BadLength { kind: 2, offset: 2 };
    let refusal = Refusal::Sign(SignError::Options(error));
    assert_eq!(link.server_emits(&cut), Err(refusal));
    assert_eq!(link.server.passed().total(), 0);
}

#[test]
fn while_mismatches_are_accepted_a_stack_that_still_uses_tcp_md5_goes_on_with_it() {
    let mut link = migrating(MktSet::new());
    let md5 = [19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    for _ in 0..2 {
        let syn = Packet::new(link.pair.reversed(), SYN, SERVER_ISN, 0).options(&md5).build();
        assert_eq!(link.server_emits(&syn), Ok(syn));
    }
    let told = passed(Direction::Outbound, Refusal::AlreadySigned);
    assert_eq!(kinds(&mut link.server), [told; 2]);
}

#[test]
fn while_mismatches_are_accepted_no_peer_is_told_an_mss_that_the_stack_cannot_take() {
    let mut link = migrating(MktSet::new());
    let syn = Packet::new(link.pair.reversed(), SYN, SERVER_ISN, 0).options(&[2, 4, 0x05, 0x8c]).build();
    for _ in 0..2 {
        assert_eq!(read(&link.server_emits(&syn).unwrap()).mss(), Some(1420));
    }
}

#[test]
fn while_mismatches_are_accepted_a_repeated_syn_of_an_open_connection_is_not_signed() {
    let mut link = migrating(mkts(&[(1, 2)]));
    link.client.accept_mismatches(0, link.now + seconds(3600)).unwrap();
    link.connect(ipv4_pair());
    kinds(&mut link.client);
    let syn = Packet::new(link.pair, SYN, CLIENT_ISN, 0).build();
    assert_eq!(link.client_emits(&syn), Ok(syn));
    assert_eq!(kinds(&mut link.client), [passed(Direction::Outbound, Refusal::Sign(SignError::State))]);
}

/// Both answers of a stack that keeps no handshakes count from its last ISN.
#[test]
fn a_peer_is_still_reported_after_an_earlier_syn_ack_with_a_higher_isn() {
    let mut link = Link::with_mkts(ipv4_pair(), mkts(&[(1, 2)]), mirrored(&[(1, 2), (3, 4)])).observed();
    link.forth(SYN, CLIENT_ISN, 0).unwrap();
    link.server_signs(SYN | ACK, server_at(0x4000_0000), CLIENT_ISN + 1).unwrap();
    link.connect(ipv4_pair());
    kinds(&mut link.server);
    let back = link.pair.reversed();
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(3)).unwrap();
    link.deliver_to_client(&link.server_data(b"ask")).unwrap();
    link.deliver_to_client(&Packet::new(back, ACK, server_at(3), CLIENT_ISN + 1).payload(b"more")).unwrap();
    link.forth(ACK, CLIENT_ISN + 1, server_at(7)).unwrap();
    assert_eq!(kinds(&mut link.server), [STAYS_ON_1]);
}

#[test]
fn an_earlier_acknowledgment_is_no_answer_to_a_repeated_syn_ack() {
    let mut link = link_with_a_key_too_many();
    let back = link.pair.reversed();
    link.deliver_to_client(&link.server_data(b"sent before")).unwrap();
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(3)).unwrap();
    link.deliver_to_client(&Packet::new(back, ACK, server_at(11), CLIENT_ISN + 1).payload(b"ask")).unwrap();
    // The client's ACK was lost, as far as the server's stack knows.
    link.server_signs(SYN | ACK, SERVER_ISN, CLIENT_ISN + 1).unwrap();
    link.server_sends(&Packet::new(back, ACK, server_at(14), CLIENT_ISN + 1).payload(b"more")).unwrap();
    link.forth(ACK, CLIENT_ISN + 1, server_at(11)).unwrap();
    assert_eq!(kinds(&mut link.server), [], "it acknowledges what was sent before the request");
    link.forth(ACK, CLIENT_ISN + 1, server_at(18)).unwrap();
    assert_eq!(kinds(&mut link.server), [STAYS_ON_1]);
}
