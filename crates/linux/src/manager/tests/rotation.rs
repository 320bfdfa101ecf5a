//! Changes of peers as transactions: dry runs, undoing, and waiting until they are done.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use proptest::prelude::*;

use super::fleet::{Fleet, host, with_keys};
use super::pair::any_chain;
use super::*;
use crate::manager::transaction::Rehearsal;
use crate::{Barrier, PendingSocket, PlannedSocket};

/// A manager with these peers, which all have key 1.
fn with_peers(numbers: impl IntoIterator<Item = u32>) -> KeyManager {
    manager(numbers.into_iter().map(|number| (host(number), with_keys(&[1]))))
}

/// All peers with the ids of their keys.
fn configured(manager: &KeyManager) -> Vec<(PeerName, Vec<u64>)> {
    let ids = |configured: &Configured| configured.chain.keys().iter().map(Key::key_id).collect();
    manager.shared.state().peers.iter().map(|(peer, configured)| (*peer, ids(configured))).collect()
}

#[test]
fn each_change_is_a_generation() {
    let manager = KeyManager::default();
    assert_eq!(manager.generation(), Generation::default());
    let first = manager.set_peer(host(1), with_keys(&[1])).unwrap();
    let second = manager.set_peers([(host(2), with_keys(&[1]))]).unwrap();
    let third = manager.remove_peer(host(2)).unwrap();
    let fourth = manager.block_peer(host(3));
    assert!(first < second && second < third && third < fourth);
    assert_eq!(manager.generation(), fourth);
    assert_eq!(fourth.to_string(), "generation 4");
    // What changes nothing is no change.
    assert_eq!(manager.remove_peer(host(2)), None);
    assert_eq!(manager.generation(), fourth);
}

#[test]
fn to_undo_a_transaction_that_changed_nothing_undoes_no_other() {
    let manager = with_peers(0..3);
    let before = configured(&manager);
    let mut transaction = manager.transaction();
    transaction.set_peer(host(0), with_keys(&[1]));
    transaction.remove_peer(host(9));
    let same = transaction.commit().unwrap();
    manager.undo(same).unwrap();
    assert_eq!(configured(&manager), before);
    let empty = manager.transaction().commit().unwrap();
    assert!(same < empty);
    manager.undo(empty).unwrap();
    assert_eq!(configured(&manager), before);
}

#[test]
fn a_kept_peer_stays_when_the_others_are_removed() {
    let manager = with_peers(0..3);
    let mut transaction = manager.transaction();
    assert!(!transaction.keep_peer(host(1)));
    assert!(!transaction.set_peer(host(5), with_keys(&[7])));
    transaction.remove_others();
    let kept = transaction.commit().unwrap();
    assert_eq!(configured(&manager), [(host(1), vec![1]), (host(5), vec![7])]);
    assert!(
        manager
            .peers()
            .iter()
            .map(|peer| (peer.name, peer.generation))
            .eq([(host(1), Generation(1)), (host(5), kept)])
    );

    // What is said last of a peer counts, and that something was said before is told.
    let mut transaction = manager.transaction();
    assert!(
        !transaction.remove_peer(host(1)) && transaction.keep_peer(host(1)) && transaction.keep_peer(host(1))
    );
    assert!(!transaction.keep_peer(host(5)) && transaction.remove_peer(host(5)));
    transaction.commit().unwrap();
    assert_eq!(configured(&manager), [(host(1), vec![1])]);

    let mut transaction = manager.transaction();
    transaction.keep_peer(host(9));
    let error = transaction.dry_run(at(0)).unwrap_err();
    assert!(matches!(error, Error::UnknownPeer(peer) if peer == host(9)), "{error}");
    assert!(matches!(transaction.commit(), Err(Error::UnknownPeer(_))));
}

#[test]
fn a_change_that_was_not_made_yet_is_not_held() {
    let manager = with_peers(0..1);
    let newest = manager.generation();
    assert!(manager.progress(newest).is_held() && manager.progress(newest).is_made);
    let later = manager.progress(Generation(newest.0 + 1));
    assert!(!later.is_made && !later.is_held() && !later.has_moved() && later.superseded_by.is_none());
}

