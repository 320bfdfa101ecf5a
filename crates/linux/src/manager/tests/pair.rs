//! Two ends, each with a manager and a clock, and segments in transit between them.

use std::collections::VecDeque;

use fastrand::Rng;
use proptest::prelude::*;

use super::*;

/// Seconds by which an accept lifetime is extended at each end.
const TOLERANCE: i64 = 100;

/// How many seconds a clock is off, a step is late, and a segment is in transit, at most. Together these are at most half of the tolerance,
/// so that the two ends never lose each other.
const CLOCK_OFF: i64 = 12;
const STEP_LATE: i64 = 15;
const UNDER_WAY: i64 = 8;

const _: () = assert!(2 * CLOCK_OFF + STEP_LATE + UNDER_WAY < TOLERANCE / 2);

/// The same chain as each end has it, and when its last send lifetime starts. Later keys use the ids of earlier ones.
fn chains(random: &mut Rng) -> ([KeyChain; 2], i64) {
    let (count, different) = (3 + random.i64(0..4), 2 + random.i64(0..3));
    let mut ends = [Vec::new(), Vec::new()];
    let mut from = 0;
    for number in 0..count {
        // An id can be used again once the accept lifetimes of both keys are apart.
        let length = 3 * TOLERANCE + random.i64(0..100);
        let until = (number + 1 < count).then(|| from + length + random.i64(0..TOLERANCE));
        let (one, other) = ((number % different) as u8, 100 + (number % different) as u8);
        let from_then = (number > 0).then_some(from);
        let number = number as u64;
        ends[0].push(key(number, mkt(one, other, number as u32), lifetime(from_then, until)));
        ends[1].push(key(number, mkt(other, one, number as u32), lifetime(from_then, until)));
        from += length;
    }
    (ends.map(|keys| chain(TOLERANCE as u32, keys)), from)
}

struct End {
    kernel: Kernel,
    chain: KeyChain,
    clock_off: i64,
    next_step: i64,
    arriving: VecDeque<(i64, Segment)>,
}

impl End {
    fn new(chain: KeyChain) -> Self {
        let kernel = Kernel::connected(chain.keys()[0].mkt());
        let arriving = VecDeque::new();
        Self { kernel, chain, clock_off: 0, next_step: 0, arriving }
    }

    /// Takes a step while segments arrive between any two calls.
    fn step(&mut self, now: i64) {
        let (own_time, arriving) = (now + self.clock_off, &mut self.arriving);
        let outcome = self.kernel.apply_with(&self.chain, own_time, |kernel, call| {
            take_in(kernel, arriving, now);
            kernel.call(call)
        });
        let is_race = |error: &Error| matches!(error, Error::KeyInUse(_));
        assert!(outcome.failed.iter().all(|(_, error)| is_race(error)), "{:?}", outcome.failed);
        assert!(!outcome.expired && outcome.overdue.is_empty());
        let target = self.kernel.target(&self.chain, own_time);
        for held in self.kernel.found(&target) {
            let Origin::Chain(key_id) = held.origin else { panic!("{held:?} at {now}") };
            let accept_lifetime = target.key(key_id).unwrap().accept_lifetime();
            let acceptance = accept_lifetime.widened_by(TOLERANCE as u32);
            assert!(!acceptance.is_over(target.now) || !outcome.failed.is_empty(), "{held:?} at {now}");
        }
        let preferred = self.chain.at(target.now).preferred().unwrap().mkt();
        assert_eq!(self.kernel.rnext, Some(name(preferred.send_id().0, preferred.recv_id().0)));
    }
}

/// Receives what has arrived; nothing may be dropped.
fn take_in(kernel: &mut Kernel, arriving: &mut VecDeque<(i64, Segment)>, now: i64) {
    while arriving.front().is_some_and(|(when, _)| *when <= now) {
        let (_, segment) = arriving.pop_front().expect("there is one");
        kernel.receive(&segment).unwrap_or_else(|drop| panic!("{drop:?} at {now}: {segment:?}"));
    }
}

/// Runs two ends until the last key has long been in use.
fn run(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let (chains, last_from) = chains(&mut random);
    let mut ends = chains.map(End::new);
    for now in 1..last_from + 3 * TOLERANCE {
        for index in 0..2 {
            let [a, b] = &mut ends;
            let (one, other) = if index == 0 { (a, b) } else { (b, a) };
            if random.i64(0..40) == 0 {
                one.clock_off = random.i64(0..2 * CLOCK_OFF + 1) - CLOCK_OFF;
            }
            take_in(&mut one.kernel, &mut one.arriving, now);
            if one.next_step <= now {
                one.step(now);
                one.next_step = now + 1 + random.i64(0..STEP_LATE);
            }
            // A segment that this end sends now must be accepted now.
            let segment = one.kernel.send();
            let received = other.kernel.clone().receive(&segment);
            received.unwrap_or_else(|drop| panic!("{drop:?} at {now}: {segment:?}"));
            let quiet = (now / 64) % 2 == 1;
            if random.i64(0..if quiet { 30 } else { 2 }) == 0 {
                let arrives =
                    other.arriving.back().map_or(0, |(when, _)| *when).max(now + random.i64(0..UNDER_WAY));
                other.arriving.push_back((arrives, segment));
            }
        }
    }
    for end in &ends {
        let last = end.chain.keys().last().unwrap().mkt();
        assert_eq!(end.kernel.current, Some(name(last.send_id().0, last.recv_id().0)));
        assert_eq!(end.kernel.keys.len(), 1);
        assert!(!end.kernel.memory.is_peer_behind());
    }
}

