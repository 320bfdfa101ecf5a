//! A connection from its first SYN to TIME-WAIT.

use crate::support::*;

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
    let syn = sent(&mut active, SYN, 100, 0);
    let passive = passive(&syn);
    (active, syn, passive)
}

/// Everything about a connection but its counters: a refused segment must not change it.
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
    let syn_ack = sent(&mut passive, SYN | ACK, 700, 101);
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
    drop(sent(&mut passive, SYN | ACK, 700, 101));
    // The stack has forgotten the half-open connection, or keeps none (SYN cookies).
    receive(&mut passive, &syn).unwrap();
    let syn_ack = sent(&mut passive, SYN | ACK, 900, 101);
    assert_eq!(passive.local_isn(), Some(Isn(900)));
    receive(&mut active, &syn_ack).unwrap();
    pass(&mut active, &mut passive, ACK, 101, 901);
    pass_with(&mut passive, &mut active, ACK, 901, 101, b"data");
    // Once established, the ISN is fixed.
    let mut other = Parts::new(ipv4_pair().reversed(), SYN | ACK, 1000, 101).with_ao(12);
    passive.sign(&mut other).unwrap();
    assert_eq!(passive.local_isn(), Some(Isn(900)));
}

#[test]
fn ao_06_both_ends_may_open_at_once() {
    let (mut left, mut right) = (
        Connection::<1>::active(ipv4_pair(), Isn(0xffff_ffff), &mkts(&IDS)).unwrap(),
        Connection::<1>::active(ipv4_pair().reversed(), Isn(3), &mirrored(&IDS)).unwrap(),
    );
    let left_syn = sent(&mut left, SYN, 0xffff_ffff, 0);
    pass(&mut right, &mut left, SYN, 3, 0);
    receive(&mut right, &left_syn).unwrap();
    assert!(!left.is_established() && !right.is_established());
    let left_syn_ack = sent(&mut left, SYN | ACK, 0xffff_ffff, 4);
    pass(&mut right, &mut left, SYN | ACK, 3, 0);
    receive(&mut right, &left_syn_ack).unwrap();
    assert!(left.is_established() && right.is_established());
    pass_with(&mut left, &mut right, ACK, 0, 4, b"forth");
    pass_with(&mut right, &mut left, ACK, 4, 5, b"back");
    assert_eq!((left.counters().good, right.counters().good), (3, 3));
}

#[test]
fn ao_06_a_replayed_syn_does_not_spoil_an_open() {
    // A SYN that the peer recorded earlier, between the same ports.
    let mut earlier = Connection::<1>::active(ipv4_pair().reversed(), Isn(42), &mirrored(&IDS)).unwrap();
    let replayed = sent(&mut earlier, SYN, 42, 0);
    let mut active = active();
    let syn = sent(&mut active, SYN, 100, 0);
    receive(&mut active, &replayed).unwrap();
    assert_eq!(active.remote_isn(), Some(Isn(42)), "it looks like a simultaneous open");
    let mut passive = passive(&syn);
    pass(&mut passive, &mut active, SYN | ACK, 700, 101);
    assert!(active.is_established());
    assert_eq!(active.remote_isn(), Some(Isn(700)), "the SYN-ACK answers this SYN, and no replay can");
    pass_with(&mut active, &mut passive, ACK, 101, 701, b"data");
}

#[test]
fn ao_06_syns_may_be_lost_and_repeated() {
    let mut active = active();
    let syn = sent(&mut active, SYN, 100, 0);
    let again = Parts::new(ipv4_pair(), SYN, 100, 0).options(&[2, 4, 5, 0xb4]).signed(&mut active);
    let mut passive = passive(&syn);
    receive(&mut passive, &again).unwrap();
    sent(&mut passive, SYN | ACK, 700, 101);
    receive(&mut passive, &syn).unwrap();
    pass(&mut passive, &mut active, SYN | ACK, 700, 101);
    // The SYN-ACK again, because its ACK was lost.
    pass(&mut passive, &mut active, SYN | ACK, 700, 101);
    pass(&mut active, &mut passive, ACK, 101, 701);
    assert!(passive.is_established());
}

