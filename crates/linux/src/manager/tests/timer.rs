//! The timer of an event loop, by the system clock.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::steps::{list, listener};
use super::*;
use crate::StepTimer;

/// Whether the timer's descriptor becomes readable in this time.
fn is_readable(timer: &StepTimer, within: Duration) -> bool {
    let mut poll = Poll::new().unwrap();
    let interest = Interest::READABLE;
    poll.registry().register(&mut SourceFd(&timer.as_fd().as_raw_fd()), Token(0), interest).unwrap();
    let mut events = Events::with_capacity(1);
    poll.poll(&mut events, Some(within)).unwrap();
    !events.is_empty()
}

#[test]
fn a_timer_is_readable_when_a_step_is_due() {
    let (manager, at_once) = (KeyManager::default(), Duration::ZERO);
    let timer = manager.step_timer().unwrap();
    assert!(is_readable(&timer, at_once), "there was no step yet");
    assert!(timer.step().is_some());
    assert!(!is_readable(&timer, at_once) && timer.step().is_none());
    // Not over at once, however close to the end of a second this is.
    let soon = Timestamp::now().later_by(2);
    let ending = Lifetime::new(None, Some(soon)).unwrap();
    let key = key(1, mkt(1, 1, 1), Lifetime::ALWAYS).with_lifetimes(ending, Lifetime::ALWAYS).unwrap();
    let setter = manager.clone();
    thread::spawn(move || setter.set_peer(peer(PEER), chain(0, [key])));
    assert!(is_readable(&timer, Duration::from_secs(10)), "another thread has set a peer");
    assert!(timer.due() < soon && timer.step().unwrap().expired.is_empty());
    assert_eq!((timer.due(), is_readable(&timer, at_once)), (soon, false));
    assert!(is_readable(&timer, Duration::from_secs(10)), "the key's lifetime is over");
    assert_eq!(timer.step().unwrap().expired, [peer(PEER)]);
    assert!(!is_readable(&timer, at_once) && timer.due() > Timestamp::now());
}

#[test]
fn a_timer_waits_for_no_socket_that_was_let_go() {
    let manager = KeyManager::default();
    let timer = manager.step_timer().unwrap();
    let (_, attachment) = list(&manager, 0, None, &listener());
    attachment.let_go();
    manager.set_peer(peer(PEER), one_key(1, None, None)).unwrap();
    assert!(timer.step().is_some());
    assert!(!is_readable(&timer, Duration::ZERO), "it would be at every turn of the loop");
}

#[test]
fn steps_are_reported_once() {
    let manager = KeyManager::default();
    let timer = manager.step_timer().unwrap();
    assert_eq!(manager.step_timer().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(manager.spawn(drop).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    drop(timer);
    assert!(manager.step_timer().is_ok());
}
