//! Two unchanged smoltcp stacks talk through authenticated devices.

mod support;

use smoltcp::phy::Medium;
use smoltcp::time::{Duration, Instant};
use support::{ALGORITHMS, Pair, Setup};
use wireseal_tcp_ao::{KeyId, Segment};

#[test]
fn every_algorithm_carries_data_over_both_ip_versions_and_both_media() {
    for algorithm in ALGORITHMS {
        for ipv6 in [false, true] {
            for medium in [Medium::Ip, Medium::Ethernet] {
                let mut pair = Pair::new(&Setup { algorithm, ipv6, medium, ..Setup::default() });
                pair.connect();
                pair.transfer(200_000);
                for end in [&pair.a, &pair.b] {
                    let counters = end.device.shim().counters();
                    assert!(counters.good > 100, "{algorithm} {counters:?}");
                    assert_eq!((counters.bad, counters.key_not_found, counters.required), (0, 0, 0));
                    assert_eq!(end.refused(), [0; 2], "{algorithm} ipv6 {ipv6} {medium:?}");
                }
                assert!(pair.link_packets().all(|packet| {
                    Segment::parse(packet)
                        .is_ok_and(|segment| segment.ao_option().is_ok_and(|ao| ao.is_some()))
                }));
            }
        }
    }
}

#[test]
fn ao_35_full_size_segments_fill_the_mtu_and_never_exceed_it() {
    for (mtu, ipv6) in [(1500, false), (1500, true), (1280, true), (576, false), (9000, false)] {
        let mut pair = Pair::new(&Setup { mtu, ipv6, timestamps: true, ..Setup::default() });
        pair.connect();
        pair.transfer(300_000);
        let longest = pair.link_packets().map(<[u8]>::len).max().unwrap();
        assert!(longest <= mtu, "{longest} octets on a link with an MTU of {mtu}");
        // The room is for the longest option, the MAC here has 12 octets.
        assert!(longest >= mtu - 4, "{longest} octets of {mtu} used");
        let headers = if ipv6 { 60 } else { 40 };
        for syn in
            pair.link_packets().filter_map(|packet| Segment::parse(packet).ok()).filter(|s| s.flags().syn())
        {
            let mss = syn.options().flatten().find(|option| option.kind == 2).unwrap();
            assert_eq!(mss.data, u16::try_from(mtu - headers).unwrap().to_be_bytes());
        }
    }
}

#[test]
fn with_short_buffers_both_ends_send_less_and_longer_frames_are_dropped() {
    for medium in [Medium::Ip, Medium::Ethernet] {
        let mut pair = Pair::new(&Setup { medium, buffer: Some(700), timestamps: true, ..Setup::default() });
        pair.connect();
        pair.transfer(100_000);
        let longest = pair.link_packets().map(<[u8]>::len).max().unwrap();
        let header = if medium == Medium::Ethernet { 14 } else { 0 };
        assert!((690..=700).contains(&(longest + header)), "{longest} octets");
        pair.a.receive_frame(vec![0x45; 701]);
        pair.transfer(1000);
        assert_eq!((pair.a.device.unreadable(), pair.b.device.unreadable()), (1, 0));
    }
}

#[test]
fn ao_35_sack_blocks_make_room_for_the_option() {
    let mut pair = Pair::new(&Setup { mac_length: 16, timestamps: true, loss_every: 19, ..Setup::default() });
    pair.connect();
    pair.transfer(300_000);
    let with_sack = pair
        .link_packets()
        .filter_map(|packet| Segment::parse(packet).ok())
        .filter(|segment| segment.options().flatten().any(|option| option.kind == 5))
        .count();
    assert!(with_sack > 0, "loss must have brought out selective acknowledgments");
    assert_eq!([pair.a.refused()[1], pair.b.refused()[1]], [0; 2]);
}

#[test]
fn a_key_rolls_over_under_traffic() {
    let mut pair = Pair::new(&Setup { second_key: true, ..Setup::default() });
    pair.connect();
    pair.transfer(50_000);
    for (key, other) in [(KeyId(2), KeyId(1)), (KeyId(1), KeyId(2))] {
        let sockets = pair.b.device.shim().connections().next().unwrap().pair();
        pair.b.device.shim_mut().connection_mut(&sockets).unwrap().set_rnext_key(key).unwrap();
        pair.transfer(50_000);
        let current =
            |end: &support::End| end.device.shim().connections().next().unwrap().current_key().send_id;
        assert_eq!(current(&pair.a), key, "the peer was asked to change");
        assert_eq!(current(&pair.b), other, "and asked for nothing itself");
        let sockets = pair.a.device.shim().connections().next().unwrap().pair();
        pair.a.device.shim_mut().connection_mut(&sockets).unwrap().set_rnext_key(key).unwrap();
        pair.transfer(50_000);
        assert_eq!(current(&pair.b), key);
    }
    assert_eq!(pair.a.device.shim().counters().bad + pair.b.device.shim().counters().bad, 0);
    assert_eq!([pair.a.refused(), pair.b.refused()], [[0; 2]; 2]);
}

#[test]
fn a_wrong_secret_lets_nothing_through_and_leaves_no_state() {
    let mut pair = Pair::new(&Setup { wrong_secret: true, ..Setup::default() });
    assert!(!pair.try_connect());
    assert!(pair.b.device.shim().counters().bad > 0);
    assert_eq!(pair.b.device.shim().connections().count(), 0);
}

#[test]
fn a_refused_connection_is_reset_with_a_segment_that_verifies() {
    let mut pair = Pair::new(&Setup { listening: false, ..Setup::default() });
    assert!(!pair.try_connect());
    let counters = pair.a.device.shim().counters();
    assert_eq!((counters.good, counters.bad, counters.required), (1, 0, 0), "the listener's reset");
    assert!(pair.is_reset(), "the stack was told");
    assert_eq!(pair.b.device.shim().connections().count(), 0, "a refused connection is forgotten");
}

#[test]
fn a_silent_session_is_forgotten_by_smoltcps_clock() {
    let mut pair = Pair::new(&Setup::default());
    pair.connect();
    let limit = Duration::from_secs(3 * 3600);
    for (after, left) in [(limit, 1), (limit + Duration::from_secs(60), 0)] {
        // The session has made progress since the clock began.
        pair.b.device.expire(Instant::ZERO + after);
        assert_eq!(pair.b.device.shim().connections().count(), left);
    }
}
