//! QUIC packet protection: key derivation, sealing and opening packets with their header masks, and masks alone.

mod group;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use group::{bench, configuration};
use wireseal_algorithms::AeadAlgorithm;
use wireseal_benches::Contender;
use wireseal_benches::quic::{self, PAYLOADS};

fn packets(criterion: &mut Criterion, verb: &str, contenders: fn(AeadAlgorithm, usize) -> Vec<Contender>) {
    for algorithm in AeadAlgorithm::ALL {
        let mut group = criterion.benchmark_group(format!("quic {verb}, {algorithm}"));
        for payload in PAYLOADS {
            group.throughput(Throughput::Bytes(payload as u64));
            bench(&mut group, payload, contenders(algorithm, payload));
        }
    }
}

fn seal(criterion: &mut Criterion) {
    packets(criterion, "seal", quic::seal);
}

fn open(criterion: &mut Criterion) {
    packets(criterion, "open", quic::open);
}

/// The most that sealing would save if it read the payload from elsewhere: the copying.
fn seal_copied(criterion: &mut Criterion) {
    packets(criterion, "seal copied", quic::seal_copied);
}

fn masks(criterion: &mut Criterion) {
    for algorithm in AeadAlgorithm::ALL {
        let mut group = criterion.benchmark_group(format!("quic masks, {algorithm}"));
        for count in [1, 16] {
            group.throughput(Throughput::Elements(count.into()));
            bench(&mut group, count, quic::masks(algorithm, count));
        }
    }
}

fn keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("quic derive keys");
    for algorithm in AeadAlgorithm::ALL {
        bench(&mut group, algorithm, quic::keys(algorithm));
    }
}

criterion_group! { name = benches; config = configuration(); targets = seal, open, seal_copied, masks, keys }
criterion_main!(benches);
