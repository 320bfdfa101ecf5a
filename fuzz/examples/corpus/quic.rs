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

/// Steps in words, `>` for the client's and `<` for the server's: what is done, and after a colon the payload.
const SCRIPTS: [(&str, &str); 6] = [
    ("update", "talk:before >update talk:after talk:again wait <update talk:"),
    ("late", "talk:a >late <late >update talk:b again:0 again:1 again:0 talk:c wait again:0 again:1 again:0"),
    ("both", "talk:a >update <update talk:b talk:c wait <update >late <late talk:d again:0 again:1 again:0"),
    ("altered", ">first <behind >update <first talk:x"),
    ("levels", ">initial <initial >handshake >coalesced <coalesced"),
    ("expiry", "talk:a <update talk:b wait >expire <expire talk:c"),
];

fn steps(word: &str) -> Vec<u8> {
    let (what, payload) = word.split_once(':').unwrap_or((word, "late"));
    let end = if what.starts_with('<') { 0x80 } else { 0 };
    match what.trim_start_matches(['<', '>']) {
        "talk" => [step(0, payload.as_bytes()), step(0x80, payload.as_bytes())].concat(),
        "late" => step(end | 3, payload.as_bytes()),
        "again" => step(4, &[payload.parse().expect("a number")]),
        "update" => step(end | 6, &[]),
        "wait" => step(7, &[40]),
        "expire" => step(end | 8, &[]),
        "first" => step(end | 1, &[0, 0, 4, 1, 2, 3]),
        "behind" => step(end | 1, &[0, 30, 1, 1]),
        "initial" => step(end | 0x30, b"initial"),
        "handshake" => step(end | 0x20, b"handshake"),
        "coalesced" => step(end | 5, &[0, end / 2, end >> 7, 1, 2, 3]),
        other => panic!("{other} is no step"),
    }
}

/// Every suite and version, over key updates by either end and by both, with packets that come late, twice and altered.
fn scripts() {
    for (index, (name, script)) in (0_u8..).zip(SCRIPTS) {
        let steps: Vec<u8> = script.split(' ').flat_map(steps).collect();
        for choice in [index * 2, index * 2 + 5] {
            write("quic_open", &format!("{name}-{choice}"), &[&[choice], &steps[..]].concat());
        }
    }
}

fn tokens() {
    for (name, bits) in [("new-token-ipv4", 0), ("new-token-ipv6", 3), ("retry-ipv4", 4), ("retry-ipv6", 7)] {
        let choice = [bits, 0x11, 0x51, 1, 8, 20, 3, 1, 0, 0, 1, 0x9a, 0, 0, 0, 0];
        write("quic_token", name, &[&choice[..], &(0..60).collect::<Vec<u8>>()].concat());
    }
}
