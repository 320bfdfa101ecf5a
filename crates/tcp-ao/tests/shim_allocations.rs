//! Heap use of the shim once it is set up.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod shim_support;
mod support;

use shim_support::{Link, Packet};
use support::{SYN, TIMESTAMPS, ipv4_pair, ipv6_pair, mkts};
use wireseal_tcp_ao::shim::OPTION_ROOM;

#[test]
fn ao_37_no_segment_allocates_in_either_direction() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut link = Link::connected(pair);
        let data = link.client_data(&[0x5a; 1000]).options(&TIMESTAMPS).build();
        let forged = link.client_data(b"forged").build();
        let mut buffer = vec![0; OPTION_ROOM + data.len()];
        let mut good = 0;
        let used = allocation_counter::measure(|| {
            for _ in 0..1000 {
                buffer[OPTION_ROOM..].copy_from_slice(&data);
                let range = link.client.outbound(link.now, &mut buffer, OPTION_ROOM).unwrap();
                good += usize::from(link.server.inbound(link.now, &mut buffer[range]).is_ok());
            }
        });
        assert_eq!((good, used.count_total), (1000, 0));
        let mut forged_buffer = forged.clone();
        let used = allocation_counter::measure(|| {
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
    let used = allocation_counter::measure(|| {
        let range = link.client.outbound(link.now, &mut buffer, OPTION_ROOM).unwrap();
        link.server.inbound(link.now, &mut buffer[range]).unwrap();
        link.client.set_mkts(0, next).unwrap();
        link.server.expire(link.now);
    });
    assert_eq!(used.count_total, 0);
    assert_eq!((link.client.connections().count(), link.server.connections().count()), (1, 1));
}

#[test]
fn ao_37_the_measurement_sees_an_allocation() {
    let used = allocation_counter::measure(|| drop(std::hint::black_box(vec![0_u8; 100])));
    assert_eq!(used.count_total, 1);
}
