//! Searches every interleaving of two small ends with the real code: TCP-AO's key roll-over in `wireseal_tcp_ao::Connection`, and QUIC's
//! key update in `wireseal_quic::OneRtt`. [`mod@year`] simulates routers over a year. docs/dev/models.md describes both and what they found.
//!
//! `cargo run --release -p wireseal-models` searches the [scopes](COMPLETE) of the CI stage `models`; the tests search smaller ones.
//! [`mod@explore`] is the search.

pub mod explore;
pub mod quic;
pub mod tcp_ao;
pub mod year;

use std::fmt;

use crate::explore::{Counterexample, Explored, explore};
use crate::tcp_ao::{Operators, Spacing};

/// A model, and how much of it to search.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    /// Key roll-over.
    TcpAo(tcp_ao::Scope),
    /// Key update.
    Quic(quic::Scope),
}

/// The scopes that the CI stage searches.
pub const COMPLETE: [Scope; 14] = [
    Scope::TcpAo(tcp_ao(Operators::Prompt, 2, [2, 1], 2)),
    Scope::TcpAo(tcp_ao(Operators::Prompt, 2, [1, 1], 3)),
    Scope::TcpAo(tcp_ao(Operators::Prompt, 3, [2, 1], 2)),
    Scope::TcpAo(tcp_ao(Operators::Careful, 2, [2, 1], 2)),
    Scope::TcpAo(tcp_ao(Operators::Careful, 2, [1, 1], 3)),
    Scope::TcpAo(tcp_ao(Operators::Careful, 3, [1, 1], 2)),
    Scope::TcpAo(tcp_ao(Operators::Free, 2, [1, 0], 2)),
    Scope::TcpAo(tcp_ao(Operators::Free, 2, [1, 1], 2)),
    Scope::TcpAo(far_apart(tcp_ao(Operators::Prompt, 2, [2, 1], 2))),
    Scope::TcpAo(far_apart(tcp_ao(Operators::Careful, 2, [2, 1], 2))),
    Scope::TcpAo(far_apart(tcp_ao(Operators::Free, 2, [3, 0], 2))),
    Scope::Quic(quic::Scope { packets: [3, 2], fault: None }),
    Scope::Quic(quic::Scope { packets: [3, 3], fault: None }),
    Scope::Quic(quic::Scope { packets: [4, 2], fault: None }),
];

/// Faults put around the real code, which a search must find.
pub const FAULTS: [Scope; 7] = [
    tcp_ao(Operators::Prompt, 2, [1, 1], 2).with(tcp_ao::Fault::DeafToRetransmissions),
    tcp_ao(Operators::Careful, 2, [2, 1], 2).with(tcp_ao::Fault::DeafToRetransmissions),
    tcp_ao(Operators::Prompt, 2, [1, 1], 2).with(tcp_ao::Fault::ObeysReplays),
    tcp_ao(Operators::Prompt, 2, [1, 1], 2).with(tcp_ao::Fault::ForgetsAcknowledgment),
    far_apart(tcp_ao(Operators::Prompt, 2, [2, 0], 2)).with(tcp_ao::Fault::GoesBackHalfATurn),
    Scope::Quic(quic::Scope { packets: [2, 2], fault: Some(quic::Fault::UpdatesUnacknowledged) }),
    Scope::Quic(quic::Scope { packets: [2, 2], fault: Some(quic::Fault::DropsOldKeys) }),
];

const fn tcp_ao(operators: Operators, keys: u8, data: [u8; 2], in_flight: usize) -> tcp_ao::Scope {
    tcp_ao::Scope { operators, keys, data, in_flight, spacing: Spacing::Near, fault: None }
}

const fn far_apart(scope: tcp_ao::Scope) -> tcp_ao::Scope {
    tcp_ao::Scope { spacing: Spacing::Far, ..scope }
}

impl tcp_ao::Scope {
    const fn with(self, fault: tcp_ao::Fault) -> Scope {
        Scope::TcpAo(Self { fault: Some(fault), ..self })
    }
}

/// The result of a search.
#[derive(Debug)]
pub struct Outcome {
    /// The states searched, or a counterexample.
    pub found: Result<Explored, Counterexample>,
    /// The number of end states, the number of packets, and how often the code under test has run.
    pub counts: (usize, usize, usize),
    /// The most segments that an end sent, after the network was repaired, until everything had arrived.
    pub rounds: Option<usize>,
}

impl Scope {
    /// Searches it.
    pub fn search(self) -> Outcome {
        match self {
            Self::TcpAo(scope) => {
                let mut pair = tcp_ao::Pair::new(scope);
                let found = explore(&mut pair);
                Outcome { found, counts: pair.counts(), rounds: Some(pair.rounds()) }
            }
            Self::Quic(scope) => {
                let mut pair = quic::Pair::new(scope);
                let found = explore(&mut pair);
                Outcome { found, counts: pair.counts(), rounds: None }
            }
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault: Option<&dyn fmt::Debug> = match self {
            Self::TcpAo(tcp_ao::Scope { operators, keys, data, in_flight, spacing, fault }) => {
                let [left, right] = data;
                let spacing = if *spacing == Spacing::Far { ", far apart" } else { "" };
                write!(
                    f,
                    "TCP-AO, {operators:?}: {keys} keys, {left} and {right} segments{spacing}, {in_flight} in flight"
                )?;
                fault.as_ref().map(|fault| fault as _)
            }
            Self::Quic(quic::Scope { packets: [left, right], fault }) => {
                write!(f, "QUIC: {left} and {right} packets")?;
                fault.as_ref().map(|fault| fault as _)
            }
        };
        fault.map_or(Ok(()), |fault| write!(f, ", {fault:?}"))
    }
}
