//! Timing in turns: contenders run short rounds one after another, and the best round of each counts. Other work on the machine affects all
//! of them alike.

use std::time::{Duration, Instant};

use wireseal_benches::Contender;

use crate::table::Cell;

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

    /// Whether a goal is met; an empty cell if everything ran only once.
    pub(crate) fn mark(self, is_held: bool) -> Cell {
        if self.is_once() { Cell::None } else { Cell::Held(is_held) }
    }
}

const ROUND: Duration = Duration::from_micros(100);

/// Nanoseconds for one run of each contender, in its best round.
pub(crate) fn alternate(effort: Effort, contenders: &mut [Contender]) -> Vec<f64> {
    let Effort::For(time) = effort else {
        return contenders.iter_mut().map(|contender| contender.time(1).as_nanos() as f64).collect();
    };
    let runs: Vec<u64> = contenders.iter_mut().map(calibrated).collect();
    let mut best = vec![f64::INFINITY; contenders.len()];
    let start = Instant::now();
    // At least three rounds, since caches are cold in the first.
    for round in 0.. {
        if round >= 3 && start.elapsed() > time * contenders.len() as u32 {
            break;
        }
        for ((contender, runs), best) in contenders.iter_mut().zip(&runs).zip(&mut best) {
            *best = best.min(contender.time(*runs).as_nanos() as f64 / *runs as f64);
        }
    }
    best
}

/// The number of runs that fill a round.
fn calibrated(contender: &mut Contender) -> u64 {
    contender.round().unwrap_or_else(|| {
        let mut runs = 1;
        while contender.time(runs) < ROUND / 2 {
            runs *= 2;
        }
        runs
    })
}