#[test]
fn a_transaction_is_refused_after_another_change() {
    let manager = with_peers(0..3);
    let mut transaction = manager.transaction();
    let began = manager.generation();
    transaction.set_peer(host(0), with_keys(&[1, 2]));
    transaction.remove_peer(host(1));
    let newest = manager.set_peer(host(9), with_keys(&[1])).unwrap();
    let before = configured(&manager);
    let error = transaction.dry_run(at(0)).unwrap_err();
    assert!(matches!(error, Error::ChangedMeanwhile { .. }), "{error}");
    let error = transaction.commit().unwrap_err();
    assert!(matches!(error, Error::ChangedMeanwhile { began: a, newest: b } if (a, b) == (began, newest)));
    let message = error.to_string();
    assert!(message.contains("generation 1") && message.contains("generation 2"), "{message}");
    assert_eq!((configured(&manager), manager.generation()), (before, newest));
}

#[test]
fn a_transaction_whose_peers_clash_changes_nothing() {
    let manager = with_peers(0..2);
    let before = (configured(&manager), manager.generation());
    let network = peer("10.0.0.0/8");
    for clashing in [&[(network, 1)][..], &[(network, 3), (host(7), 3)], &[(host(1), 2), (network, 1)]] {
        let mut transaction = manager.transaction();
        for (peer, id) in clashing {
            transaction.set_peer(*peer, with_keys(&[*id]));
        }
        let error = transaction.dry_run(at(0)).unwrap_err();
        assert!(matches!(error, Error::PeersClash { .. }), "{error}");
        assert!(matches!(transaction.commit(), Err(Error::PeersClash { .. })));
        assert_eq!((configured(&manager), manager.generation()), before);
    }
    // Peers can exchange ids in one transaction, which they cannot one by one.
    manager.set_peer(network, with_keys(&[2])).unwrap();
    assert!(manager.set_peer(host(0), with_keys(&[2])).is_err());
    let mut transaction = manager.transaction();
    for (peer, id) in [(host(0), 2), (host(1), 3), (network, 4)] {
        transaction.set_peer(peer, with_keys(&[id]));
    }
    transaction.commit().unwrap();
    assert_eq!(configured(&manager), [(network, vec![4]), (host(0), vec![2]), (host(1), vec![3])]);
}

#[test]
fn only_the_newest_change_is_undone_and_only_once() {
    let manager = KeyManager::default();
    let none = manager.generation();
    assert!(matches!(manager.undo(none), Err(Error::CannotUndo { .. })), "there is nothing to undo");
    let first = manager.set_peers((0..3).map(|number| (host(number), with_keys(&[1])))).unwrap();
    let before = configured(&manager);
    let mut transaction = manager.transaction();
    transaction.set_peer(host(0), with_keys(&[1, 2]));
    transaction.remove_peer(host(1));
    transaction.set_peer(host(5), with_keys(&[7]));
    let second = transaction.commit().unwrap();
    let after = configured(&manager);
    assert_ne!(after, before);
    let error = manager.undo(first).unwrap_err();
    assert!(
        matches!(error, Error::CannotUndo { generation, newest } if (generation, newest) == (first, second))
    );
    assert_eq!(configured(&manager), after);

    let undoing = manager.undo(second).unwrap();
    assert!(second < undoing);
    assert_eq!(configured(&manager), before);
    assert!(manager.undo(second).is_err(), "twice");
    assert_eq!((configured(&manager), manager.generation()), (before, undoing));
    let progress = manager.progress(second);
    assert!(progress.is_undone && progress.superseded_by == Some(undoing) && !progress.is_held());
    assert!(!manager.progress(undoing).is_undone && !manager.progress(first).is_undone);
    // To undo the undoing is to make the change again.
    manager.undo(undoing).unwrap();
    assert_eq!(configured(&manager), after);
}

#[test]
fn an_undoing_adds_deleted_keys_before_it_deletes_others() {
    let mut fleet = Fleet::default();
    fleet.manager.set_peer(host(1), with_keys(&[1])).unwrap();
    let numbers = [fleet.connect(host(1), &with_keys(&[1])), fleet.listen()];
    fleet.run(0..2);
    let generation = fleet.manager.set_peer(host(1), with_keys(&[2])).unwrap();
    fleet.models[0].far.as_mut().unwrap().1 = with_keys(&[1, 2]);
    fleet.run(2..6);
    assert_eq!(numbers.map(|number| fleet.keys(number).0), [[2], [2]]);
    fleet.manager.undo(generation).unwrap();
    let reports = fleet.step(6);
    let done: Vec<String> = reports.iter().map(|report| short(report.done.clone())).collect();
    assert_eq!(done, ["add 1 rnext, delete leftover 2 -> 1 current", "add 1, delete leftover 2 -> 1"]);
    fleet.run(7..12);
    assert_eq!(fleet.keys(0), (vec![1], [Some(1); 2]));
    assert!(fleet.manager.progress(fleet.manager.generation()).has_moved());
}

