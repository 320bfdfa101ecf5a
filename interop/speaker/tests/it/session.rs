//! BGP sessions over streams of this process.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use inetnum::addr::Prefix;
use routecore::bgp::message::Message;
use routecore::bgp::message::notification::{
    CeaseSubcode, Details, MessageHeaderSubcode, OpenMessageSubcode, UpdateMessageSubcode,
};
use speaker::message::{Closed, KEEPALIVE, Notification, decode};
use speaker::message::{Export, announcements, changes, withdrawals};
use speaker::routes::generate;
use speaker::routes::{Family, Route};
use speaker::session::{Session, SessionConfig, State, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);
const ASNS: [u32; 2] = [64_512, 4_200_000_000];

/// The configuration of one of two routers.
fn config(router: usize, hold_time: u16) -> SessionConfig {
    let host = router as u8 + 1;
    let next_hops = [[192, 0, 2, host].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(host)].into()];
    let export = Export { local_as: ASNS[router], peer_as: ASNS[1 - router], next_hops: next_hops.map(Some) };
    SessionConfig { export, router_id: [192, 0, 2, host].into(), hold_time }
}

fn sessions(hold_times: [u16; 2]) -> [Session; 2] {
    let (a, b) = duplex(64 * 1024);
    [Session::start(a, config(0, hold_times[0])), Session::start(b, config(1, hold_times[1]))]
}

async fn until(session: &Session, wanted: impl FnMut(&Status) -> bool) -> Status {
    let mut status = session.status();
    timeout(PATIENCE, status.wait_for(wanted)).await.expect("in time").unwrap().clone()
}

async fn closed(session: &Session) -> Closed {
    until(session, |status| status.state == State::Closed).await.closed.unwrap()
}

/// The OPEN of the second router with one change.
fn open(alter: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut open = vec![0xff; 16];
    open.extend([0, 37, 1, 4, 0x5b, 0xa0, 0, 90, 192, 0, 2, 2, 8, 2, 6, 65, 4, 0xfa, 0x56, 0xea, 0x00]);
    alter(&mut open);
    open
}

/// A session between the first router and the test itself, after `open`.
async fn against_test(open: &[u8]) -> (Session, DuplexStream) {
    let (ours, mut theirs) = duplex(64 * 1024);
    let session = Session::start(ours, config(0, 90));
    theirs.write_all(open).await.unwrap();
    (session, theirs)
}

/// The same, established.
async fn established(open: &[u8]) -> (Session, DuplexStream) {
    let (session, mut peer) = against_test(open).await;
    peer.write_all(&KEEPALIVE).await.unwrap();
    until(&session, |status| status.state == State::Established).await;
    (session, peer)
}

#[tokio::test]
async fn routes_go_both_ways_at_once_and_are_withdrawn() {
    let [a, b] = sessions([90, 30]);
    let table = generate(20_000);
    for session in [&a, &b] {
        session.announce(Arc::clone(&table)).await.unwrap();
    }
    for session in [&a, &b] {
        let status = until(session, |status| status.end_of_rib == [true; 2]).await;
        assert_eq!((status.routes, status.state), ([16_000, 4_000], State::Established));
        assert_eq!(status.hold_time, Some(30));
    }
    for Route { prefix, attributes } in table.iter() {
        let rib = b.rib();
        let learnt = rib.get(*prefix).unwrap();
        assert_eq!((learnt.as_path[0], &learnt.as_path[1..]), (ASNS[0], &attributes.as_path[..]));
        assert_eq!(learnt.next_hop.unwrap().is_ipv4(), prefix.is_v4());
    }
    a.withdraw(table.iter().map(|route| route.prefix).skip(7).collect()).await.unwrap();
    until(&b, |status| status.routes == [6, 1]).await;
}

#[test]
fn messages_are_full_and_no_longer_than_4096_octets() {
    let attributes = Arc::default();
    let shared = |route: &Route| Route { prefix: route.prefix, attributes: Arc::clone(&attributes) };
    let table: Vec<Route> = generate(10_000).iter().map(shared).collect();
    let prefixes: Vec<Prefix> = table.iter().map(|route| route.prefix).collect();
    let announced: Vec<_> = announcements(&table, config(0, 90).export).collect();
    for messages in [announced, withdrawals(&prefixes).collect()] {
        let lengths: Vec<usize> = messages.iter().map(Vec::len).collect();
        assert!(lengths.iter().all(|&length| length <= 4096), "{lengths:?}");
        // All routes except the last of each family.
        assert!(lengths.iter().filter(|&&length| length < 4000).count() <= 2, "{lengths:?}");
    }
}

