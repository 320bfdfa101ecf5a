//! Steps of a manager, without a kernel that has TCP-AO.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::StepReport;
use crate::manager::look::Attached;
use crate::manager::policy::Standing;
use crate::manager::report::SocketState;
use crate::manager::sockets::{Attachment, Entry, lock};

/// Lists a socket by hand, because attaching needs a kernel with TCP-AO.
pub(super) fn list(
    manager: &KeyManager,
    number: u64,
    peer: Option<PeerName>,
    socket: &impl AsFd,
) -> (Arc<Mutex<Attached>>, Attachment) {
    let attached = Attached::new(socket).unwrap();
    let identity = attached.identity;
    let socket = Arc::new(Mutex::new(attached));
    let mut state = manager.shared.state();
    let (listed, generation) = (Arc::clone(&socket), state.generation);
    state.sockets.push(Entry {
        number,
        identity,
        socket: listed,
        next: None,
        state: SocketState { peer, generation, ..SocketState::default() },
        standing: Standing::default(),
        reset: None,
        is_let_go: false,
    });
    (socket, Attachment { shared: Arc::clone(&manager.shared), number })
}

pub(super) fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn numbers(report: &StepReport) -> Vec<u64> {
    report.sockets.iter().map(|socket| socket.attachment).collect()
}

/// Takes a step, and calls `meanwhile` while the step waits for this socket.
fn step_while(manager: &KeyManager, waiting: &Mutex<Attached>, meanwhile: impl FnOnce()) -> StepReport {
    let in_the_kernel = lock(waiting);
    thread::scope(|scope| {
        let step = scope.spawn(|| manager.step(at(0)));
        while manager.shared.state().pace.is_long_ago(at(0)) {
            thread::yield_now();
        }
        meanwhile();
        drop(in_the_kernel);
        step.join().unwrap()
    })
}

#[test]
fn a_socket_is_detached_while_a_step_waits_in_the_kernel_for_another() {
    let manager = manager([(peer("127.0.0.1"), one_key(1, None, None))]);
    let (waiting, waiting_attachment) = list(&manager, 0, None, &listener());
    let (_, detached) = list(&manager, 1, None, &listener());
    let report = step_while(&manager, &waiting, || {
        drop(detached);
        assert_eq!(manager.shared.state().sockets.len(), 1);
    });
    assert_eq!(numbers(&report), [0]);
    drop(waiting_attachment);
    assert!(manager.shared.state().sockets.is_empty());
}

#[test]
fn a_socket_is_detached_while_a_step_waits_in_the_kernel_for_it() {
    let manager = manager([(peer("127.0.0.1"), one_key(1, None, None))]);
    let socket = listener();
    let (waiting, attachment) = list(&manager, 0, None, &socket);
    let (_, other) = list(&manager, 1, None, &listener());
    let generation = manager.set_peer(peer("127.0.0.1"), one_key(2, None, None)).unwrap();
    let report = step_while(&manager, &waiting, || {
        drop(attachment);
        drop(socket);
        assert_eq!(manager.progress(generation).sockets, 1);
    });
    assert_eq!(numbers(&report), [1], "the other one is stepped all the same");
    assert!(manager.step(at(1)).sockets.len() == 1 && other.state().generation == generation);
}

#[test]
fn peers_that_are_removed_during_a_step_leave_those_of_others_alone() {
    let (gone, stays) = (peer("127.0.0.1"), peer("192.0.2.7"));
    let manager = manager([gone, stays].map(|peer| (peer, one_key(1, None, None))));
    let listener = listener();
    let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let streams = [connect(), connect()];
    let (waiting, _first) = list(&manager, 0, Some(gone), &streams[0]);
    let (_, _second) = list(&manager, 1, Some(stays), &streams[1]);
    let report = step_while(&manager, &waiting, || {
        manager.set_peers([(stays, one_key(1, None, None))]).unwrap();
    });
    assert!(report.sockets[0].state.expired && report.sockets[0].failed.is_empty(), "no key is touched");
    assert!(!report.sockets[1].state.expired);
}

