//! `wireseal selftest`: the published vectors on this machine.

use std::io::{self, BufWriter, Write};

use comfy_table::{CellAlignment, LineStyle, Table, presets};
use wireseal_quic::Backend;

use super::{Outcome, Result};
use crate::selftest::{self, Group};

/// Run the published vectors on this machine, and say which of its instructions are used
///
/// Exit code 0: all came out as published; 1: some did not.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(Arguments {}: Arguments) -> Result {
    let groups = selftest::run();
    let mut output = BufWriter::new(io::stdout().lock());
    write_machine(&mut output)?;
    write_groups(&mut output, &groups)?;
    output.flush()?;
    Ok(if groups.iter().all(Group::passed) { Outcome::Good } else { Outcome::Failed })
}

fn write_machine(output: &mut impl Write) -> io::Result<()> {
    let names = |wanted: bool| {
        let names: Vec<_> =
            selftest::paths().filter(|(_, has)| *has == wanted).map(|(name, _)| name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    writeln!(output, "CPU paths in use:     {}", names(true))?;
    writeln!(output, "CPU paths not there:  {}", names(false))?;
    let backends: Vec<_> = Backend::ALL.iter().map(|backend| backend.name()).collect();
    writeln!(output, "QUIC backends:        {} (the first is active)", backends.join(", "))?;
    for (suite, served_by) in selftest::quic_served_by() {
        writeln!(output, "  {suite:<32}{served_by}")?;
    }
    Ok(())
}

fn write_groups(output: &mut impl Write, groups: &[Group]) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none())).set_header([
        "source",
        "vectors of",
        "passed",
        "",
    ]);
    for Group { source, subject, vectors, failures } in groups {
        let passed = format!("{} of {vectors}", vectors - failures.len());
        let verdict = if failures.is_empty() { "pass" } else { "FAIL" };
        table.add_row([source, subject.as_str(), &passed, verdict]);
    }
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(output, "{table}")?;
    for Group { source, subject, failures, .. } in groups {
        for failure in failures {
            writeln!(output, "FAIL  {source}, {failure} ({subject})")?;
        }
    }
    let (all, failed) = groups
        .iter()
        .fold((0, 0), |(all, failed), group| (all + group.vectors, failed + group.failures.len()));
    match failed {
        0 => writeln!(output, "all {all} vectors passed"),
        _ => writeln!(output, "{failed} of {all} vectors FAILED: do not use this build on this machine"),
    }
}
