//! Two QUIC ends over a network that loses, repeats, reorders and reflects, while both update their keys.

mod end;
mod packet;

use crate::ends::{EndId, Ends, PacketId, Side};
use crate::explore::{Model, Next};
use end::{Event, QuicEnd};
use packet::Sealed;

pub use end::Fault;

/// Packets that a state has room for.
const MOST_SEALED: usize = 8;

/// How much is searched.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// How many packets each end seals, together at most 8. None is ever forgotten: each arrives any number of times, at any time,
    /// or never.
    pub packets: [u8; 2],
    /// A fault to be found.
    pub fault: Option<Fault>,
}

/// Both ends, by their numbers, and the packets sealed, sorted; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    ends: [EndId; 2],
    sealed: [PacketId; MOST_SEALED],
}

/// The model.
#[derive(Debug)]
pub struct Pair {
    scope: Scope,
    ends: Ends<QuicEnd>,
}

impl Pair {
    /// A model of this scope.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self { scope, ends: Ends::new(scope.fault) }
    }

    /// How many end states there are, how many packets, and how often the code under test has run.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        self.ends.counts()
    }

    /// From here on nothing is lost: every packet opens at once, both ends come to the same keys, and either can update them.
    fn mend(&mut self, mut ends: [EndId; 2]) -> Result<(), String> {
        self.exchange(&mut ends)?;
        for side in Side::BOTH {
            for side in Side::BOTH {
                (ends[side as usize], _) = self.ends.step(ends[side as usize], Event::Wait)?;
            }
            let before = self.ends.facts(ends[side as usize]).generation;
            (ends[side as usize], _) = self.ends.step(ends[side as usize], Event::Update)?;
            if self.ends.facts(ends[side as usize]).generation == before {
                return Err(format!("nothing is lost any more, but {side} can never update its keys"));
            }
            self.exchange(&mut ends)?;
        }
        Ok(())
    }

    /// Both ends send, and again to acknowledge.
    fn exchange(&mut self, ends: &mut [EndId; 2]) -> Result<(), String> {
        for from in [Side::Left, Side::Right, Side::Left, Side::Right] {
            let number = self.ends.facts(ends[from as usize]).sealed;
            let (after, sealed) = self.ends.step(ends[from as usize], Event::Seal)?;
            ends[from as usize] = after;
            let to = from.other() as usize;
            (ends[to], _) = self.ends.step(ends[to], Event::Arrive(sealed))?;
            if self.ends.facts(ends[to]).opened & 1 << number == 0 {
                return Err(format!("nothing is lost any more, but {from}'s packets are not opened"));
            }
        }
        let [left, right] = ends.map(|end| self.ends.facts(end));
        if left.generation != right.generation || !left.has_acknowledgment() || !right.has_acknowledgment() {
            return Err(format!("the ends do not come together: {left:?}, {right:?}"));
        }
        Ok(())
    }

    fn show(&self, id: PacketId) -> String {
        let Sealed { from, number, generation, acknowledges, .. } = self.ends.packet(id);
        format!("{from}'s packet {number} of generation {generation}, acknowledging {acknowledges:#b}")
    }
}

impl Model for Pair {
    type State = State;
    type Action = (Side, Event);

    fn start(&mut self) -> State {
        State { ends: [0, 1], sealed: [0; MOST_SEALED] }
    }

    fn actions(&mut self, state: &State, found: &mut Vec<Next<Self>>) {
        for side in Side::BOTH {
            let end = state.ends[side as usize];
            let mut events = vec![Event::Update, Event::Wait];
            if self.ends.facts(end).sealed < self.scope.packets[side as usize] {
                events.push(Event::Seal);
            }
            let sealed = state.sealed.into_iter().filter(|id| *id != 0);
            let arriving = sealed.filter(|id| self.ends.packet(*id).from != side);
            events.extend(arriving.map(Event::Arrive));
            for event in events {
                let to = self.ends.step(end, event).map(|(to, sealed)| {
                    let mut next = *state;
                    next.ends[side as usize] = to;
                    if sealed != 0 {
                        // Sorted, so that there is room in front.
                        next.sealed[0] = sealed;
                        next.sealed.sort_unstable();
                    }
                    next
                });
                found.push(((side, event), to));
            }
        }
    }

    fn check(&mut self, state: &State) -> Result<(), String> {
        for id in state.sealed.into_iter().filter(|id| *id != 0) {
            let end = state.ends[self.ends.packet(id).from as usize];
            let (after, _) = self.ends.step(end, Event::Reflect(id))?;
            if after != end {
                return Err("its own packet changed an end".into());
            }
        }
        self.mend(state.ends)
    }

    fn describe(&self, (side, event): Self::Action) -> String {
        match event {
            Event::Arrive(id) => format!("{side} receives {}", self.show(id)),
            event => format!("{side}: {event:?}"),
        }
    }
}
