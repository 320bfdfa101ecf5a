//! Captures of QUIC connections, and the key logs beside them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcap::PcapReader;

use crate::support::hex;

/// One UDP datagram.
pub(crate) struct Datagram {
    pub(crate) time: Duration,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) octets: Vec<u8>,
}

/// The datagrams of a capture, which holds nothing else.
pub(crate) fn datagrams(capture: &[u8]) -> Vec<Datagram> {
    let mut reader = PcapReader::new(capture).unwrap();
    let mut datagrams = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let frame = frame.unwrap();
        let sliced = SlicedPacket::from_ethernet(&frame.data).unwrap();
        let (source, destination) = match sliced.net {
            Some(NetSlice::Ipv4(ip)) => {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            }
            Some(NetSlice::Ipv6(ip)) => {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            }
            _ => panic!("a frame without IP"),
        };
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("a packet without UDP") };
        datagrams.push(Datagram {
            time: frame.timestamp,
            source: SocketAddr::new(source, udp.source_port()),
            destination: SocketAddr::new(destination, udp.destination_port()),
            octets: udp.payload().to_vec(),
        });
    }
    datagrams
}

/// The secrets of one connection, by label.
pub(crate) type Secrets = BTreeMap<String, Vec<u8>>;

/// The connections of a file in SSLKEYLOGFILE format (RFC 9850), in order: each has a client random of its own.
pub(crate) fn key_log(text: &str) -> Vec<Secrets> {
    let mut connections: Vec<(&str, Secrets)> = Vec::new();
    for line in text.lines() {
        let [label, random, secret]: [&str; 3] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        if connections.last().is_none_or(|(last, _)| *last != random) {
            connections.push((random, Secrets::new()));
        }
        let (_, secrets) = connections.last_mut().unwrap();
        secrets.insert(label.to_owned(), hex(secret));
    }
    connections.into_iter().map(|(_, secrets)| secrets).collect()
}
