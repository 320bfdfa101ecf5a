//! Real sessions between two BIRD routers on Linux kernels: every segment verifies at the end that received it, and
//! the end that sent it would have signed it alike.

use crate::support::mkt_with_secret;
use pcap_file::pcap::PcapReader;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::option::TCP_HEADER_LENGTH;
use wireseal_tcp_ao::{
    Connection, Isn, Mkt, MktSet, OptionCoverage, ParseError, Segment, SocketPair, VerifyError, checksum,
};

const ETHERNET_HEADER_LENGTH: usize = 14;

/// The IP packets of a capture that carry TCP; the rest is ARP, ICMPv6 and the like.
fn tcp_packets(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(capture).unwrap();
    let mut packets = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let packet = frame.unwrap().data[ETHERNET_HEADER_LENGTH..].to_vec();
        match Segment::parse(&packet) {
            Ok(_) => packets.push(packet),
            Err(ParseError::NotTcp { .. } | ParseError::IpVersion(0)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    packets
}

fn ipv4_cmac() -> (Vec<Vec<u8>>, Mkt) {
    let packets = tcp_packets(include_bytes!("../data/captures/bird-ipv4-cmac.pcap"));
    (packets, mkt_with_secret(100, 100, TcpAoAlgorithm::Aes128Cmac, b"first-secret"))
}

fn ipv6_sha1() -> (Vec<Vec<u8>>, Mkt) {
    let packets = tcp_packets(include_bytes!("../data/captures/bird-ipv6-sha1.pcap"));
    let secret = b"kd2 long passphrase, more than one block of sha1 input, 80 bytes max";
    (packets, mkt_with_secret(7, 7, TcpAoAlgorithm::HmacSha1, secret))
}

/// One end of a session.
struct End(Connection<1>);

impl End {
    /// Signs the segment as if it had not been, and compares.
    fn assert_sends(&mut self, segment: &Segment<'_>) {
        let ao = segment.ao_option().unwrap().unwrap();
        let mut tcp = segment.tcp().to_vec();
        tcp[TCP_HEADER_LENGTH + ao.offset + 2..][..ao.length() - 2].fill(0);
        self.0.sign(&mut tcp).unwrap();
        assert_eq!(tcp, segment.tcp());
    }
}

/// Replays a capture from both ends' point of view; `mkt` is the same at both, as SendID and RecvID are equal.
fn replay(packets: &[Vec<u8>], mkt: &Mkt) -> (End, End) {
    let mkts = MktSet::from_mkts([mkt.clone()]).unwrap();
    let (syn, rest) = packets.split_first().unwrap();
    let syn = Segment::parse(syn).unwrap();
    let pair = SocketPair { local: syn.source(), remote: syn.destination() };
    let mut client = End(Connection::active(pair, Isn(syn.sequence().0), &mkts).unwrap());
    client.assert_sends(&syn);
    let mut server = End(Connection::passive(&mkts.verify_syn(syn).unwrap()));
    for packet in rest {
        let segment = Segment::parse(packet).unwrap();
        let (sender, receiver) = if segment.source() == pair.local {
            (&mut client, &mut server)
        } else {
            (&mut server, &mut client)
        };
        sender.assert_sends(&segment);
        receiver.0.verify(&segment).unwrap();
    }
    (client, server)
}

fn assert_every_segment_is_good(packets: &[Vec<u8>], mkt: &Mkt, segments: u64) {
    assert_eq!(packets.len() as u64, segments);
    let (client, server) = replay(packets, mkt);
    let (client, server) = (client.0.counters(), server.0.counters());
    assert_eq!(client.good + server.good, segments);
    assert!(client.good > 10 && server.good > 10, "segments in both directions");
    for counters in [client, server] {
        assert_eq!((counters.bad, counters.key_not_found, counters.required), (0, 0, 0));
    }
}

#[test]
fn ao_08_every_segment_of_a_linux_session_over_ipv4_verifies() {
    let (packets, mkt) = ipv4_cmac();
    assert_every_segment_is_good(&packets, &mkt, 34);
}

#[test]
fn ao_11_every_segment_of_a_linux_session_over_ipv6_verifies() {
    let (packets, mkt) = ipv6_sha1();
    assert_every_segment_is_good(&packets, &mkt, 33);
}

#[test]
fn ao_09_a_linux_session_does_not_verify_under_the_other_option_coverage() {
    for (packets, mkt) in [ipv4_cmac(), ipv6_sha1()] {
        let mkts = MktSet::<1>::from_mkts([mkt.with_options(OptionCoverage::Excluded)]).unwrap();
        let syn = Segment::parse(&packets[0]).unwrap();
        assert!(matches!(mkts.verify_syn(syn), Err(VerifyError::BadMac { .. })));
    }
}

#[test]
fn ao_18_a_linux_session_with_one_octet_altered_does_not_verify() {
    for (packets, mkt) in [ipv4_cmac(), ipv6_sha1()] {
        let mkts = MktSet::<1>::from_mkts([mkt.clone()]).unwrap();
        let syn = Segment::parse(&packets[0]).unwrap();
        for at in (0..syn.tcp().len()).filter(|at| !(16..18).contains(at)) {
            let mut tcp = syn.tcp().to_vec();
            tcp[at] ^= 1;
            let altered = Segment::from_tcp(syn.source_address(), syn.destination_address(), &tcp);
            assert!(altered.is_err() || mkts.verify_syn(altered.unwrap()).is_err(), "octet {at}");
        }
    }
}

#[test]
fn ao_11_checksums_of_received_packets_agree_with_etherparse() {
    for (packets, _) in [ipv4_cmac(), ipv6_sha1()] {
        for packet in packets {
            let segment = Segment::parse(&packet).unwrap();
            let slice = etherparse::TcpSlice::from_slice(segment.tcp()).unwrap();
            let mut zeroed = segment.tcp().to_vec();
            zeroed[16..18].fill(0);
            let addresses = (segment.source_address(), segment.destination_address());
            let theirs = match addresses {
                (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) => {
                    slice.calc_checksum_ipv4(source.octets(), destination.octets())
                }
                (std::net::IpAddr::V6(source), std::net::IpAddr::V6(destination)) => {
                    slice.calc_checksum_ipv6(source.octets(), destination.octets())
                }
                _ => panic!("a packet of two families"),
            };
            assert_eq!(checksum::tcp(addresses.0, addresses.1, &zeroed), theirs.unwrap());
        }
    }
}
