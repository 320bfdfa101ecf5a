//! `wireseal bench`: how fast this machine is.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, LineStyle, Table, presets};

use super::{Outcome, Result};
use crate::bench::{self, Figures, QuicFigure, TcpAoFigure};

/// Measure how many segments and how much QUIC one core of this machine protects
///
/// Each figure is the best of sixteen short measurements of one core. TCP-AO segments are signed and verified one by one on an
/// established connection; QUIC packets of 1200 octets are sealed and opened one by one.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Print one JSON object: segments in a second, and Gbit in a second
    #[arg(long)]
    json: bool,
    /// How long it takes altogether
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
}

pub(super) fn run(Arguments { json, seconds }: Arguments) -> Result {
    let figures = bench::run(Duration::from_secs(seconds.into()));
    let mut output = BufWriter::new(io::stdout().lock());
    if json {
        let Figures { tcp_ao, quic } = &figures;
        let report = serde_json::json!({ "schema": 1, "tcp_ao": tcp_ao, "quic": quic });
        serde_json::to_writer_pretty(&mut output, &report).map_err(io::Error::from)?;
        writeln!(output)?;
    } else {
        write_tables(&mut output, &figures)?;
    }
    output.flush()?;
    Ok(Outcome::Good)
}

fn write_tables(output: &mut impl Write, Figures { tcp_ao, quic }: &Figures) -> io::Result<()> {
    let mut table = new_table(["TCP-AO, segments per second", "payload", "signed", "verified"]);
    for TcpAoFigure { algorithm, payload, signed, verified } in tcp_ao {
        let millions = |number: &f64| format!("{:.2} M", number / 1e6);
        table.add_row([(*algorithm).to_owned(), payload.to_string(), millions(signed), millions(verified)]);
    }
    writeln!(output, "{}", aligned(table, 1))?;
    let mut table = new_table(["QUIC, Gbit/s", "served by", "sealed", "opened"]);
    for QuicFigure { suite, served_by, sealed, opened, .. } in quic {
        let [sealed, opened] = [sealed, opened].map(|figure| format!("{figure:.1}"));
        table.add_row([(*suite).to_owned(), (*served_by).to_owned(), sealed, opened]);
    }
    writeln!(output, "{}", aligned(table, 2))
}

fn new_table(header: [&str; 4]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none())).set_header(header);
    table
}

/// The table with its columns from this one on aligned as numbers.
fn aligned(mut table: Table, from: usize) -> Table {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
