//! What real captures seldom show.

use wireseal::quic::report::{DirectionReport, PacketKind, Reason, Side};
use wireseal::quic::{ConnectionReport, KeyLogFile};
use wireseal::standing::Standing;
use wireseal_quic::{AeadAlgorithm, LongType, Retry, StatelessResetToken, Version};

use super::made::{Made, PING, Short, Watch, id, made, new_connection_id, short, two};

fn in_phase(number: u32, generation: u64) -> Short {
    Short { number, generation, ..Short::default() }
}

fn only(connections: Vec<ConnectionReport>) -> ConnectionReport {
    let [connection] = <[_; 1]>::try_from(connections).unwrap();
    connection
}

fn reasons(direction: &DirectionReport) -> Vec<(Option<PacketKind>, Reason, u64)> {
    direction.not_opened.iter().map(|one| (one.kind, one.reason, one.packets)).collect()
}

/// With 0-RTT, whose suite nothing in the capture tells.
#[test]
fn all_suites_and_both_versions() {
    for (suite, version) in
        AeadAlgorithm::ALL.into_iter().flat_map(|suite| [(suite, Version::V1), (suite, Version::V2)])
    {
        let made = Made { version, ..Made::new(suite) };
        let log = made.log();
        let mut watch = Watch::new(&log);
        let [first, answer, last] = made.handshake();
        watch.send(first.0, &first.1);
        watch.send(Side::Client, &made.long(Side::Client, LongType::ZeroRtt, made.original, PING));
        for (sender, datagram) in [answer, last] {
            watch.send(sender, &datagram);
        }
        for side in Side::BOTH {
            watch.short(&made, side, 1, PING);
        }
        let (connections, totals) = watch.finish();
        let report = only(connections);
        assert_eq!(totals.standing(), Standing::Good, "{report:?}");
        assert_eq!((report.version, report.suite, report.early_suite), (version, Some(suite), Some(suite)));
        assert_eq!(report.directions[0].opened, [1, 1, 1, 1, 0]);
        assert_eq!(report.directions[1].opened, [1, 0, 1, 1, 0]);
    }
}

/// The server answers in version 2 (RFC 9369 §4): Initial keys of both versions come from one connection ID.
#[test]
fn compatible_version_negotiation() {
    let old = made();
    let new = Made { version: Version::V2, ..made() };
    let log = new.log();
    let mut watch = Watch::new(&log);
    let [first, ..] = old.handshake();
    watch.send(first.0, &first.1);
    watch.send(Side::Client, &old.long(Side::Client, LongType::ZeroRtt, old.original, PING));
    for (sender, datagram) in &new.handshake()[1..] {
        watch.send(*sender, datagram);
    }
    watch.short(&new, Side::Client, 1, PING);
    let (connections, totals) = watch.finish();
    let report = only(connections);
    assert_eq!(totals.standing(), Standing::Good, "{report:?}");
    assert_eq!((report.first_version, report.version), (Version::V1, Version::V2));
}

#[test]
fn version_negotiation_is_named() {
    let made = made();
    let log = made.log();
    let mut watch = Watch::new(&log);
    let unknown = [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8][..], &[0xd1; 8], &[5], &[0xc1; 5], &[0; 1180]].concat();
    watch.send(Side::Client, &unknown);
    let (connections, totals) = watch.finish();
    assert_eq!((connections.len(), totals.unknown_version), (0, 1));
    assert_eq!(totals.standing(), Standing::NotJudged);

    let mut watch = Watch::after_handshake(&log, &made);
    let negotiation = [&[0x80, 0, 0, 0, 0, 5][..], &[0xc1; 5], &[8], &[0xd0; 8], &[0, 0, 0, 1]].concat();
    watch.send(Side::Server, &negotiation);
    let (connections, totals) = watch.finish();
    assert_eq!((only(connections).version_negotiations, totals.version_negotiations), (1, 1));
    assert_eq!(totals.standing(), Standing::Good);
}

