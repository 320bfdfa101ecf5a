//! BGP sessions over an in-process stream.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::notification::{
    BgpNotificationMessage, CeaseError, HoldTimerExpiredError, MessageHeaderError, OpenMessageError,
    UpdateMessageError,
};
use router_peer::bgp::codec::Codec;
use router_peer::bgp::rib::Route;
use router_peer::bgp::session::{Closed, Session, SessionConfig, State, Status};
use router_peer::bgp::update::{self, Export};
use router_peer::routes;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::codec::{Decoder, Encoder};

const PATIENCE: Duration = Duration::from_secs(60);

/// AS 64512 with a peer in AS 4200000000, or the other way round.
fn config(first: bool, hold_time: u16) -> SessionConfig {
    let (local_as, peer_as) = if first { (64512, 4_200_000_000) } else { (4_200_000_000, 64512) };
    let host = if first { 1 } else { 2 };
    let export = Export {
        local_as,
        peer_as,
        next_hop_ipv4: Some(Ipv4Addr::new(192, 0, 2, host)),
        next_hop_ipv6: Some(format!("2001:db8::{host}").parse().unwrap()),
    };
    SessionConfig { export, router_id: Ipv4Addr::new(192, 0, 2, host), hold_time }
}

fn sessions(hold_time_a: u16, hold_time_b: u16) -> (Session, Session) {
    let (a, b) = duplex(64 * 1024);
    (Session::start(a, config(true, hold_time_a)), Session::start(b, config(false, hold_time_b)))
}

async fn until(mut status: watch::Receiver<Status>, wanted: impl FnMut(&Status) -> bool) -> Status {
    timeout(PATIENCE, status.wait_for(wanted)).await.expect("in time").unwrap().clone()
}

async fn closed(session: &Session) -> Closed {
    until(session.status(), |status| status.state == State::Closed).await.closed.unwrap()
}

fn encode(message: BgpMessage) -> Vec<u8> {
    let mut octets = BytesMut::new();
    Codec::default().encode(message, &mut octets).unwrap();
    octets.to_vec()
}

/// Brings up a session whose peer is the test itself.
async fn against_test() -> (Session, DuplexStream) {
    let (ours, theirs) = duplex(64 * 1024);
    let session = Session::start(ours, config(true, 90));
    (session, theirs)
}

/// OPEN of AS 4200000000 with one change.
fn open(alter: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut open = vec![0xff; 16];
    open.extend([0, 37, 1, 4, 0x5b, 0xa0, 0, 90, 192, 0, 2, 2, 8, 2, 6, 65, 4, 0xfa, 0x56, 0xea, 0x00]);
    alter(&mut open);
    open
}

#[tokio::test]
async fn routes_go_both_ways_at_once_and_are_withdrawn() {
    let (a, b) = sessions(90, 30);
    let table: Arc<[Route]> = routes::generate(20_000);
    a.announce(Arc::clone(&table)).await.unwrap();
    b.announce(Arc::clone(&table)).await.unwrap();
    for session in [&a, &b] {
        let status = until(session.status(), |status| status.end_of_rib == [true; 2]).await;
        assert_eq!((status.ipv4_routes, status.ipv6_routes), (16_000, 4_000));
        assert_eq!((status.state, status.hold_time), (State::Established, Some(30)));
    }
    let rib = b.rib();
    for route in table.iter() {
        let rib = rib.lock();
        let learnt = rib.get(&route.prefix).unwrap();
        assert_eq!(learnt.as_path[0], 64512);
        assert_eq!(learnt.as_path[1..], route.attributes.as_path[..]);
        assert_eq!(learnt.next_hop.unwrap().is_ipv4(), route.prefix.addr().is_ipv4());
    }
    a.withdraw(table.iter().map(|route| route.prefix).skip(7).collect()).await.unwrap();
    let status = until(b.status(), |status| status.ipv4_routes + status.ipv6_routes == 7).await;
    assert_eq!((status.ipv4_routes, status.ipv6_routes), (6, 1));
}

