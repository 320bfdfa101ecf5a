//! `wireseal probe`: what this host has, and what to do.

use std::io::{self, Write};

use wireseal_agent::probe::{Daemons, probe};

use super::outcome::{Outcome, Result};
use crate::probe::{Answer, Findings, Setting, is_roots_program, json, steps, text};
use crate::report::colours_wanted;

/// See what protects each routing session of this host, and what to do about the others
///
/// It looks at the sessions and listeners of BGP, LDP, MSDP, PCEP, RTR and BMP in all network namespaces and VRFs that it may see, and at
/// what the kernel and the daemons can do. It ends with commands to paste. It changes nothing, executes no other program, and
/// prints no secret. Without root it sees less, and says what.
///
/// Exit codes: 0 everything is protected, or there is nothing to protect; 1 something is not protected; 2 the command line cannot be
/// used; 3 nothing unprotected was found, but something could not be judged or seen. TCP-MD5 counts as protected.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result {
    let daemons = Daemons::default();
    let findings = Findings::new(probe(), |process| daemons.of(process), is_roots_program);
    let setting = Setting::of_this_machine();
    let steps = steps(&findings, &setting);
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &json(&findings, &steps)).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        text(&mut out, &findings, &steps, &setting, colours_wanted())?;
    }
    Ok(match findings.answer() {
        Answer::Protected => Outcome::Good,
        Answer::Unprotected => Outcome::Failed,
        Answer::NotJudged => Outcome::NotJudged,
    })
}
