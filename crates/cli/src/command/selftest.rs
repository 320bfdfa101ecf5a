//! `wireseal selftest`: published test vectors on this machine.

use std::io::{self, BufWriter, Write};

use wireseal_quic::Backend;

use super::outcome::{Outcome, Result};
use crate::report::table::table;
use crate::selftest::{self, Group};
use crate::terminal::Wrapped;

/// Run published test vectors on this machine, and show which processor instructions are used
///
/// Exit code 0: all passed; 1: some failed.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(Arguments {}: Arguments) -> Result {
    let groups = selftest::run();
    let mut output = Wrapped::new(BufWriter::new(io::stdout().lock()));
    write_machine(&mut output)?;
    write_groups(&mut output, &groups)?;
    output.flush()?;
    Ok(if groups.iter().all(Group::passed) { Outcome::Good } else { Outcome::Failed })
}

/// Writes which of this processor's instructions are used, and what serves QUIC.
pub(super) fn write_machine(output: &mut impl Write) -> io::Result<()> {
    let names = |is_available: bool| {
        let paths = selftest::cpu_paths().filter(|(_, available)| *available == is_available);
        let names: Vec<_> = paths.map(|(name, _)| name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    writeln!(output, "CPU paths in use:      {}", names(true))?;
    writeln!(output, "CPU paths unavailable: {}", names(false))?;
    let backends: Vec<_> = Backend::ALL.iter().map(|backend| backend.name()).collect();
    writeln!(output, "QUIC backends:         {} (the first is active)", backends.join(", "))?;
    for (suite, served_by) in selftest::quic_served_by() {
        writeln!(output, "  {suite:<32}{served_by}")?;
    }
    Ok(())
}

fn write_groups(output: &mut impl Write, groups: &[Group]) -> io::Result<()> {
    let rows = groups.iter().map(|Group { source, subject, vectors, failures }| {
        let passed = format!("{} of {vectors}", vectors - failures.len());
        let verdict = if failures.is_empty() { "pass" } else { "FAIL" };
        [(*source).to_owned(), subject.clone(), passed, verdict.to_owned()]
    });
    writeln!(output, "{}", table(["source", "vectors of", "passed", ""], rows, 2))?;
    for Group { source, subject, failures, .. } in groups {
        for failure in failures {
            writeln!(output, "FAIL  {source}, {failure} ({subject})")?;
        }
    }
    let all: usize = groups.iter().map(|group| group.vectors).sum();
    match groups.iter().map(|group| group.failures.len()).sum() {
        0 => writeln!(output, "all {all} vectors passed"),
        failed => writeln!(output, "{failed} of {all} vectors FAILED: do not use this build on this machine"),
    }
}
