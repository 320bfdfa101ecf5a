//! The captures of real connections, opened by the library: as they are, and altered octet by octet.

use std::io::Cursor;
use std::path::PathBuf;

use wireseal::capture::Reader;
use wireseal::quic::report::{PacketKind, Reason};
use wireseal::quic::{ConnectionReport, KeyLogFile, Observer, Totals};
use wireseal::standing::Standing;

/// The captures by name, the QUIC packets in them, and the Retry packets beside those.
pub const CAPTURES: [(&str, u64, u64); 5] = [
    ("quic-aioquic-v1-aes128-ku", 53, 0),
    ("quic-ngtcp2-v1-chacha-ku", 76, 0),
    ("quic-ngtcp2-v1-ccm-ku", 131, 0),
    ("quic-aioquic-v2-aes256-ku", 44, 0),
    ("quic-ngtcp2-retry-0rtt", 138, 2),
];

pub fn path(name: &str, extension: &str) -> PathBuf {
    format!("{}/../quic/tests/data/captures/{name}.{extension}", env!("CARGO_MANIFEST_DIR")).into()
}

pub fn capture(name: &str) -> Vec<u8> {
    std::fs::read(path(name, "pcap")).unwrap()
}

pub fn key_log(name: &str) -> String {
    std::fs::read_to_string(path(name, "keys")).unwrap()
}

/// The records of a pcap file, each from its header on; first of all the file's header.
pub fn records(file: &[u8]) -> Vec<Vec<u8>> {
    let (header, mut rest) = file.split_at(24);
    let mut records = vec![header.to_vec()];
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (record, behind) = rest.split_at(16 + length);
        records.push(record.to_vec());
        rest = behind;
    }
    records
}

/// Where in a record the UDP ports are, over Ethernet and IPv4; the payload is 8 octets on.
const PORTS: usize = 16 + 14 + 20;
const PAYLOAD: usize = PORTS + 8;

pub fn observe(file: Vec<u8>, log: &KeyLogFile) -> (Vec<ConnectionReport>, Totals) {
    let mut reader = Reader::new(Cursor::new(file), None).unwrap();
    let mut observer = Observer::new(log);
    let mut connections = Vec::new();
    while let Some(packet) = reader.next_packet() {
        observer.packet(&packet.unwrap());
        connections.extend(observer.take_finished());
    }
    let (others, totals) = observer.finish();
    connections.extend(others);
    (connections, totals)
}

fn log_of(name: &str) -> KeyLogFile {
    KeyLogFile::read(key_log(name).as_bytes())
}

/// Everything opens.
fn assert_whole(name: &str, records: &[Vec<u8>]) -> Vec<ConnectionReport> {
    let (_, packets, retries) = CAPTURES.into_iter().find(|capture| capture.0 == name).unwrap();
    let (connections, totals) = observe(records.concat(), &log_of(name));
    let not_opened: Vec<_> =
        connections.iter().flat_map(|report| &report.directions).flat_map(|one| &one.not_opened).collect();
    assert!(not_opened.is_empty(), "{name}: {not_opened:?}");
    assert_eq!((totals.opened, totals.retries), (packets, retries), "{name}");
    assert_eq!(totals.standing(), Standing::Good, "{name}");
    connections
}

#[test]
fn every_packet_opens() {
    for (name, ..) in CAPTURES {
        assert_whole(name, &records(&capture(name)));
    }
}

#[test]
fn key_phases_begin_where_the_updates_were() {
    let connections =
        assert_whole("quic-aioquic-v1-aes128-ku", &records(&capture("quic-aioquic-v1-aes128-ku")));
    let [client, server] = [0, 1].map(|sender| {
        let phases = connections[0].directions[sender].phases.iter();
        phases.map(|phase| (phase.generation, phase.first_number, phase.first.packet)).collect::<Vec<_>>()
    });
    assert_eq!(client, [(0, 3, 3), (1, 7, 14), (2, 11, 27), (3, 15, 39)]);
    assert_eq!(server, [(0, 2, 5), (1, 9, 15), (2, 17, 26), (3, 26, 40)]);
}

#[test]
fn an_altered_octet_is_found_wherever_it_is() {
    let mut forged = 0;
    for (name, ..) in CAPTURES {
        let log = log_of(name);
        let records = records(&capture(name));
        for record in 1..records.len() {
            let mut altered = records.clone();
            *altered[record].last_mut().unwrap() ^= 1;
            let (connections, totals) = observe(altered.concat(), &log);
            let reports: Vec<_> = connections
                .iter()
                .flat_map(|report| &report.directions)
                .flat_map(|one| &one.not_opened)
                .filter(|not_opened| not_opened.first.packet == record as u64)
                .collect();
            assert_eq!(totals.standing(), Standing::Failed, "{name}, packet {record}: {totals:?}");
            let [report] = reports[..] else { panic!("{name}, packet {record}: {reports:?}") };
            // Behind the packet, where a datagram is filled up with zeros.
            assert!(matches!(report.reason, Reason::Forged | Reason::Malformed), "{report:?}");
            forged += usize::from(report.reason == Reason::Forged);
        }
    }
    assert!(forged > 400, "{forged}");
}

/// Packets that come before the handshake messages that say how they are protected have to wait for them.
#[test]
fn packets_in_another_order_open_all_the_same() {
    for name in ["quic-aioquic-v1-aes128-ku", "quic-ngtcp2-v1-chacha-ku", "quic-aioquic-v2-aes256-ku"] {
        let mut records = records(&capture(name));
        // The file's header, the ClientHello, and the ServerHello, which comes four datagrams late.
        records[2..7].rotate_left(1);
        assert_whole(name, &records);
    }
}

