//! Captures, written octet by octet as the formats' descriptions have them.

use std::io::Cursor;

use wireseal::capture::{CaptureError, Packet, Reader};

/// A number in the byte order of a file.
#[derive(Clone, Copy)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    pub const BOTH: [Self; 2] = [Self::Little, Self::Big];

    pub fn u16(self, number: u16) -> [u8; 2] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }

    pub fn u32(self, number: u32) -> [u8; 4] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }

    fn u32s<const N: usize>(self, numbers: [u32; N]) -> Vec<u8> {
        numbers.iter().flat_map(|number| self.u32(*number)).collect()
    }
}

pub const MICROSECONDS: u32 = 0xa1b2_c3d4;
pub const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// The header of a pcap file.
pub fn pcap(order: Order, magic: u32, link_type: u32) -> Vec<u8> {
    [order.u32s([magic]), [order.u16(2), order.u16(4)].concat(), order.u32s([0, 0, 65_535, link_type])]
        .concat()
}

/// A record of it.
pub fn record(order: Order, time: [u32; 2], octets: &[u8], original_length: u32) -> Vec<u8> {
    let head = order.u32s([time[0], time[1], octets.len() as u32, original_length]);
    [&head, octets].concat()
}

/// A block of a pcapng file; its body is padded.
pub fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = order.u32((body.len() + padding + 12) as u32);
    [&order.u32(kind), &length, body, &[0; 3][..padding], &length].concat()
}

/// A Section Header Block.
pub fn section(order: Order) -> Vec<u8> {
    let versions = [order.u16(1), order.u16(0)].concat();
    block(order, 0x0a0d_0d0a, &[order.u32(0x1a2b_3c4d).as_slice(), &versions, &[0xff; 8]].concat())
}

/// An Interface Description Block with if_tsresol and if_tsoffset.
pub fn interface(
    order: Order,
    link_type: u16,
    snap_length: u32,
    resolution: Option<u8>,
    offset: i64,
) -> Vec<u8> {
    let mut body = [order.u16(link_type), [0; 2]].concat();
    body.extend(order.u32(snap_length));
    if let Some(resolution) = resolution {
        body.extend([order.u16(9), order.u16(1)].concat());
        body.extend([resolution, 0, 0, 0]);
    }
    if offset != 0 {
        body.extend([order.u16(14), order.u16(8)].concat());
        body.extend(match order {
            Order::Little => offset.to_le_bytes(),
            Order::Big => offset.to_be_bytes(),
        });
    }
    block(order, 1, &body)
}

/// An Enhanced Packet Block with a comment.
pub fn enhanced_packet(
    order: Order,
    interface: u32,
    ticks: u64,
    octets: &[u8],
    original_length: u32,
) -> Vec<u8> {
    let head =
        order.u32s([interface, (ticks >> 32) as u32, ticks as u32, octets.len() as u32, original_length]);
    let padding = octets.len().next_multiple_of(4) - octets.len();
    let comment = [order.u16(1), order.u16(5)].concat();
    let options = [&comment, &b"hello\0\0\0"[..], &[0; 4]].concat();
    block(order, 6, &[&head, octets, &[0; 3][..padding], &options].concat())
}

/// A packet with all that was read of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    pub number: u64,
    pub nanoseconds: Option<u64>,
    pub link_type: u16,
    pub octets: Vec<u8>,
    pub original_length: usize,
}

impl From<Packet<'_>> for Read {
    fn from(packet: Packet<'_>) -> Self {
        Self {
            number: packet.number,
            nanoseconds: packet.time.map(|time| time.unix_nanoseconds()),
            link_type: packet.link_type,
            octets: packet.octets.to_vec(),
            original_length: packet.original_length,
        }
    }
}

/// All packets of a file, and the error after the last one, if there is one.
pub fn read(file: &[u8]) -> (Vec<Read>, Option<CaptureError>) {
    let mut packets = Vec::new();
    let mut reader = match Reader::new(Cursor::new(file.to_vec()), Some(file.len() as u64)) {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error)),
    };
    loop {
        match reader.next_packet() {
            Some(Ok(packet)) => packets.push(packet.into()),
            Some(Err(error)) => {
                assert!(reader.next_packet().is_none(), "nothing comes after {error}");
                return (packets, Some(error));
            }
            None => {
                let progress = reader.progress();
                assert_eq!(progress.total, Some(progress.read), "the whole file was read");
                return (packets, None);
            }
        }
    }
}

/// All packets of a file that is whole.
pub fn read_whole(file: &[u8]) -> Vec<Read> {
    let (packets, error) = read(file);
    assert!(error.is_none(), "{error:?}");
    packets
}
