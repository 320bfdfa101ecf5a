//! AEADs alone: messages of 64 octets to 1 MiB, sealed and opened in place.

mod group;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use group::{bench, configuration};
use wireseal_algorithms::AeadAlgorithm;
use wireseal_benches::Contender;
use wireseal_benches::aead::{self, LENGTHS};

fn messages(criterion: &mut Criterion, verb: &str, contenders: fn(AeadAlgorithm, usize) -> Vec<Contender>) {
    for algorithm in AeadAlgorithm::ALL {
        let mut group = criterion.benchmark_group(format!("aead {verb}, {}", aead::name(algorithm)));
        for length in LENGTHS {
            group.throughput(Throughput::Bytes(length as u64));
            bench(&mut group, length, contenders(algorithm, length));
        }
    }
}

fn seal(criterion: &mut Criterion) {
    messages(criterion, "seal", aead::seal);
}

fn open(criterion: &mut Criterion) {
    messages(criterion, "open", aead::open);
}

criterion_group! { name = benches; config = configuration(); targets = seal, open }
criterion_main!(benches);