/// The client's port changes in mid-connection, as behind a NAT that forgets.
#[test]
fn connections_are_followed_to_other_addresses() {
    for (name, ..) in CAPTURES {
        let mut records = records(&capture(name));
        let last = records.len() - 1;
        for (place, record) in records.iter_mut().enumerate().skip(1) {
            let [source, destination] =
                [0, 2].map(|port| u16::from_be_bytes([record[PORTS + port], record[PORTS + port + 1]]));
            let moved = if source > destination { PORTS } else { PORTS + 2 };
            if place > last - 20 {
                record[moved..moved + 2].copy_from_slice(&60_001_u16.to_be_bytes());
            }
        }
        let connections = assert_whole(name, &records);
        let paths = &connections.last().unwrap().paths;
        assert_eq!(paths.len(), 2, "{name}: {paths:?}");
        assert_eq!(paths[1].ends[0].port(), 60_001);
        assert_eq!(paths[1].first.packet as usize, last - 19);
    }
}

#[test]
fn a_packet_recorded_twice_opens_twice() {
    for (name, packets, retries) in CAPTURES {
        let records = records(&capture(name));
        let doubled: Vec<_> = records[..1]
            .iter()
            .chain(records[1..].iter().flat_map(|record| [record, record]))
            .cloned()
            .collect();
        let (_, totals) = observe(doubled.concat(), &log_of(name));
        assert_eq!((totals.opened, totals.retries), (2 * packets, 2 * retries), "{name}");
        assert_eq!(totals.standing(), Standing::Good);
    }
}

/// A snap length that leaves the headers.
#[test]
fn what_is_cut_off_is_not_called_forged() {
    for (name, ..) in CAPTURES {
        let mut records = records(&capture(name));
        for record in &mut records[1..] {
            let length = 100.min(record.len() - 16);
            record.truncate(16 + length);
            record[8..12].copy_from_slice(&(length as u32).to_le_bytes());
        }
        let (connections, totals) = observe(records.concat(), &log_of(name));
        assert_eq!(totals.failed, 0, "{name}: {connections:?}");
        assert_eq!(totals.standing(), Standing::NotJudged);
    }
    // Only some datagrams, in mid-connection.
    let name = "quic-ngtcp2-v1-ccm-ku";
    let mut records = records(&capture(name));
    for record in records[60..70].iter_mut().filter(|record| record.len() > 200) {
        record.truncate(200);
        record[8..12].copy_from_slice(&184_u32.to_le_bytes());
    }
    let (connections, totals) = observe(records.concat(), &log_of(name));
    assert_eq!(totals.failed, 0);
    let reasons: Vec<_> = connections[0]
        .directions
        .iter()
        .flat_map(|one| &one.not_opened)
        .map(|not_opened| (not_opened.kind, not_opened.reason))
        .collect();
    assert!(
        !reasons.is_empty()
            && reasons.iter().all(|reason| *reason == (Some(PacketKind::OneRtt), Reason::CutOff))
    );
}

/// Without the client's first packets, nothing of a connection is known but that it is there.
#[test]
fn connections_that_began_before_the_capture_are_not_judged() {
    for (name, ..) in CAPTURES {
        let records = records(&capture(name));
        for skipped in [2, 3, 12] {
            let rest = [&records[..1], &records[1 + skipped..41]].concat();
            let (connections, totals) = observe(rest.concat(), &log_of(name));
            let whole = connections.iter().any(|report| report.client_random.is_some());
            // After a Retry, the client says everything again.
            assert_eq!(whole, name == "quic-ngtcp2-retry-0rtt" && skipped <= 2, "{name} without {skipped}");
            let expected = if whole { Standing::Good } else { Standing::NotJudged };
            assert_eq!(totals.standing(), expected, "{name} without {skipped}: {connections:?}");
        }
    }
}

/// Packets that the capture lacks do not keep the others from being opened, even where an update of keys is among them.
#[test]
fn gaps_are_got_over() {
    for (name, ..) in CAPTURES {
        let records = records(&capture(name));
        for start in 8..records.len() - 8 {
            let rest = [&records[..start], &records[start + 6..]].concat();
            let (connections, totals) = observe(rest.concat(), &log_of(name));
            if name != "quic-ngtcp2-retry-0rtt" {
                assert_eq!(totals.standing(), Standing::Good, "{name} from {start}: {connections:?}");
            }
            assert_eq!(totals.failed, 0, "{name} from {start}: {connections:?}");
        }
    }
}

/// The first octet of a datagram's payload decides what it is taken for.
#[test]
fn other_traffic_is_counted_and_no_more() {
    let name = "quic-aioquic-v1-aes128-ku";
    let mut records = records(&capture(name));
    let mut other = records[20].clone();
    other[PORTS..PORTS + 4].copy_from_slice(&[0xd4, 0x31, 0, 53]);
    let mut mid_connection = other.clone();
    other[PAYLOAD..PAYLOAD + 6].copy_from_slice(&[0x9a, 0x11, 0x01, 0x00, 0x00, 0x01]);
    mid_connection[PORTS + 2..PORTS + 4].copy_from_slice(&443_u16.to_be_bytes());
    records.push(other);
    let (_, totals) = observe(records.concat(), &log_of(name));
    assert_eq!((totals.other_datagrams, totals.standing()), (1, Standing::Good));
    records.push(mid_connection);
    let (_, totals) = observe(records.concat(), &log_of(name));
    assert_eq!((totals.of_no_connection, totals.standing()), (1, Standing::NotJudged));
}
