//! Checks for captures.

use std::io::{self, Cursor, Read};

use wireseal::capture::{Content, Reader};

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
