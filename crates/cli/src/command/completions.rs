//! `wireseal completions`: completions for shells.

use std::io::{self, Write};

use clap::Command;
use clap_complete::Shell;

use super::outcome::{Outcome, Result};

/// Print completions for a shell
///
/// For bash: wireseal completions bash > ~/.local/share/bash-completion/completions/wireseal
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(super) fn run(Arguments { shell }: Arguments, mut program: Command) -> Result {
    // Into memory first, because the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "wireseal", &mut script);
    let mut output = io::stdout().lock();
    output.write_all(&script)?;
    output.flush()?;
    Ok(Outcome::Good)
}
