//! Traffic keys and MACs against other implementations: the packets of RFC 9235, the same under the two algorithms of
//! draft-ietf-tcpm-tcp-ao-algs-07, sessions between Linux kernels, and HMAC and CMAC of other libraries.

use std::collections::HashSet;

use aes::Aes128;
use cmac::Cmac;
use hmac::{Hmac, KeyInit, Mac};
use pcap_file::pcap::PcapReader;
use proptest::collection::vec;
use proptest::prelude::*;
use sha1::Sha1;
use sha2::Sha256;
use wireseal_tcp_ao::option::TCP_HEADER_LENGTH;

use crate::support::*;
use crate::vector::{Vector, draft_tcp_ao_algs, handshakes, rfc_9235};

fn assert_traffic_keys(vectors: &[Vector]) {
    for vector in vectors {
        let key = TrafficKeyOctets::derive(&vector.senders_mkt(), &vector.context());
        assert_eq!(key.expose_secret(), vector.traffic_key.0, "section {}", vector.section);
    }
}

fn assert_macs(vectors: &[Vector]) {
    for vector in vectors {
        let section = &vector.section;
        let key = TrafficKey::derive(&vector.senders_mkt(), &vector.context());
        let (segment, ao) = (vector.segment(), vector.ao());
        assert_eq!(ao.mac, vector.mac.0, "section {section}");
        let mac = segment_mac(&key, vector.sne(), vector.coverage(), &segment).unwrap();
        assert_eq!(mac.truncated(ao.mac.len()), vector.mac.0, "section {section}");
        let verdict = verify_segment(&key, vector.sne(), vector.receivers_mkt().parameters(), &segment);
        assert_eq!(verdict, Ok(()), "section {section}");
    }
}

/// Signs each segment anew, and compares it octet for octet with the one in the vector.
fn assert_signed_alike(vectors: &[Vector]) {
    for vector in vectors {
        let key = TrafficKey::derive(&vector.senders_mkt(), &vector.context());
        let segment = vector.segment();
        let addresses = (segment.source_address(), segment.destination_address());
        let mut tcp = vector.unsigned_tcp();
        assert_ne!(tcp, segment.tcp());
        let mkt = vector.senders_mkt();
        sign_segment(&key, vector.sne(), mkt.parameters(), vector.ao().rnext_key_id, addresses, &mut tcp)
            .unwrap();
        assert_eq!(tcp, segment.tcp(), "section {}", vector.section);
    }
}

/// Two connections send each other the handshake of the vectors, and data in both directions.
fn assert_conversation([syn, syn_ack, data_forth, data_back]: [&Vector; 4]) {
    let pair = SocketPair { local: syn.segment().source(), remote: syn.segment().destination() };
    let active_mkts = MktSet::<1>::from_mkts([syn.senders_mkt()]).unwrap();
    let passive_mkts = MktSet::<1>::from_mkts([syn.receivers_mkt()]).unwrap();
    let mut active = Connection::active(pair, Isn(syn.segment().sequence().0), &active_mkts).unwrap();
    assert_sends(&mut active, syn);
    let mut passive = Connection::passive(&passive_mkts.verify_syn(syn.segment()).unwrap());
    assert_eq!(passive.pair(), pair.reversed());
    assert_sends(&mut passive, syn_ack);
    active.verify(&syn_ack.segment()).unwrap();
    assert!(active.is_established() && !passive.is_established());
    assert_sends(&mut active, data_forth);
    passive.verify(&data_forth.segment()).unwrap();
    assert!(passive.is_established());
    assert_sends(&mut passive, data_back);
    receive(&mut active, data_back.segment().tcp()).unwrap();
    assert_eq!((active.counters().good, active.counters().bad), (2, 0));
    assert_eq!((passive.counters().good, passive.counters().bad), (2, 0));
}

fn assert_sends<const N: usize>(connection: &mut Connection<N>, vector: &Vector) {
    let mut tcp = vector.unsigned_tcp();
    connection.sign(&mut tcp).unwrap();
    assert_eq!(tcp, vector.segment().tcp(), "section {}", vector.section);
}

fn assert_conversations(vectors: &[Vector], count: usize) {
    let handshakes = handshakes(vectors);
    assert_eq!(handshakes.len(), count);
    handshakes.into_iter().for_each(assert_conversation);
}

#[test]
fn ao_01_all_32_traffic_keys_of_rfc_9235() {
    assert_traffic_keys(&rfc_9235());
}

#[test]
fn ao_02_all_32_macs_of_rfc_9235() {
    assert_macs(&rfc_9235());
    assert_signed_alike(&rfc_9235());
}

#[test]
fn ao_02_connections_speak_the_conversations_of_rfc_9235() {
    assert_conversations(&rfc_9235(), 8);
}

#[test]
fn ao_14_all_64_draft_vectors() {
    assert_traffic_keys(&draft_tcp_ao_algs());
    assert_macs(&draft_tcp_ao_algs());
    assert_signed_alike(&draft_tcp_ao_algs());
}

#[test]
fn ao_14_connections_speak_the_conversations_of_the_draft() {
    assert_conversations(&draft_tcp_ao_algs(), 16);
}

