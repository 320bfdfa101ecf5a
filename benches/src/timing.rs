//! Timing in turns: contenders run short rounds one after another, and the best round of each counts. Whatever else the machine
//! does hits all alike.

use std::time::{Duration, Instant};

use crate::table::Cell;

/// A piece of code to time.
pub(crate) struct Timed<'a> {
    pub(crate) name: &'a str,
    run: Box<dyn FnMut() + 'a>,
    /// Runs before each round, untimed.
    prepare: Box<dyn FnMut() + 'a>,
    /// The repetitions of a round; if `None`, as many as fill it.
    repetitions: Option<usize>,
}

impl<'a> Timed<'a> {
    pub(crate) fn new(name: &'a str, run: impl FnMut() + 'a) -> Self {
        Self { name, run: Box::new(run), prepare: Box::new(|| ()), repetitions: None }
    }

    /// Sets the repetitions of a round, and what prepares it.
    pub(crate) fn prepared(mut self, repetitions: usize, prepare: impl FnMut() + 'a) -> Self {
        (self.repetitions, self.prepare) = (Some(repetitions), Box::new(prepare));
        self
    }

    /// Sets the repetitions of a round.
    pub(crate) fn rounds_of(self, repetitions: usize) -> Self {
        self.prepared(repetitions, || ())
    }

    fn round(&mut self, repetitions: usize) -> Duration {
        (self.prepare)();
        let start = Instant::now();
        (0..repetitions).for_each(|_| (self.run)());
        start.elapsed()
    }
}

/// How long to measure.
#[derive(Clone, Copy)]
pub(crate) enum Effort {
    /// Runs everything once, without timing.
    Once,
    /// The time for each contender, spent in rounds of about a tenth of a millisecond.
    For(Duration),
}

impl Effort {
    pub(crate) fn is_once(self) -> bool {
        matches!(self, Self::Once)
    }

    /// Whether a goal is met; empty if everything ran only once.
    pub(crate) fn mark(self, is_held: bool) -> Cell {
        if self.is_once() { Cell::None } else { Cell::Held(is_held) }
    }

    /// A fraction of the time, for tables with many rows.
    pub(crate) fn share(self, part: u32) -> Self {
        match self {
            Self::Once => Self::Once,
            Self::For(time) => Self::For(time / part),
        }
    }
}

const ROUND: Duration = Duration::from_micros(100);

/// Nanoseconds of one run of each, in its best round.
pub(crate) fn alternate(effort: Effort, timed: &mut [Timed<'_>]) -> Vec<f64> {
    let Effort::For(time) = effort else {
        return timed.iter_mut().map(|timed| timed.round(1).as_nanos() as f64).collect();
    };
    let repetitions: Vec<usize> =
        timed.iter_mut().map(|timed| timed.repetitions.unwrap_or_else(|| calibrated(timed))).collect();
    let mut best = vec![f64::INFINITY; timed.len()];
    let start = Instant::now();
    // At least three rounds, since the first one finds cold caches.
    for round in 0.. {
        if round >= 3 && start.elapsed() > time * timed.len() as u32 {
            break;
        }
        for ((timed, repetitions), best) in timed.iter_mut().zip(&repetitions).zip(&mut best) {
            let elapsed = timed.round(*repetitions);
            *best = best.min(elapsed.as_nanos() as f64 / *repetitions as f64);
        }
    }
    best
}

/// How many repetitions fill a round.
fn calibrated(timed: &mut Timed<'_>) -> usize {
    let mut repetitions = 1;
    while timed.round(repetitions) < ROUND / 2 {
        repetitions *= 2;
    }
    repetitions
}