#[test]
fn a_retry_is_verified() {
    let made = made();
    let log = made.log();
    for is_forged in [false, true] {
        let mut watch = Watch::new(&log);
        let [first, ..] = made.handshake();
        watch.send(first.0, &first.1);
        let choice = id(&[0x4e; 12]);
        let retry = Retry { version: Version::V1, destination: made.ids[0], source: choice, token: b"token" };
        let mut datagram = vec![0; 100];
        let length = retry.encode(&made.original, &mut datagram).unwrap();
        datagram.truncate(length);
        datagram[length - 1] ^= u8::from(is_forged);
        watch.send(Side::Server, &datagram);
        let again =
            made.long_from(Side::Client, LongType::Initial, choice, choice, &made.hello(Side::Client));
        watch.send(Side::Client, &again);
        let (mut connections, totals) = watch.finish();
        if is_forged {
            assert_eq!(totals.standing(), Standing::Failed);
            assert_eq!(
                reasons(&connections[0].directions[1]),
                [(Some(PacketKind::Retry), Reason::Forged, 1)]
            );
        } else {
            let report = connections.remove(0);
            assert_eq!(totals.standing(), Standing::Good, "{report:?}");
            assert_eq!(report.directions[1].opened, [0, 0, 0, 0, 1]);
            assert_eq!(report.directions[0].opened, [2, 0, 0, 0, 0]);
        }
    }
}

/// A client that makes another ClientHello after a Retry, with another random. RFC 9000 §17.2.5.3 says not to, but some do.
#[test]
fn a_retry_may_be_answered_with_another_client_hello() {
    let choice = id(&[0x4e; 12]);
    let before = Made { random: [0x33; 32], secret_mask: 0x40, ..made() };
    let after = Made { original: choice, ..made() };
    let early = |made: &Made| made.long(Side::Client, LongType::ZeroRtt, made.original, PING);
    let early_line =
        before.log_text().lines().find(|line| line.starts_with("CLIENT_EARLY")).unwrap().to_owned();
    let both = KeyLogFile::read(format!("{}\n{early_line}\n", after.log_text()).as_bytes());
    // The log has nothing under the first random, or its early secret only.
    for (log, early_before) in [(&after.log(), 0), (&both, 1)] {
        for is_in_pieces in [false, true] {
            let mut watch = Watch::after_first(log, &before);
            watch.send(Side::Client, &early(&before));
            let retry =
                Retry { version: Version::V1, destination: before.ids[0], source: choice, token: b"token" };
            let mut datagram = vec![0; 100];
            let length = retry.encode(&before.original, &mut datagram).unwrap();
            watch.send(Side::Server, &datagram[..length]);
            let hello = after.hello(Side::Client);
            if is_in_pieces {
                let message = &hello[3..];
                for (start, end) in [(20, message.len()), (0, 20)] {
                    let piece =
                        [&[0x06, start as u8, (end - start) as u8][..], &message[start..end]].concat();
                    watch.send(Side::Client, &after.long(Side::Client, LongType::Initial, choice, &piece));
                    watch.send(Side::Client, &early(&after));
                }
            } else {
                // Recorded in another order than sent.
                watch.send(Side::Client, &early(&after));
                watch.send(Side::Client, &after.long(Side::Client, LongType::Initial, choice, &hello));
                watch.send(Side::Client, &early(&after));
            }
            let [_, rest @ ..] = after.handshake();
            rest.iter().for_each(|(sender, datagram)| watch.send(*sender, datagram));
            watch.short(&after, Side::Client, 1, PING);
            watch.short(&after, Side::Server, 1, PING);
            let (connections, totals) = watch.finish();
            let report = only(connections);
            let initial = if is_in_pieces { 3 } else { 2 };
            assert_eq!(report.directions[0].opened, [initial, 2 + early_before, 1, 1, 0], "{report:?}");
            assert_eq!(report.directions[1].opened, [1, 0, 1, 1, 1], "{report:?}");
            assert_eq!(report.client_random, Some(after.random));
            let not_opened = [(Some(PacketKind::ZeroRtt), Reason::NoKey, 1)];
            assert_eq!(reasons(&report.directions[0]), not_opened[early_before as usize..]);
            let expected = if early_before == 0 { Standing::NotJudged } else { Standing::Good };
            assert_eq!(totals.standing(), expected);
        }
    }
}

