//! Writes the seed corpus: run `cargo run --example corpus` in this folder.
//!
//! The seeds come from the data of the crates' tests (captures, key chains and vectors), and from scripts and octets generated here.

use std::fs;
use std::path::Path;

use etherparse::{PacketBuilder, TcpOptionElement};
use pcap_file::pcap::PcapReader;
use serde_json::Value;
use wireseal_tcp_ao::Segment;

#[path = "../../crates/cli/tests/it/support/encapsulations.rs"]
#[allow(dead_code, reason = "the scopes are for the tests")]
mod encapsulations;
#[path = "../../crates/cli/tests/it/support/wrap.rs"]
mod wrap;

const CAPTURES: [(&str, &[u8]); 2] = [
    ("ipv4-cmac", include_bytes!("../../crates/tcp-ao/tests/data/captures/bird-ipv4-cmac.pcap")),
    ("ipv6-sha1", include_bytes!("../../crates/tcp-ao/tests/data/captures/bird-ipv6-sha1.pcap")),
];

fn write(target: &str, name: &str, octets: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), octets).expect("a file");
}

/// The first TCP packets of a capture.
fn packets(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(capture).expect("a capture");
    let mut packets = Vec::new();
    while let Some(frame) = reader.next_packet() {
        packets.push(frame.expect("a frame").data[14..].to_vec());
    }
    packets.into_iter().filter(|packet| Segment::parse(packet).is_ok()).take(5).collect()
}

/// A packet as a stack without TCP-AO sends it.
fn stack_packet(is_ipv6: bool, is_forth: bool, flags: u8, numbers: (u32, u32), payload: &[u8]) -> Vec<u8> {
    let (a, b) = if is_forth { (1, 2) } else { (2, 1) };
    let ipv6 = |end| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end];
    let builder = match is_ipv6 {
        true => PacketBuilder::ipv6(ipv6(a), ipv6(b), 255),
        false => PacketBuilder::ipv4([192, 0, 2, a], [192, 0, 2, b], 255),
    };
    let ports = if is_forth { (49_152, 179) } else { (179, 49_152) };
    let mut tcp = builder.tcp(ports.0, ports.1, numbers.0, 0xffff);
    if flags & 1 != 0 {
        tcp = tcp.fin();
    }
    if flags & 2 != 0 {
        tcp = tcp.syn().options(&[TcpOptionElement::MaximumSegmentSize(1440)]).expect("room");
    } else {
        tcp = tcp.options(&[TcpOptionElement::Timestamp(1, 2)]).expect("room");
    }
    if flags & 4 != 0 {
        tcp = tcp.rst();
    }
    if flags & 16 != 0 {
        tcp = tcp.ack(numbers.1);
    }
    let mut packet = Vec::new();
    tcp.write(&mut packet, payload).expect("a packet");
    packet
}

fn step(what: u8, body: &[u8]) -> Vec<u8> {
    [&[what][..], &(body.len() as u16).to_be_bytes(), body].concat()
}

fn handshake(is_ipv6: bool) -> Vec<u8> {
    [
        step(0, &stack_packet(is_ipv6, true, 2, (0x1000, 0), b"")),
        step(0x80, &stack_packet(is_ipv6, false, 18, (0xffff_fff0, 0x1001), b"")),
        step(0, &stack_packet(is_ipv6, true, 16, (0x1001, 0xffff_fff1), b"")),
    ]
    .concat()
}

fn main() {
    kernels();
    quic();
    encapsulated();
    for (name, capture) in CAPTURES {
        for (index, packet) in packets(capture).iter().enumerate() {
            let options = Segment::parse(packet).expect("as before").option_octets();
            write("option_walker", &format!("{name}-{index}"), options);
            let altered =
                [&[index as u8 | (0x80 * (index as u8 & 1))], &packet[..], &[0, 4, 1], &[0, 30, 9]].concat();
            write("segment_verify", &format!("{name}-{index}"), &altered);
        }
    }
    write("option_walker", "two-ao", &[1, 29, 4, 1, 2, 29, 4, 1, 2]);
    write("option_walker", "ao-with-md5", &[&[29, 4, 1, 2, 19, 18][..], &[0; 16], &[0, 0]].concat());
    write("option_walker", "cut-off", &[2, 4, 5, 180, 29, 16, 1]);

    for (is_ipv6, version) in [(false, "ipv4"), (true, "ipv6")] {
        let data = stack_packet(is_ipv6, true, 16, (0x1001, 0xffff_fff1), b"data");
        let reset = stack_packet(is_ipv6, false, 4, (0xffff_fff1, 0), b"");
        let syn = stack_packet(is_ipv6, true, 2, (0x1000, 0), b"");
        let scripts = [
            ("data", [step(0, &data), step(1, &[&[0, 60, 1], &data[..]].concat()), step(3, &data)].concat()),
            ("reset", [step(0x80, &reset), step(0x82, &reset), step(0, &syn)].concat()),
            (
                "keys",
                [step(5, &[1]), step(0x85, &[2]), step(0, &data), step(5, &[3]), step(0, &data)].concat(),
            ),
            ("time", [step(4, &[4]), step(6, &[]), step(0, &syn), step(2, &syn)].concat()),
        ];
        for (name, script) in scripts {
            write("shim_inbound", &format!("{version}-{name}"), &[handshake(is_ipv6), script].concat());
        }
        for (name, packet) in [("data", &data), ("reset", &reset), ("syn", &syn)] {
            write("shim_outbound", &format!("{version}-{name}"), &[&[5, 220, 20, 20], &packet[..]].concat());
        }
    }
    let key_chains = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/keys/tests/data/key-chains");
    for file in fs::read_dir(key_chains).expect("key chains").map(|file| file.expect("a file").path()) {
        if file.extension().is_some_and(|extension| extension == "toml" || extension == "json") {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            write("key_chain", &name, &fs::read(&file).expect("a file"));
        }
    }
}

