//! What TCP-AO costs per segment, per connection and per SYN, beside the bare MAC on the same octets.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_benches::segment::{self, Established, LENGTH, established};
use wireseal_tcp_ao::shim::ShimSlot;
use wireseal_tcp_ao::{Connection, MasterKey, Segment, TrafficKey, TrafficKeyOctets};

fn segments(c: &mut Criterion) {
    for algorithm in TcpAoAlgorithm::ALL {
        let mut group = c.benchmark_group(format!("segment of {LENGTH} octets, {algorithm}"));
        let ends = established(algorithm, LENGTH);
        let (input, signed) = (ends.mac_input(), ends.tcp.clone());
        let key = TrafficKey::new(&segment::traffic_key(algorithm, ends.sender.pair()));
        assert!(key.mac_key().mac(&[&input]).as_bytes().starts_with(&ends.mac()));
        let Established { mut sender, mut receiver, mut tcp } = ends;
        let (source, destination) = (sender.pair().local.address(), sender.pair().remote.address());

        group.bench_function("bare MAC", |b| {
            b.iter(|| key.mac_key().mac(&[black_box(&input)]));
        });
        group.bench_function("sign", |b| {
            b.iter(|| sender.sign(black_box(&mut tcp)).expect("established"));
        });
        group.bench_function("verify", |b| {
            b.iter(|| {
                let segment =
                    Segment::from_tcp(source, destination, black_box(&signed)).expect("well-formed");
                receiver.verify(&segment).map(drop).expect("signed");
            });
        });
        group.finish();
    }
}

fn connections(c: &mut Criterion) {
    let pair = segment::pair(0);
    let (source, destination) = (pair.local.address(), pair.remote.address());
    for algorithm in TcpAoAlgorithm::ALL {
        let mut group = c.benchmark_group(format!("connection, {algorithm}"));
        let master_key = MasterKey::new(&[1; 32]).expect("32 octets");
        let context = segment::kdf_context(pair);
        group.bench_function("derive one traffic key", |b| {
            b.iter(|| TrafficKeyOctets::derive(algorithm, black_box(&master_key), black_box(&context)));
        });
        group.bench_function("derive one traffic key and set up its MAC", |b| {
            b.iter(|| TrafficKey::derive(algorithm, black_box(&master_key), black_box(&context)));
        });
        let state = established(algorithm, LENGTH).sender.export().expect("established");
        let mkts = segment::mkts(algorithm);
        group.bench_function("derive all keys of a connection with two MKTs", |b| {
            b.iter_batched(|| state, |state| Connection::import(&state, &mkts), BatchSize::SmallInput);
        });
        let syn = segment::syn(algorithm, &mkts);
        let good = Segment::from_tcp(source, destination, &syn).expect("well-formed");
        assert!(mkts.verify_syn(good).is_ok());
        let mut forged = syn.clone();
        *forged.last_mut().expect("not empty") ^= 1;
        let forged = Segment::from_tcp(source, destination, &forged).expect("well-formed");
        assert!(mkts.verify_syn(forged).is_err());
        group.throughput(Throughput::Elements(1));
        group.bench_function("verify a SYN", |b| b.iter(|| mkts.verify_syn(black_box(good)).is_ok()));
        group
            .bench_function("refuse a forged SYN", |b| b.iter(|| mkts.verify_syn(black_box(forged)).is_ok()));
        group.finish();
    }
    println!("octets per connection with room for two MKTs: {}", size_of::<Connection<2>>());
    println!("octets per connection with room for four MKTs: {}", size_of::<Connection<4>>());
    println!("octets per place in a shim's table: {}", size_of::<ShimSlot>());
}

criterion_group!(benches, segments, connections);
criterion_main!(benches);
