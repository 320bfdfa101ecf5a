//! Two ends with managers and clocks of their own, and segments under way between them.
#![cfg(target_os = "linux")]

mod kernel_model;

use std::cell::RefCell;
use std::collections::VecDeque;

use kernel_model::{Kernel, Segment, chain, key, lifetime, mkt, name, situation};
use proptest::prelude::*;
use wireseal_linux::Error;
use wireseal_linux::plan::SocketKind::{Closed, Connection, Listener};
use wireseal_linux::plan::{Action, Memory, Origin, SocketKind};
use wireseal_tcp_ao::key_chain::KeyChain;

/// Seconds by which either end of an accept lifetime is moved out.
const TOLERANCE: i64 = 100;

/// Seconds that a clock may be off, that a step may be late and that a segment is under way: together no more than half
/// of the tolerance, so that two ends never lose each other.
const CLOCK_OFF: i64 = 12;
const STEP_LATE: i64 = 15;
const UNDER_WAY: i64 = 8;

const _: () = assert!(2 * CLOCK_OFF + STEP_LATE + UNDER_WAY < TOLERANCE / 2);

/// Numbers that a seed decides.
struct Dice(u64);

impl Dice {
    /// A number from `0` up to but without `sides` (SplitMix64).
    fn roll(&mut self, sides: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides.unsigned_abs()) as i64
    }
}

/// The same chain as each end has it, and when its last key is sent with. Later keys use the ids of earlier ones.
fn chains(dice: &mut Dice) -> ([KeyChain; 2], i64) {
    let (count, different) = (3 + dice.roll(4), 2 + dice.roll(3));
    let mut ends = [Vec::new(), Vec::new()];
    let mut from = 0;
    for number in 0..count {
        // An id is free again once both of its keys' accept lifetimes are apart.
        let length = 3 * TOLERANCE + dice.roll(100);
        let until = (number + 1 < count).then(|| from + length + dice.roll(TOLERANCE));
        let (one, other) = ((number % different) as u8, 100 + (number % different) as u8);
        let from_then = (number > 0).then_some(from);
        let number = number as u64;
        ends[0].push(key(number, mkt(one, other, number as u32), lifetime(from_then, until)));
        ends[1].push(key(number, mkt(other, one, number as u32), lifetime(from_then, until)));
        from += length;
    }
    (ends.map(|keys| chain(TOLERANCE as u32, keys)), from)
}

/// One end.
struct End {
    kernel: Kernel,
    memory: Memory,
    chain: KeyChain,
    clock_off: i64,
    next_step: i64,
    arriving: VecDeque<(i64, Segment)>,
}

impl End {
    fn new(chain: KeyChain) -> Self {
        let mkt = chain.keys()[0].mkt().clone();
        let kernel = Kernel::connected(mkt);
        Self {
            kernel,
            memory: Memory::default(),
            chain,
            clock_off: 0,
            next_step: 0,
            arriving: VecDeque::new(),
        }
    }

    /// Takes in what has arrived; nothing of it may be dropped.
    fn take_in(&mut self, now: i64) {
        while self.arriving.front().is_some_and(|(when, _)| *when <= now) {
            let (_, segment) = self.arriving.pop_front().expect("there is one");
            self.kernel.receive(&segment).unwrap_or_else(|drop| panic!("{drop:?} at {now}: {segment:?}"));
        }
    }

    /// Steps, while segments arrive between any two calls.
    fn step(&mut self, now: i64) {
        let Self { chain, clock_off, .. } = self;
        let (chain, clock) = (chain.clone(), now + *clock_off);
        let situation = situation(&chain, clock, Connection);
        let mut memory = self.memory;
        let end = RefCell::new(self);
        let outcome = situation.carry_out(
            &mut memory,
            |memory| Ok(end.borrow().kernel.found(&situation, memory)),
            |action| {
                end.borrow_mut().take_in(now);
                end.borrow_mut().kernel.apply(action, &situation)
            },
        );
        let end = end.into_inner();
        end.memory = memory;
        let is_race = |error: &Error| matches!(error, Error::KeyInUse(_));
        assert!(outcome.failed.iter().all(|(_, error)| is_race(error)), "{:?}", outcome.failed);
        assert!(!outcome.expired && outcome.overdue.is_empty());
        for held in end.kernel.found(&situation, &memory) {
            let Origin::Chain(key_id) = held.origin else { panic!("{held:?} at {now}") };
            let key = chain.keys().iter().find(|key| key.key_id() == key_id).unwrap();
            let acceptance = key.accept_lifetime().widened_by(TOLERANCE as u32);
            assert!(!acceptance.is_over(situation.now) || !outcome.failed.is_empty(), "{held:?} at {now}");
        }
        let preferred = chain.at(situation.now).preferred().unwrap().mkt();
        assert_eq!(end.kernel.rnext, Some(name(preferred.send_id().0, preferred.recv_id().0)));
    }
}

