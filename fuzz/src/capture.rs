//! Checks for captures and for the QUIC packets in them.

use std::io::{self, Cursor, Read};

use wireseal::capture::{Content, Reader};
use wireseal::quic::report::PacketKind;
use wireseal::quic::{KeyLogFile, Observer, Printer, Totals};

/// Only compressed input has more packets than this.
const MOST_PACKETS: usize = 5000;
/// Octets of the longest packet.
const LONGEST_PACKET: usize = 262_144;

/// Returns a few octets at a time, as a pipe may.
struct Slow(Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(7);
        self.0.read(&mut buffer[..length])
    }
}

/// Reads a capture, at once and slowly.
pub fn check(file: &[u8]) {
    let length = file.len() as u64;
    let mut slow = Reader::new(Slow(Cursor::new(file.to_vec())), None);
    let mut reader = match Reader::new(Cursor::new(file.to_vec()), Some(length)) {
        Ok(reader) => reader,
        Err(error) => {
            let error = error.to_string();
            assert_eq!(slow.err().map(|error| error.to_string()), Some(error));
            return;
        }
    };
    let slow = slow.as_mut().expect("a file begins the same at any speed");
    let is_plain = !file.starts_with(&[0x1f, 0x8b]) && !is_zstd(file);
    let mut octets = 0;
    for number in 1..=MOST_PACKETS {
        match (reader.next_packet(), slow.next_packet()) {
            (Some(Ok(packet)), Some(Ok(again))) => {
                assert_eq!(packet.number, number as u64);
                assert!(packet.octets.len() <= packet.original_length.min(LONGEST_PACKET));
                let fields =
                    (packet.number, packet.time, packet.link_type, packet.octets, packet.original_length);
                assert_eq!(
                    fields,
                    (again.number, again.time, again.link_type, again.octets, again.original_length)
                );
                octets += packet.octets.len();
                assert!(!is_plain || octets <= file.len());
                let (held, whole) = match Content::of(&packet) {
                    Content::Tcp(segment) => (segment.octets.len(), segment.octets.len() + segment.missing),
                    Content::Udp(datagram) => {
                        (datagram.payload.len(), datagram.payload.len() + datagram.missing)
                    }
                    _ => (0, 0),
                };
                assert!(held <= packet.octets.len() && whole <= packet.original_length);
            }
            (Some(Err(error)), Some(Err(again))) => {
                assert_eq!(error.to_string(), again.to_string());
                assert!(reader.next_packet().is_none() && slow.next_packet().is_none());
                break;
            }
            (None, None) => break,
            (first, second) => panic!("{first:?} at once, but {second:?} slowly"),
        }
    }
    assert!(reader.progress().read <= length);
}

fn is_zstd(file: &[u8]) -> bool {
    let magic = file.first_chunk().map_or(0, |octets| u32::from_le_bytes(*octets));
    magic == 0xfd2f_b528 || magic & 0xffff_fff0 == 0x184d_2a50
}

/// Opens the QUIC packets of a capture. The input has two octets of the key log's length, the key log, and the capture.
pub fn check_quic(input: &[u8]) {
    let Some((length, rest)) = input.split_first_chunk() else { return };
    let Some((text, file)) = rest.split_at_checked(u16::from_be_bytes(*length).into()) else { return };
    let log = KeyLogFile::read(text);
    observe(file, &log);
    let totals = observe(file, &KeyLogFile::default());
    assert!(
        totals.is_none_or(|(_, later)| later == 0),
        "without secrets, only Initial and Retry packets open"
    );
}

/// The totals, and how many packets of the kinds after Initial opened.
fn observe(file: &[u8], log: &KeyLogFile) -> Option<(Totals, u64)> {
    let mut reader = Reader::new(Cursor::new(file.to_vec()), None).ok()?;
    let mut printers = [false, true]
        .map(|is_json| Printer::new(io::sink(), is_json, "fuzzed").expect("a sink takes everything"));
    let mut observer = Observer::new(log);
    let mut reports = Vec::new();
    for _ in 0..MOST_PACKETS {
        let Some(Ok(packet)) = reader.next_packet() else { break };
        observer.packet(&packet);
        reports.extend(observer.take_finished());
    }
    let (others, totals) = observer.finish();
    reports.extend(others);
    assert_eq!(reports.len() as u64, totals.connections);
    let mut later = 0;
    for report in &reports {
        for printer in &mut printers {
            printer.connection(report).expect("a sink takes everything");
        }
        for direction in &report.directions {
            let opened = |kind: PacketKind| direction.opened[kind as usize];
            later += opened(PacketKind::ZeroRtt) + opened(PacketKind::Handshake) + opened(PacketKind::OneRtt);
            let in_phases: u64 = direction.phases.iter().map(|phase| phase.packets).sum();
            assert_eq!(in_phases, opened(PacketKind::OneRtt));
        }
    }
    for printer in printers {
        printer.finish(&totals).expect("a sink takes everything");
    }
    Some((totals, later))
}
