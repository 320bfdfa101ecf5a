//! The records of a pcap file.

use pcap_parser::nom::{self, Needed};
use pcap_parser::{LegacyPcapBlock, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};

use super::buffer::{Buffer, Found, LONGEST_PACKET};
use super::{Damage, Time};

/// What the file's header says about all records.
pub(super) struct Pcap {
    is_big_endian: bool,
    link_type: u16,
    /// Nanoseconds per unit of the records' fractions of a second.
    fraction: u64,
}

const FILE_HEADER_LENGTH: usize = 24;
const RECORD_HEADER_LENGTH: usize = 16;

impl Pcap {
    /// Microseconds and nanoseconds, each in both byte orders.
    pub(super) fn begins_with(start: [u8; 4]) -> bool {
        [u32::from_le_bytes(start), u32::from_be_bytes(start)]
            .iter()
            .any(|magic| matches!(magic, 0xa1b2_c3d4 | 0xa1b2_3c4d))
    }

    /// Reads the file's header.
    pub(super) fn new(buffer: &mut Buffer) -> Result<Self, Damage> {
        buffer.fill(FILE_HEADER_LENGTH)?;
        let Ok((_, header)) = parse_pcap_header(buffer.ready()) else { return Err(Damage::Block(0)) };
        let fraction = if header.is_nanosecond_precision() { 1 } else { 1000 };
        buffer.take(FILE_HEADER_LENGTH);
        // The bits above give the length of a frame check sequence, which follows the IP packet anyway.
        Ok(Self { is_big_endian: header.is_bigendian(), link_type: header.network.0 as u16, fraction })
    }

    #[inline]
    pub(super) fn next(&mut self, buffer: &mut Buffer) -> Result<Option<Found>, Damage> {
        loop {
            let ready = buffer.ready();
            let parsed =
                if self.is_big_endian { parse_pcap_frame_be(ready) } else { parse_pcap_frame(ready) };
            match parsed {
                Ok((_, LegacyPcapBlock { ts_sec, ts_usec, origlen, data, .. })) => {
                    let length = data.len();
                    if length > LONGEST_PACKET {
                        return Err(Damage::Length(length as u64));
                    }
                    buffer.take(RECORD_HEADER_LENGTH + length);
                    let nanoseconds = u64::from(ts_sec) * 1_000_000_000 + u64::from(ts_usec) * self.fraction;
                    return Ok(Some(Found {
                        time: Some(Time::from_unix_nanoseconds(nanoseconds)),
                        link_type: self.link_type,
                        back: length,
                        length,
                        original_length: length.max(origlen as usize),
                    }));
                }
                Err(nom::Err::Incomplete(Needed::Size(more))) => {
                    let expected = ready.len().saturating_add(more.get());
                    if expected > RECORD_HEADER_LENGTH + LONGEST_PACKET {
                        return Err(Damage::Length((expected - RECORD_HEADER_LENGTH) as u64));
                    }
                    if !buffer.fill(expected)? {
                        return Ok(None);
                    }
                }
                Err(_) => return Err(Damage::Block(0)),
            }
        }
    }
}
