//! What went over the wire.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use speaker::link::ETHERNET_HEADER;
use wireseal_tcp_ao::{Segment, SocketPair};

use crate::net::Port;

/// EtherTypes of what carries TCP (RFC 894, RFC 2464).
const ETHERTYPES: [[u8; 2]; 2] = [[0x08, 0x00], [0x86, 0xdd]];

/// A frame that came to the wire.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The time since the wire was started.
    pub at: Duration,
    /// The port it came from; nothing when the driver forged it.
    pub from: Option<Port>,
    /// Whether it was stopped on its way.
    pub is_lost: bool,
    /// From the Ethernet header on, without checksum.
    pub octets: Vec<u8>,
}

impl Frame {
    pub fn segment(&self) -> Option<Segment<'_>> {
        segment(&self.octets)
    }
}

/// The IP packet in a frame.
fn packet(frame: &[u8]) -> Option<&[u8]> {
    let (header, packet) = frame.split_at_checked(ETHERNET_HEADER)?;
    ETHERTYPES.iter().any(|ethertype| header.ends_with(ethertype)).then_some(packet)
}

/// The TCP segment in a frame.
pub fn segment(frame: &[u8]) -> Option<Segment<'_>> {
    Segment::parse(packet(frame)?).ok()
}

/// All frames that came to the wire for a while, in order.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    pub frames: Vec<Frame>,
}

impl Recording {
    /// All IP packets but forged ones.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.frames.iter().filter(|frame| frame.from.is_some()).filter_map(|frame| packet(&frame.octets))
    }

    /// All TCP segments but forged ones.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.packets().filter_map(|packet| Segment::parse(packet).ok())
    }

    /// The TCP segments that came from a port.
    pub fn segments_from(&self, port: Port) -> impl Iterator<Item = Segment<'_>> {
        self.frames.iter().filter(move |frame| frame.from == Some(port)).filter_map(Frame::segment)
    }

    /// The TCP segments from a port that were not lost.
    pub fn delivered_from(&self, port: Port) -> impl Iterator<Item = Segment<'_>> {
        let frames = self.frames.iter().filter(move |frame| frame.from == Some(port) && !frame.is_lost);
        frames.filter_map(Frame::segment)
    }

    /// The segments that went from `pair.local` to `pair.remote`, forged ones left out.
    pub fn sent(&self, pair: SocketPair) -> impl Iterator<Item = Segment<'_>> {
        speaker::forge::sent(self.packets(), pair)
    }

    /// Writes it as pcap, perhaps without what the driver forged.
    pub fn write(&self, path: &Path, with_forged: bool) -> Result<()> {
        let broken = |error: pcap_file::PcapError| anyhow!("{}: {error}", path.display());
        let file = BufWriter::new(File::create(path)?);
        let mut writer = PcapWriter::with_header(file, PcapHeader::default()).map_err(broken)?;
        for frame in self.frames.iter().filter(|frame| with_forged || frame.from.is_some()) {
            let length = u32::try_from(frame.octets.len())?;
            writer.write_packet(&PcapPacket::new(frame.at, length, &frame.octets)).map_err(broken)?;
        }
        Ok(())
    }
}
