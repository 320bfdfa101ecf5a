//! A few figures about the speed of this machine, each on one core.

mod quic;
mod rate;
mod tcp_ao;

use std::time::Duration;

use serde::Serialize;

pub use quic::QuicFigure;
pub use tcp_ao::TcpAoFigure;

/// What was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// TCP-AO, by algorithm and length.
    pub tcp_ao: Vec<TcpAoFigure>,
    /// QUIC, by suite.
    pub quic: Vec<QuicFigure>,
}

/// Measures everything, in about this much time altogether.
#[must_use]
pub fn run(time: Duration) -> Figures {
    let window = time / ((tcp_ao::MEASURED + quic::MEASURED) * rate::TIMES);
    Figures { tcp_ao: tcp_ao::run(window), quic: quic::run(window) }
}
