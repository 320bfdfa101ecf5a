//! A capture copied as pcapng, with comments added (draft-ietf-opsawg-pcapng).
//!
//! Blocks are copied octet by octet, and a comment is put before the options that a block has, in the section's byte order. The crate that
//! reads would write every block in little-endian order, and only what it understands of it.

use std::io::{self, Read, Write};

use pcap_parser::{BOM_MAGIC, EPB_MAGIC, IDB_MAGIC, SHB_MAGIC, SPB_MAGIC};

use super::Damage;
use super::formats::{OLD_PACKET_BLOCK, Pcap, Pcapng};
use super::reader::Format;
use super::source::{Buffer, Found, LONGEST};

/// What was copied.
#[derive(Debug)]
pub struct Copied {
    /// How many packets.
    pub packets: u64,
    /// How many of them have no comment because their blocks have no options (Simple Packet Blocks).
    pub without_room: u64,
    /// What ended the copy before the end of the capture.
    pub damage: Option<Damage>,
}

/// Copies a capture in any format that [`Reader`](super::Reader) reads, decompressed.
///
/// The comment of the first section header is `section`. For each packet, in order, `comment` is given its number from 1 and an empty
/// text, which becomes the packet's comment if it is not empty any more. The copy ends at `end`, the octet at which a
/// [`Reader`](super::Reader) found damage, if it did, or where this finds some.
///
/// # Errors
/// Those of `comment` and of writing; [`io::ErrorKind::InvalidData`] if `input` does not begin like a capture.
pub fn annotate(
    input: impl Read + Send + 'static,
    output: &mut impl Write,
    section: &str,
    end: Option<u64>,
    comment: impl FnMut(u64, &mut String) -> io::Result<()>,
) -> io::Result<Copied> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let (mut buffer, format) = Format::of(input, None).map_err(invalid)?;
    let copied = Copied { packets: 0, without_room: 0, damage: None };
    let mut copy = Copy { output, text: String::new(), options: Vec::new(), comment, copied };
    let end = end.unwrap_or(u64::MAX);
    let stop = match format {
        Format::Pcap(pcap) => copy.pcap(&mut buffer, pcap, section, end),
        Format::Pcapng(pcapng) => copy.pcapng(&mut buffer, pcapng, section, end),
    };
    match stop {
        Ok(()) => {}
        Err(Stop::Damage(damage)) => copy.copied.damage = Some(damage),
        Err(Stop::Error(error)) => return Err(error),
    }
    copy.output.flush()?;
    Ok(copy.copied)
}

/// Why a copy stops.
enum Stop {
    Damage(Damage),
    Error(io::Error),
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Error(error)
    }
}

const OPTION_COMMENT: u16 = 1;
const OPTION_TSRESOL: u16 = 9;
/// In octets, as Wireshark reads it.
const OPTION_FCSLEN: u16 = 13;
const END_OF_OPTIONS: [u8; 4] = [0; 4];
/// Octets before a packet in its block, Enhanced or old, and before the options of a section header.
const PACKET_AT: usize = 28;
const SECTION_OPTIONS_AT: usize = 24;
/// Where a section header has the section's length, which grows with the comments, and the value for an unknown one.
const SECTION_LENGTH_AT: usize = 16;
const UNKNOWN_LENGTH: [u8; 8] = [0xff; 8];
/// Octets of the longest option.
const LONGEST_OPTION: usize = u16::MAX as usize;

struct Copy<'o, W, C> {
    output: &'o mut W,
    text: String,
    /// The comment as an option, and what else is added to a block.
    options: Vec<u8>,
    comment: C,
    copied: Copied,
}

