//! A connection from its first SYN to TIME-WAIT.

use crate::support::{
    ACK, Ends, FIN, Parts, RST, SYN, TIMESTAMPS, ipv4_pair, ipv6_pair, mirrored, mkt, mkts, receive,
    segment_mac, view,
};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{
    Connection, Counters, Isn, KdfContext, KeyId, MktSet, Segment, SignError, Sne, TrafficKey, VerifyError,
};

const IDS: [(u8, u8); 1] = [(61, 84)];

fn active() -> Connection<1> {
    Connection::active(ipv4_pair(), Isn(100), &mkts(&IDS)).unwrap()
}

/// The listener's connection that a SYN opens.
fn passive(syn: &[u8]) -> Connection<1> {
    Connection::passive(&mirrored::<1>(&IDS).verify_syn(view(ipv4_pair(), syn)).unwrap())
}

/// An active end, its SYN, and the passive end that has received it.
fn half_open() -> (Connection<1>, Vec<u8>, Connection<1>) {
    let mut active = active();
    let syn = Parts::new(ipv4_pair(), SYN, 100, 0).signed(&mut active);
    let passive = passive(&syn);
    (active, syn, passive)
}

/// A connection's answer to everything but its counters: what a refused segment must not change.
fn state<const N: usize>(connection: &Connection<N>) -> String {
    let shown = format!("{connection:?}");
    let all_but_counters = shown.split_once(", counters: ").unwrap().0;
    format!(
        "{all_but_counters} {:?} {:?} {:?} {:?} {:?}",
        connection.local_isn(),
        connection.remote_isn(),
        connection.current_key(),
        connection.rnext_key(),
        connection.keys().collect::<Vec<_>>(),
    )
}

#[test]
fn ao_06_every_algorithm_and_family_shakes_hands() {
    for algorithm in TcpAoAlgorithm::ALL {
        for pair in [ipv4_pair(), ipv6_pair()] {
            let active_mkts = MktSet::<3>::from_mkts([mkt(61, 84, algorithm)]).unwrap();
            let passive_mkts = MktSet::from_mkts([mkt(84, 61, algorithm)]).unwrap();
            let mut ends = Ends::connect(pair, (0xffff_ffff, 0), &active_mkts, &passive_mkts);
            ends.exchange();
            assert_eq!(ends.active.counters(), Counters { good: 2, ..Counters::default() });
            assert_eq!(ends.passive.counters(), Counters { good: 3, ..Counters::default() });
        }
    }
}

#[test]
fn ao_06_syn_and_syn_ack_are_signed_with_the_keys_of_rfc_5925() {
    let (mut active, syn, mut passive) = half_open();
    let syn_ack = Parts::new(ipv4_pair().reversed(), SYN | ACK, 700, 101).signed(&mut passive);
    let (client, server) = (ipv4_pair().local, ipv4_pair().remote);
    let syn_context = KdfContext::syn(client, server, Isn(100));
    let syn_ack_context =
        KdfContext { source: server, destination: client, source_isn: Isn(700), destination_isn: Isn(100) };
    let mkt = mkt(61, 84, TcpAoAlgorithm::HmacSha1);
    for (pair, tcp, context) in
        [(ipv4_pair(), &syn, syn_context), (ipv4_pair().reversed(), &syn_ack, syn_ack_context)]
    {
        let key = TrafficKey::derive(&mkt, &context);
        let segment = view(pair, tcp);
        let ao = segment.ao_option().unwrap().unwrap();
        assert_eq!(
            segment_mac(&key, Sne(0), mkt.parameters().options, &segment).unwrap().truncated(12),
            ao.mac
        );
    }
    assert_eq!((passive.local_isn(), passive.remote_isn()), (Some(Isn(700)), Some(Isn(100))));
    assert_eq!((active.local_isn(), active.remote_isn()), (Some(Isn(100)), None));
    receive(&mut active, &syn_ack).unwrap();
    assert_eq!(active.remote_isn(), Some(Isn(700)));
}

