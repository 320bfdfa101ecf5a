//! Key update (RFC 9001 §6), in both roles: who may update, who must, and how old and forged packets are handled.

use std::time::Duration;

use wireseal_quic::{AeadAlgorithm, Backend, KeyError, OpenError, ReceiveSpace, Version};

use crate::support::schedule::{PHASE, Schedule};
use crate::support::{
    DESTINATION, End, FRAMES, PROBE_TIMEOUT, Receiver, Side, Suite, deliver, for_both_roles,
    phases_with_keys, suites, suites_of_one_version, update_fully,
};

/// The generation of the keys that open a packet, found without the code under test.
fn generation_of(packet: &[u8], suite: Suite, sender: Side) -> Option<u64> {
    let mut schedule = Schedule::new(suite, sender);
    (0..4).find(|&generation| schedule.open(generation, packet).is_some())
}

#[test]
fn q_27_no_update_before_the_handshake_is_confirmed() {
    for suite in suites() {
        for role in Side::BOTH {
            let mut ours = suite.end(role);
            let before = ours.phases();
            let refused = ours.one_rtt.initiate_update(Duration::from_secs(1_000_000));
            assert_eq!(refused, Err(KeyError::HandshakeNotConfirmed));
            assert_eq!(ours.phases(), before);
            assert_eq!(generation_of(&ours.seal(FRAMES), suite, role), Some(0));
            ours.one_rtt.confirm_handshake();
            assert_eq!(ours.one_rtt.initiate_update(ours.time), Ok(()));
            assert_eq!(generation_of(&ours.seal(FRAMES), suite, role), Some(1));
        }
    }
}

/// An acknowledgment comes in a packet of its phase, so one that the caller passes on alone is not enough.
#[test]
fn q_28_an_acknowledgment_alone_allows_no_second_update() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        ours.one_rtt.initiate_update(ours.time).unwrap();
        let number = ours.one_rtt.next_number().unwrap();
        let update = ours.seal(FRAMES);
        ours.one_rtt.acknowledged(number, 1, ours.now()).unwrap();
        assert_eq!(ours.one_rtt.initiate_update(Duration::MAX), Err(KeyError::NotAcknowledged));
        theirs.open(&update).unwrap();
        deliver(&mut theirs, &mut ours);
        assert_eq!(ours.one_rtt.initiate_update(Duration::MAX), Ok(()));
    });
}

/// The server itself confirms the handshake, and its update may overtake HANDSHAKE_DONE.
#[test]
fn q_27_an_update_is_answered_before_the_handshake_is_confirmed() {
    for suite in suites() {
        let [_, mut server] = suite.ends();
        let mut client = suite.end(Side::Client);
        server.one_rtt.initiate_update(server.time).unwrap();
        assert_eq!(deliver(&mut server, &mut client).generation, 1);
        assert_eq!(deliver(&mut client, &mut server).generation, 1);
        let refused = client.one_rtt.initiate_update(Duration::from_secs(1_000_000));
        assert_eq!(refused, Err(KeyError::HandshakeNotConfirmed));
    }
}

#[test]
fn q_28_a_second_update_waits_for_an_acknowledgment_of_this_phase() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        let old = ours.one_rtt.next_number().unwrap();
        theirs.open(&ours.seal(b"of the old phase")).unwrap();
        ours.one_rtt.initiate_update(ours.time).unwrap();
        ours.one_rtt.prepare();
        let before = ours.phases();
        let refused = |end: &mut End| end.one_rtt.initiate_update(Duration::from_secs(1_000_000));
        assert_eq!(refused(&mut ours), Err(KeyError::NotAcknowledged));
        // Not enough: an acknowledgment of the old phase, of a number never sent, or before anything was sent.
        for (largest, generation) in [(old, 0), (old, 1), (old + 1, 1), (u64::MAX, 1)] {
            ours.one_rtt.acknowledged(largest, generation, ours.now()).unwrap();
            assert_eq!(refused(&mut ours), Err(KeyError::NotAcknowledged));
        }
        let first = ours.one_rtt.next_number().unwrap();
        theirs.open(&ours.seal(b"of the new phase")).unwrap();
        for largest in [old, first + 1, u64::MAX] {
            ours.one_rtt.acknowledged(largest, 1, ours.now()).unwrap();
            assert_eq!(refused(&mut ours), Err(KeyError::NotAcknowledged));
        }
        assert_eq!(ours.phases(), before);
        ours.time = Duration::from_secs(5);
        theirs.acknowledge_to(&mut ours);
        // RFC 9001 §6.5: the wait is three probe timeouts, and a second acknowledgment does not extend it.
        let from = ours.time + 3 * PROBE_TIMEOUT;
        ours.time += PROBE_TIMEOUT;
        theirs.acknowledge_to(&mut ours);
        let too_soon = Err(KeyError::TooSoon { from });
        assert_eq!(ours.one_rtt.initiate_update(from - Duration::from_nanos(1)), too_soon);
        assert_eq!(ours.one_rtt.generation(), 1);
        assert_eq!(ours.one_rtt.initiate_update(from), Ok(()));
        assert_eq!(ours.one_rtt.generation(), 2);
    });
}

