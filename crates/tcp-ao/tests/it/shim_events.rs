//! What the shim's observer hears, what its counters count, and peers whose mismatches are accepted.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::shim::{
    Direction, End, Event, EventKind, Observer, Refusal, RefusalCounters, TracingObserver,
};
use wireseal_tcp_ao::{KeyId, MktSet, PeerError, SignError, VerifyError};

use crate::shim_support::{
    CLIENT_ISN, Link, Packet, SERVER_ISN, TestShim, inbound, outbound, read, shim, with_ports,
};
use crate::support::{ACK, Ends, FIN, RST, SYN, ipv4_pair, mirrored, mkt, mkts};

#[derive(Default)]
pub(crate) struct Log(Vec<Event>);

impl Log {
    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.0)
    }
}

impl Observer for Log {
    fn observe(&mut self, event: &Event) {
        self.0.push(*event);
    }
}

/// What a shim has told since the last time; each about the peer and connection of `ipv4_pair()`.
pub(crate) fn kinds(shim: &mut TestShim<Log>) -> Vec<EventKind> {
    let events = std::mem::take(&mut shim.observer_mut().0);
    for event in &events {
        assert_eq!(event.peer, Some(0));
        assert!([ipv4_pair(), ipv4_pair().reversed()].contains(&event.pair.unwrap()), "{event}");
    }
    events.into_iter().map(|event| event.kind).collect()
}

fn refused(refusal: Refusal) -> EventKind {
    EventKind::Refused { direction: Direction::Inbound, refusal }
}

pub(crate) fn passed(direction: Direction, refusal: Refusal) -> EventKind {
    EventKind::Passed { direction, refusal }
}

pub(crate) const UNSIGNED: Refusal = Refusal::Verify(VerifyError::Unsigned);

#[test]
fn a_connection_is_told_once_when_it_opens_and_once_when_it_closes() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]).observed::<Log>();
    let (pair, back) = (link.pair, link.pair.reversed());
    link.connect(pair);
    link.deliver_to_server(&link.client_data(b"data")).unwrap();
    assert_eq!(
        (kinds(&mut link.client), kinds(&mut link.server)),
        (vec![EventKind::Opened], vec![EventKind::Opened])
    );
    link.deliver_to_server(&Packet::new(pair, FIN | ACK, CLIENT_ISN + 1, SERVER_ISN.wrapping_add(1)))
        .unwrap();
    link.deliver_to_client(&Packet::new(back, FIN | ACK, SERVER_ISN.wrapping_add(1), CLIENT_ISN + 2))
        .unwrap();
    link.deliver_to_server(&Packet::new(pair, ACK, CLIENT_ISN + 2, SERVER_ISN.wrapping_add(2))).unwrap();
    link.now += Duration::from_secs(500);
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
    assert_eq!(after(|shim, now| shim.expire(now + Duration::from_secs(4 * 3600))), ended(End::Expired));
    let adopted = after(|shim, now| {
        shim.adopt(now, Ends::with_ids(&[(1, 2)]).passive).unwrap();
    });
    assert_eq!(adopted, [EventKind::Ended(End::Replaced), EventKind::Opened]);
    // A full table: an old handshake makes way for another, and an open connection only after its time.
    let mut shim = shim(at, mirrored(&[(1, 2)]), 1).with_observer(Log::default());
    let mut client = crate::shim_support::shim(ipv4_pair(), mkts(&[(1, 2)]), 8);
    let mut syn = |port, now| {
        let packet = Packet::new(with_ports(ipv4_pair(), port, 179), SYN, CLIENT_ISN, 0).build();
        outbound(&mut client, now, &packet).unwrap()
    };
    for (port, now) in [(1000, 1), (1001, 16), (1002, 100)] {
        let now = Duration::from_secs(now);
        inbound(&mut shim, now, &syn(port, now)).unwrap();
    }
    let told: Vec<_> =
        shim.observer_mut().0.iter().map(|event| (event.pair.unwrap().remote.port(), event.kind)).collect();
    let [evicted, expired] = [End::Evicted, End::Expired].map(EventKind::HandshakeEnded);
    assert_eq!(told, [(1000, evicted), (1001, expired)]);
}

