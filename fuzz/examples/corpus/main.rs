//! Writes the seed corpus: `cargo run --example corpus`, in this folder.
//!
//! It comes from what the tests of the crates read, captures, key chains and vectors, and from scripts and octets made here.

mod kernels;
mod quic;

use std::fs;
use std::path::Path;

use etherparse::{PacketBuilder, TcpOptionElement};
use pcap_file::pcap::PcapReader;
use wireseal_tcp_ao::Segment;

const CAPTURES: [(&str, &[u8]); 2] = [
    ("ipv4-cmac", include_bytes!("../../../crates/tcp-ao/tests/data/captures/bird-ipv4-cmac.pcap")),
    ("ipv6-sha1", include_bytes!("../../../crates/tcp-ao/tests/data/captures/bird-ipv6-sha1.pcap")),
];

fn write(target: &str, name: &str, octets: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), octets).expect("a file");
}

/// The first packets of a capture that carry TCP.
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

/// SYN, SYN-ACK and ACK.
fn handshake(is_ipv6: bool) -> Vec<u8> {
    [
        step(0, &stack_packet(is_ipv6, true, 2, (0x1000, 0), b"")),
        step(0x80, &stack_packet(is_ipv6, false, 18, (0xffff_fff0, 0x1001), b"")),
        step(0, &stack_packet(is_ipv6, true, 16, (0x1001, 0xffff_fff1), b"")),
    ]
    .concat()
}

fn main() {
    kernels::write_all();
    quic::write_all();
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
