//! Forged key phase bits (RFC 9001 §6.3 and §9.5): at every stage of a key update, one key is tried and nothing is derived.

use wireseal_quic::OpenError;

use crate::support::schedule::{PHASE, Schedule};
use crate::support::{
    DESTINATION, End, FRAMES, PROBE_TIMEOUT, Receiver, Side, Suite, TAG, deliver, suites_of_one_version,
    update_fully,
};

/// How far a key update has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    BeforeTheFirst,
    /// Initiated by the receiver; the peer has not answered.
    Initiated,
    /// Initiated by the peer; old keys are kept, and nothing was sent in the new phase.
    OldKeysAlive,
    /// The same for the second update, with the keys of the third already derived.
    OldKeysAliveAndPrepared,
    /// Old keys are kept, and something was sent, so the peer may have its acknowledgment.
    OldKeysAliveAndAnswered,
    OldKeysExpired,
    /// The same, but nothing was sent in the new phase, and the next keys are not derived.
    OldKeysExpiredUnanswered,
}

impl Stage {
    const ALL: [Self; 7] = [
        Self::BeforeTheFirst,
        Self::Initiated,
        Self::OldKeysAlive,
        Self::OldKeysAliveAndPrepared,
        Self::OldKeysAliveAndAnswered,
        Self::OldKeysExpired,
        Self::OldKeysExpiredUnanswered,
    ];

    fn has_expired(self) -> bool {
        matches!(self, Self::OldKeysExpired | Self::OldKeysExpiredUnanswered)
    }
}

/// An end that has received a few packets, its peer, and numbers that the peer has not used.
struct Scene {
    ours: End,
    theirs: End,
    /// Before any packet of the current phase or, if there is none, before the latest of the old phase.
    before: u64,
    /// Between packets of the current phase.
    between: Option<u64>,
    /// After all packets.
    beyond: u64,
}

fn scene(suite: Suite, role: Side, stage: Stage) -> Scene {
    let [mut ours, mut theirs] = suite.ends_as(role);
    let receive = |theirs: &mut End, ours: &mut End, number: u64| {
        theirs.one_rtt.skip_numbers(number - theirs.one_rtt.next_number().unwrap());
        assert_eq!(deliver(theirs, ours).number, number);
    };
    receive(&mut theirs, &mut ours, 0);
    receive(&mut theirs, &mut ours, 10);
    if matches!(stage, Stage::BeforeTheFirst | Stage::Initiated) {
        if stage == Stage::Initiated {
            ours.one_rtt.initiate_update(ours.time).unwrap();
            ours.seal(FRAMES);
        }
        return Scene { ours, theirs, before: 5, between: None, beyond: 40 };
    }
    if stage == Stage::OldKeysAliveAndPrepared {
        update_fully(&mut theirs, &mut ours);
    }
    theirs.one_rtt.initiate_update(theirs.time).unwrap();
    receive(&mut theirs, &mut ours, 20);
    receive(&mut theirs, &mut ours, 30);
    match stage {
        Stage::OldKeysAlive | Stage::OldKeysExpiredUnanswered => {}
        Stage::OldKeysAliveAndPrepared => ours.one_rtt.prepare(),
        _ => drop(ours.seal(b"ACK frame")),
    }
    if stage.has_expired() {
        ours.time += 3 * PROBE_TIMEOUT;
        ours.one_rtt.expire(ours.time);
    }
    assert_eq!(ours.one_rtt.expires().is_none(), stage.has_expired());
    Scene { ours, theirs, before: 15, between: Some(25), beyond: 40 }
}

fn for_each_scene(check: impl Fn(Suite, Side, Stage)) {
    for suite in suites_of_one_version() {
        for role in Side::BOTH {
            for stage in Stage::ALL {
                check(suite, role, stage);
            }
        }
    }
}

/// A forgery costs one failure, and its payload becomes zeros.
fn assert_costs_one_failure(ours: &mut End, mut packet: Vec<u8>) {
    let (before, count, received) = (ours.phases(), ours.failures(), packet.clone());
    assert_eq!(ours.open_in(&mut packet), Err(OpenError::AuthenticationFailed));
    assert_eq!((ours.phases(), ours.failures()), (before, count + 1));
    let tag = packet.len() - TAG;
    let payload = 1 + DESTINATION.len() + 4;
    assert_eq!((&packet[..payload], &packet[tag..]), (&received[..payload], &received[tag..]));
    assert!(packet[payload..tag].iter().all(|&octet| octet == 0));
}

