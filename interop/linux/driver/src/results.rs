//! RESULTS.md, and the lines on the terminal.

use anyhow::Result;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::row::{Evidence, Outcome, Row};

/// The version of a program, from lines of `name=version`.
fn version<'a>(versions: &'a str, name: &str) -> &'a str {
    let found = versions.lines().find_map(|line| line.split_once('=').filter(|(of, _)| *of == name));
    found.map_or("unknown", |(_, version)| version)
}

/// A row's line on the terminal.
pub fn line(outcome: &Outcome<'_>) -> String {
    let (name, seconds) = (&outcome.row.name, outcome.seconds);
    match (&outcome.evidence, &outcome.refusal) {
        (Err(failure), _) => format!("FAILED {name}: {failure:#}"),
        (Ok(_), Err(failure)) => format!("FAILED {name}: its twin: {failure:#}"),
        (Ok(evidence), Ok(refusal)) => {
            format!(
                "passed {name} ({seconds:.1} s): {}; {}; twin: {refusal}",
                evidence.figures, evidence.wire
            )
        }
    }
}

pub fn write(path: &Path, versions: &str, outcomes: &[Outcome<'_>]) -> Result<()> {
    let passed = outcomes.iter().filter(|outcome| outcome.has_passed()).count();
    let mut text = format!(
        "# Wireseal and Linux's TCP-AO\n\n\
         Written by `interop/linux/run`; [README.md](README.md) says what decides a row. Linux {} (Debian {}), without TCP-AO {}, BIRD {}, \
         FRR {}, GoBGP {}, ExaBGP {}, QEMU {}, rustc {}. {passed} rows passed, {} failed.\n\n\
         | row | what was done | counted | on the wire | figures | negative twin | what refused it | outcome | seconds |\n\
         |---|---|---|---|---|---|---|---|---|\n",
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
        let (counted, wire, figures, mut result) = match &outcome.evidence {
            Ok(Evidence { counters, wire, figures, .. }) => {
                let counted = counters.iter().map(|(end, counted)| format!("{end}: {counted}"));
                let counted = counted.collect::<Vec<_>>().join("<br>");
                (counted, wire.to_string(), figures.as_str(), "passed".to_owned())
            }
            Err(failure) => (String::new(), String::new(), "", format!("FAILED: {failure:#}")),
        };
        let refusal = match &outcome.refusal {
            Ok(refusal) => refusal.to_string(),
            Err(failure) => {
                result = if outcome.evidence.is_ok() { "FAILED by its twin".to_owned() } else { result };
                format!("FAILED: {failure:#}")
            }
        };
        let (Row { name, what, twin_what, .. }, seconds) = (outcome.row, outcome.seconds);
        writeln!(
            text,
            "| {name} | {what} | {counted} | {wire} | {figures} | {twin_what} | {refusal} | {result} | {seconds:.1} |"
        )?;
    }
    fs::write(path, text)?;
    Ok(())
}
