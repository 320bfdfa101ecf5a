//! An operation of one library, ready to be timed.

use std::fmt;
use std::time::{Duration, Instant};

/// An operation of one library, with its keys and input.
pub struct Contender {
    /// The name of the library, or of a way to use Wireseal.
    pub name: &'static str,
    run: Box<dyn FnMut()>,
    prepare: Box<dyn FnMut()>,
    round: Option<u64>,
}

impl Contender {
    /// `run` does the operation once.
    pub fn new(name: &'static str, run: impl FnMut() + 'static) -> Self {
        Self { name, run: Box::new(run), prepare: Box::new(|| ()), round: None }
    }

    /// Calls `prepare`, untimed, before every `runs` runs.
    #[must_use]
    pub fn prepared(self, runs: u64, prepare: impl FnMut() + 'static) -> Self {
        Self { prepare: Box::new(prepare), round: Some(runs), ..self }
    }

    /// The same contender under another name.
    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The number of runs between two preparations; `None` if it needs none.
    #[must_use]
    pub fn round(&self) -> Option<u64> {
        self.round
    }

    /// Runs the operation `runs` times, and returns the time without the preparations.
    pub fn time(&mut self, runs: u64) -> Duration {
        let (mut left, mut taken) = (runs, Duration::ZERO);
        while left > 0 {
            let round = self.round.unwrap_or(left).min(left);
            (self.prepare)();
            let start = Instant::now();
            (0..round).for_each(|_| (self.run)());
            taken += start.elapsed();
            left -= round;
        }
        taken
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Compares the outputs of several libraries for the same input.
///
/// # Panics
/// If an output differs from the first.
pub fn assert_agree<O: PartialEq + fmt::Debug>(
    what: impl fmt::Display,
    outputs: impl IntoIterator<Item = (&'static str, O)>,
) {
    let mut outputs = outputs.into_iter();
    let (first, expected) = outputs.next().expect("at least one library");
    for (name, output) in outputs {
        assert_eq!(output, expected, "{what}: {name} and {first} differ");
    }
}
