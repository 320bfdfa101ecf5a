//! What BIRD really said, read and written again.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use bytes::BytesMut;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use ipnet::IpNet;
use netgauze_bgp_pkt::BgpMessage;
use pcap_file::pcap::PcapReader;
use router_peer::bgp::codec::Codec;
use router_peer::bgp::update;
use tokio_util::codec::{Decoder, Encoder};

/// The frames of a capture beside the TCP-AO crate.
fn frames(name: &str) -> Vec<Vec<u8>> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/tcp-ao/tests/data/captures").join(name);
    let mut reader = PcapReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    frames
}

/// The BGP octets of each direction, in order; a segment that repeats what was seen is left out.
fn streams(name: &str) -> Vec<Vec<u8>> {
    let mut streams: Vec<((String, u16), u32, Vec<u8>)> = Vec::new();
    for frame in frames(name) {
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        let source = match packet.net {
            Some(NetSlice::Ipv4(ip)) => ip.header().source_addr().to_string(),
            Some(NetSlice::Ipv6(ip)) => ip.header().source_addr().to_string(),
            _ => continue,
        };
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { continue };
        let key = (source, tcp.source_port());
        if tcp.syn() {
            streams.push((key, tcp.sequence_number().wrapping_add(1), Vec::new()));
            continue;
        }
        let (_, next, octets) = streams.iter_mut().rev().find(|(known, ..)| *known == key).unwrap();
        if tcp.sequence_number() == *next {
            octets.extend(tcp.payload());
            *next = next.wrapping_add(tcp.payload().len() as u32);
        }
    }
    streams.into_iter().map(|(_, _, octets)| octets).filter(|octets| !octets.is_empty()).collect()
}

fn decode(octets: &[u8]) -> Vec<BgpMessage> {
    let mut buffer = BytesMut::from(octets);
    let mut codec = Codec::default();
    let messages = std::iter::from_fn(|| codec.decode(&mut buffer).unwrap()).collect();
    assert!(buffer.is_empty(), "octets that are no message: {buffer:?}");
    messages
}

#[test]
fn sessions_of_bird_are_understood() {
    for name in ["bird-ipv4-cmac.pcap", "bird-ipv6-sha1.pcap"] {
        let streams = streams(name);
        assert!(streams.len() >= 2, "{name}");
        let mut prefixes: Vec<IpNet> = Vec::new();
        for octets in streams {
            let messages = decode(&octets);
            assert!(matches!(messages[0], BgpMessage::Open(_)), "{name}: {:?}", messages[0]);
            assert!(messages.contains(&BgpMessage::KeepAlive), "{name}");
            for message in &messages {
                if let BgpMessage::Update(message) = message {
                    let changes = update::changes(message, 1).unwrap();
                    prefixes.extend(changes.announced.iter().map(|route| route.prefix));
                }
            }
            let mut written = BytesMut::new();
            let mut codec = Codec::default();
            for message in messages.clone() {
                codec.encode(message, &mut written).unwrap();
            }
            assert_eq!(decode(&written), messages, "{name}");
        }
        println!("{name}: {prefixes:?}");
        assert!(!prefixes.is_empty(), "{name}");
    }
}
