//! Policies: what happens when keys cannot be set, or a peer does not move.

use fastrand::Rng;
use proptest::prelude::*;

use super::fleet::{Fleet, host, with_keys};
use super::*;
use crate::manager::policy::{OnFailure, Policy, PolicyAction};
use crate::manager::report::SocketReport;
use crate::{Barrier, SocketKind};

const SESSIONS: u32 = 1000;
/// The peer that never moves.
const STUCK: u32 = 500;

fn policy(on_failure: OnFailure) -> Policy {
    Policy { on_failure, patience: Some(10), cohort: None }
}

/// What policies did, by the reports.
fn acted(reports: &[SocketReport]) -> Vec<(u64, PeerName, PolicyAction)> {
    let each = |report: &SocketReport| {
        let of = report.attachment;
        report.policy.iter().map(|(peer, action)| (of, *peer, *action)).collect::<Vec<_>>()
    };
    reports.iter().flat_map(each).collect()
}

/// A thousand sessions that are to move from key 1 to key 2, and a listener, whose number is 1000.
fn rotation(policies: impl Fn(u32) -> Option<Policy>) -> (Fleet, Generation) {
    let mut fleet = Fleet::default();
    let before = with_keys(&[1]);
    fleet.manager.set_peers((0..SESSIONS).map(|number| (host(number), before.clone()))).unwrap();
    for number in 0..SESSIONS {
        fleet.connect(host(number), &before);
    }
    fleet.listen();
    fleet.run(0..2);
    let mut transaction = fleet.manager.transaction();
    for number in 0..SESSIONS {
        transaction.set_peer(host(number), with_keys(&[1, 2]));
        if let Some(policy) = policies(number) {
            transaction.set_policy(host(number), policy);
        }
    }
    let generation = transaction.commit().unwrap();
    for model in fleet.models.iter_mut().filter(|model| model.peer != Some(host(STUCK))) {
        model.far = model.far.take().map(|(far, _)| (far, with_keys(&[1, 2])));
    }
    (fleet, generation)
}

#[test]
fn a_peer_that_never_moves_harms_no_other_whatever_its_policy_is() {
    use PolicyAction::*;
    let stuck = u64::from(STUCK);
    for on_failure in
        [OnFailure::Retry, OnFailure::HoldOldKeys, OnFailure::ResetSession, OnFailure::ResetCohort]
    {
        let (mut fleet, generation) = rotation(|_| Some(policy(on_failure)));
        let progress = |fleet: &Fleet| fleet.manager.progress(generation);
        assert_eq!((progress(&fleet).sockets, progress(&fleet).not_held.len()), (1001, 1001));
        let reports = fleet.run(2..3);
        assert!(reports.iter().all(|report| report.state.generation == generation));
        assert!(progress(&fleet).is_held() && !progress(&fleet).has_moved());
        assert_eq!(progress(&fleet).not_moved.len(), 1000);
        assert!(acted(&fleet.run(3..12)).is_empty(), "it has 10 seconds from when it has the keys");
        let left: Vec<_> =
            progress(&fleet).not_moved.iter().map(|pending| (pending.attachment, pending.peer)).collect();
        assert_eq!(left, [(stuck, Some(host(STUCK)))]);
        assert!(!progress(&fleet).has_reached(Barrier::Moved));

        let acts = match on_failure {
            OnFailure::Retry => None,
            OnFailure::HoldOldKeys => Some(HeldOldKeys),
            OnFailure::ResetSession => Some(ResetSession),
            OnFailure::ResetCohort => Some(ResetCohort),
        };
        let reports = fleet.run(12..32);
        let expected: Vec<_> = acts.iter().map(|action| (stuck, host(STUCK), *action)).collect();
        assert_eq!(acted(&reports), expected, "once");
        let progress = progress(&fleet);
        assert_eq!(progress.has_reached(Barrier::Moved), acts.is_some(), "{progress:?}");
        let given_up: Vec<_> = acts.iter().map(|action| (host(STUCK), *action)).collect();
        assert_eq!(progress.given_up, given_up);
        assert_eq!(
            fleet.models[STUCK as usize].kernel.is_reset,
            matches!(acts, Some(ResetSession | ResetCohort))
        );
        let expected = if acts == Some(HeldOldKeys) {
            (vec![1], [Some(1); 2])
        } else {
            (vec![1, 2], [Some(1), Some(2)])
        };
        assert_eq!(fleet.keys(stuck), expected, "{on_failure:?}");
        // The listener has both keys of each peer but one that holds the old ones.
        let held = fleet.models[1000].kernel.keys.len();
        assert_eq!(held, if acts == Some(HeldOldKeys) { 1999 } else { 2000 });
        for number in (0..1000).filter(|number| *number != stuck) {
            assert_eq!(fleet.keys(number), (vec![1, 2], [Some(2); 2]));
            assert!(!fleet.models[number as usize].kernel.is_reset);
        }
        assert!(
            reports.iter().all(|report| [stuck, 1000].contains(&report.attachment) || report.done.is_empty())
        );
    }
}