#[test]
fn ao_06_a_repeated_syn_may_be_answered_with_another_isn() {
    let (mut active, syn, mut passive) = half_open();
    drop(Parts::new(ipv4_pair().reversed(), SYN | ACK, 700, 101).signed(&mut passive));
    // The stack has forgotten the half-open connection, or never kept it (SYN cookies).
    receive(&mut passive, &syn).unwrap();
    let syn_ack = Parts::new(ipv4_pair().reversed(), SYN | ACK, 900, 101).signed(&mut passive);
    assert_eq!(passive.local_isn(), Some(Isn(900)));
    receive(&mut active, &syn_ack).unwrap();
    let ack = Parts::new(ipv4_pair(), ACK, 101, 901).signed(&mut active);
    receive(&mut passive, &ack).unwrap();
    let data = Parts::new(ipv4_pair().reversed(), ACK, 901, 101).payload(b"data").signed(&mut passive);
    receive(&mut active, &data).unwrap();
    // Once established, the ISN is what both ends have agreed on.
    let mut other = Parts::new(ipv4_pair().reversed(), SYN | ACK, 1000, 101).with_ao(12);
    passive.sign(&mut other).unwrap();
    assert_eq!(passive.local_isn(), Some(Isn(900)));
}

#[test]
fn ao_06_a_listener_that_is_gone_resets_a_repeated_syn() {
    let (mut active, syn, mut passive) = half_open();
    drop(Parts::new(ipv4_pair().reversed(), SYN | ACK, 700, 101).signed(&mut passive));
    receive(&mut passive, &syn).unwrap();
    let reset = Parts::new(ipv4_pair().reversed(), RST | ACK, 0, 101).signed(&mut passive);
    receive(&mut active, &reset).unwrap();
}

#[test]
fn ao_06_both_ends_may_open_at_once() {
    let (mut left, mut right) = (
        Connection::<1>::active(ipv4_pair(), Isn(0xffff_ffff), &mkts(&IDS)).unwrap(),
        Connection::<1>::active(ipv4_pair().reversed(), Isn(3), &mirrored(&IDS)).unwrap(),
    );
    let left_syn = Parts::new(ipv4_pair(), SYN, 0xffff_ffff, 0).signed(&mut left);
    let right_syn = Parts::new(ipv4_pair().reversed(), SYN, 3, 0).signed(&mut right);
    receive(&mut left, &right_syn).unwrap();
    receive(&mut right, &left_syn).unwrap();
    assert!(!left.is_established() && !right.is_established());
    let left_syn_ack = Parts::new(ipv4_pair(), SYN | ACK, 0xffff_ffff, 4).signed(&mut left);
    let right_syn_ack = Parts::new(ipv4_pair().reversed(), SYN | ACK, 3, 0).signed(&mut right);
    receive(&mut left, &right_syn_ack).unwrap();
    receive(&mut right, &left_syn_ack).unwrap();
    assert!(left.is_established() && right.is_established());
    let data = Parts::new(ipv4_pair(), ACK, 0, 4).payload(b"forth").signed(&mut left);
    receive(&mut right, &data).unwrap();
    let data = Parts::new(ipv4_pair().reversed(), ACK, 4, 5).payload(b"back").signed(&mut right);
    receive(&mut left, &data).unwrap();
    assert_eq!((left.counters().good, right.counters().good), (3, 3));
}

