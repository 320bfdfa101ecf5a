//! The handful of figures that an operator wants of this machine, each on one core.

mod quic;
mod tcp_ao;

use std::time::{Duration, Instant};

use serde::Serialize;

pub use quic::QuicFigure;
pub use tcp_ao::TcpAoFigure;

/// How often each thing is measured; the fastest counts, since whatever else the machine does only makes it slower. Often and
/// briefly, so that one measurement at least falls between two turns of other programs.
const TIMES: u32 = 16;

/// What was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// TCP-AO, by algorithm and length.
    pub tcp_ao: Vec<TcpAoFigure>,
    /// QUIC, by suite.
    pub quic: Vec<QuicFigure>,
}

/// How many things [`run`] measures.
pub const MEASURED: u32 = tcp_ao::MEASURED + quic::MEASURED;

/// Measures everything, for about so long altogether.
#[must_use]
pub fn run(time: Duration) -> Figures {
    let window = time / (MEASURED * TIMES);
    Figures { tcp_ao: tcp_ao::run(window), quic: quic::run(window) }
}

/// How often in a second the work can be done, of which one call does `at_once`.
fn per_second(window: Duration, at_once: u32, mut work: impl FnMut()) -> f64 {
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