#[test]
fn a_cohort_is_reset_together_and_others_are_not() {
    let in_cohort = |number| (495..505).contains(&number);
    let (mut fleet, generation) = rotation(|number| {
        let cohort = in_cohort(number).then(|| "core".to_owned());
        Some(Policy { cohort, ..policy(OnFailure::ResetCohort) })
    });
    let reports = fleet.run(2..32);
    let acted = acted(&reports);
    assert_eq!(acted.len(), 10);
    assert!(
        acted.iter().all(|(_, peer, action)| *peer == host(STUCK) && *action == PolicyAction::ResetCohort)
    );
    for (number, model) in (0..SESSIONS).zip(&fleet.models) {
        assert_eq!(model.kernel.is_reset, in_cohort(number), "{number}");
    }
    let progress = fleet.manager.progress(generation);
    assert!(progress.has_moved());
    assert_eq!((progress.sockets, progress.given_up.len()), (991, 1), "ended connections do not count");
}

/// A connection whose keys are changed, by a kernel that refuses some calls.
fn refused(
    on_failure: OnFailure,
    refuse: fn(&Call<'_>) -> Option<Error>,
) -> (Fleet, Generation, Vec<SocketReport>) {
    let mut fleet = Fleet::default();
    let before = with_keys(&[1]);
    fleet.manager.set_peer(host(1), before.clone()).unwrap();
    fleet.connect(host(1), &before);
    fleet.run(0..2);
    fleet.manager.set_policy(host(1), Policy { patience: None, ..policy(on_failure) });
    let generation = fleet.manager.set_peer(host(1), with_keys(&[3, 2])).unwrap();
    let mut reports = Vec::new();
    for now in 2..5 {
        let step = fleet.step_with(now, |_, kernel, call| match refuse(call) {
            Some(error) => Err(error),
            None => kernel.call(call),
        });
        reports.extend(step);
    }
    (fleet, generation, reports)
}

#[test]
fn an_action_that_fails_is_a_failure_at_once() {
    let no_memory = |call: &Call<'_>| matches!(call, Call::Add { key_id: 2, .. }).then_some(Error::NoMemory);
    // Another program has put a key with this id on the socket.
    let taken = |call: &Call<'_>| match *call {
        Call::Add { key_id: 2, key } => {
            Some(Error::IdInUse { send_id: key.mkt.send_id(), recv_id: key.mkt.recv_id() })
        }
        _ => None,
    };
    for refuse in [no_memory, taken] {
        let (mut fleet, generation, reports) = refused(OnFailure::HoldOldKeys, refuse);
        assert_eq!(acted(&reports), [(0, host(1), PolicyAction::HeldOldKeys)]);
        assert!(!reports[0].failed.is_empty());
        fleet.run(5..8);
        assert_eq!(fleet.keys(0), (vec![1], [Some(1); 2]));
        let progress = fleet.manager.progress(generation);
        assert!(progress.is_held() && progress.sockets == 0, "{progress:?}");
        // The next change of the peer counts again.
        let next = fleet.manager.set_peer(host(1), with_keys(&[1, 2])).unwrap();
        fleet.run(8..10);
        let progress = fleet.manager.progress(next);
        assert!(progress.is_held() && progress.given_up.is_empty() && progress.sockets == 1, "{progress:?}");
        assert_eq!(fleet.keys(0), (vec![1, 2], [Some(1), Some(2)]));
    }
}

