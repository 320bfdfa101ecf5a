//! What went over the wire.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use router_peer::transport::ETHERNET_HEADER;
use wireseal_tcp_ao::Segment;

use crate::failure::Failure;
use crate::wire::Port;

/// EtherTypes of what carries TCP (RFC 894, RFC 2464).
const ETHERTYPES: [[u8; 2]; 2] = [[0x08, 0x00], [0x86, 0xdd]];

/// A frame that came to the wire.
#[derive(Clone, Debug)]
pub struct Frame {
    /// When, since the wire was there.
    pub at: Duration,
    /// The port it came from; nothing when the driver has forged it.
    pub from: Option<Port>,
    /// Whether it was let go on.
    pub is_lost: bool,
    /// From the Ethernet header on, without checksum.
    pub octets: Vec<u8>,
}

impl Frame {
    /// The TCP segment in it.
    #[must_use]
    pub fn segment(&self) -> Option<Segment<'_>> {
        segment(&self.octets)
    }
}

/// The TCP segment in a frame.
#[must_use]
pub fn segment(frame: &[u8]) -> Option<Segment<'_>> {
    let (header, packet) = frame.split_at_checked(ETHERNET_HEADER)?;
    if !ETHERTYPES.iter().any(|ethertype| header.ends_with(ethertype)) {
        return None;
    }
    Segment::parse(packet).ok()
}

/// All frames that came to the wire for a while, in order.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The frames.
    pub frames: Vec<Frame>,
}

impl Recording {
    /// The TCP segments that came from a port.
    pub fn segments_from(&self, port: Port) -> impl Iterator<Item = Segment<'_>> {
        self.frames.iter().filter(move |frame| frame.from == Some(port)).filter_map(Frame::segment)
    }

    /// Puts another recording behind this one.
    pub fn append(&mut self, other: Self) {
        self.frames.extend(other.frames);
    }

    /// Writes it for tshark and the like.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let broken = |error: pcap_file::PcapError| Failure(format!("{}: {error}", path.display()));
        let file = BufWriter::new(File::create(path)?);
        let mut writer = PcapWriter::with_header(file, PcapHeader::default()).map_err(broken)?;
        for frame in &self.frames {
            let length = u32::try_from(frame.octets.len())?;
            writer.write_packet(&PcapPacket::new(frame.at, length, &frame.octets)).map_err(broken)?;
        }
        Ok(())
    }
}
