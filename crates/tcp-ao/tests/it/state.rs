//! A connection's state, exported in the middle of it and taken up elsewhere.

use crate::support::{ACK, Ends, Parts, SYN, ipv4_pair, ipv6_pair, mirrored, mkts, receive, view};
use wireseal_tcp_ao::{
    Connection, ConnectionState, Counters, Endpoint, HeardKeys, Isn, KeyId, MktSet, SeqNum, Sne, SocketPair,
    StateError,
};

const IDS: [(u8, u8); 2] = [(1, 101), (2, 102)];

/// The same connection in another place, with nothing but its state and the MKTs.
fn moved(connection: Connection<2>, mkts: &MktSet<2>) -> Connection<2> {
    let state = connection.export().unwrap();
    assert_eq!(Connection::import(&state, mkts).unwrap().export().unwrap(), state);
    let imported = Connection::import(&state, mkts).unwrap();
    assert!(imported.is_established());
    imported
}

#[test]
fn ao_38_either_end_moves_in_mid_connection_and_across_the_wrap() {
    let (ours, theirs) = (mkts(&IDS), mirrored(&IDS));
    let mut ends = Ends::<2>::connect(ipv4_pair(), (0xffff_ff00, 0xffff_fe00), &ours, &theirs);
    let first = ends.active_data(b"late, from before the wrap");
    for round in 0..20 {
        if round % 2 == 0 {
            ends.active = moved(ends.active, &ours);
        } else {
            ends.passive = moved(ends.passive, &theirs);
        }
        if round == 10 {
            ends.passive.set_rnext_key(KeyId(2)).unwrap();
        }
        let segment = ends.active_data(&[round; 100]);
        receive(&mut ends.passive, &segment).unwrap();
        let segment = ends.passive_data(&[round; 100]);
        receive(&mut ends.active, &segment).unwrap();
    }
    receive(&mut ends.passive, &first).unwrap();
    let (active, passive) = (ends.active.export().unwrap(), ends.passive.export().unwrap());
    assert_eq!((active.send_sne, active.receive_sne), (Sne(1), Sne(1)));
    assert_eq!((active.current_key, active.rnext_key), (KeyId(2), KeyId(101)));
    assert_eq!((passive.current_key, passive.rnext_key), (KeyId(101), KeyId(2)));
    assert_eq!((active.counters.good, active.counters.bad), (21, 0));
    assert_eq!((passive.counters.good, passive.counters.bad), (23, 0));
}

#[test]
fn ao_38_the_sequence_numbers_need_only_be_near() {
    let (ours, theirs) = (mkts(&IDS), mirrored(&IDS));
    let mut ends = Ends::<2>::connect(ipv4_pair(), (0xffff_ff00, 5), &ours, &theirs);
    for _ in 0..4 {
        ends.exchange();
    }
    // As another stack may know it: the next number to send, and a window's start far behind.
    let mut state = ends.active.export().unwrap();
    state.send_sequence = SeqNum(ends.active_next);
    state.receive_sequence = SeqNum(state.receive_sequence.0.wrapping_add(1000));
    ends.active = Connection::import(&state, &ours).unwrap();
    for _ in 0..100 {
        ends.exchange();
    }
    assert_eq!((ends.active.counters().bad, ends.passive.counters().bad), (0, 0));
    assert_eq!(ends.passive.highest_received().0, Sne(1));
}

#[test]
fn ao_38_a_replay_does_not_move_the_current_key_back_after_a_move() {
    let mut ends = Ends::<2>::with_ids(&IDS);
    let sends = |ends: &mut Ends<2>, octets: u32| {
        let acknowledges = ends.active_next + octets;
        drop(Parts::new(ipv4_pair(), ACK, acknowledges, ends.passive_next).signed(&mut ends.active));
        Parts::new(ipv4_pair().reversed(), ACK, ends.passive_next, acknowledges).signed(&mut ends.passive)
    };
    let old = sends(&mut ends, 1000);
    receive(&mut ends.active, &old).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let new = sends(&mut ends, 1001);
    receive(&mut ends.active, &new).unwrap();
    ends.active = moved(ends.active, &mkts(&IDS));
    assert!(!receive(&mut ends.active, &old).unwrap().current_key_changed());
    assert_eq!(ends.active.current_key().send_id, KeyId(2));
}