impl<W: Write, C: FnMut(u64, &mut String) -> io::Result<()>> Copy<'_, W, C> {
    /// Counts a packet and asks for its comment.
    fn next_comment(&mut self) -> io::Result<()> {
        self.copied.packets += 1;
        self.text.clear();
        (self.comment)(self.copied.packets, &mut self.text)
    }

    fn pcapng(
        &mut self,
        buffer: &mut Buffer,
        mut format: Pcapng,
        section: &str,
        end: u64,
    ) -> Result<(), Stop> {
        let mut section = Some(section);
        while buffer.offset() < end
            && let Some((kind, length)) = format.block(buffer)?
        {
            let (order, length) = (Order(format.is_big_endian), length as usize);
            let has_comment = matches!(kind, SHB_MAGIC | EPB_MAGIC | OLD_PACKET_BLOCK);
            if !has_comment || length > LONGEST {
                self.whole(buffer, length)?;
                if kind == SPB_MAGIC {
                    self.next_comment()?;
                    self.copied.without_room += u64::from(!self.text.is_empty());
                }
                continue;
            }
            buffer.fill(length)?;
            let block = &buffer.ready()[..length];
            let options_at = match kind {
                SHB_MAGIC => SECTION_OPTIONS_AT,
                _ => PACKET_AT + order.u32_at(block, 20).next_multiple_of(4) as usize,
            };
            // Before the length that ends the block.
            if options_at > length - 4 {
                return Err(Damage::Block(kind).into());
            }
            let text = if kind == SHB_MAGIC {
                section.take().unwrap_or_default()
            } else {
                self.next_comment()?;
                self.text.as_str()
            };
            let (before, options) = block[..length - 4].split_at(options_at);
            self.options.clear();
            order.add_comment(&mut self.options, text, !options.is_empty());
            let length_bytes = order.u32(length as u32 + self.options.len() as u32);
            self.output.write_all(&before[..4])?;
            self.output.write_all(&length_bytes)?;
            if kind == SHB_MAGIC {
                self.output.write_all(&before[8..SECTION_LENGTH_AT])?;
                self.output.write_all(&UNKNOWN_LENGTH)?;
            } else {
                self.output.write_all(&before[8..])?;
            }
            self.output.write_all(&self.options)?;
            self.output.write_all(options)?;
            self.output.write_all(&length_bytes)?;
            buffer.take(length);
        }
        Ok(())
    }

    /// Copies a block as it is, of any length.
    fn whole(&mut self, buffer: &mut Buffer, length: usize) -> Result<(), Stop> {
        let mut left = length;
        while left > 0 {
            if !buffer.fill(1)? {
                return Err(Damage::Truncated { got: length - left, expected: length }.into());
            }
            let step = left.min(buffer.ready().len());
            self.output.write_all(&buffer.ready()[..step])?;
            buffer.take(step);
            left -= step;
        }
        Ok(())
    }

    /// A pcap file becomes one section with one interface. It keeps its byte order, because that is the order of some link types' headers.
    fn pcap(&mut self, buffer: &mut Buffer, mut pcap: Pcap, section: &str, end: u64) -> Result<(), Stop> {
        let order = Order(pcap.is_big_endian);
        let byte_order_mark = order.u32(BOM_MAGIC);
        let version = [order.u16(1), order.u16(0)];
        order.add_comment(&mut self.options, section, false);
        let header = [&byte_order_mark[..], version.as_flattened(), &UNKNOWN_LENGTH, &self.options];
        order.write_block(self.output, SHB_MAGIC, &header)?;

        self.options.clear();
        let resolution = if pcap.fraction == 1 { 9 } else { 6 };
        order.add_option(&mut self.options, OPTION_TSRESOL, &[resolution]);
        if let Some(octets) = pcap.frame_check_sequence {
            order.add_option(&mut self.options, OPTION_FCSLEN, &[octets]);
        }
        self.options.extend(END_OF_OPTIONS);
        let link_type = [order.u16(pcap.link_type), [0; 2]];
        let interface = [link_type.as_flattened(), &order.u32(pcap.snap_length), &self.options];
        order.write_block(self.output, IDB_MAGIC, &interface)?;

        while buffer.offset() < end
            && let Some(found) = pcap.next(buffer)?
        {
            self.next_comment()?;
            let Found { time, length, original_length, .. } = found;
            let ticks = time.map_or(0, |time| time.unix_nanoseconds() / pcap.fraction);
            let head = [0, (ticks >> 32) as u32, ticks as u32, length as u32, original_length as u32];
            let head = head.map(|number| order.u32(number));
            let padding = &[0; 3][..length.next_multiple_of(4) - length];
            self.options.clear();
            order.add_comment(&mut self.options, &self.text, false);
            let packet = [head.as_flattened(), buffer.octets(&found), padding, &self.options];
            order.write_block(self.output, EPB_MAGIC, &packet)?;
        }
        Ok(())
    }
}

/// A byte order: whether it is big-endian.
#[derive(Clone, Copy)]
struct Order(bool);

impl Order {
    const fn u16(self, number: u16) -> [u8; 2] {
        if self.0 { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    const fn u32(self, number: u32) -> [u8; 4] {
        if self.0 { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    /// A number of a block that has it.
    fn u32_at(self, block: &[u8], at: usize) -> u32 {
        let octets = block.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        if self.0 { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) }
    }

    /// Adds an option with its padding.
    fn add_option(self, options: &mut Vec<u8>, code: u16, value: &[u8]) {
        options.extend(self.u16(code));
        options.extend(self.u16(value.len() as u16));
        options.extend(value);
        options.resize(options.len().next_multiple_of(4), 0);
    }

    /// Adds a comment, with the end of options unless others follow; nothing for an empty text.
    fn add_comment(self, options: &mut Vec<u8>, text: &str, others_follow: bool) {
        if text.is_empty() {
            return;
        }
        let end = text.floor_char_boundary(LONGEST_OPTION);
        self.add_option(options, OPTION_COMMENT, &text.as_bytes()[..end]);
        if !others_follow {
            options.extend(END_OF_OPTIONS);
        }
    }

    /// Writes a block with this body, whose length is a multiple of 4.
    fn write_block(self, output: &mut impl Write, kind: u32, body: &[&[u8]]) -> io::Result<()> {
        let octets = 12 + body.iter().map(|part| part.len()).sum::<usize>();
        let length = self.u32(octets as u32);
        output.write_all(&self.u32(kind))?;
        output.write_all(&length)?;
        body.iter().try_for_each(|part| output.write_all(part))?;
        output.write_all(&length)
    }
}
