//! Sealing and opening QUIC packets, header masks alone, and Initial keys, by every library that has them.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wireseal_algorithms::AeadAlgorithm;
use wireseal_benches::quic::{self, PAYLOADS};

fn packets(c: &mut Criterion) {
    for algorithm in AeadAlgorithm::ALL {
        let mut contenders = quic::packet_contenders(algorithm);
        for payload in PAYLOADS {
            let mut sealed = quic::packet(payload);
            (contenders[0].seal)(&mut sealed);
            for is_sealing in [true, false] {
                let verb = if is_sealing { "seal" } else { "open" };
                let mut group = c.benchmark_group(format!("{verb}, {algorithm}"));
                group.throughput(Throughput::Bytes(payload as u64));
                for contender in &mut contenders {
                    let id = BenchmarkId::new(contender.name, payload);
                    if is_sealing {
                        let mut packet = sealed.clone();
                        group.bench_function(id, |b| b.iter(|| (contender.seal)(black_box(&mut packet))));
                    } else {
                        group.bench_function(id, |b| {
                            b.iter_batched_ref(
                                || sealed.clone(),
                                |packet| assert!((contender.open)(packet)),
                                BatchSize::SmallInput,
                            );
                        });
                    }
                }
            }
        }
    }
}

fn masks(c: &mut Criterion) {
    for algorithm in AeadAlgorithm::ALL {
        let mut group = c.benchmark_group(format!("header masks, {algorithm}"));
        for contender in &mut quic::mask_contenders(algorithm) {
            for count in [1, 16] {
                let samples: Vec<[u8; 16]> = (0..count).map(|i| [i; 16]).collect();
                let mut masks = vec![[0; 5]; samples.len()];
                group.throughput(Throughput::Elements(u64::from(count)));
                group.bench_function(BenchmarkId::new(contender.name, count), |b| {
                    b.iter(|| (contender.masks)(black_box(&samples), black_box(&mut masks)));
                });
            }
        }
    }
}

fn initial(c: &mut Criterion) {
    let mut group = c.benchmark_group("Initial keys of both directions, set up and dropped");
    for contender in quic::initial_contenders() {
        group.bench_function(contender.name, |b| b.iter(|| (contender.set_up)(black_box(&[0x5a; 8]))));
    }
}

criterion_group!(benches, packets, masks, initial);
criterion_main!(benches);
