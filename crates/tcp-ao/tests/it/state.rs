//! A connection's state, exported in the middle of it and taken up elsewhere.

use crate::support::{ACK, Ends, Parts, SYN, ipv4_pair, mirrored, mkts, receive, view};
use wireseal_tcp_ao::{Connection, Isn, KeyId, MktSet, SeqNum, Sne, StateError};

const IDS: [(u8, u8); 2] = [(1, 101), (2, 102)];

/// The same connection in another place, with nothing but its state and the MKTs.
fn moved(connection: &Connection<2>, mkts: &MktSet<2>) -> Connection<2> {
    let state = connection.export().unwrap();
    let imported = Connection::import(&state, mkts).unwrap();
    assert_eq!(imported.export().unwrap(), state);
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
            ends.active = moved(&ends.active, &ours);
        } else {
            ends.passive = moved(&ends.passive, &theirs);
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
    assert_eq!(ends.passive.export().unwrap().receive_sne, Sne(1));
}

#[test]
fn ao_38_a_replay_does_not_move_the_current_key_back_after_a_move() {
    let mut ends = Ends::<2>::with_ids(&IDS);
    let sends = |ends: &mut Ends<2>, octets: u32| {
        let acknowledges = ends.active_next + octets;
        Parts::new(ipv4_pair().reversed(), ACK, ends.passive_next, acknowledges).signed(&mut ends.passive)
    };
    let old = sends(&mut ends, 1000);
    receive(&mut ends.active, &old).unwrap();
    ends.passive.set_rnext_key(KeyId(2)).unwrap();
    let new = sends(&mut ends, 1001);
    receive(&mut ends.active, &new).unwrap();
    ends.active = moved(&ends.active, &mkts(&IDS));
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
fn ao_38_a_handshake_cannot_move() {
    let mut active = Connection::active(ipv4_pair(), Isn(1), &mkts::<2>(&IDS)).unwrap();
    assert_eq!(active.export().unwrap_err(), StateError::NotEstablished);
    let syn = Parts::new(ipv4_pair(), SYN, 1, 0).signed(&mut active);
    let listener = mirrored::<2>(&IDS);
    let passive = Connection::passive(&listener.verify_syn(view(ipv4_pair(), &syn)).unwrap());
    assert_eq!(passive.export().unwrap_err(), StateError::NotEstablished);
}