/// Nobody can have received it, so it does not show that a packet of the current phase was received (RFC 9001 §6.1).
#[test]
fn q_28_a_number_that_was_skipped_allows_no_update() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        ours.one_rtt.initiate_update(ours.time).unwrap();
        theirs.open(&ours.seal(b"of the new phase")).unwrap();
        let skipped = ours.one_rtt.next_number().unwrap();
        ours.one_rtt.skip_numbers(2);
        ours.seal(b"of the new phase, too");
        deliver(&mut theirs, &mut ours);
        for (largest, generation) in [(skipped, 1), (skipped + 1, 1), (skipped, 0)] {
            assert_eq!(ours.one_rtt.acknowledged(largest, generation, ours.now()), Ok(()));
            assert_eq!(ours.one_rtt.initiate_update(Duration::MAX), Err(KeyError::NotAcknowledged));
        }
        ours.one_rtt.acknowledged(skipped - 1, 1, ours.now()).unwrap();
        assert_eq!(ours.one_rtt.initiate_update(Duration::MAX), Ok(()));
    });
}

/// Before the first update, the peer cannot still be busy with an earlier one.
#[test]
fn q_28_an_acknowledgment_does_not_delay_the_first_update() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        deliver(&mut ours, &mut theirs);
        theirs.acknowledge_to(&mut ours);
        assert_eq!(ours.one_rtt.initiate_update(ours.time), Ok(()));
    });
}

/// The end that answered an update may start the next as soon as its own packet of this phase is acknowledged.
#[test]
fn q_28_the_end_that_answered_may_update_next() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        deliver(&mut theirs, &mut ours);
        assert_eq!(ours.one_rtt.initiate_update(ours.time), Err(KeyError::NotAcknowledged));
        deliver(&mut ours, &mut theirs);
        theirs.acknowledge_to(&mut ours);
        ours.time += 3 * PROBE_TIMEOUT;
        assert_eq!(ours.one_rtt.initiate_update(ours.time), Ok(()));
        assert_eq!(deliver(&mut ours, &mut theirs).generation, 2);
        assert_eq!(deliver(&mut theirs, &mut ours).generation, 2);
    });
}

#[test]
fn q_29_the_send_key_is_new_before_the_acknowledgment_goes_out() {
    for_both_roles(|suite, role, mut ours, mut theirs| {
        assert_eq!(generation_of(&ours.seal(FRAMES), suite, role), Some(0));
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        let trigger = theirs.seal(b"of the new phase");
        assert_eq!(generation_of(&trigger, suite, role.other()), Some(1));
        let acknowledged = theirs.one_rtt.next_number().unwrap() - 1;
        ours.open(&trigger).unwrap();
        let acknowledgment = ours.seal(b"ACK frame");
        assert_eq!(generation_of(&acknowledgment, suite, role), Some(1));
        let received = theirs.open(&acknowledgment).unwrap();
        assert_eq!((received.generation, received.key_phase), (1, true));
        assert_eq!(theirs.one_rtt.acknowledged(acknowledged, received.generation, theirs.now()), Ok(()));
    });
}

/// RFC 9001 §6.2: a peer that acknowledges the new phase under the old keys has not answered the update.
#[test]
fn q_29_an_acknowledgment_of_the_new_phase_under_old_keys_is_an_error() {
    for_both_roles(|suite, role, mut ours, _| {
        ours.one_rtt.initiate_update(ours.time).unwrap();
        ours.seal(b"of the new phase");
        let largest = ours.one_rtt.next_number().unwrap() - 1;
        let packet = Schedule::new(suite, role.other()).seal(0, 0, 9, b"ACK frame");
        let received = ours.open(&packet).unwrap();
        let error = ours.one_rtt.acknowledged(largest, received.generation, ours.now()).unwrap_err();
        assert_eq!((error, error.transport_error()), (OpenError::KeyUpdate, Some(0x0e)));
        assert_eq!(ours.one_rtt.initiate_update(Duration::MAX), Err(KeyError::NotAcknowledged));
    });
}

