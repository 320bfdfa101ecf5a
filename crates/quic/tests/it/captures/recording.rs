//! Captures of QUIC connections, and the key logs beside them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcap::PcapReader;
use wireseal_quic::{AeadAlgorithm, TrafficSecret};

use crate::support::Side;
use crate::support::hex::Hex;

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

/// Secrets by label and client random, from a file in SSLKEYLOGFILE format (RFC 9850).
pub(crate) struct KeyLogFile(HashMap<(String, Hex), Hex>);

/// The secrets of a connection's levels.
#[derive(Clone, Copy)]
pub(crate) enum Level {
    ZeroRtt,
    Handshake,
    OneRtt,
}

impl KeyLogFile {
    pub(crate) fn parse(text: &str) -> Self {
        let hex = |text: &str| Hex::try_from(text.to_owned()).unwrap();
        let lines = text.lines().map(|line| {
            let [label, random, secret]: [&str; 3] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            ((label.to_owned(), hex(random)), hex(secret))
        });
        Self(lines.collect())
    }

    /// What `sender` protects its packets with.
    pub(crate) fn secret(
        &self,
        level: Level,
        sender: Side,
        client_random: &[u8],
        algorithm: AeadAlgorithm,
    ) -> TrafficSecret {
        let label = match (level, sender) {
            (Level::ZeroRtt, Side::Client) => "CLIENT_EARLY_TRAFFIC_SECRET",
            (Level::ZeroRtt, Side::Server) => panic!("a server sends no 0-RTT"),
            (Level::Handshake, Side::Client) => "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            (Level::Handshake, Side::Server) => "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            (Level::OneRtt, Side::Client) => "CLIENT_TRAFFIC_SECRET_0",
            (Level::OneRtt, Side::Server) => "SERVER_TRAFFIC_SECRET_0",
        };
        let secret = &self.0[&(label.to_owned(), Hex(client_random.to_vec()))];
        TrafficSecret::new(algorithm, secret).unwrap()
    }
}
