//! Packets as a pcapng file (draft-ietf-opsawg-pcapng): one section, with nanoseconds and comments.

use std::borrow::Cow;
use std::io::{self, Write};

use pcap_parser::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, InterfaceStatisticsBlock, Linktype, OptionCode,
    PcapNGOption, SectionHeaderBlock, ToVec,
};

use super::{Packet, Time};

/// Writes a pcapng file. Each block is given to the output whole, in one call.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    interfaces: u32,
}

/// What packets were recorded from.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceDescription<'a> {
    /// Its name, such as `eth0`, if it is known.
    pub name: Option<&'a str>,
    /// What a packet's first octets are: a LINKTYPE number.
    pub link_type: u16,
    /// The most octets recorded of a packet; 0 for no limit.
    pub snap_length: u32,
}

/// What the kernel counted at an interface.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Statistics {
    /// Packets that passed the filter, those dropped included.
    pub received: u64,
    /// Packets that passed the filter and were dropped, because they were not read in time.
    pub dropped: u64,
}

/// Units of a time stamp in a second, as a power of ten: nanoseconds.
const RESOLUTION: u8 = 9;
/// Octets of the longest option: its length has 16 bits.
const LONGEST_OPTION: usize = u16::MAX as usize;

impl<W: Write> Writer<W> {
    /// Begins a file with a section header. Its `comment`, if any, may have several lines.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(output: W, comment: Option<&str>) -> io::Result<Self> {
        let program = concat!("wireseal ", env!("CARGO_PKG_VERSION"));
        let options = comment.map(|comment| option(OptionCode::Comment, comment.as_bytes()));
        let options = options.into_iter().chain([option(OptionCode::ShbUserAppl, program.as_bytes())]);
        let block = SectionHeaderBlock {
            // What is 0 here and below, `to_vec` fills in.
            block_type: 0,
            block_len1: 0,
            bom: 0,
            major_version: 1,
            minor_version: 0,
            // Not known before the end.
            section_len: -1,
            options: options.collect(),
            block_len2: 0,
        };
        let mut writer = Self { output, interfaces: 0 };
        writer.write(block)?;
        Ok(writer)
    }

    /// Describes an interface. Returns the number that its packets are written with: 0 for the first, then 1, and so on.
    ///
    /// # Errors
    /// Those of writing.
    pub fn interface(&mut self, interface: &InterfaceDescription<'_>) -> io::Result<u32> {
        let InterfaceDescription { name, link_type, snap_length } = *interface;
        let name = name.map(|name| option(OptionCode::IfName, name.as_bytes()));
        let resolution = option(OptionCode::IfTsresol, &[RESOLUTION]);
        // Zero, which a reader assumes without it too.
        let offset = option(OptionCode::IfTsoffset, &[0; 8]);
        self.write(InterfaceDescriptionBlock {
            block_type: 0,
            block_len1: 0,
            linktype: Linktype(link_type.into()),
            reserved: 0,
            snaplen: snap_length,
            options: name.into_iter().chain([resolution, offset]).collect(),
            block_len2: 0,
            if_tsresol: RESOLUTION,
            if_tsoffset: 0,
        })?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes a packet of an interface that was described, with a comment if there is one. A packet without a time gets 1970-01-01.
    ///
    /// # Errors
    /// Those of writing.
    pub fn packet(&mut self, interface: u32, packet: &Packet<'_>, comment: Option<&str>) -> io::Result<()> {
        let [ts_high, ts_low] = halves(packet.time);
        let length = |octets: usize| u32::try_from(octets).unwrap_or(u32::MAX);
        self.write(EnhancedPacketBlock {
            block_type: 0,
            block_len1: 0,
            if_id: interface,
            ts_high,
            ts_low,
            caplen: length(packet.octets.len()),
            origlen: length(packet.original_length),
            data: packet.octets,
            options: comment
                .map(|comment| option(OptionCode::Comment, comment.as_bytes()))
                .into_iter()
                .collect(),
            block_len2: 0,
        })
    }

    /// Writes what the kernel counted at an interface until `time`.
    ///
    /// # Errors
    /// Those of writing.
    pub fn statistics(
        &mut self,
        interface: u32,
        time: Option<Time>,
        statistics: Statistics,
    ) -> io::Result<()> {
        let [ts_high, ts_low] = halves(time);
        let Statistics { received, dropped } = statistics;
        let delivered = received.saturating_sub(dropped);
        let counts = [
            (OptionCode::IsbFilterAccept, received.to_le_bytes()),
            (OptionCode::IsbOsDrop, dropped.to_le_bytes()),
            (OptionCode::IsbUsrDeliv, delivered.to_le_bytes()),
        ];
        self.write(InterfaceStatisticsBlock {
            block_type: 0,
            block_len1: 0,
            if_id: interface,
            ts_high,
            ts_low,
            options: counts.iter().map(|(code, count)| option(*code, count)).collect(),
            block_len2: 0,
        })
    }

    /// Gives everything to what is behind the output.
    ///
    /// # Errors
    /// Those of writing.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn write(&mut self, mut block: impl ToVec) -> io::Result<()> {
        let octets = block.to_vec().map_err(|error| io::Error::other(format!("{error:?}")))?;
        self.output.write_all(&octets)
    }
}

/// An option; what is too long for one is cut off, between two characters if it is text.
fn option(code: OptionCode, value: &[u8]) -> PcapNGOption<'_> {
    let is_within_character = |end: usize| value.get(end).is_some_and(|octet| octet & 0xc0 == 0x80);
    let mut end = value.len().min(LONGEST_OPTION);
    while is_within_character(end) {
        end -= 1;
    }
    PcapNGOption { code, len: end as u16, value: Cow::Borrowed(&value[..end]) }
}

/// The upper and the lower half of a time in nanoseconds.
fn halves(time: Option<Time>) -> [u32; 2] {
    let nanoseconds = time.map_or(0, Time::unix_nanoseconds);
    [(nanoseconds >> 32) as u32, nanoseconds as u32]
}