#[test]
fn q_30_a_reordered_packet_opens_with_the_old_keys_and_turns_nothing_back() {
    for_both_roles(|suite, role, mut ours, mut theirs| {
        let [late, later, latest] = [b"late  ", b"later ", b"latest"].map(|payload| theirs.seal(payload));
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        deliver(&mut theirs, &mut ours);
        ours.one_rtt.prepare();
        let before = ours.phases();
        let received = ours.open(&late).unwrap();
        assert_eq!((received.number, received.generation, received.key_phase), (0, 0, false));
        assert_eq!(received.payload, b"late  ");
        assert_eq!(ours.phases(), before);
        // Whether or not anything was sealed in between, the next packet is of the new phase.
        assert_eq!(generation_of(&ours.seal(b"an answer"), suite, role), Some(1));
        assert_eq!(ours.open(&later).unwrap().payload, b"later ");
        assert_eq!(ours.phases(), before);
        assert_eq!(generation_of(&ours.seal(b"an answer"), suite, role), Some(1));
        let new = theirs.seal(b"new");
        assert_eq!(ours.open(&new).unwrap().generation, 1);
        assert_eq!(ours.open(&latest).unwrap().generation, 0);
        assert_eq!(ours.one_rtt.generation(), 1);
    });
}

/// The updating end opens packets of the old phase until the peer answers, and late ones after that.
#[test]
fn q_30_who_updates_opens_the_old_phase_until_and_after_the_answer() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        let [early, late] = [b"early", b"late "].map(|payload| theirs.seal(payload));
        ours.one_rtt.initiate_update(ours.time).unwrap();
        assert_eq!(ours.open(&early).unwrap().generation, 0);
        assert_eq!(ours.one_rtt.generation(), 1);
        let update = ours.seal(FRAMES);
        let crossing = theirs.seal(b"crossing");
        theirs.open(&update).unwrap();
        let answer = theirs.seal(b"an answer");
        assert_eq!(ours.open(&answer).unwrap().generation, 1);
        assert_eq!(ours.open(&crossing).unwrap().generation, 0);
        assert_eq!(ours.open(&late).unwrap().generation, 0);
        assert_eq!(ours.one_rtt.generation(), 1);
    });
}

#[test]
fn q_31_old_keys_after_new_ones_are_an_error() {
    for_both_roles(|suite, role, mut ours, mut theirs| {
        let mut schedule = Schedule::new(suite, role.other());
        theirs.one_rtt.skip_numbers(10);
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        assert_eq!(deliver(&mut theirs, &mut ours).number, 10);
        theirs.one_rtt.skip_numbers(9);
        assert_eq!(deliver(&mut theirs, &mut ours).number, 20);
        let before = ours.phases();
        // 10 and 20 were opened in the new phase; 11 and 15 lie between them, 21 and 1000 after.
        for number in [10, 11, 15, 20, 21, 1000] {
            let mut packet = schedule.seal(0, 0, number, FRAMES);
            let error = ours.open_in(&mut packet).unwrap_err();
            assert_eq!((error, error.transport_error()), (OpenError::KeyUpdate, Some(0x0e)), "{number}");
            assert!(packet[1 + DESTINATION.len() + 4..].iter().all(|&octet| octet == 0));
        }
        // It was authentic, so it is not counted as a forgery.
        assert_eq!((ours.failures(), ours.phases()), (0, before));
        // Once this end has answered, numbers above 20 may be of the next phase; those up to it still cannot.
        ours.seal(FRAMES);
        for number in [10, 11, 20] {
            let packet = schedule.seal(0, 0, number, FRAMES);
            assert_eq!(ours.open(&packet), Err(OpenError::KeyUpdate), "{number}");
        }
        assert_eq!(ours.open(&schedule.seal(0, 0, 9, FRAMES)).unwrap().generation, 0);
    });
}

