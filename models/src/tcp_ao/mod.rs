//! Two TCP-AO connections, both of which change their keys, over a network that loses, repeats, reorders and reflects segments.

mod end;

use end::{Event, Facts, Sent, TcpEnd};

use crate::explore::{EndId, Ends, PacketId, Side};
use crate::explore::{Model, Next};

pub use end::{Fault, Setup, Spacing};

/// The maximum number of segments in flight in a state.
const MOST_IN_FLIGHT: usize = 4;

/// The size of the search.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// How the operators change keys.
    pub operators: Operators,
    /// The number of keys, 1 to 3. Both ends start with the first.
    pub keys: u8,
    /// How many segments of data each end sends: at most 5.
    pub data: [u8; 2],
    /// How many different segments are in flight at once: at most 4. Each arrives any number of times, or never, in any order.
    pub in_flight: usize,
    /// The distance between segments of data.
    pub spacing: Spacing,
    /// The fault to find, if any.
    pub fault: Option<Fault>,
}

/// Both ends, by their numbers, and the segments in flight, sorted; 0 means none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    ends: [EndId; 2],
    flight: [PacketId; MOST_IN_FLIGHT],
}

/// A transition from one state to another.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// An event at an end.
    At(Side, Event),
    /// The same when the network is full: this segment is lost, or no longer arrives.
    Losing(Side, Event, PacketId),
}

/// The model's two ends.
#[derive(Debug)]
pub struct Pair {
    scope: Scope,
    ends: Ends<TcpEnd>,
    /// The most rounds that a repaired network took until everything had arrived.
    rounds: usize,
}

impl Pair {
    /// A model of this scope.
    pub fn new(scope: Scope) -> Self {
        let sees_key = scope.operators == Operators::Careful;
        let setup = Setup { fault: scope.fault, sees_key, spacing: scope.spacing };
        Self { scope, ends: Ends::new(setup), rounds: 0 }
    }

    /// How many end states there are, how many segments, and how often the code under test has run.
    pub fn counts(&self) -> (usize, usize, usize) {
        self.ends.counts()
    }

    /// The most segments that an end sent after the network was mended until everything was through.
    pub const fn rounds(&self) -> usize {
        self.rounds
    }

    /// Runs an event at an end. A segment that it sends is added, in place of a lost one if there is no room.
    fn step(&mut self, state: &State, side: Side, event: Event, found: &mut Vec<Next<Self>>) {
        let at = Action::At(side, event);
        let (to, sent) = match self.ends.step(state.ends[side as usize], event) {
            Ok(step) => step,
            Err(fault) => return found.push((at, Err(fault))),
        };
        let mut next = *state;
        next.ends[side as usize] = to;
        if sent == 0 || next.flight.contains(&sent) {
            return found.push((at, Ok(next)));
        }
        let in_flight = next.flight.iter().filter(|id| **id != 0).count();
        if in_flight == self.scope.in_flight {
            found.push((Action::Losing(side, event, sent), Ok(next)));
        }
        for place in 0..MOST_IN_FLIGHT {
            let lost = next.flight[place];
            if (lost == 0) != (in_flight < self.scope.in_flight) {
                continue;
            }
            let mut next = next;
            next.flight[place] = sent;
            next.flight.sort_unstable();
            if lost == 0 {
                return found.push((at, Ok(next)));
            }
            found.push((Action::Losing(side, event, lost), Ok(next)));
        }
    }

    /// From here on nothing that is sent is lost, and each end has at most one segment in flight: the first that is not acknowledged, as
    /// after a timeout. Segments that were in flight are lost, or arrive again before every segment.
    fn mend(&mut self, state: &State, is_lost: bool) -> Result<(), String> {
        let mut ends = state.ends;
        let goals = ends.map(|end| self.ends.facts(end).sent + 1);
        let limit = 2 * usize::from(goals[0].max(goals[1])) + 2;
        for round in 0..=limit {
            let is_done =
                |side: Side| self.ends.facts(ends[side as usize]).acknowledged == goals[side as usize];
            if Side::BOTH.into_iter().all(is_done) {
                self.rounds = self.rounds.max(round);
                return Ok(());
            }
            for side in Side::BOTH {
                let facts = self.ends.facts(ends[side as usize]);
                let event = match facts.acknowledged {
                    acknowledged if acknowledged == goals[side as usize] => continue,
                    acknowledged if acknowledged < facts.sent => Event::Retransmit,
                    _ => Event::Send,
                };
                for (from, event) in [(side, event), (side.other(), Event::Acknowledge)] {
                    for id in state.flight.into_iter().filter(|id| *id != 0 && !is_lost) {
                        let to = self.ends.packet(id).from.other();
                        (ends[to as usize], _) = self.ends.step(ends[to as usize], Event::Arrive(id))?;
                    }
                    self.exchange(&mut ends, from, event)?;
                }
            }
        }
        let [left, right] = ends.map(|end| self.ends.facts(end));
        let then = if is_lost { "is lost" } else { "arrives again and again" };
        Err(format!(
            "What is in flight {then}, nothing else is lost, but data never arrives.\n      {left:?}\n      {right:?}"
        ))
    }

