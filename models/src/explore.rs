//! Breadth-first search through every state that a model can reach, with a shortest counterexample. The real code of an end runs once for
//! each of its states and each event.
//!
//! A state of the model is two end-state numbers and the packets in flight. Millions of states share a few thousand end states, so the
//! search itself computes no MACs.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

/// An action, and the state it leads to or the rule it broke.
pub type Next<M> = (<M as Model>::Action, Result<<M as Model>::State, String>);

/// The model to search.
pub trait Model {
    /// A state, small because millions are stored.
    type State: Copy + Eq + Hash;
    /// A transition from one state to another.
    type Action: Copy;

    /// The state at the beginning.
    fn start(&mut self) -> Self::State;

    /// Adds every action that is possible in a state to `found`.
    fn actions(&mut self, state: &Self::State, found: &mut Vec<Next<Self>>);

    /// What must hold in every state.
    fn check(&mut self, state: &Self::State) -> Result<(), String>;

    /// An action in words.
    fn describe(&self, action: Self::Action) -> String;
}

/// The statistics of a complete search.
#[derive(Clone, Copy, Debug)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Actions tried, all states together.
    pub transitions: u64,
    /// The number of actions from the start to the furthest state.
    pub depth: usize,
    /// How long it took.
    pub time: Duration,
}

/// A shortest path to a fault.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The actions from the start.
    pub steps: Vec<String>,
    /// What is wrong after these actions.
    pub fault: String,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:4}. {step}", number + 1)?;
        }
        write!(f, "      {}", self.fault)
    }
}

struct Node<M: Model> {
    state: M::State,
    /// The state and action by which it was first reached.
    from: Option<(u32, M::Action)>,
}

/// Searches until every reachable state is checked.
/// Fails with a shortest counterexample, if there is one.
/// Panics with more than 2^32 states.
pub fn explore<M: Model>(model: &mut M) -> Result<Explored, Counterexample> {
    let started = Instant::now();
    let start = model.start();
    let mut known = HashSet::new();
    known.insert(start);
    // In the order in which they are found, which is by depth.
    let mut nodes: Vec<Node<M>> = vec![Node { state: start, from: None }];
    let (mut transitions, mut depth, mut end_of_level) = (0, 0, 1);
    let mut found = Vec::new();
    let mut next = 0;
    while next < nodes.len() {
        if next == end_of_level {
            (depth, end_of_level) = (depth + 1, nodes.len());
        }
        let state = nodes[next].state;
        model.check(&state).map_err(|fault| counterexample(model, &nodes, next, None, fault))?;
        model.actions(&state, &mut found);
        transitions += found.len() as u64;
        for (action, to) in found.drain(..) {
            let to = to.map_err(|fault| counterexample(model, &nodes, next, Some(action), fault))?;
            if known.insert(to) {
                let number = u32::try_from(next).expect("fewer than 2^32 states");
                nodes.push(Node { state: to, from: Some((number, action)) });
            }
        }
        next += 1;
    }
    Ok(Explored { states: nodes.len(), transitions, depth, time: started.elapsed() })
}

fn counterexample<M: Model>(
    model: &M,
    nodes: &[Node<M>],
    at: usize,
    last: Option<M::Action>,
    fault: String,
) -> Counterexample {
    let path = std::iter::successors(nodes[at].from, |(from, _)| nodes[*from as usize].from);
    let mut steps: Vec<_> =
        last.into_iter().chain(path.map(|(_, action)| action)).map(|action| model.describe(action)).collect();
    steps.reverse();
    Counterexample { steps, fault }
}

/// The two ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// The end that opened the connection.
    Left,
    /// Its peer.
    Right,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];

    /// The other one.
    pub fn other(self) -> Self {
        if self == Self::Left { Self::Right } else { Self::Left }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Left { "left" } else { "right" })
    }
}

/// The number of an end state.
pub type EndId = u32;
/// The number of a packet; 0 is none.
pub type PacketId = u32;

/// One end: the code under test, with as much of a stack around it as it needs.
pub trait End: Sized {
    /// The facts that the model's rules check.
    type Facts: Copy;
    /// An event at the end.
    type Event: Copy + Eq + Hash;
    /// A packet that the end sends.
    type Packet: Clone + Eq + Hash;
    /// The parameters for a new end.
    type Setup: Copy;

    /// A new end.
    fn new(side: Side, setup: Self::Setup) -> Self;

    /// Lets something happen to it. `packets` are those with the numbers from 1 on.
    fn handle(
        &mut self,
        event: Self::Event,
        packets: &[Self::Packet],
    ) -> Result<Option<Self::Packet>, String>;

