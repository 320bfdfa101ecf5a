//! Files: reading and verifying a capture, as `wireseal verify` does, and parsing key chains.

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
use wireseal_keys::KeyChains;
use wireseal_keys::Keys;

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

criterion_group! { name = benches; config = configuration(); targets = verify, key_chains }
criterion_main!(benches);
