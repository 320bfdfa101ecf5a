//! Connections that are easily mixed up, datagrams that are several in one, and captures that would take all memory.

use wireseal::quic::KeyLogFile;
use wireseal::quic::report::{PacketKind, Reason, Side};
use wireseal::standing::Standing;
use wireseal_quic::{LongType, Version};

use super::made::{Made, PING, Watch, id, made, new_connection_id, short, two};

/// As a capture on the sending machine has them, with and without a connection ID that tells where they begin.
#[test]
fn datagrams_that_the_network_card_was_to_cut_apart() {
    for client_id in [id(&[0xc1; 5]), id(&[])] {
        let made = Made { ids: [client_id, id(&[0x5e; 8])], ..made() };
        let log = made.log();
        let mut watch = Watch::after_handshake(&log, &made);
        let packet = |number, length| made.short(Side::Server, client_id, short(number), &vec![0; length]);
        let merged: Vec<_> = (1..=20).map(|number| packet(number, 1252)).chain([packet(21, 90)]).collect();
        watch.send(Side::Server, &merged.concat());
        // Behind a packet with a long header, and with one in the middle that was damaged.
        let handshake = made.long(Side::Server, LongType::Handshake, client_id, PING);
        let mut damaged = packet(23, 1252);
        damaged[600] ^= 1;
        watch.send(Side::Server, &[handshake, packet(22, 1200), damaged, packet(24, 70)].concat());
        let (connections, totals) = watch.finish();
        let server = &connections[0].directions[1];
        assert_eq!(server.opened, [1, 0, 2, 22, 0]);
        assert_eq!(server.not_opened.len(), 1);
        assert_eq!((server.not_opened[0].reason, server.not_opened[0].packets), (Reason::Forged, 1));
        assert_eq!(totals.standing(), Standing::Failed);
    }
}

/// Two clients of one server that call themselves the same, and one that has no name.
#[test]
fn clients_with_the_same_short_connection_id() {
    let clients = [(id(&[0xc1]), 0xd1), (id(&[0xc1]), 0xd2), (id(&[]), 0xd3)];
    let made = clients.map(|(client, original)| Made {
        original: id(&[original; 8]),
        ids: [client, id(&[original ^ 0x80; 8])],
        random: [original; 32],
        ..made()
    });
    let mut log = String::new();
    let random = |made: &Made| made.random.map(|octet| format!("{octet:02x}")).concat();
    for made in &made {
        for (place, label) in [
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            "CLIENT_TRAFFIC_SECRET_0",
            "SERVER_TRAFFIC_SECRET_0",
        ]
        .into_iter()
        .enumerate()
        {
            log += &format!("{label} {} {}\n", random(made), format!("{:02x}", place + 2).repeat(32));
        }
    }
    let log = KeyLogFile::read(log.as_bytes());
    let mut watch = Watch::new(&log);
    let at = |place: usize| ([192, 0, 2, 10 + place as u8], 50_000).into();
    for (place, made) in made.iter().enumerate() {
        watch.ends[0] = at(place);
        watch.handshake(made);
    }
    for number in 1..40 {
        for (place, made) in made.iter().enumerate() {
            watch.ends[0] = at(place);
            for side in Side::BOTH {
                // Of the last client, some begin with the name of the others.
                watch.short(made, side, number * 97, PING);
            }
        }
    }
    let (connections, totals) = watch.finish();
    assert_eq!((connections.len(), totals.standing()), (3, Standing::Good), "{connections:?}");
    assert!(connections.iter().all(|report| report.paths.len() == 1));
}

/// Each end opens a connection to the other, from the same port.
#[test]
fn both_ends_are_clients_of_each_other() {
    let [first, second] = two();
    let log = first.log();
    let mut watch = Watch::after_handshake(&log, &first);
    watch.ends.reverse();
    watch.handshake(&second);
    let (connections, totals) = watch.finish();
    assert_eq!((connections.len(), totals.standing()), (2, Standing::Good), "{connections:?}");
    assert_eq!(connections[0].paths[0].ends[0], connections[1].paths[0].ends[1]);
}