#[test]
fn ao_06_an_established_connection_takes_no_syn() {
    let mut ends = Ends::<1>::with_ids(&IDS);
    let mut twin = Connection::active(ipv4_pair(), Isn(0x1000_0000), &mkts::<1>(&IDS)).unwrap();
    let old_syn = sent(&mut twin, SYN, 0x1000_0000, 0);
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
    let syn = sent(&mut active, SYN, 100, 0);
    let mut passive = passive(&syn);
    let mut early = Parts::new(ipv4_pair().reversed(), ACK, 701, 101).with_ao(12);
    assert_eq!(passive.sign(&mut early), Err(SignError::State));
    // A SYN-ACK that could not be signed gives the connection no ISN.
    let mut no_room = Parts::new(ipv4_pair().reversed(), SYN | ACK, 699, 101).unsigned();
    assert_eq!(passive.sign(&mut no_room), Err(SignError::NoOption));
    assert_eq!(passive.local_isn(), None);
    sent(&mut passive, SYN | ACK, 700, 101);
    let mut elsewhere = Parts::new(ipv4_pair(), ACK, 1, 1).with_ao(12);
    let before = elsewhere.clone();
    assert_eq!(passive.sign(&mut elsewhere), Err(SignError::OtherConnection));
    assert_eq!(elsewhere, before);
}

#[test]
fn ao_06_a_handshake_takes_only_what_fits_its_state() {
    let (mut active, _, mut passive) = half_open();
    let verdict = |connection: &mut Connection<1>, tcp: &[u8]| {
        let before = state(connection);
        let verdict = receive(connection, tcp).map(|_| ());
        assert_eq!(state(connection), before);
        verdict
    };
    // The SYN has no answer yet, and this is of an earlier connection.
    let late = Ends::<1>::with_ids(&IDS).passive_data(b"late");
    assert_eq!(verdict(&mut active, &late), Err(VerifyError::State));
    // After the SYN-ACK, no SYN of another ISN is received or sent.
    sent(&mut passive, SYN | ACK, 700, 101);
    let other = &mut Connection::active(ipv4_pair(), Isn(5), &mkts::<1>(&IDS)).unwrap();
    assert_eq!(verdict(&mut passive, &sent(other, SYN, 5, 0)), Err(VerifyError::State));
    let mut syn = Parts::new(ipv4_pair().reversed(), SYN, 5, 0).with_ao(12);
    assert_eq!(passive.sign(&mut syn), Err(SignError::State));
}

/// The number of a reset without ACK stands in the place of this end's ISN.
#[test]
fn ao_31_a_reset_before_the_syn_ack_is_signed_and_verified() {
    let (mut active, _, mut passive) = half_open();
    let reset = sent(&mut passive, RST, 77, 0);
    receive(&mut active, &reset).unwrap();
    assert_eq!(passive.local_isn(), None);
}

/// Why a listener refuses this segment as a SYN.
fn refused(tcp: &[u8]) -> VerifyError {
    mirrored::<1>(&IDS).verify_syn(view(ipv4_pair(), tcp)).unwrap_err()
}

#[test]
fn ao_06_a_listener_takes_nothing_but_syns() {
    assert_eq!(refused(&Ends::<1>::with_ids(&IDS).active_data(b"not a SYN")), VerifyError::State);
    for flags in [SYN | ACK, SYN | RST, RST, FIN] {
        assert_eq!(refused(&Parts::new(ipv4_pair(), flags, 100, 0).with_ao(12)), VerifyError::State);
    }
    let (_, mut syn, _) = half_open();
    let other_key = mkts::<1>(&[(84, 62)]).verify_syn(view(ipv4_pair(), &syn)).unwrap_err();
    assert_eq!(other_key, VerifyError::UnknownKeyId(KeyId(61)));
    syn[4] ^= 1;
    assert_eq!(refused(&syn), VerifyError::BadMac { key_id: KeyId(61) });
    let bare = Parts::new(ipv4_pair(), SYN, 100, 0);
    assert_eq!(refused(&bare.with_ao(8)), VerifyError::UnknownKeyId(KeyId(0)));
    assert_eq!(refused(&bare.unsigned()), VerifyError::Unsigned);
}

#[test]
fn ao_16_a_syn_with_another_mac_length_is_rejected_before_its_key_is_derived() {
    let mut syn = Parts::new(ipv4_pair(), SYN, 100, 0).with_ao(16);
    syn[22] = 61;
    assert_eq!(refused(&syn), VerifyError::MacLength { expected: 12, got: 16 });
}