#[tokio::test]
async fn shutdown_ceases() {
    let [a, b] = sessions([90, 90]);
    until(&b, |status| status.state == State::Established).await;
    a.shutdown().await.unwrap();
    let cease = Notification::bare(CeaseSubcode::AdministrativeShutdown);
    assert_eq!(closed(&a).await, Closed::Sent(cease.clone()));
    assert_eq!(closed(&b).await, Closed::Received(cease));
    assert!(b.announce(generate(1)).await.is_err());
}

/// The peer leaves while this end is writing; whether reading or writing fails first is chance.
#[tokio::test]
async fn what_the_peer_said_last_is_heard_though_nothing_can_be_written() {
    let farewell = Notification::bare(CeaseSubcode::AdministrativeShutdown);
    for _ in 0..20 {
        let (session, mut peer) = established(&open(|_| ())).await;
        // More than the stream has room for.
        session.announce(generate(3000)).await.unwrap();
        tokio::task::yield_now().await;
        peer.write_all(&farewell.to_octets()).await.unwrap();
        drop(peer);
        assert_eq!(closed(&session).await, Closed::Received(farewell.clone()));
    }
}

#[tokio::test(start_paused = true)]
async fn keepalives_hold_a_session_and_silence_ends_it() {
    let sessions = sessions([9, 90]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    for session in &sessions {
        let status = session.status().borrow().clone();
        assert_eq!((status.state, status.hold_time), (State::Established, Some(9)));
        assert!((20..=22).contains(&status.keepalives), "{}", status.keepalives);
    }

    let (session, _peer) = established(&open(|open| open[23] = 9)).await;
    let since = tokio::time::Instant::now();
    assert_eq!(closed(&session).await, Closed::Sent(Notification::bare(Details::HoldTimerExpired)));
    assert_eq!(since.elapsed().as_secs(), 9);
}

#[tokio::test]
async fn a_bad_open_is_answered_with_its_error() {
    type Alter = fn(&mut Vec<u8>);
    let lacks_four_octets = |open: &mut Vec<u8>| {
        open.truncate(28);
        open[17] = 29;
        open.push(0);
    };
    let cases: [(Alter, OpenMessageSubcode, &[u8]); 5] = [
        (|open| open[19] = 3, OpenMessageSubcode::UnsupportedVersionNumber, &[0, 4]),
        (|open| open[36] = 1, OpenMessageSubcode::BadPeerAs, &[]),
        (|open| open[23] = 2, OpenMessageSubcode::UnacceptableHoldTime, &[]),
        (|open| open[24..28].fill(0), OpenMessageSubcode::BadBgpIdentifier, &[]),
        (lacks_four_octets, OpenMessageSubcode::UnsupportedCapability, &[65, 4, 0, 0, 252, 0]),
    ];
    for (alter, subcode, data) in cases {
        let (session, _peer) = against_test(&open(alter)).await;
        assert_eq!(closed(&session).await, Closed::Sent(Notification::new(subcode, data)));
    }
}

#[tokio::test]
async fn a_bad_message_is_answered_with_its_error() {
    let header = |length: u16, kind: u8| [&[0xff; 16][..], &length.to_be_bytes(), &[kind]].concat();
    let mut unsynchronised = header(19, 4);
    unsynchronised[0] = 0;
    // One IPv4 prefix without any attribute, so also without NEXT_HOP, number 3.
    let bare_update = [header(27, 2), vec![0, 0, 0, 0, 24, 192, 0, 2]].concat();
    let cases: [(Vec<u8>, Details, &[u8]); 5] = [
        (unsynchronised, MessageHeaderSubcode::ConnectionNotSynchronized.into(), &[]),
        (header(18, 4), MessageHeaderSubcode::BadMessageLength.into(), &[0, 18]),
        (header(4097, 2), MessageHeaderSubcode::BadMessageLength.into(), &[16, 1]),
        (header(19, 9), MessageHeaderSubcode::BadMessageType.into(), &[9]),
        (bare_update, UpdateMessageSubcode::MissingWellknownAttribute.into(), &[3]),
    ];
    for (message, details, data) in cases {
        let (session, mut peer) = established(&open(|_| ())).await;
        peer.write_all(&message).await.unwrap();
        assert_eq!(closed(&session).await, Closed::Sent(Notification::new(details, data)));
    }
}

/// Random octets, and good messages cut off at every length: an error or a message, never a panic.
#[test]
fn no_octets_make_it_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    let good: Vec<Vec<u8>> = announcements(&generate(20), config(0, 90).export).collect();
    for _ in 0..20_000 {
        let mut message = good[random.usize(..good.len())].clone();
        for _ in 0..random.usize(1..4) {
            let place = random.usize(19..message.len());
            message[place] = random.u8(..);
        }
        message.truncate(random.usize(19..=message.len()));
        let length = (message.len() as u16).to_be_bytes();
        message[16..18].copy_from_slice(&length);
        message[18] = random.u8(1..=5);
        if let Ok(Some(routecore::bgp::message::Message::Update(update))) = decode(&mut message[..].into()) {
            let _ = speaker::message::changes(&update, 1);
        }
    }
}

