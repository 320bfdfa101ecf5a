//! MACs: messages of 64 octets to 64 KiB, many keys in turn, key preparation, and Poly1305, whose key is for one message.

mod group;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use group::{bench, configuration};
use wireseal_algorithms::MacAlgorithm;
use wireseal_benches::mac;

/// The shortest message, a TCP segment of 128 octets with its pseudo-header, a KiB, a full Ethernet frame, and large writes to a socket.
const LENGTHS: [usize; 6] = [64, 164, 1024, 1500, 16 << 10, 64 << 10];

fn messages(criterion: &mut Criterion) {
    for algorithm in MacAlgorithm::ALL {
        let mut group = criterion.benchmark_group(format!("mac {}", algorithm.name()));
        for length in LENGTHS {
            group.throughput(Throughput::Bytes(length as u64));
            bench(&mut group, length, mac::message(algorithm, length));
        }
    }
    let mut group = criterion.benchmark_group("mac Poly1305");
    for length in LENGTHS {
        group.throughput(Throughput::Bytes(length as u64));
        bench(&mut group, length, mac::poly1305(length));
    }
}

/// More keys than fit in the nearest caches, in random order, each over a KiB.
fn many_keys(criterion: &mut Criterion) {
    for algorithm in [MacAlgorithm::Aes128Cmac, MacAlgorithm::HmacSha1, MacAlgorithm::HmacSha256] {
        let mut group = criterion.benchmark_group(format!("mac {}, keys in turn", algorithm.name()));
        for keys in [1, 10_000] {
            bench(&mut group, keys, mac::many_keys(algorithm, 1024, keys));
        }
    }
}

fn keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mac prepare a key");
    for algorithm in MacAlgorithm::ALL {
        bench(&mut group, algorithm.name(), mac::keys(algorithm));
    }
}

criterion_group! { name = benches; config = configuration(); targets = messages, many_keys, keys }
criterion_main!(benches);