#[test]
fn ao_06_a_replayed_syn_does_not_spoil_an_open() {
    // The peer's own SYN of an earlier day, between the same ports.
    let mut earlier = Connection::<1>::active(ipv4_pair().reversed(), Isn(42), &mirrored(&IDS)).unwrap();
    let replayed = Parts::new(ipv4_pair().reversed(), SYN, 42, 0).signed(&mut earlier);
    let mut active = active();
    let syn = Parts::new(ipv4_pair(), SYN, 100, 0).signed(&mut active);
    receive(&mut active, &replayed).unwrap();
    assert_eq!(active.remote_isn(), Some(Isn(42)), "it looks like a simultaneous open");
    let mut passive = passive(&syn);
    let syn_ack = Parts::new(ipv4_pair().reversed(), SYN | ACK, 700, 101).signed(&mut passive);
    receive(&mut active, &syn_ack).unwrap();
    assert!(active.is_established());
    assert_eq!(active.remote_isn(), Some(Isn(700)), "the SYN-ACK answers this SYN, and no replay can");
    let data = Parts::new(ipv4_pair(), ACK, 101, 701).payload(b"data").signed(&mut active);
    receive(&mut passive, &data).unwrap();
}

#[test]
fn ao_06_syns_may_be_lost_and_repeated() {
    let mut active = active();
    let syn = Parts::new(ipv4_pair(), SYN, 100, 0).signed(&mut active);
    let again = Parts::new(ipv4_pair(), SYN, 100, 0).options(&[2, 4, 5, 0xb4]).signed(&mut active);
    let mut passive = passive(&syn);
    receive(&mut passive, &again).unwrap();
    Parts::new(ipv4_pair().reversed(), SYN | ACK, 700, 101).signed(&mut passive);
    receive(&mut passive, &syn).unwrap();
    let syn_ack = Parts::new(ipv4_pair().reversed(), SYN | ACK, 700, 101).signed(&mut passive);
    receive(&mut active, &syn_ack).unwrap();
    // The SYN-ACK repeated, as its ACK was lost.
    let syn_ack = Parts::new(ipv4_pair().reversed(), SYN | ACK, 700, 101).signed(&mut passive);
    receive(&mut active, &syn_ack).unwrap();
    let ack = Parts::new(ipv4_pair(), ACK, 101, 701).signed(&mut active);
    receive(&mut passive, &ack).unwrap();
    assert!(passive.is_established());
}

#[test]
fn ao_06_an_established_connection_takes_no_syn() {
    let mut ends = Ends::<1>::with_ids(&IDS);
    let mut twin = Connection::active(ipv4_pair(), Isn(0x1000_0000), &mkts::<1>(&IDS)).unwrap();
    let old_syn = Parts::new(ipv4_pair(), SYN, 0x1000_0000, 0).signed(&mut twin);
    let before = state(&ends.passive);
    assert_eq!(receive(&mut ends.passive, &old_syn).unwrap_err(), VerifyError::State);
    assert_eq!(state(&ends.passive), before);
    let mut syn = Parts::new(ipv4_pair(), SYN, 5, 0).with_ao(12);
    assert_eq!(ends.active.sign(&mut syn), Err(SignError::State));
    ends.exchange();
}

#[test]
fn ao_06_a_handshake_signs_only_what_fits_its_state() {
    let mut active = active();
    for (flags, sequence) in [(SYN, 101), (SYN | ACK, 100), (ACK, 101), (RST, 101)] {
        let mut tcp = Parts::new(ipv4_pair(), flags, sequence, 0).with_ao(12);
        let before = (tcp.clone(), state(&active));
        assert_eq!(active.sign(&mut tcp), Err(SignError::State), "flags {flags:#x}");
        assert_eq!((tcp, state(&active)), before);
    }
    let syn = Parts::new(ipv4_pair(), SYN, 100, 0).signed(&mut active);
    let mut passive = passive(&syn);
    let mut early = Parts::new(ipv4_pair().reversed(), ACK, 701, 101).with_ao(12);
    assert_eq!(passive.sign(&mut early), Err(SignError::State));
    // A SYN-ACK that could not be signed gives the connection no ISN.
    let mut no_room = Parts::new(ipv4_pair().reversed(), SYN | ACK, 699, 101).unsigned();
    assert_eq!(passive.sign(&mut no_room), Err(SignError::NoOption));
    assert_eq!(passive.local_isn(), None);
    Parts::new(ipv4_pair().reversed(), SYN | ACK, 700, 101).signed(&mut passive);
    let mut elsewhere = Parts::new(ipv4_pair(), ACK, 1, 1).with_ao(12);
    let before = elsewhere.clone();
    assert_eq!(passive.sign(&mut elsewhere), Err(SignError::OtherConnection));
    assert_eq!(elsewhere, before);
}

