//! Seeds for the QUIC targets: the packets of RFC 9001 and RFC 9369, those of the captures, and scripts made here.

use pcap_file::pcap::PcapReader;
use serde_json::Value;

use crate::{step, write};

const VECTORS: [(&str, &str); 2] = [
    ("rfc9001", include_str!("../../../crates/quic/tests/data/vectors/rfc9001.json")),
    ("rfc9369", include_str!("../../../crates/quic/tests/data/vectors/rfc9369.json")),
];

const CAPTURES: [(&str, &[u8]); 2] = [
    ("v1-retry", include_bytes!("../../../crates/quic/tests/data/captures/quic-ngtcp2-retry-0rtt.pcap")),
    ("v2", include_bytes!("../../../crates/quic/tests/data/captures/quic-aioquic-v2-aes256-ku.pcap")),
];

fn octets(hex: &Value) -> Vec<u8> {
    base16ct::mixed::decode_vec(hex.as_str().expect("a string")).expect("hexadecimal")
}

/// The first UDP datagrams of a capture.
fn datagrams(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(capture).expect("a capture");
    let mut datagrams = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let frame = frame.expect("a frame");
        let sliced = etherparse::SlicedPacket::from_ethernet(&frame.data).expect("an Ethernet frame");
        if let Some(etherparse::TransportSlice::Udp(udp)) = sliced.transport {
            datagrams.push(udp.payload().to_vec());
        }
    }
    datagrams.truncate(5);
    datagrams
}

/// Writes them.
pub fn write_all() {
    for (rfc, text) in VECTORS {
        let vectors: Value = serde_json::from_str(text).expect("JSON");
        let original = octets(&vectors["destination_connection_id"]);
        for name in ["client_initial", "server_initial", "chacha20_poly1305"] {
            let packet = octets(&vectors[name]["packet"]);
            // The first octets of a long one are enough.
            write(
                "quic_header",
                &format!("{rfc}-{name}"),
                &[&[0, 1, 8, 8, 4, 3, 9, 1], &packet[..]].concat(),
            );
            write(
                "quic_open",
                &format!("{rfc}-{name}"),
                &[&[u8::from(rfc == "rfc9369")], &step(2, &packet)[..]].concat(),
            );
        }
        let retry = octets(&vectors["retry"]["packet"]);
        let choice = [u8::from(rfc == "rfc9369") | 8 << 1, 20, original.len() as u8];
        write("quic_retry", rfc, &[&choice, &original[..], &retry].concat());
        write("quic_header", &format!("{rfc}-retry"), &[&[0; 8], &retry[..]].concat());
    }
    for (name, capture) in CAPTURES {
        for (index, datagram) in datagrams(capture).iter().enumerate() {
            let datagram = &datagram[..datagram.len().min(400)];
            write(
                "quic_header",
                &format!("{name}-{index}"),
                &[&[8, 0, 18, 17, 0, 1, 100, 3], datagram].concat(),
            );
        }
    }
    scripts();
    tokens();
}

/// Every suite and version, over key updates by either end and by both, with packets that come late, twice and altered.
fn scripts() {
    let (client, server) = (0, 0x80);
    let talk = |payload: &[u8]| [step(client, payload), step(server, payload)].concat();
    let late = [step(client | 3, b"late"), step(server | 3, b"late")].concat();
    let arrive = [step(4, &[0]), step(4, &[1]), step(4, &[0])].concat();
    let wait = step(7, &[40]);
    let update = |end: u8| step(end | 6, &[]);
    let scripts = [
        (
            "update",
            vec![
                talk(b"before"),
                update(client),
                talk(b"after"),
                talk(b"again"),
                wait.clone(),
                update(server),
                talk(b""),
            ],
        ),
        (
            "late",
            vec![
                talk(b"a"),
                late.clone(),
                update(client),
                talk(b"b"),
                arrive.clone(),
                talk(b"c"),
                wait.clone(),
                arrive.clone(),
            ],
        ),
        (
            "both",
            vec![
                talk(b"a"),
                update(client),
                update(server),
                talk(b"b"),
                talk(b"c"),
                wait.clone(),
                update(server),
                late,
                talk(b"d"),
                arrive,
            ],
        ),
        (
            "altered",
            vec![
                step(client | 1, &[0, 0, 4, 1, 2, 3]),
                step(server | 1, &[0, 30, 1, 1]),
                update(client),
                step(server | 1, &[0, 0, 4, 9]),
                talk(b"x"),
            ],
        ),
        (
            "levels",
            vec![
                step(0x30, b"initial"),
                step(0xb0, b"initial"),
                step(0x20, b"handshake"),
                step(5, &[0, 0, 0, 1, 2, 3]),
                step(0x85, &[0, 60, 1, 4, 5, 6]),
            ],
        ),
        (
            "expiry",
            vec![talk(b"a"), update(server), talk(b"b"), wait, step(8, &[]), step(0x88, &[]), talk(b"c")],
        ),
    ];
    for (index, (name, steps)) in scripts.into_iter().enumerate() {
        for choice in [index as u8 * 2, index as u8 * 2 + 5] {
            write("quic_open", &format!("{name}-{choice}"), &[&[choice][..], &steps.concat()].concat());
        }
    }
}

fn tokens() {
    for (name, bits) in [("new-token-ipv4", 0), ("new-token-ipv6", 3), ("retry-ipv4", 4), ("retry-ipv6", 7)] {
        let choice = [bits, 0x11, 0x51, 1, 8, 20, 3, 1, 0, 0, 1, 0x9a, 0, 0, 0, 0];
        write("quic_token", name, &[&choice[..], &(0..60).collect::<Vec<u8>>()].concat());
    }
}
