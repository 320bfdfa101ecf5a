//! RFC 9000 §A.1 to §A.3: the examples of variable-length integers and packet numbers.

use hex_literal::hex;
use wireseal_quic::{
    ConnectionId, InitialKeys, LongHeader, LongType, NumberLength, Outgoing, PacketNumberCounter, Sealer,
    Version, decode_packet_number, decode_varint, encode_varint,
};

use crate::support::{Level, Receiver, destination, for_each_backend};

#[test]
fn a_1_varints() {
    let examples: [(&[u8], u64); 5] = [
        (&hex!("c2197c5eff14e88c"), 151_288_809_941_952_652),
        (&hex!("9d7f3e7d"), 494_878_333),
        (&hex!("7bbd"), 15_293),
        (&hex!("25"), 37),
        (&hex!("4025"), 37),
    ];
    for (octets, value) in examples {
        assert_eq!(decode_varint(octets), Some((value, octets.len())));
        for cut in 0..octets.len() {
            assert_eq!(decode_varint(&octets[..cut]), None);
        }
        let mut encoded = [0xa5; 9];
        let length = encode_varint(value, &mut encoded).expect("room");
        // One example has more octets than its value needs.
        assert_eq!(encoded[..length] == *octets, octets != [0x40, 0x25]);
        assert!(encoded[length..].iter().all(|&octet| octet == 0xa5));
    }
}

#[test]
fn q_17_a_2_length_of_an_encoded_number() {
    for (number, octets) in [(0x00ac_5c02, 2), (0x00ac_e8fe, 3)] {
        assert_eq!(NumberLength::needed(number, Some(0x00ab_e8b3)).octets(), octets);
    }
}

/// By itself, and by packets that are sealed and opened.
#[test]
fn q_17_a_3_decoding_a_number() {
    let (largest, truncated, number) = (0xa82f_30ea, 0x9b32, 0xa82f_9b32);
    assert_eq!(decode_packet_number(Some(largest), truncated, NumberLength::Two), number);
    let source = ConnectionId::new(&[]).expect("no octets");
    let header = LongHeader {
        version: Version::V1,
        packet_type: LongType::Initial,
        destination: destination(),
        source,
        token: &[],
    };
    for_each_backend(|backend| {
        let keys = || InitialKeys::with_backend(backend, Version::V1, &destination()).client;
        let mut level = Level::new(keys());
        for (number, number_length) in [(largest, NumberLength::Four), (number, NumberLength::Two)] {
            let mut packet = [0; 64];
            let number_offset = header.encode(&mut packet, number_length, 4).expect("room");
            let packet = &mut packet[..number_offset + number_length.octets() + 4 + 16];
            let counter = PacketNumberCounter::starting_at(number).expect("a number below 2^62");
            let outgoing = Outgoing { packet, number_offset, number_length };
            Sealer::new(keys(), counter).seal(outgoing).expect("long enough");
            assert_eq!(level.open(packet).expect("authentic").number, number);
        }
    });
}