#[test]
fn ao_06_a_listener_takes_nothing_but_syns() {
    let listener = mirrored::<1>(&IDS);
    let mut ends = Ends::<1>::with_ids(&IDS);
    let data = ends.active_data(b"not a SYN");
    assert_eq!(listener.verify_syn(view(ipv4_pair(), &data)).unwrap_err(), VerifyError::State);
    for flags in [SYN | ACK, SYN | RST, RST, FIN] {
        let tcp = Parts::new(ipv4_pair(), flags, 100, 0).with_ao(12);
        assert_eq!(listener.verify_syn(view(ipv4_pair(), &tcp)).unwrap_err(), VerifyError::State);
    }
    let mut syn = Parts::new(ipv4_pair(), SYN, 100, 0).signed(&mut active());
    assert!(listener.verify_syn(view(ipv4_pair(), &syn)).is_ok());
    assert_eq!(
        mkts::<1>(&[(84, 62)]).verify_syn(view(ipv4_pair(), &syn)).unwrap_err(),
        VerifyError::UnknownKeyId(KeyId(61))
    );
    syn[4] ^= 1;
    assert_eq!(
        listener.verify_syn(view(ipv4_pair(), &syn)).unwrap_err(),
        VerifyError::BadMac { key_id: KeyId(61) }
    );
    let short = Parts::new(ipv4_pair(), SYN, 100, 0).with_ao(8);
    let no_ids = VerifyError::UnknownKeyId(KeyId(0));
    assert_eq!(listener.verify_syn(view(ipv4_pair(), &short)).unwrap_err(), no_ids);
    let unsigned = Parts::new(ipv4_pair(), SYN, 100, 0).unsigned();
    assert_eq!(listener.verify_syn(view(ipv4_pair(), &unsigned)).unwrap_err(), VerifyError::Unsigned);
}

#[test]
fn ao_16_a_syn_with_another_mac_length_is_rejected_before_its_key_is_derived() {
    let listener = mirrored::<1>(&IDS);
    let mut syn = Parts::new(ipv4_pair(), SYN, 100, 0).with_ao(16);
    syn[22] = 61;
    let error = VerifyError::MacLength { expected: 12, got: 16 };
    assert_eq!(listener.verify_syn(view(ipv4_pair(), &syn)).unwrap_err(), error);
}

#[test]
fn ao_18_a_wrong_mac_changes_nothing_but_its_counter() {
    let mut ends = Ends::<2>::with_ids(&[(1, 2), (3, 4)]);
    let segment = ends.active_data(b"payload");
    for bit in 0..segment.len() * 8 {
        let mut altered = segment.clone();
        altered[bit / 8] ^= 0x80 >> (bit % 8);
        let before = (state(&ends.passive), ends.passive.counters());
        let addresses = (ipv4_pair().local.address(), ipv4_pair().remote.address());
        let Ok(view) = Segment::from_tcp(addresses.0, addresses.1, &altered) else {
            continue;
        };
        if (16..18).contains(&(bit / 8)) {
            continue;
        }
        assert!(ends.passive.verify(&view).is_err(), "bit {bit}");
        assert_eq!(state(&ends.passive), before.0, "bit {bit}");
        let counters = ends.passive.counters();
        let refused = |counters: &Counters| counters.bad + counters.key_not_found + counters.required;
        assert_eq!(counters.good, before.1.good);
        let is_port = bit / 8 < 4;
        assert_eq!(refused(&counters), refused(&before.1) + u64::from(!is_port), "bit {bit}");
    }
    receive(&mut ends.passive, &segment).unwrap();
}

