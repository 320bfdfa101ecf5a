//! One MAC, by every library that has it, over what packets are long.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wireseal_algorithms::MacAlgorithm;
use wireseal_benches::{mac, one_time};

fn macs(c: &mut Criterion) {
    for algorithm in MacAlgorithm::ALL {
        let mut contenders = mac::contenders(algorithm);
        let mut group = c.benchmark_group(algorithm.name());
        for length in [64, 164, 256, 1024, 1500] {
            let message = vec![0x5a; length];
            group.throughput(Throughput::Bytes(length as u64));
            for (name, contender) in &mut contenders {
                group.bench_with_input(BenchmarkId::new(*name, length), &message, |b, message| {
                    b.iter(|| contender(&[black_box(message)]));
                });
            }
        }
    }
}

fn one_shot(c: &mut Criterion) {
    let mut contenders = one_time::contenders();
    let mut group = c.benchmark_group("Poly1305");
    for length in [64, 164, 256, 1024, 1500] {
        let message = vec![0x5a; length];
        group.throughput(Throughput::Bytes(length as u64));
        for (name, contender) in &mut contenders {
            group.bench_with_input(BenchmarkId::new(*name, length), &message, |b, message| {
                b.iter(|| contender(black_box(&[7; 32]), black_box(message)));
            });
        }
    }
}

criterion_group!(benches, macs, one_shot);
criterion_main!(benches);
