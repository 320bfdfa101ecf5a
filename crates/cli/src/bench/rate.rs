//! How often something can be done in a second.

use std::time::{Duration, Instant};

/// How often each thing is measured. The fastest counts, because other programs only slow it down; many short measurements make
/// it likely that one of them runs undisturbed.
pub(super) const TIMES: u32 = 16;

/// How often per second the work can be done, if one call does it `at_once` times.
pub(super) fn per_second(window: Duration, at_once: u32, mut work: impl FnMut()) -> f64 {
    work();
    let mut best: f64 = 0.0;
    for _ in 0..TIMES {
        let start = Instant::now();
        let mut done = 0_u64;
        let taken = loop {
            work();
            done += u64::from(at_once);
            let taken = start.elapsed();
            if taken >= window {
                break taken;
            }
        };
        best = best.max(done as f64 / taken.as_secs_f64());
    }
    best
}
