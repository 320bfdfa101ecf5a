//! Files that are written, read with another library and with the reader.

use std::io::Cursor;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use wireseal::capture::{InterfaceDescription, Packet, Reader, Statistics, Time, Writer};

const TIME: u64 = 1_800_000_000_123_456_789;

fn packet(number: u64, octets: &[u8]) -> Packet<'_> {
    let time = Some(Time::from_unix_nanoseconds(TIME + number));
    Packet { number, time, link_type: 1, octets, original_length: octets.len() + 4 }
}

/// A file with two interfaces and packets of each length of padding.
fn file() -> Vec<u8> {
    let mut octets = Vec::new();
    let mut writer = Writer::new(&mut octets, Some("two of\nfour failed")).unwrap();
    let interface = |name| InterfaceDescription { name, link_type: 1, snap_length: 65_536 };
    assert_eq!(writer.interface(&interface(Some("eth0"))).unwrap(), 0);
    assert_eq!(writer.interface(&interface(None)).unwrap(), 1);
    writer.packet(0, &packet(1, &[1; 60]), Some("good")).unwrap();
    writer.packet(1, &packet(2, &[2; 61]), Some("bad MAC")).unwrap();
    writer.packet(0, &packet(3, &[3; 62]), None).unwrap();
    writer.packet(1, &packet(4, &[4; 63]), Some(&"é".repeat(40_000))).unwrap();
    let statistics = Statistics { received: 7, dropped: 3 };
    writer.statistics(0, Some(Time::from_unix_nanoseconds(TIME)), statistics).unwrap();
    writer.flush().unwrap();
    octets
}

#[test]
fn another_library_reads_names_comments_and_counts() {
    let file = file();
    let mut reader = PcapNgReader::new(file.as_slice()).unwrap();
    let section = &reader.section().options;
    assert!(section.contains(&SectionHeaderOption::Comment("two of\nfour failed".into())));
    let (mut names, mut comments, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(block) => {
                assert_eq!(block.snaplen, 65_536);
                assert!(block.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
                names.extend(block.options.iter().filter_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(block) => {
                comments.push(block.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Comment(comment) => Some(comment.to_string()),
                    _ => None,
                }));
            }
            Block::InterfaceStatistics(block) => {
                let found = block.options.iter().filter_map(|option| match option {
                    InterfaceStatisticsOption::IsbFilterAccept(count)
                    | InterfaceStatisticsOption::IsbOsDrop(count)
                    | InterfaceStatisticsOption::IsbUsrDeliv(count) => Some(*count),
                    _ => None,
                });
                counts.extend(found);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names, ["eth0"]);
    let longest = "é".repeat(32_767);
    let expected = [Some("good"), Some("bad MAC"), None, Some(longest.as_str())];
    assert_eq!(comments.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    assert_eq!(counts, [7, 3, 4]);
}

#[test]
fn the_reader_gets_the_same_packets() {
    let mut reader = Reader::new(Cursor::new(file()), None).unwrap();
    for number in 1..=4 {
        let octets = vec![number as u8; 59 + number as usize];
        let (found, expected) = (reader.next_packet().unwrap().unwrap(), packet(number, &octets));
        assert_eq!((found.place(), found.octets), (expected.place(), expected.octets));
        assert_eq!((found.link_type, found.original_length), (1, expected.original_length));
    }
    assert!(reader.next_packet().is_none());
}