/// Runs two ends until the last key has long been in use.
fn run(seed: u64) {
    let mut dice = Dice(seed);
    let (chains, last_from) = chains(&mut dice);
    let mut ends = chains.map(End::new);
    for now in 1..last_from + 3 * TOLERANCE {
        for index in 0..2 {
            let (one, other) = if index == 0 {
                ends.split_at_mut(1)
            } else {
                let (a, b) = ends.split_at_mut(1);
                (b, a)
            };
            let (one, other) = (&mut one[0], &mut other[0]);
            if dice.roll(40) == 0 {
                one.clock_off = dice.roll(2 * CLOCK_OFF + 1) - CLOCK_OFF;
            }
            one.take_in(now);
            if one.next_step <= now {
                one.step(now);
                one.next_step = now + 1 + dice.roll(STEP_LATE);
            }
            // What this end would send now is accepted now.
            let segment = one.kernel.send();
            other.kernel.accepts(&segment).unwrap_or_else(|drop| panic!("{drop:?} at {now}: {segment:?}"));
            let quiet = (now / 64) % 2 == 1;
            if dice.roll(if quiet { 30 } else { 2 }) == 0 {
                let arrives =
                    other.arriving.back().map_or(0, |(when, _)| *when).max(now + dice.roll(UNDER_WAY));
                other.arriving.push_back((arrives, segment));
            }
        }
    }
    for end in &ends {
        let last = end.chain.keys().last().unwrap().mkt();
        assert_eq!(end.kernel.current, Some(name(last.send_id().0, last.recv_id().0)));
        assert_eq!(end.kernel.keys.len(), 1);
        assert!(!end.memory.is_peer_behind());
    }
}

/// A chain and the time, decided by a seed; also ones that have expired or not begun.
fn any_chain(dice: &mut Dice) -> KeyChain {
    let mut keys: Vec<wireseal_tcp_ao::key_chain::Key> = Vec::new();
    for number in 0..1 + dice.roll(5) {
        let from = dice.roll(300);
        let lifetime = lifetime(from, from + 1 + dice.roll(150));
        let mkt = mkt(dice.roll(4) as u8, dice.roll(4) as u8, dice.roll(3) as u32);
        keys.push(key(number as u64, mkt, lifetime));
        if KeyChain::new("tested", keys.clone()).is_err() {
            keys.pop();
        }
    }
    if keys.is_empty() { chain(0, [key(0, mkt(1, 1, 1), lifetime(None, None))]) } else { chain(0, keys) }
}

/// Whatever is on a socket, one step puts it right and the next has nothing to do.
fn settle_anything(seed: u64) {
    let mut dice = Dice(seed);
    let kind: SocketKind = [Listener, Closed, Connection][dice.roll(3) as usize];
    let mut kernel = Kernel::connected(mkt(dice.roll(4) as u8, dice.roll(4) as u8, dice.roll(3) as u32));
    kernel.kind = kind;
    let mut memory = Memory::default();
    for _ in 0..4 {
        // Another program adds a key, the peer asks for one, and the configuration and the clock change.
        let (send_id, recv_id) = (dice.roll(4) as u8, dice.roll(4) as u8);
        let key =
            kernel_model::KernelKey { name: name(send_id, recv_id), mkt: mkt(send_id, recv_id, 1), good: 0 };
        let clash = |held: &kernel_model::KernelKey| {
            held.name.send_id == key.name.send_id || held.name.recv_id == key.name.recv_id
        };
        if dice.roll(2) == 0 && !kernel.keys.iter().any(clash) {
            kernel.keys.push(key);
        }
        if kind != Listener {
            let index = dice.roll(kernel.keys.len() as i64) as usize;
            kernel.current = Some(kernel.keys[index].name);
        }
        let chain = any_chain(&mut dice);
        let situation = situation(&chain, dice.roll(500), kind);
        let shared = RefCell::new(&mut kernel);
        let outcome = situation.carry_out(
            &mut memory,
            |memory| Ok(shared.borrow().found(&situation, memory)),
            |action| {
                let mut kernel = shared.borrow_mut();
                let applied = kernel.apply(action, &situation);
                assert!(!kernel.keys.is_empty(), "not even for a moment");
                applied
            },
        );
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        let found = kernel.found(&situation, &memory);
        if !outcome.expired {
            let active = chain.at(situation.now);
            let on_socket = |key_id| found.iter().any(|held| held.origin == Origin::Chain(key_id));
            assert!(active.iter().all(|key| on_socket(key.key_id())), "every acceptable key is there");
            assert!(outcome.overdue.is_empty());
            let is_chains = |origin| matches!(origin, Origin::Chain(_));
            assert!(found.iter().all(|held| is_chains(held.origin)), "and nothing else: {found:?}");
        } else if kind != Connection {
            assert!(matches!(found[..], [held] if held.origin == Origin::Placeholder), "{found:?}");
        }
        let again = situation.plan(&found, &memory, &[]);
        let stays = |action: &Action| matches!(action, Action::SetCurrent(_));
        assert!(again.actions.iter().all(stays) || outcome.expired, "{:?}", again.actions);
        let second = kernel.settle(&situation, &mut memory);
        assert!(second.failed.is_empty());
        assert_eq!(situation.plan(&kernel.found(&situation, &memory), &memory, &[]).actions, []);
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
        settle_anything(seed);
    }
}

#[test]
fn a_peer_that_gets_the_key_late_is_waited_for() {
    let keys = || [key(0, mkt(1, 1, 0), lifetime(None, 200)), key(1, mkt(2, 2, 1), lifetime(100, None))];
    let mut ends = [End::new(chain(100, keys())), End::new(chain(100, [keys()[0].clone()]))];
    for now in 1..290 {
        // The operator of the other end is late: after the send lifetime, before half of the accept lifetime is over.
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
