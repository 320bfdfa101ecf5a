//! RESULTS.md, and the lines on the terminal.

use anyhow::Result;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::row::{Outcome, Row};

/// The version of a program, from lines of `name=version`.
fn version<'a>(versions: &'a str, name: &str) -> &'a str {
    let found = versions.lines().find_map(|line| line.split_once('=').filter(|(of, _)| *of == name));
    found.map_or("unknown", |(_, version)| version)
}

/// A row's line on the terminal, with what it and its twin have shown.
pub fn line(outcome: &Outcome<'_>) -> String {
    let (Row { name, what, twin_what, .. }, seconds) = (outcome.row, outcome.seconds);
    match (&outcome.evidence, &outcome.refusal) {
        (Err(failure), _) => format!("FAILED {name}: {failure:#}"),
        (Ok(_), Err(failure)) => format!("FAILED {name}: its twin ({twin_what}): {failure:#}"),
        (Ok(evidence), Ok(refusal)) => {
            let counted = evidence.counters.iter().map(|(end, counted)| format!("{end} {counted}"));
            let shown = counted.chain([evidence.wire.to_string(), evidence.figures.clone()]);
            let shown: Vec<_> = shown.filter(|shown| !shown.is_empty()).collect();
            format!(
                "passed {name} ({seconds:.1} s): {what}\n    {}\n    twin: {twin_what}: {refusal}",
                shown.join("; ")
            )
        }
    }
}

/// Writes the outcomes of all rows, a short line for each: the terminal has had the rest.
pub fn write(path: &Path, versions: &str, outcomes: &[Outcome<'_>]) -> Result<()> {
    let passed = outcomes.iter().filter(|outcome| outcome.has_passed()).count();
    let mut text = format!(
        "# Wireseal and Linux's TCP-AO\n\n\
         Written by `interop/linux/run` on {} at commit {}; [README.md](README.md) says what decides a row. Linux {} (Debian {}), \
         without TCP-AO {}, BIRD {}, FRR {}, GoBGP {}, ExaBGP {}, QEMU {}, rustc {}. {passed} rows passed, {} failed.\n\n\
         | row | what was done | outcome | seconds |\n\
         |---|---|---|---|\n",
        version(versions, "date"),
        version(versions, "commit"),
        version(versions, "kernel"),
        version(versions, "kernel_package"),
        version(versions, "own_kernel"),
        version(versions, "bird"),
        version(versions, "frr"),
        version(versions, "gobgpd"),
        version(versions, "exabgp"),
        version(versions, "qemu"),
        version(versions, "rustc"),
        outcomes.len() - passed,
    );
    for outcome in outcomes {
        let result = match (&outcome.evidence, &outcome.refusal) {
            (Err(_), _) => "FAILED",
            (Ok(_), Err(_)) => "FAILED by its twin",
            (Ok(_), Ok(_)) => "passed",
        };
        let (row, seconds) = (outcome.row, outcome.seconds);
        writeln!(text, "| {} | {} | {result} | {seconds:.1} |", row.name, row.in_short())?;
    }
    fs::write(path, text)?;
    Ok(())
}