#[test]
fn ao_14_a_short_master_key_is_refused_unless_asked_for() {
    let mut refused = 0;
    for vector in draft_tcp_ao_algs() {
        let (ao, master_key) = (vector.ao(), vector.master_key());
        let length = master_key.len();
        match Mkt::new(ao.key_id, ao.rnext_key_id, vector.algorithm(), master_key) {
            Ok(_) => assert_eq!(length, 32),
            Err(error) => {
                assert_eq!(error, MktError::MasterKeyTooShort { algorithm: vector.algorithm(), length });
                assert_eq!(length, 10);
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 32);
}

#[test]
fn ao_02_rfc_9235_packets_of_one_connection_do_not_verify_on_another() {
    let vectors = rfc_9235();
    for vector in &vectors {
        let segment = Segment::parse(&vector.packet.0).unwrap();
        for other in vectors.iter().filter(|other| other.context() != vector.context()) {
            let key = TrafficKey::derive(&vector.senders_mkt(), &other.context());
            let mkt = vector.receivers_mkt();
            assert!(verify_segment(&key, vector.sne(), mkt.parameters(), &segment).is_err());
        }
    }
}

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
    /// Signs the segment again, and compares.
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
                (IpAddr::V4(source), IpAddr::V4(destination)) => {
                    slice.calc_checksum_ipv4(source.octets(), destination.octets())
                }
                (IpAddr::V6(source), IpAddr::V6(destination)) => {
                    slice.calc_checksum_ipv6(source.octets(), destination.octets())
                }
                _ => panic!("a packet of two families"),
            };
            assert_eq!(checksum::tcp(addresses.0, addresses.1, &zeroed), theirs.unwrap());
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// `i || "TCP-AO" || context || bits` (RFC 5926 §3.1.1).
fn kdf_input(context: &[u8], bits: u16) -> Vec<u8> {
    [&[1][..], b"TCP-AO", context, &bits.to_be_bytes()].concat()
}

fn derive(algorithm: TcpAoAlgorithm, secret: &[u8], context: &KdfContext) -> Vec<u8> {
    let key = TrafficKeyOctets::derive(&mkt_with_secret(1, 1, algorithm, secret), context);
    assert_eq!(key.expose_secret().len(), algorithm.traffic_key_length());
    key.expose_secret().to_vec()
}

/// 192.0.2.1 port 49152 to 192.0.2.2 port 179, and its octets in the KDF's input (RFC 5925 §5.2).
fn ipv4_context() -> (KdfContext, Vec<u8>) {
    let context = KdfContext::send_other(ipv4_pair(), Isn(0x0102_0304), Isn(0xfffe_fdfc));
    let octets = [192, 0, 2, 1, 192, 0, 2, 2, 0xc0, 0, 0, 179, 1, 2, 3, 4, 0xff, 0xfe, 0xfd, 0xfc];
    (context, octets.to_vec())
}

#[test]
fn ao_03_kdf_input_is_counter_label_context_and_length_in_bits() {
    let (context, octets) = ipv4_context();
    let input = kdf_input(&octets, 160);
    assert_eq!(input[..7], *b"\x01TCP-AO");
    assert_eq!(input[7], 192, "no NUL between label and context");
    assert_eq!(input[27..], [0, 160]);
    assert_eq!(derive(TcpAoAlgorithm::HmacSha1, SECRET, &context), mac::<Hmac<Sha1>>(SECRET, &input));
    let input = kdf_input(&octets, 128);
    let secret = &SECRET[..16];
    assert_eq!(derive(TcpAoAlgorithm::Aes128Cmac, secret, &context), mac::<Cmac<Aes128>>(secret, &input));
    let input = kdf_input(&octets, 256);
    assert_eq!(input[27..], [1, 0]);
    assert_eq!(
        derive(TcpAoAlgorithm::LinuxHmacSha256, SECRET, &context),
        mac::<Hmac<Sha256>>(SECRET, &input)
    );
}

#[test]
fn ao_04_context_is_in_the_direction_of_the_segment() {
    let (_, octets) = ipv4_context();
    let input = kdf_input(&octets, 160);
    let expected = mac::<Hmac<Sha1>>(SECRET, &input);
    let (local_isn, remote_isn) = (Isn(0x0102_0304), Isn(0xfffe_fdfc));
    let sent = KdfContext::send_other(ipv4_pair(), local_isn, remote_isn);
    let received_by_the_peer = KdfContext::receive_other(ipv4_pair().reversed(), remote_isn, local_isn);
    for context in [sent, received_by_the_peer] {
        assert_eq!(derive(TcpAoAlgorithm::HmacSha1, SECRET, &context), expected);
    }
}

#[test]
fn ao_04_ipv6_addresses_stand_whole_in_the_context() {
    let context = KdfContext::send_other(ipv6_pair(), Isn(1), Isn(2));
    let mut octets = vec![0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    octets.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    octets.extend([0xc0, 0, 0, 179, 0, 0, 0, 1, 0, 0, 0, 2]);
    let expected = mac::<Hmac<Sha1>>(SECRET, &kdf_input(&octets, 160));
    assert_eq!(derive(TcpAoAlgorithm::HmacSha1, SECRET, &context), expected);
}

#[test]
fn ao_05_cmac_master_keys_not_of_16_octets_are_compressed_first() {
    let (context, octets) = ipv4_context();
    let input = kdf_input(&octets, 128);
    let long: Vec<u8> = (1..=80).collect();
    for length in [1, 15, 17, 80] {
        let compressed = mac::<Cmac<Aes128>>(&[0; 16], &long[..length]);
        let expected = mac::<Cmac<Aes128>>(&compressed, &input);
        assert_eq!(
            derive(TcpAoAlgorithm::Aes128Cmac, &long[..length], &context),
            expected,
            "{length} octets"
        );
    }
    let expected = mac::<Cmac<Aes128>>(&long[..16], &input);
    assert_eq!(derive(TcpAoAlgorithm::Aes128Cmac, &long[..16], &context), expected);
}

#[test]
fn ao_05_master_keys_of_no_octets_and_of_81_are_refused() {
    assert_eq!(MasterKey::new(&[]).unwrap_err(), MktError::MasterKeyEmpty);
    assert_eq!(MasterKey::new(&[1; 81]).unwrap_err(), MktError::MasterKeyTooLong { length: 81 });
    assert_eq!(MasterKey::new(&[1; 80]).unwrap().len(), 80);
}

#[test]
fn ao_06_a_syn_has_destination_isn_zero() {
    let pair = ipv4_pair();
    let context = KdfContext::syn(pair.local, pair.remote, Isn(0x0102_0304));
    assert_eq!(context.destination_isn, Isn(0));
    let octets = [192, 0, 2, 1, 192, 0, 2, 2, 0xc0, 0, 0, 179, 1, 2, 3, 4, 0, 0, 0, 0];
    let expected = mac::<Hmac<Sha1>>(SECRET, &kdf_input(&octets, 160));
    assert_eq!(derive(TcpAoAlgorithm::HmacSha1, SECRET, &context), expected);
}

#[test]
fn ao_13_linux_hmac_sha_256_and_hmac_sha256_128_are_two_algorithms() {
    let (linux, draft) = (TcpAoAlgorithm::LinuxHmacSha256, TcpAoAlgorithm::HmacSha256_128);
    assert_ne!(linux.name(), draft.name());
    assert_eq!((linux.default_mac_length(), draft.default_mac_length()), (12, 16));
    assert!(linux.linux_name().is_some() && draft.linux_name().is_none());
    let (context, octets) = ipv4_context();
    // The draft: RFC 5869 with a salt of zeros and the context as info. Linux: the form of RFC 5926.
    let extracted = mac::<Hmac<Sha256>>(&[0; 32], SECRET);
    let expanded = mac::<Hmac<Sha256>>(&extracted, &[&octets[..], &[1]].concat());
    assert_eq!(derive(draft, SECRET, &context), expanded);
    assert_ne!(derive(linux, SECRET, &context), expanded);
}

/// Any endpoint of the family.
fn endpoint(ipv6: bool) -> impl Strategy<Value = Endpoint> {
    (any::<u128>(), any::<u16>()).prop_map(move |(address, port)| {
        if ipv6 {
            Endpoint::new(std::net::Ipv6Addr::from(address), port)
        } else {
            Endpoint::new(std::net::Ipv4Addr::from(address as u32), port)
        }
    })
}

fn pairs() -> impl Strategy<Value = SocketPair> {
    any::<bool>()
        .prop_flat_map(|ipv6| (endpoint(ipv6), endpoint(ipv6)))
        .prop_map(|(local, remote)| SocketPair { local, remote })
}

proptest! {
    #[test]
    fn ao_07_what_one_end_sends_with_is_what_the_other_receives_with(
        pair in pairs(),
        isns: (u32, u32),
        secret in vec(any::<u8>(), 1..=80),
    ) {
        let (ours, theirs) = (Isn(isns.0), Isn(isns.1));
        for algorithm in TcpAoAlgorithm::ALL {
            let derive = |context: KdfContext| derive(algorithm, &secret, &context);
            let peer = pair.reversed();
            // Send_SYN here is Receive_SYN there, and so on for all four (RFC 5925 §5.2).
            let keys = [
                [KdfContext::syn(pair.local, pair.remote, ours), KdfContext::syn(peer.remote, peer.local, ours)],
                [KdfContext::syn(pair.remote, pair.local, theirs), KdfContext::syn(peer.local, peer.remote, theirs)],
                [KdfContext::send_other(pair, ours, theirs), KdfContext::receive_other(peer, theirs, ours)],
                [KdfContext::receive_other(pair, ours, theirs), KdfContext::send_other(peer, theirs, ours)],
            ];
            let keys = keys.map(|contexts| contexts.map(derive));
            for [here, there] in &keys {
                prop_assert_eq!(here, there);
            }
            if pair.local != pair.remote && ours != Isn(0) && theirs != Isn(0) && ours != theirs {
                let distinct: HashSet<_> = keys.iter().flatten().collect();
                prop_assert_eq!(distinct.len(), 4);
            }
        }
    }
}
