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

pub(super) fn run(Arguments { shell }: Arguments, program: Command) -> Result {
    let mut program = without_hidden(&program);
    // Into memory first, because the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "wireseal", &mut script);
    let mut output = io::stdout().lock();
    output.write_all(&script)?;
    output.flush()?;
    Ok(Outcome::Good)
}

/// A command with what is shown of it: the generators offer hidden options, too.
fn without_hidden(command: &Command) -> Command {
    let mut shown = Command::new(command.get_name().to_owned());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned());
    }
    shown
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(without_hidden))
}
