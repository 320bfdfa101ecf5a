//! Files of both formats, made here, and what is read from them.

use std::io::Cursor;

use wireseal::capture::{CaptureError, Packet, Reader};

use crate::support::files::workspace_file;

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

/// Everything that was read of a packet.
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

/// All packets of an undamaged file.
pub fn read_whole(file: &[u8]) -> Vec<Read> {
    let (packets, error) = read(file);
    assert!(error.is_none(), "{error:?}");
    packets
}

#[test]
fn pcap_in_both_byte_orders_and_resolutions() {
    for order in Order::BOTH {
        for (magic, nanoseconds) in [(MICROSECONDS, 1_000_000_005_000), (NANOSECONDS, 1_000_000_000_005)] {
            let file = [
                // Above the link type: a frame check sequence of 4 octets.
                pcap(order, magic, 0x2400_0000 | 276),
                record(order, [1000, 5], b"first", 5),
                record(order, [0, 0], b"", 0),
                record(order, [u32::MAX, 999_999], b"third", 1500),
            ]
            .concat();
            let packets = read_whole(&file);
            let first = Read {
                number: 1,
                nanoseconds: Some(nanoseconds),
                link_type: 276,
                octets: b"first".to_vec(),
                original_length: 5,
            };
            assert_eq!(packets[0], first);
            assert_eq!((packets[1].number, packets[1].octets.len()), (2, 0));
            assert_eq!((packets[2].number, packets[2].original_length), (3, 1500));
            assert_eq!(packets.len(), 3);
        }
    }
}

#[test]
fn pcapng_with_interfaces_of_different_resolutions() {
    for order in Order::BOTH {
        let resolutions = [
            // if_tsresol, if_tsoffset, ticks, nanoseconds
            (None, 0, 1_700_000_000_123_456, Some(1_700_000_000_123_456_000)),
            (Some(9), 0, 1_700_000_000_123_456_789, Some(1_700_000_000_123_456_789)),
            (Some(3), 0, 1_700_000_000_123, Some(1_700_000_000_123_000_000)),
            (Some(0), 0, 1_700_000_000, Some(1_700_000_000_000_000_000)),
            (Some(12), 1_700_000_000, 123_456_789_012, Some(1_700_000_000_123_456_789)),
            (Some(0x80 | 20), 0, 3 << 19, Some(1_500_000_000)),
            (Some(0x80 | 32), 7, 1 << 30, Some(7_250_000_000)),
            (Some(6), -1, 2_000_000, Some(1_000_000_000)),
            // Before 1970, and beyond 64 bits of nanoseconds.
            (Some(6), -3, 2_000_000, None),
            (Some(0), 0, u64::MAX, None),
            (Some(0x7f), 1, u64::MAX, Some(1_000_000_000)),
            (Some(0xff), 1, u64::MAX, Some(1_000_000_000)),
        ];
        let mut file = section(order);
        for (number, (resolution, offset, ..)) in resolutions.iter().enumerate() {
            file.extend(interface(order, number as u16, 0, *resolution, *offset));
        }
        for (number, (_, _, ticks, _)) in resolutions.iter().enumerate() {
            file.extend(enhanced_packet(order, number as u32, *ticks, &vec![7; number], 100));
        }
        let packets = read_whole(&file);
        assert_eq!(packets.len(), resolutions.len());
        for (place, (packet, (.., nanoseconds))) in packets.iter().zip(resolutions).enumerate() {
            let expected = Read {
                number: place as u64 + 1,
                nanoseconds,
                link_type: place as u16,
                octets: vec![7; place],
                original_length: 100,
            };
            assert_eq!(*packet, expected);
        }
    }
}