/// The server does not speak the client's version: another connection begins, with another ClientHello.
#[test]
fn a_connection_begins_anew_in_another_version() {
    let new = made();
    for original in [new.original, id(&[0xd9; 8])] {
        let old = Made { version: Version::V2, random: [0x11; 32], original, ..made() };
        let log = new.log();
        let mut watch = Watch::new(&log);
        let [first, ..] = old.handshake();
        watch.send(first.0, &first.1);
        let negotiation = [&[0x80, 0, 0, 0, 0, 5][..], &[0xc1; 5], &[8], &*original, &[0, 0, 0, 1]].concat();
        watch.send(Side::Server, &negotiation);
        watch.handshake(&new);
        watch.short(&new, Side::Client, 1, PING);
        let (connections, totals) = watch.finish();
        assert_eq!((connections.len(), totals.standing()), (2, Standing::Good), "{connections:?}");
        assert_eq!(connections[1].directions[0].opened, [1, 0, 1, 1, 0]);
    }
}

/// Everybody can make Initial packets, which may not name other connection IDs.
#[test]
fn initial_packets_give_no_connection_ids_out() {
    let made = made();
    let log = made.log();
    let mut watch = Watch::after_handshake(&log, &made);
    let frame = new_connection_id(id(&[0x66; 6]), [0x99; 16]);
    watch.send(Side::Server, &made.long(Side::Server, LongType::Initial, made.ids[0], &frame));
    // One of no octets, which would leave the client without a name.
    let empty = [&[0x18, 1, 0, 0][..], &[0x99; 16]].concat();
    watch.short(&made, Side::Client, 1, &empty);
    watch.ends[0] = ([203, 0, 113, 9], 9).into();
    watch.send(Side::Server, &made.short(Side::Server, id(&[0x66; 6]), short(1), PING));
    let (connections, totals) = watch.finish();
    assert_eq!(connections[0].paths.len(), 1);
    assert_eq!((totals.of_no_connection, totals.failed), (1, 0));
}

/// Frames of extensions stand before one that matters.
#[test]
fn frames_of_extensions_are_passed_over() {
    let made = made();
    let log = made.log();
    let mut watch = Watch::after_handshake(&log, &made);
    let extensions = [0x1f, 0x40, 0xaf, 1, 2, 3, 4, 0x24, 4, 0, 9, 9];
    let frames = [&extensions[..], &new_connection_id(id(&[0x5f; 17]), [0x99; 16])].concat();
    watch.short(&made, Side::Server, 1, &frames);
    watch.ends[0] = ([198, 51, 100, 77], 1).into();
    watch.send(Side::Client, &made.short(Side::Client, id(&[0x5f; 17]), short(1), PING));
    let (connections, totals) = watch.finish();
    assert_eq!(totals.standing(), Standing::Good, "{connections:?}");
}

/// A flood of first packets without any times: what was silent for longest is handed out.
#[test]
fn no_more_connections_are_watched_than_there_is_room_for() {
    let log = KeyLogFile::default();
    let mut watch = Watch::new(&log);
    for number in 0..33_000_u32 {
        let name = [&[0xd0; 4][..], &number.to_be_bytes()].concat();
        let initial = [&[0xc0, 0, 0, 0, 1, 8][..], &name, &[0, 0, 30], &[0x5a; 30]].concat();
        watch.send(Side::Client, &initial);
    }
    assert_eq!(watch.finished.len(), 16_384);
    assert_eq!(watch.finished[0].number, 1);
    let (connections, totals) = watch.finish();
    assert_eq!((connections.len(), totals.connections), (33_000, 33_000));
    let (kind, reason) = (Some(PacketKind::Initial), Reason::StartNotSeen);
    assert!(connections.iter().all(|report| {
        let not_opened = &report.directions[0].not_opened[0];
        (not_opened.kind, not_opened.reason) == (kind, reason)
    }));
}

/// Of a ClientHello in ever so many pieces, only as many are kept as any client sends.
#[test]
fn a_stream_in_too_many_pieces_is_forgotten() {
    let made = made();
    let log = made.log();
    for pieces in [1000_u16, 1100] {
        let mut watch = Watch::new(&log);
        let piece = |offset: u16| [&[0x06, 0x80, 0][..], &(offset + 9000).to_be_bytes(), &[1, 7]].concat();
        let frames: Vec<_> = (0..pieces).map(piece).collect();
        for frames in frames.chunks(150) {
            let frames = frames.concat();
            watch.send(Side::Client, &made.long(Side::Client, LongType::Initial, made.original, &frames));
        }
        watch.handshake(&made);
        let (connections, _) = watch.finish();
        let is_kept = connections[0].client_random.is_some();
        assert_eq!(is_kept, pieces < 1024 - 1, "{connections:?}");
    }
}
