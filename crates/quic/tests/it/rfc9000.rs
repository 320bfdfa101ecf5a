//! RFC 9000 §A.1 to §A.3: the examples of variable-length integers and packet numbers.

use serde::Deserialize;
use wireseal_quic::{
    AuthenticationFailures, ConnectionId, InitialKeys, LongHeader, LongType, NumberLength, Outgoing,
    PacketNumberCounter, Protected, ReceiveSpace, Sealer, Version, decode_packet_number, decode_varint,
    encode_varint,
};

use crate::support::for_each_backend;
use crate::support::hex::Hex;

#[derive(Deserialize)]
struct AppendixA {
    varints: Vec<Varint>,
    number_lengths: Vec<EncodedNumber>,
    numbers: Vec<DecodedNumber>,
}

#[derive(Deserialize)]
struct Varint {
    octets: Hex,
    value: u64,
}

#[derive(Deserialize)]
struct EncodedNumber {
    largest_acknowledged: u64,
    number: u64,
    octets: usize,
}

#[derive(Deserialize)]
struct DecodedNumber {
    largest_authenticated: u64,
    truncated: Hex,
    number: u64,
}

fn rfc_9000() -> AppendixA {
    serde_json::from_str(include_str!("../data/vectors/rfc9000.json")).expect("the file as it is committed")
}

#[test]
fn a_1_varints() {
    for Varint { octets, value } in rfc_9000().varints {
        assert_eq!(decode_varint(&octets), Some((value, octets.len())));
        for cut in 0..octets.len() {
            assert_eq!(decode_varint(&octets[..cut]), None);
        }
        let mut encoded = [0xa5; 9];
        let length = encode_varint(value, &mut encoded).expect("room");
        // One example has more octets than its value needs.
        let shortest = octets[..] != [0x40, 0x25];
        assert_eq!(encoded[..length] == octets[..], shortest);
        assert!(encoded[length..].iter().all(|&octet| octet == 0xa5));
    }
}

#[test]
fn q_17_a_2_length_of_an_encoded_number() {
    for example in rfc_9000().number_lengths {
        let needed = NumberLength::needed(example.number, Some(example.largest_acknowledged));
        assert_eq!(needed.octets(), example.octets);
    }
}

#[test]
fn q_17_a_3_decoding_a_number() {
    for DecodedNumber { largest_authenticated, truncated, number } in rfc_9000().numbers {
        let truncated = u16::from_be_bytes(truncated.array());
        let decoded = decode_packet_number(Some(largest_authenticated), truncated.into(), NumberLength::Two);
        assert_eq!(decoded, number);
    }
}

/// The same by packets that are sealed and opened.
#[test]
fn q_17_a_3_opening_a_packet_with_that_number() {
    let DecodedNumber { largest_authenticated, number, .. } = rfc_9000().numbers.remove(0);
    let id = ConnectionId::new(b"A.3").expect("3 octets");
    let header = LongHeader {
        version: Version::V1,
        packet_type: LongType::Initial,
        destination: id,
        source: id,
        token: &[],
    };
    for_each_backend(|backend| {
        let keys = || InitialKeys::with_backend(backend, Version::V1, &id).client;
        let mut space = ReceiveSpace::new();
        for (number, number_length) in
            [(largest_authenticated, NumberLength::Four), (number, NumberLength::Two)]
        {
            let mut packet = [0; 64];
            let number_offset = header.encode(&mut packet, number_length, 4).expect("room");
            let end = number_offset + number_length.octets() + 4 + 16;
            let counter = PacketNumberCounter::starting_at(number).expect("a number below 2^62");
            Sealer::new(keys(), counter)
                .seal(Outgoing { packet: &mut packet[..end], number_offset, number_length })
                .expect("a packet long enough");
            let (protected, _) = Protected::split_first(&mut packet[..end], id.len()).expect("a packet");
            let opened = keys().open(protected, &mut space, &mut AuthenticationFailures::new());
            assert_eq!(opened.expect("an authentic packet").number, number);
        }
    });
}
