//! Core cycles to authenticate a segment, compared with Linux's published figures.

use std::hint::black_box;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_benches::Contender;
use wireseal_benches::tcp_ao::{BATCH, HASHED, LENGTH, sign, sign_many};

use crate::table::{Cell, Table, range};
use crate::timing::{Effort, alternate};

/// Cycles for a segment of 128 octets, before and after Linux 7.2's change to its crypto library, as measured on x86 by the author of the
/// change.
const LINUX: [(TcpAoAlgorithm, u64, u64); 3] = [
    (TcpAoAlgorithm::HmacSha1, 3319, 1256),
    (TcpAoAlgorithm::LinuxHmacSha256, 3311, 1344),
    (TcpAoAlgorithm::Aes128Cmac, 2720, 1107),
];

/// The number of steps in the chain that stands in for a clock.
const CHAIN: usize = 1000;
/// Cycles of a step: on every x86-64 processor of the last fifteen years a 64-bit multiplication takes three and an exclusive or one.
/// Unknown for other processors.
const STEP: Option<f64> = if cfg!(target_arch = "x86_64") { Some(4.0) } else { None };

/// A chain of operations that each wait for the previous one, so that it takes a known number of core cycles.
fn chain() -> Contender {
    let mut value = 1_u64;
    Contender::new("clock", move || {
        let (factor, mask) = black_box((0x9e37_79b9_7f4a_7c15_u64, 0x5a5a_u64));
        for _ in 0..CHAIN {
            value = value.wrapping_mul(factor) ^ mask;
        }
        black_box(value);
    })
}

pub(crate) fn table(effort: Effort) -> Table {
    let columns = [
        "algorithm",
        "Linux before",
        "Linux 7.2",
        "wireseal, one",
        "wireseal, 16 at once, each",
        "Linux 7.2 / one",
        "Linux 7.2 / each of 16",
    ];
    let title = format!(
        "Core cycles to authenticate a TCP segment of {} octets behind its header ({HASHED} to hash)",
        LENGTH - 20
    );
    let mut table = Table::new("cycles", title, columns);
    let (mut alone, mut batched) = (Vec::new(), Vec::new());
    for (algorithm, before, after) in LINUX {
        let mut timed = [chain(), sign(algorithm).swap_remove(0), sign_many(algorithm).swap_remove(0)];
        let times = alternate(effort, &mut timed);
        let per_nanosecond = CHAIN as f64 * STEP.unwrap_or(f64::NAN) / times[0];
        let [one, many] = [times[1], times[2] / BATCH as f64].map(|time| time * per_nanosecond);
        alone.push(after as f64 / one);
        batched.push(after as f64 / many);
        table.rows.push(vec![
            Cell::text(algorithm.mac().name()),
            Cell::Count(before),
            Cell::Count(after),
            Cell::Number(one, 0, ""),
            Cell::Number(many, 0, ""),
            Cell::ratio(after as f64 / one),
            Cell::ratio(after as f64 / many),
        ]);
    }
    table.reading = format!(
        "Linux's figures are its author's, from his x86 machine, for hashing a segment. Wireseal's are for all of signing one: parsing, \
         SNE, input and MAC. Linux 7.2 takes {} times as many cycles as Wireseal for one segment, and {} times as many as for each \
         of {BATCH} segments of different connections at once. Cycles compare across machines, unlike nanoseconds. They are counted \
         on x86-64 with a chain of multiplications of known latency that takes turns with the rest, not with a cycle counter.",
        range(&alone),
        range(&batched),
    );
    table
}
