//! What TCP-AO costs per segment, per connection and per SYN, beside the bare MAC on the same octets.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_benches::{established, mkts, pair, segment};
use wireseal_tcp_ao::shim::ShimSlot;
use wireseal_tcp_ao::{
    Connection, Isn, KdfContext, MasterKey, Segment, Sne, TrafficKey, TrafficKeyOctets, segment_mac,
};

/// Octets of the segments, headers included.
const LENGTH: usize = 128;

fn segments(c: &mut Criterion) {
    let pair = pair();
    let (source, destination) = (pair.local.address(), pair.remote.address());
    for algorithm in TcpAoAlgorithm::ALL {
        let mut group = c.benchmark_group(format!("segment of {LENGTH} octets, {algorithm}"));
        let mut ends = established(algorithm, LENGTH);
        let parameters = *ends.sender.current_key();
        let master_key = MasterKey::new(&[1; 32]).expect("32 octets");
        let context = KdfContext::send_other(pair, Isn(1000), Isn(5000));
        let key = TrafficKey::derive(algorithm, &master_key, &context);

        // The MAC input, in the two slices that the segment layer gives to the MAC, written out once.
        let signed = ends.tcp.clone();
        let parsed = Segment::from_tcp(source, destination, &signed).expect("well-formed");
        let ao = parsed.ao_option().expect("well-formed").expect("signed");
        let mut prefix = vec![0, 0, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 6, 0, LENGTH as u8];
        prefix.extend_from_slice(parsed.header());
        let header = &mut prefix[16..];
        header[16..18].fill(0);
        header[20 + ao.offset + 4..][..ao.mac.len()].fill(0);
        let expected = segment_mac(&key, Sne(0), &parsed, &ao, parameters.options);
        assert_eq!(key.mac_key().mac(&[&prefix, parsed.payload()]).as_bytes(), expected.as_bytes());
        assert_eq!(ao.mac, expected.truncated(ao.mac.len()));

        group.bench_function("bare MAC", |b| {
            b.iter(|| key.mac_key().mac(&[black_box(&prefix), black_box(parsed.payload())]));
        });
        group.bench_function("sign", |b| {
            b.iter(|| ends.sender.sign(black_box(&mut ends.tcp)).expect("established"));
        });
        group.bench_function("verify", |b| {
            b.iter(|| {
                let segment =
                    Segment::from_tcp(source, destination, black_box(&signed)).expect("well-formed");
                ends.receiver.verify(&segment).map(drop).expect("signed");
            });
        });
        group.finish();
    }
}

fn connections(c: &mut Criterion) {
    let pair = pair();
    let (source, destination) = (pair.local.address(), pair.remote.address());
    for algorithm in TcpAoAlgorithm::ALL {
        let mut group = c.benchmark_group(format!("connection, {algorithm}"));
        let master_key = MasterKey::new(&[1; 32]).expect("32 octets");
        let context = KdfContext::send_other(pair, Isn(1000), Isn(5000));
        group.bench_function("derive one traffic key", |b| {
            b.iter(|| TrafficKeyOctets::derive(algorithm, black_box(&master_key), black_box(&context)));
        });
        group.bench_function("derive one traffic key and set up its MAC", |b| {
            b.iter(|| TrafficKey::derive(algorithm, black_box(&master_key), black_box(&context)));
        });
        let state = established(algorithm, LENGTH).sender.export().expect("established");
        let mkts = mkts(algorithm);
        group.bench_function("derive all keys of a connection with two MKTs", |b| {
            b.iter_batched(|| state, |state| Connection::import(&state, &mkts), BatchSize::SmallInput);
        });
        let mut syn = segment(&pair, 1000, 0x02, algorithm.default_mac_length(), 0);
        let mut connection = Connection::active(pair, Isn(1000), &mkts).expect("there is a key");
        connection.sign(&mut syn).expect("a SYN");
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