#[test]
fn each_refusal_is_told_and_counted_by_reason_and_direction() {
    let mut link = Link::with_ids(ipv4_pair(), &[(1, 2)]).observed::<Log>();
    let server = &mut link.server;
    let forged = Packet::new(ipv4_pair(), RST, 1, 0).build();
    assert_eq!(inbound(server, link.now, &forged), Err(UNSIGNED));
    let signed = link.client_sends(&Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0)).unwrap();
    let mut altered = signed.clone();
    *altered.last_mut().unwrap() ^= 1;
    assert_eq!(inbound(&mut link.server, link.now, &altered), Err(Refusal::Checksum));
    let data = Packet::new(ipv4_pair().reversed(), ACK, 1, 1).build();
    assert_eq!(outbound(&mut link.server, link.now, &data), Err(Refusal::NoConnection));
    assert!(inbound(&mut link.server, link.now, &signed[..20]).is_err());
    let events = std::mem::take(&mut link.server.observer_mut().0);
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
    // Both ask for the other key, whose segment the client has not yet heard of.
    let (pair, back) = (link.pair, link.pair.reversed());
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(3)).unwrap();
    link.deliver_to_client(&link.server_data(b"ask")).unwrap();
    assert_eq!(keys(&mut link.client), [EventKind::KeySwitched { from: KeyId(1), to: KeyId(3) }]);
    link.deliver_to_server(&link.client_data(b"answer")).unwrap();
    assert_eq!((keys(&mut link.server), keys(&mut link.client)), (vec![], vec![]));

    // The client gives the first key up, and the server asks for it again.
    let client = link.client.connection_mut(&pair).unwrap();
    client.remove_key(KeyId(1), Some(KeyId(3))).unwrap();
    link.deliver_to_server(&link.client_data(b"answer")).unwrap();
    assert_eq!(keys(&mut link.server), [EventKind::KeySwitched { from: KeyId(2), to: KeyId(4) }]);
    link.server.connection_mut(&back).unwrap().set_rnext_key(KeyId(1)).unwrap();
    let next = Packet::new(back, ACK, SERVER_ISN.wrapping_add(4), CLIENT_ISN + 7);
    link.deliver_to_client(&next.clone().payload(b"ask")).unwrap();
    // What was under way when it was asked for proves nothing; what acknowledges the request does.
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

/// A link whose server has been configured with keys that the client does not have, or none, and accepts mismatches for an hour.
pub(crate) fn migrating(client: MktSet<4>) -> Link<Log> {
    let mut link = Link::with_mkts(ipv4_pair(), client, mirrored(&[(1, 2)])).observed::<Log>();
    link.server.accept_mismatches(0, link.now + Duration::from_secs(3600)).unwrap();
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
    // When the time is over, and when it is ended before, nothing passes.
    assert_eq!(inbound(&mut link.server, link.now + Duration::from_secs(3600), &sent[2]), Err(UNSIGNED));
    link.server.accept_mismatches(0, Duration::ZERO).unwrap();
    assert_eq!(inbound(&mut link.server, link.now, &sent[2]), Err(UNSIGNED));
    assert_eq!(link.server.accept_mismatches(1, Duration::MAX), Err(PeerError::NoSuchPeer(1)));
}

