//! The time with secrets that are always the same against the time with random ones, by Welch's t-test.
//!
//! No result proves that there is no difference; a large t proves that there is one.

use std::hint::black_box;
use std::time::Instant;

use wireseal_kernels::cpu::switch;

use crate::routines::{Routine, Secrets};

/// Measurements of a routine, about half of them with either kind of secrets.
pub const MEASUREMENTS: usize = 40_000;
/// Runs in a measurement, so that the clock is fine enough.
const RUNS: usize = 4;
/// Above this t there is a difference: chance alone gets there once in far more measurements than anybody makes.
const GREATEST_T: f64 = 10.0;
/// What else runs on the machine can last long enough to hit one kind of secrets more: a real difference is there every time.
const ATTEMPTS: u64 = 5;
/// The lengths of text: part of a block, one block of several kinds, one that fills GCM's last group to the last block, and a packet.
const LENGTHS: [usize; 4] = [5, 69, 240, 1200];

/// The sample of a packet number of two octets, which GCM takes from its registers.
const SAMPLE_STARTS: &[usize] = &[2];

/// Whether the routine, which the processor has, takes another time with constant secrets than with random ones; with the
/// greatest t that the last attempt gave, at the length where it is greatest.
pub fn check(routine: &Routine, measurements: usize) -> (bool, f64) {
    assert!(routine.select(), "this processor has no instructions for {routine}");
    // The first attempt without a difference is the last.
    let differs = |length| {
        let mut least = f64::INFINITY;
        for attempt in 0..ATTEMPTS {
            let t = deeper(attempt, &mut || greatest_t(routine, length, measurements, attempt));
            least = least.min(t);
            if least <= GREATEST_T {
                break;
            }
        }
        least
    };
    let lengths: Vec<usize> = LENGTHS.into_iter().filter(|length| computes(routine, *length)).collect();
    assert!(!lengths.is_empty(), "{routine} has computed nothing");
    let t = lengths.into_iter().map(differs).fold(0.0, f64::max);
    switch::all();
    (t > GREATEST_T, t)
}

/// Whether the routine takes texts of this length: batches leave short ones to their caller.
fn computes(routine: &Routine, length: usize) -> bool {
    let (mut random, mut secrets) = (fastrand::Rng::with_seed(0), Secrets::new(SAMPLE_STARTS));
    secrets.fill(|octets| random.fill(octets));
    (routine.run)(&mut secrets, length);
    secrets.outcome != [0; 16]
}

/// Runs it with its stack somewhere else: how the routine's memory lies can make very small differences, of less than a cycle, but
/// a branch makes its difference everywhere.
fn deeper(levels: u64, run: &mut dyn FnMut() -> f64) -> f64 {
    let frame = black_box([0_u8; 1000]);
    let t = if levels == 0 { run() } else { deeper(levels - 1, run) };
    black_box(&frame);
    t
}

/// The greatest t of all measurements and of those below some quantiles, above which is what interrupts do.
fn greatest_t(routine: &Routine, length: usize, measurements: usize, attempt: u64) -> f64 {
    let times = measure(routine, length, measurements, attempt);
    let mut all: Vec<f64> = times.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let limits = [50, 75, 90, 95, 99, 100].map(|percent| all[(all.len() - 1) * percent / 100]);
    limits.into_iter().map(|limit| welch(&times, limit).abs()).fold(0.0, f64::max)
}

/// Times with constant secrets and with random ones, in random order.
fn measure(routine: &Routine, length: usize, measurements: usize, attempt: u64) -> [Vec<f64>; 2] {
    let mut random = fastrand::Rng::with_seed(attempt);
    let mut times = [Vec::new(), Vec::new()];
    let (mut secrets, mut candidate) = (Secrets::new(SAMPLE_STARTS), Secrets::new(SAMPLE_STARTS));
    let mut has_computed = false;
    for measurement in 0..measurements + measurements / 10 {
        candidate.fill(|octets| random.fill(octets));
        let is_random = random.bool();
        // Both kinds are made by the same work and lie in the same place. Hidden from the compiler, the mask cannot become a branch,
        // after which stores of one kind only would still be on their way when the measurement starts.
        let mask = black_box(u8::from(is_random).wrapping_neg());
        candidate.fill(|octets| octets.iter_mut().for_each(|octet| *octet &= mask));
        secrets.clone_from(&candidate);

        let start = Instant::now();
        for _ in 0..RUNS {
            (routine.run)(black_box(&mut secrets), black_box(length));
        }
        let time = start.elapsed().as_nanos() as f64;
        has_computed |= secrets.outcome != [0; 16];
        // The first ones warm up.
        if measurement >= measurements / 10 {
            times[usize::from(is_random)].push(time);
        }
    }
    assert!(has_computed, "{routine} has computed nothing");
    times
}

/// Welch's t of the times up to `limit`.
fn welch(times: &[Vec<f64>; 2], limit: f64) -> f64 {
    let [constant, random] = times.each_ref().map(|times| {
        let times = times.iter().filter(|time| **time <= limit);
        let count = times.clone().count() as f64;
        let mean = times.clone().sum::<f64>() / count;
        let variance = times.map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    });
    let deviation = (constant.1 + random.1).sqrt();
    // Equal times without any variance are no difference.
    if deviation > 0.0 { (constant.0 - random.0) / deviation } else { 0.0 }
}