/// The client moves, and its peer answers to another connection ID that only an encrypted frame has named.
#[test]
fn connection_ids_of_frames_are_followed_to_other_addresses() {
    let made = Made::new(AeadAlgorithm::ChaCha20Poly1305);
    let log = made.log();
    let mut watch = Watch::after_handshake(&log, &made);
    // Ids of other lengths than before.
    let ids = [id(&[0xc2; 3]), id(&[0x5f; 17])];
    for side in Side::BOTH {
        let frames = [&[0x1e, 0x01][..], &new_connection_id(ids[side as usize], [0x99; 16])].concat();
        watch.short(&made, side, 1, &frames);
    }
    watch.ends[0] = ([198, 51, 100, 77], 1).into();
    watch.send(Side::Client, &made.short(Side::Client, ids[1], short(2), PING));
    watch.send(Side::Server, &made.short(Side::Server, ids[0], short(2), PING));
    let (connections, totals) = watch.finish();
    let report = only(connections);
    assert_eq!(totals.standing(), Standing::Good, "{report:?}");
    assert_eq!(report.paths.len(), 2);
    assert_eq!(report.directions[0].connection_ids, 3);
}

/// A client that has no connection IDs: its packets are known by the addresses alone.
#[test]
fn clients_without_connection_ids_can_move_as_well() {
    let made = Made { ids: [id(&[]), id(&[0x5e; 8])], ..made() };
    let log = made.log();
    let mut watch = Watch::after_handshake(&log, &made);
    watch.send(Side::Server, &made.short(Side::Server, id(&[]), short(1), PING));
    watch.ends[0] = ([198, 51, 100, 77], 1).into();
    watch.short(&made, Side::Client, 1, PING);
    watch.send(Side::Server, &made.short(Side::Server, id(&[]), short(2), PING));
    let (connections, totals) = watch.finish();
    assert_eq!(totals.standing(), Standing::Good, "{connections:?}");
    assert_eq!(only(connections).directions[1].opened[3], 2);
}

#[test]
fn stateless_resets_are_told_from_forgeries() {
    let made = made();
    let log = made.log();
    let watch = || {
        let mut watch = Watch::after_handshake(&log, &made);
        let frame = new_connection_id(id(&[0x60; 8]), [0x99; 16]);
        watch.short(&made, Side::Server, 1, &frame);
        watch
    };
    let reset = |token| {
        let mut datagram = [0xe7; 40];
        StatelessResetToken::new(token).write_reset(&mut datagram).unwrap();
        datagram
    };
    let mut known = watch();
    known.send(Side::Server, &reset([0x99; 16]));
    let (connections, totals) = known.finish();
    assert_eq!((only(connections).directions[1].resets, totals.resets), (1, 1));
    assert_eq!(totals.standing(), Standing::Good);

    let mut unknown = watch();
    unknown.send(Side::Server, &reset([0x98; 16]));
    let (connections, totals) = unknown.finish();
    let expected = [(Some(PacketKind::OneRtt), Reason::PossibleReset, 1)];
    assert_eq!(reasons(&only(connections).directions[1]), expected);
    assert_eq!(totals.standing(), Standing::NotJudged);

    // For an id that the client has given out, it is no reset.
    let mut forged = watch();
    let mut packet = made.short(Side::Server, made.ids[0], short(2), &[1; 30]);
    packet[20] ^= 4;
    forged.send(Side::Server, &packet);
    let (connections, totals) = forged.finish();
    assert_eq!(reasons(&only(connections).directions[1]), [(Some(PacketKind::OneRtt), Reason::Forged, 1)]);
    assert_eq!(totals.standing(), Standing::Failed);
}

/// The server's transport parameters name a connection ID for its preferred address, and tokens.
#[test]
fn transport_parameters_are_read() {
    let made = made();
    let log = made.log();
    let mut watch = Watch::after_first(&log, &made);
    let preferred = [&[0; 24][..], &[4], &[0x9a; 4], &[0x55; 16]].concat();
    let parameters =
        [&[0x01, 1, 30, 0x02, 16][..], &[0x44; 16], &[0x0d, preferred.len() as u8], &preferred].concat();
    let length = parameters.len() as u8;
    let extensions = [&[0, 16, 0, 1, 0, 0, 57, 0, length][..], &parameters].concat();
    let message =
        [&[8, 0, 0, extensions.len() as u8 + 2, 0, extensions.len() as u8][..], &extensions].concat();
    let crypto = |range: std::ops::Range<usize>| {
        [&[0x06, range.start as u8, 0x40, range.len() as u8][..], &message[range]].concat()
    };
    // In two packets, of which the second comes first.
    let [start, end] = [crypto(0..20), crypto(20..message.len())];
    let client = made.ids[0];
    let answer = [
        made.long(Side::Server, LongType::Initial, client, &made.hello(Side::Server)),
        made.long(Side::Server, LongType::Handshake, client, &end),
        made.long(Side::Server, LongType::Handshake, client, &start),
    ];
    watch.send(Side::Server, &answer.concat());
    watch.short(&made, Side::Client, 1, PING);
    watch.ends[1] = ([203, 0, 113, 1], 4434).into();
    watch.send(Side::Client, &made.short(Side::Client, id(&[0x9a; 4]), short(2), PING));
    watch.send(Side::Server, &made.short(Side::Server, client, short(1), PING));
    for token in [[0x44; 16], [0x55; 16]] {
        let mut reset = [0xe7; 40];
        StatelessResetToken::new(token).write_reset(&mut reset).unwrap();
        watch.send(Side::Server, &reset);
    }
    let (connections, totals) = watch.finish();
    let report = only(connections);
    assert_eq!(totals.standing(), Standing::Good, "{report:?}");
    assert_eq!((report.paths.len(), totals.resets), (2, 2));
    assert_eq!(report.directions[0].opened, [1, 0, 0, 2, 0]);
}

