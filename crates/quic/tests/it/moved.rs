//! Live connections that move: exported at one place, imported at another, in every stage of a key update.

use std::time::Duration;

use proptest::prelude::*;
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, NumberLength, OneRttState, OpenError, ReceiveSpace,
    SealError, StateError, UpdateError, Version,
};

use crate::OneRtt;
use crate::support::schedule::Schedule;
use crate::support::{
    Draft, End, FRAMES, PROBE_TIMEOUT, Receiver, Side, Suite, deliver, for_both_roles, forged, suites,
    update_fully,
};

/// The clock of the place where connections go.
const THERE: Duration = Duration::from_secs(1_000_000);

/// `end` as it continues on another clock and backend, after its state went over the wire.
fn moved(end: End) -> End {
    let End { one_rtt, space, failures, time } = end;
    let backend = *Backend::ALL.last().unwrap();
    let state = one_rtt.export(time, space, failures);
    let state = OneRttState::from_octets(state.octets()).unwrap();
    let (one_rtt, space, failures) = OneRtt::import_with_backend(backend, state, THERE).unwrap();
    End { one_rtt, space, failures, time: THERE }
}

#[test]
fn a_connection_moves_after_key_updates() {
    for_both_roles(|suite, role, mut ours, mut theirs| {
        for _ in 0..3 {
            update_fully(&mut ours, &mut theirs);
        }
        theirs.one_rtt.skip_numbers(700);
        let [first, second] = [(); 2].map(|()| theirs.seal(FRAMES));
        ours.open(&second).unwrap();
        ours.open(&forged(&first)).unwrap_err();
        let (next, largest) = (ours.one_rtt.next_number(), ours.space.largest());
        let (left, length) = (ours.one_rtt.remaining(), ours.one_rtt.number_length());

        let mut ours = moved(ours);
        assert_eq!((ours.one_rtt.generation(), ours.one_rtt.key_phase()), (3, true));
        assert_eq!((ours.one_rtt.next_number(), ours.space.largest()), (next, largest));
        assert_eq!((ours.one_rtt.remaining(), ours.one_rtt.number_length()), (left, length));
        assert_eq!((ours.one_rtt.derivations(), ours.failures()), (5, 1));
        // What was opened there is a duplicate here, what was missing is not, and both ends go on.
        assert_eq!(ours.open(&second), Err(OpenError::Duplicate));
        assert_eq!(ours.open(&first).unwrap().payload, FRAMES);
        assert_eq!(ours.open(&first), Err(OpenError::Duplicate));
        assert_eq!(Some(deliver(&mut ours, &mut theirs).number), next);
        let packet = ours.seal(b"the same keys");
        assert_eq!(Schedule::new(suite, role).open(3, &packet).unwrap().1, b"the same keys");
        update_fully(&mut ours, &mut theirs);
        update_fully(&mut theirs, &mut ours);
        assert_eq!((ours.one_rtt.generation(), theirs.one_rtt.generation()), (5, 5));
    });
}