#[test]
fn a_peer_that_is_kept_out_has_a_placeholder_in_place_of_its_keys() {
    let mut fleet = Fleet::default();
    fleet.manager.set_peer(host(1), with_keys(&[1])).unwrap();
    let (listener, connection) = (fleet.listen(), fleet.connect(host(1), &with_keys(&[1])));
    fleet.run(0..2);
    fleet.manager.block_peer(host(1));
    // One that never had keys, around the other: it takes no ids.
    fleet.manager.block_peer(peer("10.0.0.0/8"));
    let reports = fleet.step(2);
    assert!(reports[1].state.expired, "its connection is to be shut down, under its keys");
    assert_eq!((fleet.keys(listener).0, fleet.keys(connection).0), (vec![254, 255], vec![1]));
    assert!(fleet.manager.progress(fleet.manager.generation()).has_moved(), "there is nothing to move to");
    fleet.manager.set_peer(host(1), with_keys(&[0, 255])).unwrap();
    fleet.manager.set_peer(peer("10.0.0.0/8"), with_keys(&[3])).unwrap();
    fleet.step(3);
    assert_eq!(fleet.keys(listener).0, [0, 3, 255]);
}

#[test]
fn progress_counts_what_is_attached_and_open() {
    let mut fleet = Fleet::default();
    fleet.manager.set_peers([1, 2, 3].map(|number| (host(number), with_keys(&[1])))).unwrap();
    for number in [1, 2, 3] {
        fleet.connect(host(number), &with_keys(&[1]));
    }
    fleet.listen();
    fleet.run(0..2);
    let of = |fleet: &Fleet, generation| {
        let progress = fleet.manager.progress(generation);
        let numbers =
            |pending: &[PendingSocket]| pending.iter().map(|one| one.attachment).collect::<Vec<_>>();
        (progress.sockets, numbers(&progress.not_held), numbers(&progress.not_moved))
    };
    let generation = fleet.manager.set_peer(host(1), with_keys(&[1, 2])).unwrap();
    // The other connections have nothing to do for this.
    assert_eq!(of(&fleet, generation), (4, vec![0, 3], vec![]));
    fleet.step(2);
    assert_eq!(of(&fleet, generation), (4, vec![], vec![0]));
    // Its program drops a connection in the middle of the rotation, and another one ends.
    fleet.models[2].has_ended = true;
    let generation =
        fleet.manager.set_peers([1, 2, 3].map(|number| (host(number), with_keys(&[1, 2])))).unwrap();
    fleet.step(3);
    assert_eq!(of(&fleet, generation), (3, vec![], vec![0, 1]));
    drop(fleet.models.remove(0));
    assert_eq!(of(&fleet, generation), (2, vec![], vec![1]));
    let shrunk = fleet.manager.set_peers([(host(3), with_keys(&[1]))]).unwrap();
    assert_eq!(of(&fleet, shrunk).1, [1, 3]);
    let reports = fleet.step(4);
    assert!(
        reports[0].state.expired && reports[0].done.is_empty(),
        "a removed peer's connection keeps its keys"
    );
    assert_eq!(of(&fleet, shrunk), (2, vec![], vec![]));
}

