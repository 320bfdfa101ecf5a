//! What a step takes, on the console.

use core::fmt::{Display, Write};

use firmware::board::{Console, Stopwatch};

/// A stopwatch, and where to say what it shows.
pub struct Bench {
    pub stopwatch: Stopwatch,
    pub console: Console,
}

impl Bench {
    /// Takes a step, and says what it has taken.
    pub fn step<R>(&mut self, (of, name): (impl Display, impl Display), step: impl FnOnce() -> R) -> R {
        let (result, taken) = self.stopwatch.measure(step);
        let _ = writeln!(self.console, "{};{};{of};{name}", taken.cycles, taken.stack);
        result
    }
}