#[test]
fn ao_38_a_state_and_other_mkts_are_refused() {
    let ends = Ends::<2>::with_ids(&IDS);
    let state = ends.active.export().unwrap();
    let error = Connection::import(&state, &mkts::<2>(&[(2, 101)])).unwrap_err();
    assert_eq!(error, StateError::CurrentKeyMissing(KeyId(1)));
    let error = Connection::import(&state, &mkts::<2>(&[(1, 102)])).unwrap_err();
    assert_eq!(error, StateError::RnextKeyMissing(KeyId(101)));
}

#[test]
fn ao_38_octets_are_the_state() {
    for pair in [ipv4_pair(), ipv6_pair()] {
        let mut ends = Ends::<2>::connect(pair, (0xffff_ff00, 5), &mkts(&IDS), &mirrored(&IDS));
        (0..4).for_each(|_| ends.exchange());
        let state = ends.active.export().unwrap();
        let octets = state.to_octets();
        assert_eq!(ConnectionState::from_octets(&octets), Ok(state.clone()));
        // Every octet is read.
        for place in 0..octets.len() {
            let mut altered = octets;
            altered[place] ^= 1;
            assert_ne!(ConnectionState::from_octets(&altered), Ok(state.clone()), "octet {place}");
            let length = StateError::Length { expected: octets.len(), got: place };
            let error = if place == 0 { StateError::Version(0) } else { length };
            assert_eq!(ConnectionState::from_octets(&octets[..place]), Err(error));
        }
        assert_eq!(ConnectionState::from_octets(&[3; 165]), Err(StateError::Version(3)));
    }
}

/// The form of version 2 never changes.
#[test]
fn ao_38_octets_of_version_2_are_read() {
    let mut octets = vec![2];
    for (address, port) in [([192, 0, 2, 1], 179_u16), ([192, 0, 2, 2], 50_000)] {
        octets.extend([&[0; 10][..], &[0xff, 0xff], &address].concat());
        octets.extend(port.to_be_bytes());
    }
    (1..=8).for_each(|number: u32| octets.extend(number.to_be_bytes()));
    octets.extend([9, 10]);
    octets.extend([0; 40]);
    octets.extend([1]);
    octets.extend([0; 13]);
    (11..=15).for_each(|count: u64| octets.extend(count.to_be_bytes()));
    let expected = ConnectionState {
        pair: SocketPair {
            local: Endpoint::new([192, 0, 2, 1], 179),
            remote: Endpoint::new([192, 0, 2, 2], 50_000),
        },
        local_isn: Isn(1),
        remote_isn: Isn(2),
        send_sne: Sne(3),
        send_sequence: SeqNum(4),
        sent_end: SeqNum(5),
        receive_sne: Sne(6),
        receive_sequence: SeqNum(7),
        acknowledged: SeqNum(8),
        current_key: KeyId(9),
        rnext_key: KeyId(10),
        heard: HeardKeys::ALL,
        counters: Counters { good: 11, bad: 12, key_not_found: 13, required: 14, dropped_icmp: 15 },
    };
    assert_eq!(ConnectionState::from_octets(&octets), Ok(expected));
}

#[test]
fn ao_38_a_handshake_cannot_move() {
    let mut active = Connection::active(ipv4_pair(), Isn(1), &mkts::<2>(&IDS)).unwrap();
    let syn = Parts::new(ipv4_pair(), SYN, 1, 0).signed(&mut active);
    let listener = mirrored::<2>(&IDS);
    let passive = Connection::passive(&listener.verify_syn(view(ipv4_pair(), &syn)).unwrap());
    assert_eq!(active.export().unwrap_err(), StateError::NotEstablished);
    assert_eq!(passive.export().unwrap_err(), StateError::NotEstablished);
}