#[test]
fn q_31_new_keys_below_a_number_of_old_ones_are_an_error() {
    for_both_roles(|suite, role, mut ours, mut theirs| {
        let mut schedule = Schedule::new(suite, role.other());
        theirs.one_rtt.skip_numbers(10);
        deliver(&mut theirs, &mut ours);
        let before = ours.phases();
        for number in [0, 9, 10] {
            let packet = schedule.seal(1, PHASE, number, FRAMES);
            assert_eq!(ours.open(&packet), Err(OpenError::KeyUpdate));
        }
        assert_eq!((ours.failures(), ours.phases()), (0, before));
        assert_eq!(ours.open(&schedule.seal(1, PHASE, 11, FRAMES)).unwrap().generation, 1);
    });
}

/// RFC 9001 §9.5: timing must not show that a packet was the first of its phase.
#[test]
fn q_32_the_packet_that_updates_derives_nothing_either() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        assert_eq!(phases_with_keys(&ours.one_rtt), 2);
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        for _ in 0..2 {
            deliver(&mut theirs, &mut ours);
            assert_eq!((ours.one_rtt.generation(), phases_with_keys(&ours.one_rtt)), (1, 2));
        }
        // The next packet sealed derives them, or an earlier call to `prepare`; and only once.
        for _ in 0..2 {
            ours.one_rtt.prepare();
            assert_eq!(phases_with_keys(&ours.one_rtt), 3);
        }
        deliver(&mut ours, &mut theirs);
        ours.acknowledge_to(&mut theirs);
        theirs.time += 3 * PROBE_TIMEOUT;
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        deliver(&mut theirs, &mut ours);
        assert_eq!((ours.one_rtt.generation(), phases_with_keys(&ours.one_rtt)), (2, 3));
        ours.seal(b"ACK frame");
        assert_eq!(phases_with_keys(&ours.one_rtt), 4);
    });
}

#[test]
fn q_34_the_packet_that_updates_may_arrive_twice() {
    for_both_roles(|suite, role, mut ours, mut theirs| {
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        let trigger = theirs.seal(b"of the new phase");
        ours.open(&trigger).unwrap();
        ours.one_rtt.prepare();
        let before = ours.phases();
        assert_eq!(ours.open(&trigger), Err(OpenError::Duplicate));
        ours.seal(b"ACK frame");
        assert_eq!(ours.open(&trigger), Err(OpenError::Duplicate));
        assert_eq!((ours.failures(), ours.phases()), (0, before));
        assert_eq!(generation_of(&ours.seal(FRAMES), suite, role), Some(1));
        deliver(&mut theirs, &mut ours);
        assert_eq!(ours.one_rtt.generation(), 1);
    });
}

/// For stacks that detect duplicates themselves, it opens again with the same key.
#[test]
fn q_34_without_a_window_it_opens_twice() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        ours.space = ReceiveSpace::without_window();
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        let trigger = theirs.seal(b"of the new phase");
        let first = ours.open(&trigger).unwrap();
        let before = ours.phases();
        assert_eq!(ours.open(&trigger), Ok(first));
        assert_eq!(ours.phases(), before);
    });
}

#[test]
fn q_35_both_at_once_is_one_update() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        for end in [&mut ours, &mut theirs] {
            end.one_rtt.initiate_update(end.time).unwrap();
        }
        let (sent, crossing) = (ours.seal(FRAMES), theirs.seal(FRAMES));
        assert_eq!(ours.open(&crossing).unwrap().generation, 1);
        assert_eq!(theirs.open(&sent).unwrap().generation, 1);
        assert_eq!((ours.one_rtt.generation(), theirs.one_rtt.generation()), (1, 1));
        theirs.acknowledge_to(&mut ours);
        ours.acknowledge_to(&mut theirs);
        update_later(&mut ours, &mut theirs);
    });
}

/// The peer may have our acknowledgment and update again before we have its acknowledgment.
#[test]
fn q_35_an_update_by_the_peer_before_ours_is_confirmed() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        ours.one_rtt.initiate_update(ours.time).unwrap();
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        ours.seal(b"of our update, and lost");
        assert_eq!(deliver(&mut theirs, &mut ours).generation, 1);
        ours.acknowledge_to(&mut theirs);
        theirs.time += 3 * PROBE_TIMEOUT;
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        // None of our packets has been acknowledged, and our old keys are still kept, because little time has passed here.
        assert!(ours.one_rtt.expires().is_some_and(|expires| expires > ours.time));
        assert_eq!(ours.one_rtt.initiate_update(Duration::MAX), Err(KeyError::NotAcknowledged));
        assert_eq!(deliver(&mut theirs, &mut ours).generation, 2);
        assert_eq!(deliver(&mut ours, &mut theirs).generation, 2);
    });
}