#[test]
fn ao_18_a_forged_number_does_not_turn_the_circle() {
    let mut ends = Ends::<1>::with_ids(&IDS);
    let far = ends.active_next.wrapping_add(0x7000_0000);
    let mut forged = Parts::new(ipv4_pair(), ACK, far, ends.passive_next).with_ao(12);
    forged[22..24].copy_from_slice(&[61, 84]);
    for _ in 0..4 {
        assert_eq!(
            receive(&mut ends.passive, &forged).unwrap_err(),
            VerifyError::BadMac { key_id: KeyId(61) }
        );
    }
    ends.exchange();
}

#[test]
fn ao_20_an_unknown_key_id_is_counted_apart_from_a_bad_mac() {
    let mut ends = Ends::<2>::with_ids(&[(1, 2)]);
    ends.active.add_key(&mkt(3, 4, TcpAoAlgorithm::HmacSha1)).unwrap();
    ends.active.set_current_key(KeyId(3)).unwrap();
    let segment = ends.active_data(b"under a key that the peer lacks");
    let before = state(&ends.passive);
    assert_eq!(receive(&mut ends.passive, &segment).unwrap_err(), VerifyError::UnknownKeyId(KeyId(3)));
    assert_eq!(state(&ends.passive), before);
    assert_eq!((ends.passive.counters().key_not_found, ends.passive.counters().bad), (1, 0));
    ends.passive.add_key(&mkt(4, 3, TcpAoAlgorithm::HmacSha1)).unwrap();
    receive(&mut ends.passive, &segment).unwrap();
}

#[test]
fn ao_21_an_unsigned_segment_is_dropped_and_counted_apart() {
    let mut ends = Ends::<1>::with_ids(&IDS);
    for flags in [ACK, SYN | ACK, RST, RST | ACK, FIN | ACK, SYN] {
        let unsigned = Parts::new(ipv4_pair(), flags, ends.active_next, 1).options(&TIMESTAMPS).unsigned();
        let before = state(&ends.passive);
        assert_eq!(receive(&mut ends.passive, &unsigned).unwrap_err(), VerifyError::Unsigned);
        assert_eq!(state(&ends.passive), before);
    }
    let expected = Counters { good: 2, required: 6, ..Counters::default() };
    assert_eq!(ends.passive.counters(), expected);
    let mut active = active();
    let unsigned = Parts::new(ipv4_pair().reversed(), SYN | ACK, 700, 101).unsigned();
    assert_eq!(receive(&mut active, &unsigned).unwrap_err(), VerifyError::Unsigned);
    assert_eq!(active.remote_isn(), None);
}

#[test]
fn ao_27_counters_are_those_of_linux() {
    let mut ends = Ends::<1>::with_ids(&IDS);
    let good = ends.active_data(b"good");
    let mut bad = good.clone();
    bad[50] ^= 1;
    let mut unknown = good.clone();
    unknown[34] = 99;
    let unsigned = Parts::new(ipv4_pair(), ACK, 1, 1).unsigned();
    let mut other_length = Parts::new(ipv4_pair(), ACK, 1, 1).with_ao(4);
    other_length[22] = 61;
    let malformed = Parts::new(ipv4_pair(), ACK, 1, 1).options(&[29, 3, 0, 0]).unsigned();
    let mut elsewhere = good.clone();
    elsewhere[0] ^= 1;
    let segments = [
        (&good, 1),
        (&bad, 2),
        (&unknown, 3),
        (&unsigned, 4),
        (&other_length, 5),
        (&malformed, 6),
        (&elsewhere, 7),
    ];
    for (segment, times) in segments {
        for _ in 0..times {
            let _ = receive(&mut ends.passive, segment);
        }
    }
    // Two good ones from the handshake; other lengths and malformed options are bad, other connections count nowhere.
    let expected = Counters { good: 3, bad: 2 + 5 + 6, key_not_found: 3, required: 4, dropped_icmp: 0 };
    assert_eq!(ends.passive.counters(), expected);
}

