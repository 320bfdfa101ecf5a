//! Files: reading and verifying a capture, as `wireseal verify` does, parsing key chains, and checking routers' configurations.

mod group;

use std::convert::Infallible;
use std::fmt::Write;
use std::hint::black_box;
use std::io::Cursor;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use group::{bench, configuration};
use wireseal::capture::Reader;
use wireseal::verify::report::Verdict;
use wireseal::verify::{Verifier, VerifyEvent, VerifyOptions};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_benches::{Contender, tcp_ao};
use wireseal_keys::{
    Format, Implementation, KeyChains, KeyFile, Keys, Neighbor, Timestamp, check, convert, read,
};

/// The link type of IP packets without a link layer.
const LINKTYPE_RAW: u32 = 101;

/// A pcap file with these packets, one microsecond apart.
fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend([0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, LINKTYPE_RAW].map(u32::to_le_bytes).as_flattened());
    for (number, packet) in (0..).zip(packets) {
        let length = packet.len() as u32;
        file.extend([1_800_000_000, number, length, length].map(u32::to_le_bytes).as_flattened());
        file.extend(packet);
    }
    file
}

/// A key chain of `count` keys in TOML. If `lifetime` is empty, they are always valid for sending.
fn chain(algorithm: TcpAoAlgorithm, count: usize, lifetime: &str) -> String {
    let mut text = "[[key-chain]]\nname = \"core\"\n".to_owned();
    for id in 1..=count {
        let secret = char::from(b'a' + (id % 26) as u8).to_string().repeat(32);
        write!(
            text,
            "[[key-chain.key]]\nsend-id = {id}\nalgorithm = \"{algorithm}\"\nsecret = \"{secret}\"\n{lifetime}\n"
        )
        .expect("a string grows");
    }
    text
}

fn verify(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("files verify a capture");
    for algorithm in [TcpAoAlgorithm::Aes128Cmac, TcpAoAlgorithm::HmacSha1, TcpAoAlgorithm::LinuxHmacSha256] {
        let packets = tcp_ao::capture(algorithm, 16, 500);
        let keys = wireseal_keys::read(Path::new("keys.toml"), &chain(algorithm, 1, ""), None)
            .and_then(|file| file.keys());
        let (keys, file, count) = (keys.expect("a key"), pcap(&packets), packets.len() as u64);
        group.throughput(Throughput::Bytes(file.len() as u64));
        let run = move || assert_eq!(good(&keys, &file), count, "every segment is good");
        bench(&mut group, algorithm, [Contender::new("wireseal", run)]);
    }
}

fn pass(event: VerifyEvent<'_>) -> Result<(), Infallible> {
    drop(black_box(event));
    Ok(())
}

/// The number of segments in a capture that verify.
fn good(keys: &Keys, file: &[u8]) -> u64 {
    let mut reader = Reader::new(Cursor::new(file.to_vec()), Some(file.len() as u64)).expect("a capture");
    let mut verifier = Verifier::new(keys, VerifyOptions::default());
    while let Some(packet) = reader.next_packet() {
        let packet = packet.expect("a whole capture");
        verifier.packet(&packet, pass).expect("infallible");
    }
    verifier.finish(None, pass).expect("infallible").counts[Verdict::Good.index()]
}

fn key_chains(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("files parse a key chain");
    let lifetime = "send = { from = 2026-01-01T00:00:00Z, until = 2026-07-01T00:00:00Z }";
    for count in [1, 16, 128] {
        let toml = chain(TcpAoAlgorithm::Aes128Cmac, count, lifetime);
        let json = KeyChains::from_toml(&toml).expect("a chain").to_json().to_string();
        let keys = |chains: KeyChains| chains.chains()[0].keys().len();
        group.throughput(Throughput::Elements(count as u64));
        bench(
            &mut group,
            count,
            [
                Contender::new("TOML", move || {
                    assert_eq!(keys(KeyChains::from_toml(black_box(&toml)).expect("a chain")), count);
                }),
                Contender::new("JSON", move || {
                    assert_eq!(keys(KeyChains::from_json(black_box(&json)).expect("a chain")), count);
                }),
            ],
        );
    }
}

/// A file of `count` chains with one key, each for a neighbor of its own.
fn neighbors(count: u32) -> KeyFile {
    let chain =
        read(Path::new("keys.toml"), &chain(TcpAoAlgorithm::Aes128Cmac, 1, ""), None).expect("a chain");
    let chains = (1..=count).map(|number| {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
        let address = address.to_string().parse().expect("an address");
        let mut chain = chain.chains[0].clone();
        (chain.name, chain.neighbors) =
            (format!("peer{number}"), vec![Neighbor { vrf: None, address, interface: None }]);
        chain
    });
    KeyFile { chains: chains.collect(), ..KeyFile::default() }
}

fn configurations(criterion: &mut Criterion) {
    const COUNT: u32 = 10_000;
    let mut group = criterion.benchmark_group("files check a configuration of 10,000 neighbors");
    let file = neighbors(COUNT);
    group.throughput(Throughput::Elements(COUNT.into()));
    for format in Format::ALL.into_iter().filter(|format| format.is_written()) {
        let written = convert(&file, format).expect("a format for all of these");
        let run = move || {
            let file =
                read(Path::new("router"), black_box(&written.text), Some(format)).expect("what was written");
            let own = [Implementation::reading(Some(format))];
            black_box(check(&file, Timestamp::from_unix_seconds(1_800_000_000), &own));
            assert_eq!(file.chains.len(), COUNT as usize);
        };
        bench(&mut group, format, [Contender::new("wireseal", run)]);
    }
}

criterion_group! { name = benches; config = configuration(); targets = verify, key_chains, configurations }
criterion_main!(benches);