/// GoBGP and BIRD can be configured so.
#[test]
fn a_connection_may_begin_with_the_keys_from_before_its_syn_is_answered() {
    let mut fleet = Fleet::default();
    fleet.manager.set_peer(host(1), with_keys(&[1])).unwrap();
    fleet.list(Kernel::new(Closed), Some(host(1)), None);
    fleet.run(0..2);
    let generation = fleet.manager.set_peer(host(1), with_keys(&[1, 2])).unwrap();
    let progress = |fleet: &Fleet| fleet.manager.progress(generation);
    fleet.models[0].is_connecting = true;
    fleet.run(2..10);
    assert!(progress(&fleet).is_held() && !progress(&fleet).has_moved());
    // The peer has answered with the key that the SYN asked for, and holds no other.
    let old = host(1).key(&mkt(1, 1, 1));
    let model = &mut fleet.models[0];
    (model.is_connecting, model.kernel.kind) = (false, Connection);
    (model.kernel.current, model.far) =
        (Some(old), Some((Kernel::connected(&mkt(1, 1, 1)), with_keys(&[1]))));
    fleet.run(10..40);
    assert!(!progress(&fleet).has_moved());
    fleet.models[0].far.as_mut().unwrap().1 = with_keys(&[1, 2]);
    fleet.run(40..72);
    assert!(progress(&fleet).has_moved());

    // A SYN that is sent after the change is signed with the preferred key.
    let generation = fleet.manager.set_peer(host(2), with_keys(&[1])).unwrap();
    fleet.list(Kernel::new(Closed), Some(host(2)), None);
    fleet.run(72..74);
    fleet.models[1].is_connecting = true;
    fleet.run(74..121);
    assert!(fleet.manager.progress(generation).has_moved());
}

#[test]
fn a_peer_that_signs_with_the_new_key_and_asks_for_the_old_one_has_not_moved() {
    let mut fleet = Fleet::default();
    let old = Key::new(1, mkt(1, 1, 1)).with_lifetimes(lifetime(None, 10), lifetime(None, 500)).unwrap();
    let both = chain(0, [old, key(2, mkt(2, 2, 2), lifetime(0, None))]);
    let generation = fleet.manager.set_peer(host(1), both.clone()).unwrap();
    fleet.connect(host(1), &both);
    let mut far = fleet.models[0].far.take().unwrap().0.with(name(2, 2), &mkt(2, 2, 2));
    (far.current, far.rnext) = (Some(name(2, 2)), Some(name(1, 1)));
    let has_moved = |fleet: &Fleet| fleet.manager.progress(generation).has_moved();
    let segments = |fleet: &mut Fleet, far: &Kernel| fleet.models[0].kernel.receive(&far.send()).unwrap();
    for now in 5..30 {
        // This end chooses the new key itself at the end of the old one's send lifetime, and for a while no segment comes.
        if ![5, 11, 12].contains(&now) {
            segments(&mut fleet, &far);
        }
        fleet.step(now);
        assert!(!has_moved(&fleet), "at {now}");
        if [10, 11, 12].contains(&now) {
            assert_eq!(fleet.keys(0).1, [Some(2); 2], "at {now}");
        }
    }
    far.rnext = Some(name(2, 2));
    for now in [30, 60, 90] {
        segments(&mut fleet, &far);
        fleet.step(now);
    }
    assert!(has_moved(&fleet));
}

#[test]
fn who_waits_is_woken_by_a_step_a_change_and_a_detached_socket() {
    let prepared = || {
        let mut fleet = Fleet::default();
        fleet.manager.set_peer(host(1), with_keys(&[1])).unwrap();
        fleet.connect(host(1), &with_keys(&[1]));
        fleet
    };
    let long = Duration::from_secs(600);
    let woken = |barrier, wake: &dyn Fn(&mut Fleet)| {
        let mut fleet = prepared();
        let manager = fleet.manager.clone();
        let generation = manager.set_peer(host(1), with_keys(&[1, 2])).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| manager.wait_until(generation, barrier, long));
            thread::sleep(Duration::from_millis(20));
            wake(&mut fleet);
            waits.join().unwrap()
        })
    };
    assert!(woken(Barrier::Held, &|fleet| _ = fleet.step(0)).is_held());
    let moves = |fleet: &mut Fleet| {
        fleet.models[0].far.as_mut().unwrap().1 = with_keys(&[1, 2]);
        fleet.run(0..6);
    };
    assert!(woken(Barrier::Moved, &moves).has_moved());
    let progress =
        woken(Barrier::Moved, &|fleet| _ = fleet.manager.set_peer(host(2), with_keys(&[1])).unwrap());
    assert!(progress.superseded_by.is_some() && !progress.is_undone);
    let progress = woken(Barrier::Held, &|fleet| _ = fleet.manager.undo(fleet.manager.generation()).unwrap());
    assert!(progress.is_undone && !progress.is_held());
    assert!(woken(Barrier::Held, &|fleet| fleet.models.clear()).is_held(), "no socket is left");

    let fleet = prepared();
    let generation = fleet.manager.set_peer(host(1), with_keys(&[1, 2])).unwrap();
    let start = Instant::now();
    let progress = fleet.manager.wait_until(generation, Barrier::Held, Duration::from_millis(30));
    assert!(!progress.is_held() && start.elapsed() >= Duration::from_millis(30));
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_task_that_waits_is_woken_too() {
    let mut fleet = Fleet::default();
    fleet.manager.set_peer(host(1), with_keys(&[1])).unwrap();
    fleet.connect(host(1), &with_keys(&[1]));
    let generation = fleet.manager.set_peer(host(1), with_keys(&[1, 2])).unwrap();
    let held = tokio::spawn(fleet.manager.reached(generation, Barrier::Held));
    let moved = tokio::spawn(fleet.manager.reached(generation, Barrier::Moved));
    tokio::task::yield_now().await;
    fleet.step(0);
    assert!(held.await.unwrap().is_held());
    assert!(!moved.is_finished());
    fleet.manager.undo(generation).unwrap();
    let progress = moved.await.unwrap();
    assert!(progress.is_undone && !progress.has_moved());
}