#[test]
fn what_is_wrong_with_a_packet_is_named() {
    let made = made();
    let log = made.log();
    let mut watch = Watch::after_handshake(&log, &made);
    let server = made.ids[1];
    let mut send = |short: Short| watch.send(Side::Client, &made.short(Side::Client, server, short, PING));
    send(short(1));
    send(Short { number: 2, has_wrong_phase: true, ..Short::default() });
    send(Short { number: 3, has_reserved_bits: true, ..Short::default() });
    send(short(4));
    let short = made.short(Side::Client, server, short(5), PING);
    watch.send(Side::Client, &short[..1 + 8 + 4 + 15]);
    let two = [&made.long(Side::Client, LongType::Handshake, server, PING)[..], &[0xff; 30]].concat();
    watch.send(Side::Client, &two);
    let (connections, totals) = watch.finish();
    let client = &only(connections).directions[0];
    let one_rtt = Some(PacketKind::OneRtt);
    let expected = [
        (one_rtt, Reason::WrongPhase, 1),
        (one_rtt, Reason::ReservedBits, 1),
        (one_rtt, Reason::TooShort, 1),
        (None, Reason::Malformed, 1),
    ];
    assert_eq!(reasons(client), expected);
    assert_eq!(client.opened, [1, 0, 2, 2, 0]);
    assert_eq!((totals.failed, totals.standing()), (4, Standing::Failed));
}

#[test]
fn key_updates_in_any_order() {
    let made = Made::new(AeadAlgorithm::Aes256Gcm);
    let log = made.log();
    let mut watch = Watch::after_handshake(&log, &made);
    // Late packets of the phase before, phases that the capture lacks, and many updates.
    let phases = [(1, 0), (3, 1), (2, 0), (5, 2), (4, 1), (20, 5), (21, 6), (19, 5), (30, 10)];
    for (number, generation) in phases {
        let packet = made.short(Side::Server, made.ids[0], in_phase(number, generation), PING);
        watch.send(Side::Server, &packet);
    }
    for generation in 11..40_u32 {
        let packet = in_phase(20 + generation, generation.into());
        watch.send(Side::Server, &made.short(Side::Server, made.ids[0], packet, PING));
    }
    let (connections, totals) = watch.finish();
    let report = only(connections);
    assert_eq!(totals.standing(), Standing::Good, "{:?}", report.directions[1].not_opened);
    let first: Vec<_> = report.directions[1]
        .phases
        .iter()
        .map(|phase| (phase.generation, phase.first_number))
        .take(7)
        .collect();
    assert_eq!(first, [(0, 1), (1, 3), (2, 5), (5, 19), (6, 21), (10, 30), (11, 31)]);
}

/// Numbers of two octets, of which the capture lacks more than they can tell: the peer's acknowledgment helps.
#[test]
fn acknowledged_numbers_are_known_to_be_sent() {
    let made = made();
    let log = made.log();
    for has_acknowledgment in [false, true] {
        let mut watch = Watch::after_handshake(&log, &made);
        watch.short(&made, Side::Client, 1, PING);
        // ACK of 1,000,000, which is beyond any window around 1.
        let ack = [0x02, 0x80, 0x0f, 0x42, 0x40, 0, 0, 0];
        let frames = if has_acknowledgment { &ack[..] } else { PING };
        watch.short(&made, Side::Server, 1, frames);
        watch.short(&made, Side::Client, 1_000_001, PING);
        let (_, totals) = watch.finish();
        assert_eq!(totals.standing() == Standing::Good, has_acknowledgment);
    }
}