#[test]
fn while_mismatches_are_accepted_what_verifies_is_protected_as_ever() {
    let mut link = migrating(mkts(&[(1, 2)]));
    link.connect(ipv4_pair());
    link.deliver_to_client(&link.server_data(b"signed")).unwrap();
    assert_eq!(kinds(&mut link.server), [EventKind::Opened]);
    // Its keys can change without ending the mode; another secret passes and is told.
    link.server.set_mkts(0, mirrored(&[(1, 2)])).unwrap();
    let wrong = MktSet::from_mkts([mkt(1, 7, TcpAoAlgorithm::HmacSha1)]).unwrap();
    let mut other = shim(ipv4_pair(), wrong, 1);
    let syn = outbound(&mut other, link.now, &Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0).build()).unwrap();
    link.server.forget(&link.pair.reversed());
    kinds(&mut link.server);
    assert_eq!(inbound(&mut link.server, link.now, &syn), Ok(syn));
    let bad = Refusal::Verify(VerifyError::BadMac { key_id: KeyId(1) });
    assert_eq!(kinds(&mut link.server), [passed(Direction::Inbound, bad)]);
    assert_eq!(link.server.connections().count(), 0);
    // What is wrong with the packet itself is refused as ever.
    let mut damaged = link.client_data(b"data").build();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(inbound(&mut link.server, link.now, &damaged), Err(Refusal::Checksum));
}

#[test]
fn while_mismatches_are_accepted_this_end_opens_sessions_with_peers_of_every_kind() {
    // A peer that drops signed SYNs gets every second one unsigned, and one that ignores the option answers the first.
    let mut link = migrating(MktSet::new());
    let (pair, back) = (link.pair, link.pair.reversed());
    let syn = Packet::new(back, SYN, SERVER_ISN, 0).build();
    let is_signed: Vec<bool> =
        (0..4).map(|_| read(&outbound(&mut link.server, link.now, &syn).unwrap()).is_signed()).collect();
    assert_eq!(is_signed, [true, false, true, false]);
    let syn_ack = Packet::new(pair, SYN | ACK, CLIENT_ISN, SERVER_ISN + 1).build();
    assert_eq!(inbound(&mut link.server, link.now, &syn_ack), Ok(syn_ack));
    let data = link.server_data(b"data").build();
    assert_eq!(outbound(&mut link.server, link.now, &data), Ok(data));
    let cannot_sign = passed(Direction::Outbound, Refusal::Sign(SignError::State));
    assert_eq!(kinds(&mut link.server), [passed(Direction::Inbound, UNSIGNED), cannot_sign]);
    // One that has the key gets a signed session.
    let mut link = migrating(mkts(&[(1, 2)]));
    let (pair, back) = (link.pair, link.pair.reversed());
    link.deliver_to_client(&Packet::new(back, SYN, SERVER_ISN, 0)).unwrap();
    link.deliver_to_server(&Packet::new(pair, SYN | ACK, CLIENT_ISN, SERVER_ISN.wrapping_add(1))).unwrap();
    link.deliver_to_client(&link.server_data(b"data")).unwrap();
    assert_eq!(kinds(&mut link.server), [EventKind::Opened]);
}

#[test]
fn an_index_that_another_peer_takes_over_starts_strict() {
    let mut link = migrating(MktSet::new());
    let peer = link.server.remove_peer(0).unwrap();
    assert_eq!(link.server.add_peer(peer), Ok(0));
    let forged = Packet::new(ipv4_pair(), RST, 1, 0).build();
    assert_eq!(inbound(&mut link.server, link.now, &forged), Err(UNSIGNED));
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
        inbound(&mut link.server, link.now, &forged).unwrap_err();
        // A recorded SYN to a port on which nothing listens can be replayed as often as an attacker likes.
        link.deliver_to_server(&Packet::new(ipv4_pair(), SYN, CLIENT_ISN, 0)).unwrap();
        link.server_sends(&Packet::new(link.pair.reversed(), RST | ACK, 0, CLIENT_ISN + 1)).unwrap();
        link.connect(ipv4_pair());
        link.server.accept_mismatches(0, Duration::MAX).unwrap();
        inbound(&mut link.server, link.now, &forged).unwrap();
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