#[test]
fn pcapng_with_all_kinds_of_packet_blocks_and_others() {
    for order in Order::BOTH {
        let old_packet = [
            &order.u16(0)[..],
            &order.u16(9),
            &[order.u32(0), order.u32(2_000_000), order.u32(3), order.u32(60)].concat(),
            b"old",
        ]
        .concat();
        let file = [
            section(order),
            interface(order, 1, 4, None, 0),
            // Name resolution, longer than any buffer, and a block of unknown type.
            block(order, 4, &vec![0xee; 3_000_000]),
            block(order, 3, &[&order.u32(6)[..], b"cut!"].concat()),
            block(order, 0x0bad_cafe, b"x"),
            block(order, 2, &old_packet),
            enhanced_packet(order, 0, 1, b"new", 3),
        ]
        .concat();
        let packets: Vec<_> = read_whole(&file)
            .into_iter()
            .map(|packet| (packet.nanoseconds, packet.octets, packet.original_length))
            .collect();
        let expected = [
            (None, b"cut!".to_vec(), 6),
            (Some(2_000_000_000), b"old".to_vec(), 60),
            (Some(1000), b"new".to_vec(), 3),
        ];
        assert_eq!(packets, expected);
    }
}

/// Each section has its own byte order and interfaces; packets are numbered through.
#[test]
fn pcapng_with_several_sections() {
    let part = |order, link_type, octets| {
        [section(order), interface(order, link_type, 0, None, 0), enhanced_packet(order, 0, 1, octets, 5)]
            .concat()
    };
    let file =
        [part(Order::Little, 1, b"one"), part(Order::Big, 101, b"two"), part(Order::Little, 113, b"three")];
    let packets: Vec<_> = read_whole(&file.concat())
        .into_iter()
        .map(|packet| (packet.number, packet.link_type, packet.octets))
        .collect();
    let expected = [(1, 1, b"one".to_vec()), (2, 101, b"two".to_vec()), (3, 113, b"three".to_vec())];
    assert_eq!(packets, expected);
}

#[test]
fn captures_without_packets() {
    assert_eq!(read_whole(&pcap(Order::Little, MICROSECONDS, 1)), []);
    assert_eq!(read_whole(&section(Order::Big)), []);
}

/// Packets of any length that lie across the buffer's end.
#[test]
fn long_packets_and_many() {
    let mut file = pcap(Order::Little, NANOSECONDS, 1);
    let lengths = [0, 1, 1500, 65_535, 262_144, 100_000, 9000, 40, 262_143];
    for round in 0..20_u32 {
        for (place, length) in lengths.iter().enumerate() {
            file.extend(record(
                Order::Little,
                [round, place as u32],
                &vec![place as u8; *length],
                *length as u32,
            ));
        }
    }
    let packets = read_whole(&file);
    assert_eq!(packets.len(), 20 * lengths.len());
    for (place, packet) in packets.iter().enumerate() {
        let kind = place % lengths.len();
        assert_eq!(packet.number, place as u64 + 1);
        assert_eq!(packet.octets, vec![kind as u8; lengths[kind]]);
    }
}

/// A capture of another program, read by an independent crate.
#[test]
fn captures_as_another_reader_has_them() {
    for path in [
        "tcp-ao/tests/data/captures/bird-ipv4-cmac.pcap",
        "quic/tests/data/captures/quic-ngtcp2-retry-0rtt.pcap",
    ] {
        let file = workspace_file(path);
        let mut theirs = pcap_file::pcap::PcapReader::new(file.as_slice()).unwrap();
        let ours = read_whole(&file);
        assert!(ours.len() > 40);
        for packet in ours {
            let their = theirs.next_packet().unwrap().unwrap();
            assert_eq!(packet.octets, *their.data);
            assert_eq!(packet.nanoseconds.map(u128::from), Some(their.timestamp.as_nanos()));
            assert_eq!(packet.original_length, their.orig_len as usize);
        }
        assert!(theirs.next_packet().is_none());
    }
}

/// At most 65,536 interfaces are remembered, however many a file describes.
#[test]
fn interfaces_beyond_any_machine_are_not_remembered() {
    let order = Order::BOTH[0];
    let file = |interfaces: usize| {
        let mut file = section(order);
        file.extend(interface(order, 1, 0, None, 0).repeat(interfaces));
        file.extend(enhanced_packet(order, interfaces as u32 - 1, 0, b"x", 1));
        file
    };
    assert_eq!(read_whole(&file(65_536)).len(), 1);
    let (packets, error) = read(&file(65_537));
    assert_eq!(packets.len(), 0);
    assert!(error.unwrap().to_string().contains("interface 65536"));
}
