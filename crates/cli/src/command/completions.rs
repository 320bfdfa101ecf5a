//! `wireseal completions`: completions for shells.

use std::io::{self, BufWriter, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Outcome, Result};

/// Print completions for a shell
///
/// For bash: wireseal completions bash > ~/.local/share/bash-completion/completions/wireseal
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(super) fn run(Arguments { shell }: Arguments) -> Result {
    // Into memory first, because the generator would panic on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::Arguments::command(), "wireseal", &mut script);
    let mut output = BufWriter::new(io::stdout().lock());
    output.write_all(&script)?;
    output.flush()?;
    Ok(Outcome::Good)
}