#[tokio::test]
async fn no_open_makes_it_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..1000 {
        let open = open(|open| {
            let place = random.usize(19..open.len());
            open[place] = random.u8(..);
            open[random.usize(28..37)] = random.u8(..8);
            open.truncate(random.usize(29..=37));
            open[17] = open.len() as u8;
        });
        let (session, peer) = against_test(&open).await;
        drop(peer);
        closed(&session).await;
    }
}

#[test]
fn messages_come_out_of_any_pieces_of_the_stream() {
    let messages: Vec<Vec<u8>> = announcements(&generate(100), config(0, 90).export).collect();
    assert!(messages.len() > 20);
    let mut buffer = BytesMut::new();
    let mut pieces = Vec::new();
    for octet in messages.concat() {
        buffer.extend([octet]);
        pieces.extend(decode(&mut buffer).unwrap().map(|message| message.as_ref().to_vec()));
    }
    assert_eq!(pieces, messages);
}

/// A strict peer sends a NOTIFICATION for anything of a family that it has not named.
#[tokio::test]
async fn a_peer_gets_only_families_that_it_has_named() {
    const IPV4: [u8; 6] = [1, 4, 0, 1, 0, 1];
    const IPV6: [u8; 6] = [1, 4, 0, 2, 0, 1];
    const MULTICAST: [u8; 6] = [1, 4, 0, 2, 0, 2];
    let table = generate(100);
    for (named, families) in [
        (&[][..], [true, false]),
        (&[IPV4], [true, false]),
        (&[IPV6], [false, true]),
        (&[IPV4, MULTICAST], [true, false]),
        (&[IPV6, IPV4], [true, true]),
    ] {
        let capabilities = named.concat();
        let open = open(|open| {
            open.extend(&capabilities);
            let added = capabilities.len() as u8;
            [17, 28, 30].iter().for_each(|&length| open[length] += added);
        });
        let (session, mut peer) = established(&open).await;
        let complete = session.status().borrow().end_of_rib;
        assert_eq!(complete, families.map(|is_named| !is_named));
        session.announce(Arc::clone(&table)).await.unwrap();
        session.withdraw(table.iter().map(|route| route.prefix).collect()).await.unwrap();
        session.shutdown().await.unwrap();
        let mut sent = BytesMut::new();
        while peer.read_buf(&mut sent).await.unwrap() > 0 {}
        let (mut routes, mut ends) = ([0; 2], [false; 2]);
        while let Some(message) = decode(&mut sent).unwrap() {
            let Message::Update(update) = message else { continue };
            let changes = changes(&update, 1).unwrap();
            let announced = changes.announced.iter().map(|route| route.prefix);
            for prefix in announced.chain(changes.withdrawn) {
                routes[Family::of(prefix) as usize] += 1;
            }
            if let Some(family) = changes.end_of_rib {
                ends[family as usize] = true;
            }
        }
        assert_eq!((routes.map(|count| count > 0), ends), (families, families), "{named:?}");
    }
}
