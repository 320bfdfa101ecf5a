//! Compares the times with constant secrets and with random ones, by Welch's t-test.
//!
//! No result proves that there is no difference; a large t proves that there is one.

use std::hint::black_box;
use std::time::Instant;

use wireseal_kernels::cpu::switch;

use crate::routines::{Routine, Secrets};

/// The number of measurements of a routine, about half of them with either kind of secrets.
pub const MEASUREMENTS: usize = 40_000;
/// The number of runs in a measurement, to be long enough for the clock.
const RUNS: usize = 4;
/// Above this t there is a difference: chance reaches it practically never.
const GREATEST_T: f64 = 10.0;
/// Noise from the machine can bias one kind of secrets, so a difference must show in all attempts.
const ATTEMPTS: u64 = 5;
/// The lengths of text: part of a block, one block of several kinds, one that fills GCM's last group to the last block, and a packet.
const LENGTHS: [usize; 4] = [5, 69, 240, 1200];

/// The sample of a packet number of two octets, which GCM takes from its registers.
const SAMPLE_STARTS: &[usize] = &[2];

/// Whether the routine, whose instructions the processor has, takes another time with constant secrets than with random ones; and the last
/// attempt's greatest t, at the length where it is greatest.
pub fn check(routine: &Routine, measurements: usize) -> (bool, f64) {
    assert!(routine.select(), "this processor has no instructions for {routine}");
    // Stops at the first attempt without a difference.
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

/// Whether the routine computes texts of this length: batches leave short ones to their caller.
fn computes(routine: &Routine, length: usize) -> bool {
    let (mut random, mut secrets) = (fastrand::Rng::with_seed(0), Secrets::new(SAMPLE_STARTS));
    secrets.fill(|octets| random.fill(octets));
    (routine.run)(&mut secrets, length);
    secrets.outcome != [0; 16]
}

/// Runs it with its stack at another place. The placement of the routine's memory can make differences of less than a cycle, but a branch
/// makes a difference everywhere.
fn deeper(levels: u64, run: &mut dyn FnMut() -> f64) -> f64 {
    let frame = black_box([0_u8; 1000]);
    let t = if levels == 0 { run() } else { deeper(levels - 1, run) };
    black_box(&frame);
    t
}

/// The greatest t of all measurements, and of those below some quantiles, to leave out the interrupted ones.
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
        // Both kinds are prepared by the same work in the same place. `black_box`, so that the mask cannot become a branch, which would
        // leave stores of one kind unfinished when the measurement starts.
        let mask = black_box(u8::from(is_random).wrapping_neg());
        candidate.fill(|octets| octets.iter_mut().for_each(|octet| *octet &= mask));
        secrets.clone_from(&candidate);

        let start = Instant::now();
        for _ in 0..RUNS {
            (routine.run)(black_box(&mut secrets), black_box(length));
        }
        let time = start.elapsed().as_nanos() as f64;
        has_computed |= secrets.outcome != [0; 16];
        // The first measurements only warm up.
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
    // Equal times without any variance count as no difference.
    if deviation > 0.0 { (constant.0 - random.0) / deviation } else { 0.0 }
}