    fn exchange(&mut self, ends: &mut [EndId; 2], from: Side, event: Event) -> Result<(), String> {
        let (after, sent) = self.ends.step(ends[from as usize], event)?;
        ends[from as usize] = after;
        let (after, _) = self.ends.step(ends[from.other() as usize], Event::Arrive(sent))?;
        ends[from.other() as usize] = after;
        Ok(())
    }

    fn show(&self, id: PacketId) -> String {
        let Sent { from, key, rnext, before, acknowledges, has_data, .. } = self.ends.packet(id);
        let what = if *has_data { format!("data {before}") } else { format!("acknowledgment at {before}") };
        format!("{from}'s {what}, acknowledging {acknowledges}, signed with key {key}, asking for {rnext}")
    }
}

impl Model for Pair {
    type State = State;
    type Action = Action;

    fn start(&mut self) -> State {
        State { ends: [0, 1], flight: [0; MOST_IN_FLIGHT] }
    }

    fn actions(&mut self, state: &State, found: &mut Vec<Next<Self>>) {
        for side in Side::BOTH {
            let [own, peer] = [side, side.other()].map(|side| self.ends.facts(state.ends[side as usize]));
            let mut events = vec![Event::Acknowledge];
            let is_in_window = self.scope.spacing == Spacing::Near || own.sent == own.acknowledged;
            if own.sent < self.scope.data[side as usize] && is_in_window {
                events.push(Event::Send);
            }
            if own.acknowledged < own.sent {
                events.push(Event::Retransmit);
            }
            self.scope.operators.changes(self.scope.keys, own, peer, &mut events);
            let flight = state.flight.into_iter().filter(|id| *id != 0);
            let arriving = flight.filter(|id| self.ends.packet(*id).from != side);
            events.extend(arriving.map(Event::Arrive));
            for event in events {
                self.step(state, side, event, found);
            }
        }
    }

    fn check(&mut self, state: &State) -> Result<(), String> {
        for id in state.flight.into_iter().filter(|id| *id != 0) {
            let end = state.ends[self.ends.packet(id).from as usize];
            let (after, _) = self.ends.step(end, Event::Reflect(id))?;
            if after != end {
                return Err("its own segment changed an end".into());
            }
        }
        if self.scope.operators != Operators::Free {
            self.mend(state, true)?;
            self.mend(state, false)?;
        }
        Ok(())
    }

    fn describe(&self, action: Action) -> String {
        match action {
            Action::At(side, Event::Arrive(id)) => format!("{side} receives {}", self.show(id)),
            Action::At(side, event) => format!("{side}: {event:?}"),
            Action::Losing(side, event, id) => format!("{side}: {event:?}; lost: {}", self.show(id)),
        }
    }
}

/// The rules that the operators follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operators {
    /// None: every change that the API allows, at any time. Nothing wrong may be accepted, but the ends may lose each other.
    Free,
    /// Keys are used in order, and only when both ends hold them. A key is removed as soon as both ends hold a later one and the earlier
    /// keys are gone, without waiting until the peer stops using it. Both ends continue to send.
    Prompt,
    /// Keys are used in order, and only when both ends hold them. A key is removed when both ends have been seen to use another.
    Careful,
}

impl Operators {
    /// The changes that an end's operator may make at this point.
    fn changes(self, keys: u8, own: Facts, peer: Facts, events: &mut Vec<Event>) {
        let is_free = self == Self::Free;
        let held = || (0..keys).filter(move |key| own.holds(*key));
        // A removed key cannot be added again: nothing of it is left.
        let new = (0..keys).find(|key| (own.held | own.removed) & 1 << key == 0);
        let is_turn = |key: &u8| is_free || (own.held | peer.held).trailing_zeros() + 1 >= u32::from(*key);
        let new = new.filter(is_turn);
        events.extend(new.map(Event::Add));
        let usable =
            |used: u8| held().filter(move |key| *key != used && (is_free || *key > used && peer.holds(*key)));
        events.extend(usable(own.rnext).map(Event::Ask));
        if is_free {
            events.extend(usable(own.current).map(Event::SignWith));
        }
        for key in held() {
            let is_in_use = key == own.current || key == own.rnext;
            let is_first =
                own.held.trailing_zeros() == u32::from(key) && peer.held.trailing_zeros() >= u32::from(key);
            let replacements =
                held().filter(|other| *other != key && (is_free || *other > key && peer.holds(*other)));
            match self {
                Self::Free | Self::Prompt if is_in_use && (is_free || is_first) => {
                    events.extend(replacements.map(|other| Event::Remove(key, Some(other))));
                }
                Self::Free | Self::Prompt => {
                    if (is_free || is_first) && replacements.count() > 0 {
                        events.push(Event::Remove(key, None));
                    }
                }
                Self::Careful => {
                    if !is_in_use && own.seen.is_some_and(|seen| seen > key) {
                        events.push(Event::Remove(key, None));
                    }
                }
            }
        }
    }
}