#[test]
fn ao_29_retransmissions_across_the_wrap_in_both_directions() {
    let near = (0xffff_fff0, 0xffff_ffe0);
    let mut ends = Ends::<1>::connect(ipv4_pair(), near, &mkts(&IDS), &mirrored(&IDS));
    let (active_start, passive_start) = (ends.active_next, ends.passive_next);
    let first = ends.active_data(&[1; 10]);
    for _ in 0..3 {
        let segment = ends.active_data(&[2; 100]);
        receive(&mut ends.passive, &segment).unwrap();
        let segment = ends.passive_data(&[3; 100]);
        receive(&mut ends.active, &segment).unwrap();
    }
    assert!(ends.active_next < 0x1000 && ends.passive_next < 0x1000, "both directions have wrapped");
    assert_eq!(ends.active.highest_sent().0, Sne(1));
    assert_eq!(ends.active.highest_received().0, Sne(1));
    // The first copy comes late; then each end repeats its first segment.
    receive(&mut ends.passive, &first).unwrap();
    let again =
        Parts::new(ipv4_pair(), ACK, active_start, passive_start).payload(&[1; 10]).signed(&mut ends.active);
    receive(&mut ends.passive, &again).unwrap();
    let again = Parts::new(ipv4_pair().reversed(), ACK, passive_start, active_start)
        .payload(&[3; 100])
        .signed(&mut ends.passive);
    receive(&mut ends.active, &again).unwrap();
    ends.exchange();
    assert_eq!((ends.active.counters().bad, ends.passive.counters().bad), (0, 0));
}

#[test]
fn ao_29_a_segment_of_the_turn_before_does_not_verify_in_this_one() {
    let mut ends = Ends::<1>::connect(ipv4_pair(), (10, 20), &mkts(&IDS), &mirrored(&IDS));
    let old = ends.active_data(b"of the first turn");
    receive(&mut ends.passive, &old).unwrap();
    let start = ends.active_next;
    for quarter in 1..=4u32 {
        ends.active_next = start.wrapping_add(quarter.wrapping_mul(0x4000_0000));
        let segment = ends.active_data(b"");
        receive(&mut ends.passive, &segment).unwrap();
    }
    assert_eq!(ends.passive.highest_received().0, Sne(1));
    assert_eq!(receive(&mut ends.passive, &old).unwrap_err(), VerifyError::BadMac { key_id: KeyId(61) });
}

#[test]
fn ao_30_isn_of_all_ones_wraps_during_the_handshake() {
    let all_ones = (0xffff_ffff, 0xffff_ffff);
    let mut ends = Ends::<1>::connect(ipv4_pair(), all_ones, &mkts(&IDS), &mirrored(&IDS));
    assert_eq!((ends.active_next, ends.passive_next), (0, 0));
    ends.exchange();
    assert_eq!(ends.active.highest_sent().0, Sne(1));
    assert_eq!(ends.passive.highest_sent().0, Sne(1));
}

#[test]
fn ao_30_a_keepalive_from_before_the_isn_has_sne_zero() {
    // A keep-alive probe takes the sequence number before the next one: with ISN 0 and SYN acknowledged, the ISN's.
    let mut ends = Ends::<1>::connect(ipv4_pair(), (0, 0), &mkts(&IDS), &mirrored(&IDS));
    for sequence in [0, 0xffff_ffff, 0xffff_fff0] {
        let probe = Parts::new(ipv4_pair(), ACK, sequence, 1).signed(&mut ends.active);
        receive(&mut ends.passive, &probe).unwrap();
    }
    assert_eq!(ends.passive.highest_received().0, Sne(0));
    ends.exchange();
}

