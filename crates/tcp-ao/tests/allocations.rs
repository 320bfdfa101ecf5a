//! The allocator counts here: signing, verifying and shaking hands never ask it for anything.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod support;

use allocation_counter::measure;
use support::{ACK, Ends, Parts, SYN, TIMESTAMPS, ipv4_pair, ipv6_pair, mkt, packet, set_checksum, view};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Connection, IcmpError, Isn, KeyId, MktSet, Segment};

#[test]
fn ao_37_the_counter_counts() {
    assert_eq!(measure(|| drop(std::hint::black_box(vec![1u8; 100]))).count_total, 1);
}

#[test]
fn ao_37_signing_and_verifying_allocate_nothing() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        for algorithm in TcpAoAlgorithm::ALL {
            let ours = MktSet::<2>::from_mkts([mkt(1, 2, algorithm), mkt(3, 4, algorithm)]).unwrap();
            let theirs = MktSet::from_mkts([mkt(2, 1, algorithm), mkt(4, 3, algorithm)]).unwrap();
            let mut ends = Ends::connect(pair, (1, 2), &ours, &theirs);
            let data = Parts::new(pair, ACK, ends.active_next, 3).options(&TIMESTAMPS).payload(&[9; 1400]);
            let mut tcp = data.with_ao(ends.active.current_key().mac_length);
            let signing = measure(|| ends.active.sign(&mut tcp).unwrap());
            set_checksum(pair, &mut tcp);
            let ip_packet = packet(pair, &tcp);
            let verifying = measure(|| {
                let segment = Segment::parse(&ip_packet).unwrap();
                ends.passive.verify(&segment).unwrap();
            });
            let mut forged = ip_packet.clone();
            let last = forged.len() - 1;
            forged[last] ^= 1;
            let refusing = measure(|| {
                assert!(ends.passive.verify(&Segment::parse(&forged).unwrap()).is_err());
                assert!(IcmpError::parse(&forged).is_none());
            });
            assert_eq!(
                [signing.count_total, verifying.count_total, refusing.count_total],
                [0, 0, 0],
                "{algorithm}"
            );
        }
    }
}

#[test]
fn ao_37_a_handshake_and_its_keys_allocate_nothing() {
    for algorithm in TcpAoAlgorithm::ALL {
        let (pair, reversed) = (ipv4_pair(), ipv4_pair().reversed());
        let ours = MktSet::<2>::from_mkts([mkt(1, 2, algorithm)]).unwrap();
        let theirs = MktSet::<2>::from_mkts([mkt(2, 1, algorithm)]).unwrap();
        let length = ours.preferred().unwrap().parameters().mac_length;
        let mut syn = Parts::new(pair, SYN, 100, 0).with_ao(length);
        let mut syn_ack = Parts::new(reversed, SYN | ACK, 700, 101).with_ao(length);
        let mut ack = Parts::new(pair, ACK, 101, 701).with_ao(length);
        let another = mkt(7, 8, algorithm);
        let handshake = measure(|| {
            let mut active = Connection::active(pair, Isn(100), &ours).unwrap();
            active.sign(&mut syn).unwrap();
            let mut passive = Connection::passive(&theirs.verify_syn(view(pair, &syn)).unwrap());
            passive.sign(&mut syn_ack).unwrap();
            active.verify(&view(reversed, &syn_ack)).unwrap();
            active.sign(&mut ack).unwrap();
            passive.verify(&view(pair, &ack)).unwrap();
            assert!(active.is_established() && passive.is_established());
            active.add_key(&another).unwrap();
            active.remove_key(KeyId(1), Some(KeyId(7))).unwrap();
            let state = passive.export().unwrap();
            passive = Connection::import(&state, &theirs).unwrap();
            passive.replace_keys(&theirs).unwrap();
        });
        assert_eq!(handshake.count_total, 0, "{algorithm}");
    }
}