/// Before the update goes out, before it is answered, after that, and while late packets of the old phase may come.
#[test]
fn a_connection_moves_in_the_middle_of_a_key_update() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        update_fully(&mut ours, &mut theirs);
        let [seen, unseen, late, later] = [(); 4].map(|()| theirs.seal(FRAMES));
        ours.open(&seen).unwrap();

        ours.one_rtt.initiate_update(ours.time).unwrap();
        let mut ours = moved(ours);
        assert_eq!((ours.one_rtt.generation(), ours.one_rtt.expires()), (2, None));
        assert_eq!(ours.one_rtt.initiate_update(Duration::MAX), Err(UpdateError::NotAcknowledged));
        assert_eq!(ours.open(&seen), Err(OpenError::Duplicate));
        assert_eq!(ours.open(&unseen).unwrap().generation, 1);

        let update = ours.seal(FRAMES);
        let mut ours = moved(ours);
        assert_eq!(ours.open(&unseen), Err(OpenError::Duplicate));
        theirs.open(&update).unwrap();

        let mut theirs = moved(theirs);
        ours.time += Duration::from_nanos(1);
        theirs.acknowledge_to(&mut ours);
        // Both clocks are others, but what remains of three probe timeouts is not.
        ours.time += PROBE_TIMEOUT;
        let mut ours = moved(ours);
        let from = THERE + 2 * PROBE_TIMEOUT;
        assert_eq!(ours.one_rtt.expires(), Some(from));
        assert_eq!(ours.one_rtt.initiate_update(THERE), Err(UpdateError::TooSoon { from }));
        assert_eq!(ours.open(&late).unwrap().generation, 1);
        assert_eq!(ours.open(&late), Err(OpenError::Duplicate));
        assert_eq!(ours.one_rtt.generation(), 2);
        ours.time = from;
        assert_eq!(ours.open(&later), Err(OpenError::AuthenticationFailed));
        assert_eq!(ours.one_rtt.initiate_update(from), Ok(()));
        assert_eq!(deliver(&mut ours, &mut theirs).generation, 3);
        assert_eq!(deliver(&mut theirs, &mut ours).generation, 3);
        assert_eq!((ours.failures(), theirs.failures()), (1, 0));
    });
}

/// The peer may update again once it has our acknowledgment, which went out before the move, while our old keys still live.
#[test]
fn an_update_by_the_peer_is_followed_after_a_move() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        deliver(&mut theirs, &mut ours);
        ours.acknowledge_to(&mut theirs);
        theirs.time += 3 * PROBE_TIMEOUT;
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        let mut ours = moved(ours);
        assert!(ours.one_rtt.expires().is_some());
        assert_eq!(deliver(&mut theirs, &mut ours).generation, 2);
        assert_eq!(deliver(&mut ours, &mut theirs).generation, 2);
    });
}

/// RFC 9001 §6.4: the order of phases is remembered.
#[test]
fn old_keys_after_new_ones_are_an_error_after_a_move() {
    for_both_roles(|suite, role, mut ours, mut theirs| {
        theirs.one_rtt.skip_numbers(10);
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        deliver(&mut theirs, &mut ours);
        let mut ours = moved(ours);
        let mut schedule = Schedule::new(suite, role.other());
        assert_eq!(ours.open(&schedule.seal(0, 0, 11, FRAMES)), Err(OpenError::KeyUpdate));
        assert_eq!(ours.open(&schedule.seal(0, 0, 9, FRAMES)).unwrap().generation, 0);
    });
}

/// Neither a new allowance for the key (RFC 9001 §6.6) nor an update before the handshake is confirmed.
#[test]
fn limits_and_permissions_move_along() {
    let suite =
        Suite { backend: Backend::active(), version: Version::V2, algorithm: AeadAlgorithm::Aes128Ccm };
    let limit = suite.algorithm.confidentiality_limit().unwrap();
    let mut end = suite.end(Side::Client);
    let mut draft = Draft::short(NumberLength::Four, b"1");
    for _ in 0..limit {
        draft.octets[0] = 0x40;
        end.one_rtt.seal(draft.outgoing()).unwrap();
    }
    end.failures = AuthenticationFailures::from_count(suite.algorithm.integrity_limit());
    end.space = ReceiveSpace::without_window();
    let mut end = moved(end);
    draft.octets[0] = 0x40;
    assert_eq!(end.one_rtt.seal(draft.outgoing()), Err(SealError::ConfidentialityLimit));
    assert_eq!(end.one_rtt.initiate_update(THERE), Err(UpdateError::HandshakeNotConfirmed));
    let peer = suite.end(Side::Server).seal(FRAMES);
    // Without a window there is none after the move either.
    for _ in 0..2 {
        assert_eq!(end.open(&peer).unwrap().number, 0);
    }
    assert_eq!(end.open(&forged(&peer)), Err(OpenError::IntegrityLimit));

    let mut exhausted = suite.end(Side::Client);
    exhausted.one_rtt.skip_numbers(u64::MAX);
    let mut exhausted = moved(exhausted);
    assert_eq!(exhausted.one_rtt.seal(draft.outgoing()), Err(SealError::NumbersExhausted));
}