#[test]
fn ao_31_a_reset_is_signed_and_verified_like_any_segment() {
    let mut ends = Ends::<1>::with_ids(&IDS);
    for flags in [RST, RST | ACK] {
        let unsigned = Parts::new(ipv4_pair(), flags, ends.active_next, ends.passive_next).unsigned();
        assert_eq!(receive(&mut ends.passive, &unsigned).unwrap_err(), VerifyError::Unsigned);
        let signed =
            Parts::new(ipv4_pair(), flags, ends.active_next, ends.passive_next).signed(&mut ends.active);
        let verified = receive(&mut ends.passive, &signed).unwrap();
        assert!(verified.segment().flags().rst());
        let mut forged = signed.clone();
        forged[7] ^= 1;
        assert!(receive(&mut ends.passive, &forged).is_err());
    }
}

#[test]
fn ao_31_a_half_open_connection_resets_and_is_reset() {
    let (mut active, _, mut passive) = half_open();
    let syn_ack = Parts::new(ipv4_pair().reversed(), SYN | ACK, 700, 101).signed(&mut passive);
    receive(&mut active, &syn_ack).unwrap();
    // The client thinks better of it before its ACK has arrived.
    let reset = Parts::new(ipv4_pair(), RST, 101, 0).signed(&mut active);
    assert!(receive(&mut passive, &reset).unwrap().segment().flags().rst());
    assert!(!passive.is_established());
    // And the server, still in SYN-RECEIVED, gives up.
    let reset = Parts::new(ipv4_pair().reversed(), RST | ACK, 701, 101).signed(&mut passive);
    receive(&mut active, &reset).unwrap();
}

#[test]
fn ao_32_a_listeners_stateless_reset_verifies_at_the_peer() {
    let (mut active, _, mut refusing) = half_open();
    // RFC 9293 §3.10.7.1: sequence number 0, the SYN acknowledged.
    let reset = Parts::new(ipv4_pair().reversed(), RST | ACK, 0, 101).signed(&mut refusing);
    assert_eq!(refusing.local_isn(), None);
    let mut forged = reset.clone();
    forged[11] ^= 1;
    assert!(receive(&mut active, &forged).is_err());
    let unsigned = Parts::new(ipv4_pair().reversed(), RST | ACK, 0, 101).unsigned();
    assert_eq!(receive(&mut active, &unsigned).unwrap_err(), VerifyError::Unsigned);
    let verified = receive(&mut active, &reset).unwrap();
    assert!(verified.segment().flags().rst());
    assert_eq!(active.counters(), Counters { good: 1, bad: 1, required: 1, ..Counters::default() });
    assert!(!active.is_established());
}

#[test]
fn ao_33_segments_in_time_wait_are_verified() {
    let mut ends = Ends::<1>::with_ids(&IDS);
    let fin =
        Parts::new(ipv4_pair(), FIN | ACK, ends.active_next, ends.passive_next).signed(&mut ends.active);
    receive(&mut ends.passive, &fin).unwrap();
    let last = (ends.passive_next, ends.active_next.wrapping_add(1));
    let fin = Parts::new(ipv4_pair().reversed(), FIN | ACK, last.0, last.1).signed(&mut ends.passive);
    receive(&mut ends.active, &fin).unwrap();
    // The connection that opened is in TIME-WAIT now: its peer's FIN comes again and is acknowledged again.
    let again = Parts::new(ipv4_pair().reversed(), FIN | ACK, last.0, last.1).signed(&mut ends.passive);
    receive(&mut ends.active, &again).unwrap();
    let ack = Parts::new(ipv4_pair(), ACK, last.1, last.0.wrapping_add(1)).signed(&mut ends.active);
    receive(&mut ends.passive, &ack).unwrap();
    // TIME-WAIT assassination (RFC 1337) takes a key.
    let forged = Parts::new(ipv4_pair().reversed(), RST, last.0.wrapping_add(1), 0).unsigned();
    assert_eq!(receive(&mut ends.active, &forged).unwrap_err(), VerifyError::Unsigned);
    assert_eq!(ends.active.counters().required, 1);
}