#[test]
fn a_socket_is_attached_once_also_while_keys_change() {
    let manager = manager([(peer("127.0.0.1"), one_key(1, None, None))]);
    let socket = listener();
    let (_, attachment) = list(&manager, 0, None, &socket);
    let generation = manager.set_peer(peer("127.0.0.1"), one_key(2, None, None)).unwrap();
    let before = manager.progress(generation);
    let again = socket.try_clone().unwrap();
    assert!(matches!(manager.attach(&again, at(0)), Err(Error::AlreadyAttached)));
    assert_eq!(manager.progress(generation), before);
    drop(attachment);
    // Now it is for the kernel to say.
    assert!(!matches!(manager.attach(&again, at(0)), Err(Error::AlreadyAttached)));
}

#[test]
fn a_dry_run_of_sockets_that_cannot_be_read_says_so() {
    let own = peer("127.0.0.1");
    let manager = manager([(own, one_key(1, None, None))]);
    let listener = listener();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (_, _listening) = list(&manager, 0, None, &listener);
    let (_, let_go) = list(&manager, 1, Some(own), &stream);
    let_go.let_go();
    let mut transaction = manager.transaction();
    transaction.set_peer(own, one_key(2, None, None));
    let planned = transaction.dry_run(at(0)).unwrap();
    assert_eq!(planned.iter().map(|planned| planned.is_let_go).collect::<Vec<_>>(), [false, true]);
    assert_eq!((planned[0].kind, planned[1].peer), (Some(Listener), Some(own)));
    assert!(planned[1].actions.is_empty() && planned[1].failed.is_empty());
    // On a kernel with TCP-AO a key would be added to the listener.
    assert!(planned[0].actions.len() + planned[0].failed.len() > 0, "{planned:?}");
}

#[test]
fn the_keys_of_a_socket_are_read_through_the_managers_descriptor() {
    let manager = manager([(peer("127.0.0.1"), one_key(1, None, None))]);
    let socket = listener();
    let (_, attachment) = list(&manager, 0, None, &socket);
    // The owner's descriptor is not needed.
    drop(socket);
    match attachment.keys() {
        Ok(keys) => assert_eq!(keys, [], "the socket was listed without keys"),
        Err(error) => assert!(matches!(error, Error::NotSupported), "{error}"),
    }
    attachment.let_go();
    assert!(matches!(attachment.keys(), Err(Error::LetGo)));
}

#[test]
fn a_thread_takes_steps_and_reports_them() {
    let manager = manager([(peer("127.0.0.1"), one_key(1, None, None))]);
    let (_, attachment) = list(&manager, 0, Some(peer("192.0.2.7")), &listener());
    let (reports, reported) = mpsc::channel();
    let thread = manager.spawn(move |report| reports.send(report).unwrap()).unwrap();
    // A listener that is bound now starts no other.
    manager.run_in_background().unwrap();
    let again = manager.spawn(|_| panic!("a second one reports nothing")).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let before = Instant::now();
    for _ in 0..20 {
        let last = manager.set_peer(peer("127.0.0.1"), one_key(2, None, None)).unwrap();
        reported.iter().find(|report| report.generation == last).unwrap();
    }
    // A change wakes the thread, which would otherwise look once a second.
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
    drop((attachment, manager));
    thread.join().unwrap();
    assert!(reported.iter().count() <= 1, "it ends with the last handle");
}

#[test]
fn a_peer_that_is_set_during_a_step_is_not_undone() {
    let manager = manager([(peer("127.0.0.1"), one_key(1, None, None))]);
    let (waiting, _attachment) = list(&manager, 0, None, &listener());
    step_while(&manager, &waiting, || {
        manager.set_peer(peer("192.0.2.7"), one_key(1, None, 500)).unwrap();
    });
    // The socket was locked after the peer was set, so it has the peer's keys already.
    let state = manager.shared.state();
    assert_eq!(state.sockets[0].state.generation, state.generation);
}

