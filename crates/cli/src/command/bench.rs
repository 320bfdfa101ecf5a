//! `wireseal bench`: how fast this machine is.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use super::outcome::{Outcome, Result};
use crate::bench::{self, Figures, QuicFigure, TcpAoFigure};
use crate::report::table::table;

/// Measure how many TCP segments and how much QUIC traffic one core can protect
///
/// Each figure is the best of sixteen short measurements on one core. TCP-AO segments are signed and verified one by one on an
/// established connection; QUIC packets of 1200 octets are sealed and opened one by one.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Print one JSON object: segments per second, and Gbit per second
    #[arg(long)]
    json: bool,
    /// The duration of all measurements together
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
}

pub(super) fn run(Arguments { json, seconds }: Arguments) -> Result {
    let Figures { tcp_ao, quic } = bench::run(Duration::from_secs(seconds.into()));
    let mut output = BufWriter::new(io::stdout().lock());
    if json {
        let report = serde_json::json!({ "schema": 1, "tcp_ao": tcp_ao, "quic": quic });
        serde_json::to_writer_pretty(&mut output, &report).map_err(io::Error::from)?;
        writeln!(output)?;
    } else {
        let millions = |number: f64| format!("{:.2} M", number / 1e6);
        let rows = tcp_ao.iter().map(|TcpAoFigure { algorithm, payload, signed, verified }| {
            [(*algorithm).to_owned(), payload.to_string(), millions(*signed), millions(*verified)]
        });
        writeln!(
            output,
            "{}",
            table(["TCP-AO, segments per second", "payload", "signed", "verified"], rows, 1)
        )?;
        let rows = quic.iter().map(|QuicFigure { suite, served_by, sealed, opened, .. }| {
            [(*suite).to_owned(), (*served_by).to_owned(), format!("{sealed:.1}"), format!("{opened:.1}")]
        });
        writeln!(output, "{}", table(["QUIC, Gbit/s", "served by", "sealed", "opened"], rows, 2))?;
    }
    output.flush()?;
    Ok(Outcome::Good)
}