/// Waits until an update is allowed, and updates.
fn update_later(ours: &mut End, theirs: &mut End) {
    for end in [&mut *ours, &mut *theirs] {
        end.time += 3 * PROBE_TIMEOUT;
    }
    let generation = ours.one_rtt.generation();
    update_fully(ours, theirs);
    assert_eq!((ours.one_rtt.generation(), theirs.one_rtt.generation()), (generation + 1, generation + 1));
}

#[test]
fn q_35_a_thousand_updates_in_a_row() {
    for (suite, version) in suites_of_one_version().zip(Version::ALL.iter().cycle()) {
        if suite.backend != Backend::active() && suite.algorithm != AeadAlgorithm::ChaCha20Poly1305 {
            continue;
        }
        let suite = Suite { version: *version, ..suite };
        let [mut client, mut server] = suite.ends();
        for round in 0..1000 {
            let (ours, theirs) =
                if round % 3 == 0 { (&mut server, &mut client) } else { (&mut client, &mut server) };
            update_later(ours, theirs);
        }
        let mut schedule = Schedule::new(suite, Side::Client);
        assert_eq!(schedule.open(1000, &client.seal(b"at last")).unwrap().1, b"at last");
        assert_eq!((client.failures(), server.failures()), (0, 0));
    }
}

#[test]
fn q_36_old_keys_are_gone_after_three_probe_timeouts() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        let [in_time, too_late] = [b"in time ", b"too late"].map(|payload| theirs.seal(payload));
        assert_eq!(ours.one_rtt.expires(), None);
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        ours.time = Duration::from_secs(7);
        deliver(&mut theirs, &mut ours);
        let expires = Duration::from_secs(7) + 3 * PROBE_TIMEOUT;
        assert_eq!(ours.one_rtt.expires(), Some(expires));
        // The time counts from the first packet of the new phase, not from the last.
        ours.time = expires - Duration::from_nanos(1);
        deliver(&mut theirs, &mut ours);
        assert_eq!(ours.one_rtt.expires(), Some(expires));
        assert_eq!(ours.open(&in_time).unwrap().generation, 0);
        // Opening a packet is enough to notice that the time is over.
        ours.time = expires;
        assert_eq!(ours.open(&too_late), Err(OpenError::AuthenticationFailed));
        assert_eq!(ours.one_rtt.expires(), None);
        // They are gone for good, even if the clock goes back.
        ours.time = Duration::ZERO;
        assert_eq!(ours.open(&too_late), Err(OpenError::AuthenticationFailed));
        assert_eq!((ours.one_rtt.generation(), ours.failures()), (1, 2));
    });
}

#[test]
fn q_36_old_keys_expire_without_a_packet_too() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        let late = theirs.seal(b"late");
        theirs.one_rtt.initiate_update(theirs.time).unwrap();
        deliver(&mut theirs, &mut ours);
        let expires = ours.one_rtt.expires().unwrap();
        ours.one_rtt.expire(expires - Duration::from_nanos(1));
        assert_eq!(ours.one_rtt.expires(), Some(expires));
        ours.one_rtt.expire(expires);
        assert_eq!(ours.one_rtt.expires(), None);
        assert_eq!(ours.open(&late), Err(OpenError::AuthenticationFailed));
    });
}

/// Nobody knows when the peer will answer, so the old keys are kept until then.
#[test]
fn q_36_old_keys_stay_while_an_update_is_unanswered() {
    for_both_roles(|_, _, mut ours, mut theirs| {
        let old = theirs.seal(b"of the old phase");
        ours.one_rtt.initiate_update(ours.time).unwrap();
        assert_eq!(ours.one_rtt.expires(), None);
        ours.time = Duration::from_secs(1000);
        ours.one_rtt.expire(ours.time);
        assert_eq!(ours.open(&old).unwrap().generation, 0);
        theirs.open(&ours.seal(b"at last")).unwrap();
        deliver(&mut theirs, &mut ours);
        assert_eq!(ours.one_rtt.expires(), Some(ours.time + 3 * PROBE_TIMEOUT));
    });
}