    /// Tries what an attacker could do instead of this event. It must not change anything.
    fn attack(&mut self, event: Self::Event, packets: &[Self::Packet]) -> Result<(), String>;

    /// The same end, exported and imported, for connections that can be.
    fn moved(self) -> Result<Self, String> {
        Ok(self)
    }

    /// The facts that the model's rules check.
    fn facts(&self) -> Self::Facts;

    /// All state that determines its further behaviour.
    fn identity(self) -> Vec<u8>;
}

/// The result of an event.
pub type Step = Result<(EndId, PacketId), String>;

/// All end states reached so far.
pub struct Ends<E: End> {
    setup: E::Setup,
    /// Keyed by a 128-bit hash of an end state's identity.
    numbers: HashMap<u128, EndId>,
    facts: Vec<E::Facts>,
    /// A shortest path to each.
    origins: Vec<Origin<E>>,
    steps: HashMap<(EndId, E::Event), Step>,
    packets: Vec<E::Packet>,
    packet_numbers: HashMap<E::Packet, PacketId>,
}

enum Origin<E: End> {
    Start(Side),
    After(EndId, E::Event),
}

impl<E: End> Ends<E> {
    /// The two ends in their first states have the numbers 0 and 1.
    pub fn new(setup: E::Setup) -> Self {
        let mut ends = Self {
            setup,
            numbers: HashMap::new(),
            facts: Vec::new(),
            origins: Vec::new(),
            steps: HashMap::new(),
            packets: Vec::new(),
            packet_numbers: HashMap::new(),
        };
        for side in Side::BOTH {
            ends.number(E::new(side, setup), Origin::Start(side));
        }
        ends
    }

    /// The facts of an end state.
    pub fn facts(&self, id: EndId) -> E::Facts {
        self.facts[id as usize]
    }

    /// The packet of this number, which is not 0.
    pub fn packet(&self, id: PacketId) -> &E::Packet {
        &self.packets[id as usize - 1]
    }

    /// The number of end states, the number of packets, and how often the code under test has run.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.facts.len(), self.packets.len(), self.steps.len())
    }

    /// The result of an event: the next state, and the packet sent.
    pub fn step(&mut self, id: EndId, event: E::Event) -> Step {
        if let Some(step) = self.steps.get(&(id, event)) {
            return step.clone();
        }
        let step = self.run(id, event);
        self.steps.insert((id, event), step.clone());
        step
    }

    fn run(&mut self, id: EndId, event: E::Event) -> Step {
        let mut end = self.revive(id);
        end.attack(event, &self.packets)?;
        let sent = end.handle(event, &self.packets)?;
        let mut moved = self.revive(id).moved()?;
        let sent_after_move = moved.handle(event, &self.packets)?;
        let after = self.number(end, Origin::After(id, event));
        if sent != sent_after_move || self.numbers.get(&digest(&moved.identity())) != Some(&after) {
            return Err("an end that was moved before goes on differently".into());
        }
        Ok((after, sent.map_or(0, |packet| self.packet_number(packet))))
    }

    /// The end in this state, by replaying the events that led to it.
    fn revive(&self, id: EndId) -> E {
        let (mut events, mut at) = (Vec::new(), id);
        let side = loop {
            match self.origins[at as usize] {
                Origin::Start(side) => break side,
                Origin::After(from, event) => {
                    events.push(event);
                    at = from;
                }
            }
        };
        let mut end = E::new(side, self.setup);
        for event in events.into_iter().rev() {
            let repeated = end.handle(event, &self.packets);
            assert!(repeated.is_ok(), "what was possible once is so again");
        }
        end
    }

    fn number(&mut self, end: E, origin: Origin<E>) -> EndId {
        let facts = end.facts();
        let next = self.facts.len() as EndId;
        let number = *self.numbers.entry(digest(&end.identity())).or_insert(next);
        if number == next {
            self.facts.push(facts);
            self.origins.push(origin);
        }
        number
    }

    fn packet_number(&mut self, packet: E::Packet) -> PacketId {
        let next = PacketId::try_from(self.packets.len() + 1).expect("fewer than 2^32 packets");
        let number = *self.packet_numbers.entry(packet.clone()).or_insert(next);
        if number == next {
            self.packets.push(packet);
        }
        number
    }
}

impl<E: End> fmt::Debug for Ends<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

fn digest(octets: &[u8]) -> u128 {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, octets).hash(&mut hasher);
        hasher.finish()
    };
    u128::from(half(0)) << 64 | u128::from(half(1))
}