/// A packet for `cli_encapsulation`: length, seconds and missing octets before it.
fn recorded(packet: &[u8]) -> Vec<u8> {
    [&(packet.len() as u16).to_be_bytes(), &[1, 0], packet].concat()
}

/// Writes the seeds of `cli_encapsulation`: two packets in each encapsulation, and a packet in two fragments.
fn encapsulated() {
    let target = "cli_encapsulation";
    for row in encapsulations::ROWS {
        let wrapped = CAPTURES.iter().map(|(_, capture)| recorded(&(row.wrap)(&packets(capture)[0], 0)));
        let name: String = row
            .name
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        let seed = [row.link_type.to_le_bytes().to_vec(), wrapped.flatten().collect()].concat();
        write(target, &name.to_ascii_lowercase(), &seed);
    }
    let packet = packets(CAPTURES[0].1).swap_remove(0);
    let (header, payload) = packet.split_at(20);
    let of = |field: u16, payload: &[u8]| {
        let mut fragment = [header, payload].concat();
        fragment[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        fragment[6..8].copy_from_slice(&field.to_be_bytes());
        fragment
    };
    let fragments = [of(0x2000, &payload[..24]), of(3, &payload[24..])];
    let raw = 101_u16.to_le_bytes().to_vec();
    write(target, "fragments", &[raw, recorded(&fragments[1]), recorded(&fragments[0])].concat());
}

const TARGETS: [&str; 5] = ["kernel_chacha20_poly1305", "kernel_cmac", "kernel_gcm", "kernel_hashes", "aead"];

/// Writes the seeds of the kernels and of the AEADs over them.
pub fn kernels() {
    for (seed, target) in TARGETS.into_iter().enumerate() {
        for length in [52, 70, 130, 200, 320, 580, 1090, 1560] {
            let mut octets = vec![0; length];
            fastrand::Rng::with_seed((seed * 10_000 + length) as u64).fill(&mut octets);
            write(target, &format!("octets-{length}"), &octets);
        }
    }
}

const VECTORS: [(&str, &str); 2] = [
    ("rfc9001", include_str!("../../crates/quic/tests/data/vectors/rfc9001.json")),
    ("rfc9369", include_str!("../../crates/quic/tests/data/vectors/rfc9369.json")),
];

const QUIC_CAPTURES: [(&str, &[u8]); 2] = [
    ("v1-retry", include_bytes!("../../crates/quic/tests/data/captures/quic-ngtcp2-retry-0rtt.pcap")),
    ("v2", include_bytes!("../../crates/quic/tests/data/captures/quic-aioquic-v2-aes256-ku.pcap")),
];

/// The client's destination connection ID and the Retry packet of draft-ietf-quic-tls-29 §A.4.
const DRAFT_29_RETRY: [&str; 2] =
    ["8394c8f03e515708", "ffff00001d0008f067a5502a4262b5746f6b656ed16926d81f6f9ca2953a8aa4575e1e49"];

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

/// Writes the seeds of QUIC.
pub fn quic() {
    for (rfc, text) in VECTORS {
        let vectors: Value = serde_json::from_str(text).expect("JSON");
        let original = octets(&vectors["destination_connection_id"]);
        for name in ["client_initial", "server_initial", "chacha20_poly1305"] {
            let packet = octets(&vectors[name]["packet"]);
            // For a long datagram, the first octets are enough.
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
        retry(rfc, u8::from(rfc == "rfc9369"), &original, &octets(&vectors["retry"]["packet"]));
    }
    let [original, packet] = DRAFT_29_RETRY.map(|hex| octets(&hex.into()));
    retry("draft-29", 2, &original, &packet);
    for (name, capture) in QUIC_CAPTURES {
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

/// A Retry packet of the version with this number among all.
fn retry(name: &str, version: u8, original: &[u8], packet: &[u8]) {
    write("quic_retry", name, &[&[15 + version, 20, original.len() as u8], original, packet].concat());
    write("quic_header", &format!("{name}-retry"), &[&[0; 8], packet].concat());
}

/// Steps in words, `>` for the client's and `<` for the server's: the operation, and after a colon the payload.
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

/// Every suite and version, over key updates by either end and by both, with late, repeated and altered packets.
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