#[test]
fn messages_are_full_and_no_longer_than_4096_octets() {
    let attributes = Arc::default();
    let table: Vec<Route> = routes::generate(10_000)
        .iter()
        .map(|route| Route { prefix: route.prefix, attributes: Arc::clone(&attributes) })
        .collect();
    let prefixes: Vec<_> = table.iter().map(|route| route.prefix).collect();
    let announced = update::announcements(&table, &config(true, 90).export).map(encode);
    let withdrawn = update::withdrawals(&prefixes).map(encode);
    for lengths in [announced.map(|m| m.len()).collect::<Vec<_>>(), withdrawn.map(|m| m.len()).collect()] {
        assert!(lengths.iter().all(|&length| length <= 4096), "{lengths:?}");
        // All but the last message of each family had no room for another /48.
        let unfilled = lengths.iter().filter(|&&length| length + 7 <= 4096).count();
        assert!(unfilled <= 2, "{lengths:?}");
    }
}

#[tokio::test]
async fn shutdown_ceases() {
    let (a, b) = sessions(90, 90);
    until(b.status(), |status| status.state == State::Established).await;
    a.shutdown().await.unwrap();
    let cease =
        BgpNotificationMessage::CeaseError(CeaseError::AdministrativeShutdown { value: Box::default() });
    assert_eq!(closed(&a).await, Closed::NotificationSent(cease.clone()));
    assert_eq!(closed(&b).await, Closed::NotificationReceived(cease));
    assert!(b.announce(routes::generate(1)).await.is_err());
}

/// The peer goes while this end is in the middle of writing: which of the two is noticed first is chance.
#[tokio::test]
async fn what_the_peer_said_last_is_heard_though_nothing_can_be_written() {
    let cease = CeaseError::AdministrativeShutdown { value: Box::default() };
    let farewell = BgpNotificationMessage::CeaseError(cease);
    for _ in 0..20 {
        let (session, mut peer) = against_test().await;
        peer.write_all(&open(|_| ())).await.unwrap();
        peer.write_all(&encode(BgpMessage::KeepAlive)).await.unwrap();
        until(session.status(), |status| status.state == State::Established).await;
        // More than the stream takes.
        session.announce(routes::generate(20_000)).await.unwrap();
        tokio::task::yield_now().await;
        peer.write_all(&encode(BgpMessage::Notification(farewell.clone()))).await.unwrap();
        drop(peer);
        assert_eq!(closed(&session).await, Closed::NotificationReceived(farewell.clone()));
    }
}

#[tokio::test(start_paused = true)]
async fn keepalives_hold_a_session_and_silence_ends_it() {
    let (a, b) = sessions(9, 90);
    tokio::time::sleep(Duration::from_secs(60)).await;
    for session in [&a, &b] {
        let status = session.status().borrow().clone();
        assert_eq!((status.state, status.hold_time), (State::Established, Some(9)));
        assert!((20..=22).contains(&status.keepalives), "{}", status.keepalives);
    }

    let (session, mut peer) = against_test().await;
    peer.write_all(&open(|open| open[23] = 9)).await.unwrap();
    peer.write_all(&encode(BgpMessage::KeepAlive)).await.unwrap();
    until(session.status(), |status| status.state == State::Established).await;
    let established = tokio::time::Instant::now();
    let expired = HoldTimerExpiredError::Unspecific { sub_code: 0, value: Box::default() };
    assert_eq!(
        closed(&session).await,
        Closed::NotificationSent(BgpNotificationMessage::HoldTimerExpiredError(expired))
    );
    assert_eq!(established.elapsed().as_secs(), 9);
}

