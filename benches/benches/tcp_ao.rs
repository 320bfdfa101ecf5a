//! TCP-AO: key derivation, signing and verifying segments, hostile segments, and 1 to 100,000 connections.

mod group;

use std::sync::{Arc, Mutex};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use group::{bench, configuration};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_benches::tcp_ao::{self, BATCH, LENGTH, Router, SHORT_AND_FULL, on_two_threads};
use wireseal_benches::{Contender, shim};

/// One algorithm for each MAC.
const ALGORITHMS: [TcpAoAlgorithm; 3] =
    [TcpAoAlgorithm::Aes128Cmac, TcpAoAlgorithm::HmacSha1, TcpAoAlgorithm::LinuxHmacSha256];

fn keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tcp-ao derive keys");
    for algorithm in TcpAoAlgorithm::ALL {
        bench(&mut group, algorithm, tcp_ao::keys(algorithm));
    }
}

/// A segment with 128 octets after its header. The other libraries compute only its MAC.
fn sign(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tcp-ao sign");
    for algorithm in TcpAoAlgorithm::ALL {
        bench(&mut group, algorithm, tcp_ao::sign(algorithm));
    }
    group.finish();
    let mut group = criterion.benchmark_group("tcp-ao sign, 16 connections at once");
    group.throughput(Throughput::Elements(BATCH as u64));
    for algorithm in TcpAoAlgorithm::ALL {
        bench(&mut group, algorithm, tcp_ao::sign_many(algorithm));
    }
    group.finish();
    let mut group = criterion.benchmark_group("tcp-ao sign, layer by layer");
    for algorithm in TcpAoAlgorithm::ALL {
        bench(&mut group, algorithm, tcp_ao::layers(algorithm));
    }
}

/// Good and forged segments: the cost of a hostile packet.
fn verify(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tcp-ao verify");
    for algorithm in TcpAoAlgorithm::ALL {
        bench(&mut group, algorithm, tcp_ao::verify(algorithm));
    }
    group.finish();
    let mut group = criterion.benchmark_group("tcp-ao shim, 64 full segments");
    group.throughput(Throughput::Elements(shim::BATCH as u64));
    for algorithm in ALGORITHMS {
        bench(&mut group, algorithm, shim::full_segments(algorithm));
    }
}

/// Segments of all connections arrive interleaved; the throughput is in segments.
fn connections(criterion: &mut Criterion) {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let counts = [1, 10, 100, 1_000, 10_000, 100_000];
    let counts = counts.into_iter().filter(|count| !is_test || *count <= 1_000);
    for algorithm in ALGORITHMS {
        let mut group = criterion.benchmark_group(format!("tcp-ao connections, {algorithm}"));
        group.sample_size(10);
        for count in counts.clone() {
            many(&mut group, algorithm, count, &count.to_string(), |_| LENGTH);
        }
        group.finish();
        // Every second connection sends only acknowledgments, so that every batch has both lengths.
        let mut group = criterion.benchmark_group(format!("tcp-ao connections, mixed lengths, {algorithm}"));
        group.sample_size(10);
        many(&mut group, algorithm, 1_000, "1000", |index| SHORT_AND_FULL[index % 2]);
    }
}

fn many(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    algorithm: TcpAoAlgorithm,
    count: usize,
    parameter: &str,
    length: fn(usize) -> usize,
) {
    let router = move |count| Router::new(algorithm, count, length);
    type Make = Box<dyn Fn() -> Contender>;
    let ways: [(&str, usize, Make); 3] = [
        ("one by one", 1, {
            Box::new(move || {
                let mut router = router(count);
                Contender::new("one by one", move || router.one_by_one())
            })
        }),
        ("64 at once", 1, {
            Box::new(move || {
                let mut router = router(count);
                Contender::new("64 at once", move || router.in_batches())
            })
        }),
        ("64 at once, two threads", 2, {
            Box::new(move || {
                let halves = Arc::new([count / 2, count / 2].map(|count| Mutex::new(router(count))));
                Contender::new("64 at once, two threads", move || on_two_threads(&halves))
            })
        }),
    ];
    for (name, threads, make) in ways {
        if count < threads {
            continue;
        }
        let each = count / threads;
        let segments = threads * each * 1_000_usize.div_ceil(each);
        group.throughput(Throughput::Elements(segments as u64));
        // 100,000 handshakes take seconds, so they run only for benchmarks that are selected.
        group.bench_function(BenchmarkId::new(name, parameter), |bencher| {
            let mut contender = make();
            bencher.iter_custom(|runs| contender.time(runs));
        });
    }
}

criterion_group! { name = benches; config = configuration(); targets = keys, sign, verify, connections }
criterion_main!(benches);
