//! The parts of a speaker, against themselves and against a recording of BIRD.
#![allow(clippy::unwrap_used)]

mod session;
mod stack;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use bytes::BytesMut;
use pcap_file::pcap::PcapReader;
use routecore::bgp::message::Message;
use speaker::link::ETHERNET_HEADER;
use speaker::message::changes;
use speaker::message::decode;
use wireseal_tcp_ao::{Endpoint, Segment, SeqNum};

/// The octets of each connection and direction, in order, without retransmissions.
fn streams(name: &str) -> Vec<BytesMut> {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/tcp-ao/tests/data/captures");
    let mut reader = PcapReader::new(File::open(captures.join(name)).unwrap()).unwrap();
    let mut open = BTreeMap::<[String; 2], (SeqNum, BytesMut)>::new();
    let mut ended = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let frame = packet.unwrap();
        let Ok(segment) = Segment::parse(&frame.data[ETHERNET_HEADER..]) else { continue };
        let ends = [segment.source(), segment.destination()].map(|end: Endpoint| end.to_string());
        if segment.flags().syn() {
            ended.extend(open.insert(ends, (segment.end(), BytesMut::new())));
        } else if let Some((next, octets)) = open.get_mut(&ends)
            && *next == segment.sequence()
        {
            octets.extend(segment.payload());
            *next = SeqNum(next.0.wrapping_add(segment.payload().len() as u32));
        }
    }
    let all = ended.into_iter().chain(open.into_values()).map(|(_, octets)| octets);
    all.filter(|octets| !octets.is_empty()).collect()
}

#[test]
fn sessions_of_bird_are_understood() {
    for name in ["bird-ipv4-cmac.pcap", "bird-ipv6-sha1.pcap"] {
        let streams = streams(name);
        assert!(streams.len() >= 2, "{name}");
        let mut announced = 0;
        for mut octets in streams {
            let messages: Vec<_> = std::iter::from_fn(|| decode(&mut octets).unwrap()).collect();
            assert!(octets.is_empty(), "{name}: octets that are no message");
            assert!(matches!(messages[0], Message::Open(_)), "{name}");
            assert!(messages.iter().any(|message| matches!(message, Message::Keepalive(_))), "{name}");
            for message in messages {
                if let Message::Update(message) = message {
                    announced += changes(&message, 1).unwrap().announced.len();
                }
            }
        }
        assert!(announced > 0, "{name}");
    }
}