/// An update would be worth nothing if a state that is stolen later opened what came before (RFC 9001 §6).
#[test]
fn a_state_has_no_secret_of_a_phase_that_is_over() {
    for suite in suites() {
        let [mut ours, mut theirs] = suite.ends();
        let secrets = Side::BOTH.map(|side| suite.secret_octets(side));
        let is_in = |end: End| {
            let End { one_rtt, space, failures, time } = end;
            let state = one_rtt.export(time, space, failures);
            secrets.each_ref().map(|secret| state.octets().windows(secret.len()).any(|part| part == secret))
        };
        assert_eq!(is_in(suite.end(Side::Client)), [true, true]);
        // Until the peer has answered, its old keys are needed.
        let [mut unanswered, _] = suite.ends();
        unanswered.one_rtt.initiate_update(Duration::ZERO).unwrap();
        assert_eq!(is_in(unanswered), [false, true]);
        update_fully(&mut ours, &mut theirs);
        assert_eq!((is_in(ours), is_in(theirs)), ([false; 2], [false; 2]));
    }
}

fn state_octets(suite: Suite) -> Vec<u8> {
    let [mut ours, mut theirs] = suite.ends();
    deliver(&mut theirs, &mut ours);
    ours.one_rtt.initiate_update(Duration::ZERO).unwrap();
    ours.seal(FRAMES);
    let End { one_rtt, space, failures, time } = ours;
    one_rtt.export(time, space, failures).octets().to_vec()
}

#[test]
fn octets_that_are_no_state_are_refused() {
    for suite in suites() {
        let octets = state_octets(suite);
        let import = |octets: &[u8]| {
            OneRttState::from_octets(octets).and_then(|state| OneRtt::import(state, THERE)).map(drop)
        };
        assert_eq!(import(&octets), Ok(()));
        let expected = OneRttState::LENGTH;
        for got in [0, expected - 1, expected + 1] {
            let wrong: Vec<u8> = octets.iter().copied().cycle().take(got).collect();
            assert_eq!(import(&wrong), Err(StateError::WrongLength { expected, got }));
        }
        // Format, version and cipher suite; then flags and generation, and the number of the next packet.
        for (at, error) in [0, 1, 4, 5, 6]
            .map(|at| (at, StateError::Unsupported))
            .into_iter()
            .chain([7, 8, 96].map(|at| (at, StateError::Inconsistent)))
        {
            let mut wrong = octets.clone();
            wrong[at] ^= 0x80;
            assert_eq!(import(&wrong), Err(error), "octet {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn q_49_no_state_panics(changes in prop::collection::vec((8..OneRttState::LENGTH, any::<u8>()), 0..6)) {
        let suite = suites().next().unwrap();
        let mut octets = state_octets(suite);
        for (at, octet) in changes {
            octets[at] = octet;
        }
        let state = OneRttState::from_octets(&octets).unwrap();
        let Ok((one_rtt, space, failures)) = OneRtt::import(state, THERE) else { return Ok(()) };
        let mut end = End { one_rtt, space, failures, time: THERE };
        let peer = suite.end(Side::Server).seal(FRAMES);
        for _ in 0..2 {
            let _ = end.one_rtt.seal(Draft::short(NumberLength::Four, FRAMES).outgoing());
            let _ = end.open(&peer);
            let _ = end.one_rtt.acknowledged(1, 1, end.now());
            let _ = end.one_rtt.initiate_update(Duration::MAX);
        }
        let End { one_rtt, space, failures, time } = end;
        prop_assert!(OneRtt::import(one_rtt.export(time, space, failures), THERE).is_ok());
    }
}