/// Two clients behind one address, and one address used again.
#[test]
fn connections_of_the_same_addresses_are_told_apart() {
    let [first, second] = two();
    let log = first.log();
    let mut watch = Watch::after_handshake(&log, &first);
    watch.handshake(&second);
    for number in 1..4 {
        for made in [&first, &second] {
            for side in Side::BOTH {
                watch.short(made, side, number, PING);
            }
        }
    }
    let (connections, totals) = watch.finish();
    assert_eq!((connections.len(), totals.standing()), (2, Standing::Good), "{connections:?}");
    for report in connections {
        assert_eq!(report.directions.map(|direction| direction.opened[3]), [3, 3]);
    }
}

/// A connection that was closed, or is silent for long, is handed out before the capture ends, and takes no memory.
#[test]
fn connections_that_are_over_are_forgotten() {
    let made = made();
    let log = made.log();
    let mut watch = Watch::after_handshake(&log, &made);
    let close = [0x1c, 0, 0, 0];
    watch.short(&made, Side::Client, 1, &close);
    watch.seconds += 30;
    // What lingers still belongs to it.
    watch.short(&made, Side::Server, 1, PING);
    assert_eq!(watch.finished.len(), 0);
    watch.seconds += 61;
    let [_, silent] = two();
    watch.handshake(&silent);
    assert!(matches!(&watch.finished[..], [report] if report.is_closed));
    watch.seconds += 601;
    watch.short(&silent, Side::Client, 1, PING);
    assert_eq!(watch.finished.len(), 2);
    let (connections, totals) = watch.finish();
    assert_eq!((connections.len(), totals.connections), (2, 2));
    assert_eq!((totals.of_no_connection, totals.standing()), (1, Standing::NotJudged));
}

/// A CRYPTO frame at a time, the last one first, as some clients send them.
#[test]
fn a_client_hello_in_pieces() {
    let made = made();
    let log = made.log();
    let mut watch = Watch::new(&log);
    let hello = made.hello(Side::Client);
    let (message, frame_head) = (&hello[3..], 3);
    assert_eq!(hello.len() - frame_head, message.len());
    for (start, end) in [(30, message.len()), (10, 40), (0, 12)] {
        let frame = [&[0x06, start as u8, (end - start) as u8][..], &message[start..end]].concat();
        watch.send(Side::Client, &made.long(Side::Client, LongType::Initial, made.original, &frame));
        watch.send(Side::Client, &made.long(Side::Client, LongType::ZeroRtt, made.original, PING));
    }
    let (connections, totals) = watch.finish();
    let report = only(connections);
    assert_eq!(totals.standing(), Standing::Good, "{report:?}");
    assert_eq!(report.directions[0].opened, [3, 3, 0, 0, 0]);
    assert!(report.client_random.is_some());
}

/// Packets wait for the ServerHello, but not for ever.
#[test]
fn a_handshake_that_is_not_in_the_capture() {
    let made = made();
    let log = made.log();
    let mut watch = Watch::after_first(&log, &made);
    for number in 1..4 {
        watch.short(&made, Side::Server, number, PING);
    }
    let (connections, totals) = watch.finish();
    let expected = [(Some(PacketKind::OneRtt), Reason::HandshakeNotSeen, 3)];
    assert_eq!(reasons(&only(connections).directions[1]), expected);
    assert_eq!(totals.standing(), Standing::NotJudged);
}

#[test]
fn key_logs_with_lines_that_cannot_be_read() {
    let random = "ab".repeat(32);
    let text = format!(
        "CLIENT_TRAFFIC_SECRET_0 {random} {}\n\
         CLIENT_TRAFFIC_SECRET_0 {random}\n\
         SERVER_TRAFFIC_SECRET_0 {random} abc\n\
         CLIENT_RANDOM {random} {random}\n\
         SERVER_TRAFFIC_SECRET_0 {random} {} trailing\n\
         \u{e4} {random} {random}\n\
         SERVER_TRAFFIC_SECRET_0 {random} {}",
        "0f".repeat(48),
        "0f".repeat(32),
        "0f".repeat(31),
    );
    let log = KeyLogFile::read(text.as_bytes());
    assert_eq!((log.connections(), log.unreadable_lines()), (1, &[2, 3, 5, 7][..]));
    assert!(!format!("{log:?}").contains("0f0f"));
}
