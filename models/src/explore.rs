//! Breadth-first search through every state that a model can reach.

use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use foldhash::{HashSet, HashSetExt};

/// An action, and the state it leads to, or what it broke.
pub type Next<M> = (<M as Model>::Action, Result<<M as Model>::State, String>);

/// What is searched.
pub trait Model {
    /// A state, small because millions are kept.
    type State: Copy + Eq + Hash;
    /// What leads from a state to another.
    type Action: Copy;

    /// The state at the beginning.
    fn start(&mut self) -> Self::State;

    /// Puts every action that is possible in a state into `found`.
    fn actions(&mut self, state: &Self::State, found: &mut Vec<Next<Self>>);

    /// What must hold in every state.
    ///
    /// # Errors
    /// What does not hold.
    fn check(&mut self, state: &Self::State) -> Result<(), String>;

    /// An action in words.
    fn describe(&self, action: Self::Action) -> String;
}

/// What a complete search has seen.
#[derive(Clone, Copy, Debug)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Actions tried, all states together.
    pub transitions: u64,
    /// Actions from the start to the furthest state.
    pub depth: usize,
    /// How long it took.
    pub time: Duration,
}

/// A shortest way to a fault.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The actions from the start.
    pub steps: Vec<String>,
    /// What is wrong after them.
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
    /// Where it was first reached from, and by what.
    from: Option<(u32, M::Action)>,
}

/// Searches until every reachable state is checked.
///
/// # Errors
/// A shortest counterexample, if there is one.
///
/// # Panics
/// With more than 2^32 states.
pub fn explore<M: Model>(model: &mut M) -> Result<Explored, Counterexample> {
    let started = Instant::now();
    let start = model.start();
    let mut known = HashSet::new();
    known.insert(start);
    // In the order in which they are found, which is the order of their depth.
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