#[test]
fn ao_27_counters_are_those_of_linux() {
    let mut ends = Ends::<1>::with_ids(&IDS);
    let good = ends.active_data(b"good");
    let altered = |at: usize, octet: u8| {
        let mut segment = good.clone();
        segment[at] = octet;
        segment
    };
    let mut other_length = Parts::new(ipv4_pair(), ACK, 1, 1).with_ao(4);
    other_length[22] = 61;
    let segments = [
        good.clone(),
        altered(50, good[50] ^ 1),
        altered(34, 99),
        Parts::new(ipv4_pair(), ACK, 1, 1).unsigned(),
        other_length,
        Parts::new(ipv4_pair(), ACK, 1, 1).options(&[29, 3, 0, 0]).unsigned(),
        altered(0, good[0] ^ 1),
    ];
    for (times, segment) in (1..).zip(&segments) {
        for _ in 0..times {
            let _ = receive(&mut ends.passive, segment);
        }
    }
    // Two good ones from the handshake; other lengths and malformed options are bad; segments of other connections are not counted.
    let expected = Counters { good: 3, bad: 2 + 5 + 6, key_not_found: 3, required: 4, dropped_icmp: 0 };
    assert_eq!(ends.passive.counters(), expected);
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
fn ao_30_a_keepalive_from_before_the_isn_has_sne_zero() {
    // A keepalive probe has the sequence number before the next one: with ISN 0 and only the SYN acknowledged, that of the ISN.
    let mut ends = Ends::<1>::connect(ipv4_pair(), (0, 0), &mkts(&IDS), &mirrored(&IDS));
    for sequence in [0, 0xffff_ffff, 0xffff_fff0] {
        pass(&mut ends.active, &mut ends.passive, ACK, sequence, 1);
    }
    assert_eq!(ends.passive.highest_received().0, Sne(0));
    ends.exchange();
}

#[test]
fn ao_31_a_half_open_connection_resets_and_is_reset() {
    let (mut active, _, mut passive) = half_open();
    pass(&mut passive, &mut active, SYN | ACK, 700, 101);
    // The client gives up before its ACK has arrived.
    let reset = sent(&mut active, RST, 101, 0);
    assert!(receive(&mut passive, &reset).unwrap().segment().flags().rst());
    assert!(!passive.is_established());
    // The server, still in SYN-RECEIVED, gives up too.
    pass(&mut passive, &mut active, RST | ACK, 701, 101);
}

#[test]
fn ao_32_a_listeners_stateless_reset_verifies_at_the_peer() {
    let (mut active, _, mut refusing) = half_open();
    // RFC 9293 §3.10.7.1: sequence number 0, the SYN acknowledged.
    let reset = sent(&mut refusing, RST | ACK, 0, 101);
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

/// The reset of a listener that is gone has sequence number 0. After an ISN in the upper half, that number has wrapped.
#[test]
fn a_listener_that_is_gone_resets_whatever_its_isn_was() {
    for isn in [700, 0x7fff_ffff, 0x8000_0001, 0xffff_fff0] {
        let (mut active, syn, mut passive) = half_open();
        drop(sent(&mut passive, SYN | ACK, isn, 101));
        receive(&mut passive, &syn).unwrap();
        let reset = sent(&mut passive, RST | ACK, 0, 101);
        assert!(receive(&mut active, &reset).is_ok(), "ISN {isn:#x}");
    }
}

/// A half-open end that gives up resets with its next number (RFC 9293 §3.10.7.4), which is zero after an ISN of all ones.
#[test]
fn ao_30_a_half_open_end_with_the_highest_isn_resets_as_itself() {
    for isn in [700, 0xffff_fffe, 0xffff_ffff] {
        let (mut active, _, mut passive) = half_open();
        pass(&mut passive, &mut active, SYN | ACK, isn, 101);
        let reset = sent(&mut passive, RST | ACK, isn.wrapping_add(1), 101);
        assert!(receive(&mut active, &reset).is_ok(), "ISN {isn:#x}");
        // Both ends have sent a SYN, and the other SYN-ACK is still to come.
        let (mut left, syn, _) = half_open();
        let mut right = Connection::<1>::active(ipv4_pair().reversed(), Isn(isn), &mirrored(&IDS)).unwrap();
        pass(&mut right, &mut left, SYN, isn, 0);
        receive(&mut right, &syn).unwrap();
        let reset = sent(&mut right, RST | ACK, isn.wrapping_add(1), 101);
        assert!(receive(&mut left, &reset).is_ok(), "ISN {isn:#x}");
    }
}