#[test]
fn only_what_is_due_is_stepped() {
    let (one, other) = (peer("192.0.2.1"), peer("192.0.2.2"));
    let manager = KeyManager::default();
    manager.set_peer(one, one_key(1, None, 100)).unwrap();
    manager.set_peer(other, one_key(1, None, None)).unwrap();
    let listener = listener();
    let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let connections = [connect(), connect()];
    let _listed = [
        list(&manager, 0, Some(one), &connections[0]),
        list(&manager, 1, Some(other), &connections[1]),
        list(&manager, 2, None, &listener),
    ];
    let due = |now| manager.step_due(at(now)).map(|report| (numbers(&report), report.expired));
    let expect = |now, expected: Option<&[u64]>, expired: &[PeerName]| {
        let expected = expected.map(|numbers| (numbers.to_vec(), expired.to_vec()));
        assert_eq!(due(now), expected, "at {now}");
    };
    expect(0, Some(&[0, 1, 2]), &[]);
    expect(0, None, &[]);
    expect(29, None, &[]);
    // The same keys are no change for the connection.
    manager.set_peer(other, one_key(1, None, None)).unwrap();
    expect(29, Some(&[2]), &[]);
    manager.set_peer(other, one_key(2, None, None)).unwrap();
    expect(29, Some(&[1, 2]), &[]);
    assert!(manager.remove_peer(one).is_some() && manager.remove_peer(one).is_none());
    expect(29, Some(&[0, 2]), &[]);
    expect(30, Some(&[0, 1, 2]), &[]);
    // The clock is set back.
    manager.set_peer(one, one_key(1, 0, None)).unwrap();
    expect(-50, Some(&[0, 1, 2]), &[one]);
    expect(-21, None, &[]);
}

#[test]
fn a_connection_of_a_removed_peer_keeps_its_keys_and_is_reported() {
    let removed = peer("127.0.0.1");
    let manager = KeyManager::default();
    manager.set_peer(removed, one_key(1, None, None)).unwrap();
    // Its connection does not move to the network around it.
    manager.set_peer(peer("127.0.0.0/8"), one_key(2, None, None)).unwrap();
    let listener = listener();
    let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _listed = list(&manager, 0, Some(removed), &connection);
    manager.remove_peer(removed);
    for now in [0, 30] {
        let report = manager.step_due(at(now)).unwrap();
        let socket = &report.sockets[0];
        assert_eq!((socket.state.peer, socket.state.expired), (Some(removed), true), "at {now}");
        assert!(socket.done.is_empty() && socket.failed.is_empty() && socket.overdue.is_empty());
    }
    // The peer is back. Adding keys fails because the connection has no TCP-AO.
    manager.set_peer(removed, one_key(1, None, None)).unwrap();
    assert!(!manager.step_due(at(30)).unwrap().sockets[0].failed.is_empty());
}

#[test]
fn a_step_is_due_when_a_chain_changes() {
    let manager = KeyManager::default();
    assert!(manager.step_due(at(0)).is_some_and(|report| report.next_step.is_none()));
    for (remote, until) in [("192.0.2.1", 10), ("192.0.2.2", 20)] {
        manager.set_peer(peer(remote), one_key(1, None, until)).unwrap();
    }
    let next = |now| manager.step_due(at(now)).map(|report| (report.next_step, report.expired.len()));
    let changed = |next: Option<i64>, expired: usize| Some((next.map(at), expired));
    for (now, expected) in [
        (0, changed(Some(10), 0)),
        (9, None),
        (10, changed(Some(20), 1)),
        (19, None),
        (20, changed(None, 2)),
        (29, None),
    ] {
        assert_eq!(next(now), expected, "at {now}");
    }
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_task_waits_for_its_connection_to_expire() {
    use tokio::time::timeout;

    let manager = manager([(peer("192.0.2.7"), one_key(1, None, None))]);
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let streams = [(); 2].map(|()| TcpStream::connect(address).unwrap());
    // For a removed peer the kernel is not asked for keys.
    let removed = peer("127.0.0.1");
    let (_socket, attachment) = list(&manager, 0, Some(removed), &streams[0]);
    let (_other_socket, other) = list(&manager, 1, None, &streams[1]);
    let at_once = Duration::ZERO;
    assert!(timeout(at_once, attachment.expired()).await.is_err(), "no step has found it yet");

    let (waits, detached) = (tokio::spawn(attachment.expired()), tokio::spawn(other.expired()));
    tokio::task::yield_now().await;
    drop(other);
    detached.await.unwrap();
    assert!(!waits.is_finished());
    assert!(manager.step(at(0)).sockets[0].state.expired);
    waits.await.unwrap();
    timeout(at_once, attachment.expired()).await.unwrap();
}
