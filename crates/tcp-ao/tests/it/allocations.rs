//! Signing, verifying and handshakes allocate nothing, in connections and in the shim.

use allocation_counter::measure;

use crate::shim_support::*;
use crate::support::*;

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
            let mut tcp = data.with_ao(ends.active.current_key().mac_length());
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
        let length = ours.preferred().unwrap().parameters().mac_length();
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

#[test]
fn ao_37_no_segment_allocates_in_either_direction() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut link = Link::connected(pair);
        let data = link.client_data(&[0x5a; 1000]).options(&TIMESTAMPS).build();
        let forged = link.client_data(b"forged").build();
        let mut buffer = vec![0; OPTION_ROOM + data.len()];
        let mut good = 0;
        let used = measure(|| {
            for _ in 0..1000 {
                buffer[OPTION_ROOM..].copy_from_slice(&data);
                let range = link.client.outbound(link.now, &mut buffer, OPTION_ROOM).unwrap();
                good += usize::from(link.server.inbound(link.now, &mut buffer[range]).is_ok());
            }
        });
        assert_eq!((good, used.count_total), (1000, 0));
        let mut forged_buffer = forged.clone();
        let used = measure(|| {
            for _ in 0..1000 {
                assert!(link.server.inbound(link.now, &mut forged_buffer).is_err());
            }
        });
        assert_eq!(used.count_total, 0);
    }
}

#[test]
fn ao_37_neither_handshakes_nor_new_keys_allocate() {
    let pair = ipv4_pair();
    let mut link = Link::with_ids(pair, &[(1, 2)]);
    let syn = Packet::new(pair, SYN, 1, 0).build();
    let mut buffer = [&[0; OPTION_ROOM], &syn[..]].concat();
    let next = mkts(&[(1, 2), (3, 4)]);
    let used = measure(|| {
        let range = link.client.outbound(link.now, &mut buffer, OPTION_ROOM).unwrap();
        link.server.inbound(link.now, &mut buffer[range]).unwrap();
        link.client.set_mkts(0, next).unwrap();
        link.server.expire(link.now);
    });
    assert_eq!(used.count_total, 0);
    assert_eq!((link.client.connections().count(), link.server.connections().count()), (1, 1));
}