#[tokio::test]
async fn a_bad_open_is_answered_with_its_error() {
    type Alter = fn(&mut Vec<u8>);
    type Check = fn(&OpenMessageError) -> bool;
    let cases: [(&str, Alter, Check); 5] = [
        ("version", |open| open[19] = 3, |e| matches!(e, OpenMessageError::UnsupportedVersionNumber { .. })),
        ("AS", |open| open[36] = 1, |e| matches!(e, OpenMessageError::BadPeerAs { .. })),
        ("hold time", |open| open[23] = 2, |e| matches!(e, OpenMessageError::UnacceptableHoldTime { .. })),
        (
            "identifier",
            |open| open[24..28].fill(0),
            |e| matches!(e, OpenMessageError::BadBgpIdentifier { .. }),
        ),
        (
            "no 4-octet AS",
            |open| {
                open.truncate(28);
                open[17] = 29;
                open.push(0);
            },
            |e| matches!(e, OpenMessageError::UnsupportedCapability { .. }),
        ),
    ];
    for (name, alter, check) in cases {
        let (session, mut peer) = against_test().await;
        peer.write_all(&open(alter)).await.unwrap();
        match closed(&session).await {
            Closed::NotificationSent(BgpNotificationMessage::OpenMessageError(error)) => {
                assert!(check(&error), "{name}: {error:?}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_bad_message_is_answered_with_its_error() {
    type Check = fn(&BgpNotificationMessage) -> bool;
    let header = |length: u16, kind: u8| {
        let mut message = vec![0xff; 16];
        message.extend(length.to_be_bytes());
        message.push(kind);
        message
    };
    let unsynchronised = {
        let mut message = header(19, 4);
        message[0] = 0;
        message
    };
    // One IPv4 prefix without any attribute.
    let bare_update = [header(27, 2), vec![0, 0, 0, 0, 24, 192, 0, 2]].concat();
    let cases: [(&str, Vec<u8>, Check); 5] = [
        ("marker", unsynchronised, |n| {
            matches!(
                n,
                BgpNotificationMessage::MessageHeaderError(
                    MessageHeaderError::ConnectionNotSynchronized { .. }
                )
            )
        }),
        (
            "too short",
            header(18, 4),
            |n| matches!(n, BgpNotificationMessage::MessageHeaderError(MessageHeaderError::BadMessageLength { value }) if **value == [0, 18]),
        ),
        (
            "too long",
            header(4097, 2),
            |n| matches!(n, BgpNotificationMessage::MessageHeaderError(MessageHeaderError::BadMessageLength { value }) if **value == [16, 1]),
        ),
        (
            "type",
            header(19, 9),
            |n| matches!(n, BgpNotificationMessage::MessageHeaderError(MessageHeaderError::BadMessageType { value }) if **value == [9]),
        ),
        ("attributes", bare_update, |n| {
            // NEXT_HOP is attribute 3.
            matches!(n, BgpNotificationMessage::UpdateMessageError(UpdateMessageError::MissingWellKnownAttribute { value }) if **value == [3])
        }),
    ];
    for (name, message, check) in cases {
        let (session, mut peer) = against_test().await;
        peer.write_all(&open(|_| {})).await.unwrap();
        peer.write_all(&encode(BgpMessage::KeepAlive)).await.unwrap();
        peer.write_all(&message).await.unwrap();
        match closed(&session).await {
            Closed::NotificationSent(notification) => {
                assert!(check(&notification), "{name}: {notification:?}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn messages_come_out_of_any_pieces_of_the_stream() {
    let stream: Vec<u8> =
        update::announcements(&routes::generate(100), &config(true, 90).export).flat_map(encode).collect();
    let whole: Vec<BgpMessage> = {
        let mut buffer = BytesMut::from(&stream[..]);
        let mut codec = Codec::default();
        std::iter::from_fn(|| codec.decode(&mut buffer).unwrap()).collect()
    };
    let mut buffer = BytesMut::new();
    let mut codec = Codec::default();
    let mut pieces = Vec::new();
    for octet in stream {
        buffer.extend([octet]);
        pieces.extend(codec.decode(&mut buffer).unwrap());
    }
    assert!(whole.len() > 20);
    assert_eq!(whole, pieces);
}