/// A random chain, which may have expired or not begun.
pub(super) fn any_chain(random: &mut Rng) -> KeyChain {
    let mut keys: Vec<Key> = Vec::new();
    for number in 0..1 + random.i64(0..5) {
        let from = random.i64(0..300);
        let lifetime = lifetime(from, from + 1 + random.i64(0..150));
        let mkt = mkt(random.i64(0..4) as u8, random.i64(0..4) as u8, random.i64(0..3) as u32);
        keys.push(key(number as u64, mkt, lifetime));
        if KeyChain::new("tested", keys.clone()).is_err() {
            keys.pop();
        }
    }
    if keys.is_empty() { chain(0, [key(0, mkt(1, 1, 1), lifetime(None, None))]) } else { chain(0, keys) }
}

/// Checks that one step corrects any socket and the next has nothing to do.
fn apply_to_anything(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let kind = [Listener, Closed, Connection][random.usize(0..3)];
    let mut kernel =
        Kernel::connected(&mkt(random.i64(0..4) as u8, random.i64(0..4) as u8, random.i64(0..3) as u32));
    kernel.kind = kind;
    for _ in 0..4 {
        // Another program adds a key, the peer asks for one, and the configuration and the clock change.
        let (send_id, recv_id) = (random.i64(0..4) as u8, random.i64(0..4) as u8);
        let key = InstalledKey::of(name(send_id, recv_id), &mkt(send_id, recv_id, 1));
        let clashes = |held: &InstalledKey| held.name.clashes_with(&key.name);
        if random.i64(0..2) == 0 && !kernel.keys.iter().any(clashes) {
            kernel.keys.push(key);
        }
        if kind != Listener {
            let index = random.usize(0..kernel.keys.len());
            kernel.current = Some(kernel.keys[index].name);
        }
        let chain = any_chain(&mut random);
        let now = random.i64(0..500);
        let outcome = kernel.apply_with(&chain, now, |kernel, call| {
            let called = kernel.call(call);
            assert!(!kernel.keys.is_empty(), "not even briefly");
            called
        });
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        let target = kernel.target(&chain, now);
        let found = kernel.found(&target);
        if !outcome.expired {
            let active = chain.at(target.now);
            let on_socket = |key_id| found.iter().any(|held| held.origin == Origin::Chain(key_id));
            assert!(active.iter().all(|key| on_socket(key.key_id())), "an acceptable key is missing");
            assert!(outcome.overdue.is_empty());
            let is_chains = |origin| matches!(origin, Origin::Chain(_));
            assert!(found.iter().all(|held| is_chains(held.origin)), "there is another key: {found:?}");
        } else if kind != Connection {
            assert!(matches!(found[..], [held] if held.origin == Origin::Placeholder), "{found:?}");
        }
        let again = target.plan(&found, &kernel.memory, &[]);
        let stays = |call: &Call<'_>| matches!(call, Call::SetCurrent(_));
        assert!(again.calls.iter().all(stays) || outcome.expired, "{:?}", again.calls);
        assert!(kernel.apply(&chain, now).failed.is_empty());
        assert_eq!(kernel.plan(&chain, now).0, "");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn no_segment_is_lost_while_keys_roll(seed: u64) {
        run(seed);
    }

    #[test]
    fn one_step_puts_any_socket_right(seed: u64) {
        apply_to_anything(seed);
    }
}

#[test]
fn a_peer_that_gets_the_key_late_is_waited_for() {
    let keys = || [key(0, mkt(1, 1, 0), lifetime(None, 200)), key(1, mkt(2, 2, 1), lifetime(100, None))];
    let mut ends = [End::new(chain(100, keys())), End::new(chain(100, [keys()[0].clone()]))];
    for now in 1..290 {
        // The operator of the other end is late: after the send lifetime, but before half of the accept lifetime is over.
        if now == 240 {
            ends[1].chain = chain(100, keys());
        }
        let [one, other] = &mut ends;
        one.step(now);
        if !(200..240).contains(&now) {
            other.step(now);
        }
        for (from, to) in [(0, 1), (1, 0)] {
            let segment = ends[from].kernel.send();
            ends[to].kernel.receive(&segment).unwrap_or_else(|drop| panic!("{drop:?} at {now}"));
        }
    }
    assert!(ends.iter().all(|end| end.kernel.current == Some(name(2, 2))));
}