/// Compares what a rehearsal says of any socket with what is then done.
fn rehearse_and_apply(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let (own, network) = (peer(PEER), peer("192.0.2.0/24"));
    let kind = [Listener, Closed, Connection][random.usize(0..3)];
    let some_mkt = |random: &mut Rng| mkt(random.u8(0..4), random.u8(0..4), random.u32(0..3));
    let mut kernel = Kernel { kind, ..Kernel::connected(&some_mkt(&mut random)) };
    let mut memories = PeerTable::new();
    for _ in 0..4 {
        let chains = [(own, any_chain(&mut random)), (network, any_chain(&mut random))];
        let peers = peers(chains.into_iter().take(random.usize(1..3)));
        // Another program adds a key to a listener, and the peer of a connection asks for one.
        if kind == Listener {
            let foreign = some_mkt(&mut random);
            let _ = kernel.add(&SocketKey::new(IpCidr::new_host([198, 51, 100, 1].into()), &foreign));
        } else {
            kernel.current = Some(kernel.keys[random.usize(0..kernel.keys.len())].name);
        }
        let only = (kind != Listener).then_some(own);
        let scope = Scope { only, kind, ..scope(&peers, random.i64(0..500)) };
        let before = format!("{kernel:?}");
        let mut on_paper = memories.clone();
        let rehearsed = scope.apply(&mut on_paper, &mut Rehearsal::of(&mut kernel));
        assert_eq!(format!("{kernel:?}"), before, "nothing has changed");
        let (done, _) = kernel.apply_all(&scope, &mut memories);
        assert_eq!(format!("{rehearsed:?}"), format!("{done:?}"));
        assert_eq!(on_paper, memories);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn what_is_rehearsed_is_what_is_done(seed: u64) {
        rehearse_and_apply(seed);
    }
}

#[test]
fn a_planned_socket_is_one_line() {
    let (key, successor) = (name(1, 1), Some(name(2, 2)));
    let delete =
        Action::Delete { key, origin: Origin::Leftover, successor, is_current: false, is_rnext: false };
    let mut planned = PlannedSocket {
        attachment: 3,
        kind: Some(Connection),
        peer: Some(peer(PEER)),
        is_let_go: false,
        actions: vec![Action::SetRnext(name(2, 2)), delete],
        failed: vec![(Some(Action::SetCurrent(key)), Error::NoMemory)],
        expired: false,
        overdue: Vec::new(),
    };
    let line = planned.to_string();
    assert!(
        line.starts_with("socket 3, a connection with 192.0.2.7: ask the peer for the key with SendID 2"),
        "{line}"
    );
    assert!(
        line.contains("; delete the key")
            && line.contains("; cannot sign with the key")
            && !line.contains('\n')
    );
    planned = PlannedSocket { actions: Vec::new(), failed: Vec::new(), ..planned };
    assert_eq!(planned.to_string(), "socket 3, a connection with 192.0.2.7: nothing to do");
    planned = PlannedSocket { kind: None, is_let_go: true, ..planned };
    assert_eq!(planned.to_string(), "socket 3 with 192.0.2.7: let go, so it was not looked at");
}