#[test]
fn a_key_that_cannot_be_deleted_is_no_failure_but_is_not_held_either() {
    let in_use = |call: &Call<'_>| match *call {
        Call::Delete { key, .. } => Some(Error::KeyInUse(key)),
        _ => None,
    };
    let gone = |call: &Call<'_>| match *call {
        Call::Delete { key, .. } => {
            Some(Error::NoSuchKey { send_id: Some(key.send_id), recv_id: Some(key.recv_id) })
        }
        _ => None,
    };
    let stays = |call: &Call<'_>| match *call {
        Call::Delete { key, .. } => Some(Error::KeyStays(key)),
        _ => None,
    };
    for refuse in [in_use, gone, stays] {
        let (mut fleet, generation, reports) = refused(OnFailure::ResetSession, refuse);
        assert!(reports.iter().all(|report| report.policy.is_empty()));
        assert!(reports.iter().any(|report| !report.failed.is_empty()));
        assert!(!fleet.manager.progress(generation).is_held());
        fleet.run(5..40);
        assert!(fleet.manager.progress(generation).is_held());
    }
}

#[test]
fn a_socket_that_does_not_hold_the_keys_says_why() {
    let no_memory = |call: &Call<'_>| matches!(call, Call::Add { key_id: 2, .. }).then_some(Error::NoMemory);
    let (mut fleet, generation, _) = refused(OnFailure::Retry, no_memory);
    let not_held = |fleet: &Fleet, of| fleet.manager.progress(of).not_held;
    let pending = not_held(&fleet, generation);
    let key = host(1).key(with_keys(&[2]).keys()[0].mkt());
    let expected = format!("socket 0 with 10.0.0.1: cannot add the {key}: {}", Error::NoMemory);
    assert_eq!(pending.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    let same = not_held(&fleet, generation);
    assert!(Arc::ptr_eq(pending[0].error.as_ref().unwrap(), same[0].error.as_ref().unwrap()), "no copy");
    fleet.run(5..40);
    assert!(fleet.manager.progress(generation).is_held());
    // The next change waits for a step, and nothing has failed since the last.
    let next = fleet.manager.set_peer(host(1), with_keys(&[2])).unwrap();
    assert_eq!(not_held(&fleet, next)[0].to_string(), "socket 0 with 10.0.0.1");
}

#[test]
fn a_failure_on_a_listener_concerns_the_peer_of_the_key() {
    for (on_failure, held, is_reset) in [
        (OnFailure::HoldOldKeys, true, false),
        (OnFailure::ResetSession, false, false),
        (OnFailure::ResetCohort, false, true),
    ] {
        let mut fleet = Fleet::default();
        let before = with_keys(&[1]);
        fleet.manager.set_peers([1, 2].map(|number| (host(number), before.clone()))).unwrap();
        let listener = fleet.listen();
        let connections = [1, 2].map(|number| fleet.connect(host(number), &before));
        fleet.run(0..2);
        let mut transaction = fleet.manager.transaction();
        for number in [1, 2] {
            transaction.set_peer(host(number), with_keys(&[1, 2]));
            transaction.set_policy(host(number), Policy { patience: None, ..policy(on_failure) });
        }
        let generation = transaction.commit().unwrap();
        for now in 2..6 {
            fleet.step_with(now, |_, kernel, call| match *call {
                Call::Add { key_id: 2, key }
                    if kernel.kind == SocketKind::Listener && key.name().peer() == host(1) =>
                {
                    Err(Error::NoMemory)
                }
                _ => kernel.call(call),
            });
        }
        let progress = fleet.manager.progress(generation);
        assert_eq!(progress.given_up.is_empty(), !held && !is_reset, "{on_failure:?}");
        assert_eq!(progress.is_held(), held, "{progress:?}");
        assert_eq!(
            connections.map(|number| fleet.models[number as usize].kernel.is_reset),
            [is_reset, false]
        );
        assert_eq!(
            connections.map(|number| fleet.keys(number).0.len()),
            if held || is_reset { [1, 2] } else { [2, 2] }
        );
        assert_eq!(fleet.keys(listener).0, [1, 1, 2]);
    }
}

#[test]
fn without_usable_old_keys_steps_go_on_trying() {
    let hold = || Policy { patience: Some(3), ..policy(OnFailure::HoldOldKeys) };
    let stuck = |prepare: &dyn Fn(&mut Fleet)| {
        let mut fleet = Fleet::default();
        fleet.manager.set_policy(host(1), hold());
        fleet.manager.set_peer(host(1), one_key(1, None, 8)).unwrap();
        fleet.connect(host(1), &with_keys(&[1]));
        fleet.run(0..2);
        prepare(&mut fleet);
        let reports = fleet.run(2..30);
        let acted: Vec<_> = acted(&reports).into_iter().map(|(_, _, action)| action).collect();
        assert!(
            fleet.manager.progress(fleet.manager.generation()).given_up.is_empty()
                == (acted != [PolicyAction::HeldOldKeys])
        );
        acted
    };
    let change = |fleet: &Fleet| fleet.manager.set_peer(host(1), with_keys(&[1, 2])).unwrap();
    assert_eq!(stuck(&|fleet| _ = change(fleet)), [PolicyAction::HeldOldKeys]);
    // The old key expires before patience is over.
    let late = |fleet: &mut Fleet| {
        fleet.manager.set_policy(host(1), Policy { patience: Some(7), ..hold() });
        change(fleet);
    };
    assert_eq!(stuck(&late), [PolicyAction::NoOldKeys]);
    // The policy came too late.
    let after = |fleet: &mut Fleet| {
        fleet.manager.set_policy(host(1), Policy::default());
        change(fleet);
        fleet.manager.set_policy(host(1), hold());
    };
    assert_eq!(stuck(&after), [PolicyAction::NoOldKeys]);
    // Another peer was given the id of the old key in the same change.
    let taken = |fleet: &mut Fleet| {
        let mut transaction = fleet.manager.transaction();
        transaction.set_peer(host(1), with_keys(&[3, 2]));
        transaction.set_peer(peer("10.0.0.0/8"), with_keys(&[1]));
        transaction.commit().unwrap();
    };
    assert_eq!(stuck(&taken), [PolicyAction::NoOldKeys]);
    // An undoing does not go back to what was undone.
    let undone = |fleet: &mut Fleet| {
        let generation = change(fleet);
        fleet.manager.undo(generation).unwrap();
        let mkt = mkt(9, 9, 9);
        let away = host(1).key(&mkt);
        let kernel = &mut fleet.models[0].kernel;
        kernel.keys.push(InstalledKey::of(away, &mkt));
        kernel.current = Some(away);
    };
    assert_eq!(stuck(&undone), [] as [PolicyAction; 0]);
}

#[test]
fn all_sockets_of_a_peer_go_back_together() {
    let mut fleet = Fleet::default();
    let before = with_keys(&[1]);
    fleet.manager.set_policy(host(1), policy(OnFailure::HoldOldKeys));
    fleet.manager.set_peer(host(1), before.clone()).unwrap();
    let numbers = [fleet.connect(host(1), &before), fleet.connect(host(1), &before), fleet.listen()];
    fleet.run(0..2);
    // One of the connections moves, the other does not.
    fleet.manager.set_peer(host(1), with_keys(&[1, 2])).unwrap();
    fleet.models[0].far.as_mut().unwrap().1 = with_keys(&[1, 2]);
    let reports = fleet.run(2..28);
    assert_eq!(acted(&reports), [(1, host(1), PolicyAction::HeldOldKeys)]);
    assert_eq!(numbers.map(|number| fleet.keys(number).0), [[1], [1], [1]]);
    // Neither does any other of its connections.
    fleet.manager.set_peer(host(1), with_keys(&[1, 2])).unwrap();
    fleet.models[0].far.as_mut().unwrap().1 = before;
    let reports = fleet.run(31..58);
    assert_eq!(acted(&reports).len(), 1, "{:?}", acted(&reports));
    assert_eq!(numbers.map(|number| fleet.keys(number).0), [[1], [1], [1]]);
}

#[test]
fn a_peer_that_is_kept_out_does_not_get_its_keys_back() {
    let mut fleet = Fleet::default();
    fleet.manager.set_policy(host(1), policy(OnFailure::HoldOldKeys));
    fleet.manager.set_peer(host(1), with_keys(&[1])).unwrap();
    let listener = fleet.listen();
    fleet.run(0..2);
    fleet.manager.block_peer(host(1));
    let reports = fleet.step_with(2, |_, kernel, call| match call {
        Call::AddPlaceholder { .. } => Err(Error::NoMemory),
        call => kernel.call(call),
    });
    assert_eq!(acted(&reports), [(listener, host(1), PolicyAction::NoOldKeys)]);
    fleet.run(3..40);
    assert_eq!(fleet.keys(listener).0, [255], "the placeholder");
}

#[test]
fn old_keys_are_forgotten_once_the_peer_has_moved() {
    let mut fleet = Fleet::default();
    fleet.manager.set_policy(host(1), policy(OnFailure::HoldOldKeys));
    let both = with_keys(&[1, 2]);
    fleet.manager.set_peer(host(1), with_keys(&[1])).unwrap();
    fleet.connect(host(1), &with_keys(&[1]));
    fleet.run(0..2);
    fleet.manager.set_peer(host(1), both.clone()).unwrap();
    fleet.models[0].far.as_mut().unwrap().1 = both;
    fleet.run(2..6);
    // It has moved. Much later it is lost, after a change by lifetimes or of its own configuration.
    fleet.models[0].far.as_mut().unwrap().1 = with_keys(&[1]);
    let reports = fleet.run(100..200);
    assert_eq!(acted(&reports), [(0, host(1), PolicyAction::NoOldKeys)]);
}

#[test]
fn undoing_does_not_give_a_peer_an_id_of_keys_that_another_holds_again() {
    let mut fleet = Fleet::default();
    let network = peer("10.0.0.0/24");
    fleet.manager.set_policy(host(1), policy(OnFailure::HoldOldKeys));
    fleet.manager.set_peers([(host(1), with_keys(&[1])), (network, with_keys(&[2]))]).unwrap();
    fleet.connect(host(1), &with_keys(&[1]));
    fleet.run(0..2);
    fleet.manager.set_peer(host(1), with_keys(&[3])).unwrap();
    fleet.manager.set_peer(network, with_keys(&[1])).unwrap();
    let newest = fleet.manager.set_peer(network, with_keys(&[2])).unwrap();
    assert_eq!(acted(&fleet.run(2..20)), [(0, host(1), PolicyAction::HeldOldKeys)]);
    let error = fleet.manager.undo(newest).unwrap_err();
    assert!(matches!(error, Error::PeersClash { .. }), "{error}");
    assert_eq!(fleet.manager.generation(), newest);
    assert!(!fleet.manager.progress(newest).is_undone);
}

#[test]
fn a_configuration_that_is_loaded_again_changes_no_peer() {
    let mut fleet = Fleet::default();
    fleet.manager.set_policy(host(1), policy(OnFailure::HoldOldKeys));
    fleet.manager.set_peer(host(1), with_keys(&[1])).unwrap();
    fleet.connect(host(1), &with_keys(&[1]));
    fleet.run(0..2);
    for now in [2, 5] {
        fleet.manager.set_peers([(host(1), with_keys(&[1, 2]))]).unwrap();
        assert_eq!(acted(&fleet.run(now..now + 3)), []);
    }
    // The time since the first of both counts, and the old keys are those from before it.
    assert_eq!(acted(&fleet.run(8..14)), [(0, host(1), PolicyAction::HeldOldKeys)]);
    fleet.run(14..16);
    assert_eq!(fleet.keys(0).0, [1]);
    // Given up, it is changed anew by the same keys.
    let generation = fleet.manager.set_peers([(host(1), with_keys(&[1, 2]))]).unwrap();
    assert!(fleet.manager.progress(generation).given_up.is_empty());
}

#[test]
fn a_socket_that_is_not_connected_is_not_reset_but_its_keys_are_tried_again() {
    let mut fleet = Fleet::default();
    fleet.manager.set_policy(host(1), policy(OnFailure::ResetSession));
    fleet.manager.set_peer(host(1), with_keys(&[1])).unwrap();
    let number = fleet.list(Kernel::new(Closed), Some(host(1)), None);
    fleet.run(0..2);
    let generation = fleet.manager.set_peer(host(1), with_keys(&[1, 2])).unwrap();
    let reports = fleet.step_with(2, |_, kernel, call| match call {
        Call::Add { key_id: 2, .. } => Err(Error::NoMemory),
        _ => kernel.call(call),
    });
    assert_eq!((reports[0].failed.len(), acted(&reports)), (1, vec![]));
    // Neither is the connection that it has become.
    fleet.models[0].kernel.kind = Connection;
    assert_eq!(acted(&fleet.run(3..31)), []);
    let progress = fleet.manager.progress(generation);
    assert!(progress.is_held() && progress.given_up.is_empty() && !fleet.models[0].kernel.is_reset);
    assert_eq!(fleet.keys(number).0, [1, 2]);
}

/// Changes, undoings, failures, ended connections and dropped sockets in any order.
fn anything(seed: u64) {
    const PEERS: u32 = 5;
    let mut random = Rng::with_seed(seed);
    let mut fleet = Fleet::default();
    let foreign = KeyName { remote: IpCidr::new_host([198, 51, 100, 1].into()), ..name(1, 1) };
    let listener = fleet.list(Kernel::new(Listener).with(foreign, &mkt(1, 1, 1)), None, None);
    let chain = |random: &mut Rng| {
        let first = random.u8(1..5);
        with_keys(&[first, 1 + first % 4][..random.usize(1..3)])
    };
    let of =
        |fleet: &Fleet, peer| fleet.manager.shared.state().peers.get(&peer).map(|of| Arc::clone(&of.chain));
    let mut stale = fleet.manager.transaction();
    let mut now = 0;
    for _ in 0..60 {
        let (peer, before) = (host(random.u32(0..PEERS)), fleet.manager.generation());
        match random.u8(0..11) {
            0 | 1 => _ = fleet.manager.set_peer(peer, chain(&mut random)).unwrap(),
            2 => _ = fleet.manager.remove_peer(peer),
            3 => {
                let mut transaction = fleet.manager.transaction();
                (0..PEERS).for_each(|number| _ = transaction.set_peer(host(number), chain(&mut random)));
                assert!(before < transaction.commit().unwrap());
            }
            4 => _ = fleet.manager.undo(before),
            5 => {
                stale.set_peer(peer, chain(&mut random));
                let begun = std::mem::replace(&mut stale, fleet.manager.transaction());
                assert!(
                    begun.commit().is_ok_and(|after| before < after) || fleet.manager.generation() == before
                );
            }
            6 => {
                let on_failure = [
                    OnFailure::Retry,
                    OnFailure::HoldOldKeys,
                    OnFailure::ResetSession,
                    OnFailure::ResetCohort,
                ];
                let (on_failure, patience) =
                    (on_failure[random.usize(0..4)], random.bool().then(|| random.u32(0..9)));
                let cohort = random.bool().then(|| "cohort".to_owned());
                fleet.manager.set_policy(peer, Policy { on_failure, patience, cohort });
            }
            7 => {
                if let Some(chain) = of(&fleet, peer).filter(|_| fleet.models.len() < 12) {
                    fleet.connect(peer, &chain);
                }
            }
            8 => {
                let index = random.usize(0..fleet.models.len());
                if fleet.models[index].peer.is_some() {
                    fleet.models[index].has_ended = true;
                }
            }
            _ => {
                let fails = random.u64(0..5);
                for model in &mut fleet.models {
                    if let (Some(peer), Some((_, chain))) = (model.peer, &mut model.far)
                        && let Some(newest) = fleet.manager.shared.state().peers.get(&peer)
                        && random.bool()
                    {
                        *chain = KeyChain::clone(&newest.chain);
                    }
                }
                for _ in 0..random.i64(1..20) {
                    now += 1;
                    fleet.exchange(now);
                    fleet.step_with(now, |number, kernel, call| {
                        if (number + u64::from(call.action().key().send_id.0) + fails).is_multiple_of(7) {
                            return Err(Error::NoMemory);
                        }
                        kernel.call(call)
                    });
                }
            }
        }
        assert!(fleet.models[listener as usize].kernel.keys.iter().any(|key| key.name == foreign));
    }
    // When nothing fails any more, all sockets get their keys, and a waiting peer that has them moves.
    // Between two steps of all sockets, so that each has to be due.
    now = (now / 30 + 4) * 30 + 1;
    fleet.run(now..now + 28);
    let progress = fleet.manager.progress(fleet.manager.generation());
    assert!(progress.is_held(), "{progress:?}");
    for model in &fleet.models {
        let peers = Arc::clone(&fleet.manager.shared.state().peers);
        for (peer, Configured { chain, .. }) in
            peers.iter().filter(|(peer, _)| model.peer.is_none_or(|of| of == **peer))
        {
            let held = model.kernel.keys.iter().filter(|key| key.name.peer() == *peer).count();
            let is_open = !model.has_ended && model.peer.is_none_or(|of| of == *peer);
            assert!(!is_open || held == chain.keys().len(), "{peer}: {held} keys of {chain:?}");
        }
        let known = model
            .kernel
            .keys
            .iter()
            .filter(|key| key.name != foreign && !peers.contains_key(&key.name.peer()));
        assert!(model.peer.is_some() || known.count() == 0, "keys of removed peers");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn whatever_happens_sockets_end_with_their_keys_and_those_of_others_stay(seed: u64) {
        anything(seed);
    }
}