/// The attacker flips the bit in packets in flight or replayed: the mask does not hide where the bit is.
fn flip_the_phase_bit(stage_is_in_question: impl Fn(Stage) -> bool) {
    for_each_scene(|suite, role, stage| {
        if !stage_is_in_question(stage) {
            return;
        }
        let Scene { mut ours, mut theirs, before, beyond, .. } = scene(suite, role, stage);
        let (phases, failures) = (ours.phases(), ours.failures());
        let mut schedule = Schedule::new(suite, role.other());
        let generation = ours.one_rtt.generation();
        for number in (before..before + 4).chain(beyond..beyond + 16) {
            for generation in generation.saturating_sub(1)..=generation + 1 {
                let phase = if generation % 2 == 1 { PHASE } else { 0 };
                let mut packet = schedule.seal(generation, phase, number, FRAMES);
                packet[0] ^= PHASE;
                assert_costs_one_failure(&mut ours, packet);
            }
        }
        // Forged from nothing, with either value of the bit.
        for filling in 0..=u8::MAX {
            let mut packet = vec![filling; 64];
            packet[0] = 0x40 | filling & 0x1f;
            packet[1..=DESTINATION.len()].copy_from_slice(&DESTINATION);
            let failed = ours.open(&packet).unwrap_err();
            assert_eq!(failed, OpenError::AuthenticationFailed);
        }
        assert_eq!(ours.phases(), phases);
        assert!(ours.failures() > failures + 256);
        // The connection still works afterwards.
        let (our_generation, their_generation) = (ours.one_rtt.generation(), theirs.one_rtt.generation());
        theirs.one_rtt.skip_numbers(100);
        assert_eq!(deliver(&mut theirs, &mut ours).generation, their_generation);
        assert_eq!(deliver(&mut ours, &mut theirs).generation, our_generation);
    });
}

#[test]
fn q_32_a_flipped_phase_bit_derives_nothing() {
    flip_the_phase_bit(|stage| stage == Stage::BeforeTheFirst || stage.has_expired());
}

#[test]
fn q_33_nor_while_old_keys_are_alive() {
    flip_the_phase_bit(|stage| stage != Stage::BeforeTheFirst && !stage.has_expired());
}

/// All forgeries cost the same time, because one key is tried for each phase bit and number. A packet sealed under either of the other two
/// keys is refused, though a second attempt would open it.
#[test]
fn q_32_exactly_one_key_is_tried() {
    for_each_scene(|suite, role, stage| {
        let Scene { ours, before, between, beyond, .. } = scene(suite, role, stage);
        let present = ours.one_rtt.generation();
        let mut schedule = Schedule::new(suite, role.other());
        let places =
            [(before, false), (beyond, true)].into_iter().chain(between.map(|number| (number, false)));
        for (number, is_beyond) in places {
            for flipped in [false, true] {
                // The generation of the key that is tried, and the result for a packet sealed with it.
                let (tried, fate) = match stage {
                    _ if !flipped => (present, Ok(present)),
                    // The next key is not derived, since the peer cannot have it yet.
                    Stage::OldKeysExpiredUnanswered => (present, Err(OpenError::KeyUpdate)),
                    Stage::BeforeTheFirst | Stage::OldKeysExpired if is_beyond => {
                        (present + 1, Ok(present + 1))
                    }
                    Stage::BeforeTheFirst | Stage::OldKeysExpired => (present + 1, Err(OpenError::KeyUpdate)),
                    Stage::OldKeysAliveAndAnswered if is_beyond => (present + 1, Ok(present + 1)),
                    Stage::Initiated => (present - 1, Ok(present - 1)),
                    _ if number == before => (present - 1, Ok(present - 1)),
                    _ => (present - 1, Err(OpenError::KeyUpdate)),
                };
                for generation in present.saturating_sub(1)..=present + 1 {
                    let mut ours = scene(suite, role, stage).ours;
                    let phase = if (present % 2 == 1) ^ flipped { PHASE } else { 0 };
                    let packet = schedule.seal(generation, phase, number, FRAMES);
                    if generation == tried {
                        let opened = ours.open(&packet).map(|received| received.generation);
                        assert_eq!(opened, fate, "{suite:?} {stage:?} {number}");
                    } else {
                        assert_costs_one_failure(&mut ours, packet);
                    }
                }
            }
        }
    });
}
